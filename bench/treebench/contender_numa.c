/*-------------------------------------------------------------------------
 *
 * contender_numa.c
 *	  The tree of src/btree as a contender, by the calls that the access
 *	  method makes: a lookup is a scan from a key to itself.
 *
 * A value is the entry's TID.  Lists of visited pages need to look below the
 * tree's interface, at its descents.
 *
 * IDENTIFICATION
 *	  bench/treebench/contender_numa.c
 *
 *-------------------------------------------------------------------------
 */
#include "contender.h"
#include "btree/page.h"

#include <pthread.h>
#include <stdio.h>

bool tb_huge_pages = false;

typedef struct Tree
{
	NmPool *pool;
	NmTreeShared *shared;
	void *book; /* the pool's book-keeping */
	pthread_mutex_t lock;
} Tree;

typedef struct Session
{
	NmTree tree;
	NmScan scan;
	NmBatch batch;
	void *scratch;
	char message[256];
	/* nm_relocate_want's view of a range */
	NmPageNo *leaves;
	size_t nleaves,
		cap;
	int arena;
} Session;

static void
lock_pool(void *arg)
{
	(void) pthread_mutex_lock(arg);
}

static void
unlock_pool(void *arg)
{
	(void) pthread_mutex_unlock(arg);
}

static void *
tree_open(uint64_t entries, int sessions, int narenas, const int *nodes)
{
	Tree *t = calloc(1, sizeof(Tree));
	size_t bytes = (size_t) entries * 40 + (64 << 20);
	NmPoolConfig config;
	char err[256];
	NmTree handle;
	void *scratch = calloc(1, nm_tree_scratch_size());

	memset(&config, 0, sizeof(config));
	pthread_mutex_init(&t->lock, NULL);
	config.narenas = narenas;
	config.huge_pages = tb_huge_pages;
	for (int i = 0; i < narenas; i++)
		config.nodes[i] = nodes[i];
	config.arena_bytes = bytes / NM_CHUNK_SIZE * NM_CHUNK_SIZE;
	config.memory_limit = config.arena_bytes * (size_t) narenas;
	config.nslots = sessions + 1;
	config.lock = lock_pool;
	config.unlock = unlock_pool;
	config.lock_arg = &t->lock;
	t->book = calloc(1, nm_pool_shared_size(&config) + 64);
	t->pool = nm_pool_create(&config, (void *) (((uintptr_t) t->book + 63) & ~(uintptr_t) 63), err, sizeof(err));
	if (t->pool == NULL)
	{
		fprintf(stderr, "treebench: pool: %s\n", err);
		exit(1);
	}
	t->shared = aligned_alloc(64, (sizeof(NmTreeShared) + 63) / 64 * 64);
	memset(t->shared, 0, sizeof(*t->shared));
	t->shared->layout = NM_LAYOUT_FIXED;
	t->shared->fillfactor = 90;
	nm_epoch_attach(t->pool, sessions);
	nm_tree_open(&handle, t->pool, t->shared, scratch);
	if (nm_tree_create(&handle) != NM_OK)
	{
		fprintf(stderr, "treebench: tree: %s\n", nm_pool_error_text(handle.pool_error));
		exit(1);
	}
	nm_epoch_detach(t->pool);
	free(scratch);
	return t;
}

static void
tree_close(void *tree)
{
	Tree *t = tree;

	nm_pool_destroy(t->pool);
	free(t->book);
	free(t->shared);
	free(t);
}

static void *
tree_begin(void *tree, int session)
{
	Tree *t = tree;
	Session *s = aligned_alloc(64, (sizeof(Session) + 63) / 64 * 64);

	memset(s, 0, sizeof(*s));
	s->scratch = calloc(1, nm_tree_scratch_size());
	nm_epoch_attach(t->pool, session);
	nm_tree_open(&s->tree, t->pool, t->shared, s->scratch);
	return s;
}

static void
tree_end(void *session)
{
	Session *s = session;

	nm_tree_close(&s->tree);
	nm_epoch_detach(s->tree.pool);
	free(s->leaves);
	free(s->scratch);
	free(s);
}

static bool
tree_insert(void *session, int64_t key, uint64_t value)
{
	Session *s = session;
	NmItem item = {.key = key};

	return nm_tree_insert(&s->tree, &item, value, NULL, NULL) == NM_OK;
}

static bool
tree_get(void *session, int64_t key, uint64_t *value)
{
	Session *s = session;
	NmBound lo;
	NmBound hi;

	nm_bound_clear(&lo);
	lo.item.key = key;
	nm_bound_clear(&hi);
	hi.item.key = key;
	hi.tid = NM_TID_MAX;
	nm_scan_init(&s->scan, &s->tree, NM_FORWARD, &lo, &hi);
	if (nm_scan_next(&s->scan, &s->batch) != NM_OK)
		return false;
	*value = s->batch.tids[0];
	return true;
}

static int
tree_scan(void *session, int64_t from, int max, uint64_t *sum)
{
	Session *s = session;
	NmBound lo;
	NmBound hi;
	int have = 0;

	nm_bound_clear(&lo);
	lo.item.key = from;
	nm_bound_clear(&hi);
	hi.infinite = 1;
	nm_scan_init(&s->scan, &s->tree, NM_FORWARD, &lo, &hi);
	for (;;)
	{
		s->scan.most = max - have;
		if (nm_scan_next(&s->scan, &s->batch) != NM_OK)
			return have;
		*sum += tb_sum(s->batch.tids, s->batch.n);
		have += s->batch.n;
		if (have == max)
			return have;
	}
}

static void
tree_size(void *session, TbSize *size)
{
	Session *s = session;
	NmTreeStats stats;

	(void) nm_tree_stats(&s->tree, &stats, NULL, NULL);
	size->entries = (uint64_t) stats.entries;
	size->leaves = (uint64_t) stats.leaves;
	size->inner = (uint64_t) stats.inner;
	size->height = stats.height;
}

static const char *
tree_check(void *session)
{
	Session *s = session;

	return nm_tree_check(&s->tree, NM_CHECK_QUIET, s->message, sizeof(s->message), NULL, NULL) == NM_OK ? NULL : s->message;
}

/*
 * The page of a level that covers a place, and the key its range ends before.
 * False: it is the level's last.
 */
static bool
page_at(Session *s, const NmBound *place, int level, NmPageNo *no, NmKeyCopy *high)
{
	for (;;)
	{
		NmPos pos;
		uint16_t flags;
		bool good;

		if (nm_descend(&s->tree, place, level, false, false, &pos, NULL, NULL) != NM_OK)
		{
			*no = NM_NO_PAGE; /* the tree has no such level */
			return false;
		}
		nm_racy_copy(&flags, &pos.page->flags, sizeof(flags));
		*no = pos.no;
		good = (flags & NM_PF_HIGH) == 0 || high == NULL || nm_entry_copy(&s->tree, pos.page, -1, high);
		good = good && nm_page_validate(pos.page, pos.version);
		nm_epoch_exit(s->tree.pool);
		if (good)
			return (flags & NM_PF_HIGH) != 0;
	}
}

static size_t
tree_paths(void *session, int64_t from, int64_t to, void **pages, size_t max)
{
	Session *s = session;
	NmKeyCopy high;
	NmBound place = {.item = {.key = from}, .tid = NM_TID_MIN};
	size_t total = 0;

	for (;;)
	{
		NmPageNo no;
		bool more;

		for (int level = nm_root_level(nm_root_word(&s->tree)); level > 0; level--)
		{
			(void) page_at(s, &place, level, &no, NULL);
			if (no != NM_NO_PAGE && total < max)
				pages[total] = nm_pool_page(s->tree.pool, no);
			total += no != NM_NO_PAGE;
		}
		more = page_at(s, &place, 0, &no, &high);
		if (total < max)
			pages[total] = nm_pool_page(s->tree.pool, no);
		total++;
		if (!more || high.item.key > to)
			return total;
		place.item.key = high.item.key;
		place.tid = high.tid;
	}
}

static int
compare_numbers(const void *a, const void *b)
{
	NmPageNo x = *(const NmPageNo *) a;
	NmPageNo y = *(const NmPageNo *) b;

	return (x > y) - (x < y);
}

/* NmRelocate.want: leaves of the range go, their parent's other children stay. */
static int
wanted(void *arg, NmPageNo page, uint64_t lid)
{
	Session *s = arg;

	(void) lid;
	return bsearch(&page, s->leaves, s->nleaves, sizeof(page), compare_numbers) != NULL ? s->arena : -1;
}

static size_t
tree_relocate(void *session, int64_t from, int64_t to, int node)
{
	Session *s = session;
	NmKeyCopy high;
	NmBound place = {.item = {.key = from}, .tid = NM_TID_MIN};
	NmRelocate job = {.want = wanted, .arg = s, .max_pages = 0};
	NmPageNo parent;
	NmPageNo last;
	NmPageNo no;
	NmStatus st = NM_OK;

	s->arena = nm_pool_arena_of_node(s->tree.pool, node);
	s->nleaves = 0;
	for (;;)
	{
		bool more = page_at(s, &place, 0, &no, &high);

		if (s->nleaves == s->cap)
		{
			s->cap = s->cap ? s->cap * 2 : 1024;
			s->leaves = realloc(s->leaves, s->cap * sizeof(NmPageNo));
		}
		s->leaves[s->nleaves++] = no;
		if (!more || high.item.key > to)
			break;
		place.item.key = high.item.key;
		place.tid = high.tid;
	}
	qsort(s->leaves, s->nleaves, sizeof(NmPageNo), compare_numbers);

	/* the job's resume point is a parent: start at the range's first one */
	(void) page_at(s, &place, 1, &last, NULL);
	place.item.key = from;
	place.tid = NM_TID_MIN;
	(void) page_at(s, &place, 1, &parent, NULL);
	if (parent != NM_NO_PAGE)
	{
		job.parent = parent;
		nm_racy_copy(&job.parent_lid, &nm_page(&s->tree, parent)->lid, sizeof(job.parent_lid));
	}
	while (st == NM_OK && !job.done)
	{
		NmPageNo at = job.parent;

		st = nm_tree_relocate(&s->tree, &job);
		if (at == last || job.asked >= (int64_t) s->nleaves)
			break;
	}
	return (size_t) job.moved;
}

const Contender contender_numa = {
	.name = "numa",
	.open = tree_open,
	.close = tree_close,
	.begin = tree_begin,
	.end = tree_end,
	.insert = tree_insert,
	.get = tree_get,
	.scan = tree_scan,
	.size = tree_size,
	.check = tree_check,
	.paths = tree_paths,
	.relocate = tree_relocate,
};

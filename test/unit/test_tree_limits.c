/*-------------------------------------------------------------------------
 *
 * test_tree_limits.c
 *	  The tree when memory or a comparator fails, at every point where it can.
 *
 * All free pages of the pool are hoarded except a given number, so that the
 * n-th allocation of an operation fails.  A comparator raises by longjmp at a
 * given call.  After each failure the tree must be valid, hold what it held,
 * and work on once the cause is gone.
 *
 * IDENTIFICATION
 *	  test/unit/test_tree_limits.c
 *
 *-------------------------------------------------------------------------
 */
#include "treelib.h"

#include "btree/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Rng rng;

/* ---- hoarding ---- */

typedef struct Hoard
{
	NmPool *pool;
	NmPageNo *pages;
	int n;
} Hoard;

/* Leave exactly this many pages to be had. */
static void
hoard(Hoard *h, NmPool *pool, int leave)
{
	NmPageNo page;

	if (h->pages == NULL)
		h->pages = malloc((size_t) pool->pages_per_arena * pool->narenas * sizeof(NmPageNo));
	h->pool = pool;
	nm_pool_reclaim(pool);
	while (h->n > 0 && leave > 0)
	{
		nm_pool_free(pool, h->pages[--h->n]);
		leave--;
	}
	if (leave > 0 || h->n == 0)
	{
		while ((page = nm_pool_alloc(pool, 0, false, NULL, NULL)) != NM_NO_PAGE)
			h->pages[h->n++] = page;
		while (leave-- > 0 && h->n > 0)
			nm_pool_free(pool, h->pages[--h->n]);
	}
}

static void
hoard_all(Hoard *h)
{
	NmPageNo page;

	nm_pool_reclaim(h->pool);
	while ((page = nm_pool_alloc(h->pool, 0, false, NULL, NULL)) != NM_NO_PAGE)
		h->pages[h->n++] = page;
}

static void
hoard_end(Hoard *h)
{
	while (h->n > 0)
		nm_pool_free(h->pool, h->pages[--h->n]);
}

static void
insert_or_fault(NmTree *tree, Model *m, int k, uint64_t tid)
{
	NmStatus st = nm_tree_insert(tree, &m->u->items[k], tid, NULL, NULL);

	if (st == NM_OK)
		model_add(m, k, tid);
	else
		fault("insert: %s", status_name(st));
}

static int
want_arena(void *arg, NmPageNo page, uint64_t lid)
{
	(void) page;
	(void) lid;
	return *(int *) arg;
}

static int
want_none(void *arg, NmPageNo page, uint64_t lid)
{
	(void) page;
	(void) lid;
	++*(int *) arg;
	return -1;
}

/* Every leaf can be reached from its parent, not only from its left sibling. */
static void
verify_linked(NmTree *tree, const char *when)
{
	int calls = 0;
	NmRelocate job = {.want = want_none, .arg = &calls, .max_pages = 1000};
	NmTreeStats stats;

	do
	{
		if (nm_tree_relocate(tree, &job) != NM_OK)
		{
			fault("%s: relocate", when);
			return;
		}
	} while (!job.done);
	nm_tree_stats(tree, &stats, NULL, NULL);
	if (calls != stats.leaves || job.asked != 0 || job.moved != 0)
		fault("%s: of %lld leaves only %d have a parent", when, (long long) stats.leaves, calls);
}

/* ---- memory ---- */

/*
 * Inserts with 0, 1, 2, ... pages to be had; each failure is looked at, then
 * the same insert is done with one page more until it goes.
 */
static void
test_insert_no_memory(const char *name, Universe *u, int ninserts)
{
	NmPool *pool = pool_make(2, 8, 16, 4);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *tree = handle_open(pool, shared, u, false);
	Hoard h = {0};
	Model m;
	int refused = 0;
	int most = 0;
	uint64_t root;
	uint64_t before = pool_live_pages(pool);

	model_init(&m, u);
	hoard(&h, pool, 0);
	if (nm_tree_create(tree) != NM_NO_MEMORY || tree->pool_error == NM_POOL_OK || shared->root != 0)
		fault("create without memory");
	hoard(&h, pool, 1);
	if (nm_tree_create(tree) != NM_OK)
		fault("create with one page");
	hoard_all(&h);

	for (int i = 0; i < ninserts && faults_so_far() == 0; i++)
	{
		int k = (int) rng_below(&rng, (uint64_t) u->n);
		uint64_t tid = make_tid((uint64_t) i, 1 + (uint64_t) i % 50);
		NmStatus st;
		int given = 0;
		uint64_t used = pool_live_pages(pool);

		while ((st = nm_tree_insert(tree, &u->items[k], tid, NULL, NULL)) == NM_NO_MEMORY)
		{
			refused++;
			if (tree->pool_error == NM_POOL_OK)
				fault("no memory, and no reason");
			if (nm_epoch_inside(pool) || nm_version_locks_held())
				fault("refused with a section or a lock");
			hoard_all(&h);
			if (pool_live_pages(pool) != used)
				fault("a refused insert changed the pages in use");
			/* the whole tree at times, the neighbourhood always */
			if (refused % 16 == 0)
				verify_tree(tree, &m, "after a refused insert");
			if (given > 60)
			{
				fault("insert wants more than %d pages", given);
				break;
			}
			given++;
			hoard(&h, pool, given);
		}
		if (given > most)
			most = given;
		if (st == NM_OK)
			model_add(&m, k, tid);
		else if (st != NM_EXISTS)
			fault("insert: %s", status_name(st));
		hoard_all(&h);
	}
	verify_tree(tree, &m, "after all inserts");
	verify_linked(tree, "after inserts that just had memory enough");
	diag("%s: %d entries, %d refusals, up to %d pages wanted at once, height %d", name, m.n, refused, most,
		 (int) (shared->root >> 32) + 1);

	/* shrinking must need no memory at all */
	for (int i = 0; i < ninserts / 2 && m.n > 0; i++)
	{
		int at = (int) rng_below(&rng, (uint64_t) m.n);
		NmStatus st;

		hoard_all(&h);
		st = nm_tree_delete(tree, &u->items[m.e[at].k], m.e[at].tid);
		if (st != NM_OK)
			fault("delete without memory: %s", status_name(st));
		model_remove(&m, at);
	}
	verify_tree(tree, &m, "after deletes without memory");
	hoard_end(&h);
	for (int i = 0; i < 500; i++)
		insert_or_fault(tree, &m, (int) rng_below(&rng, (uint64_t) u->n), make_tid((uint64_t) (ninserts + i), 1));
	verify_tree(tree, &m, "with memory again");

	handle_close(tree);
	root = nm_tree_detach(shared);
	nm_tree_free_pages(pool, u->layout, root);
	nm_pool_reclaim(pool);
	if (pool_live_pages(pool) != before)
		fault("%llu pages left over", (unsigned long long) (pool_live_pages(pool) - before));
	ok(faults() == 0 && refused > 10, "no memory in inserts: %s", name);
	free(h.pages);
	model_free(&m);
	pool_unmake(pool);
	universe_free(u);
}

/* Bulk load that fails at its n-th page, for every n; then it succeeds. */
static void
test_bulk_no_memory(const char *name, Universe *u, int nentries)
{
	NmPool *pool = pool_make(1, 8, 8, 4);
	NmTreeShared *shared = shared_make(u, 80);
	NmTree *tree = handle_open(pool, shared, u, false);
	NmBulk *bulk = aligned_alloc(64, (nm_bulk_size() + 63) / 64 * 64);
	Hoard h = {0};
	Model m;
	NmStatus st = NM_NO_MEMORY;
	int given;
	uint64_t root;
	uint64_t before = pool_live_pages(pool);

	model_init(&m, u);
	while (m.n < nentries)
	{
		int k = (int) rng_below(&rng, (uint64_t) u->n);
		uint64_t tid = make_tid(rng_below(&rng, 100000), 1 + rng_below(&rng, 100));

		if (model_get(&m, k, tid) == NULL)
			model_add(&m, k, tid);
	}
	for (given = 0; given < 1000 && st != NM_OK && faults_so_far() == 0; given++)
	{
		uint64_t used;

		hoard(&h, pool, given);
		used = pool_live_pages(pool);
		nm_bulk_begin(bulk, tree, 0);
		st = NM_OK;
		for (int i = 0; i < m.n && st == NM_OK; i++)
			st = nm_bulk_add(bulk, &u->items[m.e[i].k], m.e[i].tid);
		if (st == NM_OK)
			st = nm_bulk_finish(bulk);
		if (st == NM_OK)
			break;
		if (st != NM_NO_MEMORY || tree->pool_error == NM_POOL_OK)
			fault("bulk load: %s", status_name(st));
		nm_bulk_abort(bulk);
		if (shared->root != 0)
			fault("an aborted load is published");
		if (pool_live_pages(pool) != used)
			fault("an aborted load keeps %lld pages", (long long) (pool_live_pages(pool) - used));
		hoard_all(&h);
	}
	if (st == NM_OK)
		verify_tree(tree, &m, "after the load that succeeds");
	/* abort of a whole load gives everything back, too */
	hoard_end(&h);
	handle_close(tree);
	root = nm_tree_detach(shared);
	nm_tree_free_pages(pool, u->layout, root);
	nm_pool_reclaim(pool);
	if (pool_live_pages(pool) != before)
		fault("%llu pages left over", (unsigned long long) (pool_live_pages(pool) - before));
	ok(faults() == 0 && st == NM_OK && given > 5, "no memory in bulk loads: %s (%d entries need %d pages)", name, m.n, given);
	free(bulk);
	free(h.pages);
	model_free(&m);
	pool_unmake(pool);
	universe_free(u);
}

/* Relocation to an arena that has no room moves what it can and says so. */
static void
test_relocate_no_memory(void)
{
	Universe *u = universe_general(&rng, 2000, true, false, 300);
	NmPool *pool = pool_make(2, 2, 4, 4);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *tree = handle_open(pool, shared, u, false);
	Model m;
	int target = 1;
	NmRelocate job = {.want = want_arena, .arg = &target, .max_pages = 10};
	NmPageNo taken[NM_CHUNK_PAGES + 1];
	int ntaken = 0;
	int64_t leaves;
	NmTreeStats stats;

	model_init(&m, u);
	nm_tree_create(tree);
	for (int i = 0; i < 2000; i++)
		insert_or_fault(tree, &m, (int) rng_below(&rng, (uint64_t) u->n), make_tid((uint64_t) i, 1));
	while ((taken[ntaken] = nm_pool_alloc(pool, 1, true, NULL, NULL)) != NM_NO_PAGE)
		ntaken++;
	for (int i = 0; i < 7; i++)
		nm_pool_free(pool, taken[--ntaken]);
	nm_tree_stats(tree, &stats, NULL, NULL);
	leaves = stats.leaves;
	while (!job.done)
		if (nm_tree_relocate(tree, &job) != NM_OK)
		{
			fault("relocate");
			break;
		}
	if (leaves < 20 || job.moved != 7 || job.nomem != leaves - 7 || job.asked != leaves)
		fault("%lld leaves, room for 7: asked %lld, moved %lld, nomem %lld", (long long) leaves,
			  (long long) job.asked, (long long) job.moved, (long long) job.nomem);
	verify_tree(tree, &m, "after a relocation without memory");
	while (ntaken > 0)
		nm_pool_free(pool, taken[--ntaken]);
	memset(&job, 0, sizeof(job));
	job.want = want_arena;
	job.arg = &target;
	job.max_pages = 10;
	while (!job.done)
		if (nm_tree_relocate(tree, &job) != NM_OK)
			break;
	nm_tree_stats(tree, &stats, NULL, NULL);
	if (job.already != 7 || job.moved != leaves - 7 || stats.leaves_by_arena[1] != leaves)
		fault("the rest: already %lld, moved %lld", (long long) job.already, (long long) job.moved);
	/* inner pages and the root, level by level */
	for (job.level = 1; job.level <= (int) (shared->root >> 32); job.level++)
	{
		job.parent = NM_NO_PAGE;
		do
		{
			if (nm_tree_relocate(tree, &job) != NM_OK)
			{
				fault("relocate level %d", job.level);
				break;
			}
		} while (!job.done);
	}
	nm_tree_stats(tree, &stats, NULL, NULL);
	if (stats.pages_by_arena[1] != stats.leaves + stats.inner + stats.overflow)
		fault("%lld pages of %lld in the target", (long long) stats.pages_by_arena[1],
			  (long long) (stats.leaves + stats.inner + stats.overflow));
	verify_tree(tree, &m, "after relocation of all levels");
	ok(faults() == 0, "relocation: without room, with room, all levels (%lld leaves, %d levels)",
	   (long long) leaves, stats.height);
	handle_close(tree);
	model_free(&m);
	pool_unmake(pool);
	universe_free(u);
}

/* ---- errors ---- */

/* Pages that wait for their right sibling's downlink. */
static int
pending_marks(NmTree *tree)
{
	int marks = 0;
	NmPageNo no;

	for (int level = 0; nm_leftmost(tree, level, &no) == NM_OK; level++)
	{
		while (no != NM_NO_PAGE)
		{
			const NmPage *p = nm_page(tree, no);

			marks += (p->flags & NM_PF_PENDING) != 0;
			no = p->right;
		}
	}
	return marks;
}

static bool
nothing_is_dead(void *arg, uint64_t tid)
{
	(void) arg;
	(void) tid;
	return false;
}

/*
 * Each operation raises at its first, second, ... call of the comparator until
 * it gets through.
 */
static void
test_raise(const char *name, bool heads, bool leave_epoch, uint32_t max_len)
{
	Universe *u = universe_general(&rng, 800, heads, false, max_len);
	NmPool *pool = pool_make(2, 16, 32, 4);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *tree = handle_open(pool, shared, u, leave_epoch);
	CompareArg *ca = handle_arg(tree);
	Model m;
	uint64_t before = pool_live_pages(pool);
	uint64_t root;
	static volatile int raised;
	static NmBatch b;
	NmVacuum vac = {.dead = nothing_is_dead};
	int marks;

	raised = 0;
	model_init(&m, u);
	nm_tree_create(tree);
	for (int i = 0; i < scaled(1500) + 300 && faults_so_far() == 0; i++)
	{
		int k = (int) rng_below(&rng, (uint64_t) u->n);
		uint64_t tid = make_tid(rng_below(&rng, 40), 1);
		int what = (int) rng_below(&rng, 10);
		volatile uint64_t at = 1 + rng_below(&rng, 3);
		static volatile NmStatus st;
		static volatile int shown;

		for (;;)
		{
			volatile bool jumped = false;

			ca->calls = 0;
			ca->jump_at = at;
			if (setjmp(ca->jump) == 0)
			{
				if (what < 6)
					st = nm_tree_insert(tree, &u->items[k], tid, NULL, NULL);
				else if (what < 8)
					st = nm_tree_delete(tree, &u->items[k], tid);
				else
				{
					NmBound lo = {.item = u->items[k], .tid = NM_TID_MIN};
					NmBound hi = {.item = u->items[k], .tid = NM_TID_MAX};
					NmScan scan;

					shown = 0;
					nm_scan_init(&scan, tree, what == 8 ? NM_FORWARD : NM_BACKWARD, &lo, &hi);
					while ((st = nm_scan_next(&scan, &b)) == NM_OK)
						shown += b.n;
				}
			}
			else
			{
				jumped = true;
				raised++;
				if (nm_version_locks_held())
					fault("a version lock is held when the comparator raises");
				if (leave_epoch && nm_epoch_inside(pool))
					fault("the section is open when the comparator raises");
				nm_epoch_reset(pool);
			}
			ca->jump_at = 0;
			if (!jumped)
				break;
			/* done or not done, nothing between; an insert may be in */
			if (what < 8)
			{
				NmBound lo = {.item = u->items[k], .tid = tid};
				NmBound hi = {.item = u->items[k], .tid = tid + 1};
				NmScan scan;
				Entry *e = model_get(&m, k, tid);
				bool is;

				nm_scan_init(&scan, tree, NM_FORWARD, &lo, &hi);
				is = nm_scan_next(&scan, &b) == NM_OK;
				if (is && e == NULL && what < 6)
					model_add(&m, k, tid);
				else if (!is && e != NULL && what >= 6)
					model_remove(&m, (int) (e - m.e));
				else if (is != (e != NULL))
					fault("an operation that raised did something else");
			}
			if (raised % 20 == 0)
				verify_tree(tree, &m, "after an error in the comparator");
			at++;
		}
		{
			Entry *e = model_get(&m, k, tid);

			if (what < 6)
			{
				if (st != (e ? NM_EXISTS : NM_OK))
					fault("insert after errors: %s", status_name(st));
				if (e == NULL)
					model_add(&m, k, tid);
			}
			else if (what < 8)
			{
				if (st != (e ? NM_OK : NM_NOT_FOUND))
					fault("delete after errors: %s", status_name(st));
				if (e != NULL)
					model_remove(&m, (int) (e - m.e));
			}
			else
			{
				int from = model_find(&m, u->klass[k], NM_TID_MIN);
				int to = model_find(&m, u->klass[k] + 1, NM_TID_MIN);

				if (st != NM_END || shown != to - from)
					fault("scan after errors: %s, %d shown, expected %d", status_name(st), shown, to - from);
			}
		}
	}
	verify_tree(tree, &m, "after all");

	/* errors between a split's two steps left marks; vacuum makes the second step */
	marks = pending_marks(tree);
	if (marks == 0 && leave_epoch && max_len == NM_MAX_KEY_SIZE)
		fault("no split lost its second step");
	if (nm_tree_vacuum(tree, &vac) != NM_OK || vac.removed != 0)
		fault("vacuum");
	if (pending_marks(tree) != 0)
		fault("%d of %d marks are left after vacuum", pending_marks(tree), marks);
	verify_tree(tree, &m, "after vacuum linked what was not");
	/* pages in a handle's stash at the error come back with the handle */
	handle_close(tree);
	root = nm_tree_detach(shared);
	nm_tree_free_pages(pool, u->layout, root);
	nm_pool_reclaim(pool);
	if (pool_live_pages(pool) != before)
		fault("%lld pages are lost", (long long) (pool_live_pages(pool) - before));
	ok(faults() == 0 && raised > 100, "comparators that raise: %s (%d errors, %d entries, %llu splits, %d linked by vacuum)", name,
	   raised, m.n, (unsigned long long) shared->splits, marks);
	model_free(&m);
	pool_unmake(pool);
	universe_free(u);
}

/* ---- the end of a tree, and another in its place ---- */

static void
test_gone(NmLayout layout)
{
	Universe *u = layout == NM_LAYOUT_FIXED ? universe_fixed(&rng, 3000, true, false)
											: universe_general(&rng, 1000, true, false, 200);
	NmPool *pool = pool_make(1, 8, 8, 4);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *old = handle_open(pool, shared, u, true);
	NmTree *new;
	Model m;
	static NmBatch b,
		b2;
	NmScan scan,
		back;
	NmStatus st;
	NmBound place = {.tid = NM_TID_MIN};
	uint64_t root;
	NmGuard guard;
	NmGuard told;
	NmScan look;
	uint64_t token;
	int seen = 0;
	int idx = 0;
	NmVacuum vac = {0};
	NmRelocate job = {.max_pages = 1};
	NmTreeStats stats;
	char msg[100];

	model_init(&m, u);
	nm_tree_create(old);
	for (int i = 0; i < 1500; i++)
		insert_or_fault(old, &m, (int) rng_below(&rng, (uint64_t) u->n), make_tid((uint64_t) i, 3));
	nm_scan_init(&scan, old, NM_FORWARD, &bound_low, &bound_high);
	nm_scan_init(&back, old, NM_BACKWARD, &bound_low, &bound_high);
	nm_scan_next(&back, &b2);
	if (nm_scan_next(&scan, &b) == NM_OK)
		seen = b.n;

	/* a guard that knows its place, as after a look for conflicts */
	place.item = u->items[0];
	if (nm_tree_first_leaf(old, &place, &told) != NM_OK)
		fault("first_leaf");
	told.idx = 0;
	nm_scan_init(&look, old, NM_FORWARD, &place, &place);
	nm_scan_guard(&look, &told);

	root = nm_tree_detach(shared);
	token = nm_pool_grace_token(pool);
	ok(nm_pool_grace_passed(pool, token), "no section is left open");
	guard = told;
	if (nm_scan_next(&scan, &b2) != NM_GONE || nm_batch_unremoved(old, &b) || nm_tree_kill(old, &b, &idx, 1) != 0 ||
		nm_tree_insert(old, &u->items[0], make_tid(7, 7), &guard, NULL) != NM_GONE || nm_scan_next(&look, &b2) != NM_GONE ||
		nm_tree_first_leaf(old, &place, &guard) != NM_GONE || nm_tree_vacuum(old, &vac) != NM_GONE ||
		nm_tree_relocate(old, &job) != NM_GONE || nm_tree_stats(old, &stats, NULL, NULL) != NM_GONE ||
		nm_tree_check(old, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) != NM_GONE)
		fault("an operation does not say that the tree is gone");
	nm_tree_free_pages(pool, u->layout, root);
	guard = told;
	if (nm_scan_next(&scan, &b2) != NM_GONE || nm_batch_unremoved(old, &b) || nm_tree_kill(old, &b, &idx, 1) != 0 ||
		nm_tree_insert(old, &u->items[0], make_tid(7, 7), &guard, NULL) != NM_GONE || nm_scan_next(&look, &b2) != NM_GONE)
		fault("an operation looks at freed pages");

	/* the same entries in a new tree, on the old one's pages */
	new = handle_open(pool, shared, u, true);
	if (nm_tree_create(new) != NM_OK)
		fault("create again");
	for (int i = 0; i < m.n; i++)
		if (nm_tree_insert(new, &u->items[m.e[i].k], m.e[i].tid, NULL, NULL) != NM_OK)
			fault("insert again");
	verify_tree(new, &m, "the second tree");
	guard = told;
	if (nm_tree_insert(old, &u->items[0], make_tid(7, 7), NULL, NULL) != NM_GONE || nm_scan_next(&scan, &b2) != NM_GONE ||
		nm_tree_insert(old, &u->items[0], make_tid(7, 7), &guard, NULL) != NM_GONE || nm_scan_next(&look, &b2) != NM_GONE ||
		nm_tree_insert(new, &u->items[0], make_tid(7, 7), &told, NULL) != NM_STALE ||
		nm_batch_unremoved(old, &b) || nm_tree_kill(old, &b, &idx, 1) != 0)
		fault("a handle of the old tree works on the new one");

	/* a scan goes on where it was */
	scan.tree = new;
	while ((st = nm_scan_next(&scan, &b)) == NM_OK)
	{
		for (int i = 0; i < b.n; i++)
			if (seen + i >= m.n || b.tids[i] != m.e[seen + i].tid)
			{
				fault("the scan on the new tree shows another entry at %d", seen + i);
				break;
			}
		seen += b.n;
	}
	if (st != NM_END || seen != m.n)
		fault("the scan ends with %s after %d of %d", status_name(st), seen, m.n);
	ok(faults() == 0, "a tree that goes: operations, scans, and its successor (%s)",
	   layout == NM_LAYOUT_FIXED ? "fixed" : "general");
	handle_close(old);
	handle_close(new);
	model_free(&m);
	pool_unmake(pool);
	universe_free(u);
}

/* ---- a comparator that uses the handle it is called from ---- */

typedef struct Nested
{
	NmTree *tree;
	const Universe *u;
	Model *m;
	CompareArg *plain;
	int next;	 /* item for the next insert inside a comparison */
	int depth;	 /* inserts under way */
	int inserts; /* made inside a comparison */
} Nested;

/* Now and then inserts an entry through the very handle whose insert compares. */
static int
nested_compare(void *arg, const NmItem *a, const NmItem *b)
{
	Nested *n = arg;

	if (n->depth == 1 && n->next < n->u->n && rng_below(&rng, 12) == 0)
	{
		int k = n->next;

		n->next += 2;
		n->depth++;
		if (nm_tree_insert(n->tree, &n->u->items[k], make_tid(7, 1 + (uint64_t) k), NULL, NULL) != NM_OK)
			fault("nested insert");
		model_add(n->m, k, make_tid(7, 1 + (uint64_t) k));
		n->depth--;
		n->inserts++;
	}
	return tree_compare(n->plain, a, b);
}

/* Half of the keys come inside comparisons of the other half's inserts. */
static void
test_nested(uint32_t max_len)
{
	Universe *u = universe_distinct(universe_general(&rng, 3000, false, false, max_len));
	NmPool *pool = pool_make(2, 32, 64, 4);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *tree = handle_open(pool, shared, u, true);
	Nested n = {.tree = tree, .u = u, .plain = handle_arg(tree), .next = 1};
	Model m;

	model_init(&m, u);
	n.m = &m;
	if (nm_tree_create(tree) != NM_OK)
		fault("create");
	tree->compare = nested_compare;
	tree->compare_arg = &n;
	for (int k = 0; k < u->n; k += 2)
	{
		n.depth = 1;
		if (nm_tree_insert(tree, &u->items[k], make_tid(8, 1 + (uint64_t) k), NULL, NULL) != NM_OK)
			fault("insert");
		n.depth = 0;
		model_add(&m, k, make_tid(8, 1 + (uint64_t) k));
	}
	verify_tree(tree, &m, "after inserts inside comparisons");
	ok(n.inserts > 100, "keys up to %u bytes: %d inserts inside a comparison of another insert", max_len, n.inserts);
	ok(faults() == 0, "keys up to %u bytes: the tree is right after them", max_len);
	tree->compare_arg = n.plain;
	tree->compare = tree_compare;
	handle_close(tree);
	model_free(&m);
	pool_unmake(pool);
	universe_free(u);
}

int
main(void)
{
	rng.s = tap_start("test_tree_limits");
	test_insert_no_memory("fixed", universe_fixed(&rng, 3000, true, false), scaled(4000) + 2000);
	test_insert_no_memory("general, short keys", universe_general(&rng, 1000, true, false, 60), scaled(2000) + 1000);
	test_insert_no_memory("general, all lengths", universe_general(&rng, 1000, false, false, NM_MAX_KEY_SIZE), scaled(600) + 300);
	test_bulk_no_memory("fixed", universe_fixed(&rng, 3000, true, false), 6000);
	test_bulk_no_memory("general, all lengths", universe_general(&rng, 300, true, false, NM_MAX_KEY_SIZE), 200);
	test_relocate_no_memory();
	test_raise("short keys, heads", true, false, 30);
	test_raise("short keys, no heads, leaves the section", false, true, 30);
	test_raise("all lengths, leaves the section", false, true, NM_MAX_KEY_SIZE);
	test_raise("all lengths", true, false, NM_MAX_KEY_SIZE);
	test_gone(NM_LAYOUT_FIXED);
	test_gone(NM_LAYOUT_GENERAL);
	test_nested(40);
	test_nested(NM_MAX_KEY_SIZE);
	return tap_done();
}

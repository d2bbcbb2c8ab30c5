/*-------------------------------------------------------------------------
 *
 * treelib.c
 *	  Keys, comparators and a model for the tests of the tree.
 *
 * IDENTIFICATION
 *	  test/unit/treelib.c
 *
 *-------------------------------------------------------------------------
 */
#include "treelib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const NmBound bound_low = {.infinite = -1};
const NmBound bound_high = {.infinite = 1};

const char *
status_name(NmStatus st)
{
	static const char *const names[] = {"OK", "END", "NOT_FOUND", "EXISTS", "NO_MEMORY", "GONE", "STALE", "CORRUPT"};

	return (unsigned) st < sizeof(names) / sizeof(names[0]) ? names[st] : "?";
}

/* ---- keys ---- */

static inline int
folded(unsigned char c, bool fold)
{
	return fold && c >= 'a' && c <= 'z' ? c - 32 : c;
}

int
bytes_compare(const void *a, uint32_t alen, const void *b, uint32_t blen, bool fold)
{
	const unsigned char *x = a;
	const unsigned char *y = b;
	uint32_t n = alen < blen ? alen : blen;

	for (uint32_t i = 0; i < n; i++)
	{
		int d = folded(x[i], fold) - folded(y[i], fold);

		if (d != 0)
			return d;
	}
	return (alen > blen) - (alen < blen);
}

uint64_t
bytes_head(const void *data, uint32_t len, bool fold)
{
	const unsigned char *x = data;
	uint64_t head = 0;

	for (uint32_t i = 0; i < 8; i++)
		head = head << 8 | (uint64_t) (i < len ? folded(x[i], fold) : 0);
	return head;
}

/* Over folded bytes, so that it says nothing about case; a digit. */
static unsigned char
checksum(const unsigned char *x, uint32_t len)
{
	uint32_t sum = len;

	for (uint32_t i = 0; i + 1 < len; i++)
		sum = sum * 31 + (uint32_t) folded(x[i], true);
	return (unsigned char) ('0' + sum % 10);
}

#define SEAL_MIN 6

void
bytes_seal(void *data, uint32_t len, bool fold)
{
	(void) fold;
	if (len >= SEAL_MIN)
		((unsigned char *) data)[len - 1] = checksum(data, len);
}

bool
bytes_sealed(const void *data, uint32_t len)
{
	return len < SEAL_MIN || ((const unsigned char *) data)[len - 1] == checksum(data, len);
}

#define TAG_WHOLE 2
#define TAG_SPLIT 5

const void *
item_bytes(const NmItem *item, void *buf, uint32_t *len)
{
	*len = item->len;
	if (item->tag != TAG_SPLIT)
		return item->data;
	for (int i = 0; i < 8; i++)
		((unsigned char *) buf)[i] = (unsigned char) (item->head >> (56 - 8 * i));
	if (item->len <= NM_MAX_KEY_SIZE - 8)
		memcpy((char *) buf + 8, item->data, item->len);
	*len += 8;
	return buf;
}

bool
batch_shows(const NmBatch *b, int i, NmLayout layout, const NmItem *item)
{
	NmItem shown;

	nm_batch_item(b, layout, i, &shown);
	if (layout == NM_LAYOUT_FIXED)
		return shown.isnull == item->isnull && (item->isnull || shown.key == item->key);
	return shown.tag == item->tag && shown.head == item->head && shown.len == item->len &&
		   memcmp(shown.data, item->data, item->len) == 0;
}

static Universe *sorting;

static int
item_order(const void *a, const void *b)
{
	const NmItem *x = a;
	const NmItem *y = b;

	if (sorting->layout == NM_LAYOUT_FIXED)
	{
		if (x->isnull != y->isnull)
			return x->isnull == sorting->nulls_first ? -1 : 1;
		return x->isnull ? 0 : (x->key > y->key) - (x->key < y->key);
	}
	return bytes_compare(x->data, x->len, y->data, y->len, sorting->fold);
}

static void
universe_sort(Universe *u)
{
	sorting = u;
	qsort(u->items, (size_t) u->n, sizeof(NmItem), item_order);
	u->klass = calloc((size_t) u->n, sizeof(int));
	for (int i = 1; i < u->n; i++)
		u->klass[i] = u->klass[i - 1] + (item_order(&u->items[i - 1], &u->items[i]) != 0);
}

Universe *
universe_fixed(Rng *r, int n, bool nulls, bool nulls_first)
{
	Universe *u = calloc(1, sizeof(*u));
	int64_t last = INT64_MIN;
	int i = 0;

	u->layout = NM_LAYOUT_FIXED;
	u->nulls_first = nulls_first;
	u->n = n;
	u->items = calloc((size_t) n, sizeof(NmItem));
	if (nulls)
	{
		u->items[i].isnull = true;
		u->items[i++].key = (int64_t) rng_next(r); /* to be ignored */
	}
	u->items[i++].key = INT64_MIN;
	u->items[i++].key = INT64_MAX;
	u->items[i++].key = 0;
	last = 100;
	for (; i < n; i++)
	{
		/* dense runs and wide gaps */
		last += rng_below(r, 10) ? 1 : (int64_t) rng_below(r, 1000000);
		u->items[i].key = last;
	}
	/* some negative */
	for (i = 5; i < n; i += 3)
		u->items[i].key = -u->items[i].key;
	universe_sort(u);
	return u;
}

Universe *
universe_general(Rng *r, int n, bool heads, bool fold, uint32_t max_len)
{
	Universe *u = calloc(1, sizeof(*u));
	static const uint32_t special[] = {1, 7, 8, 9, 16, 255, 256, 879, 880, 881, 888, 2703, NM_MAX_KEY_SIZE};

	u->layout = NM_LAYOUT_GENERAL;
	u->heads = heads;
	u->fold = fold;
	u->n = n;
	u->items = calloc((size_t) n, sizeof(NmItem));
	for (int i = 0; i < n; i++)
	{
		uint32_t len;
		uint32_t common = (uint32_t) rng_below(r, 3) * 6; /* shared prefix */
		unsigned char *data = aligned_alloc(16, NM_MAX_KEY_SIZE + 16);

		switch (rng_below(r, 12))
		{
			case 0:
				len = special[rng_below(r, sizeof(special) / sizeof(special[0]))];
				break;
			case 1:
				len = 1 + (uint32_t) rng_below(r, NM_MAX_KEY_SIZE);
				break;
			case 2:
			case 3:
				len = 1 + (uint32_t) rng_below(r, 900);
				break;
			default:
				len = 1 + (uint32_t) rng_below(r, 40);
		}
		if (len > max_len)
			len = 1 + (uint32_t) rng_below(r, max_len);
		for (uint32_t b = 0; b < len; b++)
			data[b] = b < common ? 'p' : (unsigned char) ("abcABCxyz\0\377Z"[rng_below(r, 12)]);
		/* often a key that differs from the one before only in case or at its end */
		if (fold && i > 0 && rng_below(r, 3) == 0)
		{
			len = u->items[i - 1].len;
			memcpy(data, u->items[i - 1].data, len);
			for (uint32_t b = 0; b < len; b++)
				if (data[b] >= 'A' && data[b] <= 'Z' && rng_below(r, 2))
					data[b] = (unsigned char) (data[b] + 32);
		}
		bytes_seal(data, len, fold);
		u->items[i].data = data;
		u->items[i].len = len;
		u->items[i].head = heads ? bytes_head(data, len, fold) : 0;
	}
	universe_sort(u);
	for (int i = 0; i < n; i++)
		u->items[i].form = &u->items[i].head;
	return u;
}

Universe *
universe_split(Universe *u)
{
	for (int i = 0; i < u->n; i++)
	{
		NmItem *item = &u->items[i];

		item->tag = TAG_WHOLE;
		if (item->len < 8)
			continue;
		memmove((void *) item->data, (const char *) item->data + 8, item->len - 8);
		item->len -= 8;
		item->tag = TAG_SPLIT;
	}
	return u;
}

Universe *
universe_distinct(Universe *u)
{
	int n = 0;

	for (int i = 0; i < u->n; i++)
	{
		if (i > 0 && u->klass[i] == u->klass[i - 1])
		{
			free((void *) u->items[i].data);
			continue;
		}
		u->items[n++] = u->items[i];
	}
	u->n = n;
	for (int i = 0; i < n; i++)
	{
		u->klass[i] = i;
		if (u->layout == NM_LAYOUT_GENERAL)
			u->items[i].form = &u->items[i].head;
	}
	return u;
}

void
universe_free(Universe *u)
{
	for (int i = 0; i < u->n; i++)
		free((void *) u->items[i].data);
	free(u->items);
	free(u->klass);
	free(u);
}

/* ---- comparators ---- */

void
compare_entry(CompareArg *ca, const NmItem *item)
{
	if (nm_version_locks_held())
		fault("comparator under a version lock");
	if (ca->tree->leave_epoch && nm_epoch_inside(ca->tree->pool))
		fault("comparator inside an epoch section");
	if (ca->tree->layout == NM_LAYOUT_GENERAL)
	{
		uint64_t buf[(NM_MAX_KEY_SIZE + 7) / 8];
		uint32_t len;
		const void *bytes = item_bytes(item, buf, &len);

		if (item->form != NULL)
			fault("comparator got a form with a copied key");
		if ((uintptr_t) item->data % 8 != 0)
			fault("comparator got an unaligned key");
		if ((char *) item->data >= ca->tree->pool->base &&
			(char *) item->data < ca->tree->pool->base + ca->tree->pool->map_bytes)
			fault("comparator got a pointer into the pool");
		if (len == 0 || len > NM_MAX_KEY_SIZE || !bytes_sealed(bytes, len))
			fault("comparator got bytes that no key has (length %u)", len);
	}
	if (++ca->calls == ca->jump_at)
		longjmp(ca->jump, 1);
}

int
tree_compare(void *arg, const NmItem *a, const NmItem *b)
{
	CompareArg *ca = arg;
	uint64_t abuf[(NM_MAX_KEY_SIZE + 7) / 8];
	uint64_t bbuf[(NM_MAX_KEY_SIZE + 7) / 8];
	uint32_t alen,
		blen;
	const void *abytes;
	const void *bbytes;

	compare_entry(ca, a);
	if (b->form != NULL && memcmp(b->form, &b->head, sizeof(b->head)) != 0)
		fault("comparator got another key's form");
	abytes = item_bytes(a, abuf, &alen);
	bbytes = item_bytes(b, bbuf, &blen);
	return bytes_compare(abytes, alen, bbytes, blen, ca->fold);
}

/* ---- handles ---- */

typedef struct Handle
{
	NmTree tree;
	CompareArg arg;
	void *scratch;
} Handle;

NmTree *
handle_open(NmPool *pool, NmTreeShared *shared, const Universe *u, bool leave_epoch)
{
	Handle *h = calloc(1, sizeof(Handle));

	h->scratch = aligned_alloc(16, (nm_tree_scratch_size() + 15) / 16 * 16);
	nm_tree_open(&h->tree, pool, shared, h->scratch);
	h->tree.layout = u->layout;
	h->tree.compare = tree_compare;
	h->tree.compare_arg = &h->arg;
	h->tree.use_heads = u->heads;
	h->tree.leave_epoch = leave_epoch;
	h->arg.tree = &h->tree;
	h->arg.fold = u->fold;
	return &h->tree;
}

CompareArg *
handle_arg(NmTree *tree)
{
	return &((Handle *) tree)->arg;
}

void
handle_close(NmTree *tree)
{
	Handle *h = (Handle *) tree;

	nm_tree_close(tree);
	free(h->scratch);
	free(h);
}

NmTreeShared *
shared_make(const Universe *u, int fillfactor)
{
	NmTreeShared *shared = shared_mem(sizeof(NmTreeShared));

	shared->layout = (uint8_t) u->layout;
	shared->nulls_first = u->nulls_first;
	shared->fillfactor = (uint8_t) fillfactor;
	shared->merge = u->merge;
	return shared;
}

/* ---- model ---- */

void
model_init(Model *m, const Universe *u)
{
	memset(m, 0, sizeof(*m));
	m->u = u;
	m->now = 1;
}

void
model_free(Model *m)
{
	free(m->e);
	m->e = NULL;
	m->n = m->cap = 0;
}

int
model_find(const Model *m, int klass, uint64_t tid)
{
	int lo = 0;
	int hi = m->n;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;
		int c = m->u->klass[m->e[mid].k];

		if (c < klass || (c == klass && m->e[mid].tid < tid))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

Entry *
model_get(const Model *m, int k, uint64_t tid)
{
	int at = model_find(m, m->u->klass[k], tid);

	if (at < m->n && m->u->klass[m->e[at].k] == m->u->klass[k] && m->e[at].tid == tid)
		return &m->e[at];
	return NULL;
}

void
model_add(Model *m, int k, uint64_t tid)
{
	int at = model_find(m, m->u->klass[k], tid);

	if (m->n == m->cap)
	{
		m->cap = m->cap ? m->cap * 2 : 1024;
		m->e = realloc(m->e, (size_t) m->cap * sizeof(Entry));
	}
	memmove(&m->e[at + 1], &m->e[at], (size_t) (m->n - at) * sizeof(Entry));
	m->e[at] = (Entry){
		.k = k, .tid = tid, .stamp = ++m->now};
	m->n++;
}

void
model_remove(Model *m, int at)
{
	memmove(&m->e[at], &m->e[at + 1], (size_t) (m->n - at - 1) * sizeof(Entry));
	m->n--;
}

int
model_live(const Model *m)
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		n += !m->e[i].killed;
	return n;
}

/* ---- verification of a quiet tree ---- */

void
scan_hop(NmScan *scan)
{
	NmTree *tree = scan->tree;
	NmDirection dir = scan->dir;
	const NmBound *lo = scan->lo;
	const NmBound *hi = scan->hi;
	bool keys_wanted = scan->keys_wanted;
	bool with_killed = scan->with_killed;
	NmScanPosition pos;

	memset(&pos, 0x55, sizeof(pos));
	nm_scan_export(scan, &pos);
	memset(scan, 0x55, sizeof(*scan));
	nm_scan_init(scan, tree, dir, lo, hi);
	scan->keys_wanted = keys_wanted;
	scan->with_killed = with_killed;
	nm_scan_import(scan, &pos);
}

void
verify_scan(NmTree *tree, Model *m, NmDirection dir, const char *when)
{
	static __thread NmBatch b;
	NmScan scan;
	NmStatus st;
	int at = dir == NM_FORWARD ? 0 : m->n - 1;

	nm_scan_init(&scan, tree, dir, &bound_low, &bound_high);
	while ((st = nm_scan_next(&scan, &b)) == NM_OK)
	{
		if (b.n <= 0 || b.n > NM_LEAF_MAX_ENTRIES)
		{
			fault("%s: a batch of %d", when, b.n);
			return;
		}
		for (int i = 0; i < b.n; i++)
		{
			bool same;

			while (at >= 0 && at < m->n && m->e[at].killed)
				at += dir;
			if (at < 0 || at >= m->n)
			{
				fault("%s: more entries than the model has", when);
				return;
			}
			same = batch_shows(&b, i, m->u->layout, &m->u->items[m->e[at].k]);
			if (!same || b.tids[i] != m->e[at].tid)
			{
				fault("%s: entry %d of the model is (k %d, tid %llx), the %s scan shows tid %llx%s", when, at, m->e[at].k,
					  (unsigned long long) m->e[at].tid, dir == NM_FORWARD ? "forward" : "backward",
					  (unsigned long long) b.tids[i], same ? "" : ", another key");
				return;
			}
			at += dir;
		}
	}
	while (at >= 0 && at < m->n && m->e[at].killed)
		at += dir;
	if (st != NM_END || (at >= 0 && at < m->n))
		fault("%s: %s scan ends with %s at entry %d of %d", when,
			  dir == NM_FORWARD ? "forward" : "backward", status_name(st), at, m->n);
}

void
verify_tree(NmTree *tree, Model *m, const char *when)
{
	char msg[512] = "";
	NmTreeStats stats;
	NmStatus st = nm_tree_check(tree, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL);
	int live = model_live(m);

	if (st != NM_OK)
		fault("%s: nm_tree_check: %s: %s", when, status_name(st), msg);
	st = nm_tree_stats(tree, &stats, NULL, NULL);
	if (st != NM_OK)
		fault("%s: nm_tree_stats: %s", when, status_name(st));
	else if (stats.entries - stats.killed != live && stats.entries != live)
		fault("%s: statistics: %lld entries, %lld killed; live are %d", when,
			  (long long) stats.entries, (long long) stats.killed, live);
	else
	{
		int64_t pages = 0;
		int64_t leaves = 0;

		for (int i = 0; i < tree->pool->narenas; i++)
		{
			pages += stats.pages_by_arena[i];
			leaves += stats.leaves_by_arena[i];
		}
		if (pages != stats.leaves + stats.inner + stats.overflow || leaves != stats.leaves)
			fault("%s: statistics: pages by arena %lld, by kind %lld + %lld + %lld", when, (long long) pages,
				  (long long) stats.leaves, (long long) stats.inner, (long long) stats.overflow);
		if (tree->shared->nleaves != stats.leaves || tree->shared->ninner != stats.inner ||
			tree->shared->noverflow != stats.overflow)
			fault("%s: counters say %lld leaves, %lld inner, %lld overflow; found %lld, %lld, %lld", when,
				  (long long) tree->shared->nleaves, (long long) tree->shared->ninner,
				  (long long) tree->shared->noverflow, (long long) stats.leaves,
				  (long long) stats.inner, (long long) stats.overflow);
	}
	if (tree->shared->nentries < live || tree->shared->nentries > m->n)
		fault("%s: nentries %lld; live %d, with killed %d", when, (long long) tree->shared->nentries, live, m->n);
	verify_scan(tree, m, NM_FORWARD, when);
	verify_scan(tree, m, NM_BACKWARD, when);
	if (nm_epoch_inside(tree->pool) || nm_version_locks_held())
		fault("%s: a section or a lock is left", when);
}

/*-------------------------------------------------------------------------
 *
 * test_tree_model.c
 *	  The tree against a sorted array: every operation, both layouts.
 *
 * One process, one thread.  Each configuration runs a random sequence of
 * operations; after each the answer is compared with the model's, now and then
 * the whole tree is.
 *
 * IDENTIFICATION
 *	  test/unit/test_tree_model.c
 *
 *-------------------------------------------------------------------------
 */
#include "treelib.h"
#include "btree/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Rng rng;

typedef struct Test
{
	const Universe *u;
	NmPool *pool;
	NmTreeShared *shared;
	NmTree *tree;
	Model m;
	int ntids; /* TIDs drawn from: few make collisions */
	int spread;
} Test;

/* How far apart the blocks of the TIDs are. */
enum
{
	ALL_BLOCKS,	 /* from the first to the last there is */
	SMALL_HEAP,	 /* some hundred */
	HIGH_BLOCKS, /* some hundred, far from the heap's start, now and then others */
	MIXED_BLOCKS /* about as many as a narrow leaf of runs can tell apart */
};

static uint64_t
random_tid(Test *t)
{
	uint64_t x = rng_below(&rng, (uint64_t) t->ntids);

	switch (t->spread)
	{
		case SMALL_HEAP:
			return make_tid(x / 200, 1 + x % 200);
		case HIGH_BLOCKS:
			return make_tid((x % 1000 == 0 ? UINT64_C(0x70000000) : UINT64_C(0x80000000)) + x / 200, 1 + x % 200);
		case MIXED_BLOCKS:
			return make_tid(UINT64_C(0x10000) + x * 7 % 80000, 1 + x % 3);
	}
	/* the whole range of blocks and offsets */
	switch (x % 5)
	{
		case 0:
			return make_tid(UINT32_MAX - x, 0x7FFF);
		case 1:
			return make_tid(0, 1 + x % 0x7FFE);
		default:
			return make_tid(x / 7, 1 + x % 7);
	}
}

static int
random_key(Test *t)
{
	/* some keys are much more frequent: long runs of duplicates */
	if (rng_below(&rng, 3) == 0)
		return (int) rng_below(&rng, (uint64_t) (t->u->n < 20 ? t->u->n : 20)) * (t->u->n / 20 > 0 ? t->u->n / 20 : 1) % t->u->n;
	return (int) rng_below(&rng, (uint64_t) t->u->n);
}

/* ---- bounds ---- */

/* A bound whose sign is the model's to tell: low .. high classes are equal. */
typedef struct TestBound
{
	NmBound b;
	CompareArg ca;
	Test *t;
	NmItem prefix; /* GENERAL with cmp */
	uint64_t prefix_buf[8];
	int64_t shifted; /* FIXED with cmp: key >> 3 against this */
	bool is_null;
} TestBound;

static int
cmp_prefix_of(const NmItem *item, const NmItem *prefix, bool fold)
{
	uint64_t buf[(NM_MAX_KEY_SIZE + 7) / 8];
	uint32_t len;
	const void *bytes = item_bytes(item, buf, &len);

	return bytes_compare(bytes, len < prefix->len ? len : prefix->len, prefix->data, prefix->len, fold);
}

static int
bound_cmp(void *arg, const NmItem *item)
{
	TestBound *tb = arg;
	int c;

	compare_entry(&tb->ca, item);
	if (tb->t->u->layout == NM_LAYOUT_GENERAL)
		return cmp_prefix_of(item, &tb->prefix, tb->t->u->fold);
	if (item->isnull || tb->is_null)
	{
		if (item->isnull && tb->is_null)
			return 0;
		return item->isnull == tb->t->u->nulls_first ? -1 : 1;
	}
	c = (item->key >> 3 > tb->shifted) - (item->key >> 3 < tb->shifted);
	return c;
}

static void
random_bound(Test *t, TestBound *tb)
{
	int k = random_key(t);
	const NmItem *item = &t->u->items[k];

	memset(tb, 0, sizeof(*tb));
	tb->t = t;
	tb->ca.tree = t->tree;
	switch (rng_below(&rng, 4))
	{
		case 0:
			tb->b.tid = NM_TID_MIN;
			break;
		case 1:
			tb->b.tid = NM_TID_MAX;
			break;
		default:
			tb->b.tid = random_tid(t);
	}
	switch (rng_below(&rng, 10))
	{
		case 0:
			tb->b.infinite = -1;
			break;
		case 1:
			tb->b.infinite = 1;
			break;
		case 2:
		case 3:
		case 4:
			tb->b.cmp = bound_cmp;
			tb->b.arg = tb;
			/* several keys are equal to it: a TID among them is no place */
			tb->b.tid = rng_below(&rng, 2) ? NM_TID_MIN : NM_TID_MAX;
			if (t->u->layout == NM_LAYOUT_GENERAL)
			{
				uint64_t buf[(NM_MAX_KEY_SIZE + 7) / 8];
				uint32_t len;
				const void *bytes = item_bytes(item, buf, &len);

				tb->prefix.len = 1 + (uint32_t) rng_below(&rng, len < 60 ? len : 60);
				memcpy(tb->prefix_buf, bytes, tb->prefix.len);
				tb->prefix.data = tb->prefix_buf;
				/* only a whole head separates smaller from larger */
				if (t->u->heads && tb->prefix.len >= 8 && rng_below(&rng, 2))
				{
					tb->b.head_valid = true;
					tb->b.item.head = bytes_head(tb->prefix.data, tb->prefix.len, t->u->fold);
				}
			}
			else
			{
				tb->is_null = item->isnull;
				tb->shifted = item->key >> 3;
			}
			break;
		default:
			tb->b.item = *item;
	}
}

/* Sign of (universe key - bound) without the TID. */
static int
key_vs_bound(Test *t, int k, const TestBound *tb)
{
	const NmItem *item = &t->u->items[k];

	if (tb->b.infinite)
		return -tb->b.infinite;
	if (t->u->layout == NM_LAYOUT_GENERAL)
	{
		uint64_t buf[2][(NM_MAX_KEY_SIZE + 7) / 8];
		uint32_t len[2];
		const void *bytes[2];

		if (tb->b.cmp)
			return cmp_prefix_of(item, &tb->prefix, t->u->fold);
		bytes[0] = item_bytes(item, buf[0], &len[0]);
		bytes[1] = item_bytes(&tb->b.item, buf[1], &len[1]);
		return bytes_compare(bytes[0], len[0], bytes[1], len[1], t->u->fold);
	}
	if (tb->b.cmp)
	{
		if (item->isnull || tb->is_null)
			return item->isnull && tb->is_null ? 0 : item->isnull == t->u->nulls_first ? -1
																					   : 1;
		return (item->key >> 3 > tb->shifted) - (item->key >> 3 < tb->shifted);
	}
	if (item->isnull || tb->b.item.isnull)
		return item->isnull && tb->b.item.isnull ? 0 : item->isnull == t->u->nulls_first ? -1
																						 : 1;
	return (item->key > tb->b.item.key) - (item->key < tb->b.item.key);
}

/* Entries of the model before the place. */
static int
model_place(Test *t, const TestBound *tb)
{
	int lo = 0;
	int hi = t->m.n;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;
		int c = key_vs_bound(t, t->m.e[mid].k, tb);

		if (c < 0 || (c == 0 && t->m.e[mid].tid < tb->b.tid))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* ---- operations ---- */

static void do_insert(Test *t);
static void do_delete(Test *t);

/* Places that a look for conflicts told a guard. */
static int told;

/*
 * Look for entries of the key as an insert into a unique index does.  The guard
 * may know the place afterwards only if there is none, killed or not.
 */
static void
ask_guard(Test *t, int k, NmGuard *guard)
{
	static NmBatch b;
	NmBound lo = {.item = t->u->items[k], .tid = NM_TID_MIN};
	NmBound hi = {.item = t->u->items[k], .tid = NM_TID_MAX};
	NmScan scan;
	NmStatus st;
	bool none;

	/* the model does not know which killed entries have been cleaned away */
	nm_scan_init(&scan, t->tree, NM_FORWARD, &lo, &hi);
	scan.with_killed = true;
	none = nm_scan_next(&scan, &b) == NM_END;

	nm_scan_init(&scan, t->tree, NM_FORWARD, &lo, &hi);
	nm_scan_guard(&scan, guard);
	scan.keys_wanted = false;
	while ((st = nm_scan_next(&scan, &b)) == NM_OK)
		if (none)
			fault("a scan finds an entry of a key that has none");
	if (st != NM_END)
		fault("scan for conflicts: %s", status_name(st));
	if (guard->idx >= 0 && !none)
		fault("a guard is told the place of a key that has entries");
	told += guard->idx >= 0;
}

static void
do_insert(Test *t)
{
	int k = random_key(t);
	uint64_t tid = random_tid(t);
	Entry *e = model_get(&t->m, k, tid);
	NmGuard found = {0};
	NmGuard *guard = NULL;
	bool wrong = false;
	bool changed = false;
	NmPageNo leaf = NM_NO_PAGE;
	NmStatus st;

	if (rng_below(&rng, 4) == 0)
	{
		NmBound first = {.item = t->u->items[k], .tid = NM_TID_MIN};

		st = nm_tree_first_leaf(t->tree, &first, &found);
		if (st != NM_OK || found.lid == 0)
			fault("first_leaf: %s, %llu", status_name(st), (unsigned long long) found.lid);
		wrong = rng_below(&rng, 3) == 0;
		if (wrong)
			found.lid += 1000000;
		else if (rng_below(&rng, 4) > 0)
		{
			ask_guard(t, k, &found);
			/* what is changed now makes the guard's place wrong, or not */
			changed = rng_below(&rng, 2) == 0;
			if (changed && rng_below(&rng, 2) == 0)
				do_insert(t);
			else if (changed)
				do_delete(t);
			e = model_get(&t->m, k, tid);
		}
		guard = &found;
	}
	st = nm_tree_insert(t->tree, &t->u->items[k], tid, guard, &leaf);
	/* a leaf of runs is split first, and then another may be the key's first; or it was split meanwhile */
	for (int again = 0; st == NM_STALE && (t->u->merge || changed) && guard && !wrong && again < 3; again++)
	{
		NmBound first = {.item = t->u->items[k], .tid = NM_TID_MIN};

		(void) nm_tree_first_leaf(t->tree, &first, &found);
		st = nm_tree_insert(t->tree, &t->u->items[k], tid, guard, &leaf);
	}
	if (wrong)
	{
		/* an entry that is there may be reported instead */
		if (st != NM_STALE && !(st == NM_EXISTS && e != NULL))
			fault("insert with a wrong guard: %s", status_name(st));
		if (st == NM_EXISTS && e != NULL && e->killed)
		{
			e->killed = false;
			e->stamp = ++t->m.now;
		}
		return;
	}
	if (e == NULL)
	{
		if (st != NM_OK)
			fault("insert: %s", status_name(st));
		model_add(&t->m, k, tid);
	}
	else if (e->killed)
	{
		if (st == NM_OK)
		{
			/* the old one had been cleaned away; the new spelling counts */
			e->k = k;
		}
		else if (st != NM_EXISTS)
			fault("insert of a killed entry: %s", status_name(st));
		e->killed = false;
		e->stamp = ++t->m.now; /* a scan may have passed it by */
	}
	else if (st != NM_EXISTS)
		fault("insert of an entry that is there: %s", status_name(st));
	if (st == NM_OK && !nm_pool_backed(t->pool, leaf))
		fault("insert names leaf %u", leaf);
}

static void
do_delete(Test *t)
{
	Entry *e;
	int k;
	uint64_t tid;
	NmStatus st;

	if (t->m.n > 0 && rng_below(&rng, 5) > 0)
	{
		Entry *any = &t->m.e[rng_below(&rng, (uint64_t) t->m.n)];

		k = any->k;
		tid = any->tid;
	}
	else
	{
		k = random_key(t);
		tid = random_tid(t);
	}
	e = model_get(&t->m, k, tid);
	st = nm_tree_delete(t->tree, &t->u->items[k], tid);
	if (e == NULL ? st != NM_NOT_FOUND : st != NM_OK && !(e->killed && st == NM_NOT_FOUND))
		fault("delete: %s, the model %s it", status_name(st), e ? "has" : "has not");
	if (e != NULL)
		model_remove(&t->m, (int) (e - t->m.e));
}

/*
 * A scan with changes while it goes on and changes of direction.  An entry
 * that is there from the scan's start (or last turn) on must be seen exactly
 * once; one that comes later may be.
 */
static void
do_scan(Test *t)
{
	static NmBatch b;
	TestBound lo,
		hi;
	NmScan scan;
	NmStatus st;
	NmDirection dir = rng_below(&rng, 2) ? NM_FORWARD : NM_BACKWARD;
	bool with_killed = rng_below(&rng, 4) == 0;
	bool changes = rng_below(&rng, 2);
	int turns = (int) rng_below(&rng, 4);
	uint64_t since = t->m.now;
	bool placed = false; /* is there a last entry? */
	int last_klass = 0;
	uint64_t last_tid = 0;

	random_bound(t, &lo);
	random_bound(t, &hi);
	nm_scan_init(&scan, t->tree, dir, &lo.b, &hi.b);
	scan.keys_wanted = rng_below(&rng, 4) > 0;
	/* by the TID alone entries that may be missing can't be told apart */
	if (!scan.keys_wanted && t->u->layout == NM_LAYOUT_GENERAL)
		with_killed = changes = false;
	scan.with_killed = with_killed;

	for (;;)
	{
		int from,
			to,
			cursor;

		if (placed && rng_below(&rng, 3) == 0)
			scan_hop(&scan);
		scan.most = rng_below(&rng, 3) == 0 ? 1 + (int) rng_below(&rng, 40) : 0;
		st = nm_scan_next(&scan, &b);
		if (st == NM_OK && scan.most > 0 && b.n > scan.most)
			fault("scan: a batch of %d, wanted were %d", b.n, scan.most);
		from = model_place(t, &lo);
		to = model_place(t, &hi);
		if (to < from)
			to = from;
		/* where the model stands: the next entry in direction */
		if (!placed)
			cursor = dir == NM_FORWARD ? from : to - 1;
		else
		{
			cursor = model_find(&t->m, last_klass, last_tid);
			if (dir == NM_BACKWARD)
				cursor--;
			else if (cursor < t->m.n && t->u->klass[t->m.e[cursor].k] == last_klass && t->m.e[cursor].tid == last_tid)
				cursor++;
		}
		if (st != NM_OK && st != NM_END)
		{
			fault("scan: %s", status_name(st));
			return;
		}
		for (int i = 0; i < (st == NM_OK ? b.n : 0); i++)
		{
			bool found = false;

			/* skip only what may be missing */
			while (cursor >= from && cursor < to)
			{
				Entry *e = &t->m.e[cursor];
				const NmItem *item = &t->u->items[e->k];

				found = e->tid == b.tids[i];
				if (found && (t->u->layout == NM_LAYOUT_FIXED || scan.keys_wanted))
					found = batch_shows(&b, i, t->u->layout, item);
				if (found && e->killed && !with_killed)
					found = false;
				if (found)
					break;
				if (!e->killed && e->stamp <= since)
				{
					fault("scan %s: entry (k %d, tid %llx) is missing, shown is tid %llx",
						  dir == NM_FORWARD ? "forward" : "backward", e->k,
						  (unsigned long long) e->tid, (unsigned long long) b.tids[i]);
					return;
				}
				cursor += dir;
			}
			if (!found)
			{
				fault("scan: shows an entry (tid %llx) that is not there", (unsigned long long) b.tids[i]);
				return;
			}
			placed = true;
			last_klass = t->u->klass[t->m.e[cursor].k];
			last_tid = t->m.e[cursor].tid;
			cursor += dir;
		}
		if (st == NM_END)
		{
			for (; cursor >= from && cursor < to; cursor += dir)
			{
				if (!t->m.e[cursor].killed && t->m.e[cursor].stamp <= since)
				{
					fault("scan %s: ends before entry (k %d, tid %llx)",
						  dir == NM_FORWARD ? "forward" : "backward", t->m.e[cursor].k,
						  (unsigned long long) t->m.e[cursor].tid);
					return;
				}
			}
			if (nm_scan_next(&scan, &b) != NM_END)
				fault("scan: goes on after its end");
		}

		/* the leaf has not been touched since the copy */
		if (st == NM_OK && !nm_batch_unremoved(t->tree, &b))
			fault("unremoved is false although nothing happened");
		/* without key bytes a TID may stand for several entries: not here */
		if (st == NM_OK && rng_below(&rng, 4) == 0 &&
			(t->u->layout == NM_LAYOUT_FIXED || scan.keys_wanted))
		{
			/* kill some */
			int idx[8];
			int n = 0;
			int want = 0;
			int got;

			for (int i = (int) rng_below(&rng, (uint64_t) b.n); i < b.n && n < 8; i += 1 + (int) rng_below(&rng, 5))
				idx[n++] = i;
			for (int i = 0; i < n; i++)
			{
				/* find the entry: among those with this TID the one shown */
				for (int at = from; at < to; at++)
				{
					Entry *e = &t->m.e[at];

					if (e->tid != b.tids[idx[i]] ||
						!batch_shows(&b, idx[i], t->u->layout, &t->u->items[e->k]))
						continue;
					want += !e->killed;
					e->killed = true;
					break;
				}
			}
			got = nm_tree_kill(t->tree, &b, idx, n);
			if (got != want)
				fault("kill: %d of %d marked, expected %d", got, n, want);
		}
		if (st == NM_OK && changes)
		{
			for (int i = (int) rng_below(&rng, 20); i > 0; i--)
			{
				if (rng_below(&rng, 2))
					do_insert(t);
				else
					do_delete(t);
			}
		}
		if (turns > 0 && placed && (st == NM_END || rng_below(&rng, 3) == 0))
		{
			/* any entry of the batch, or the last one seen */
			int at = model_find(&t->m, last_klass, last_tid);
			NmItem item;
			uint64_t tid;

			turns--;
			if (at >= t->m.n || t->u->klass[t->m.e[at].k] != last_klass || t->m.e[at].tid != last_tid)
				break; /* it has been deleted: its spelling is lost */
			item = t->u->items[t->m.e[at].k];
			tid = last_tid;
			dir = rng_below(&rng, 2) ? NM_FORWARD : NM_BACKWARD;
			nm_scan_reposition(&scan, dir, &item, tid);
			since = t->m.now;
			continue;
		}
		if (st == NM_END)
			break;
	}
}

/* dead() of the vacuum: notes what was asked, decides by a hash of the TID. */
typedef struct VacuumArg
{
	Test *t;
	uint64_t salt;
	uint64_t *seen;
	int nseen;
	int cap;
	int ticks;
	int jump_at; /* longjmp in this call of dead */
	jmp_buf jump;
} VacuumArg;

static bool
says_dead(const VacuumArg *va, uint64_t tid)
{
	Rng r = {tid ^ va->salt};

	return rng_next(&r) % 4 < va->salt % 5;
}

static bool
vacuum_dead(void *arg, uint64_t tid)
{
	VacuumArg *va = arg;

	if (nm_version_locks_held() || nm_epoch_inside(va->t->pool))
		fault("dead() with a lock or a section");
	if (va->nseen == va->cap)
	{
		va->cap = va->cap ? va->cap * 2 : 1000;
		va->seen = realloc(va->seen, (size_t) va->cap * sizeof(uint64_t));
	}
	va->seen[va->nseen++] = tid;
	if (va->nseen == va->jump_at)
		longjmp(va->jump, 1);
	return says_dead(va, tid);
}

static void
vacuum_tick(void *arg)
{
	VacuumArg *va = arg;

	va->ticks++;
	if (nm_version_locks_held() || nm_epoch_inside(va->t->pool))
		fault("tick() with a lock or a section");
}

/* Forget killed entries that inserts have cleaned away. */
static void
forget_vanished(Test *t)
{
	static NmBatch b;
	NmScan scan;
	int at = 0;
	int n = 0;

	nm_scan_init(&scan, t->tree, NM_FORWARD, &bound_low, &bound_high);
	scan.with_killed = true;
	while (nm_scan_next(&scan, &b) == NM_OK)
	{
		for (int i = 0; i < b.n; i++)
		{
			for (; at < t->m.n; at++)
			{
				if (t->m.e[at].tid == b.tids[i] &&
					batch_shows(&b, i, t->u->layout, &t->u->items[t->m.e[at].k]))
					break;
				if (!t->m.e[at].killed)
					fault("an entry that is not killed has vanished");
			}
			if (at < t->m.n)
				t->m.e[n++] = t->m.e[at++];
			else
				fault("an entry too many");
		}
	}
	for (; at < t->m.n; at++)
		if (!t->m.e[at].killed)
			fault("an entry at the end that is not killed has vanished");
	t->m.n = n;
}

/*
 * A series of ranges by one scan, which may find the next one in the leaf it has
 * just read, against a scan of its own for each.  Mostly in order, and with
 * changes in between.
 */
static void
do_ranges(Test *t)
{
	static NmBatch b;
	NmScan scan;
	NmBound lo,
		hi;
	NmDirection dir = rng_below(&rng, 4) ? NM_FORWARD : NM_BACKWARD;
	int k = (int) rng_below(&rng, (uint64_t) t->u->n);
	int step = 1 + (int) rng_below(&rng, rng_below(&rng, 2) ? 3 : 40);
	int width = (int) rng_below(&rng, rng_below(&rng, 3) ? 2 : 100);
	bool changes = rng_below(&rng, 3) == 0;

	memset(&lo, 0, sizeof(lo));
	hi = lo;
	nm_scan_init(&scan, t->tree, dir, &lo, &hi);
	scan.with_killed = true;
	for (int range = 0; range < 20; range++)
	{
		NmScan fresh;
		uint64_t tids[1000];
		int n = 0;
		int at = 0;

		lo.item = t->u->items[k];
		lo.tid = NM_TID_MIN;
		hi.item = t->u->items[k + width < t->u->n ? k + width : t->u->n - 1];
		hi.tid = rng_below(&rng, 8) ? NM_TID_MAX : NM_TID_MIN;
		nm_scan_init(&fresh, t->tree, dir, &lo, &hi);
		fresh.with_killed = true;
		while (nm_scan_next(&fresh, &b) == NM_OK)
			for (int i = 0; i < b.n && n < 1000; i++)
				tids[n++] = b.tids[i];
		if (range > 0)
			nm_scan_next_range(&scan);
		while (nm_scan_next(&scan, &b) == NM_OK)
			for (int i = 0; i < b.n; i++, at++)
				if (at < 1000 && (at >= n || tids[at] != b.tids[i]))
				{
					fault("range %d of a series: entry %d has another tid", range, at);
					return;
				}
		if (at < n)
		{
			fault("range %d of a series ends after %d of %d entries", range, at, n);
			return;
		}
		if (changes && rng_below(&rng, 2))
			do_insert(t);
		if (changes && rng_below(&rng, 4) == 0)
			do_delete(t);
		if (rng_below(&rng, 8) == 0)
			k = (int) rng_below(&rng, (uint64_t) t->u->n);
		else
			k += dir == NM_FORWARD ? width + step : -width - step;
		if (k < 0 || k >= t->u->n)
			k = (int) rng_below(&rng, (uint64_t) t->u->n);
	}
}

static void
do_vacuum(Test *t)
{
	VacuumArg va = {.t = t, .salt = rng_next(&rng)};
	NmVacuum vac = {.dead = vacuum_dead, .tick = vacuum_tick, .arg = &va};
	NmStatus st;
	int at = 0;
	int gone = 0;

	forget_vanished(t);
	st = nm_tree_vacuum(t->tree, &vac);
	if (st != NM_OK)
		fault("vacuum: %s", status_name(st));
	for (int i = 0; i < va.nseen; i++)
	{
		if (at >= t->m.n || t->m.e[at].tid != va.seen[i])
		{
			fault("vacuum: asked for tid %llx, the model has %llx", (unsigned long long) va.seen[i],
				  at < t->m.n ? (unsigned long long) t->m.e[at].tid : 0);
			break;
		}
		at++;
	}
	if (at < t->m.n)
		fault("vacuum: did not come to entry %d of %d", at, t->m.n);
	if (vac.visited != va.nseen || vac.leaves <= 0)
		fault("vacuum: visited %lld, asked %d, leaves %lld", (long long) vac.visited, va.nseen, (long long) vac.leaves);

	at = 0;
	for (int i = 0; i < t->m.n; i++)
	{
		if (says_dead(&va, t->m.e[i].tid))
			gone++;
		else
			t->m.e[at++] = t->m.e[i];
	}
	t->m.n = at;
	if (vac.removed != gone)
		fault("vacuum: removed %lld, dead were %d", (long long) vac.removed, gone);
	free(va.seen);
}

/* want() of relocation */
typedef struct RelocateArg
{
	Test *t;
	int arena; /* fixed one, or -1 = at random */
	int level;
	int calls;
} RelocateArg;

static int
relocate_want(void *arg, NmPageNo page, uint64_t lid)
{
	RelocateArg *ra = arg;

	ra->calls++;
	if (nm_version_locks_held() || nm_epoch_inside(ra->t->pool))
		fault("want() with a lock or a section");
	if (!nm_pool_backed(ra->t->pool, page) || (lid == 0 && ra->level == 0 && ra->t->shared->root >> 32 > 0))
		fault("want() for page %u, lid %llu", page, (unsigned long long) lid);
	if (ra->arena >= 0)
		return ra->arena;
	return (int) rng_below(&rng, 3) - 1;
}

static void
do_relocate(Test *t, bool all)
{
	RelocateArg ra = {.t = t, .arena = all ? (int) rng_below(&rng, 2) : -1, .level = all ? 0 : (int) rng_below(&rng, 3)};
	NmRelocate job = {.level = ra.level, .want = relocate_want, .arg = &ra};
	NmTreeStats stats;
	int calls = 0;
	uint64_t compares = handle_arg(t->tree)->calls;

	nm_tree_stats(t->tree, &stats, NULL, NULL);
	job.max_pages = 1 + (int) rng_below(&rng, 50);
	while (!job.done)
	{
		int64_t moved = job.moved;
		NmStatus st = nm_tree_relocate(t->tree, &job);

		if (st != NM_OK)
		{
			/* a level that is not there */
			if (job.level == 0 || job.level < stats.height)
				fault("relocate level %d: %s", job.level, status_name(st));
			return;
		}
		/* a parent's children are taken whole */
		if (job.moved - moved > job.max_pages + NM_LEAF_MAX_ENTRIES)
			fault("relocate: %lld pages in one call, %d asked", (long long) (job.moved - moved), job.max_pages);
		if (++calls > 100000)
		{
			fault("relocate: no end");
			return;
		}
	}
	if (handle_arg(t->tree)->calls != compares)
		fault("relocate called a comparator");
	if (all)
	{
		int64_t leaves = stats.leaves;

		if (job.asked != leaves || job.moved + job.already + job.busy + job.nomem != leaves)
			fault("relocate: %lld leaves; asked %lld, moved %lld, already %lld, busy %lld, nomem %lld",
				  (long long) leaves, (long long) job.asked, (long long) job.moved,
				  (long long) job.already, (long long) job.busy, (long long) job.nomem);
		nm_tree_stats(t->tree, &stats, NULL, NULL);
		if (job.busy == 0 && job.nomem == 0 && stats.leaves_by_arena[ra.arena] != stats.leaves)
			fault("relocate: %lld of %lld leaves in arena %d", (long long) stats.leaves_by_arena[ra.arena],
				  (long long) stats.leaves, ra.arena);
		if (job.busy != 0 || job.nomem != 0)
			fault("relocate of a quiet tree: busy %lld, nomem %lld", (long long) job.busy, (long long) job.nomem);
	}
}

/* A removal from a leaf is noticed by those who copied it. */
static void
do_removal_check(Test *t)
{
	static NmBatch b;
	NmScan scan;
	int idx = 0;
	int j;
	Entry *e;

	if (t->m.n == 0)
		return;
	j = (int) rng_below(&rng, (uint64_t) t->m.n);
	e = &t->m.e[j];
	if (e->killed)
		return;
	{
		NmBound lo = {.item = t->u->items[e->k], .tid = e->tid};

		nm_scan_init(&scan, t->tree, NM_FORWARD, &lo, &bound_high);
		if (nm_scan_next(&scan, &b) != NM_OK || b.tids[0] != e->tid)
		{
			fault("point lookup does not find its entry");
			return;
		}
	}
	if (nm_tree_delete(t->tree, &t->u->items[e->k], e->tid) != NM_OK)
		fault("delete of a known entry");
	model_remove(&t->m, j);
	if (nm_batch_unremoved(t->tree, &b))
		fault("unremoved is true although an entry went");
	if (nm_tree_kill(t->tree, &b, &idx, 1) != 0)
		fault("kill with an old removal counter");
}

/* ---- a configuration ---- */

static void
load_bulk(Test *t, int n, int fillfactor)
{
	NmBulk *bulk = aligned_alloc(64, (nm_bulk_size() + 63) / 64 * 64);
	NmStatus st;

	(void) fillfactor;
	while (t->m.n < n)
	{
		int k = random_key(t);
		uint64_t tid = random_tid(t);

		if (model_get(&t->m, k, tid) == NULL)
			model_add(&t->m, k, tid);
		else if (rng_below(&rng, 100) == 0)
			n--; /* few TIDs: don't try for ever */
	}
	nm_bulk_begin(bulk, t->tree, (int) rng_below(&rng, 2));
	for (int i = 0; i < t->m.n; i++)
	{
		/* now and then twice: to be dropped */
		for (int twice = rng_below(&rng, 10) == 0 ? 2 : 1; twice > 0; twice--)
		{
			st = nm_bulk_add(bulk, &t->u->items[t->m.e[i].k], t->m.e[i].tid);
			if (st != NM_OK)
				fault("bulk_add: %s", status_name(st));
		}
	}
	st = nm_bulk_finish(bulk);
	if (st != NM_OK)
		fault("bulk_finish: %s", status_name(st));
	free(bulk);
}

static void
run_spread(const char *name, Universe *u, int spread, int fillfactor, bool leave_epoch, int bulk, int ntids, int nops)
{
	Test t = {.u = u, .ntids = ntids, .spread = spread};
	uint64_t before;
	uint64_t root;
	int peak = 0;

	t.pool = pool_make(2, 64, 128, 4);
	nm_pool_free(t.pool, nm_pool_alloc(t.pool, 0, false, NULL, NULL));
	before = pool_live_pages(t.pool);
	t.shared = shared_make(u, fillfactor);
	t.tree = handle_open(t.pool, t.shared, u, leave_epoch);
	model_init(&t.m, u);
	if (bulk >= 0)
		load_bulk(&t, bulk, fillfactor);
	else if (nm_tree_create(t.tree) != NM_OK)
		fault("create");
	verify_tree(t.tree, &t.m, "at first");

	for (int op = 0; op < nops && faults_so_far() == 0; op++)
	{
		/* swings between growing and shrinking */
		bool grow = (op / (nops / 4 + 1)) % 2 == 0;
		uint64_t x = rng_below(&rng, 1000);

		t.tree->arena = (int) rng_below(&rng, 2);
		if (x < 6)
			do_scan(&t);
		else if (x < 7 && rng_below(&rng, 4) == 0)
			do_ranges(&t);
		else if (x < 7 && rng_below(&rng, 8) == 0)
			do_vacuum(&t);
		else if (x < 8 && rng_below(&rng, 4) == 0)
			do_relocate(&t, rng_below(&rng, 2));
		else if (x < 12)
			do_removal_check(&t);
		else if (grow ? x < 750 : x < 300)
			do_insert(&t);
		else
			do_delete(&t);
		if (nm_epoch_inside(t.pool) || nm_version_locks_held())
			fault("a section or a lock is left after an operation");
		if (rng_below(&rng, (uint64_t) nops / 12 + 1) == 0)
			verify_tree(t.tree, &t.m, "meanwhile");
		if (t.m.n > peak)
			peak = t.m.n;
	}
	if (faults_so_far() == 0)
	{
		for (int i = 0; i < 30; i++)
		{
			do_scan(&t);
			do_ranges(&t);
		}
		verify_tree(t.tree, &t.m, "after all");
		do_relocate(&t, true);
		verify_tree(t.tree, &t.m, "after relocation");
		do_vacuum(&t);
		verify_tree(t.tree, &t.m, "after vacuum");
	}
	diag("%s: up to %d entries, splits %llu, unlinked %llu, relocated %llu, %lld leaves, height %d", name, peak,
		 (unsigned long long) t.shared->splits, (unsigned long long) t.shared->deletes,
		 (unsigned long long) t.shared->relocations, (long long) t.shared->nleaves, (int) (t.shared->root >> 32) + 1);

	/* the end: operations say so, all pages come back */
	root = nm_tree_detach(t.shared);
	if (root == 0 || nm_tree_detach(t.shared) != 0)
		fault("detach");
	if (nm_tree_insert(t.tree, &u->items[0], make_tid(1, 1), NULL, NULL) != NM_GONE ||
		nm_tree_delete(t.tree, &u->items[0], make_tid(1, 1)) != NM_GONE)
		fault("operations on a detached tree go on");
	handle_close(t.tree);
	nm_tree_free_pages(t.pool, u->layout, root);
	nm_pool_reclaim(t.pool);
	if (pool_live_pages(t.pool) != before)
		fault("%llu pages in use at first, %llu at the end", (unsigned long long) before,
			  (unsigned long long) pool_live_pages(t.pool));
	ok(faults() == 0, "%s", name);
	model_free(&t.m);
	pool_unmake(t.pool);
	universe_free(u);
}

/* Keys stored once or with each entry, as the universe says. */
static void
run_config(const char *name, Universe *u, int fillfactor, bool leave_epoch, int bulk, int ntids, int nops)
{
	run_spread(name, u, ALL_BLOCKS, fillfactor, leave_epoch, bulk, ntids, nops);
}

static Universe *
merged(Universe *u)
{
	u->merge = true;
	return u;
}

/* A vacuum whose dead() raises leaves a valid tree. */
static void
test_vacuum_raises(bool merge)
{
	Universe *u = universe_fixed(&rng, merge ? 100 : 3000, true, false);
	Test t = {.u = u, .ntids = 1000};
	VacuumArg *va = calloc(1, sizeof(*va));
	int rounds = 20;

	u->merge = merge;
	t.pool = pool_make(2, 16, 32, 4);
	t.shared = shared_make(u, 90);
	t.tree = handle_open(t.pool, t.shared, u, false);
	model_init(&t.m, u);
	load_bulk(&t, 8000, 90);
	for (int i = 0; i < rounds; i++)
	{
		NmVacuum vac = {.dead = vacuum_dead, .arg = va};
		static Entry *keep;
		static NmBatch b;
		volatile int n = 0;
		NmScan scan;

		va->t = &t;
		va->salt = rng_next(&rng) / 5 * 5 + 1;
		va->nseen = 0;
		va->jump_at = 1 + (int) rng_below(&rng, (uint64_t) t.m.n);
		if (setjmp(va->jump) == 0)
		{
			nm_tree_vacuum(t.tree, &vac);
			fault("the vacuum swallowed an error");
		}
		nm_epoch_reset(t.pool);
		if (nm_version_locks_held())
			fault("a version lock is left after an error in dead()");
		/* what is there now is what dead() did not name, and maybe more */
		keep = malloc((size_t) t.m.n * sizeof(Entry));
		nm_scan_init(&scan, t.tree, NM_FORWARD, &bound_low, &bound_high);
		{
			int at = 0;

			while (nm_scan_next(&scan, &b) == NM_OK)
				for (int j = 0; j < b.n; j++)
				{
					while (at < t.m.n && (t.m.e[at].tid != b.tids[j] ||
										  u->items[t.m.e[at].k].isnull != (j >= b.null_from && j < b.null_to) ||
										  (!u->items[t.m.e[at].k].isnull && u->items[t.m.e[at].k].key != b.keys[j])))
					{
						if (!says_dead(va, t.m.e[at].tid))
							fault("an entry went that nobody called dead");
						at++;
					}
					if (at < t.m.n)
						keep[n++] = t.m.e[at++];
				}
			for (; at < t.m.n; at++)
				if (!says_dead(va, t.m.e[at].tid))
					fault("an entry went at the end that nobody called dead");
		}
		memcpy(t.m.e, keep, (size_t) n * sizeof(Entry));
		t.m.n = n;
		free(keep);
		verify_tree(t.tree, &t.m, "after an error in dead()");
		if (t.m.n < 100)
			break;
	}
	ok(faults() == 0, "vacuum: an error in dead() leaves a valid tree%s", merge ? ", keys merged" : "");
	handle_close(t.tree);
	free(va->seen);
	free(va);
	model_free(&t.m);
	pool_unmake(t.pool);
	universe_free(u);
}

/* What can be wrong with a leaf of runs, done to one; false: not to this one. */
static bool
damage(NmPage *p, int how)
{
	NmRuns v;
	int last;

	nm_runs_view(p, &v);
	last = v.nruns - 1;
	switch (how)
	{
		case 0: /* a run without entries */
			v.ends[0] = 0;
			return true;
		case 1: /* runs that cross */
			if (last < 1)
				return false;
			v.ends[0] = v.ends[last];
			return true;
		case 2: /* entries in no run */
			v.ends[last]--;
			return true;
		case 3: /* TIDs out of order in a run */
		case 4: /* one of them twice */
		{
			uint64_t a = nm_run_raw(&v, 0);
			uint64_t b = nm_run_raw(&v, 1);

			if (v.ends[0] < 2)
				return false;
			nm_run_put(&v, 0, b);
			if (how == 3)
				nm_run_put(&v, 1, a);
			return true;
		}
		case 5: /* no TID */
			nm_run_put(&v, 0, nm_run_raw(&v, 0) & ~UINT64_C(0x7FFF));
			return true;
		case 6: /* a mark that the page knows nothing of */
			p->flags &= (uint16_t) ~NM_PF_KILLED;
			nm_run_put(&v, 0, nm_run_raw(&v, 0) | NM_KILLED_BIT);
			return true;
		case 7: /* TIDs of another width */
			p->flags ^= NM_PF_WIDE;
			return true;
		case 8: /* fewer entries than the tree has */
			p->n--;
			v.ends[last]--;
			return v.ends[last] > (last > 0 ? v.ends[last - 1] : 0);
		case 9: /* keys out of order, items out of the page */
			if (p->flags & NM_PF_GENERAL)
				v.slots[last] = NM_BODY_END;
			else
				v.keys[0] = INT64_MAX;
			return true;
	}
	return false;
}

#define DAMAGES 10

/* The checker is worth its name: whatever is wrong with a list of TIDs, it says so. */
static void
test_checker(Universe *u, const char *name)
{
	Test t = {.u = u, .ntids = 60000, .spread = SMALL_HEAP};
	char msg[300];
	NmPageNo no;
	int done = 0;

	u->merge = true;
	t.pool = pool_make(2, 16, 32, 4);
	t.shared = shared_make(u, 90);
	t.tree = handle_open(t.pool, t.shared, u, false);
	model_init(&t.m, u);
	load_bulk(&t, 8000, 90);
	if (nm_leftmost(t.tree, 0, &no) != NM_OK || (nm_page(t.tree, no)->flags & NM_PF_RUNS) == 0)
		fault("the first leaf has no runs");
	else
	{
		NmPage *p = nm_page(t.tree, no);
		NmPage keep;

		for (int how = 0; how < DAMAGES; how++)
		{
			memcpy(&keep, p, sizeof(keep));
			if (damage(p, how))
			{
				done++;
				if (nm_tree_check(t.tree, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) != NM_CORRUPT)
					fault("damage %d is not found", how);
			}
			memcpy(p, &keep, sizeof(keep));
		}
	}
	verify_tree(t.tree, &t.m, "mended");
	ok(faults() == 0 && done >= DAMAGES - 1, "the checker finds damaged runs, %s", name);
	handle_close(t.tree);
	model_free(&t.m);
	pool_unmake(t.pool);
	universe_free(u);
}

int
main(void)
{
	rng.s = tap_start("test_tree_model");

	run_config("fixed, created empty", universe_fixed(&rng, 5000, true, false), 90, false, -1, 2000, scaled(120000));
	run_config("fixed, bulk, NULLs first, leave_epoch", universe_fixed(&rng, 20000, true, true), 70, true, scaled(20000), 100000, scaled(80000));
	run_config("fixed, few keys, many TIDs", universe_fixed(&rng, 8, true, false), 100, false, 1000, 100000, scaled(60000));
	run_config("fixed, bulk of nothing", universe_fixed(&rng, 50, false, false), 100, false, 0, 20, scaled(20000));
	run_config("general, short keys, heads", universe_general(&rng, 5000, true, false, 60), 90, false, -1, 1000, scaled(60000));
	run_config("general, short keys, split", universe_split(universe_general(&rng, 5000, true, false, 60)), 90, false, -1, 1000, scaled(60000));
	run_config("general, all lengths, split, leave_epoch", universe_split(universe_general(&rng, 2000, true, false, NM_MAX_KEY_SIZE)), 90, true, scaled(2000), 60, scaled(30000));
	run_config("general, all lengths, heads, leave_epoch", universe_general(&rng, 2000, true, false, NM_MAX_KEY_SIZE), 90, true, -1, 60, scaled(30000));
	run_config("general, all lengths, no heads", universe_general(&rng, 2000, false, false, NM_MAX_KEY_SIZE), 80, false, scaled(2000), 200, scaled(25000));
	run_config("general, case-insensitive, heads, leave_epoch", universe_general(&rng, 1500, true, true, 900), 90, true, scaled(2000), 100, scaled(25000));
	run_config("general, case-insensitive, no heads", universe_general(&rng, 300, false, true, 30), 100, false, -1, 3000, scaled(40000));
	test_vacuum_raises(false);
	test_vacuum_raises(true);

	/* the same with equal keys stored once */
	run_config("merged: fixed, created empty", merged(universe_fixed(&rng, 5000, true, false)), 90, false, -1, 2000, scaled(80000));
	run_config("merged: fixed, bulk, NULLs first, leave_epoch", merged(universe_fixed(&rng, 2000, true, true)), 70, true, scaled(20000), 100000, scaled(60000));
	run_config("merged: fixed, few keys, all blocks", merged(universe_fixed(&rng, 8, true, false)), 100, false, 1000, 100000, scaled(60000));
	run_spread("merged: fixed, few keys, small heap", merged(universe_fixed(&rng, 10, true, true)), SMALL_HEAP, 90, false, scaled(20000), 60000, scaled(60000));
	run_spread("merged: fixed, few keys, high blocks", merged(universe_fixed(&rng, 30, true, false)), HIGH_BLOCKS, 90, true, -1, 100000, scaled(60000));
	run_spread("merged: fixed, some keys, mixed blocks", merged(universe_fixed(&rng, 300, false, false)), MIXED_BLOCKS, 80, false, scaled(20000), 200000, scaled(60000));
	run_spread("merged: fixed, small fillfactor", merged(universe_fixed(&rng, 40, true, false)), MIXED_BLOCKS, 10, false, scaled(5000), 200000, scaled(40000));
	run_spread("merged: general, few short keys, heads", merged(universe_general(&rng, 10, true, false, 60)), SMALL_HEAP, 90, false, scaled(20000), 60000, scaled(50000));
	run_spread("merged: general, few short keys, split", merged(universe_split(universe_general(&rng, 10, true, false, 60))), SMALL_HEAP, 90, false, scaled(20000), 60000, scaled(50000));
	run_spread("merged: general, keys of eight bytes, split", merged(universe_split(universe_general(&rng, 40, true, false, 9))), MIXED_BLOCKS, 90, false, scaled(20000), 60000, scaled(30000));
	run_spread("merged: general, few short keys, no heads", merged(universe_general(&rng, 30, false, false, 60)), HIGH_BLOCKS, 90, true, -1, 100000, scaled(40000));
	run_spread("merged: general, all lengths, heads", merged(universe_general(&rng, 60, true, false, NM_MAX_KEY_SIZE)), MIXED_BLOCKS, 90, false, -1, 100000, scaled(30000));
	run_spread("merged: general, long keys, no heads", merged(universe_general(&rng, 20, false, false, 890)), ALL_BLOCKS, 30, false, scaled(2000), 100000, scaled(30000));
	run_config("merged: general, all lengths, heads, leave_epoch", merged(universe_general(&rng, 2000, true, false, NM_MAX_KEY_SIZE)), 90, true, -1, 60, scaled(20000));
	run_spread("merged: general, few keys, case-insensitive, heads", merged(universe_general(&rng, 40, true, true, 900)), SMALL_HEAP, 90, true, scaled(4000), 20000, scaled(30000));
	run_spread("merged: general, few keys, case-insensitive, no heads", merged(universe_general(&rng, 12, false, true, 30)), MIXED_BLOCKS, 100, false, -1, 100000, scaled(40000));
	ok(told > 1000, "guards were told the places of keys that had no entry (%d)", told);
	test_checker(universe_fixed(&rng, 10, false, false), "fixed");
	test_checker(universe_general(&rng, 10, true, false, 60), "general, heads");
	test_checker(universe_general(&rng, 10, false, false, 60), "general, no heads");
	return tap_done();
}

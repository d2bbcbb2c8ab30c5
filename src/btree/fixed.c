/*-------------------------------------------------------------------------
 *
 * fixed.c
 *	  Finding places among integers: inside a page and from the root down.
 *
 * Everything here serves plain bounds in trees of integers and calls no
 * comparator, so a whole descent stays in one function.  What it costs in a
 * tree larger than the cache is waiting for the leaf: for the translation of
 * its address, then its header, then the lines that the header leads to.  So
 * where the key should be in a child is guessed from the parent, and those
 * lines are asked for together with the header.
 *
 * IDENTIFICATION
 *	  src/btree/fixed.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

/* Half the window around a guess; wide enough for most evenly spread keys. */
#define LEAF_REACH	16
#define INNER_REACH 8

/*
 * How many of n keys are below this one, if they are spread evenly from low to
 * high; low < key < high.
 */
static inline int
evenly(int64_t key, int64_t low, int64_t high, int n)
{
	/* halves, so that they convert as signed numbers; high - low >= 2 */
	double dist = (double) (int64_t) (((uint64_t) key - (uint64_t) low) >> 1);
	double range = (double) (int64_t) (((uint64_t) high - (uint64_t) low) >> 1);

	return (int) (dist / range * n);
}

/* First of the len keys from "at" on that is not below key. */
NM_RACY static inline const int64_t *
bisect(const int64_t *at, int len, int64_t key)
{
	/*
	 * With jumps: a processor that guesses the way fetches ahead, which waiting
	 * for each comparison would forbid.
	 */
	const int64_t *end = at + len;

	while (at < end)
	{
		const int64_t *mid = at + (end - at) / 2;

		if (*mid < key)
			at = mid + 1;
		else
			end = mid;
	}
	return at;
}

/*
 * The same for few keys that are in the cache: without jumps, every second of
 * which would be guessed wrong.
 */
NM_RACY static inline const int64_t *
bisect_cached(const int64_t *at, int len, int64_t key)
{
	while (len > 1)
	{
		int half = len / 2;

		at += (at[half - 1] < key) * half;
		len -= half;
	}
	return len > 0 ? at + (*at < key) : at;
}

/*
 * First of the 2 * reach keys from "at" on that is not below key; the last one
 * is not.  No jumps here either, and few steps that wait for the one before:
 * keys are counted that are below this one, first of the quarters' last ones,
 * then in a quarter.
 */
NM_RACY static inline __attribute__((always_inline)) const int64_t *
window_lower(const int64_t *at, int reach, int64_t key)
{
	const int quarter = reach / 2;
	int below = 0;

	at += ((at[quarter - 1] < key) + (at[2 * quarter - 1] < key) + (at[3 * quarter - 1] < key)) * quarter;
#pragma GCC unroll 7
	for (int i = 0; i < quarter - 1; i++)
		below += at[i] < key;
	return at + below;
}

/*
 * First of keys[lo..end) that is not below key, or end.  The first look goes
 * where the key is guessed to be (guess < 0: where it would be if keys were
 * spread evenly between the page's ends), because a leaf is seldom in the cache:
 * evenly spread keys, such as row numbers and hashes, then cost one miss beside
 * the header's, where bisecting costs one per cache line on the way.  Uneven
 * keys cost a few comparisons more than bisecting.
 */
NM_RACY static inline __attribute__((always_inline)) int
fixed_lower(const NmPage *p, bool leaf, int lo, int end, int64_t key, int guess)
{
	const int64_t *keys = nm_fx_keys(p);
	const int reach = leaf ? LEAF_REACH : INNER_REACH;

	if (end - lo > 4 * reach)
	{
		int last = end - 2 * reach;
		int from;

		if (guess >= 0)
			from = guess - reach;
		else
		{
			int64_t low = keys[lo];
			int64_t high;

			/* the high key lies beside the header and stands for the last key */
			if ((p->flags & (NM_PF_HIGH | NM_PF_HIGH_NULL)) == NM_PF_HIGH)
				high = p->hk_key;
			else
				high = keys[end - 1];
			if (key <= low)
				return lo;
			from = key < high ? lo + evenly(key, low, high, end - lo) - reach : last;
		}
		from = from < last ? from : last;
		from = from > lo ? from : lo;
		if (!leaf)
			__builtin_prefetch(&nm_fx_child(p)[from + INNER_REACH]);
		else if (guess < 0)
		{
			__builtin_prefetch(&keys[from + 8]);
			__builtin_prefetch(&keys[from + LEAF_REACH]);
			__builtin_prefetch(&keys[from + LEAF_REACH + 8]);
			__builtin_prefetch(nm_leaf_blk(p) + from + LEAF_REACH);
			__builtin_prefetch(nm_leaf_off(p) + from + LEAF_REACH);
		}
		/* a near miss is mostly in the window beside it */
		for (int tries = 0; tries < 2; tries++)
		{
			int next;

			if (keys[from + 2 * reach - 1] < key)
				next = lo = from + 2 * reach;
			else if (from > lo && keys[from] >= key)
			{
				end = from;
				next = from - 2 * reach;
			}
			else
				return (int) (window_lower(keys + from, reach, key) - keys);
			if (next < lo || next + 2 * reach > end)
				break;
			from = next;
		}
	}
	else if (!leaf)
		return (int) (bisect_cached(keys + lo, end - lo, key) - keys);
	return (int) (bisect(keys + lo, end - lo, key) - keys);
}

/*
 * Where the place is among the entries [lo, end) of a FIXED page that are equal
 * to the bound from lo on; end may lie past them.
 */
NM_RACY static int
fixed_ties(const NmPage *p, int lo, int end, const NmItem *item, uint64_t tid, bool upper)
{
	const int64_t *keys = nm_fx_keys(p);
	int hi = lo + 1;

	/* end of the run of equal keys; usually it is short */
	if (item->isnull)
		hi = end;
	else
	{
		for (int step = 1; hi < end && keys[hi] == item->key; step *= 2)
			hi = hi + step < end ? hi + step : end;
	}
	while (lo < hi)
	{
		int mid = (lo + hi) / 2;
		uint64_t t = nm_tid_make(nm_fx_blk(p)[mid], nm_fx_off(p)[mid]);

		/* hi may have been past the run */
		if ((item->isnull || keys[mid] == item->key) && (upper ? t <= tid : t < tid))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/*
 * FIXED page, plain bound: no comparator, no copies.  The first "from" entries
 * are known to be before the place, which is often near them.
 */
NM_RACY static inline __attribute__((always_inline)) int
fixed_search(const NmPage *p, bool leaf, const NmBound *bound, bool upper, int from, int guess)
{
	const int64_t *keys = nm_fx_keys(p);
	const int cap = leaf ? NM_LEAF_CAP : NM_INNER_CAP;
	int n = p->n <= cap ? p->n : cap;
	int lo = leaf ? 0 : 1;
	int end = n;
	int64_t key = bound->item.key;

	if (n < lo)
		return n;
	if (nm_unlikely(p->nnull > 0 || bound->item.isnull))
	{
		int nn = p->nnull;

		if (nn > n - lo)
			nn = n - lo;
		if (bound->item.isnull)
		{
			lo = p->nulls_first ? lo : n - nn;
			return fixed_ties(p, lo, lo + nn, &bound->item, bound->tid, upper);
		}
		if (p->nulls_first)
			lo += nn;
		else
			end -= nn;
	}
	if (from > 0)
	{
		if (from > lo && from <= end)
			lo = from;
		/* a lookup of one key looks for its end at its start */
		if (lo < end && keys[lo] < key)
			lo = fixed_lower(p, leaf, lo + 1, end, key, -1);
	}
	else
		lo = fixed_lower(p, leaf, lo, end, key, guess);
	if (lo >= end || keys[lo] != key || (bound->tid == NM_TID_MIN && !upper))
		return lo;
	/* behind all equal entries: there is one, mostly */
	if (bound->tid == NM_TID_MAX && (lo + 1 == end || keys[lo + 1] != key))
		return lo + 1;
	return fixed_ties(p, lo, end, &bound->item, bound->tid, upper);
}

NM_RACY int
nm_fixed_page_search(const NmPage *p, const NmBound *bound, bool upper, int from)
{
	if (nm_unlikely(nm_page_flags(p) & NM_PF_RUNS))
		return nm_runs_fixed_search(p, bound, upper);
	return p->level == 0 ? fixed_search(p, true, bound, upper, from, -1)
						 : fixed_search(p, false, bound, upper, from, -1);
}

/*
 * Of a leaf that covers the key, whose first idx entries are before all of the
 * key's: has neither it nor any other leaf an entry of the key?  False also if
 * that takes a second look.  Racy, as all of this.
 */
NM_RACY bool
nm_fixed_absent(const NmPage *p, int64_t key, int idx)
{
	uint16_t flags = nm_page_flags(p);
	int n = p->n < NM_LEAF_CAP ? p->n : NM_LEAF_CAP;

	if (p->nnull > 0 || (flags & (NM_PF_RUNS | NM_PF_HIGH_NULL)))
		return false;
	return idx < n ? nm_fx_keys(p)[idx] != key : (flags & NM_PF_HIGH) == 0 || p->hk_key != key;
}

/*
 * Half the number of entries that a page had when this process last descended
 * to it, at its page number modulo the size; 0 = not known, or no plain page.
 * A guess and nothing else, since pages change and share their places here.
 */
#define FILLS 65536

#ifdef NM_IN_POSTGRES
static uint8_t fills[FILLS];
#else
static __thread uint8_t fills[FILLS];
#endif

_Static_assert(NM_LEAF_CAP / 2 <= UINT8_MAX, "half a page's entries fit a byte");

/*
 * Have the line at this address fetched.  Not by a prefetch: those do nothing
 * when the translation of the address is not at hand (seen on Zen 3), which is
 * just when it takes longest.
 */
NM_RACY static inline void
touch(const void *at)
{
	(void) *(const volatile char *) at;
}

/*
 * Ask for what a look for the place around a guess will read of a leaf behind
 * its header, before that is there.  No more than that: the processor goes on
 * only so far past a load that waits for memory, and what will be copied from
 * the place on can be prefetched once the translation is known.
 */
NM_RACY static inline void
touch_entries(const NmPage *leaf, int guess)
{
	const char *body = leaf->body;
	int from = guess > LEAF_REACH ? guess - LEAF_REACH : 0;

	/* a page that was being changed may have left any number in fills */
	from = from < NM_LEAF_CAP - 2 * LEAF_REACH ? from : NM_LEAF_CAP - 2 * LEAF_REACH;
	touch(body + 8 * from);
	touch(body + 8 * from + 64);
	touch(body + 8 * from + 128);
	touch(body + 8 * from + 192);
	touch(body + 8 * from + 248);
	touch(nm_leaf_blk(leaf) + from + LEAF_REACH / 2);
	touch(nm_leaf_blk(leaf) + from + 3 * LEAF_REACH / 2);
	touch(nm_leaf_off(leaf) + from + LEAF_REACH);
}

/*
 * Ask for the first lines of each array of a leaf that will be read after
 * another one: its translation and header come meanwhile.
 */
NM_RACY static inline void
touch_start(const NmPage *leaf)
{
	touch(leaf);
	touch(leaf->body);
	touch(leaf->body + 64);
	touch(leaf->body + 128);
	touch(nm_leaf_blk(leaf));
	touch(nm_leaf_blk(leaf) + 16);
	touch(nm_leaf_off(leaf));
}

/*
 * Prefetch what a scan copies behind the window around a guess, some 50 entries
 * in all.  Of use only once the header has been waited for, which the number of
 * entries has come from: then the translation is there.
 */
NM_RACY static inline void
prefetch_entries(const NmPage *leaf, int guess)
{
	int at = guess < leaf->n ? guess : 0;

	for (int i = 24; i < 64; i += 8)
		__builtin_prefetch(nm_fx_keys(leaf) + at + i);
	for (int i = 16; i < 64; i += 16)
		__builtin_prefetch(nm_leaf_blk(leaf) + at + i);
	__builtin_prefetch(nm_leaf_off(leaf) + at + 32);
}

/* Will a scan go on behind a leaf of n entries that ends at high? */
static inline bool
reads_on(const NmReading *reading, int guess, int n, int64_t high)
{
	const NmBound *to = reading->to;

	if (reading->most > 0 && guess + reading->most <= n)
		return false;
	if (to->infinite)
		return to->infinite > 0 && reading->most > 0;
	return to->cmp == NULL && !to->item.isnull && to->item.key > high;
}

/*
 * The usual case of nm_descend in one piece: a plain bound, no low fence
 * wanted, nobody changes or has lately split what is on the way.  False:
 * nothing is known, take the long way.  Inside the epoch section.  reading:
 * what will be read of the leaf, or NULL if that is about one entry.
 */
NM_RACY bool
nm_fixed_descend(NmTree *tree, const NmBound *bound, int level, bool want_idx, const NmReading *reading, NmPos *pos)
{
	uint64_t word = nm_root_word(tree);
	NmPageNo no = nm_root_page(word);
	NmPage *p = nm_page(tree, no);
	int at = nm_root_level(word);
	int64_t key = bound->item.key;
	int64_t low = 0; /* bounds of the keys in p, if known */
	int64_t high = 0;
	bool has_low = false;
	bool has_high = false;
	int guess = -1; /* entries of p before the place, or -1 */
	uint64_t version;

	if (word == 0 || at < level)
		return false;
	version = nm_page_read_begin(p);
	/* nobody vouches for the root's range */
	if (!nm_page_is(tree, p, no, at) || (p->flags & NM_PF_HIGH))
		return false;
	while (at > level)
	{
		const int64_t *keys = nm_fx_keys(p);
		int n = p->n < NM_INNER_CAP ? p->n : NM_INNER_CAP;
		int idx = fixed_search(p, false, bound, true, 0, guess) - 1;
		NmPageNo next = NM_NO_PAGE;
		NmPage *child;
		uint64_t child_version;

		if (idx < 0)
			return false;
		no = nm_fx_child(p)[idx];
		if (idx > 0)
		{
			low = keys[idx];
			has_low = true;
		}
		if (idx + 1 < n)
		{
			high = keys[idx + 1];
			has_high = true;
			next = nm_fx_child(p)[idx + 1];
		}
		if (nm_unlikely(p->nnull > 0))
			has_low = has_high = false;
		if (!nm_page_validate(p, version) || !nm_page_no_valid(tree, no))
			return false;
		child = nm_page(tree, no);
		touch(child);
		touch((const char *) child + 64);
		at--;
		guess = -1;
		n = 2 * fills[no % FILLS];
		if (has_low && has_high && n > 0)
		{
			guess = key <= low ? 0 : key >= high ? n
												 : evenly(key, low, high, n);
			if (at > 0)
				guess++; /* the first of an inner page has no key */
			else
			{
				touch_entries(child, guess);
				if (reading != NULL && nm_page_no_valid(tree, next) && reads_on(reading, guess, n, high))
					touch_start(nm_page(tree, next));
			}
		}
		child_version = nm_page_read_begin(child);
		if (!nm_page_is(tree, child, no, at) || (child->flags & NM_PF_PENDING) ||
			!nm_page_validate(p, version))
			return false;
		p = child;
		version = child_version;
		fills[no % FILLS] = nm_page_flags(p) & NM_PF_RUNS ? 0 : (uint8_t) (p->n / 2);
	}
	if (reading != NULL && guess >= 0)
		prefetch_entries(p, guess);
	pos->no = no;
	pos->page = p;
	pos->version = version;
	if (!want_idx)
		pos->idx = 0;
	else if (nm_likely(level == 0 && (nm_page_flags(p) & NM_PF_RUNS) == 0))
		pos->idx = fixed_search(p, true, bound, false, 0, guess);
	else
		pos->idx = nm_fixed_page_search(p, bound, false, 0);
	return nm_page_validate(p, version);
}

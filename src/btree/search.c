/*-------------------------------------------------------------------------
 *
 * search.c
 *	  Finding places: inside a page and from the root down.
 *
 * Descents take no lock.  At every step the reader takes the child's version,
 * then validates the parent: if the parent has not changed since the child's
 * number was read from it, the child covers the place exactly as the parent
 * says, so the high key need not be compared.  The one exception is a child
 * whose right sibling has no downlink yet (NM_PF_PENDING).
 *
 * IDENTIFICATION
 *	  src/btree/search.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

/*
 * Comparator on private copies.  Foreign ones run outside the epoch section;
 * the page may be gone afterwards, which its version tells: an old version is
 * never seen again.
 */
static int
call_compare(NmTree *tree, const NmItem *item, const NmBound *bound)
{
	int c;

	if (tree->leave_epoch && nm_epoch_inside(tree->pool))
	{
		nm_epoch_exit(tree->pool);
		c = bound->cmp ? bound->cmp(bound->arg, item)
					   : tree->compare(tree->compare_arg, item, &bound->item);
		nm_epoch_enter(tree->pool);
		return c;
	}
	return bound->cmp ? bound->cmp(bound->arg, item)
					  : tree->compare(tree->compare_arg, item, &bound->item);
}

static inline int
tid_sign(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* FIXED: order of two keys, NULLs placed by the tree. */
static inline int
fixed_sign(const NmTree *tree, const NmItem *a, const NmItem *b)
{
	if (a->isnull || b->isnull)
	{
		if (a->isnull && b->isnull)
			return 0;
		return (a->isnull != 0) == (tree->shared->nulls_first != 0) ? -1 : 1;
	}
	return (a->key > b->key) - (a->key < b->key);
}

int
nm_copy_vs_bound(NmTree *tree, const NmKeyCopy *copy, const NmBound *bound)
{
	int c;

	if (bound->infinite)
		return -bound->infinite;
	if (tree->layout == NM_LAYOUT_FIXED && bound->cmp == NULL)
		c = fixed_sign(tree, &copy->item, &bound->item);
	else
	{
		if (tree->layout == NM_LAYOUT_GENERAL && tree->use_heads &&
			(bound->cmp == NULL || bound->head_valid) &&
			copy->item.head != bound->item.head)
			return copy->item.head < bound->item.head ? -1 : 1;
		c = call_compare(tree, &copy->item, bound);
	}
	return c != 0 ? c : tid_sign(copy->tid, bound->tid);
}

/* A place at a copied key; the copy must outlive the bound. */
void
nm_bound_from_copy(NmBound *bound, const NmKeyCopy *copy, uint64_t tid)
{
	memset(bound, 0, sizeof(*bound));
	bound->item = copy->item;
	bound->item.data = copy->buf;
	bound->tid = tid;
}

/* Half the window around the guess; wide enough for nearly all evenly spread keys. */
#define GUESS_REACH 16

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
 * First of the 2 * GUESS_REACH keys from "at" on that is not below key; the last
 * one is not.  Without jumps: these lines were asked for together, so there is
 * nothing to fetch ahead, and every second jump would be guessed wrong.
 */
NM_RACY static inline const int64_t *
window_lower(const int64_t *at, int64_t key)
{
	_Static_assert(2 * GUESS_REACH == 32, "five halvings");
	at += (at[15] < key) << 4;
	at += (at[7] < key) << 3;
	at += (at[3] < key) << 2;
	at += (at[1] < key) << 1;
	at += at[0] < key;
	return at;
}

/*
 * First of keys[lo..end) that is not below key, or end.  The first look goes
 * where the key would be if keys were spread evenly between the ends, because
 * a leaf is seldom in the cache: evenly spread keys, such as row numbers and
 * hashes, then cost one miss after the header's, where bisecting costs one per
 * cache line on the way.  Uneven keys cost two comparisons more than bisecting.
 */
NM_RACY static inline __attribute__((always_inline)) int
fixed_lower(const NmPage *p, bool leaf, int lo, int end, int64_t key)
{
	const int64_t *keys = nm_fx_keys(p);

	if (end - lo > 4 * GUESS_REACH)
	{
		/* the high key lies beside the header and stands for the last key */
		int64_t low = keys[lo];
		int64_t high = (p->flags & (NM_PF_HIGH | NM_PF_HIGH_NULL)) == NM_PF_HIGH ? p->hk_key : keys[end - 1];
		int from = end - 2 * GUESS_REACH;

		if (key <= low)
			return lo;
		if (key < high)
		{
			/* halves, so that they convert as signed numbers; high - low >= 2 */
			double dist = (double) (int64_t) (((uint64_t) key - (uint64_t) low) >> 1);
			double range = (double) (int64_t) (((uint64_t) high - (uint64_t) low) >> 1);
			int there = lo + (int) (dist / range * (end - lo)) - GUESS_REACH;

			from = there < from ? there : from;
			from = from > lo ? from : lo;
		}
		if (leaf)
		{
			__builtin_prefetch(&keys[from + 8]);
			__builtin_prefetch(&keys[from + GUESS_REACH]);
			__builtin_prefetch(&keys[from + GUESS_REACH + 8]);
			__builtin_prefetch((const uint32_t *) (p->body + 8 * NM_LEAF_CAP) + from + GUESS_REACH);
			__builtin_prefetch((const uint16_t *) (p->body + 12 * NM_LEAF_CAP) + from + GUESS_REACH);
		}
		if (keys[from + 2 * GUESS_REACH - 1] < key)
			lo = from + 2 * GUESS_REACH;
		else if (keys[from] >= key)
			end = from;
		else
			return (int) (window_lower(keys + from, key) - keys);
	}
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
fixed_search(const NmPage *p, bool leaf, const NmBound *bound, bool upper, int from)
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
			lo = fixed_lower(p, leaf, lo + 1, end, key);
	}
	else
		lo = fixed_lower(p, leaf, lo, end, key);
	if (lo >= end || keys[lo] != key || (bound->tid == NM_TID_MIN && !upper))
		return lo;
	/* behind all equal entries: there is one, mostly */
	if (bound->tid == NM_TID_MAX && (lo + 1 == end || keys[lo + 1] != key))
		return lo + 1;
	return fixed_ties(p, lo, end, &bound->item, bound->tid, upper);
}

NM_RACY static int __attribute__((noinline))
fixed_page_search(const NmPage *p, const NmBound *bound, bool upper, int from)
{
	if (nm_unlikely(nm_page_flags(p) & NM_PF_RUNS))
		return nm_runs_fixed_search(p, bound, upper);
	return p->level == 0 ? fixed_search(p, true, bound, upper, from)
						 : fixed_search(p, false, bound, upper, from);
}

/* Keys (entries, or runs) whose head is below (or_equal: not above) the given one. */
NM_RACY static int
head_search(const NmPage *p, int lo, int hi, uint64_t head, bool or_equal)
{
	const uint64_t *heads = nm_gn_heads(p);

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (or_equal ? heads[mid] <= head : heads[mid] < head)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Entries and keys; *items is -1 for a plain page, which has as many of both. */
NM_RACY static void
racy_shape(const NmPage *p, int *n, int *items, int *level)
{
	uint16_t flags = nm_page_flags(p);

	*level = p->level;
	if (nm_unlikely(flags & NM_PF_RUNS))
	{
		NmRuns v;

		nm_runs_view(p, &v);
		*n = v.n;
		*items = v.nruns;
	}
	else
	{
		*n = nm_clamp(p->n, nm_plain_max_n(p, flags));
		*items = -1;
	}
}

/*
 * The comparator search in a leaf of runs: find the first run whose last entry
 * is not before the place, then, if its key is equal to the bound, the place
 * among its TIDs.
 */
static bool
runs_search(NmTree *tree, const NmPage *p, uint64_t version, const NmBound *bound,
			bool upper, int from, int nruns, int *count)
{
	int lo = from > 0 ? nm_clamp(nm_runs_at(p, from), nruns) : 0;
	int hi = nruns;
	int step = from > 0 ? 1 : 0;
	bool equal = false; /* run hi's key to the bound */

	if (tree->layout == NM_LAYOUT_GENERAL && tree->use_heads &&
		(bound->cmp == NULL || bound->head_valid))
	{
		lo = head_search(p, lo, hi, bound->item.head, false);
		hi = head_search(p, lo, hi, bound->item.head, true);
		if (!nm_page_validate(p, version))
			return false;
	}
	while (lo < hi)
	{
		NmKeyCopy copy;
		int mid = step > 0 ? (lo + step - 1 < hi ? lo + step - 1 : hi - 1) : (lo + hi) / 2;
		int key;
		int c;

		if (!nm_runs_copy_last(tree, p, mid, &copy) || !nm_page_validate(p, version))
			return false;
		key = call_compare(tree, &copy.item, bound);
		c = key != 0 ? key : tid_sign(copy.tid, bound->tid);
		/* after a foreign comparator the page may be gone: look again */
		if (tree->leave_epoch && !nm_page_validate(p, version))
			return false;
		if (c < 0 || (upper && c == 0))
		{
			lo = mid + 1;
			step *= 2;
		}
		else
		{
			hi = mid;
			step = 0;
			equal = key == 0;
		}
	}
	*count = equal ? nm_runs_place(p, hi, bound->tid, upper) : nm_runs_first(p, lo);
	return nm_page_validate(p, version);
}

/* The searches that need a comparator, or nothing at all. */
static bool __attribute__((noinline))
compared_search(NmTree *tree, const NmPage *p, uint64_t version,
				const NmBound *bound, bool upper, int from, int *count)
{
	int n,
		items,
		level;
	int lo,
		hi;
	int step;

	racy_shape(p, &n, &items, &level);
	lo = level > 0 ? 1 : 0;
	hi = n;
	if (lo > n)
		lo = n;
	if (bound->infinite)
	{
		*count = bound->infinite < 0 ? lo : n;
		return nm_page_validate(p, version);
	}
	if (nm_unlikely(items >= 0))
		return runs_search(tree, p, version, bound, upper, from, items, count);
	if (from > lo)
		lo = from > n ? n : from;
	if (tree->layout == NM_LAYOUT_GENERAL && tree->use_heads &&
		(bound->cmp == NULL || bound->head_valid))
	{
		lo = head_search(p, lo, hi, bound->item.head, false);
		hi = head_search(p, lo, hi, bound->item.head, true);
		if (!nm_page_validate(p, version))
			return false;
	}

	/*
	 * Comparator search.  With a hint ("from") the end is usually near, so
	 * gallop; else bisect.
	 */
	step = from > 0 ? 1 : 0;
	while (lo < hi)
	{
		NmKeyCopy copy;
		int mid = step > 0 ? (lo + step - 1 < hi ? lo + step - 1 : hi - 1) : (lo + hi) / 2;
		int c;

		if (!nm_entry_copy(tree, p, mid, &copy) || !nm_page_validate(p, version))
			return false;
		c = call_compare(tree, &copy.item, bound);
		if (c == 0)
			c = tid_sign(copy.tid, bound->tid);
		/* after a foreign comparator the page may be gone: look again */
		if (tree->leave_epoch && !nm_page_validate(p, version))
			return false;
		if (c < 0 || (upper && c == 0))
		{
			lo = mid + 1;
			step *= 2;
		}
		else
		{
			hi = mid;
			step = 0;
		}
	}
	*count = lo;
	return true;
}

bool
nm_page_search(NmTree *tree, const NmPage *p, uint64_t version,
			   const NmBound *bound, bool upper, int from, int *count)
{
	if (tree->layout == NM_LAYOUT_FIXED && bound->cmp == NULL && !bound->infinite)
	{
		*count = fixed_page_search(p, bound, upper, from);
		return nm_page_validate(p, version);
	}
	return compared_search(tree, p, version, bound, upper, from, count);
}

NM_RACY static bool
racy_is(const NmTree *tree, const NmPage *p, NmPageNo no, int level)
{
	return nm_page_is(tree, p, no, level);
}

NM_RACY static void
racy_links(const NmPage *p, uint16_t *flags, NmPageNo *right)
{
	*flags = p->flags;
	*right = p->right;
}

/*
 * Read the root word and its page's version; inside the epoch section.  False
 * to try again, *gone if there is no tree of ours.
 */
static bool
read_root(NmTree *tree, int level, NmPos *pos, int *at_level, bool *gone)
{
	uint64_t word = nm_root_word(tree);

	*gone = false;
	if (word == 0 || nm_root_level(word) < level)
	{
		*gone = true;
		return false;
	}
	pos->no = nm_root_page(word);
	pos->page = nm_page(tree, pos->no);
	pos->version = nm_page_read_begin(pos->page);
	*at_level = nm_root_level(word);
	if (!racy_is(tree, pos->page, pos->no, *at_level))
		return false; /* root moved or tree detached: read again */
	return nm_page_validate(pos->page, pos->version);
}

static void
count_restart(NmTree *tree, int *restarts)
{
	if (++*restarts % 16 == 0)
		NM_COUNT(tree->shared->restarts, 16);
	if (*restarts > 64)
	{
		struct timespec ts = {0, 50000};

		nanosleep(&ts, NULL);
	}
}

/*
 * The usual case of nm_descend in one piece: integer keys, a plain bound, no
 * low fence wanted, nobody changes or has lately split what is on the way.
 * False: nothing is known, take the long way.  Inside the epoch section.
 */
NM_RACY static bool
descend_fixed(NmTree *tree, const NmBound *bound, int level, bool want_idx, NmPos *pos)
{
	uint64_t word = nm_root_word(tree);
	NmPageNo no = nm_root_page(word);
	NmPage *p = nm_page(tree, no);
	int at = nm_root_level(word);
	uint64_t version;

	if (word == 0 || at < level)
		return false;
	version = nm_page_read_begin(p);
	/* nobody vouches for the root's range */
	if (!nm_page_is(tree, p, no, at) || (p->flags & NM_PF_HIGH))
		return false;
	while (at > level)
	{
		int idx = fixed_search(p, false, bound, true, 0) - 1;
		NmPage *child;
		uint64_t child_version;

		if (idx < 0)
			return false;
		no = nm_fx_child(p)[idx];
		if (!nm_page_validate(p, version) || !nm_page_no_valid(tree, no))
			return false;
		child = nm_page(tree, no);
		__builtin_prefetch((char *) child + 64);
		child_version = nm_page_read_begin(child);
		at--;
		if (!nm_page_is(tree, child, no, at) || (child->flags & NM_PF_PENDING) ||
			!nm_page_validate(p, version))
			return false;
		p = child;
		version = child_version;
	}
	pos->no = no;
	pos->page = p;
	pos->version = version;
	pos->idx = want_idx ? fixed_page_search(p, bound, false, 0) : 0;
	return nm_page_validate(p, version);
}

NmStatus
nm_descend(NmTree *tree, const NmBound *bound, int level, bool strict,
		   bool want_idx, NmPos *pos, NmKeyCopy *low, bool *low_valid)
{
	int restarts = 0;

	nm_epoch_enter(tree->pool);
	if (tree->layout == NM_LAYOUT_FIXED && bound->cmp == NULL && !bound->infinite && !strict && low == NULL &&
		descend_fixed(tree, bound, level, want_idx, pos))
		return NM_OK;
	for (;;)
	{
		int at;
		bool gone;
		bool covered;

		if (low_valid)
			*low_valid = false;
		if (!read_root(tree, level, pos, &at, &gone))
		{
			if (gone)
			{
				nm_epoch_exit(tree->pool);
				return NM_GONE;
			}
			goto restart;
		}
		covered = false; /* nobody vouches for the root */

		for (;;)
		{
			uint16_t flags;
			NmPageNo next;
			NmPageNo no;
			NmPage *page;
			uint64_t version;
			int idx;

			/* Move right while the place is beyond this page. */
			racy_links(pos->page, &flags, &next);
			if ((flags & NM_PF_HIGH) && (!covered || (flags & NM_PF_PENDING)))
			{
				NmKeyCopy high;
				int c;

				if (!nm_entry_copy(tree, pos->page, -1, &high) ||
					!nm_page_validate(pos->page, pos->version))
					goto restart;
				c = nm_copy_vs_bound(tree, &high, bound);
				if (tree->leave_epoch && !nm_page_validate(pos->page, pos->version))
					goto restart;
				if (strict ? c < 0 : c <= 0)
				{
					if (!nm_page_no_valid(tree, next))
						goto restart;
					page = nm_page(tree, next);
					version = nm_page_read_begin(page);
					if (!racy_is(tree, page, next, at) ||
						!nm_page_validate(page, version) ||
						!nm_page_validate(pos->page, pos->version))
						goto restart;
					if (low)
					{
						memcpy(low, &high, sizeof(high));
						low->item.data = low->buf;
						*low_valid = true;
					}
					pos->no = next;
					pos->page = page;
					pos->version = version;
					covered = false;
					continue;
				}
			}

			if (at == level)
			{
				pos->idx = 0;
				if (want_idx &&
					!nm_page_search(tree, pos->page, pos->version, bound, false, 0, &pos->idx))
					goto restart;
				if (!want_idx && !nm_page_validate(pos->page, pos->version))
					goto restart;
				return NM_OK;
			}

			/* The child with the last separator at or before the place. */
			if (!nm_page_search(tree, pos->page, pos->version, bound, !strict, 0, &idx))
				goto restart;
			idx--;
			if (idx < 0)
				goto restart;
			if (low && idx > 0)
			{
				if (!nm_entry_copy(tree, pos->page, idx, low))
					goto restart;
				*low_valid = true;
			}
			no = nm_entry_child(pos->page, idx);
			if (!nm_page_validate(pos->page, pos->version) || !nm_page_no_valid(tree, no))
				goto restart;
			page = nm_page(tree, no);
			__builtin_prefetch(page);
			__builtin_prefetch((char *) page + 64);
			version = nm_page_read_begin(page);
			if (!racy_is(tree, page, no, at - 1) ||
				!nm_page_validate(page, version) ||
				!nm_page_validate(pos->page, pos->version))
				goto restart;
			pos->no = no;
			pos->page = page;
			pos->version = version;
			at--;
			covered = true;
		}

	restart:
		count_restart(tree, &restarts);
		if (restarts % 8 == 0)
		{
			/* let reclamation pass; everything is read anew anyway */
			nm_epoch_exit(tree->pool);
			nm_epoch_enter(tree->pool);
		}
	}
}

NmStatus
nm_leftmost(NmTree *tree, int level, NmPageNo *no)
{
	NmBound bound = {.infinite = -1};
	NmPos pos;
	NmStatus st = nm_descend(tree, &bound, level, false, false, &pos, NULL, NULL);

	if (st != NM_OK)
		return st;
	nm_epoch_exit(tree->pool);
	*no = pos.no;
	return NM_OK;
}

NmStatus
nm_tree_first_leaf(NmTree *tree, const NmBound *bound, NmGuard *guard)
{
	NmPos pos;

	for (;;)
	{
		NmStatus st = nm_descend(tree, bound, 0, false, false, &pos, NULL, NULL);
		uint64_t l;
		uint32_t origin;

		if (st != NM_OK)
			return st;
		nm_racy_copy(&l, &pos.page->lid, sizeof(l));
		nm_racy_copy(&origin, &pos.page->origin, sizeof(origin));
		if (nm_page_validate(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			guard->lid = l;
			guard->page = pos.no;
			guard->version = pos.version;
			guard->tree_id = tree->tree_id;
			guard->idx = -1;
			tree->leaf_id = (uint32_t) l;
			tree->leaf_origin = origin;
			return NM_OK;
		}
		nm_epoch_exit(tree->pool);
	}
}

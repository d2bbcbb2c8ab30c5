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
	nm_bound_at(bound, &copy->item, tid);
	bound->item.data = copy->buf;
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

/* Is the place at an integer, which takes no comparator? */
static inline bool
is_integer(const NmTree *tree, const NmBound *bound)
{
	return tree->layout == NM_LAYOUT_FIXED && bound->cmp == NULL && !bound->infinite;
}

bool
nm_page_search(NmTree *tree, const NmPage *p, uint64_t version,
			   const NmBound *bound, bool upper, int from, int *count)
{
	if (is_integer(tree, bound))
	{
		*count = nm_fixed_page_search(p, bound, upper, from);
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

/* nm_descend for any bound, already inside the epoch section. */
static NmStatus
descend(NmTree *tree, const NmBound *bound, int level, bool strict,
		bool want_idx, NmPos *pos, NmKeyCopy *low, bool *low_valid)
{
	int restarts = 0;

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
nm_descend(NmTree *tree, const NmBound *bound, int level, bool strict,
		   bool want_idx, NmPos *pos, NmKeyCopy *low, bool *low_valid)
{
	nm_epoch_enter(tree->pool);
	if (!strict && low == NULL && is_integer(tree, bound) &&
		nm_fixed_descend(tree, bound, level, want_idx, NULL, pos))
		return NM_OK;
	return descend(tree, bound, level, strict, want_idx, pos, low, low_valid);
}

NmStatus
nm_descend_to_read(NmTree *tree, const NmBound *from, const NmBound *to, int most, NmPos *pos)
{
	NmReading reading = {.to = to, .most = most};

	nm_epoch_enter(tree->pool);
	if (is_integer(tree, from) && nm_fixed_descend(tree, from, 0, true, &reading, pos))
		return NM_OK;
	return descend(tree, from, 0, false, true, pos, NULL, NULL);
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
	/* the lowest place of an integer: whether it is there can be told at once */
	bool integer = is_integer(tree, bound) && !bound->item.isnull && bound->tid == NM_TID_MIN;
	NmPos pos;

	for (;;)
	{
		NmStatus st = nm_descend(tree, bound, 0, false, integer, &pos, NULL, NULL);
		uint64_t l;
		uint32_t origin;
		bool absent;

		if (st != NM_OK)
			return st;
		nm_racy_copy(&l, &pos.page->lid, sizeof(l));
		nm_racy_copy(&origin, &pos.page->origin, sizeof(origin));
		absent = integer && nm_fixed_absent(pos.page, bound->item.key, pos.idx);
		if (nm_page_validate(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			guard->lid = l;
			guard->page = pos.no;
			guard->version = pos.version;
			guard->tree_id = tree->tree_id;
			guard->idx = absent ? pos.idx : -1;
			tree->leaf_id = (uint32_t) l;
			tree->leaf_origin = origin;
			return NM_OK;
		}
		nm_epoch_exit(tree->pool);
	}
}

/*-------------------------------------------------------------------------
 *
 * check.c
 *	  Structural check of a tree, beside writers or when quiet.
 *
 * Each page is judged from a validated private copy.  What relates two pages
 * is judged only if neither changed between the two copies.  The counters are
 * changed after the pages, so they are judged only if the caller keeps writers
 * out; who does not, hears whether they differ.
 *
 * IDENTIFICATION
 *	  src/btree/check.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"
#include "btree/walk.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct NmChecker
{
	NmTree *tree;
	char *msg;
	size_t msglen;
	void (*tick)(void *);
	void *arg;
	int64_t entries,
		leaves,
		inner,
		overflow;

	/*
	 * Of the inner page judged last: the right link of its last child, which
	 * its right sibling's first child must be, and where that was read.
	 */
	bool has_seam;
	NmPageNo seam_to,
		seam_child;
	uint64_t seam_version;
} NmChecker;

static NmStatus fault(NmChecker *ck, NmPageNo no, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static NmStatus
fault(NmChecker *ck, NmPageNo no, const char *fmt, ...)
{
	va_list ap;
	int used = snprintf(ck->msg, ck->msglen, "page %u: ", no);

	va_start(ap, fmt);
	if (used > 0 && (size_t) used < ck->msglen)
		vsnprintf(ck->msg + used, ck->msglen - used, fmt, ap);
	va_end(ap);
	return NM_CORRUPT;
}

/*
 * Copy an entry out of a private page copy; an overflow page may be retired
 * meanwhile, so then the original must still be at its version.
 */
static NmStatus
get_entry(NmChecker *ck, const NmPage *copy, uint64_t version, int pos, NmKeyCopy *out)
{
	NmTree *tree = ck->tree;
	bool ok;

	nm_epoch_enter(tree->pool);
	ok = nm_entry_copy(tree, copy, pos, out);
	if (ok && nm_entry_overflow(copy, pos) != NM_NO_PAGE &&
		!nm_page_validate(nm_page(tree, copy->page), version))
	{
		nm_epoch_exit(tree->pool);
		return NM_STALE;
	}
	nm_epoch_exit(tree->pool);
	if (!ok)
		return fault(ck, copy->page, "entry %d does not lie in the page", pos);
	out->item.data = out->buf;
	return NM_OK;
}

static int
compare(NmChecker *ck, const NmKeyCopy *a, const NmKeyCopy *b)
{
	NmBound bound;

	nm_bound_from_copy(&bound, b, b->tid);
	return nm_copy_vs_bound(ck->tree, a, &bound);
}

/* The comparator alone, heads left aside: do heads tell the truth? */
static int
compare_full(NmChecker *ck, const NmKeyCopy *a, const NmKeyCopy *b)
{
	bool heads = ck->tree->use_heads;
	int c;

	ck->tree->use_heads = false;
	c = compare(ck, a, b);
	ck->tree->use_heads = heads;
	return c;
}

/* The arrays of a leaf of runs; the order of its entries is checked as any page's. */
static NmStatus
check_runs(NmChecker *ck, const NmPage *p)
{
	bool general = (p->flags & NM_PF_GENERAL) != 0;
	int prev = 0;
	NmRuns v;

	nm_runs_view(p, &v);
	if (p->level > 0)
		return fault(ck, p->page, "runs in an inner page");
	if (v.n != p->n || v.nruns != p->nruns || nm_page_gap(p) < 0)
		return fault(ck, p->page, "%u entries in %u runs, more than a page can hold", p->n, p->nruns);
	if (v.nruns == 0 || v.ends[v.nruns - 1] != v.n)
		return fault(ck, p->page, "runs end at %d of %d entries", v.nruns > 0 ? v.ends[v.nruns - 1] : 0, v.n);
	if (!general && p->lower != NM_BODY_END)
		return fault(ck, p->page, "items in a page of integer keys");
	for (int r = 0; r < v.nruns; r++)
	{
		if (v.ends[r] <= prev)
			return fault(ck, p->page, "run %d ends at %u, the one before at %d", r, v.ends[r], prev);
		if (general && nm_item_overflow(p, r) != NM_NO_PAGE && v.ends[r] != prev + 1)
			return fault(ck, p->page, "run %d has %d entries and an overflow page", r, v.ends[r] - prev);
		if (!general && r > 0 && v.keys[r - 1] >= v.keys[r] &&
			!nm_entry_isnull(p, prev - 1) && !nm_entry_isnull(p, prev))
			return fault(ck, p->page, "keys of runs %d and %d are not in order", r - 1, r);
		prev = v.ends[r];
	}
	return NM_OK;
}

/* Counts and space of one page, so that its entries can be read. */
static NmStatus
check_shape(NmChecker *ck, const NmPage *p)
{
	NmStatus st;

	if (p->n > nm_page_n(p))
		return fault(ck, p->page, "%u entries, more than a page can hold", p->n);
	if (p->level == 0 &&
		((uint32_t) p->lid == 0 || p->lid >= __atomic_load_n(&ck->tree->shared->next_lid, __ATOMIC_RELAXED)))
		return fault(ck, p->page, "logical id %llx was never given", (unsigned long long) p->lid);
	if (p->level > 0 && p->n == 0)
		return fault(ck, p->page, "inner page without a child");
	if (p->flags & NM_PF_RUNS)
	{
		st = check_runs(ck, p);
		if (st != NM_OK)
			return st;
	}
	if (p->flags & NM_PF_GENERAL)
	{
		int used = 0;

		for (int i = -1; i < nm_page_items(p); i++)
		{
			if (i < 0 && (p->flags & NM_PF_HIGH) == 0)
				continue;
			used += nm_item_size(p, i);
		}
		if (p->lower + p->garbage + used != NM_BODY_END)
			return fault(ck, p->page, "items take %d bytes, accounts say %d", used,
						 NM_BODY_END - p->lower - p->garbage);
		if (nm_page_gap(p) < 0)
			return fault(ck, p->page, "slots run into the items");
	}
	else if (p->nnull > p->n)
		return fault(ck, p->page, "%u NULLs among %u entries", p->nnull, p->n);
	return NM_OK;
}

/* Space, order and high key of one page. */
static NmStatus
check_page(NmChecker *ck, const NmPage *p, uint64_t version)
{
	NmKeyCopy a,
		b,
		high;
	bool has_prev = false;
	NmStatus st = check_shape(ck, p);

	if (st != NM_OK)
		return st;
	if (p->flags & NM_PF_HIGH)
	{
		st = get_entry(ck, p, version, -1, &high);
		if (st != NM_OK)
			return st;
		if (p->right == NM_NO_PAGE)
			return fault(ck, p->page, "high key but no right sibling");
	}
	for (int i = p->level > 0 ? 1 : 0; i < p->n; i++)
	{
		st = get_entry(ck, p, version, i, &b);
		if (st != NM_OK)
			return st;
		if (p->level == 0 && (b.tid > NM_TID_MAX || (b.tid & (NM_KILLED_BIT - 1)) == 0))
			return fault(ck, p->page, "entry %d has TID %llx", i, (unsigned long long) b.tid);
		if (p->level == 0 && (p->flags & NM_PF_KILLED) == 0 && nm_entry_killed(p, i))
			return fault(ck, p->page, "entry %d is killed, the page says none is", i);
		if (has_prev)
		{
			if (compare_full(ck, &a, &b) >= 0)
				return fault(ck, p->page, "entries %d and %d are not in order", i - 1, i);
			if (compare(ck, &a, &b) >= 0)
				return fault(ck, p->page, "heads of entries %d and %d are not in order", i - 1, i);
		}
		if ((p->flags & NM_PF_HIGH) && compare_full(ck, &b, &high) >= 0)
			return fault(ck, p->page, "entry %d is not below the high key", i);
		memcpy(&a, &b, sizeof(a));
		a.item.data = a.buf;
		has_prev = true;
	}
	return NM_OK;
}

/* Does anything of the original differ from the copy by now? */
static bool
changed(NmChecker *ck, const NmPage *copy, uint64_t version)
{
	return !nm_page_validate(nm_page(ck->tree, copy->page), version);
}

/*
 * Children of an inner page: right level; each one's high key is the next
 * separator, or, after splits that are not linked yet, its right siblings lead
 * there; each one's first entry is not below its separator.  Below the
 * rightmost page of a level lies the rightmost one of the next.
 */
static NmStatus
check_children(NmChecker *ck, const NmPage *p, uint64_t version)
{
	NmKeyCopy low,
		next,
		key;
	NmPage child;
	uint64_t child_v;
	NmStatus st;

	for (int i = 0; i < p->n; i++)
	{
		NmPageNo no = nm_entry_child(p, i);
		bool has_next = i + 1 < p->n || (p->flags & NM_PF_HIGH);
		int first;

		st = nm_page_snapshot(ck->tree, no, p->level - 1, &child, &child_v);
		if (st == NM_GONE)
			return st;
		if (st != NM_OK)
		{
			if (changed(ck, p, version))
				return NM_STALE;
			return fault(ck, p->page, "child %d, page %u, is not a page of level %d", i, no, p->level - 1);
		}
		st = check_shape(ck, &child);
		if (st != NM_OK)
			return st;
		if (i > 0)
		{
			st = get_entry(ck, p, version, i, &low);
			if (st != NM_OK)
				return st;
			first = child.level > 0 ? 1 : 0;
			if (child.n > first)
			{
				st = get_entry(ck, &child, child_v, first, &key);
				if (st != NM_OK)
					return st;
				if (compare_full(ck, &key, &low) < 0)
				{
					if (changed(ck, p, version))
						return NM_STALE;
					return fault(ck, no, "first entry is below the parent's separator");
				}
			}
		}
		if (!has_next && (child.flags & (NM_PF_HIGH | NM_PF_PENDING)) == NM_PF_HIGH)
		{
			if (changed(ck, p, version) || changed(ck, &child, child_v))
				return NM_STALE;
			return fault(ck, no, "high key, but the parent's range is open");
		}
		if (has_next && (child.flags & NM_PF_PENDING) == 0)
		{
			st = get_entry(ck, p, version, i + 1 < p->n ? i + 1 : -1, &next);
			if (st != NM_OK)
				return st;
			if (child.flags & NM_PF_HIGH)
			{
				st = get_entry(ck, &child, child_v, -1, &key);
				if (st != NM_OK)
					return st;
			}
			if ((child.flags & NM_PF_HIGH) == 0 || compare_full(ck, &key, &next) != 0)
			{
				if (changed(ck, p, version) || changed(ck, &child, child_v))
					return NM_STALE;
				return fault(ck, no, "high key is not the parent's next separator");
			}
			if (i + 1 < p->n && child.right != nm_entry_child(p, i + 1))
			{
				if (changed(ck, p, version) || changed(ck, &child, child_v))
					return NM_STALE;
				return fault(ck, no, "right link is not the parent's next child");
			}
		}
		if (i + 1 == p->n)
		{
			ck->has_seam = has_next && (child.flags & NM_PF_PENDING) == 0;
			ck->seam_to = child.right;
			ck->seam_child = no;
			ck->seam_version = child_v;
		}
	}
	return NM_OK;
}

/* Two neighbours of an inner level: the children's links lead from one's last to the other's first. */
static NmStatus
check_seam(NmChecker *ck, const NmPage *p, uint64_t version)
{
	if (!ck->has_seam || nm_entry_child(p, 0) == ck->seam_to)
		return NM_OK;
	if (changed(ck, p, version) ||
		!nm_page_validate(nm_page(ck->tree, ck->seam_child), ck->seam_version))
		return NM_STALE;
	return fault(ck, ck->seam_child, "right link is not the first child of the parent's right sibling");
}

/* Pages that hold keys of this one. */
static int
overflow_pages(const NmPage *p)
{
	int n = 0;

	if (p->flags & NM_PF_GENERAL)
		for (int i = -1; i < p->n; i++)
			if (!(i == 0 && p->level > 0) && nm_entry_overflow(p, i) != NM_NO_PAGE)
				n++;
	return n;
}

static NmStatus
check_level(NmChecker *ck, int level)
{
	NmPageNo no;
	NmPage page;
	NmKeyCopy prev_high,
		key;
	bool have_high = false;
	NmStatus st = nm_leftmost(ck->tree, level, &no);
	int retries = 0;

	if (st != NM_OK)
		return st;
	ck->has_seam = false;
	for (;;)
	{
		uint64_t version;
		int first = level > 0 ? 1 : 0;

		st = nm_page_snapshot(ck->tree, no, level, &page, &version);
		if (st != NM_OK)
			return st;
		st = check_page(ck, &page, version);
		if (st == NM_OK && level > 0)
		{
			/* a neighbour that has changed is for the level's next try */
			st = check_seam(ck, &page, version);
			if (st != NM_OK)
				return st;
			st = check_children(ck, &page, version);
		}
		if (st == NM_STALE && ++retries < 1000)
			continue; /* this page again */
		if (st != NM_OK)
			return st;
		retries = 0;

		if (have_high && page.n > first)
		{
			st = get_entry(ck, &page, version, first, &key);
			if (st != NM_OK)
				return st;
			if (compare_full(ck, &key, &prev_high) < 0)
				return fault(ck, no, "first entry is below the left sibling's high key");
		}
		ck->overflow += overflow_pages(&page);
		if (level == 0)
		{
			ck->leaves++;
			ck->entries += page.n;
		}
		else
			ck->inner++;
		if (ck->tick)
			ck->tick(ck->arg);
		if ((page.flags & NM_PF_HIGH) == 0)
			return NM_OK;
		st = get_entry(ck, &page, version, -1, &prev_high);
		if (st != NM_OK)
			return st;
		have_high = true;
		no = page.right;
	}
}

/* Do the counters say what was found?  Writers may be at them. */
static NmStatus
check_counters(NmChecker *ck, NmPageNo root)
{
	NmTreeShared *s = ck->tree->shared;
	int64_t entries = __atomic_load_n(&s->nentries, __ATOMIC_RELAXED);
	int64_t leaves = __atomic_load_n(&s->nleaves, __ATOMIC_RELAXED);
	int64_t inner = __atomic_load_n(&s->ninner, __ATOMIC_RELAXED);
	int64_t overflow = __atomic_load_n(&s->noverflow, __ATOMIC_RELAXED);

	if (entries != ck->entries)
		return fault(ck, root, "%lld entries, accounts say %lld",
					 (long long) ck->entries, (long long) entries);
	if (leaves != ck->leaves || inner != ck->inner || overflow != ck->overflow)
		return fault(ck, root, "%lld leaves, %lld inner and %lld overflow pages, accounts say %lld, %lld and %lld",
					 (long long) ck->leaves, (long long) ck->inner, (long long) ck->overflow,
					 (long long) leaves, (long long) inner, (long long) overflow);
	return NM_OK;
}

NmStatus
nm_tree_check(NmTree *tree, NmCheckWhen when, char *msg, size_t msglen,
			  void (*tick)(void *), void *arg)
{
	NmChecker ck = {.tree = tree, .msg = msg, .msglen = msglen, .tick = tick, .arg = arg};
	uint64_t word = nm_root_word(tree);
	NmStatus st = NM_OK;
	bool busy = false;

	if (msglen > 0)
		msg[0] = '\0';
	if (word == 0)
		return NM_GONE;
	for (int level = nm_root_level(word); level >= 0; level--)
	{
		NmChecker before = ck;

		for (int i = 0; i < 50; i++)
		{
			ck = before;
			st = check_level(&ck, level);
			if (st != NM_STALE)
				break;
		}
		if (st == NM_STALE)
		{
			if (when == NM_CHECK_QUIET)
				return fault(&ck, nm_root_page(word), "level %d changes although nobody writes", level);
			ck = before; /* too busy a level to be judged as a whole */
			busy = true;
		}
		else if (st != NM_OK)
			return st;
	}
	if (busy)
		return NM_STALE;
	st = check_counters(&ck, nm_root_page(word));
	return st == NM_CORRUPT && when == NM_CHECK_ANY_TIME ? NM_STALE : st;
}

/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  Inserting and deleting one entry.
 *
 * The position is found optimistically, with comparators on private copies;
 * then the page's version is upgraded to a lock, which fails if anything
 * changed since, so the position still holds when the entry goes in.
 *
 * IDENTIFICATION
 *	  src/btree/insert.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

/*
 * Pages that a split up to a new root may need: one per level and the root,
 * and with overflow keys one copy each for the high key and the separator.
 */
static int
split_pages(NmTree *tree)
{
	int levels = nm_root_level(nm_root_word(tree)) + 2;
	bool overflow = tree->layout == NM_LAYOUT_GENERAL &&
					__atomic_load_n(&tree->shared->noverflow, __ATOMIC_RELAXED) > 0;
	int want = levels * (overflow ? 3 : 1) + 2;

	return want > NM_STASH_MAX ? NM_STASH_MAX : want;
}

/* Remove killed entries of a locked leaf. */
static int
remove_killed(NmPage *p, NmRetired *retired)
{
	uint8_t drop[NM_LEAF_MAX_ENTRIES];
	int removed = 0;

	for (int i = 0; i < p->n; i++)
	{
		drop[i] = nm_entry_killed(p, i);
		removed += drop[i];
	}
	if (removed > 0)
		(void) nm_entries_drop(p, drop, retired);
	p->flags &= (uint16_t) ~NM_PF_KILLED;
	if (removed > 0)
		p->removals++;
	return removed;
}

NM_RACY static void
racy_state(const NmPage *p, uint16_t *flags, uint64_t *lid, uint32_t *origin, int *n)
{
	*flags = p->flags;
	*lid = p->lid;
	*origin = p->origin;
	*n = nm_page_n(p);
}

NM_RACY static bool
racy_fits(const NmPage *p, int pos, const NmItem *item, uint64_t tid, bool overflow)
{
	return nm_entry_fits(p, pos, item, tid, overflow);
}

/*
 * Is the guard's leaf, whose low end never changes, still the first one for
 * the key?  The insert goes to another leaf, so equal keys span several.  The
 * guard's page and version are given back for a last look under the lock.
 */
static NmStatus
find_guard(NmTree *tree, const NmItem *item, uint64_t guard, NmPos *pos)
{
	NmBound first;
	NmStatus st;
	uint16_t flags;
	uint64_t lid;
	uint32_t origin;
	int n;

	nm_bound_at(&first, item, NM_TID_MIN);
	st = nm_descend(tree, &first, 0, false, false, pos, NULL, NULL);
	if (st != NM_OK)
		return st;
	racy_state(pos->page, &flags, &lid, &origin, &n);
	st = nm_page_validate(pos->page, pos->version) && lid == guard ? NM_OK : NM_STALE;
	nm_epoch_exit(tree->pool);
	return st;
}

/*
 * The place that a look for conflicts has told the guard, if the leaf has not
 * changed since.  Inside the epoch section if so; else the guard forgets it.
 */
static bool
place_of_guard(NmTree *tree, NmGuard *guard, NmPos *pos)
{
	if (guard == NULL || guard->idx < 0)
		return false;
	pos->no = guard->page;
	pos->page = nm_page(tree, pos->no);
	pos->version = guard->version;
	pos->idx = guard->idx;
	nm_epoch_enter(tree->pool);
	if (guard->tree_id == tree->tree_id && nm_page_unchanged(tree, pos->no, pos->version))
		return true;
	nm_epoch_exit(tree->pool);
	guard->idx = -1;
	return false;
}

NmStatus
nm_tree_insert(NmTree *tree, const NmItem *item, uint64_t tid,
			   NmGuard *guard, NmPageNo *leaf)
{
	NmBound bound;
	bool overflow = tree->layout == NM_LAYOUT_GENERAL && item->len > NM_INLINE_MAX;
	NmRetired retired;
	NmStatus st;

	nm_bound_at(&bound, item, tid);
	retired.n = 0;
	if (overflow)
	{
		st = nm_stash_fill(tree, 1);
		if (st != NM_OK)
			return st;
	}

	for (;;)
	{
		NmPos pos;
		NmPos gpos = {0};
		bool need_guard = false;
		NmEntry e = {.item = item, .tid = tid};
		uint16_t flags;
		uint64_t lid;
		uint32_t origin;
		int n;
		bool fits;

		st = NM_OK;
		if (!place_of_guard(tree, guard, &pos))
			st = nm_descend(tree, &bound, 0, false, true, &pos, NULL, NULL);
		if (st != NM_OK)
			break;
		racy_state(pos.page, &flags, &lid, &origin, &n);
		fits = racy_fits(pos.page, pos.idx, item, tid, overflow);

		/* Is it there already? */
		if (pos.idx < n)
		{
			NmKeyCopy copy;
			int c;

			if (!nm_entry_copy(tree, pos.page, pos.idx, &copy) ||
				!nm_page_validate(pos.page, pos.version))
			{
				nm_epoch_exit(tree->pool);
				continue;
			}
			c = copy.tid == tid ? nm_copy_vs_bound(tree, &copy, &bound) : 1;
			if (c == 0)
			{
				/* an entry that is asked for again is not dead */
				if (!nm_page_upgrade(pos.page, pos.version))
				{
					nm_epoch_exit(tree->pool);
					continue;
				}
				nm_entry_set_killed(pos.page, pos.idx, false);
				nm_page_unlock(pos.page);
				nm_epoch_exit(tree->pool);
				tree->leaf_id = (uint32_t) lid;
				tree->leaf_origin = origin;
				st = NM_EXISTS;
				break;
			}
		}
		if (!nm_page_validate(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			continue;
		}

		if (guard != NULL && lid != guard->lid)
		{
			nm_epoch_exit(tree->pool);
			st = find_guard(tree, item, guard->lid, &gpos);
			if (st != NM_OK)
				break;
			need_guard = true;
			NM_STOP("insert-guard");
			nm_epoch_enter(tree->pool);
			if (!nm_page_validate(pos.page, pos.version))
			{
				nm_epoch_exit(tree->pool);
				continue;
			}
		}

		/* a leaf with an origin is not split: no chains of origins */
		if (!fits && (flags & NM_PF_KILLED) == 0 && origin != 0)
		{
			nm_epoch_exit(tree->pool);
			nm_settle_origin(tree, pos.no, lid, origin);
			continue;
		}

		if (!fits && (flags & NM_PF_KILLED) == 0)
		{
			NmStash *stash = tree->scratch;
			int want = split_pages(tree) + (overflow ? 1 : 0);

			if (stash->n < want)
			{
				nm_epoch_exit(tree->pool);
				st = nm_stash_fill(tree, want);
				if (st != NM_OK)
					break;
				continue; /* the page may have changed meanwhile */
			}
		}

		/* a comparator that inserts through this handle empties the stash */
		if (overflow && ((NmStash *) tree->scratch)->n == 0)
		{
			nm_epoch_exit(tree->pool);
			st = nm_stash_fill(tree, 1);
			if (st != NM_OK)
				break;
			continue;
		}

		if (overflow)
		{
			NmStash *stash = tree->scratch;

			/* fill it while it is still in the stash: nothing can raise below */
			e.overflow = stash->pages[stash->n - 1];
			nm_overflow_fill(tree, e.overflow, item);
		}

		NM_STOP(fits ? "insert-found" : "split-found");
		if (!nm_page_upgrade(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			continue;
		}
		if (need_guard && !nm_page_validate(gpos.page, gpos.version))
		{
			nm_page_unlock(pos.page);
			nm_epoch_exit(tree->pool);
			continue;
		}

		if (!fits && (flags & NM_PF_KILLED))
		{
			int removed = remove_killed(pos.page, &retired);

			nm_page_unlock(pos.page);
			NM_COUNT(tree->shared->nentries, -removed);
			NM_COUNT(tree->shared->noverflow, -retired.n);
			nm_epoch_exit(tree->pool);
			nm_retire_all(tree, &retired);
			continue;
		}

		/* rather store equal keys once than split */
		if (!fits && tree->shared->merge && (flags & NM_PF_RUNS) == 0 &&
			nm_leaf_merge(pos.page))
		{
			NM_STOP("merge-locked");
			nm_page_unlock(pos.page);
			nm_epoch_exit(tree->pool);
			continue;
		}

		/* a leaf of runs is split without the entry, whose page stays in the stash */
		if (fits || (flags & NM_PF_RUNS) == 0)
		{
			if (overflow)
				(void) nm_stash_take(tree);

			/* the new half of a split has the same locks: those on this leaf */
			tree->leaf_id = (uint32_t) lid;
			tree->leaf_origin = origin;
		}

		if (fits)
		{
			nm_entry_insert(pos.page, pos.idx, &e);
			nm_page_unlock(pos.page);
			NM_COUNT(tree->shared->nentries, 1);
			if (overflow)
				NM_COUNT(tree->shared->noverflow, 1);
			nm_epoch_exit(tree->pool);
			if (leaf)
				*leaf = pos.no;
		}
		else
		{
			NmKeyCopy sep;
			NmPageNo right;
			uint64_t right_lid;

			st = nm_split(tree, &pos, &e, &sep, &right, &right_lid); /* unlocks */
			NM_COUNT(tree->shared->nleaves, 1);
			NM_COUNT(tree->shared->splits, 1);
			if (st == NM_OK)
			{
				NM_COUNT(tree->shared->nentries, 1);
				if (overflow)
					NM_COUNT(tree->shared->noverflow, 1);
			}
			nm_epoch_exit(tree->pool);
			if (leaf)
				*leaf = pos.no;
			NM_STOP("split-half");
			(void) nm_link_right(tree, 0, pos.no, right, &sep);
			NM_STOP("split-linked");
			if (tree->pass_locks != NULL)
				nm_settle_origin(tree, right, right_lid, (uint32_t) lid);
			if (st == NM_OK)
				break;
			if (overflow)
			{
				st = nm_stash_fill(tree, 1);
				if (st != NM_OK)
					break;
			}
			continue;
		}
		break;
	}

	nm_stash_return(tree, 0);
	return st;
}

NmStatus
nm_tree_delete(NmTree *tree, const NmItem *item, uint64_t tid)
{
	NmBound bound;

	nm_bound_at(&bound, item, tid);
	for (;;)
	{
		NmPos pos;
		NmKeyCopy copy;
		NmPageNo over;
		uint16_t flags;
		uint64_t lid;
		uint32_t origin;
		int n;
		bool same = false;
		NmStatus st = nm_descend(tree, &bound, 0, false, true, &pos, NULL, NULL);

		if (st != NM_OK)
			return st;
		racy_state(pos.page, &flags, &lid, &origin, &n);
		if (pos.idx < n)
		{
			if (!nm_entry_copy(tree, pos.page, pos.idx, &copy) ||
				!nm_page_validate(pos.page, pos.version))
			{
				nm_epoch_exit(tree->pool);
				continue;
			}
			same = copy.tid == tid && nm_copy_vs_bound(tree, &copy, &bound) == 0;
		}
		if (!same)
		{
			bool valid = nm_page_validate(pos.page, pos.version);

			nm_epoch_exit(tree->pool);
			if (valid)
				return NM_NOT_FOUND;
			continue;
		}
		if (!nm_page_upgrade(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			continue;
		}
		over = nm_entry_remove(pos.page, pos.idx);
		pos.page->removals++;
		nm_page_unlock(pos.page);
		NM_COUNT(tree->shared->nentries, -1);
		if (over != NM_NO_PAGE)
			NM_COUNT(tree->shared->noverflow, -1);
		nm_epoch_exit(tree->pool);
		if (over != NM_NO_PAGE)
			nm_pool_retire(tree->pool, over);
		return NM_OK;
	}
}

NM_RACY static bool
same_leaf(const NmTree *tree, const NmPage *p, const NmBatch *batch)
{
	return batch->tree_id == tree->tree_id && nm_page_is(tree, p, batch->leaf, 0) &&
		   p->lid == batch->lid &&
		   p->removals == batch->removals;
}

bool
nm_batch_unremoved(NmTree *tree, const NmBatch *batch)
{
	NmPage *p = nm_page(tree, batch->leaf);
	bool same = false;

	nm_epoch_enter(tree->pool);
	/* freed pages of a detached tree keep their content: ask the root first */
	if (nm_root_word(tree) != 0 && nm_pool_backed(tree->pool, batch->leaf))
	{
		uint64_t v = nm_page_read_begin(p);

		same = same_leaf(tree, p, batch) && nm_page_validate(p, v);
	}
	nm_epoch_exit(tree->pool);
	return same;
}

/* Is entry pos of a locked leaf entry i of the batch? */
static bool
same_entry(const NmTree *tree, const NmPage *p, int pos, const NmBatch *batch, int i)
{
	NmKeyCopy copy;

	if (nm_entry_tid(p, pos) != batch->tids[i])
		return false;
	if (tree->layout == NM_LAYOUT_FIXED)
	{
		bool isnull = i >= batch->null_from && i < batch->null_to;

		return nm_entry_copy(tree, p, pos, &copy) && copy.item.isnull == isnull &&
			   (isnull || copy.item.key == batch->keys[i]);
	}
	/*
	 * Keys may not have been copied into the batch.  The TID decides then: with
	 * an unchanged removal counter a TID is in the leaf twice only if one row
	 * has two keys there, and then both entries name the same dead row.
	 */
	if (!batch->have_keys)
		return true;
	return nm_entry_copy(tree, p, pos, &copy) && copy.item.len == batch->len[i] &&
		   copy.item.tag == batch->tags[i] && copy.item.head == batch->heads[i] &&
		   memcmp(copy.buf, (const char *) batch->data + batch->off[i] * 8, batch->len[i]) == 0;
}

/*
 * Position of the batch's entry i in the locked leaf, -1 if it is not there.
 * Looked for on both sides of the one found last: entries are killed in the
 * scan's order or against it, so all of them together cost one pass.
 */
static int
find_entry(const NmTree *tree, const NmPage *p, const NmBatch *batch, int i, int near)
{
	int lo = near;
	int hi = near + 1;

	while (lo >= 0 || hi < p->n)
	{
		if (hi < p->n && same_entry(tree, p, hi, batch, i))
			return hi;
		if (lo >= 0 && same_entry(tree, p, lo, batch, i))
			return lo;
		lo--;
		hi++;
	}
	return -1;
}

int
nm_tree_kill(NmTree *tree, const NmBatch *batch, const int *idx, int n)
{
	NmPage *p = nm_page(tree, batch->leaf);
	uint64_t v = 0;
	int marked = 0;
	bool same = false;

	if (n <= 0)
		return 0;
	nm_epoch_enter(tree->pool);
	if (nm_root_word(tree) != 0 && nm_pool_backed(tree->pool, batch->leaf))
	{
		v = nm_page_read_begin(p);
		same = same_leaf(tree, p, batch);
	}
	NM_STOP("kill-found");
	if (same && nm_page_upgrade(p, v))
	{
		int last = -1;

		for (int k = 0; k < n; k++)
		{
			int pos = find_entry(tree, p, batch, idx[k], last);

			if (pos < 0)
				continue;
			last = pos;
			if (!nm_entry_killed(p, pos))
			{
				nm_entry_set_killed(p, pos, true);
				marked++;
			}
		}
		nm_page_unlock(p);
	}
	nm_epoch_exit(tree->pool);
	return marked;
}

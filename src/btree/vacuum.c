/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  Visiting every entry once, removing dead ones, unlinking empty leaves.
 *
 * A leaf is read like a scan's batch: its TIDs and its high key are copied and
 * validated, dead() is asked with nothing held, then the leaf is locked and
 * entries with a dead TID go.  The next leaf begins at the copied high key, so
 * entries that splits move right meanwhile are neither missed nor asked twice.
 *
 * IDENTIFICATION
 *	  src/btree/vacuum.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"
#include "btree/walk.h"

typedef struct NmLeafTids
{
	int n;
	uint64_t tids[NM_LEAF_MAX_ENTRIES];
	bool has_high;
	bool pending; /* its right sibling has no downlink */
	NmPageNo right;
	NmKeyCopy high;
} NmLeafTids;

NM_RACY static bool
copy_tids(const NmTree *tree, const NmPage *p, NmLeafTids *out)
{
	out->n = nm_page_n(p);
	for (int i = 0; i < out->n; i++)
		out->tids[i] = nm_entry_tid(p, i);
	out->has_high = (p->flags & NM_PF_HIGH) != 0;
	out->pending = (p->flags & NM_PF_PENDING) != 0;
	out->right = p->right;
	if (out->has_high && !nm_entry_copy(tree, p, -1, &out->high))
		return false;
	return true;
}

static int
tid_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *) a;
	uint64_t y = *(const uint64_t *) b;

	return (x > y) - (x < y);
}

/* Entries of a locked leaf whose TID is in the sorted set go. */
static int
remove_tids(NmPage *p, const uint64_t *dead, int ndead, NmRetired *retired)
{
	uint8_t drop[NM_LEAF_MAX_ENTRIES];
	int removed = 0;

	for (int i = 0; i < p->n; i++)
	{
		uint64_t tid = nm_entry_tid(p, i);

		drop[i] = bsearch(&tid, dead, ndead, sizeof(tid), tid_cmp) != NULL;
		removed += drop[i];
	}
	if (removed > 0)
	{
		(void) nm_entries_drop(p, drop, retired);
		p->removals++;
	}
	return removed;
}

/*
 * Remove the dead TIDs from everything between two places.  The leaf may have
 * split since it was read; then its parts follow to the right, up to the high
 * key that was copied.
 */
static NmStatus
remove_range(NmTree *tree, const NmBound *start, const NmLeafTids *leaf,
			 const uint64_t *dead, int ndead, int64_t *removed, NmPageNo *emptied)
{
	NmKeyCopy at;
	NmBound place = *start;

	for (;;)
	{
		NmRetired retired;
		NmPos pos;
		NmKeyCopy high;
		bool has_high;
		int cnt;
		bool past;
		NmStatus st = nm_descend(tree, &place, 0, false, false, &pos, NULL, NULL);

		if (st != NM_OK)
			return st;
		retired.n = 0;
		NM_STOP("vacuum-removing");
		if (!nm_page_upgrade(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			continue;
		}
		cnt = remove_tids(pos.page, dead, ndead, &retired);
		has_high = (pos.page->flags & NM_PF_HIGH) != 0;
		if (has_high)
		{
			(void) nm_entry_copy(tree, pos.page, -1, &high);
			high.item.data = high.buf;
		}
		*emptied = pos.page->n == 0 ? pos.no : NM_NO_PAGE;
		nm_page_unlock(pos.page);
		NM_COUNT(tree->shared->nentries, -cnt);
		NM_COUNT(tree->shared->noverflow, -retired.n);
		nm_epoch_exit(tree->pool);
		*removed += cnt;
		nm_retire_all(tree, &retired);

		if (!has_high)
			return NM_OK;
		past = false;
		if (leaf->has_high)
		{
			NmBound until;

			nm_bound_from_copy(&until, &leaf->high, leaf->high.tid);
			past = nm_copy_vs_bound(tree, &high, &until) >= 0;
		}
		if (past)
			return NM_OK;
		memcpy(&at, &high, sizeof(at));
		nm_bound_from_copy(&place, &at, at.tid);
	}
}

/*
 * Downlinks that an error or a shortage kept from being made: make them now,
 * on the inner levels; the leaves' are made on the way.
 */
static void
link_inner_levels(NmTree *tree)
{
	for (int level = 1; level <= nm_root_level(nm_root_word(tree)); level++)
	{
		NmPageNo no;
		NmPage page;

		if (nm_leftmost(tree, level, &no) != NM_OK)
			return;
		while (nm_page_snapshot(tree, no, level, &page, NULL) == NM_OK)
		{
			NmKeyCopy high;

			if ((page.flags & NM_PF_HIGH) == 0)
				break;
			if (page.flags & NM_PF_PENDING)
			{
				uint64_t v;
				bool ok;

				/* from the page itself: an overflow page may be retired meanwhile */
				nm_epoch_enter(tree->pool);
				v = nm_page_read_begin(nm_page(tree, no));
				ok = nm_entry_copy(tree, nm_page(tree, no), -1, &high) &&
					 nm_page_validate(nm_page(tree, no), v) && v == page.version;
				nm_epoch_exit(tree->pool);
				high.item.data = high.buf;
				if (ok)
					(void) nm_link_right(tree, level, no, page.right, &high);
			}
			no = page.right;
		}
	}
	nm_stash_return(tree, 0);
}

NmStatus
nm_tree_vacuum(NmTree *tree, NmVacuum *vac)
{
	NmBound place = {.infinite = -1};
	NmKeyCopy fence;
	bool fence_valid = false;
	NmLeafTids leaf;
	uint64_t dead[NM_LEAF_MAX_ENTRIES];

	vac->visited = vac->removed = vac->leaves = vac->pages_deleted = 0;
	for (;;)
	{
		NmPos pos;
		int ndead = 0;
		NmPageNo emptied = NM_NO_PAGE;
		NmStatus st = nm_descend(tree, &place, 0, false, true, &pos, NULL, NULL);

		if (st != NM_OK)
			return st;
		if (!copy_tids(tree, pos.page, &leaf) || !nm_page_validate(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			continue;
		}
		nm_epoch_exit(tree->pool);
		leaf.high.item.data = leaf.high.buf;
		NM_STOP("vacuum-copied");

		/*
		 * An unlink may have merged a range that was visited already into this
		 * leaf's: entries before the place are not asked again.
		 */
		for (int i = pos.idx; i < leaf.n; i++)
		{
			vac->visited++;
			if (vac->dead(vac->arg, leaf.tids[i]))
				dead[ndead++] = leaf.tids[i];
		}
		vac->leaves++;
		if (ndead > 0)
		{
			qsort(dead, ndead, sizeof(dead[0]), tid_cmp);
			st = remove_range(tree, &place, &leaf, dead, ndead, &vac->removed, &emptied);
			if (st != NM_OK)
				return st;
		}
		else if (leaf.n == 0)
			emptied = pos.no;
		if (emptied != NM_NO_PAGE)
			NM_STOP("vacuum-emptied");
		if (emptied != NM_NO_PAGE && fence_valid &&
			nm_unlink_leaf(tree, emptied, &fence))
			vac->pages_deleted++;
		if (leaf.pending)
		{
			(void) nm_link_right(tree, 0, pos.no, leaf.right, &leaf.high);
			nm_stash_return(tree, 0);
		}
		if (vac->tick)
			vac->tick(vac->arg);
		if (!leaf.has_high)
		{
			link_inner_levels(tree);
			return NM_OK;
		}
		memcpy(&fence, &leaf.high, sizeof(fence));
		fence.item.data = fence.buf;
		fence_valid = true;
		nm_bound_from_copy(&place, &fence, fence.tid);
	}
}

/*-------------------------------------------------------------------------
 *
 * unlink.c
 *	  Taking an empty leaf out of the tree.
 *
 * The left sibling takes over the leaf's key range: its high key and right
 * link.  Only a leaf that is not the first child of its parent goes, so that
 * both have the same parent and no ancestor's separator changes; a page's low
 * end therefore never changes in its life, which the unique guard relies on.
 *
 * Lock order: left sibling, leaf, parent.  All three are taken by upgrading a
 * version, which never waits, so no order can deadlock; if one fails the leaf
 * stays for the next vacuum.
 *
 * IDENTIFICATION
 *	  src/btree/unlink.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"

NM_RACY static int
find_child(const NmPage *p, NmPageNo child)
{
	int n = nm_page_n(p);

	for (int i = 0; i < n; i++)
		if (nm_entry_child(p, i) == child)
			return i;
	return -1;
}

NM_RACY static bool
unlinkable(const NmTree *tree, const NmPage *p, NmPageNo no)
{
	return nm_page_is(tree, p, no, 0) && p->n == 0 && (p->flags & NM_PF_PENDING) == 0;
}

NM_RACY static bool
left_of(const NmTree *tree, const NmPage *p, NmPageNo no, NmPageNo right)
{
	return nm_page_is(tree, p, no, 0) && p->right == right &&
		   (p->flags & NM_PF_PENDING) == 0;
}

NM_RACY static NmPageNo
child_at(const NmPage *p, int i)
{
	return nm_entry_child(p, i);
}

/*
 * Room in the left page for the leaf's high key in place of its own; locked.
 */
static bool
high_key_fits(NmPage *left, const NmPage *leaf)
{
	NmItem item = {0};

	if ((leaf->flags & NM_PF_GENERAL) == 0 || (leaf->flags & NM_PF_HIGH) == 0)
		return true;
	item.len = (uint32_t) nm_entry_size(leaf, -1) - NM_ITEM_HDR;
	/* size already says what is stored, page number or bytes */
	return nm_high_fits(left, &item, false);
}

NM_RACY static uint32_t
racy_origin(const NmTree *tree, const NmPage *p, NmPageNo no, uint64_t *lid)
{
	*lid = p->lid;
	return nm_page_is(tree, p, no, 0) ? p->origin : 0;
}

/*
 * If the leaf has an origin, leave the epoch section, settle it and return
 * true: everything is to be read anew.
 */
static bool
settle_first(NmTree *tree, const NmPage *p, NmPageNo no, uint64_t version)
{
	uint64_t lid;
	uint32_t origin = racy_origin(tree, p, no, &lid);

	if (origin == 0 || !nm_page_validate(p, version))
		return false;
	nm_epoch_exit(tree->pool);
	nm_settle_origin(tree, no, lid, origin);
	return true;
}

/*
 * Unlink leaf "no" if it is still empty; low is a place in its range (its low
 * fence).  Called with nothing held.  False: not now.
 */
bool
nm_unlink_leaf(NmTree *tree, NmPageNo no, const NmKeyCopy *low)
{
	NmBound bound;
	NmPos parent;
	NmPage *leaf = nm_page(tree, no);
	NmPage *left;
	NmPageNo left_no;
	uint64_t leaf_v,
		left_v;
	NmRetired retired = {0};
	uint64_t left_lid = 0;
	uint32_t leaf_id = 0;
	int idx;
	bool done = false;

again:
	nm_bound_from_copy(&bound, low, low->tid);
	if (nm_descend(tree, &bound, 1, false, false, &parent, NULL, NULL) != NM_OK)
		return false; /* also when the root is a leaf */

	idx = find_child(parent.page, no);
	if (idx < 1)
	{
		nm_epoch_exit(tree->pool);
		return false;
	}
	left_no = child_at(parent.page, idx - 1);
	if (!nm_page_validate(parent.page, parent.version) || !nm_page_no_valid(tree, left_no))
	{
		nm_epoch_exit(tree->pool);
		return false;
	}
	left = nm_page(tree, left_no);
	left_v = nm_page_read_begin(left);
	leaf_v = nm_page_read_begin(leaf);

	/* two origins at once have no room: pass the locks on first */
	if (settle_first(tree, left, left_no, left_v) || settle_first(tree, leaf, no, leaf_v))
		goto again;
	NM_STOP("unlink-found");
	if (!left_of(tree, left, left_no, no) || !unlinkable(tree, leaf, no) ||
		!nm_page_upgrade(left, left_v))
	{
		nm_epoch_exit(tree->pool);
		return false;
	}
	if (!nm_page_upgrade(leaf, leaf_v))
	{
		nm_page_unlock(left);
		nm_epoch_exit(tree->pool);
		return false;
	}
	if (nm_page_upgrade(parent.page, parent.version))
	{
		NM_STOP("unlink-locked");
		if (high_key_fits(left, leaf))
		{
			nm_retire_later(&retired, nm_high_set(left, NULL, 0, NM_NO_PAGE));
			nm_high_move(left, leaf);
			left->right = leaf->right;
			left->removals++;
			leaf_id = (uint32_t) leaf->lid;
			left_lid = left->lid;
			NM_ASSERT(left->origin == 0 && leaf->origin == 0);
			if (tree->pass_locks != NULL)
				left->origin = leaf_id;
			leaf->flags |= NM_PF_DELETED;
			nm_retire_later(&retired, nm_entry_remove(parent.page, idx));
			done = true;
		}
		NM_STOP("unlink-swung");
		nm_page_unlock(parent.page);
	}
	nm_page_unlock(leaf);
	NM_STOP("unlink-leaf-free");
	nm_page_unlock(left);
	if (done)
	{
		NM_COUNT(tree->shared->noverflow, -retired.n);
		NM_COUNT(tree->shared->nleaves, -1);
		NM_COUNT(tree->shared->deletes, 1);
	}
	nm_epoch_exit(tree->pool);

	if (done)
	{
		NM_STOP("unlink-done");
		nm_retire_all(tree, &retired);
		nm_pool_retire(tree->pool, no);
		if (tree->pass_locks != NULL)
			nm_settle_origin(tree, left_no, left_lid, leaf_id);
	}
	return done;
}

/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  Handles, stash of pages, creation and end of a tree.
 *
 * IDENTIFICATION
 *	  src/btree/handle.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"

size_t
nm_tree_scratch_size(void)
{
	return sizeof(NmStash);
}

void
nm_tree_open(NmTree *tree, NmPool *pool, NmTreeShared *shared, void *scratch)
{
	memset(tree, 0, sizeof(*tree));
	tree->pool = pool;
	tree->shared = shared;
	tree->tree_id = __atomic_load_n(&shared->tree_id, __ATOMIC_ACQUIRE);
	tree->layout = (NmLayout) shared->layout;
	tree->scratch = scratch;
	memset(scratch, 0, sizeof(NmStash));
}

void
nm_tree_close(NmTree *tree)
{
	nm_stash_return(tree, 0);
}

/*
 * Have at least this many pages in the stash.  Called with nothing held, so
 * that a structure change never has to allocate under a version lock.
 */
NmStatus
nm_stash_fill(NmTree *tree, int want)
{
	NmStash *stash = tree->scratch;

	NM_ASSERT(want <= NM_STASH_MAX);
	while (stash->n < want)
	{
		NmPageNo no = nm_pool_alloc(tree->pool, tree->arena, false,
									&tree->pool_error, &tree->pool_errno);

		if (no == NM_NO_PAGE)
		{
			nm_stash_return(tree, 0);
			return NM_NO_MEMORY;
		}
		stash->pages[stash->n++] = no;
	}
	return NM_OK;
}

NmPageNo
nm_stash_take(NmTree *tree)
{
	NmStash *stash = tree->scratch;

	NM_ASSERT(stash->n > 0);
	return stash->pages[--stash->n];
}

void
nm_stash_return(NmTree *tree, int keep)
{
	NmStash *stash = tree->scratch;

	while (stash->n > keep)
		nm_pool_free(tree->pool, stash->pages[--stash->n]);
}

void
nm_retire_all(NmTree *tree, NmRetired *r)
{
	while (r->n > 0)
		nm_pool_retire(tree->pool, r->pages[--r->n]);
}

NmStatus
nm_tree_create(NmTree *tree)
{
	NmTreeShared *shared = tree->shared;
	NmPageNo no;

	no = nm_pool_alloc(tree->pool, tree->arena, false, &tree->pool_error, &tree->pool_errno);
	if (no == NM_NO_PAGE)
		return NM_NO_MEMORY;
	tree->tree_id = nm_pool_next_id(tree->pool);
	tree->layout = (NmLayout) shared->layout;
	shared->nentries = 0;
	shared->nleaves = 1;
	shared->ninner = 0;
	shared->noverflow = 0;
	nm_page_lock(nm_page(tree, no));
	nm_page_init(tree, no, 0, nm_next_lid(shared));
	nm_page_unlock(nm_page(tree, no));
	__atomic_store_n(&shared->tree_id, tree->tree_id, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->root, (uint64_t) no, __ATOMIC_SEQ_CST);
	return NM_OK;
}

uint64_t
nm_tree_detach(NmTreeShared *shared)
{
	return __atomic_exchange_n(&shared->root, 0, __ATOMIC_SEQ_CST);
}

/*
 * Free the pages of one level from its leftmost one by right links, overflow
 * pages included.  Nobody else reads them.  Returns the leftmost page below.
 */
NmPageNo
nm_free_level(NmPool *pool, NmLayout layout, NmPageNo first)
{
	NmPageNo below = NM_NO_PAGE;
	NmPageNo no = first;

	while (no != NM_NO_PAGE)
	{
		NmPage *p = nm_pool_page(pool, no);
		NmPageNo right = (p->flags & NM_PF_HIGH) ? p->right : NM_NO_PAGE;

		if (no == first && p->level > 0 && p->n > 0)
			below = nm_entry_child(p, 0);
		if (layout == NM_LAYOUT_GENERAL)
		{
			for (int i = -1; i < p->n; i++)
			{
				NmPageNo over = (i == 0 && p->level > 0) ? NM_NO_PAGE : nm_entry_overflow(p, i);

				if (over != NM_NO_PAGE)
					nm_pool_free(pool, over);
			}
		}
		nm_pool_free(pool, no);
		no = right;
	}
	return below;
}

/*
 * No operation runs and none can start, so pages are read plainly.  Every page
 * of a level is reachable from its leftmost one by right links, pages without
 * a downlink included.
 */
void
nm_tree_free_pages(NmPool *pool, NmLayout layout, uint64_t old_root)
{
	NmPageNo first = nm_root_page(old_root);

	while (first != NM_NO_PAGE)
		first = nm_free_level(pool, layout, first);
}

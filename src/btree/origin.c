/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  Passing on the locks that a tree's user holds on logical leaves.
 *
 * A split gives the upper part of a leaf's range to a leaf with another
 * logical id, an unlink gives a leaf's whole range to its left sibling.  Locks
 * taken on the id that a place had before must count for the id it has now, but
 * they can't be copied inside the version-lock section.  So the section notes
 * where the range came from, the locks are copied with nothing held, and then
 * the note goes.  Who finds the note meanwhile looks at both ids.  README.md,
 * section 13, argues it.
 *
 * IDENTIFICATION
 *	  src/btree/origin.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"

NM_RACY static bool
has_origin(const NmTree *tree, const NmPage *p, NmPageNo no, uint64_t lid, uint32_t origin)
{
	return nm_page_is(tree, p, no, 0) && p->lid == lid && p->origin == origin;
}

/*
 * If the leaf is no longer there, it was relocated with its note, or split or
 * unlinked by somebody who settled it first.
 */
void
nm_settle_origin(NmTree *tree, NmPageNo no, uint64_t lid, uint32_t origin)
{
	NmPage *p = nm_page(tree, no);
	bool again;

	if (tree->pass_locks != NULL)
		tree->pass_locks(tree->pass_locks_arg, origin, (uint32_t) lid);
	do
	{
		uint64_t v;

		again = false;
		nm_epoch_enter(tree->pool);
		/* freed pages of a detached tree keep their content: ask the root first */
		if (nm_root_word(tree) != 0 && nm_pool_backed(tree->pool, no))
		{
			v = nm_page_read_begin(p);
			if (has_origin(tree, p, no, lid, origin))
			{
				if (nm_page_upgrade(p, v))
				{
					p->origin = 0;
					nm_page_unlock(p);
				}
				else
					again = true;
			}
		}
		nm_epoch_exit(tree->pool);
	} while (again);
}

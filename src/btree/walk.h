/*-------------------------------------------------------------------------
 *
 * walk.h
 *	  Validated private copies of pages, for counting and checking.
 *
 * IDENTIFICATION
 *	  src/btree/walk.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_BTREE_WALK_H
#define NM_BTREE_WALK_H

#include "btree/page.h"

/*
 * Copy page "no" of that level as it is at one moment; NM_STALE if it is not
 * there (any more), NM_GONE if the tree is not.
 */
extern NmStatus nm_page_snapshot(NmTree *tree, NmPageNo no, int level, NmPage *out,
								 uint64_t *version);

#endif /* NM_BTREE_WALK_H */

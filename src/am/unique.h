/*-------------------------------------------------------------------------
 *
 * unique.h
 *	  Inserting with a uniqueness check, and counters of an index (insert.c).
 *
 * IDENTIFICATION
 *	  src/am/unique.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_UNIQUE_H
#define NM_UNIQUE_H

#include "am/am.h"

/*
 * Check item's key against the alive rows that have it and insert (item, tid),
 * or only check with UNIQUE_CHECK_EXISTING.  Returns whether the key is known
 * to be unique, which is of interest for UNIQUE_CHECK_PARTIAL alone.
 */
extern bool nm_insert_unique(NmIndex *idx, Relation index, Relation heap,
							 const NmItem *item, ItemPointer tid, IndexUniqueCheck check);

/*
 * Add to the counters of an index.  Kept in this process and written to the
 * slot now and then, and at the end of every transaction.
 */
extern void nm_count(NmIndex *idx, uint32 lookups, uint32 inserts, uint32 tuples_read);

#endif /* NM_UNIQUE_H */

/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  ambulkdelete and amvacuumcleanup.
 *
 * VACUUM has pruned the heap before it calls: the TIDs to remove are dead
 * line pointers that become reusable after we return.  So on return no entry
 * with one of them may be in a tree, be on its way into one, or be in the hands
 * of a scan that would trust it:
 *	- a load that read the heap before the prune has flipped
 *	  (nm_index_wait_flip), so what it read is in the tree and is removed;
 *	- a load that begins later reads the pruned heap;
 *	- an index that is not loaded has no entries;
 *	- scans with snapshots that are not MVCC have ended
 *	  (nm_wait_scan_interlock); the others look after themselves (scan.c).
 *
 * IDENTIFICATION
 *	  src/am/vacuum.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "access/genam.h"
#include "commands/vacuum.h"
#include "miscadmin.h"

typedef struct NmVacuumState
{
	IndexBulkDeleteCallback callback;
	void *arg;
} NmVacuumState;

static bool is_dead(void *arg, uint64 tid);
static void between_leaves(void *arg);
static void set_shape(NmIndex *idx, IndexBulkDeleteResult *stats);

static bool
is_dead(void *arg, uint64 tid)
{
	NmVacuumState *state = (NmVacuumState *) arg;
	ItemPointerData itemptr;

	nm_tid_decode(tid, &itemptr);
	return state->callback(&itemptr, state->arg);
}

static void
between_leaves(void *arg)
{
#if PG_VERSION_NUM >= 180000
	vacuum_delay_point(false);
#else
	vacuum_delay_point();
#endif
}

/* Pages as core counts them: in blocks. */
static void
set_shape(NmIndex *idx, IndexBulkDeleteResult *stats)
{
	NmTreeShared *shared = &idx->slot->tree;
	int64 pages = shared->nleaves + shared->ninner + shared->noverflow;

	stats->num_pages = (BlockNumber) Max(1, pages / (BLCKSZ / NM_PAGE_SIZE));
}

/*
 * ambulkdelete.  Also how CREATE INDEX CONCURRENTLY collects the TIDs that are
 * in the index: its callback says "not dead" to each and must see each once.
 */
IndexBulkDeleteResult *
nm_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			  IndexBulkDeleteCallback callback, void *callback_state)
{
	Relation index = info->index;
	NmIndex *idx;
	NmVacuumState state;
	NmVacuum vac;

	if (stats == NULL)
		stats = (IndexBulkDeleteResult *) palloc0(sizeof(IndexBulkDeleteResult));

	/* without preload there is no memory to hold an entry: VACUUM goes on */
	if (!nm_preloaded())
	{
		stats->num_pages = 1;
		stats->estimated_count = true;
		stats->num_index_tuples = info->num_heap_tuples;
		return stats;
	}

	idx = nm_index_open(index);
	state.callback = callback;
	state.arg = callback_state;

	for (;;)
	{
		NmTree *tree;
		NmStatus st;

		nm_index_wait_flip(idx, index);
		tree = nm_index_tree(idx);

		/*
		 * An index that isn't valid yet is being built concurrently: what is
		 * wanted are its entries, so that only the missing rows are added.
		 */
		if (tree == NULL && !index->rd_index->indisvalid && info->strategy == NULL)
			tree = nm_index_load(idx, index, NULL, NULL);
		if (tree == NULL)
		{
			stats->num_pages = 1;
			stats->estimated_count = true;
			stats->num_index_tuples = info->num_heap_tuples;
			nm_wait_scan_interlock(index);
			return stats;
		}

		memset(&vac, 0, sizeof(vac));
		vac.dead = is_dead;
		vac.tick = between_leaves;
		vac.arg = &state;
		st = nm_tree_vacuum(tree, &vac);
		stats->tuples_removed += vac.removed;
		stats->pages_newly_deleted += vac.pages_deleted;
		if (st == NM_OK || st == NM_END)
			break;
		if (st != NM_GONE)
			elog(ERROR, "unexpected status %d while vacuuming index \"%s\"",
				 (int) st, RelationGetRelationName(index));
		/* unloaded meanwhile; it may be loading again: once more */
	}

	stats->num_index_tuples = vac.visited - vac.removed;
	stats->estimated_count = false;
	stats->pages_deleted = 0;
	set_shape(idx, stats);

	/*
	 * A non-MVCC scan may still hold a TID whose entry is gone, whoever removed
	 * it: this call, a cleanup of killed entries before, or an unload.  The
	 * caller is about to let those TIDs be used again.
	 */
	nm_wait_scan_interlock(index);
	return stats;
}

/*
 * amvacuumcleanup.  Retired pages are given back; counts come from the tree's
 * own counters unless bulkdelete has just counted.
 */
IndexBulkDeleteResult *
nm_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	if (info->analyze_only || !nm_preloaded())
		return stats;

	if (stats == NULL)
	{
		NmIndex *idx = nm_index_open(info->index);

		stats = (IndexBulkDeleteResult *) palloc0(sizeof(IndexBulkDeleteResult));
		stats->estimated_count = true;
		stats->num_pages = 1;
		stats->num_index_tuples = info->num_heap_tuples;
		if (nm_index_tree(idx) != NULL)
		{
			stats->num_index_tuples = (double) Max(0, idx->slot->tree.nentries);
			set_shape(idx, stats);
		}
	}
	(void) nm_pool_reclaim(nm_pool);

	/* inserts that came in since may have been counted twice: no more than rows */
	if (!info->estimated_count && stats->num_index_tuples > info->num_heap_tuples)
		stats->num_index_tuples = info->num_heap_tuples;
	return stats;
}

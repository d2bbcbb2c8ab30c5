/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Index scans: plain, index-only, bitmap; both directions; mark and restore.
 *
 * A scan copies the matching run of one leaf into its batch and works on that;
 * between calls it holds no lock, no pin and no epoch, and knows its place as
 * an entry (key, TID).  Turning round and restoring a mark place the scan at
 * such an entry; a tree that has gone away is loaded again and the scan goes on
 * from its place.
 *
 * TID recycling.  A TID in the batch may be removed by VACUUM and reused at any
 * time.
 *	- A plain scan with an MVCC snapshot is safe: whatever took the TID is too
 *	  new for the snapshot.
 *	- An index-only scan with an MVCC snapshot reads the visibility map for its
 *	  TIDs and then asks whether any entry was removed from the leaf since the
 *	  copy.  If not, the bits it read were about these very rows, and rows that
 *	  were visible to all are visible to this snapshot for good.  All other
 *	  TIDs are fetched from the heap here, with the scan's snapshot, and
 *	  skipped if there is nothing to see; what is seen can't be removed while
 *	  the snapshot lives.  So the executor's own look at the visibility map,
 *	  later, can't mistake a recycled TID for the row.
 *	- Any other snapshot takes a heavyweight lock that VACUUM waits for between
 *	  removing entries and freeing their TIDs, for as long as the scan lasts.
 *
 * Entries found dead are marked when the scan leaves the batch, and only if the
 * leaf is still the one that was copied (nm_tree_kill).
 *
 * IDENTIFICATION
 *	  src/am/scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"
#include "am/parallel.h"
#include "am/scankeys.h"
#include "am/unique.h"

#include "access/relscan.h"
#include "access/tableam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "migrator/migrator.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* Where a scan stands. */
typedef enum NmWhere
{
	NM_AT_START, /* nothing returned yet */
	NM_AT_ITEM,	 /* at batch entry pos, the one returned last */
	NM_AT_PLACE, /* at the copied entry in place */
	NM_AT_END	 /* ran out going in direction dir */
} NmWhere;

/* A copied entry. */
typedef struct NmPlace
{
	NmItem item; /* data points to buf */
	uint64 tid;
	uint64 buf[(NM_MAX_KEY_SIZE + 7) / 8];
} NmPlace;

typedef struct NmScanState
{
	NmIndex *idx;
	NmScanKeys keys;
	NmWhere where;
	NmDirection dir;
	bool bitmap;
	bool interlocked;  /* holds the lock that VACUUM waits for */
	bool serializable; /* takes predicate locks */

	NmParallelScan *shared; /* place of a parallel scan, or NULL */
	NmScan scan;			/* range scan for the current array elements */
	NmTupleBuffer tuple;	/* the index tuple shown last is made here */
	NmBatch *batch;
	int pos;
	uint64 batch_number; /* distinguishes batches of this scan */
	uint64 batch_tree;	 /* tree the batch is from */
	int *killed;		 /* batch entries found dead */
	int nkilled;

	/* index-only scans */
	bool check_visible;
	int seen_to; /* entries below have their bit in all_visible */
	int seen_step;
	uint8 *all_visible;
	Buffer vmbuf;
	TupleTableSlot *slot;

	/* mark */
	NmWhere mark_where;
	NmDirection mark_dir;
	uint64 mark_batch;
	int mark_pos;
	int *mark_elems;
	NmPlace *mark;

	NmPlace *place;

	/* for the counters */
	uint32 lookups;
	uint32 returned;
} NmScanState;

static NmTree *get_tree(IndexScanDesc scan);
static bool start_scan(IndexScanDesc scan, NmDirection dir);
static void begin_range(IndexScanDesc scan, NmTree *tree, NmDirection dir);
static void count_search(IndexScanDesc scan);
static bool go_to_place(IndexScanDesc scan, NmDirection dir);
static bool next_batch(IndexScanDesc scan);
static bool read_batch(IndexScanDesc scan);
static void flush_killed(NmScanState *so);
static void remember_killed(NmScanState *so, int i);
static bool row_is_visible(IndexScanDesc scan, bool *all_visible);
static void read_visibility(IndexScanDesc scan);
static void set_index_tuple(IndexScanDesc scan);
static void copy_place(NmScanState *so, NmPlace *place, int i);
static void end_use(IndexScanDesc scan);

IndexScanDesc
nm_beginscan(Relation index, int nkeys, int norderbys)
{
	IndexScanDesc scan;
	NmScanState *so;
	NmIndex *idx = nm_index_open(index);

	Assert(norderbys == 0);
	scan = RelationGetIndexScan(index, nkeys, norderbys);

	/* large members are left as they are */
	so = palloc(sizeof(NmScanState));
	memset(so, 0, offsetof(NmScanState, scan));
	memset((char *) so + offsetof(NmScanState, batch), 0,
		   sizeof(NmScanState) - offsetof(NmScanState, batch));
	memset(&so->tuple, 0, 64);
	so->idx = idx;
	so->batch = palloc(sizeof(NmBatch));
	so->batch->n = 0;
	so->vmbuf = InvalidBuffer;
	so->where = NM_AT_START;
	nm_keys_init(&so->keys, index, &idx->desc, nkeys);

	scan->opaque = so;
	scan->xs_itupdesc = RelationGetDescr(index);
	return scan;
}

void
nm_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	end_use(scan);
	so->where = NM_AT_START;
	so->mark_where = NM_AT_START;

	if (keys && scan->numberOfKeys > 0)
	{
		memcpy(scan->keyData, keys, scan->numberOfKeys * sizeof(ScanKeyData));
		if (scan->numberOfKeys == 1 && nm_keys_set_point(&so->keys, scan->keyData))
			return;
	}
	nm_keys_set(&so->keys, scan->keyData, scan->numberOfKeys);
}

void
nm_endscan(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	end_use(scan);
	nm_count(so->idx, so->lookups, 0, so->returned);
	if (BufferIsValid(so->vmbuf))
		ReleaseBuffer(so->vmbuf);
	if (so->slot)
		ExecDropSingleTupleTableSlot(so->slot);
	pfree(so->batch);
	if (so->killed)
		pfree(so->killed);
	if (so->all_visible)
		pfree(so->all_visible);
	if (so->place)
		pfree(so->place);
	if (so->mark)
	{
		pfree(so->mark);
		pfree(so->mark_elems);
	}
	nm_keys_end(&so->keys);
	pfree(so);
}

/* What a scan must do before it forgets its batch. */
static void
end_use(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	flush_killed(so);
	so->batch->n = 0;
	if (so->interlocked)
	{
		so->interlocked = false;
		nm_unlock_scan_interlock(scan->indexRelation);
	}
}

/*
 * The tree, loaded if need be.  NULL only for the planner's look at an
 * index's ends: EXPLAIN must not load anything.
 */
static NmTree *
get_tree(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	NmTree *tree = nm_index_tree(so->idx);

	if (likely(tree != NULL))
		return tree;
	if (scan->xs_snapshot && scan->xs_snapshot->snapshot_type == SNAPSHOT_NON_VACUUMABLE)
		return NULL;
	return nm_index_load(so->idx, scan->indexRelation, scan->heapRelation, NULL);
}

/* Begin at the low or the high end of everything; false if that is empty. */
static bool
start_scan(IndexScanDesc scan, NmDirection dir)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	NmTree *tree;
	bool mvcc;

	if (!so->keys.satisfiable)
		return false;

	mvcc = scan->xs_snapshot && scan->xs_snapshot->snapshot_type == SNAPSHOT_MVCC;
	if (!mvcc && !so->interlocked)
	{
		nm_lock_scan_interlock(scan->indexRelation);
		so->interlocked = true;
	}
	so->serializable = mvcc && IsolationIsSerializable();
	so->check_visible = mvcc && scan->xs_want_itup && scan->heapRelation != NULL;

	tree = get_tree(scan);
	if (tree == NULL)
		return false;
	so->shared = nm_parallel_of(scan);
	nm_keys_start(&so->keys, dir);
	begin_range(scan, tree, dir);
	/* of a parallel scan somebody else may have begun already */
	if (so->shared == NULL)
		count_search(scan);
	return true;
}

/* Scan the range that the current bounds say. */
static void
begin_range(IndexScanDesc scan, NmTree *tree, NmDirection dir)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	so->dir = dir;
	so->pos = -1;
	so->batch->n = 0;
	nm_scan_init(&so->scan, tree, dir, &so->keys.lo, &so->keys.hi);
	so->scan.keys_wanted = !so->bitmap || so->keys.nfilters > 0;
	so->scan.with_killed = !scan->ignore_killed_tuples;
	if (so->serializable)
	{
		so->scan.lock_leaf = nm_predicate_lock_leaf;
		so->scan.lock_leaf_arg = scan;
	}
}

/* Each descent for a range is one index scan to the statistics. */
static void
count_search(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	so->lookups++;
	pgstat_count_index_scan(scan->indexRelation);
#if PG_VERSION_NUM >= 180000
	if (scan->instrument)
		scan->instrument->nsearches++;
#endif
}

/*
 * Stand at the entry in so->place, to go on from it in direction dir.  False
 * if there is no tree to do that in.
 */
static bool
go_to_place(IndexScanDesc scan, NmDirection dir)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	NmTree *tree = get_tree(scan);

	if (tree == NULL)
		return false;
	begin_range(scan, tree, dir);
	nm_scan_reposition(&so->scan, dir, &so->place->item, so->place->tid);
	return true;
}

/*
 * The next run of entries; of a parallel scan, the next that nobody has had.
 * False when there is nothing left in this direction.
 */
static bool
next_batch(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	bool first;
	bool found;

	flush_killed(so);
	if (so->shared == NULL)
		return read_batch(scan);

	so->batch->n = 0;
	so->pos = 0;
	if (!nm_parallel_take(so->shared, &so->scan, &so->keys, &first))
		return false;
	if (first)
		count_search(scan);
	found = read_batch(scan);
	nm_parallel_give(so->shared, &so->scan, &so->keys, !found);
	return found;
}

/*
 * Copy the next run of entries; goes on to the next combination of array
 * elements by itself.
 */
static bool
read_batch(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	for (;;)
	{
		NmStatus st;

		CHECK_FOR_INTERRUPTS();
		st = nm_scan_next(&so->scan, so->batch);
		if (likely(st == NM_OK))
		{
			so->pos = 0;
			so->batch_number++;
			so->batch_tree = so->scan.tree->tree_id;
			so->seen_to = 0;
			so->seen_step = 8;
			nm_sample_leaf(so->batch->leaf);
			return true;
		}

		so->batch->n = 0;
		so->pos = 0;
		if (st == NM_GONE)
		{
			NmTree *tree = get_tree(scan);

			if (tree == NULL)
				return false;
			so->scan.tree = tree;
			continue;
		}
		if (st != NM_END)
			elog(ERROR, "unexpected status %d while scanning index \"%s\"",
				 (int) st, RelationGetRelationName(scan->indexRelation));
		if (!nm_keys_advance(&so->keys, so->dir))
			return false;
		nm_scan_next_range(&so->scan);
		count_search(scan);
	}
}

static void
remember_killed(NmScanState *so, int i)
{
	if (so->killed == NULL)
		so->killed = (int *) MemoryContextAlloc(so->keys.cxt,
												NM_LEAF_MAX_ENTRIES * sizeof(int));
	/* a scan that turns within a batch may meet an entry again */
	if (so->nkilled < NM_LEAF_MAX_ENTRIES)
		so->killed[so->nkilled++] = i;
}

/*
 * Mark the entries found dead.  The handle may have been set to a newer tree
 * since the batch was copied; its leaves may have the same logical ids.
 */
static void
flush_killed(NmScanState *so)
{
	if (likely(so->nkilled == 0))
		return;
	if (so->scan.tree->tree_id == so->batch_tree)
		(void) nm_tree_kill(so->scan.tree, so->batch, so->killed, so->nkilled);
	so->nkilled = 0;
}

/*
 * Look up the visibility map for the next few entries of the batch.  The
 * removal counter is read after the bits: if no entry has left the leaf, the
 * bits were about the rows that the entries were made for.
 */
static void
read_visibility(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	NmBatch *batch = so->batch;
	int from = so->seen_to;
	int to = Min(batch->n, Max(from, so->pos) + so->seen_step);
	BlockNumber last = InvalidBlockNumber;
	bool visible = false;
	bool any = false;

	if (so->all_visible == NULL)
		so->all_visible = (uint8 *) MemoryContextAlloc(so->keys.cxt, NM_LEAF_MAX_ENTRIES);

	NM_STOP("visibility-asked");
	for (int i = from; i < to; i++)
	{
		BlockNumber block = (BlockNumber) (batch->tids[i] >> 16);

		if (block != last)
		{
			visible = (visibilitymap_get_status(scan->heapRelation, block, &so->vmbuf) &
					   VISIBILITYMAP_ALL_VISIBLE) != 0;
			last = block;
		}
		so->all_visible[i] = visible;
		any |= visible;
	}

	NM_STOP("visibility-read");
	pg_memory_barrier();
	if (any && (so->scan.tree->tree_id != so->batch_tree ||
				!nm_batch_unremoved(so->scan.tree, batch)))
		memset(so->all_visible + from, 0, to - from);
	so->seen_to = to;
	so->seen_step = Min(so->seen_step * 4, NM_LEAF_MAX_ENTRIES);
}

/*
 * Index-only scan with an MVCC snapshot: is the row of the current entry
 * visible?  *all_visible says whether the heap did not have to be asked.
 */
static bool
row_is_visible(IndexScanDesc scan, bool *all_visible)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	ItemPointerData tid;
	bool again = false;
	bool dead = false;

	if (so->pos >= so->seen_to)
		read_visibility(scan);
	*all_visible = so->all_visible[so->pos];
	if (*all_visible)
		return true;

	if (so->slot == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(so->keys.cxt);

		so->slot = table_slot_create(scan->heapRelation, NULL);
		MemoryContextSwitchTo(old);
	}
	nm_tid_decode(so->batch->tids[so->pos], &tid);
	if (table_index_fetch_tuple(scan->xs_heapfetch, &tid, scan->xs_snapshot,
								so->slot, &again, &dead))
	{
		ExecClearTuple(so->slot);
		return true;
	}
	if (dead && !scan->xactStartedInRecovery)
		remember_killed(so, so->pos);
	return false;
}

/* The current entry as an index tuple. */
static void
set_index_tuple(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	const NmKeyDesc *desc = &so->idx->desc;
	NmBatch *batch = so->batch;
	int i = so->pos;
	Form_pg_attribute att;
	IndexTuple itup;

	if (desc->layout == NM_LAYOUT_GENERAL)
	{
		NmItem item;

		nm_batch_item(batch, NM_LAYOUT_GENERAL, i, &item);
		scan->xs_itup = nm_image_tuple(desc, &item, &so->tuple);
		return;
	}

	itup = (IndexTuple) so->tuple.data;
	nm_tid_decode(batch->tids[i], &itup->t_tid);
	if (i >= batch->null_from && i < batch->null_to)
	{
		/* a bitmap of one clear bit follows the header */
		Size size = MAXALIGN(sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData));

		itup->t_info = size | INDEX_NULL_MASK;
		memset((char *) itup + sizeof(IndexTupleData), 0, sizeof(IndexAttributeBitMapData));
	}
	else
	{
		Datum value = nm_fixed_datum(desc->fixed, desc->desc_first ? ~batch->keys[i] : batch->keys[i]);
		char *data = (char *) itup + MAXALIGN(sizeof(IndexTupleData));

		att = TupleDescAttr(desc->tupdesc, 0);
		itup->t_info = MAXALIGN(MAXALIGN(sizeof(IndexTupleData)) + att->attlen);
		if (att->attbyval)
			store_att_byval(data, value, att->attlen);
		else
			memcpy(data, DatumGetPointer(value), att->attlen);
	}
	scan->xs_itup = itup;
}

/*
 * amgettuple.  The direction may change at every call.
 */
bool
nm_gettuple(IndexScanDesc scan, ScanDirection direction)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	NmDirection dir = ScanDirectionIsForward(direction) ? NM_FORWARD : NM_BACKWARD;
	bool all_visible = false;
	uint64 tid;

	/* bounds and filters are exact */
	scan->xs_recheck = false;

	if (unlikely(so->shared != NULL && so->where != NM_AT_START && dir != so->dir))
		elog(ERROR, "parallel scan of index \"%s\" cannot turn round",
			 RelationGetRelationName(scan->indexRelation));

	switch (so->where)
	{
		case NM_AT_ITEM:
			if (scan->kill_prior_tuple)
				remember_killed(so, so->pos);
			if (unlikely(dir != so->dir))
			{
				copy_place(so, so->place, so->pos);
				flush_killed(so);
				so->where = NM_AT_PLACE;
				if (!go_to_place(scan, dir))
					return false;
			}
			break;
		case NM_AT_PLACE:
			if (!go_to_place(scan, dir))
				return false;
			break;
		case NM_AT_END:
			if (dir == so->dir || !start_scan(scan, dir))
				return false;
			break;
		case NM_AT_START:
			if (!start_scan(scan, dir))
				return false;
			break;
	}

	for (;;)
	{
		if (++so->pos >= so->batch->n && !next_batch(scan))
		{
			so->where = NM_AT_END;
			return false;
		}
		if (so->keys.nfilters > 0 && !nm_keys_match(&so->keys, so->batch, so->pos))
			continue;
		if (so->check_visible && !row_is_visible(scan, &all_visible))
			continue;
		break;
	}

	so->where = NM_AT_ITEM;
	so->returned++;
	tid = so->batch->tids[so->pos];
	nm_tid_decode(tid, &scan->xs_heaptid);
	if (scan->xs_want_itup)
		set_index_tuple(scan);
	if (!all_visible && scan->heapRelation)
		nm_sample_block(&nm_rel_locator(scan->heapRelation), (BlockNumber) (tid >> 16));
	return true;
}

int64
nm_getbitmap(IndexScanDesc scan, TIDBitmap *tbm)
{
	NmScanState *so = (NmScanState *) scan->opaque;
	int64 count = 0;
	ItemPointerData tids[64];
	int n = 0;

	so->bitmap = true;
	if (!start_scan(scan, NM_FORWARD))
		return 0;
	while (next_batch(scan))
	{
		for (int i = 0; i < so->batch->n; i++)
		{
			if (so->keys.nfilters > 0 && !nm_keys_match(&so->keys, so->batch, i))
				continue;
			nm_tid_decode(so->batch->tids[i], &tids[n++]);
			if (n == lengthof(tids))
			{
				tbm_add_tuples(tbm, tids, n, false);
				count += n;
				n = 0;
			}
		}
	}
	if (n > 0)
		tbm_add_tuples(tbm, tids, n, false);
	count += n;
	so->returned += count;
	so->where = NM_AT_END;
	return count;
}

/* Copy entry i of the batch out, key bytes too. */
static void
copy_place(NmScanState *so, NmPlace *place, int i)
{
	if (place == NULL)
		place = so->place = (NmPlace *) MemoryContextAlloc(so->keys.cxt, sizeof(NmPlace));
	nm_batch_item(so->batch, so->idx->desc.layout, i, &place->item);
	place->tid = so->batch->tids[i];
	if (place->item.data)
	{
		memcpy(place->buf, place->item.data, place->item.len);
		place->item.data = place->buf;
	}
}

/*
 * ammarkpos.  The entry is copied: its batch may be gone when the mark is
 * restored.
 */
void
nm_markpos(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	if (so->mark == NULL)
	{
		so->mark = (NmPlace *) MemoryContextAlloc(so->keys.cxt, sizeof(NmPlace));
		so->mark_elems = (int *) MemoryContextAlloc(so->keys.cxt,
													INDEX_MAX_KEYS * sizeof(int));
	}
	so->mark_where = so->where;
	so->mark_dir = so->dir;
	so->mark_batch = 0;
	nm_keys_save(&so->keys, so->mark_elems);
	if (so->where == NM_AT_ITEM)
	{
		copy_place(so, so->mark, so->pos);
		so->mark_batch = so->batch_number;
		so->mark_pos = so->pos;
	}
	else if (so->where == NM_AT_PLACE)
	{
		*so->mark = *so->place;
		if (so->mark->item.data)
			so->mark->item.data = so->mark->buf;
		so->mark_where = NM_AT_ITEM;
	}
}

void
nm_restrpos(IndexScanDesc scan)
{
	NmScanState *so = (NmScanState *) scan->opaque;

	if (so->mark_where != NM_AT_ITEM)
	{
		flush_killed(so);
		so->batch->n = 0;
		so->where = so->mark_where;
		so->dir = so->mark_dir;
		return;
	}

	/* still in the batch that was marked */
	if (so->mark_batch != 0 && so->mark_batch == so->batch_number &&
		so->batch->n > 0 && so->dir == so->mark_dir)
	{
		so->pos = so->mark_pos;
		so->where = NM_AT_ITEM;
		return;
	}

	/* merge joins, which mark, read their inner side whole in each process */
	if (so->shared != NULL)
		elog(ERROR, "parallel scan of index \"%s\" cannot go back to a mark",
			 RelationGetRelationName(scan->indexRelation));

	flush_killed(so);
	so->batch->n = 0;
	nm_keys_restore(&so->keys, so->mark_elems);
	if (so->place == NULL)
		so->place = (NmPlace *) MemoryContextAlloc(so->keys.cxt, sizeof(NmPlace));
	*so->place = *so->mark;
	if (so->place->item.data)
		so->place->item.data = so->place->buf;
	so->where = NM_AT_PLACE;
}

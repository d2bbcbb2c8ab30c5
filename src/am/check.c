/*-------------------------------------------------------------------------
 *
 * check.c
 *	  numa.btree_check() and numa.btree_stats().
 *
 * The check runs beside readers and writers, under AccessShareLock.  Three
 * passes:
 *	1. structure: nm_tree_check(), on validated copies of pages.  If entries and
 *	   pages are not as many as was counted, it is done again under ShareLock,
 *	   if that is to be had without waiting;
 *	2. heap to tree: every row that a snapshot sees must have its entry.  It
 *	   had it before its transaction committed, and no vacuum can take it from
 *	   under the snapshot;
 *	3. tree to heap: an entry's line pointer must exist, must not be free and
 *	   must not be the middle of a HOT chain, and if the snapshot sees a row
 *	   there, the row's key must be the entry's.  VACUUM removes entries before
 *	   it frees line pointers, so a bad line pointer counts only while the
 *	   entry is still there.
 *
 * Expressions and predicates run as the table's owner.
 *
 * IDENTIFICATION
 *	  src/am/check.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(nm_sql_btree_check);
PG_FUNCTION_INFO_V1(nm_sql_btree_stats);

typedef struct NmCheck
{
	Relation heap;
	Relation index;
	NmIndex *idx;
	NmTree *tree;
	Snapshot snapshot;
	IndexInfo *info;
	EState *estate;
	ExprState *predicate;
	TupleTableSlot *slot;
	MemoryContext row_cxt; /* reset for every row */
	NmScan scan;		   /* pass 3 */
	NmScan probe_scan;
	NmBatch *batch;
	NmBatch *probe_batch;
	IndexFetchTableData *fetch;
	BufferAccessStrategy strategy;
	bool compare_keys; /* pass 3 may compare keys with rows */
} NmCheck;

static Relation open_index(Oid indexoid, Relation *heap, LOCKMODE lockmode);
static void check_privilege(Relation index, Relation heap);
static void check_structure(NmCheck *check);
static void check_heap(NmCheck *check);
static void heap_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
					 bool alive, void *state);
static void check_entries(NmCheck *check);
static void check_entry(NmCheck *check, int i);
static const char *line_pointer_fault(NmCheck *check, uint64 tid);
static bool entry_present(NmCheck *check, const NmItem *item, uint64 tid, bool with_killed);
static void reload(NmCheck *check);
static void tick(void *arg);

static void
tick(void *arg)
{
	CHECK_FOR_INTERRUPTS();
}

/* Open a numa_btree index and, first, its table. */
static Relation
open_index(Oid indexoid, Relation *heap, LOCKMODE lockmode)
{
	Oid heapoid = IndexGetRelation(indexoid, true);
	Relation rel;

	*heap = OidIsValid(heapoid) ? try_table_open(heapoid, lockmode) : NULL;
	rel = try_relation_open(indexoid, lockmode);
	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", indexoid)));
	if (!nm_is_numa_btree(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a %s index", RelationGetRelationName(rel), NM_AM_NAME)));
	if (*heap == NULL || heapoid != rel->rd_index->indrelid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open the table of index \"%s\"",
						RelationGetRelationName(rel))));
	return rel;
}

static void
check_privilege(Relation index, Relation heap)
{
	Oid relid = RelationGetRelid(heap);
	bool allowed;

#if PG_VERSION_NUM >= 160000
	allowed = object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	allowed = pg_class_ownercheck(relid, GetUserId());
#endif
#if PG_VERSION_NUM >= 170000
	if (!allowed)
		allowed = pg_class_aclcheck(relid, GetUserId(), ACL_MAINTAIN) == ACLCHECK_OK;
#endif
	if (!allowed)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of relation \"%s\" to check it",
						RelationGetRelationName(index)),
#if PG_VERSION_NUM >= 170000
				 errhint("The owner, a superuser and roles with MAINTAIN on the table may.")
#else
				 errhint("The owner and superusers may.")
#endif
					 ));
}

/* The tree has gone away: load it again and go on. */
static void
reload(NmCheck *check)
{
	check->tree = nm_index_tree(check->idx);
	if (check->tree == NULL)
		check->tree = nm_index_load(check->idx, check->index, check->heap, NULL);
}

/*
 * numa.btree_check(index regclass, heapallindexed bool).  ERROR XX002 at the
 * first fault found.
 */
Datum
nm_sql_btree_check(PG_FUNCTION_ARGS)
{
	Oid indexoid = PG_GETARG_OID(0);
	bool heapallindexed = PG_GETARG_BOOL(1);
	NmCheck *check;
	Relation heap;
	Relation index;
	Oid save_userid;
	int save_sec_context;
	int level;

	index = open_index(indexoid, &heap, AccessShareLock);
	check_privilege(index, heap);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" belongs to a temporary table of another session",
						RelationGetRelationName(index)),
				 errhint("Only the session that created it can check it.")));
	nm_require_preload("check the index");
	if (!index->rd_index->indisvalid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" is not valid", RelationGetRelationName(index)),
				 errhint("Use REINDEX, or drop the index.")));

	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(heap->rd_rel->relowner,
						   save_sec_context | SECURITY_RESTRICTED_OPERATION);
	level = nm_restrict_search_path();

	check = palloc0(sizeof(NmCheck));
	check->heap = heap;
	check->index = index;
	check->idx = nm_index_open(index);
	check->batch = palloc(sizeof(NmBatch));
	check->probe_batch = palloc(sizeof(NmBatch));
	reload(check);

	check_structure(check);
	if (heapallindexed)
	{
		check_heap(check);
		check_entries(check);
	}

	AtEOXact_GUC(false, level);
	SetUserIdAndSecContext(save_userid, save_sec_context);
	pfree(check->batch);
	pfree(check->probe_batch);
	pfree(check);
	relation_close(index, AccessShareLock);
	table_close(heap, AccessShareLock);
	PG_RETURN_VOID();
}

/*
 * Pass 1.  Beside writers the counters of entries and pages say little, as they
 * follow the pages.  If they differ, the table's writers are kept out for
 * another look, unless one is there: then it is left at that.
 */
static void
check_structure(NmCheck *check)
{
	NmCheckWhen when = NM_CHECK_ANY_TIME;
	char msg[512];
	NmStatus st;

	for (;;)
	{
		msg[0] = '\0';
		st = nm_tree_check(check->tree, when, msg, sizeof(msg), tick, NULL);
		if (st == NM_GONE)
			reload(check);
		else if (st == NM_STALE && when == NM_CHECK_ANY_TIME &&
				 ConditionalLockRelation(check->heap, ShareLock))
			when = NM_CHECK_NO_WRITERS;
		else
			break;
	}
	if (when == NM_CHECK_NO_WRITERS)
		UnlockRelation(check->heap, ShareLock);
	if (st == NM_CORRUPT)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is damaged", RelationGetRelationName(check->index)),
				 errdetail_internal("%s", msg),
				 errhint("REINDEX makes a new one; please report how this came about.")));
	if (st != NM_OK && st != NM_STALE)
		elog(ERROR, "unexpected status %d while checking index \"%s\"",
			 (int) st, RelationGetRelationName(check->index));
}

/* Is exactly this entry in the tree? */
static bool
entry_present(NmCheck *check, const NmItem *item, uint64 tid, bool with_killed)
{
	NmBound lo;
	NmBound hi;

	nm_bound_clear(&lo);
	lo.item = *item;
	lo.tid = tid;
	hi = lo;
	hi.tid = tid + 1;
	for (;;)
	{
		NmStatus st;

		nm_scan_init(&check->probe_scan, check->tree, NM_FORWARD, &lo, &hi);
		check->probe_scan.keys_wanted = false;
		check->probe_scan.with_killed = with_killed;
		st = nm_scan_next(&check->probe_scan, check->probe_batch);
		if (st == NM_OK)
			return true;
		if (st == NM_END)
			return false;
		reload(check);
	}
}

/*
 * Pass 2.  core's build scan with an MVCC snapshot gives each visible row once,
 * with the TID of its HOT chain's root, and evaluates expressions and predicate.
 */
static void
check_heap(NmCheck *check)
{
	Snapshot snapshot;
	TableScanDesc scan;

	snapshot = RegisterSnapshot(GetTransactionSnapshot());

	/*
	 * HOT chains that were broken when the index was made: rows that an old
	 * snapshot sees need not be in the index.
	 */
	if (IsolationUsesXactSnapshot() && check->index->rd_index->indcheckxmin &&
		!TransactionIdPrecedes(HeapTupleHeaderGetXmin(check->index->rd_indextuple->t_data),
							   snapshot->xmin))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("index \"%s\" cannot be checked with this transaction's snapshot",
						RelationGetRelationName(check->index))));

	check->row_cxt = AllocSetContextCreate(CurrentMemoryContext, "numa_btree check",
										   ALLOCSET_DEFAULT_SIZES);
	check->info = BuildIndexInfo(check->index);
	check->info->ii_Concurrent = true; /* a snapshot, not SnapshotAny */
	check->info->ii_Unique = false;
	check->info->ii_ExclusionOps = NULL;
	check->info->ii_ExclusionProcs = NULL;
	check->info->ii_ExclusionStrats = NULL;

	check->snapshot = snapshot;
	scan = table_beginscan_strat(check->heap, snapshot, 0, NULL, true, true);
	(void) table_index_build_scan(check->heap, check->index, check->info, true, false,
								  heap_row, check, scan);
}

static void
heap_row(Relation index, ItemPointer tid, Datum *values, bool *isnull,
		 bool alive, void *state)
{
	NmCheck *check = (NmCheck *) state;
	MemoryContext old = MemoryContextSwitchTo(check->row_cxt);
	NmItem item;
	IndexTuple itup;

	nm_form_item(check->idx, index, values, isnull, tid, &item, &itup);
	if (!entry_present(check, &item, nm_tid_encode(tid), false))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("row (%u,%u) of table \"%s\" has no entry in index \"%s\"",
						ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid),
						RelationGetRelationName(check->heap), RelationGetRelationName(index)),
				 errhint("REINDEX makes a new index; please report how this came about.")));
	MemoryContextSwitchTo(old);
	MemoryContextReset(check->row_cxt);
}

/* Pass 3: every entry, killed ones too. */
static void
check_entries(NmCheck *check)
{
	NmBound lo;
	NmBound hi;

	check->strategy = GetAccessStrategy(BAS_BULKREAD);
	check->compare_keys =
		!check->index->rd_index->indcheckxmin ||
		TransactionIdPrecedes(HeapTupleHeaderGetXmin(check->index->rd_indextuple->t_data),
							  check->snapshot->xmin);
	check->estate = CreateExecutorState();
	check->slot = table_slot_create(check->heap, NULL);
	GetPerTupleExprContext(check->estate)->ecxt_scantuple = check->slot;
	check->predicate = ExecPrepareQual(check->info->ii_Predicate, check->estate);
#if PG_VERSION_NUM >= 190000
	check->fetch = table_index_fetch_begin(check->heap, 0);
#else
	check->fetch = table_index_fetch_begin(check->heap);
#endif

	nm_bound_clear(&lo);
	nm_bound_clear(&hi);
	lo.infinite = -1;
	hi.infinite = 1;
	nm_scan_init(&check->scan, check->tree, NM_FORWARD, &lo, &hi);
	check->scan.keys_wanted = true;
	check->scan.with_killed = true;
	for (;;)
	{
		NmStatus st;

		CHECK_FOR_INTERRUPTS();
		st = nm_scan_next(&check->scan, check->batch);
		if (st == NM_END)
			break;
		if (st == NM_GONE)
		{
			reload(check);
			check->scan.tree = check->tree;
			continue;
		}
		for (int i = 0; i < check->batch->n; i++)
			check_entry(check, i);
	}

	table_index_fetch_end(check->fetch);
	ExecDropSingleTupleTableSlot(check->slot);
	FreeExecutorState(check->estate);
	/* ExecPrepareQual and FormIndexDatum hang their state on the freed estate */
	check->info->ii_ExpressionsState = NIL;
	FreeAccessStrategy(check->strategy);
	UnregisterSnapshot(check->snapshot);
	MemoryContextDelete(check->row_cxt);
}

/* What is wrong with an entry's line pointer, or NULL. */
static const char *
line_pointer_fault(NmCheck *check, uint64 tid)
{
	BlockNumber block = (BlockNumber) (tid >> 16);
	OffsetNumber offset = (OffsetNumber) (tid & 0xFFFF);
	const char *fault = NULL;
	Buffer buffer;
	Page page;

	if (block >= RelationGetNumberOfBlocks(check->heap))
		return "lies beyond the end of the table";
	buffer = ReadBufferExtended(check->heap, MAIN_FORKNUM, block, RBM_NORMAL, check->strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (PageIsNew(page) || offset < FirstOffsetNumber || offset > PageGetMaxOffsetNumber(page))
		fault = "does not exist";
	else
	{
		ItemId lp = PageGetItemId(page, offset);

		if (!ItemIdIsUsed(lp))
			fault = "is free";
		else if (ItemIdIsNormal(lp) &&
				 HeapTupleHeaderIsHeapOnly((HeapTupleHeader) PageGetItem(page, lp)))
			fault = "is not the root of its HOT chain";
	}
	UnlockReleaseBuffer(buffer);
	return fault;
}

static void
check_entry(NmCheck *check, int i)
{
	uint64 tid = check->batch->tids[i];
	ItemPointerData ctid;
	NmItem item;
	const char *fault = NULL;
	bool again = false;

	nm_batch_item(check->batch, check->idx->desc.layout, i, &item);

	/*
	 * The line pointer may be reused between our looks, so a fault must stay
	 * while the entry does.
	 */
	for (int tries = 0; tries < 3; tries++)
	{
		fault = line_pointer_fault(check, tid);
		if (fault == NULL || !entry_present(check, &item, tid, true))
		{
			fault = NULL;
			break;
		}
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000);
	}
	if (fault)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("an entry of index \"%s\" points to a row that is not there",
						RelationGetRelationName(check->index)),
				 errdetail("Line pointer (%u,%u) of table \"%s\" %s.",
						   (BlockNumber) (tid >> 16), (OffsetNumber) (tid & 0xFFFF),
						   RelationGetRelationName(check->heap), fault),
				 errhint("REINDEX makes a new index; please report how this came about.")));

	if (!check->compare_keys)
		return;

	nm_tid_decode(tid, &ctid);
	if (table_index_fetch_tuple(check->fetch, &ctid, check->snapshot, check->slot, &again, NULL))
	{
		MemoryContext old = MemoryContextSwitchTo(check->row_cxt);
		Datum values[INDEX_MAX_KEYS];
		bool isnull[INDEX_MAX_KEYS];
		NmItem row;
		IndexTuple itup;
		bool same;

		nm_tid_decode(tid, &ctid);
		same = ExecQual(check->predicate, GetPerTupleExprContext(check->estate));
		if (same)
		{
			FormIndexDatum(check->info, check->slot, check->estate, values, isnull);
			nm_form_item(check->idx, check->index, values, isnull, &ctid, &row, &itup);
			if (check->idx->desc.layout == NM_LAYOUT_FIXED)
				same = row.isnull == item.isnull && (row.isnull || row.key == item.key);
			else
				same = nm_compare_items(&check->idx->desc, &row, &item) == 0;
		}
		if (!same)
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("an entry of index \"%s\" does not match its row",
							RelationGetRelationName(check->index)),
					 errdetail("The key is not that of row (%u,%u) of table \"%s\".",
							   (BlockNumber) (tid >> 16), (OffsetNumber) (tid & 0xFFFF),
							   RelationGetRelationName(check->heap)),
					 errhint("REINDEX makes a new index; please report how this came about.")));
		MemoryContextSwitchTo(old);
		MemoryContextReset(check->row_cxt);
		ResetPerTupleExprContext(check->estate);
		ExecClearTuple(check->slot);
	}
}

static const char *
state_name(NmState state)
{
	switch (state)
	{
		case NM_STATE_FREE:
		case NM_STATE_NOT_LOADED:
		case NM_STATE_DROPPED:
			return "not loaded";
		case NM_STATE_BUILDING:
			return "building";
		case NM_STATE_LOADING:
			return "loading";
		case NM_STATE_LOADED:
			return "loaded";
		case NM_STATE_FAILED:
			return "failed";
	}
	return "unknown";
}

/*
 * numa.btree_stats(index regclass): state and usage, and for a loaded tree its
 * shape, counted by walking it.
 */
Datum
nm_sql_btree_stats(PG_FUNCTION_ARGS)
{
	Oid indexoid = PG_GETARG_OID(0);
	TupleDesc tupdesc;
	Datum values[21];
	bool isnull[21];
	Relation heap;
	Relation index;
	NmIndex *idx;
	NmTree *tree;
	NmTreeStats stats;
	NmSlot *slot;
	int c = 0;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	tupdesc = BlessTupleDesc(tupdesc);
	Assert(tupdesc->natts == lengthof(values));
	memset(isnull, 0, sizeof(isnull));

	index = open_index(indexoid, &heap, AccessShareLock);
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("index \"%s\" belongs to a temporary table of another session",
						RelationGetRelationName(index)),
				 errhint("Only the session that created it can check it.")));
	nm_require_preload("show the index's statistics");
	idx = nm_index_open(index);
	slot = idx->slot;
	tree = nm_index_tree(idx);

	memset(&stats, 0, sizeof(stats));
	if (tree != NULL && nm_tree_stats(tree, &stats, tick, NULL) != NM_OK)
		tree = NULL; /* unloaded meanwhile */

	values[c++] = CStringGetTextDatum(state_name(pg_atomic_read_u32(&slot->state)));
	values[c++] = CStringGetTextDatum(idx->desc.layout == NM_LAYOUT_FIXED ? "fixed" : "general");
	if (tree != NULL)
	{
		int64 pages = stats.leaves + stats.inner + stats.overflow;
		Datum nodes[NM_MAX_NODES];
		Datum node_pages[NM_MAX_NODES];
		int n = 0;

		values[c++] = Int32GetDatum(stats.height);
		values[c++] = Int64GetDatum(stats.entries);
		values[c++] = Int64GetDatum(stats.killed);
		values[c++] = Int64GetDatum(stats.leaves);
		values[c++] = Int64GetDatum(stats.inner);
		values[c++] = Int64GetDatum(stats.overflow);
		values[c++] = Int64GetDatum(pages * NM_PAGE_SIZE);
		values[c++] = Float8GetDatum(stats.leaves == 0 ? 0.0 : 1.0 - (double) stats.free_bytes / ((double) stats.leaves * NM_PAGE_SIZE));
		for (int i = 0; i < nm_pool->narenas; i++)
		{
			nodes[n] = Int32GetDatum(nm_pool->nodes[i]);
			node_pages[n] = Int64GetDatum(stats.pages_by_arena[i]);
			n++;
		}
		values[c++] = PointerGetDatum(construct_array(nodes, n, INT4OID, 4, true, TYPALIGN_INT));
		values[c++] = PointerGetDatum(construct_array(node_pages, n, INT8OID, 8,
													  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
		values[c++] = Int64GetDatum((int64) slot->tree.splits);
		values[c++] = Int64GetDatum((int64) slot->tree.deletes);
		values[c++] = Int64GetDatum((int64) slot->tree.relocations);
	}
	else
	{
		while (c < 15)
			isnull[c++] = true;
	}
	values[c++] = Int64GetDatum((int64) slot->load_count);
	if (slot->load_time != 0)
	{
		values[c++] = TimestampTzGetDatum(slot->load_time);
		values[c++] = Int64GetDatum(slot->load_ms);
	}
	else
	{
		isnull[c++] = true;
		isnull[c++] = true;
	}
	values[c++] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->lookups));
	values[c++] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->inserts));
	values[c++] = Int64GetDatum((int64) pg_atomic_read_u64(&slot->tuples_read));
	Assert(c == lengthof(values));

	relation_close(index, AccessShareLock);
	table_close(heap, AccessShareLock);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, isnull)));
}

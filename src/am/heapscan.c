/*-------------------------------------------------------------------------
 *
 * heapscan.c
 *	  The loader's own scan of the heap.
 *
 * Core's build scan needs a lock that keeps writers out, waits for open
 * transactions and may lose a HOT member under writers.  This one runs beside
 * everybody: one share lock per heap page, every HOT chain walked from its root,
 * and one entry per root with the key of the newest member that is neither dead
 * nor aborted.  It waits for nobody and never complains about duplicates.
 *
 * Tuples are copied out and looked at after the page is unlocked, for
 * expressions and predicates may do anything.  The caller's active snapshot
 * holds back the horizon, so what was alive when it was copied keeps its TOAST
 * data.  A row that somebody may be about to undo, or that is deleted already,
 * may fail to evaluate where a committed one could not:
 *	- its transaction is still running: looked at again when that has ended;
 *	- it was deleted, and no snapshot needs it any more: left out.
 * README.md, "The heap scan", argues why this is complete.
 *
 * IDENTIFICATION
 *	  src/am/heapscan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Pages between two looks for sessions that want the table for themselves. */
#define YIELD_PAGES 64
/* Pages that a participant takes at once. */
#define SHARE_PAGES 16

/*
 * Set in loaders that nobody waits for: they give way to a session that wants
 * a lock on the table which conflicts with theirs.
 */
bool nm_heapscan_yields = false;

/* A row to be indexed: the newest usable member of a HOT chain. */
typedef struct NmFound
{
	OffsetNumber root;
	bool certain;	   /* committed and not deleted */
	TransactionId xid; /* running transaction that decides, if any */
	HeapTuple tuple;   /* copy */
} NmFound;

struct NmHeapScan
{
	Relation heap;
	Relation index;
	NmSpool *spool;
	NmSlot *slot;
	TransactionId oldest; /* rows deleted before are dead to everyone */
	BufferAccessStrategy strategy;

	/* evaluation; renewed after an error came through it */
	IndexInfo *info;
	EState *estate;
	ExprContext *econtext;
	ExprState *predicate;
	TupleTableSlot *tupslot;
	bool may_raise; /* expressions or a predicate */

	MemoryContext cxt;		/* lives as long as the scan */
	MemoryContext page_cxt; /* copies of one page's rows */
	NmFound found[MaxHeapTuplesPerPage];
	int nfound;
	NmDeferred *deferred;
	int ndeferred;
	int maxdeferred;
	bool in_team; /* others scan, too: rows that want a guard are put off */
};

static bool table_wanted(Relation heap);
static void setup_evaluation(NmHeapScan *scan);
static void collect_page(NmHeapScan *scan, BlockNumber block, OffsetNumber only);
static bool walk_chain(NmHeapScan *scan, Buffer buffer, OffsetNumber root, NmFound *found);
static bool form(NmHeapScan *scan, const NmFound *found, bool detoast,
				 Datum *values, bool *isnull);
static bool form_guarded(NmHeapScan *scan, const NmFound *found, Datum *values,
						 bool *isnull, bool *wanted);
static void add_row(NmHeapScan *scan, BlockNumber block, const NmFound *found);

/*
 * Does another session have or want a lock that shuts out all but readers?
 * LockHasWaiters() can't be asked about our own lock, which usually is a
 * fast-path one; but another mode is not granted past such a waiter.
 */
static bool
table_wanted(Relation heap)
{
	if (!ConditionalLockRelation(heap, RowShareLock))
		return true;
	UnlockRelation(heap, RowShareLock);
	return false;
}

static void
setup_evaluation(NmHeapScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->cxt);

	if (scan->tupslot != NULL)
		ExecDropSingleTupleTableSlot(scan->tupslot);
	scan->info = BuildIndexInfo(scan->index);
	scan->estate = CreateExecutorState();
	scan->econtext = GetPerTupleExprContext(scan->estate);
	scan->tupslot = MakeSingleTupleTableSlot(RelationGetDescr(scan->heap), &TTSOpsHeapTuple);
	scan->econtext->ecxt_scantuple = scan->tupslot;
	scan->predicate = ExecPrepareQual(scan->info->ii_Predicate, scan->estate);
	scan->may_raise = scan->info->ii_Expressions != NIL || scan->info->ii_Predicate != NIL;
	MemoryContextSwitchTo(old);
}

/*
 * Can an error of an expression be caught?  It takes a subtransaction, which a
 * parallel query cannot start before version 17.
 */
static inline bool
can_guard(void)
{
#if PG_VERSION_NUM >= 170000
	return true;
#else
	return !IsInParallelMode();
#endif
}

/*
 * The newest member of the chain at root that is neither dead nor aborted;
 * false if there is none.  The page is share-locked.
 */
static bool
walk_chain(NmHeapScan *scan, Buffer buffer, OffsetNumber root, NmFound *found)
{
	Page page = BufferGetPage(buffer);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	OffsetNumber off = root;
	ItemId lp = PageGetItemId(page, root);
	TransactionId prior = InvalidTransactionId;
	bool heap_only = false;
	HeapTupleData best;
	bool any = false;

	if (ItemIdIsRedirected(lp))
	{
		off = ItemIdGetRedirect(lp);
		heap_only = true;
	}
	else if (!ItemIdIsNormal(lp) ||
			 HeapTupleHeaderIsHeapOnly((HeapTupleHeader) PageGetItem(page, lp)))
		return false;

	for (;;)
	{
		HeapTupleData tuple;

		if (off < FirstOffsetNumber || off > max)
			break;
		lp = PageGetItemId(page, off);
		if (!ItemIdIsNormal(lp))
			break;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, lp);
		tuple.t_len = ItemIdGetLength(lp);
		tuple.t_tableOid = RelationGetRelid(scan->heap);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), off);

		/* the same tests that heap_get_root_tuples() makes */
		if (heap_only && !HeapTupleHeaderIsHeapOnly(tuple.t_data))
			break;
		if (TransactionIdIsValid(prior) &&
			!TransactionIdEquals(prior, HeapTupleHeaderGetXmin(tuple.t_data)))
			break;

		switch (HeapTupleSatisfiesVacuum(&tuple, scan->oldest, buffer))
		{
			case HEAPTUPLE_DEAD:
				break;
			case HEAPTUPLE_LIVE:
				best = tuple;
				any = true;
				found->certain = true;
				found->xid = InvalidTransactionId;
				break;
			case HEAPTUPLE_RECENTLY_DEAD:
				best = tuple;
				any = true;
				found->certain = false;
				found->xid = InvalidTransactionId;
				break;
			case HEAPTUPLE_INSERT_IN_PROGRESS:
				best = tuple;
				any = true;
				found->certain = false;
				found->xid = HeapTupleHeaderGetXmin(tuple.t_data);
				break;
			case HEAPTUPLE_DELETE_IN_PROGRESS:
				best = tuple;
				any = true;
				found->certain = false;
				found->xid = HeapTupleHeaderGetUpdateXid(tuple.t_data);
				break;
		}

		if (!HeapTupleHeaderIsHotUpdated(tuple.t_data))
			break;
		off = ItemPointerGetOffsetNumber(&tuple.t_data->t_ctid);
		prior = HeapTupleHeaderGetUpdateXid(tuple.t_data);
		heap_only = true;
	}

	if (any)
	{
		found->root = root;
		found->tuple = heap_copytuple(&best);
	}
	return any;
}

/* Copy out the rows to be indexed of a page, or of one root on it. */
static void
collect_page(NmHeapScan *scan, BlockNumber block, OffsetNumber only)
{
	MemoryContext old = MemoryContextSwitchTo(scan->page_cxt);
	Buffer buffer;
	OffsetNumber max;

	scan->nfound = 0;
	buffer = ReadBufferExtended(scan->heap, MAIN_FORKNUM, block, RBM_NORMAL, scan->strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	max = PageGetMaxOffsetNumber(BufferGetPage(buffer));
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		if (only != InvalidOffsetNumber && off != only)
			continue;
		if (walk_chain(scan, buffer, off, &scan->found[scan->nfound]))
			scan->nfound++;
	}
	UnlockReleaseBuffer(buffer);
	MemoryContextSwitchTo(old);
}

/*
 * Evaluate the predicate and the columns; false if the row is not in the
 * index.  detoast: leave no value that lies outside the row.
 */
static bool
form(NmHeapScan *scan, const NmFound *found, bool detoast, Datum *values, bool *isnull)
{
	MemoryContextReset(scan->econtext->ecxt_per_tuple_memory);
	ExecStoreHeapTuple(found->tuple, scan->tupslot, false);
	if (scan->predicate != NULL && !ExecQual(scan->predicate, scan->econtext))
		return false;
	FormIndexDatum(scan->info, scan->tupslot, scan->estate, values, isnull);

	if (detoast)
	{
		TupleDesc desc = RelationGetDescr(scan->index);

		for (int i = 0; i < desc->natts; i++)
		{
			if (!isnull[i] && TupleDescAttr(desc, i)->attlen == -1 &&
				VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
				values[i] = PointerGetDatum(PG_DETOAST_DATUM(values[i]));
		}
	}
	return true;
}

/*
 * The same under a subtransaction: false if it raised an error, *wanted else.
 * A cancel or a lack of resources is not the row's fault and goes on.
 */
static bool
form_guarded(NmHeapScan *scan, const NmFound *found, Datum *values, bool *isnull, bool *wanted)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool ok = true;
	ErrorData *volatile edata = NULL;

	BeginInternalSubTransaction(NULL);
	/* values must outlive the subtransaction */
	MemoryContextSwitchTo(scan->page_cxt);
	PG_TRY();
	{
		*wanted = form(scan, found, true, values, isnull);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(scan->page_cxt);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;

	if (!ok)
	{
		int category = ERRCODE_TO_CATEGORY(edata->sqlerrcode);

		if (edata->sqlerrcode == ERRCODE_QUERY_CANCELED ||
			category == ERRCODE_INSUFFICIENT_RESOURCES ||
			category == ERRCODE_TO_CATEGORY(ERRCODE_ADMIN_SHUTDOWN))
			ReThrowError(edata);
		FreeErrorData(edata);
		/* what the error left half done is not used again */
		setup_evaluation(scan);
	}
	return ok;
}

void
nm_heapscan_put_off(NmHeapScan *scan, const NmDeferred *row)
{
	if (scan->ndeferred == scan->maxdeferred)
	{
		scan->maxdeferred = Max(64, scan->maxdeferred * 2);
		if (scan->deferred == NULL)
			scan->deferred = MemoryContextAlloc(scan->cxt,
												scan->maxdeferred * sizeof(NmDeferred));
		else
			scan->deferred = repalloc_huge(scan->deferred,
										   scan->maxdeferred * sizeof(NmDeferred));
	}
	scan->deferred[scan->ndeferred++] = *row;
}

const NmDeferred *
nm_heapscan_deferred(const NmHeapScan *scan, int *n)
{
	*n = scan->ndeferred;
	return scan->deferred;
}

/* Is this row, whose evaluation failed, dead to everyone by now? */
static bool
dead_by_now(NmHeapScan *scan, BlockNumber block, OffsetNumber root)
{
	Buffer buffer;
	NmFound again;
	bool any;

	scan->oldest = GetOldestNonRemovableTransactionId(scan->heap);
	buffer = ReadBufferExtended(scan->heap, MAIN_FORKNUM, block, RBM_NORMAL, scan->strategy);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	any = root <= PageGetMaxOffsetNumber(BufferGetPage(buffer)) &&
		  walk_chain(scan, buffer, root, &again);
	UnlockReleaseBuffer(buffer);
	return !any;
}

static void
add_row(NmHeapScan *scan, BlockNumber block, const NmFound *found)
{
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];
	bool wanted;
	ItemPointerData tid;
	NmDeferred row = {.block = block, .root = found->root, .xid = found->xid};

	/*
	 * Rows of this transaction are evaluated like committed ones: nobody else
	 * will decide about them, and the error is this session's.
	 */
	if (found->certain ||
		!(scan->may_raise || HeapTupleHasExternal(found->tuple)) ||
		(TransactionIdIsValid(found->xid) &&
		 TransactionIdIsCurrentTransactionId(found->xid)))
		wanted = form(scan, found, false, values, isnull);
	else if (scan->in_team)
	{
		row.xid = InvalidTransactionId;
		nm_heapscan_put_off(scan, &row);
		return;
	}
	else if (!can_guard())
		wanted = form(scan, found, false, values, isnull);
	else if (!form_guarded(scan, found, values, isnull, &wanted))
	{
		if (TransactionIdIsValid(found->xid))
		{
			nm_heapscan_put_off(scan, &row);
			return;
		}
		if (dead_by_now(scan, block, found->root))
			return;
		/* somebody may still look for it: no index without it */
		wanted = form(scan, found, false, values, isnull);
	}
	if (!wanted)
		return;

	ItemPointerSet(&tid, block, found->root);
	nm_spool_add(scan->spool, values, isnull, &tid, true);
	pg_atomic_fetch_add_u64(&scan->slot->load_tuples, 1);
}

/*
 * What all participants go by.  own_tid (may be NULL) is left out.  The horizon
 * is the leader's: it holds for all of them as long as the leader's snapshot
 * does.
 */
void
nm_heapshare_init(NmHeapShare *share, NmIndex *idx, Relation heap, ItemPointer own_tid)
{
	memset(share, 0, sizeof(*share));
	/* after LOADING was published, and after the snapshot was taken */
	Assert(ActiveSnapshotSet());
	share->oldest = GetOldestNonRemovableTransactionId(heap);
	share->nblocks = RelationGetNumberOfBlocks(heap);
	pg_atomic_init_u64(&share->next, 0);
	share->slot = nm_slot_number(idx->slot);
	if (own_tid)
	{
		share->has_own = true;
		share->own = *own_tid;
	}
	pg_atomic_write_u64(&idx->slot->load_blocks_total, share->nblocks);
}

void
nm_heapshare_copy(NmHeapShare *to, const NmHeapShare *from)
{
	*to = *from;
	pg_atomic_init_u64(&to->next, 0);
}

NmHeapScan *
nm_heapscan_begin(const NmHeapShare *share, Relation heap, Relation index, NmSpool *spool)
{
	MemoryContext cxt;
	MemoryContext old;
	NmHeapScan *scan;

	cxt = AllocSetContextCreate(CurrentMemoryContext, "numa_btree heap scan",
								ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	scan = palloc0(sizeof(NmHeapScan));
	scan->cxt = cxt;
	scan->page_cxt = AllocSetContextCreate(cxt, "numa_btree heap page", ALLOCSET_DEFAULT_SIZES);
	scan->heap = heap;
	scan->index = index;
	scan->spool = spool;
	scan->slot = nm_slot_get(share->slot);
	scan->oldest = share->oldest;
	setup_evaluation(scan);
	if (!RelationUsesLocalBuffers(heap) && share->nblocks > (BlockNumber) NBuffers / 4)
		scan->strategy = GetAccessStrategy(BAS_BULKREAD);
	MemoryContextSwitchTo(old);
	return scan;
}

/*
 * Spool an entry for every row that some snapshot, present or future, may want
 * to find, of the blocks that this participant gets.  in_team: those which need
 * a subtransaction are put off, to be worked off outside of parallel mode.
 */
void
nm_heapscan_blocks(NmHeapScan *scan, NmHeapShare *share, bool in_team)
{
	MemoryContext old = MemoryContextSwitchTo(scan->cxt);
	BlockNumber seen = 0;

	scan->in_team = in_team;
	for (;;)
	{
		uint64 first = pg_atomic_fetch_add_u64(&share->next, SHARE_PAGES);
		uint64 end = Min(first + SHARE_PAGES, share->nblocks);

		if (first >= share->nblocks)
			break;
		for (BlockNumber block = (BlockNumber) first; block < end; block++)
		{
			CHECK_FOR_INTERRUPTS();
			if (nm_heapscan_yields && seen++ % YIELD_PAGES == 0 && table_wanted(scan->heap))
				ereport(ERROR,
						(errcode(ERRCODE_QUERY_CANCELED),
						 errmsg("load of index \"%s\" was put off because another session wants its table",
								RelationGetRelationName(scan->index))));
			collect_page(scan, block, InvalidOffsetNumber);
			for (int i = 0; i < scan->nfound; i++)
			{
				NmFound *found = &scan->found[i];

				if (share->has_own && ItemPointerGetBlockNumber(&share->own) == block &&
					ItemPointerGetOffsetNumber(&share->own) == found->root)
					continue;
				add_row(scan, block, found);
			}
			MemoryContextReset(scan->page_cxt);
		}
		pg_atomic_fetch_add_u64(&scan->slot->load_blocks_done, end - first);
	}
	scan->in_team = false;
	MemoryContextSwitchTo(old);
}

/*
 * Rows put off.  Their transactions are waited for one by one; a row may have
 * got into the hands of the next one by then and be put off again.
 */
void
nm_heapscan_work_off(NmHeapScan *scan)
{
	MemoryContext old = MemoryContextSwitchTo(scan->cxt);

	for (int i = 0; i < scan->ndeferred; i++)
	{
		NmDeferred row = scan->deferred[i];

		CHECK_FOR_INTERRUPTS();
		if (TransactionIdIsValid(row.xid))
			XactLockTableWait(row.xid, NULL, NULL, XLTW_None);
		collect_page(scan, row.block, row.root);
		for (int j = 0; j < scan->nfound; j++)
			add_row(scan, row.block, &scan->found[j]);
		MemoryContextReset(scan->page_cxt);
	}
	MemoryContextSwitchTo(old);
}

void
nm_heapscan_end(NmHeapScan *scan)
{
	ExecDropSingleTupleTableSlot(scan->tupslot);
	FreeExecutorState(scan->estate);
	if (scan->strategy)
		FreeAccessStrategy(scan->strategy);
	MemoryContextDelete(scan->cxt);
}

/*-------------------------------------------------------------------------
 *
 * load.c
 *	  Bring an index into memory from its heap; take it out again.
 *
 * Whoever needs the tree loads it, holding the load lock.  What comes of an
 * unfinished load is settled in nm_load_abort(), called at the abort of the
 * (sub)transaction it ran in: that happens after every error and also when the
 * process is told to exit, when no PG_CATCH runs.  Here PG_CATCH only notes
 * the error's text.
 *
 * README.md, "Loading", argues why no entry is lost or left over.
 *
 * IDENTIFICATION
 *	  src/am/load.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/team.h"

#include "access/table.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "storage/sinval.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

/* A failed load is not repeated on its own for this long, doubled per failure. */
#define BACKOFF_FIRST_MS 1000
#define BACKOFF_MAX_MS	 60000

/* An unload waits this long for others to leave the tree, then the sweep does. */
#define UNLOAD_WAIT_MS 10000

static NmLoad *current_load = NULL;

static bool load_locked(NmIndex *idx, Relation index, Relation heap,
						ItemPointer own_tid, bool force);
static void load_run(NmIndex *idx, Relation index, Relation heap, ItemPointer own_tid);
static void scan_heap(NmIndex *idx, Relation heap, Relation index, NmSpool *spool,
					  ItemPointer own_tid);
static void flip(NmLoad *load, TimestampTz started);
static void wait_for_flip(NmSlot *slot);
static void refuse_backing_off(NmSlot *slot, Relation index);

/*
 * Have every process plan again.  Sent at once and not with the transaction:
 * the tree is there, or gone, whatever becomes of this transaction.
 */
void
nm_send_inval(Oid relid)
{
	SharedInvalidationMessage msg;

	memset(&msg, 0, sizeof(msg));
	msg.rc.id = SHAREDINVALRELCACHE_ID;
	msg.rc.dbId = MyDatabaseId;
	msg.rc.relId = relid;
	SendSharedInvalidMessages(&msg, 1);
}

bool
nm_load_running_here(const NmSlot *slot)
{
	for (NmLoad *load = current_load; load != NULL; load = load->outer)
	{
		if (load->slot == slot && load->serial == slot->serial)
			return true;
	}
	return false;
}

/* FAILED, and not long enough ago to try again unasked? */
bool
nm_load_backing_off(NmSlot *slot)
{
	int shift = Min(Max(slot->fail_count - 1, 0), 6);
	int wait = Min(BACKOFF_FIRST_MS << shift, BACKOFF_MAX_MS);

	return pg_atomic_read_u32(&slot->state) == NM_STATE_FAILED &&
		   !TimestampDifferenceExceeds(slot->fail_time, GetCurrentTimestamp(), wait);
}

static void
refuse_backing_off(NmSlot *slot, Relation index)
{
	char text[NM_ERRTEXT];
	int sqlstate;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
	strlcpy(text, slot->fail_text, sizeof(text));
	sqlstate = slot->fail_sqlstate;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	ereport(ERROR,
			(errcode(sqlstate != 0 ? sqlstate : ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("index \"%s\" could not be loaded: %s",
					RelationGetRelationName(index), text),
			 errhint("It is tried again after a while; numa.btree_load() tries at once.")));
}

/* Another member of this process's lock group is loading. */
static void
wait_for_flip(NmSlot *slot)
{
	ConditionVariablePrepareToSleep(&nm_registry->flip_cv);
	while (pg_atomic_read_u32(&slot->state) == NM_STATE_LOADING)
		(void) ConditionVariableTimedSleep(&nm_registry->flip_cv, 100, PG_WAIT_EXTENSION);
	ConditionVariableCancelSleep();
}

/*
 * ---------------------------------------------------------------------
 * Loading
 * ---------------------------------------------------------------------
 */

static NmTree *
load_or_wait(NmIndex *idx, Relation index, Relation heap, ItemPointer own_tid,
			 bool force, bool *did_load)
{
	Relation opened = NULL;
	NmTree *tree;

	if (did_load)
		*did_load = false;

	while ((tree = nm_index_tree(idx)) == NULL)
	{
		NmSlot *slot;

		CHECK_FOR_INTERRUPTS();
		if (RecoveryInProgress())
			ereport(ERROR,
					(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
					 errmsg("cannot use numa_btree index \"%s\" during recovery",
							RelationGetRelationName(index)),
					 errdetail("Its entries are not replicated; they are loaded after promotion.")));
		if (RELATION_IS_OTHER_TEMP(index))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot access temporary indexes of other sessions")));

		if (idx->slot->serial != idx->serial || nm_slot_is_none(idx->slot))
		{
			nm_slot_attach(idx, index, true);
			continue;
		}
		slot = idx->slot;

		if (nm_load_running_here(slot) || nm_team_index == idx->indexoid ||
			pg_atomic_read_u32(&slot->state) == NM_STATE_BUILDING)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot use index \"%s\" while this session loads it",
							RelationGetRelationName(index)),
					 errdetail("An expression or comparison of the index uses the index itself.")));
		if (!force && nm_load_backing_off(slot))
			refuse_backing_off(slot, index);

		/* relation locks come before the load lock: see README */
		if (heap == NULL)
			heap = opened = table_open(idx->heapoid, AccessShareLock);

		nm_lock_load(index);
		if (slot->serial == idx->serial &&
			load_locked(idx, index, heap, own_tid, force) && did_load)
			*did_load = true;
		nm_unlock_load(index);
	}

	if (opened)
		table_close(opened, NoLock);
	return tree;
}

NmTree *
nm_index_load(NmIndex *idx, Relation index, Relation heap, ItemPointer own_tid)
{
	return load_or_wait(idx, index, heap, own_tid, false, NULL);
}

/* For those who were told to load: does not mind an earlier failure. */
NmTree *
nm_index_load_forced(NmIndex *idx, Relation index, Relation heap, bool *did_load)
{
	return load_or_wait(idx, index, heap, NULL, true, did_load);
}

/* The load lock is held.  True if a tree was loaded. */
static bool
load_locked(NmIndex *idx, Relation index, Relation heap, ItemPointer own_tid, bool force)
{
	NmSlot *slot = idx->slot;

	switch (pg_atomic_read_u32(&slot->state))
	{
		case NM_STATE_LOADING:
			wait_for_flip(slot);
			return false;
		case NM_STATE_FAILED:
			/* who held the lock before failed just now */
			if (!force && nm_load_backing_off(slot))
			{
				nm_unlock_load(index);
				refuse_backing_off(slot, index);
			}
			break;
		case NM_STATE_NOT_LOADED:
			break;
		default:
			return false;
	}

	/*
	 * The pages of the tree before go first.  Whoever is still in them leaves
	 * soon: epoch sections are short.
	 */
	while (!nm_slot_reap(slot) || pg_atomic_read_u32(&slot->pins) != 0)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(1000L);
	}
	load_run(idx, index, heap, own_tid);
	return true;
}

static void
load_run(NmIndex *idx, Relation index, Relation heap, ItemPointer own_tid)
{
	NmSlot *slot = idx->slot;
	NmLoad *load;
	MemoryContext old = CurrentMemoryContext;
	MemoryContext cxt;
	TimestampTz started = GetCurrentTimestamp();
	Oid save_userid;
	int save_sec_context;
	int guc_level;
	bool lost;

	load = MemoryContextAllocZero(TopMemoryContext, sizeof(NmLoad));
	load->idx = idx;
	load->slot = slot;
	load->serial = idx->serial;
	load->nest = GetCurrentTransactionNestLevel();

	/*
	 * Publish LOADING before the heap's size is read.  An insert whose row the
	 * scan might miss then finds LOADING.
	 */
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	lost = slot->serial != idx->serial ||
		   (pg_atomic_read_u32(&slot->state) != NM_STATE_NOT_LOADED &&
			pg_atomic_read_u32(&slot->state) != NM_STATE_FAILED) ||
		   slot->dead_root != 0;
	if (!lost)
	{
		load->load_count = ++slot->load_count;
		pg_atomic_write_u32(&slot->phase, NM_LOADING_COLLECT);
		pg_atomic_write_u64(&slot->load_blocks_total, 0);
		pg_atomic_write_u64(&slot->load_blocks_done, 0);
		pg_atomic_write_u64(&slot->load_tuples, 0);
		nm_slot_set_state(slot, NM_STATE_LOADING);
		load->outer = current_load;
		current_load = load;
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	if (lost)
	{
		/* dropped, evicted, or loaded by another member of the lock group */
		pfree(load);
		return;
	}

	PG_TRY();
	{
		NmSpool *spool;
		bool pushed = false;

		NM_STOP("load-published");

		cxt = AllocSetContextCreate(CurrentMemoryContext, "numa_btree load",
									ALLOCSET_DEFAULT_SIZES);
		MemoryContextSwitchTo(cxt);

		/* expressions and comparisons are the table owner's code */
		GetUserIdAndSecContext(&save_userid, &save_sec_context);
		SetUserIdAndSecContext(heap->rd_rel->relowner,
							   save_sec_context | SECURITY_RESTRICTED_OPERATION);
		guc_level = nm_restrict_search_path();
		if (!ActiveSnapshotSet())
		{
			PushActiveSnapshot(GetTransactionSnapshot());
			pushed = true;
		}

		nm_index_prepare_tree(idx, index);
		spool = nm_spool_begin(idx, heap, index, false, maintenance_work_mem);
		scan_heap(idx, heap, index, spool, own_tid);
		NM_STOP("load-scanned");
		(void) nm_spool_load(spool);
		nm_spool_end(spool);
		NM_STOP("load-built");
		flip(load, started);

		if (pushed)
			PopActiveSnapshot();
		AtEOXact_GUC(false, guc_level);
		SetUserIdAndSecContext(save_userid, save_sec_context);
	}
	PG_CATCH();
	{
		ErrorData *edata;

		MemoryContextSwitchTo(old);
		edata = CopyErrorData();
		switch (edata->sqlerrcode)
		{
				/* troubles of this session, not of the index */
			case ERRCODE_QUERY_CANCELED:
			case ERRCODE_ADMIN_SHUTDOWN:
			case ERRCODE_T_R_DEADLOCK_DETECTED:
			case ERRCODE_LOCK_NOT_AVAILABLE:
			case ERRCODE_T_R_SERIALIZATION_FAILURE:
				break;
			default:
				/* nothing to note if the tree is there already */
				if (current_load == load)
				{
					load->failed = true;
					load->sqlstate = edata->sqlerrcode;
					strlcpy(load->text, edata->message ? edata->message : "unknown error",
							sizeof(load->text));
				}
		}
		FreeErrorData(edata);
		PG_RE_THROW();
	}
	PG_END_TRY();

	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);

	NM_STOP("load-flipped");
	nm_send_inval(idx->heapoid);
	nm_send_inval(idx->indexoid);
}

/*
 * Alone, or with as many workers as a build of the index would get.  Alone
 * inside of parallel mode, where processes of the group may be waiting for this
 * load, and inside of another load, for which a worker might wait: neither wait
 * is one that the deadlock detector sees.
 */
static void
scan_heap(NmIndex *idx, Relation heap, Relation index, NmSpool *spool, ItemPointer own_tid)
{
	NmHeapShare share;
	NmHeapScan *scan;
	int nworkers = 0;

	nm_heapshare_init(&share, idx, heap, own_tid);
	scan = nm_heapscan_begin(&share, heap, index, spool);
	if (!IsInParallelMode() && current_load->outer == NULL && share.nblocks > 0)
		nworkers = plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index));
	if (nworkers == 0 || !nm_team_load(spool, scan, &share, nworkers))
		nm_heapscan_blocks(scan, &share, false);
	nm_heapscan_work_off(scan);
	nm_heapscan_end(scan);
}

/*
 * The tree holds what the heap scan found; bring in what was inserted
 * meanwhile and publish it.
 */
static void
flip(NmLoad *load, TimestampTz started)
{
	NmSlot *slot = load->slot;
	bool abandoned;
	TimestampTz now;

	/*
	 * From here on inserts go into the tree itself, so what the chains hold
	 * now is all there will be.
	 */
	nm_delta_lock_all(slot);
	nm_delta_take(slot, load->chain);
	abandoned = pg_atomic_read_u32(&slot->phase) == NM_LOADING_ABANDONED;
	if (!abandoned)
		pg_atomic_write_u32(&slot->phase, NM_LOADING_OPEN);
	nm_delta_unlock_all(slot);

	NM_STOP("load-open");
	if (!abandoned)
		nm_delta_drain(load);
	NM_STOP("load-drained");

	now = GetCurrentTimestamp();
	nm_delta_lock_all(slot);
	abandoned = pg_atomic_read_u32(&slot->phase) == NM_LOADING_ABANDONED;
	if (!abandoned)
	{
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
		slot->load_time = now;
		slot->load_ms = TimestampDifferenceMilliseconds(started, now);
		slot->fail_count = 0;
		slot->fail_sqlstate = 0;
		slot->fail_text[0] = '\0';
		slot->stay_out = false;
		slot->last_lid = Max(slot->last_lid, slot->tree.next_lid);
		nm_slot_set_state(slot, NM_STATE_LOADED);
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		/* from here on no error or abort undoes it */
		current_load = load->outer;
	}
	nm_delta_unlock_all(slot);

	if (abandoned)
		nm_report_no_memory(NM_POOL_LIMIT, 0);
	pfree(load);
	ConditionVariableBroadcast(&nm_registry->flip_cv);
}

/*
 * A (sub)transaction of this nest level aborts: settle its unfinished loads.
 * Never raises.
 */
void
nm_load_abort(int nest)
{
	while (current_load != NULL && current_load->nest >= nest)
	{
		NmLoad *load = current_load;
		NmSlot *slot = load->slot;
		NmPageNo chain[NM_DELTA_PARTITIONS] = {0};
		TimestampTz now = GetCurrentTimestamp();

		current_load = load->outer;

		nm_delta_lock_all(slot);
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
		if (slot->serial == load->serial && slot->load_count == load->load_count &&
			pg_atomic_read_u32(&slot->state) == NM_STATE_LOADING)
		{
			if (load->failed)
			{
				slot->fail_time = now;
				slot->fail_count++;
				slot->fail_sqlstate = load->sqlstate;
				strlcpy(slot->fail_text, load->text, sizeof(slot->fail_text));
			}
			nm_slot_set_state(slot, load->failed ? NM_STATE_FAILED : NM_STATE_NOT_LOADED);
			nm_delta_take(slot, chain);
			nm_slot_detach_tree(slot);
		}
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		nm_delta_unlock_all(slot);

		nm_delta_free(chain);
		nm_delta_free(load->chain);
		(void) nm_slot_reap(slot);
		ConditionVariableBroadcast(&nm_registry->flip_cv);
		pfree(load);
	}
}

void
nm_index_wait_flip(NmIndex *idx, Relation index)
{
	for (;;)
	{
		NmSlot *slot = idx->slot;

		CHECK_FOR_INTERRUPTS();
		pg_memory_barrier();
		if (slot->serial != idx->serial)
		{
			nm_slot_attach(idx, index, false);
			continue;
		}
		if (pg_atomic_read_u32(&slot->state) != NM_STATE_LOADING)
			return;
		if (nm_load_running_here(slot))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot vacuum index \"%s\" while this session loads it",
							RelationGetRelationName(index))));
		nm_lock_load(index);
		if (pg_atomic_read_u32(&slot->state) == NM_STATE_LOADING)
			wait_for_flip(slot);
		nm_unlock_load(index);
	}
}

/*
 * ---------------------------------------------------------------------
 * Inserts beside a tree that is not LOADED
 * ---------------------------------------------------------------------
 */

bool
nm_insert_wanted(NmIndex *idx, const NmItem *item, uint64 tid)
{
	for (;;)
	{
		NmSlot *slot = idx->slot;
		NmState state;

		/* the heap row was written before the state is read: see README */
		pg_memory_barrier();
		state = pg_atomic_read_u32(&slot->state);
		pg_read_barrier();
		if (slot->serial != idx->serial)
		{
			nm_slot_attach(idx, NULL, false);
			continue;
		}

		switch (state)
		{
			case NM_STATE_LOADED:
				return true;

			case NM_STATE_NOT_LOADED:
			case NM_STATE_FAILED:
				return false;

			case NM_STATE_LOADING:
				if (nm_delta_insert(idx, item, tid))
					return false;
				break;

			case NM_STATE_BUILDING:
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("cannot insert into a numa_btree index while it is built")));
				break;

			case NM_STATE_FREE:
			case NM_STATE_DROPPED:
				/* the serial is about to tell */
				break;
		}
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * ---------------------------------------------------------------------
 * Unloading
 * ---------------------------------------------------------------------
 */

bool
nm_index_unload(NmIndex *idx, Relation index)
{
	NmSlot *slot;
	bool had = false;
	TimestampTz give_up;

	if (idx->slot->serial != idx->serial)
		nm_slot_attach(idx, index, false);
	slot = idx->slot;
	if (nm_load_running_here(slot))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot unload index \"%s\" while this session loads it",
						RelationGetRelationName(index))));

	nm_lock_load(index);

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	if (slot->serial == idx->serial && slot->dead_root == 0 &&
		pg_atomic_read_u32(&slot->state) == NM_STATE_LOADED)
	{
		slot->unloading = true;
		slot->stay_out = true;
		nm_slot_set_state(slot, NM_STATE_NOT_LOADED);
		nm_slot_detach_tree(slot);
		had = true;
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	if (had)
	{
		/*
		 * Let those leave who are in the tree, then give the pages back and
		 * move predicate locks to the heap.  Interrupts are not served in
		 * between, so that the locks are moved whatever comes; sections are
		 * short, and what is left after a while is the sweep's.
		 */
		give_up = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), UNLOAD_WAIT_MS);
		HOLD_INTERRUPTS();
		NM_STOP("unload-detached");
		while (!nm_slot_reap(slot) && GetCurrentTimestamp() < give_up)
			pg_usleep(1000L);
		TransferPredicateLocksToHeapRelation(index);
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
		if (slot->serial == idx->serial)
			slot->unloading = false;
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		RESUME_INTERRUPTS();

		nm_send_inval(idx->heapoid);
		nm_send_inval(idx->indexoid);
	}

	nm_unlock_load(index);
	return had;
}

bool
nm_insert_when_full(NmIndex *idx, Relation index)
{
	NmPoolError why = idx->tree.pool_error;
	int err = idx->tree.pool_errno;

	if (nm_when_full != NM_WHEN_FULL_UNLOAD || idx->unique)
		nm_report_no_memory(why, err);

	/*
	 * Whoever unloads it: if it is loaded again by now, that load began after
	 * this insert's heap row was written, and found it.
	 */
	if (nm_index_unload(idx, index))
		ereport(LOG,
				(errmsg("numa_btree index \"%s\" was unloaded to let inserts go on",
						RelationGetRelationName(index)),
				 errdetail("%s.", nm_pool_error_text(why))));
	return true;
}

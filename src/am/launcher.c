/*-------------------------------------------------------------------------
 *
 * launcher.c
 *	  Eager loading: bring indexes into memory without being asked.
 *
 * The launcher stays in no database.  It reads the list of databases from the
 * shared catalog and has one scanner at a time, a short-lived dynamic worker,
 * look for indexes to load in each.  After that it acts on demand: a planner
 * that had to leave an index out names its database (nm_launcher_poke), and a
 * failed load is tried again when its time has come.  It stays because
 * postmaster forgets a worker that has ended well, and then nobody would load
 * after a crash restart.
 *
 * DROP DATABASE and its like must not find a scanner in their database: the
 * utility hook names the database in the caller's entry of the registry's list,
 * ends a scanner that is there, and the launcher leaves it alone until that
 * transaction is over.
 *
 * Both take SIGTERM through die() and answer every barrier.
 *
 * IDENTIFICATION
 *	  src/am/launcher.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "am/life.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_index.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#define LAUNCHER_NAP_MS	  60000
#define LAUNCHER_RETRY_MS 1000
#define POKE_INTERVAL_MS  1000
/* How often a scanner comes back to indexes whose load gave way to others. */
#define MAX_PASSES 10

typedef enum TryResult
{
	TRY_LOADED,
	TRY_NOTHING, /* nothing to do, or an error, which has been reported */
	TRY_LATER,	 /* somebody needs the table */
	TRY_LOCKED	 /* somebody has it, for who knows how long */
} TryResult;

PGDLLEXPORT void nm_launcher_main(Datum arg);
PGDLLEXPORT void nm_scanner_main(Datum arg);

static List *list_databases(MemoryContext cxt);
static bool database_blocked(Oid db);
static bool scan_database(Oid db, bool *no_worker);
static List *list_indexes(MemoryContext cxt);
static List *collect_wanted(List *todo, bool *all, bool *failed);
static TryResult load_one(Oid indexoid);
static bool want_index(Oid indexoid);

void
nm_loader_register_launcher(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, NM_EXTENSION, sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "nm_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "numa_migrate load launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "numa_migrate load launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/*
 * ---------------------------------------------------------------------
 * Called by others
 * ---------------------------------------------------------------------
 */

/* This database has something to load.  Under NM_LOCK_REGISTRY. */
static void
want_database(Oid db)
{
	int i = 0;

	while (i < nm_registry->nwanted && nm_registry->wanted[i] != db)
		i++;
	if (i < nm_registry->nwanted)
		return;
	if (nm_registry->nwanted < NM_MAX_WANTED)
		nm_registry->wanted[nm_registry->nwanted++] = db;
	else
		nm_registry->wanted_all = true;
}

/*
 * This database has something to load.  Called at every planning that misses
 * an index, so at most once a second gets through.
 */
void
nm_launcher_poke(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(nm_registry->last_poke, now, POKE_INTERVAL_MS))
		return;
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	nm_registry->last_poke = now;
	if (nm_registry->scanner_db != MyDatabaseId)
	{
		want_database(MyDatabaseId);
		if (nm_registry->launcher != NULL)
			SetLatch(&nm_registry->launcher->procLatch);
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

/*
 * Keep scanners out of a database until this transaction ends; returns when
 * none is there.
 */
void
nm_launcher_block_database(Oid db)
{
	for (;;)
	{
		bool busy;
		pid_t pid;

		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
		nm_blocked_dbs()[nm_my_slot()] = db;
		busy = nm_registry->scanner_db == db;
		pid = nm_registry->scanner_pid;
		/* it takes itself off under this lock before it exits */
		if (busy && pid != 0)
			(void) kill(pid, SIGTERM);
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));

		if (!busy)
			return;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 10L, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/* At the end of every transaction; never raises. */
void
nm_launcher_unblock(void)
{
	/* only this process writes its entry */
	if (MyProc == NULL || nm_blocked_dbs()[nm_my_slot()] == InvalidOid)
		return;
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	nm_blocked_dbs()[nm_my_slot()] = InvalidOid;
	if (nm_registry->launcher != NULL)
		SetLatch(&nm_registry->launcher->procLatch);
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

/* NM_LOCK_REGISTRY is held. */
static bool
database_blocked(Oid db)
{
	for (int i = 0; i < nm_registry->nprocs; i++)
	{
		if (nm_blocked_dbs()[i] == db)
			return true;
	}
	return false;
}

/*
 * ---------------------------------------------------------------------
 * Launcher
 * ---------------------------------------------------------------------
 */

static void
launcher_exit(int code, Datum arg)
{
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	if (nm_registry->launcher == MyProc)
		nm_registry->launcher = NULL;
	/* a scanner that has not started yet sees that it is not wanted */
	if (nm_registry->scanner_pid == 0)
		nm_registry->scanner_db = InvalidOid;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

/* Databases that can be connected to, in cxt. */
static List *
list_databases(MemoryContext cxt)
{
	List *dbs = NIL;
	Relation rel;
	TableScanDesc scan;
	HeapTuple tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext old;

		if (!db->datallowconn || database_is_invalid_form(db))
			continue;
		old = MemoryContextSwitchTo(cxt);
		dbs = lappend_oid(dbs, db->oid);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return dbs;
}

static bool
database_exists(Oid db)
{
	bool exists;

	StartTransactionCommand();
	exists = SearchSysCacheExists1(DATABASEOID, ObjectIdGetDatum(db));
	CommitTransactionCommand();
	return exists;
}

/*
 * Run a scanner in a database and wait until it has ended.  False if it has to
 * be tried again later: the database is blocked, or there is no worker slot.
 */
static bool
scan_database(Oid db, bool *no_worker)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;
	BgwHandleStatus status;
	bool blocked;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	blocked = database_blocked(db);
	if (!blocked)
	{
		nm_registry->scanner_db = db;
		nm_registry->scanner_pid = 0;
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	if (blocked)
		return false;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(db);
	worker.bgw_notify_pid = MyProcPid;
	strlcpy(worker.bgw_library_name, NM_EXTENSION, sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "nm_scanner_main", sizeof(worker.bgw_function_name));
	snprintf(worker.bgw_name, sizeof(worker.bgw_name), "numa_migrate loader for database %u", db);
	strlcpy(worker.bgw_type, "numa_migrate loader", sizeof(worker.bgw_type));

	*no_worker = !RegisterDynamicBackgroundWorker(&worker, &handle);
	if (!*no_worker)
	{
		status = WaitForBackgroundWorkerShutdown(handle);
		if (status == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		pfree(handle);
	}

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	nm_registry->scanner_db = InvalidOid;
	nm_registry->scanner_pid = 0;
	blocked = database_blocked(db);
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	return !*no_worker && !blocked;
}

/*
 * Add the databases that have work to the list.  *failed says whether some
 * failed load waits for its next attempt.
 */
static List *
collect_wanted(List *todo, bool *all, bool *failed)
{
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	for (int i = 0; i < nm_registry->nwanted; i++)
		todo = list_append_unique_oid(todo, nm_registry->wanted[i]);
	nm_registry->nwanted = 0;
	if (nm_registry->wanted_all)
		*all = true;
	nm_registry->wanted_all = false;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	*failed = false;
	for (int i = 0; i < nm_registry->nslots; i++)
	{
		NmSlot *slot = nm_slot_get(i);

		if (pg_atomic_read_u32(&slot->state) != NM_STATE_FAILED ||
			slot->key.backend != NM_INVALID_BACKEND)
			continue;
		*failed = true;
		if (!nm_load_backing_off(slot))
			todo = list_append_unique_oid(todo, slot->key.db);
	}
	return todo;
}

void
nm_launcher_main(Datum arg)
{
	MemoryContext cxt;
	List *todo = NIL;
	bool all = true;
	bool warned = false;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!nm_preloaded() || IsBinaryUpgrade)
		proc_exit(0);

	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	nm_require_preload("load indexes");
	before_shmem_exit(launcher_exit, (Datum) 0);
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	nm_registry->launcher = MyProc;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	cxt = AllocSetContextCreate(TopMemoryContext, "numa_migrate launcher",
								ALLOCSET_DEFAULT_SIZES);

	for (;;)
	{
		bool failed = false;
		bool no_worker = false;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		MemoryContextSwitchTo(cxt);
		if (nm_load != NM_LOAD_EAGER)
		{
			/* if it becomes eager, everything may be missing */
			list_free(todo);
			todo = NIL;
			all = true;
		}
		else
		{
			List *later = NIL;
			ListCell *lc;

			todo = collect_wanted(todo, &all, &failed);
			if (all)
			{
				list_free(todo);
				todo = list_databases(cxt);
				MemoryContextSwitchTo(cxt);
				all = false;
			}
			if (todo != NIL)
				pgstat_report_activity(STATE_RUNNING, "loading numa_btree indexes");
			foreach (lc, todo)
			{
				CHECK_FOR_INTERRUPTS();
				if (!no_worker && !database_exists(lfirst_oid(lc)))
					continue;
				MemoryContextSwitchTo(cxt);
				if (no_worker || !scan_database(lfirst_oid(lc), &no_worker))
					later = lappend_oid(later, lfirst_oid(lc));
			}
			list_free(todo);
			todo = later;
			pgstat_report_activity(STATE_IDLE, NULL);

			if (no_worker && !warned)
				ereport(WARNING,
						(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						 errmsg("no background worker is free to load numa_btree indexes"),
						 errdetail("Indexes that are not in memory are not used until one is."),
						 errhint("Raise max_worker_processes, or load indexes with numa.btree_load().")));
			warned = no_worker;
		}

		/* the migrator does this too, but it may not have got a worker slot */
		nm_registry_sweep(true);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 todo != NIL || failed ? LAUNCHER_RETRY_MS : LAUNCHER_NAP_MS,
						 PG_WAIT_EXTENSION);
	}
}

/*
 * ---------------------------------------------------------------------
 * Scanner: one database
 * ---------------------------------------------------------------------
 */

/*
 * Off the list before the process leaves the database, so that whoever waits
 * for that does not signal a process that is not ours any more.  The launcher
 * clears scanner_db once the process is gone.
 */
static void
scanner_exit(int code, Datum arg)
{
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	if (nm_registry->scanner_pid == MyProcPid)
	{
		nm_registry->scanner_pid = 0;
		if (nm_registry->launcher == NULL)
			nm_registry->scanner_db = InvalidOid;
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

/* Valid indexes of ours in this database, temporary ones excepted. */
static pg_noinline List *
list_indexes(MemoryContext cxt)
{
	List *indexes = NIL;
	Oid am;
	Relation rel;
	SysScanDesc scan;
	HeapTuple tuple;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	am = nm_am_oid();
	if (OidIsValid(am))
	{
		rel = table_open(RelationRelationId, AccessShareLock);
		scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
		while ((tuple = systable_getnext(scan)) != NULL)
		{
			Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);
			MemoryContext old;

			if (form->relkind != RELKIND_INDEX || form->relam != am ||
				form->relpersistence == RELPERSISTENCE_TEMP)
				continue;
			old = MemoryContextSwitchTo(cxt);
			indexes = lappend_oid(indexes, form->oid);
			MemoryContextSwitchTo(old);
		}
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return indexes;
}

/* Is it valid, and is there a point in trying? No lock is held. */
static bool
want_index(Oid indexoid)
{
	HeapTuple tuple = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexoid));
	Form_pg_index form;
	bool want;
	NmSlot *slot;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_index) GETSTRUCT(tuple);
	want = form->indisvalid && form->indislive;
	ReleaseSysCache(tuple);

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
	for (slot = nm_slot_first_by_oid(MyDatabaseId, indexoid); want && slot != NULL;
		 slot = nm_slot_next_by_oid(slot))
	{
		if (pg_atomic_read_u32(&slot->state) == NM_STATE_BUILDING ||
			slot->pending_drop || slot->stay_out || nm_load_backing_off(slot))
			want = false;
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	return want;
}

/*
 * In a transaction of its own.  Locks are not waited for: all other indexes, of
 * other databases too, would wait with this one.
 */
static TryResult
load_one(Oid indexoid)
{
	Oid heapoid;
	Relation heap = NULL;
	Relation index;
	bool loaded = false;
	bool locked = false;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());

	heapoid = want_index(indexoid) ? IndexGetRelation(indexoid, true) : InvalidOid;
	if (OidIsValid(heapoid))
	{
		locked = !ConditionalLockRelationOid(heapoid, AccessShareLock) ||
				 !ConditionalLockRelationOid(indexoid, AccessShareLock);
		if (!locked)
			heap = try_relation_open(heapoid, NoLock);
	}
	if (heap != NULL)
	{
		index = try_relation_open(indexoid, NoLock);
		if (index != NULL)
		{
			if (nm_is_numa_btree(index) && index->rd_index->indisvalid &&
				index->rd_index->indrelid == heapoid)
			{
				NmIndex *idx = nm_index_open(index);

				(void) nm_index_load_forced(idx, index, heap, &loaded);
			}
			relation_close(index, NoLock);
		}
		relation_close(heap, NoLock);
	}

	PopActiveSnapshot();
	CommitTransactionCommand();
	if (locked)
		return TRY_LOCKED;
	return loaded ? TRY_LOADED : TRY_NOTHING;
}

/* Load one index; errors end here.  Leaves the process in context cxt. */
static TryResult
try_to_load(Oid index, MemoryContext cxt)
{
	volatile TryResult result = TRY_NOTHING;

	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		result = load_one(index);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(cxt);
		/* the slot remembers why; the next index may do better */
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			result = TRY_LATER;
		else
			EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	return result;
}

void
nm_scanner_main(Datum arg)
{
	Oid db = DatumGetObjectId(arg);
	MemoryContext cxt;
	List *todo;
	bool mine;
	bool left = false;
	int nloaded = 0;

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	if (!nm_preloaded())
		proc_exit(0);

	/* from here on who wants the database for itself can end this process */
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	mine = nm_registry->scanner_db == db && !database_blocked(db);
	if (mine)
		nm_registry->scanner_pid = MyProcPid;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	if (!mine)
		proc_exit(0);
	before_shmem_exit(scanner_exit, (Datum) 0);

	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);
	nm_require_preload("load indexes");

	cxt = AllocSetContextCreate(TopMemoryContext, "numa_migrate loader",
								ALLOCSET_DEFAULT_SIZES);
	nm_heapscan_yields = true;
	todo = list_indexes(cxt);
	for (int pass = 0; todo != NIL && pass < MAX_PASSES; pass++)
	{
		List *later = NIL;
		ListCell *lc;

		foreach (lc, todo)
		{
			CHECK_FOR_INTERRUPTS();
			switch (try_to_load(lfirst_oid(lc), cxt))
			{
				case TRY_LOADED:
					nloaded++;
					break;
				case TRY_LATER:
					later = lappend_oid(later, lfirst_oid(lc));
					break;
				case TRY_LOCKED:
					left = true;
					break;
				case TRY_NOTHING:
					break;
			}
			pgstat_report_activity(STATE_IDLE, NULL);
		}
		todo = later;
	}

	/* the rest when the launcher looks next, or when a query asks for it */
	if (left || todo != NIL)
	{
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
		want_database(db);
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	}
	if (nloaded > 0)
		ereport(LOG,
				(errmsg_plural("loaded %d numa_btree index of database %u",
							   "loaded %d numa_btree indexes of database %u",
							   nloaded, nloaded, db)));
	proc_exit(0);
}

/*-------------------------------------------------------------------------
 *
 * team.c
 *	  Scan and sort of a build or load by several processes.
 *
 * Each participant, the leader among them, scans its share of the heap into a
 * spool of its own and sorts it.  Workers write all they have as runs into
 * files that the leader can open, and end; the leader takes those runs over as
 * if it had written them, and merges them into the tree alone.  So the tree, the
 * pool and the registry are the leader's business as in a serial build: a
 * worker touches none of them.
 *
 * The files belong to a segment of shared memory of their own, which the leader
 * keeps for the merge, after the workers' segment is gone and parallel mode is
 * over.  They are deleted when the last process has detached it, at any error
 * too.
 *
 * Work memory is shared out among the participants.  Core does not start more
 * workers than find 32 MB each, unless the table has a parallel_workers option.
 *
 * README.md, "Several processes", argues why nothing is lost or differs.
 *
 * IDENTIFICATION
 *	  src/am/team.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/team.h"

#include "access/parallel.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/dsm.h"
#include "storage/sharedfileset.h"
#include "storage/spin.h"
#include "tcop/tcopprot.h"
#include "utils/backend_status.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#if PG_VERSION_NUM >= 190000
#define beginscan_parallel(heap, pscan) table_beginscan_parallel(heap, pscan, SO_NONE)
#else
#define beginscan_parallel(heap, pscan) table_beginscan_parallel(heap, pscan)
#endif

/* Keys of the workers' segment; small numbers are ours. */
#define KEY_SHARED		 UINT64CONST(1)
#define KEY_QUERY_TEXT	 UINT64CONST(2)
#define KEY_WAL_USAGE	 UINT64CONST(3)
#define KEY_BUFFER_USAGE UINT64CONST(4)

typedef struct NmTeamShared
{
	Oid heapoid;
	Oid indexoid;
	bool load; /* else a build */
	bool concurrent;
	int workmem;	  /* kB, of each participant */
	dsm_handle files; /* segment that starts with the SharedFileSet */
#if PG_VERSION_NUM >= 180000
	int64 query_id;
#else
	uint64 query_id;
#endif
	NmHeapShare share; /* load */

	slock_t mutex;		   /* of what follows */
	double rows;		   /* build: heap rows seen */
	bool broken_hot_chain; /* build */
	int nworkers;		   /* places in results */
	struct
	{
		int nruns;
		int64 nadded;
		int ndeferred; /* load */
	} results[FLEXIBLE_ARRAY_MEMBER];
	/* build: a ParallelTableScanDesc follows */
} NmTeamShared;

/* The leader's, while parallel mode lasts. */
typedef struct NmTeam
{
	NmSpool *spool;
	ParallelContext *pcxt;
	NmTeamShared *shared;
	Snapshot snapshot; /* of core's build scan */
	dsm_segment *files;
	WalUsage *wal_usage;
	BufferUsage *buffer_usage;
} NmTeam;

Oid nm_team_index = InvalidOid;

static NmTeam *team_begin(NmSpool *spool, int nworkers, const NmHeapShare *share, bool concurrent);
static void team_end(NmTeam *team);
static void build_part(NmTeamShared *shared, Relation heap, Relation index, IndexInfo *info,
					   NmSpool *spool, bool progress);

static inline Size
shared_size(int nworkers)
{
	return BUFFERALIGN(add_size(offsetof(NmTeamShared, results),
								mul_size(nworkers, sizeof(((NmTeamShared *) 0)->results[0]))));
}

static inline ParallelTableScanDesc
table_scan_of(NmTeamShared *shared)
{
	return (ParallelTableScanDesc) ((char *) shared + shared_size(shared->nworkers));
}

static void
deferred_name(char *name, int worker)
{
	snprintf(name, NM_RUN_NAME, "deferred.%d", worker);
}

/*
 * Start workers.  NULL if there are none, with everything as it was before.
 * share: of a load, else NULL.
 */
static NmTeam *
team_begin(NmSpool *spool, int nworkers, const NmHeapShare *share, bool concurrent)
{
	NmTeam *team = palloc0(sizeof(NmTeam));
	bool load = share != NULL;
	int querylen = debug_query_string ? strlen(debug_query_string) : 0;
	ParallelContext *pcxt;
	NmTeamShared *shared;
	Size size;

	team->spool = spool;
	team->files = dsm_create(sizeof(SharedFileSet), DSM_CREATE_NULL_IF_MAXSEGMENTS);
	if (team->files == NULL)
	{
		pfree(team);
		return NULL;
	}
	SharedFileSetInit((SharedFileSet *) dsm_segment_address(team->files), team->files);

	EnterParallelMode();
	team->pcxt = pcxt = CreateParallelContext(NM_EXTENSION, "nm_team_main", nworkers);
	team->snapshot = concurrent ? RegisterSnapshot(GetTransactionSnapshot()) : SnapshotAny;

	size = shared_size(nworkers);
	if (!load)
		size = add_size(size, table_parallelscan_estimate(spool->heap, team->snapshot));
	shm_toc_estimate_chunk(&pcxt->estimator, size);
	shm_toc_estimate_chunk(&pcxt->estimator, mul_size(sizeof(WalUsage), nworkers));
	shm_toc_estimate_chunk(&pcxt->estimator, mul_size(sizeof(BufferUsage), nworkers));
	shm_toc_estimate_keys(&pcxt->estimator, 3);
	if (debug_query_string)
	{
		shm_toc_estimate_chunk(&pcxt->estimator, querylen + 1);
		shm_toc_estimate_keys(&pcxt->estimator, 1);
	}
	InitializeParallelDSM(pcxt);
	if (pcxt->seg == NULL)
	{
		team_end(team);
		return NULL;
	}

	team->shared = shared = shm_toc_allocate(pcxt->toc, size);
	memset(shared, 0, shared_size(nworkers));
	shared->heapoid = RelationGetRelid(spool->heap);
	shared->indexoid = RelationGetRelid(spool->index);
	shared->load = load;
	shared->concurrent = concurrent;
	shared->files = dsm_segment_handle(team->files);
	shared->query_id = pgstat_get_my_query_id();
	shared->workmem = Max(64, maintenance_work_mem / (nworkers + 1));
	shared->nworkers = nworkers;
	SpinLockInit(&shared->mutex);
	if (load)
		nm_heapshare_copy(&shared->share, share);
	else
		table_parallelscan_initialize(spool->heap, table_scan_of(shared), team->snapshot);
	shm_toc_insert(pcxt->toc, KEY_SHARED, shared);

	team->wal_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(WalUsage), nworkers));
	shm_toc_insert(pcxt->toc, KEY_WAL_USAGE, team->wal_usage);
	team->buffer_usage = shm_toc_allocate(pcxt->toc, mul_size(sizeof(BufferUsage), nworkers));
	shm_toc_insert(pcxt->toc, KEY_BUFFER_USAGE, team->buffer_usage);
	if (debug_query_string)
	{
		char *query = shm_toc_allocate(pcxt->toc, querylen + 1);

		memcpy(query, debug_query_string, querylen + 1);
		shm_toc_insert(pcxt->toc, KEY_QUERY_TEXT, query);
	}

	LaunchParallelWorkers(pcxt);
	if (pcxt->nworkers_launched == 0)
	{
		team_end(team);
		return NULL;
	}

	ereport(DEBUG1,
			(errmsg_internal("%s numa_btree index \"%s\" with %d parallel workers",
							 load ? "loading" : "building",
							 RelationGetRelationName(spool->index), pcxt->nworkers_launched)));
	/* the leader may take what workers that did not start would have got */
	nm_spool_set_workmem(spool, Max(64, maintenance_work_mem / (pcxt->nworkers_launched + 1)));
	return team;
}

/* The rows that a worker put off: the leader's now. */
static void
take_deferred(NmTeam *team, NmHeapScan *scan, int worker)
{
	SharedFileSet *files = (SharedFileSet *) dsm_segment_address(team->files);
	char name[NM_RUN_NAME];
	BufFile *file;

	if (team->shared->results[worker].ndeferred == 0)
		return;
	deferred_name(name, worker);
	file = BufFileOpenFileSet(&files->fs, name, O_RDONLY, false);
	for (int i = 0; i < team->shared->results[worker].ndeferred; i++)
	{
		NmDeferred row;

		nm_run_read(file, &row, sizeof(row));
		nm_heapscan_put_off(scan, &row);
	}
	BufFileClose(file);
}

/*
 * The leader has done its part: wait for the workers and take over what they
 * have.  The spool holds on to the files.
 */
static void
team_collect(NmTeam *team, NmHeapScan *scan)
{
	NmSpool *spool = team->spool;

	WaitForParallelWorkersToFinish(team->pcxt);
	for (int i = 0; i < team->pcxt->nworkers_launched; i++)
	{
		InstrAccumParallelQuery(&team->buffer_usage[i], &team->wal_usage[i]);
		nm_runs_adopt(spool, (SharedFileSet *) dsm_segment_address(team->files), i,
					  team->shared->results[i].nruns);
		spool->nadded += team->shared->results[i].nadded;
		if (scan)
			take_deferred(team, scan, i);
	}
	spool->files = team->files;
	team->files = NULL;
	nm_spool_set_workmem(spool, maintenance_work_mem);
}

/* Also where nothing has been started. */
static void
team_end(NmTeam *team)
{
	if (IsMVCCSnapshot(team->snapshot))
		UnregisterSnapshot(team->snapshot);
	DestroyParallelContext(team->pcxt);
	ExitParallelMode();
	if (team->files)
		dsm_detach(team->files);
	pfree(team);
}

/* A participant's part of core's build scan. */
static void
build_part(NmTeamShared *shared, Relation heap, Relation index, IndexInfo *info,
		   NmSpool *spool, bool progress)
{
	TableScanDesc scan = beginscan_parallel(heap, table_scan_of(shared));
	double rows;

	/* this ends the scan */
	rows = table_index_build_scan(heap, index, info, true, progress,
								  nm_build_callback, spool, scan);
	SpinLockAcquire(&shared->mutex);
	shared->rows += rows;
	if (info->ii_BrokenHotChain)
		shared->broken_hot_chain = true;
	SpinLockRelease(&shared->mutex);
}

bool
nm_team_build(NmSpool *spool, IndexInfo *info, int nworkers, double *rows)
{
	NmTeam *team = team_begin(spool, nworkers, NULL, info->ii_Concurrent);

	if (team == NULL)
		return false;
	build_part(team->shared, spool->heap, spool->index, info, spool, true);
	team_collect(team, NULL);
	*rows = team->shared->rows;
	/* whoever met one: core then keeps the index from old snapshots */
	if (team->shared->broken_hot_chain)
		info->ii_BrokenHotChain = true;
	team_end(team);
	return true;
}

bool
nm_team_load(NmSpool *spool, NmHeapScan *scan, const NmHeapShare *share, int nworkers)
{
	NmTeam *team = team_begin(spool, nworkers, share, false);

	if (team == NULL)
		return false;
	nm_heapscan_blocks(scan, &team->shared->share, true);
	team_collect(team, scan);
	team_end(team);
	return true;
}

/* A worker's part of a load. */
static void
load_part(NmTeamShared *shared, Relation heap, Relation index, NmSpool *spool, SharedFileSet *files)
{
	NmHeapScan *scan = nm_heapscan_begin(&shared->share, heap, index, spool);
	const NmDeferred *deferred;
	int n;

	nm_heapscan_blocks(scan, &shared->share, true);
	deferred = nm_heapscan_deferred(scan, &n);
	if (n > 0)
	{
		char name[NM_RUN_NAME];
		BufFile *file;

		deferred_name(name, ParallelWorkerNumber);
		file = BufFileCreateFileSet(&files->fs, name);
		nm_run_append(file, deferred, n * sizeof(NmDeferred));
		BufFileExportFileSet(file);
		BufFileClose(file);
		shared->results[ParallelWorkerNumber].ndeferred = n;
	}
	nm_heapscan_end(scan);
}

/* Where a worker begins.  It has the leader's snapshots, user and settings. */
void
nm_team_main(dsm_segment *seg, shm_toc *toc)
{
	NmTeamShared *shared = shm_toc_lookup(toc, KEY_SHARED, false);
	WalUsage *wal_usage = shm_toc_lookup(toc, KEY_WAL_USAGE, false);
	BufferUsage *buffer_usage = shm_toc_lookup(toc, KEY_BUFFER_USAGE, false);
	LOCKMODE heap_lock = AccessShareLock;
	LOCKMODE index_lock = AccessShareLock;
	dsm_segment *file_seg;
	SharedFileSet *files;
	Relation heap;
	Relation index;
	NmSpool *spool;

	debug_query_string = shm_toc_lookup(toc, KEY_QUERY_TEXT, true);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
	pgstat_report_query_id(shared->query_id, false);

	/* the locks that the leader has */
	if (!shared->load)
	{
		heap_lock = shared->concurrent ? ShareUpdateExclusiveLock : ShareLock;
		index_lock = shared->concurrent ? RowExclusiveLock : AccessExclusiveLock;
	}
	heap = table_open(shared->heapoid, heap_lock);
	index = index_open(shared->indexoid, index_lock);

	file_seg = dsm_attach(shared->files);
	if (file_seg == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("could not map dynamic shared memory segment")));
	files = (SharedFileSet *) dsm_segment_address(file_seg);
	SharedFileSetAttach(files, file_seg);

	/* a worker is for one team and then gone: it needs no cleaning up */
	nm_team_index = shared->indexoid;
	InstrStartParallelQuery();
	/* only the keys' description is used: a worker has no tree, and no slot */
	spool = nm_spool_begin(nm_index_local(index, 0), heap, index, false, shared->workmem);
	nm_spool_share(spool, files, ParallelWorkerNumber);
	if (shared->load)
		load_part(shared, heap, index, spool, files);
	else
	{
		IndexInfo *info = BuildIndexInfo(index);

		info->ii_Concurrent = shared->concurrent;
		build_part(shared, heap, index, info, spool, false);
	}
	nm_spool_flush(spool);
	shared->results[ParallelWorkerNumber].nruns = spool->nruns;
	shared->results[ParallelWorkerNumber].nadded = spool->nadded;
	nm_spool_end(spool);
	dsm_detach(file_seg);
	InstrEndParallelQuery(&buffer_usage[ParallelWorkerNumber], &wal_usage[ParallelWorkerNumber]);

	index_close(index, index_lock);
	table_close(heap, heap_lock);
}

/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The background worker: drain, decide, move, account.
 *
 * It has no database connection, so nothing it does can block DROP DATABASE
 * or the like, and there is nothing it could lock.  Every loop here serves
 * interrupts; no LWLock is held across a move.  An error is logged, counted
 * and the loop goes on, after a pause that doubles while errors keep coming.
 *
 * IDENTIFICATION
 *	  src/migrator/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#endif

#include <math.h>

PGDLLEXPORT void nm_migrator_main(Datum arg);

/* Samples taken from the rings at a time. */
#define DRAIN_SAMPLES 4096
/* With a ring more than half full the next drain comes earlier, down to this. */
#define DRAIN_MIN_MS  50
#define MAX_PROPOSALS 256
/* A round moves at most this much before samples are looked at again. */
#define ROUND_BYTES (64 * 1024 * 1024)
/* Room that a target must keep for others. */
#define HEADROOM_SHARE		(1.0 / 64)
#define SWEEP_FILES_SECONDS 30 /* between looks for dropped index files */
#define ALLOWED_SECONDS		10 /* between looks at cpuset changes */
#define LEARN_SECONDS		5  /* between looks for new trees */
#define LEARN_SOON_SECONDS	1  /* ... when pages of no known tree are in use */
#define LEARN_SPARE			20 /* ... but at most this share of the time */
#define ERROR_PAUSE_MS		1000
#define ERROR_PAUSE_MAX_MS	60000

/* Places that the sketch can hold: all of shared buffers, within these. */
#define SKETCH_PLACES_MIN 4096
#define SKETCH_PLACES_MAX (256 * 1024)

static MemoryContext round_cxt;
static NmSketch sketch;
static NmPolicyParams params;
static NmWorkerCounters delta;
static double last_decay = 0;
static double last_sweep = 0;
static double last_allowed = -ALLOWED_SECONDS;
static double last_learn = -LEARN_SECONDS;
static double last_tokens = 0;
static int64 tokens = 0;	  /* bytes that may be moved now */
static bool unowned = false;  /* samples from a chunk of no known tree */
static double learn_took = 0; /* seconds */

static double
seconds_now(void)
{
	return nm_now_ns() / 1e9;
}

void
nm_migrator_register_worker(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 1;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, NM_EXTENSION);
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "nm_migrator_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "numa_migrate migrator");
	snprintf(worker.bgw_type, BGW_MAXLEN, "numa_migrate migrator");
	RegisterBackgroundWorker(&worker);
}

static void
on_exit_worker(int code, Datum arg)
{
	if (nm_migrator && nm_migrator->pid == MyProcPid)
		nm_stat_worker_state(NM_WORKER_NONE, 0);
}

/*
 * Move all waiting samples into sketch and counters.  Returns true if some
 * ring was more than half full, that is, if we came late.
 */
static bool
drain(void)
{
	NmRingSample *raw = palloc(DRAIN_SAMPLES * sizeof(NmRingSample));
	NmResolved *resolved = palloc(DRAIN_SAMPLES * sizeof(NmResolved));
	bool late = false;
	int slot = 0;
	uint64 evicted = sketch.evictions;

	while (slot < nm_migrator->nrings)
	{
		int n = 0;
		int m;

		while (slot < nm_migrator->nrings && n + NM_RING_SIZE <= DRAIN_SAMPLES)
		{
			uint32 lost;
			int got = nm_ring_drain(nm_ring(slot), raw + n, NM_RING_SIZE, &lost);

			late |= got > NM_RING_SIZE / 2;
			delta.dropped += lost;
			n += got;
			slot++;
		}
		if (n == 0)
			continue;
		/* unknown until found out, also if an error comes between */
		delta.samples += n;
		delta.unknown += n;
		m = nm_locate_samples(raw, n, resolved);
		delta.unknown -= m;
		nm_stat_access(resolved, m);
		for (int i = 0; i < m; i++)
		{
			NmResolved *r = &resolved[i];

			if (r->at < 0)
				delta.unknown++;
			else if (r->at == r->from)
				delta.local++;
			else
				delta.remote++;
			if (r->place.kind == NM_PLACE_NONE)
				continue;
			unowned |= r->place.kind == NM_PLACE_CHUNK && r->place.rel == 0;
			nm_sketch_add(&sketch, &r->place, r->from, r->at, r->weight);
			if (r->place.rel != 0)
			{
				NmPlaceKey group = nm_place_group(&r->place);

				nm_sketch_add(&sketch, &group, r->from, r->at, r->weight);
			}
		}
		CHECK_FOR_INTERRUPTS();
	}
	delta.forgotten += sketch.evictions - evicted;
	pfree(raw);
	pfree(resolved);
	return late;
}

static void
decay(double now)
{
	if (last_decay > 0 && now > last_decay)
		nm_sketch_decay(&sketch, (float) exp2(-(now - last_decay) / params.half_life));
	last_decay = now;
}

/*
 * Bytes a node can take: free memory and the half of the file cache that the
 * kernel gives up first.  (On a busy database server nearly all memory is file
 * cache, so MemFree alone would forbid every move.)
 */
static double
available_bytes(int node)
{
	char path[MAXPGPATH];
	char line[256];
	double bytes = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	f = AllocateFile(path, "r");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f))
	{
		unsigned long kb;

		if (sscanf(line, "Node %*d MemFree: %lu kB", &kb) == 1 ||
			sscanf(line, "Node %*d Inactive(file): %lu kB", &kb) == 1)
			bytes += (double) kb * 1024;
	}
	FreeFile(f);
	return bytes;
}

/* A cpuset may change while we run: take over what is allowed now. */
static void
refresh_allowed(double now)
{
	NmTopology *fresh;
	char err[256];

	if (now - last_allowed < ALLOWED_SECONDS)
		return;
	last_allowed = now;
	fresh = palloc(sizeof(NmTopology));
	if (nm_topology_read(fresh, "", err, sizeof(err)))
	{
		for (int i = 0; i < nm_topology.nnodes; i++)
		{
			int j = nm_topology_index(fresh, nm_topology.nodes[i].id);

			nm_topology.nodes[i].allowed = j >= 0 && fresh->nodes[j].allowed;
		}
	}
	pfree(fresh);
}

static void
prepare_params(double now)
{
	uint64_t listed[16] = {0};
	bool all = nm_nodes == NULL || nm_nodes[0] == '\0' ||
			   !nm_parse_node_list(nm_nodes, listed, 1024);
	size_t page_size = nm_buffers_page_size(NULL);

	params.now = now;
	for (int i = 0; i < params.nnodes; i++)
	{
		const NmNode *node = &nm_topology.nodes[i];
		bool in_list = all || (node->id < 1024 && (listed[node->id / 64] >> (node->id % 64) & 1));

		params.target_ok[i] = node->allowed && in_list && !nm_bufmove_node_full(i, now);
		params.headroom[i] = 0;
		if (params.target_ok[i])
			params.headroom[i] = Max(available_bytes(node->id) - HEADROOM_SHARE * node->total_bytes, 0);
	}
	params.bytes[NM_PLACE_RANGE] = NM_RANGE_BYTES;
	params.bytes[NM_PLACE_CHUNK] = NM_CHUNK_SIZE;
	params.bytes[NM_PLACE_OSPAGE] = page_size;

	/*
	 * 22 extra cache-missing accesses pay for one 4 KiB page moved by the
	 * kernel.  A relocation copies only and interrupts nobody: half.  A huge
	 * page has one set of page tables and one shootdown: a quarter.
	 */
	params.cost[NM_PLACE_RANGE] = 22.0 * NM_RANGE_BYTES / 4096;
	params.cost[NM_PLACE_CHUNK] = 11.0 * NM_CHUNK_PAGES;
	params.cost[NM_PLACE_OSPAGE] = 5.5 * page_size / 4096;
}

/* Refill the budget: rate_limit MB/s, saved up for at most one second. */
static void
refill(double now)
{
	int64 rate = (int64) nm_rate_limit * 1024 * 1024;

	if (nm_rate_limit == 0)
		tokens = PG_INT64_MAX / 4;
	else
	{
		if (last_tokens > 0)
			tokens += (int64) (rate * Min(now - last_tokens, 1.0));
		tokens = Min(tokens, rate);
	}
	last_tokens = now;
}

/*
 * One round of decisions and moves.  Returns true if work is left.  A round
 * lasts at most about a second, so that samples and settings are looked at
 * even without a rate limit.
 */
static bool
decide_and_move(double now)
{
	NmProposal *proposals = palloc(MAX_PROPOSALS * sizeof(NmProposal));
	double stop = now + 1.0;
	bool more = false;
	bool buffers;
	int64 budget;
	int64 given;
	NmTuner *tuner = nm_bufmove_tuner();
	int n;

	refresh_allowed(now);
	prepare_params(now);
	refill(now);
	if (nm_policy == NM_POLICY_BALANCE)
		n = nm_policy_balance(&sketch, &params, proposals, MAX_PROPOSALS);
	else
		n = nm_policy_affinity(&sketch, &params, proposals, MAX_PROPOSALS);

	tuner->over = false;
	given = budget = Min(tokens, (int64) ROUND_BYTES);

	/* Trees first: they are small, cheap to move and used by every lookup. */
	if (!nm_treemove_active())
		nm_treemove_plan(proposals, n, &sketch, &params);
	if (nm_treemove_active())
	{
		nm_stat_worker_state(NM_WORKER_MOVING, MyProcPid);
		more |= nm_treemove_step(&budget, &sketch, &params, &delta.moves);
	}

	buffers = nm_bufmove_possible(now);
	for (int i = 0; i < n && buffers; i++)
	{
		if (proposals[i].key.kind == NM_PLACE_CHUNK ||
			nm_bufmove_node_full(proposals[i].to, now))
			continue;
		if (budget <= 0 || tuner->over || seconds_now() > stop)
		{
			more = true;
			break;
		}
		nm_stat_worker_state(NM_WORKER_MOVING, MyProcPid);
		if (nm_bufmove_place(&proposals[i].key, proposals[i].to, &sketch, &params, &budget))
			delta.moves++;
		buffers = nm_bufmove_possible(now);
	}
	if (!more && buffers && nm_policy == NM_POLICY_AFFINITY)
		more |= nm_bufmove_follow(&sketch, &params, &budget);
	tokens -= given - budget;
	pfree(proposals);
	return more;
}

/*
 * After an error: give back what it may have left held, as AbortTransaction
 * would, count it and go on.
 */
static void
recover(void)
{
	ErrorData *err;

	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(round_cxt);
	err = CopyErrorData();
	EmitErrorReport();
	FlushErrorState();

	LWLockReleaseAll();
	ConditionVariableCancelSleep();
	pgstat_report_wait_end();
	if (nm_pool)
		nm_epoch_reset(nm_pool);
	nm_treemove_abort();
	nm_bufmove_abort();
	AtEOXact_Files(false);
	AtEOXact_HashTables(false);
	nm_stat_error(err->message ? err->message : "unknown error");
	RESUME_INTERRUPTS();
}

static void
start_up(void)
{
	uint32 places = (uint32) Min((uint64) nm_buffer_count() * BLCKSZ / NM_RANGE_BYTES, SKETCH_PLACES_MAX);
	Size size;

	/* Room for the trees' chunks too, at least as many as for buffers. */
	places = Min(Max(places * 2, SKETCH_PLACES_MIN), SKETCH_PLACES_MAX);
	size = nm_sketch_size(places, nm_migrator->nnodes);
	nm_sketch_init(&sketch, MemoryContextAllocExtended(TopMemoryContext, size, MCXT_ALLOC_HUGE),
				   places, nm_migrator->nnodes);
	nm_policy_defaults(&params, nm_migrator->nnodes);
	round_cxt = AllocSetContextCreate(TopMemoryContext, "numa_migrate round", ALLOCSET_DEFAULT_SIZES);
	if (nm_pool)
		nm_require_preload("run the migrator"); /* attaches */
	nm_locate_init();
	nm_bufmove_init();
	nm_treemove_init();
}

static bool drained_late;
static bool work_left;

static void
phase_samples(void)
{
	double now = seconds_now();

	drained_late = drain();
	decay(now);
}

/* balance and affinity move; everything else only watches. */
static bool
policy_moves(void)
{
	return nm_policy == NM_POLICY_AFFINITY || nm_policy == NM_POLICY_BALANCE;
}

static void
phase_moves(void)
{
	double now = seconds_now();

	/* Also while only watching: samples are counted by tree. */
	if (now - last_learn >= Max(unowned ? LEARN_SOON_SECONDS : LEARN_SECONDS,
								LEARN_SPARE * learn_took))
	{
		last_learn = now;
		nm_treemove_learn(unowned);
		unowned = false;
		learn_took = seconds_now() - now;
	}
	if (policy_moves())
		work_left = decide_and_move(now);
	else
	{
		nm_treemove_abort();
		nm_bufmove_abort();
		last_tokens = 0;
	}
}

static void
phase_publish(void)
{
	delta.rounds = 1;
	delta.drifted = nm_locate_drifted();
	nm_stat_publish(&delta);
	memset(&delta, 0, sizeof(delta));
	nm_stat_worker_state(!policy_moves() ? NM_WORKER_WATCHING : work_left ? NM_WORKER_MOVING
																		  : NM_WORKER_IDLE,
						 MyProcPid);
}

/* Work that has nothing to do with the policy. */
static void
phase_housekeeping(void)
{
	double now = seconds_now();
	bool files = now - last_sweep >= SWEEP_FILES_SECONDS;

	if (nm_pool == NULL)
		return;
	nm_pool_set_limit(nm_pool, nm_memory_limit < 0 ? (uint64) nm_pool->arena_bytes : (uint64) nm_memory_limit * 1024 * 1024);
	if (files)
		last_sweep = now;
	nm_registry_sweep(files);
	(void) nm_pool_reclaim(nm_pool);
}

/* Run one phase; an error in it doesn't keep the others from running. */
static bool
survives(void (*phase)(void))
{
	volatile bool ok = true;

	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(round_cxt);
		phase();
	}
	PG_CATCH();
	{
		recover();
		ok = false;
	}
	PG_END_TRY();
	MemoryContextReset(round_cxt);
	return ok;
}

/* Time to sleep in ms. */
static long
nap(int errors)
{
	if (errors > 0)
		return Min((long) ERROR_PAUSE_MS << Min(errors - 1, 10), ERROR_PAUSE_MAX_MS);
	if (work_left && tokens > 0 && !nm_bufmove_tuner()->over)
		return 0;
	if (work_left)
		return Min(nm_naptime, 100); /* budget fills up, queries go on */
	if (drained_late)
		return Min(Max(nm_naptime / 4, DRAIN_MIN_MS), nm_naptime);
	return nm_naptime;
}

void
nm_migrator_main(Datum arg)
{
	int errors = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	if (nm_migrator == NULL)
		ereport(ERROR, (errmsg("numa_migrate has no shared memory")));
	before_shmem_exit(on_exit_worker, (Datum) 0);

	/* An error here ends the process; the postmaster starts another one. */
	start_up();

	for (;;)
	{
		bool ok = true;

		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		work_left = false;
		drained_late = false;
		ok &= survives(phase_samples);
		ok &= survives(phase_moves);
		ok &= survives(phase_publish);
		ok &= survives(phase_housekeeping);
		errors = ok ? 0 : errors + 1;
		if (!ok)
			nm_stat_worker_state(NM_WORKER_BACKOFF, MyProcPid);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 nap(errors), PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

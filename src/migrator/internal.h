/*-------------------------------------------------------------------------
 *
 * internal.h
 *	  What the files of the migrator share with each other only.
 *
 * IDENTIFICATION
 *	  src/migrator/internal.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_MIGRATOR_INTERNAL_H
#define NM_MIGRATOR_INTERNAL_H

#include "am/am.h"
#include "migrator/migrator.h"
#include "migrator/policy.h"
#include "migrator/ring.h"
#include "migrator/sketch.h"
#include "migrator/tuner.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"

/* Blocks per place: 1 MiB, which is 128 blocks of 8 kB. */
#define NM_RANGE_BYTES	(1024 * 1024)
#define NM_RANGE_BLOCKS (NM_RANGE_BYTES / BLCKSZ)

/*
 * ---------------------------------------------------------------------
 * Shared memory (ring.c lays it out, stats.c reads and writes it)
 * ---------------------------------------------------------------------
 */

/* What a mover did; written by anyone, so atomics. */
typedef struct NmMoveCounters
{
	pg_atomic_uint64 asked,
		moved,
		already,
		busy,
		denied,
		absent,
		failed,
		calls,
		elapsed_us;
} NmMoveCounters;

/*
 * Sampled accesses of one relation or tree.  cell[from * (nnodes + 1) + at],
 * at = nnodes for "not known where".
 */
typedef struct NmAccessCell
{
	uint64 samples;
	uint64 accesses;
} NmAccessCell;

typedef struct NmAccessStat
{
	uint32 kind; /* NmSampleKind, 0 = unused */
	Oid spc,	 /* storage; all 0 = the rest, or not known */
		db,
		rel;
	uint64 used; /* worker's use count, to find the oldest */
	NmAccessCell cell[FLEXIBLE_ARRAY_MEMBER];
} NmAccessStat;

#define NM_ACCESS_STATS 256 /* relations counted apart; the rest together */

/* Counters of the worker since reset. */
typedef struct NmWorkerCounters
{
	uint64 rounds;
	uint64 samples;
	uint64 dropped;	  /* samples that found their ring full */
	uint64 forgotten; /* places pushed out of the sketch */
	uint64 local;	  /* sampled accesses by where the page was */
	uint64 remote;
	uint64 unknown;
	uint64 moves; /* places moved */
	uint64 errors;
	uint64 drifted; /* pages found where we had not seen them */
} NmWorkerCounters;

typedef enum NmWorkerState
{
	NM_WORKER_NONE = 0, /* never started, or ended */
	NM_WORKER_WATCHING, /* policy off: counting only */
	NM_WORKER_IDLE,		/* nothing to move */
	NM_WORKER_MOVING,
	NM_WORKER_BACKOFF /* after an error */
} NmWorkerState;

typedef struct NmMigratorShared
{
	/* under NM_LOCK_MIGRATOR */
	int pid; /* 0 = not running */
	NmWorkerState state;
	TimestampTz started; /* of the worker */
	NmWorkerCounters counters;
	TimestampTz since; /* last reset */
	TimestampTz error_time;
	char error_text[NM_ERRTEXT];
	int mode; /* in use: NmMode */
	int batch;
	int engine;		 /* NmEngine */
	double pause_ms; /* estimate for the worst single step */

	/* atomics */
	NmMoveCounters moves[NM_MOVE_KINDS][2]; /* [kind][by_worker] */

	int nnodes; /* nm_topology's at start: cell layout */
	int nrings;
	Size access_stride;
	Size access_offset; /* NM_ACCESS_STATS entries, under the lock */
	Size ring_offset;	/* one ring per process slot */
} NmMigratorShared;

extern NmMigratorShared *nm_migrator; /* NULL without preload */

static inline NmRing *
nm_ring(int slot)
{
	return (NmRing *) ((char *) nm_migrator + nm_migrator->ring_offset) + slot;
}

static inline NmAccessStat *
nm_access_stat(int i)
{
	return (NmAccessStat *) ((char *) nm_migrator + nm_migrator->access_offset +
							 i * nm_migrator->access_stride);
}

/*
 * ---------------------------------------------------------------------
 * The worker's own (not shared)
 * ---------------------------------------------------------------------
 */

/* A sample with everything known about it. */
typedef struct NmResolved
{
	NmPlaceKey place; /* kind NONE: its place isn't known */
	uint8 kind;		  /* NmSampleKind */
	int8 from;		  /* positions in nm_topology.nodes; at -1 unknown */
	int8 at;
	uint32 weight;
	Oid spc, /* for statistics */
		db,
		rel;
} NmResolved;

/* locate.c */

/* Allocate the map; once per worker process. */
extern void nm_locate_init(void);

/*
 * Find place and memory node of each sample; out[] has room for n.  Returns
 * how many were usable (a sample whose process didn't know its node is not).
 */
extern int nm_locate_samples(const NmRingSample *samples, int n, NmResolved *out);

/* The kernel says that the OS page at addr is on this node (or -errno). */
extern void nm_locate_learn(const void *addr, int32 status);

/* Node (position) last seen for the buffer at addr, -1 unknown. */
extern int nm_locate_cached(const char *addr);

/* Pages found elsewhere than last seen, since the last call. */
extern uint64 nm_locate_drifted(void);

/* treemove.c */
extern void nm_treemove_init(void);

/* Which tree owns most of the page's chunk, as last seen; false if unknown. */
extern bool nm_treemove_owner(NmPageNo page, NmTreeKey *key);

/*
 * Look at trees that are new or have grown (or at all of them), so that their
 * chunks are known.
 */
extern void nm_treemove_learn(bool again);

/* Take proposals of kind CHUNK (others are skipped) as the next pass. */
extern void nm_treemove_plan(const NmProposal *proposals, int n, NmSketch *sketch, NmPolicyParams *params);

/*
 * Go on with the pass until *budget bytes are used up or it ends.  Returns
 * true if there is more to do; adds the places done to *places.
 */
extern bool nm_treemove_step(int64 *budget, NmSketch *sketch, NmPolicyParams *params, uint64 *places);
extern bool nm_treemove_active(void);
extern void nm_treemove_abort(void); /* after an error */

/* bufmove.c */
extern void nm_bufmove_init(void);

/* Can buffers be moved at all now (engine, refusals in the past)? */
extern bool nm_bufmove_possible(double now);
extern bool nm_bufmove_node_full(int node, double now);

/* Move one place of kind RANGE or OSPAGE; true if anything moved. */
extern bool nm_bufmove_place(const NmPlaceKey *place, int to, NmSketch *sketch, NmPolicyParams *params, int64 *budget);

/* Let cold places follow; returns true if there is more to do. */
extern bool nm_bufmove_follow(NmSketch *sketch, NmPolicyParams *params, int64 *budget);
extern void nm_bufmove_abort(void);
extern NmTuner *nm_bufmove_tuner(void); /* NULL outside the worker */

/* stats.c */
extern void nm_stat_init(NmMigratorShared *shared);
extern void nm_stat_publish(const NmWorkerCounters *delta);
extern void nm_stat_access(const NmResolved *samples, int n);
extern void nm_stat_worker_state(NmWorkerState state, int pid);
extern void nm_stat_error(const char *text);
extern void nm_stat_reset(void);

#endif /* NM_MIGRATOR_INTERNAL_H */

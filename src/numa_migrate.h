/*-------------------------------------------------------------------------
 *
 * numa_migrate.h
 *	  What every room of the extension that knows PostgreSQL shares: settings,
 *	  shared memory, process attachment.
 *
 * Include after postgres.h.
 *
 * IDENTIFICATION
 *	  src/numa_migrate.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NUMA_MIGRATE_H
#define NUMA_MIGRATE_H

#include "compat.h"

#include "storage/lwlock.h"

#include "topology.h"
#include "pool/pool.h"
#include "btree/btree.h"
#include "mover/mover.h"

#define NM_EXTENSION "numa_migrate"
#define NM_AM_NAME	 "numa_btree"
#define NM_SCHEMA	 "numa"

/* ---- settings (guc.c) ---- */
typedef enum NmWhenFull
{
	NM_WHEN_FULL_ERROR,
	NM_WHEN_FULL_UNLOAD
} NmWhenFull;

typedef enum NmPoolPageSize
{
	NM_POOL_PAGE_4KB,
	NM_POOL_PAGE_2MB
} NmPoolPageSize;

typedef enum NmPolicy
{
	NM_POLICY_OFF,
	NM_POLICY_AFFINITY,
	NM_POLICY_BALANCE,
	NM_POLICY_TIER
} NmPolicy;

typedef enum NmLoadPolicy
{
	NM_LOAD_EAGER,
	NM_LOAD_LAZY
} NmLoadPolicy;

extern int nm_max_memory;	/* MB, postmaster */
extern int nm_memory_limit; /* MB, sighup, -1 = max_memory */
extern int nm_when_full;
extern int nm_pool_page_size; /* NmPoolPageSize, postmaster */
extern int nm_engine;		  /* NmEngine */
extern int nm_mode;			  /* NmMode */
extern int nm_batch;
extern int nm_policy;	   /* NmPolicy */
extern char *nm_nodes;	   /* list, '' = all allowed */
extern int nm_naptime;	   /* ms */
extern int nm_rate_limit;  /* MB/s, 0 = no limit */
extern int nm_sample_rate; /* one access in this many, 0 = none */
extern int nm_max_latency; /* ms */
extern int nm_load;		   /* NmLoadPolicy */
extern int nm_max_trees;   /* postmaster: index slots in shared memory */
extern bool nm_debug_relocate;

extern void nm_define_gucs(bool preloading);

/* ---- stops for tests (stop.c) ---- */
extern void nm_define_stop(void);

/* ---- shared memory (numa_migrate.c) ---- */

/*
 * LWLocks of the tranche "numa_migrate", by position.  Order of acquisition:
 * stripe or delta, then registry, then pool; never two of one kind except all
 * delta locks of one index in ascending order (the flip).
 */
#define NM_LOCK_POOL		0
#define NM_LOCK_REGISTRY	1
#define NM_LOCK_MIGRATOR	2
#define NM_LOCK_STRIPE0		8
#define NM_NUM_STRIPES		1024
#define NM_LOCK_DELTA0		(NM_LOCK_STRIPE0 + NM_NUM_STRIPES)
#define NM_NUM_DELTA		128
#define NM_DELTA_PARTITIONS 8 /* per index; NM_NUM_DELTA is a multiple */
#define NM_NUM_LOCKS		(NM_LOCK_DELTA0 + NM_NUM_DELTA)

extern LWLockPadded *nm_locks; /* NULL without preload */
#define NmLock(i) (&nm_locks[i].lock)

extern NmTopology nm_topology; /* read at library load, free_bytes refreshed on use */
extern NmMoverCaps nm_caps;	   /* see nm_get_caps() */
extern NmPool *nm_pool;		   /* NULL without preload, or if it could not be had */

/* True if the library was preloaded and shared memory is there. */
extern bool nm_preloaded(void);

/*
 * ERROR 55000 with a hint unless nm_preloaded(); attaches this process (epoch
 * slot, exit and transaction callbacks) on first use.  what completes "cannot
 * %s because ...".
 */
extern void nm_require_preload(const char *what);

/* This process's capabilities, probed at first use in this process. */
extern const NmMoverCaps *nm_get_caps(void);

/* Arena (pool) for new pages of this process: node it runs on now. */
extern int nm_local_arena(void);

/* ereport for NM_NO_MEMORY: 53200, DETAIL by cause, HINT naming the setting. */
extern void nm_report_no_memory(NmPoolError why, int errno_saved) __attribute__((noreturn));

/*
 * Rooms with shared memory.  size is asked in shmem_request_hook; init runs in
 * shmem_startup_hook with found = false memory zeroed, at first start and
 * after every crash restart.
 */
extern Size nm_registry_shmem_size(void); /* am/registry.c */
extern void nm_registry_shmem_init(void *mem);
extern Size nm_migrator_shmem_size(void); /* migrator/ring.c */
extern void nm_migrator_shmem_init(void *mem);

/* Background workers registered while preloading. */
extern void nm_migrator_register_worker(void); /* migrator/worker.c */
extern void nm_loader_register_launcher(void); /* am/launcher.c */

/* Hook installers, called once per process from _PG_init (preloaded or not). */
extern void nm_planner_install_hooks(void);	 /* am/planner.c */
extern void nm_implied_install_hook(void);	 /* am/implied.c */
extern void nm_utility_install_hooks(void);	 /* am/utility.c */
extern void nm_xact_install_callbacks(void); /* am/lifecycle.c */
extern void nm_init_reloptions(void);		 /* am/options.c */

/* Number of processes that may exist at once = epoch slots. */
extern int nm_process_slots(void);
extern int nm_my_slot(void);

#endif /* NUMA_MIGRATE_H */

/*-------------------------------------------------------------------------
 *
 * life.h
 *	  What the files of the life cycle share among themselves.
 *
 * Lock order: heavyweight load lock, then delta partitions in ascending order,
 * then NM_LOCK_REGISTRY, then the pool's lock.
 *
 * IDENTIFICATION
 *	  src/am/life.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_LIFE_H
#define NM_LIFE_H

#include "am/am.h"

#include "access/xact.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/proc.h"

/* How far a load is; changed with all delta partitions of the index locked. */
typedef enum NmLoadPhase
{
	NM_LOADING_COLLECT = 0, /* inserts go to the delta */
	NM_LOADING_OPEN,		/* tree complete but for the delta: inserts go
								 * into it directly */
	NM_LOADING_ABANDONED	/* an insert found no memory: the load must fail */
} NmLoadPhase;

#define NM_MAX_WANTED 64

/* Head of the registry's shared memory; arrays follow. */
typedef struct NmRegistry
{
	int nslots;
	int nbuckets; /* a power of two */
	int nprocs;
	int free_hint; /* where to look for a free slot first */
	uint64 next_serial;
	TimestampTz full_at;	   /* when there was no slot to be had; 0 = there may be one */
	ConditionVariable flip_cv; /* a load has ended */

	/* launcher.c; under NM_LOCK_REGISTRY */
	PGPROC *launcher;  /* its latch is set to wake it */
	Oid scanner_db;	   /* database a scanner works in, 0 = none */
	pid_t scanner_pid; /* 0 until it has started */
	TimestampTz last_poke;
	bool wanted_all;
	int nwanted;
	Oid wanted[NM_MAX_WANTED]; /* databases with something to load */
} NmRegistry;

extern NmRegistry *nm_registry;

/* ---- registry.c ---- */
extern void nm_key_of(Relation index, NmTreeKey *key);
extern int nm_slot_number(const NmSlot *slot);
extern void nm_slot_set_state(NmSlot *slot, NmState state);
extern NmSlot *nm_slot_find(const NmTreeKey *key);
extern NmSlot *nm_slot_first_by_oid(Oid db, Oid indexoid);
extern NmSlot *nm_slot_next_by_oid(NmSlot *slot);
extern void nm_slot_attach(NmIndex *idx, Relation index, bool must);
extern bool nm_slot_is_none(const NmSlot *slot);
extern bool nm_registry_full(void);
extern void nm_slot_begin_build(NmIndex *idx);
extern void nm_slot_detach_tree(NmSlot *slot);
extern bool nm_slot_reap(NmSlot *slot);
extern bool nm_slot_drop(NmSlot *slot, uint64 serial);
extern void nm_slot_rename(NmSlot *slot, uint64 serial, Oid indexoid);
extern void nm_slot_set_pending(NmSlot *slot, uint64 serial, bool pending);
extern void nm_registry_drop_database(Oid db);
extern void nm_unpin_all(int nest);
extern Oid *nm_blocked_dbs(void); /* per process */

/*
 * A row whose insert has met a conflict in a unique index and has not gone
 * past that index yet.  db is 0 if there is none.
 */
typedef struct NmHeldUp
{
	Oid db;
	Oid heapoid;
	Oid indexoid;
	uint64 tid;
} NmHeldUp;

extern NmHeldUp *nm_held_up_rows(void); /* per process; under NM_LOCK_REGISTRY */

/* ---- unique.c ---- */
extern void nm_held_up_clear(void); /* never raises */

/* ---- index.c ---- */
extern NmTree *nm_index_handle(NmIndex *idx, bool loading);
extern NmIndex *nm_index_local(Relation index, uint64 identity);
extern void nm_index_close_all(void);
extern void nm_index_prepare_tree(NmIndex *idx, Relation index);

/* ---- load.c ---- */

/* A load by this process, outermost last. */
typedef struct NmLoad
{
	struct NmLoad *outer;
	NmIndex *idx;
	NmSlot *slot;
	uint64 serial;
	uint64 load_count;
	int nest;	 /* transaction nest level it runs at */
	bool failed; /* an error other than a cancel came through */
	int sqlstate;
	char text[NM_ERRTEXT];
	NmPageNo chain[NM_DELTA_PARTITIONS]; /* delta pages being drained */
} NmLoad;

extern NmTree *nm_index_load_forced(NmIndex *idx, Relation index, Relation heap, bool *did_load);
extern bool nm_load_running_here(const NmSlot *slot);
extern void nm_load_abort(int nest); /* those at this nest level or deeper */
extern bool nm_load_backing_off(NmSlot *slot);
extern void nm_send_inval(Oid relid);

/* ---- predicate.c ---- */
extern void nm_predicate_pass(void *arg, uint32 from, uint32 to);
extern void nm_predicate_forget_leaves(NmIndex *idx);

/* ---- heapscan.c ---- */
extern bool nm_heapscan_yields;

/* What the participants of a scan have in common; one of them may be alone. */
typedef struct NmHeapShare
{
	TransactionId oldest; /* rows deleted before are dead to everyone */
	BlockNumber nblocks;
	pg_atomic_uint64 next; /* block to be looked at by whoever comes next */
	int slot;			   /* number: for the progress shown */
	bool has_own;
	ItemPointerData own; /* row to be left out */
} NmHeapShare;

/* A row to be looked at again, when a transaction has ended or by the leader. */
typedef struct NmDeferred
{
	BlockNumber block;
	OffsetNumber root;
	TransactionId xid; /* invalid: not evaluated yet */
} NmDeferred;

typedef struct NmHeapScan NmHeapScan;

/* After LOADING was published, and with a snapshot. */
extern void nm_heapshare_init(NmHeapShare *share, NmIndex *idx, Relation heap, ItemPointer own_tid);
extern void nm_heapshare_copy(NmHeapShare *to, const NmHeapShare *from);
extern NmHeapScan *nm_heapscan_begin(const NmHeapShare *share, Relation heap, Relation index,
									 NmSpool *spool);
extern void nm_heapscan_blocks(NmHeapScan *scan, NmHeapShare *share, bool in_team);
extern const NmDeferred *nm_heapscan_deferred(const NmHeapScan *scan, int *n);
extern void nm_heapscan_put_off(NmHeapScan *scan, const NmDeferred *row);
extern void nm_heapscan_work_off(NmHeapScan *scan);
extern void nm_heapscan_end(NmHeapScan *scan);

/* ---- delta.c ---- */
extern bool nm_delta_insert(NmIndex *idx, const NmItem *item, uint64 tid);
extern void nm_delta_lock_all(NmSlot *slot);
extern void nm_delta_unlock_all(NmSlot *slot);
extern void nm_delta_take(NmSlot *slot, NmPageNo *chain);
extern void nm_delta_free(NmPageNo *chain);
extern void nm_delta_drain(NmLoad *load);

/* ---- lifecycle.c ---- */
typedef struct NmPendingDrop NmPendingDrop;
extern NmPendingDrop *nm_pending_make(void);
extern void nm_pending_drop_at_commit(NmPendingDrop *p, NmSlot *slot, uint64 serial);
extern void nm_pending_drop_at_abort(NmPendingDrop *p, NmSlot *slot, uint64 serial, bool table_moved);

/* ---- locktags.c ---- */
extern void nm_lock_load_oid(Oid indexoid);
extern void nm_unlock_load_oid(Oid indexoid);

/* ---- launcher.c ---- */
extern void nm_launcher_poke(void);
extern void nm_launcher_block_database(Oid db);
extern void nm_launcher_unblock(void);

#endif /* NM_LIFE_H */

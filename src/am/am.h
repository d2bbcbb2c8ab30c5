/*-------------------------------------------------------------------------
 *
 * am.h
 *	  The access method numa_btree: life cycle of trees and index operations.
 *
 * Two halves meet here.
 *
 * Life cycle (registry.c, meta.c, load.c, delta.c, lifecycle.c, planner.c,
 * launcher.c): which index has a tree, in which state, who loads it, when it
 * is freed.
 *
 * Operations (handler.c, keys.c, spool.c, build.c, insert.c, scan.c,
 * scankeys.c, vacuum.c, check.c, ...): PostgreSQL's index callbacks on a tree
 * that is loaded.
 *
 * Protocols are argued in README.md beside this file.
 *
 * IDENTIFICATION
 *	  src/am/am.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_AM_H
#define NM_AM_H

#include "numa_migrate.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/itup.h"
#include "nodes/execnodes.h"
#include "nodes/pathnodes.h"
#include "port/atomics.h"
#include "utils/rel.h"

/* Strategy and support numbers are nbtree's, so that operator classes carry over. */
#define NM_NSTRATEGIES	5
#define NM_ORDER_PROC	1
#define NM_OPTIONS_PROC 5
#if PG_VERSION_NUM >= 180000
#define NM_NSUPPORT 6
#else
#define NM_NSUPPORT 5
#endif

/*
 * ---------------------------------------------------------------------
 * Shared: the registry (registry.c)
 * ---------------------------------------------------------------------
 */

/* Which storage: relfilenumbers are unique only within a tablespace. */
typedef struct NmTreeKey
{
	Oid db;
	Oid spc;
	Oid rel;	   /* relfilenumber */
	int32 backend; /* owning backend of a temp relation, else
								 * NM_INVALID_BACKEND */
} NmTreeKey;

typedef enum NmState
{
	NM_STATE_FREE = 0,	 /* slot unused */
	NM_STATE_NOT_LOADED, /* no entries in memory */
	NM_STATE_BUILDING,	 /* CREATE INDEX in progress: private */
	NM_STATE_LOADING,	 /* loader at work, inserts go to the delta */
	NM_STATE_LOADED,
	NM_STATE_FAILED, /* last load failed; retried on demand */
	NM_STATE_DROPPED /* pages to be freed by whoever comes first */
} NmState;

#define NM_ERRTEXT 256

/*
 * One index.  state is changed with NM_LOCK_REGISTRY held exclusively and
 * full barriers on both sides; it is read without a lock.  serial is changed
 * whenever the slot gets another owner.
 */
typedef struct NmSlot
{
	NmTreeKey key;
	uint64 serial;
	uint64 identity; /* as in the meta page */
	Oid indexoid;
	Oid heapoid;
	bool unique;
	bool pending_drop;		/* dropped by a transaction not yet over */
	pg_atomic_uint32 state; /* NmState */
	pg_atomic_uint32 pins;	/* worker at work on the tree */
	uint64 load_count;		/* generation of the tree */
	NmTreeShared tree;

	/* delta of inserts during LOADING: one chain of pool pages per partition */
	NmPageNo delta_head[NM_DELTA_PARTITIONS];
	NmPageNo delta_tail[NM_DELTA_PARTITIONS];

	/* progress and history, for numa.stat_btree */
	pg_atomic_uint64 load_blocks_total;
	pg_atomic_uint64 load_blocks_done;
	pg_atomic_uint64 load_tuples;
	int64 load_ms;
	TimestampTz load_time;
	TimestampTz fail_time;
	int fail_count;
	char fail_text[NM_ERRTEXT];
	pg_atomic_uint64 lookups; /* scans started */
	pg_atomic_uint64 inserts;
	pg_atomic_uint64 tuples_read;

	/* private to registry.c, load.c and delta.c */
	int next_by_key; /* hash chains, -1 = end */
	int next_by_oid;
	bool hashed;			/* can be found by key and by OID */
	bool unloading;			/* predicate locks not yet with the heap */
	bool stay_out;			/* unloaded on purpose: no eager load */
	pg_atomic_uint32 phase; /* of LOADING: NmLoadPhase */
	int fail_sqlstate;
	uint64 last_lid;  /* logical ids go on over generations */
	uint64 dead_root; /* detached tree whose pages wait for the
								 * grace period, 0 = none */
	uint64 dead_token;
	uint8 dead_layout;
} NmSlot;

/*
 * ---------------------------------------------------------------------
 * Backend-local: an open index
 * ---------------------------------------------------------------------
 */

/* Key types of the FIXED layout: how a Datum becomes an ordered int64. */
typedef enum NmFixedKind
{
	NM_FIXED_NONE,
	NM_FIXED_INT2,
	NM_FIXED_INT4, /* also date */
	NM_FIXED_INT8, /* also timestamp, timestamptz, time, money */
	NM_FIXED_OID,
	NM_FIXED_BOOL,
	NM_FIXED_CHAR /* "char": unsigned order */
} NmFixedKind;

/* What the 8 bytes of a head are taken from (image.c). */
typedef enum NmHeadKind
{
	NM_HEAD_NONE,
	NM_HEAD_INTEGERS, /* as many of the first columns as are integers and fit */
	NM_HEAD_STRING,	  /* varlena in memcmp order: text in C collation, bytea ... */
	NM_HEAD_BYTES,	  /* fixed width in memcmp order: uuid, name ... */
	NM_HEAD_FLOAT	  /* float4, float8 */
} NmHeadKind;

/* Comparisons of one column that need no function call (keys.c). */
typedef enum NmColumnOrder
{
	NM_ORDER_CALL,	  /* call the operator class's function */
	NM_ORDER_INTEGER, /* by NmFixedKind */
	NM_ORDER_FLOAT4,
	NM_ORDER_FLOAT8,
	NM_ORDER_VARLENA, /* memcmp, then length */
	NM_ORDER_BPCHAR,  /* the same without trailing blanks */
	NM_ORDER_NAME,
	NM_ORDER_RAW /* memcmp of attlen bytes */
} NmColumnOrder;

/* What an index's definition says about its keys (keys.c). */
typedef struct NmKeyDesc
{
	NmLayout layout;
	NmFixedKind fixed; /* of the first column */
	int natts;		   /* key columns + INCLUDE */
	int nkeys;
	bool desc_first;   /* FIXED: order reversed */
	bool nulls_first;  /* FIXED */
	bool foreign;	   /* a comparator that is not built in */
	TupleDesc tupdesc; /* copy */
	int16 indoption[INDEX_MAX_KEYS];
	Oid collation[INDEX_MAX_KEYS];
	FmgrInfo order[INDEX_MAX_KEYS];
	struct SortSupportData *text[INDEX_MAX_KEYS]; /* how bttextcmp's collation compares; see keys.c */
	NmColumnOrder column[INDEX_MAX_KEYS];
	NmFixedKind kind[INDEX_MAX_KEYS]; /* with NM_ORDER_INTEGER */

	/* GENERAL: heads and stored images (image.c) */
	NmHeadKind head;
	int nhead;			/* HEAD_INTEGERS: columns in it */
	int nwhole;			/* key columns of which a folded image has nothing else */
	int fold;			/* bytes that a folded image leaves out; strings: 0 */
	int column_at[8];	/* HEAD_INTEGERS: where a column begins in the data */
	int column_bits[8]; /* and the bits it has in the head */
	int full_size;		/* bytes of data of every tuple without NULLs, 0 if they differ */

	MemoryContext cxt; /* owns the copies */
} NmKeyDesc;

/*
 * One per index and backend, kept for the backend's life in a local hash by
 * index OID; index->rd_amcache marks it fresh.
 */
typedef struct NmIndex
{
	Oid indexoid;
	NmSlot *slot;
	uint64 serial;
	NmKeyDesc desc;
	NmTree tree;	   /* handle; see nm_index_tree */
	uint64 load_count; /* generation the handle was opened for */
	NmBatch *batch;	   /* spare batch for unique checks etc. */
	MemoryContext cxt; /* owns this struct and what hangs on it */

	/* private to registry.c: enough to find or make the slot again */
	NmTreeKey key;
	uint64 identity;
	Oid heapoid;
	bool unique;
	void *scratch; /* of the handle */
	bool desc_valid;
	bool maybe_dropped; /* its relation was invalidated */
	uint8 fillfactor;
	uint8 nulls_first;
} NmIndex;

/*
 * Open: find or create the registry slot (reading the meta page if needed) and
 * the key description.  ERROR 55000 without preload; XX002 if the meta page is
 * not ours.  Holds nothing afterwards.  An index that is not loaded when all
 * slots are in use is open all the same, until it is to be loaded.
 */
extern NmIndex *nm_index_open(Relation index);

/*
 * Handle of the tree if the index is LOADED now, else NULL.  Sets the arena
 * for new pages to the caller's node.  Cheap: call before every operation.
 */
extern NmTree *nm_index_tree(NmIndex *idx);

/*
 * Return a handle of a LOADED tree, loading it in this process or waiting for
 * who is doing it.  heap may be NULL (opened here, AccessShareLock).  ERROR on
 * a standby (25006), when loading fails, on memory_limit.  own_tid, if not
 * NULL, is the row a unique insert is about to add: a load by this process
 * leaves it out.
 *
 * Uniqueness check: a load by another process may have put the own TID in, and
 * it may have been flipped before this insert arrived, so no list of waiters
 * could keep it out.  Therefore a check that is about to wait for another
 * transaction must first delete its own (key, TID) with nm_tree_delete, still
 * under the stripe.  Then no two inserts of one key wait for each other: who
 * waits has no entry that the other could find (README, "Own entries").
 */
extern NmTree *nm_index_load(NmIndex *idx, Relation index, Relation heap, ItemPointer own_tid);

/* Bulkdelete and friends: wait until no load is running (no load started). */
extern void nm_index_wait_flip(NmIndex *idx, Relation index);

/*
 * A non-unique insert whose heap row is in place: true if the caller must
 * insert into the tree (LOADED); false if nothing is left to do (not loaded,
 * or appended to the delta).  After NM_GONE from the tree call again.
 */
extern bool nm_insert_wanted(NmIndex *idx, const NmItem *item, uint64 tid);

/* Take the tree out of memory; false if there was none.  Caller checked rights. */
extern bool nm_index_unload(NmIndex *idx, Relation index);

/*
 * NM_NO_MEMORY met in a non-unique insert: with when_full = unload, unload this
 * tree and return true (the insert is done); else ERROR 53200.
 */
extern bool nm_insert_when_full(NmIndex *idx, Relation index);

/* ---- build (called by build.c) ---- */

/*
 * Both nm_build_begin and the loader leave slot->tree zeroed, with layout,
 * nulls_first and fillfactor set, root 0, and idx->tree open on it; that is
 * what nm_spool_load fills.
 */

/*
 * Start of ambuild: meta page written and WAL-logged, slot in BUILDING state,
 * freed if the transaction (or subtransaction) aborts; the index's earlier
 * tree, if any, is freed at commit.
 */
extern NmIndex *nm_build_begin(Relation heap, Relation index);
extern void nm_build_finish(NmIndex *idx, Relation index); /* publish LOADED */
/* Give the pages of a bulk load back if an error comes through. */

/* ambuildempty: init fork, always WAL-logged. */
extern void nm_meta_write(Relation index, ForkNumber fork, uint64 identity);
extern uint64 nm_meta_read(Relation index); /* identity; XX002 if not ours */
extern uint64 nm_meta_new_identity(void);

/* ---- for the migrator and the SQL functions ---- */

/*
 * Iterate over slots with a LOADED tree; the returned slot is pinned until
 * nm_slot_unpin, so its pages stay.  *cursor starts at 0.  NULL at the end.
 */
extern NmSlot *nm_slot_next_pinned(int *cursor);
extern void nm_slot_unpin(NmSlot *slot);
extern NmSlot *nm_slot_get(int i); /* any state; i < nm_max_trees; unpinned */

/* Open a comparator-less tree handle on a pinned slot (relocate, stats). */
extern void nm_slot_tree(NmSlot *slot, NmTree *tree, void *scratch);

/*
 * Free the pages of DROPPED slots, drop slots whose file is gone, hand back
 * retired pages.  By the worker; cheap when there is nothing to do.
 */
extern void nm_registry_sweep(bool stat_files);

/*
 * ---------------------------------------------------------------------
 * Keys (keys.c)
 * ---------------------------------------------------------------------
 */
extern void nm_keydesc_init(NmKeyDesc *desc, Relation index, MemoryContext parent);
extern bool nm_keydesc_matches(const NmKeyDesc *desc, Relation index);

/* Comparator of GENERAL keys; arg is the NmKeyDesc. */
extern int nm_compare_items(void *arg, const NmItem *a, const NmItem *b);
/* The same of index tuples, with sort support for each column of kind NM_ORDER_CALL. */
extern int nm_compare_tuples(const NmKeyDesc *desc, IndexTuple a, IndexTuple b,
							 struct SortSupportData *support);

/* Bytes of a value of an integer-like kind. */
extern int nm_fixed_width(NmFixedKind kind);
/* Built-in order function of an integer-like type, or NM_FIXED_NONE. */
extern NmFixedKind nm_fixed_kind_of_proc(Oid proc);
/* A string short enough to be in an index, neither compressed nor elsewhere? */
extern bool nm_plain_text(Datum v);
/* Raw order of two non-null column values, before DESC. */
extern int nm_compare_column(const NmKeyDesc *desc, int attno, Datum a, Datum b);
/* A non-null value of a fixed kind as the integer that orders it, and back. */
static inline int64
nm_fixed_value(NmFixedKind kind, Datum d)
{
	switch (kind)
	{
		case NM_FIXED_INT2:
			return DatumGetInt16(d);
		case NM_FIXED_INT4:
			return DatumGetInt32(d);
		case NM_FIXED_INT8:
			return DatumGetInt64(d);
		case NM_FIXED_OID:
			return (int64) DatumGetObjectId(d);
		case NM_FIXED_BOOL:
			return DatumGetBool(d) ? 1 : 0;
		case NM_FIXED_CHAR:
			return (int64) DatumGetUInt8(d);
		case NM_FIXED_NONE:
			break;
	}
	return 0;
}

static inline Datum
nm_fixed_datum(NmFixedKind kind, int64 v)
{
	switch (kind)
	{
		case NM_FIXED_INT2:
			return Int16GetDatum((int16) v);
		case NM_FIXED_INT4:
			return Int32GetDatum((int32) v);
		case NM_FIXED_INT8:
			return Int64GetDatum(v);
		case NM_FIXED_OID:
			return ObjectIdGetDatum((Oid) v);
		case NM_FIXED_BOOL:
			return BoolGetDatum(v != 0);
		case NM_FIXED_CHAR:
			return CharGetDatum((char) v);
		case NM_FIXED_NONE:
			break;
	}
	return (Datum) 0;
}

/*
 * ---------------------------------------------------------------------
 * Stored images of keys (image.c)
 * ---------------------------------------------------------------------
 */

/* Tags of images. */
#define NM_TAG_FOLDED	0x01 /* the beginning of the data is in the head only */
#define NM_TAG_VARWIDTH 0x02 /* as INDEX_VAR_MASK */
#define NM_TAG_NULLS	0x04 /* as INDEX_NULL_MASK */

/* Room for an index tuple of any key; eight bytes more than the longest has. */
typedef union NmTupleBuffer
{
	char data[MAXALIGN(NM_MAX_KEY_SIZE) + 8];
	int64 align;
} NmTupleBuffer;

/* What of a first column is not in its key's head. */
typedef struct NmTail
{
	const char *data;
	int len;
	int total; /* bytes of the whole value; what decides when tails are equal */
} NmTail;

/* Set the members of desc that say how images look; the others are there. */
extern void nm_image_init(NmKeyDesc *desc);

/*
 * Form an index tuple from column values, palloc'd; ERROR 54000 when too large.
 * An item, too: GENERAL items point into *tuple or to palloc'd memory, *tuple
 * is NULL for FIXED.
 */
extern IndexTuple nm_form_tuple(const NmKeyDesc *desc, Relation index, Datum *values,
								bool *isnull, ItemPointer tid);
extern void nm_form_item(NmIndex *idx, Relation index, Datum *values, bool *isnull,
						 ItemPointer tid, NmItem *item, IndexTuple *tuple);
/*
 * GENERAL: the item that an index tuple stands for.  It points into the tuple or
 * into the buffer, which may be NULL to have one palloc'd, and holds both.
 */
extern void nm_item_from_tuple(const NmKeyDesc *desc, IndexTuple itup, NmItem *item,
							   NmTupleBuffer *buffer);
/* GENERAL: the item as an index tuple without heap TID, its own or made in the buffer. */
extern IndexTuple nm_image_tuple(const NmKeyDesc *desc, const NmItem *item, NmTupleBuffer *buffer);
/* Back to columns; values may point into memory that is palloc'd here. */
extern void nm_deform_item(const NmKeyDesc *desc, const NmItem *item, Datum *values, bool *isnull);
/* True if at least one key column of the item is NULL. */
extern bool nm_item_has_null_key(const NmKeyDesc *desc, const NmItem *item);

/* Head of a tuple's key, 0 if the index has no heads. */
extern uint64 nm_tuple_head(const NmKeyDesc *desc, IndexTuple itup);
/* Head of a non-null value of the first column's type; not HEAD_INTEGERS. */
extern uint64 nm_value_head(const NmKeyDesc *desc, Datum value);
/*
 * HEAD_INTEGERS: add column i to a head.  False if nothing can be added behind
 * it: it is NULL, or v, an integer of any width, is no value of the column's.
 */
extern bool nm_head_add(const NmKeyDesc *desc, int i, int64 v, bool isnull, uint64 *head);
/* Bytes 8 * word and on of a string, as a head is made of the first ones. */
extern uint64 nm_key_word(const NmKeyDesc *desc, const char *p, int len, int word);

/*
 * The tail of a folded image's first column, a string; false if there is no
 * telling without the whole tuple.
 */
extern bool nm_image_tail(const NmKeyDesc *desc, const NmItem *item, NmTail *tail);
/*
 * The first column as it lies in an image, if it is of variable length, not NULL
 * and all there; false if there is no telling without the whole tuple.
 */
extern bool nm_image_first(const NmKeyDesc *desc, const NmItem *item, Datum *value);
extern bool nm_value_tail(const NmKeyDesc *desc, Datum value, NmTail *tail);

/* Order of two first columns with the same head, DESC not applied. */
static inline int
nm_compare_tails(const NmTail *a, const NmTail *b)
{
	int r = memcmp(a->data, b->data, Min(a->len, b->len));

	if (r != 0)
		return r;
	return (a->total > b->total) - (a->total < b->total);
}

static inline IndexTuple
nm_item_tuple(const NmKeyDesc *desc, const NmItem *item, NmTupleBuffer *buffer)
{
	if (item->form)
		return (IndexTuple) unconstify(void *, item->form);
	return nm_image_tuple(desc, item, buffer);
}

static inline uint64
nm_tid_encode(ItemPointer tid)
{
	return ((uint64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		   ItemPointerGetOffsetNumberNoCheck(tid);
}

static inline void
nm_tid_decode(uint64 t, ItemPointer tid)
{
	ItemPointerSet(tid, (BlockNumber) (t >> 16), (OffsetNumber) (t & 0xFFFF));
}

/*
 * ---------------------------------------------------------------------
 * Sort and bulk load (spool.c)
 * ---------------------------------------------------------------------
 */
typedef struct NmSpool NmSpool;

/*
 * unique_check: error 23505 on two alive equal keys (build); the loader passes
 * false.  workmem in kB.
 */
extern NmSpool *nm_spool_begin(NmIndex *idx, Relation heap, Relation index,
							   bool unique_check, int workmem);
extern void nm_spool_add(NmSpool *spool, Datum *values, bool *isnull,
						 ItemPointer tid, bool alive);
/*
 * Sort, bulk load into slot->tree (unpublished), publish its root.  Returns
 * the number of entries.  On error every page is given back.
 */
extern int64 nm_spool_load(NmSpool *spool);
extern void nm_spool_end(NmSpool *spool);

/*
 * ---------------------------------------------------------------------
 * Interlock of non-MVCC scans with VACUUM, and load lock (locktags.c)
 * ---------------------------------------------------------------------
 */
extern void nm_lock_scan_interlock(Relation index); /* share; until unlock or xact end */
extern void nm_unlock_scan_interlock(Relation index);
extern void nm_wait_scan_interlock(Relation index); /* take and release exclusive */
extern void nm_lock_load(Relation index);			/* exclusive, session of loader */
extern bool nm_try_lock_load(Relation index);
extern void nm_lock_stripe(Relation index, int stripe); /* below NM_NUM_STRIPES; exclusive */
extern void nm_unlock_stripe(Relation index, int stripe);
extern void nm_unlock_load(Relation index);

/*
 * ---------------------------------------------------------------------
 * Predicate locks of serializable transactions (predicate.c)
 * ---------------------------------------------------------------------
 */
/* For NmScan.lock_leaf; arg is the IndexScanDesc. */
extern void nm_predicate_lock_leaf(void *arg, uint32 id);
/*
 * After an insert, whatever became of its entry: idx->tree.leaf_id must have
 * been 0 before.  And before a violation is reported that may hide a conflict,
 * in the leaf that nm_tree_first_leaf found.  ERROR 40001.
 */
extern void nm_predicate_check_insert(NmIndex *idx, Relation index, Relation heap);

/*
 * ---------------------------------------------------------------------
 * Planner (planner.c) and callbacks named in the handler
 * ---------------------------------------------------------------------
 */
extern void nm_costestimate(struct PlannerInfo *root, struct IndexPath *path,
							double loop_count, Cost *startup, Cost *total,
							Selectivity *selectivity, double *correlation, double *pages);
/* Is an index that the planner knows ours?  The callback tells. */
extern bool nm_index_is_ours(const struct IndexOptInfo *info);

extern IndexBuildResult *nm_build(Relation heap, Relation index, struct IndexInfo *indexInfo);
extern void nm_buildempty(Relation index);
extern bool nm_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
					  Relation heap, IndexUniqueCheck check, bool indexUnchanged,
					  struct IndexInfo *indexInfo);
extern IndexScanDesc nm_beginscan(Relation index, int nkeys, int norderbys);
extern void nm_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys, int norderbys);
extern bool nm_gettuple(IndexScanDesc scan, ScanDirection dir);
extern int64 nm_getbitmap(IndexScanDesc scan, TIDBitmap *tbm);
extern void nm_endscan(IndexScanDesc scan);
#if PG_VERSION_NUM >= 180000
extern Size nm_estimateparallelscan(Relation index, int nkeys, int norderbys);
#elif PG_VERSION_NUM >= 170000
extern Size nm_estimateparallelscan(int nkeys, int norderbys);
#else
extern Size nm_estimateparallelscan(void);
#endif
extern void nm_initparallelscan(void *target);
extern void nm_parallelrescan(IndexScanDesc scan);
extern void nm_markpos(IndexScanDesc scan);
extern void nm_restrpos(IndexScanDesc scan);
extern bool nm_canreturn(Relation index, int attno);
extern IndexBulkDeleteResult *nm_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
											IndexBulkDeleteCallback callback, void *callback_state);
extern IndexBulkDeleteResult *nm_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats);
extern bytea *nm_options(Datum reloptions, bool validate);
extern bool nm_property(Oid index_oid, int attno, IndexAMProperty prop,
						const char *propname, bool *res, bool *isnull);
extern bool nm_validate(Oid opclassoid);
extern char *nm_buildphasename(int64 phasenum);
extern void nm_adjustmembers(Oid opfamilyoid, Oid opclassoid, List *operators, List *functions);

/* ERROR 0A000 for what can't have one of our indexes (build.c). */
extern void nm_check_supported(Relation heap, Relation index);

/*
 * Own GUC nest level with a search_path that nobody can plant objects in; end
 * it with AtEOXact_GUC(false, level).  For everything that evaluates index
 * expressions or predicates: build, load, check.
 */
extern int nm_restrict_search_path(void);

typedef struct NmOptions
{
	int32 vl_len_;
	int fillfactor;
	int node;	/* placement hint, -1 = where it is touched */
	bool merge; /* deduplicate_items */
} NmOptions;

#define NM_DEFAULT_FILLFACTOR 90

extern int nm_index_fillfactor(Relation index);
/* Are equal keys to be stored once? */
extern bool nm_index_merge(Relation index);
/* Arena for new pages: the index's node option if usable, else the own node. */
extern int nm_index_arena(Relation index);

/* Whether a relation is an index of ours (by its AM's handler). */
extern bool nm_is_numa_btree(Relation rel);
extern Oid nm_am_oid(void); /* InvalidOid if the extension is not created here */

#endif /* NM_AM_H */

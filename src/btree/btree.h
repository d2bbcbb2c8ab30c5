/*-------------------------------------------------------------------------
 *
 * btree.h
 *	  NUMA-aware in-memory B+-tree: the contract between the tree and its user.
 *
 * The tree keeps entries (key, TID) in order in pages of the pool.  It knows
 * two layouts:
 *	- FIXED: the key is one 64-bit integer whose signed order is the index
 *	  order, or NULL; keys and TIDs lie in separate dense arrays.
 *	- GENERAL: the key is a byte string that only the user's comparator
 *	  understands, a tag of three bits, and an optional order-preserving 8-byte
 *	  head (head(a) < head(b) implies a < b; equal heads decide nothing).  All
 *	  three are the key's image: they are stored and given back together, so
 *	  the bytes need not repeat what the head says.
 *
 * Rules for the user
 *	- Call no function here with an epoch section open (the tree opens and
 *	  closes its own), except where said.
 *	- No pointer into the pool leaves the tree: entries are copied out.
 *	- A comparator gets MAXALIGNed private copies.  It may raise an error
 *	  (longjmp) at any call: at that moment the tree holds no version lock and
 *	  nothing half done.  If tree->leave_epoch is set the tree is out of its
 *	  epoch section too; otherwise the user's error cleanup must call
 *	  nm_epoch_reset().
 *	- Positions are positions in key space: a scan holds nothing between calls.
 *
 * Concurrency is argued in README.md beside this file.
 *
 * IDENTIFICATION
 *	  src/btree/btree.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_BTREE_H
#define NM_BTREE_H

#include "port.h"
#include "pool/pool.h"

/*
 * TIDs are 48 bits: block << 16 | offset.  Valid ones have 1 <= offset <
 * 0x8000; the tree uses the top bit of the offset for kill marks and never
 * shows it.
 */
#define NM_TID_MIN UINT64_C(0)
#define NM_TID_MAX UINT64_C(0xFFFFFFFFFFFF)

#define NM_MAX_KEY_SIZE 2704 /* bytes of a GENERAL key, as nbtree's limit */

/* More entries than any leaf can hold in either layout. */
#define NM_LEAF_MAX_ENTRIES 1024

typedef enum NmStatus
{
	NM_OK = 0,
	NM_END, /* no more entries in this direction */
	NM_NOT_FOUND,
	NM_EXISTS,	  /* insert: exactly this (key, TID) is there */
	NM_NO_MEMORY, /* pool refused: see tree->pool_error, pool_errno */
	NM_GONE,	  /* the tree has been unloaded or replaced */
	NM_STALE,	  /* guard or removal counter no longer holds: start over */
	NM_CORRUPT	  /* a check failed: see the report */
} NmStatus;

typedef enum NmLayout
{
	NM_LAYOUT_FIXED = 1,
	NM_LAYOUT_GENERAL = 2
} NmLayout;

/*
 * Shared part of a tree, in memory that outlives it; zero it before
 * nm_tree_create.  root changes from 0 to a page at publication and back to 0
 * at nm_tree_detach.  Counters are approximate while writers run, except
 * nentries, which is exact when quiet.
 */
typedef struct NmTreeShared
{
	uint64_t tree_id;	 /* unique over the pool's life; 0 = none */
	uint64_t root;		 /* level << 32 | page number; 0 = no tree */
	uint64_t next_lid;	 /* may be set before to let ids go on; 0 will do */
	uint8_t layout;		 /* NmLayout */
	uint8_t nulls_first; /* FIXED: NULL keys sort before all others */
	uint8_t fillfactor;	 /* percent, leaves, bulk load and rightmost split */
	uint8_t merge;		 /* store adjacent entries' equal keys once */
	uint8_t pad[36];	 /* counters stay off the line that readers need */
	int64_t nentries;	 /* live and killed entries */
	int64_t nleaves;
	int64_t ninner;
	int64_t noverflow; /* overflow pages */
	uint64_t splits;
	uint64_t deletes;	  /* leaves unlinked */
	uint64_t relocations; /* pages */
	uint64_t restarts;	  /* optimistic attempts repeated (sampled) */
} NmTreeShared;

/* A key as given to the tree or shown by it. */
typedef struct NmItem
{
	int64_t key;	  /* FIXED */
	bool isnull;	  /* FIXED: key is NULL; key ignored */
	uint8_t tag;	  /* GENERAL, the user's, <= NM_TAG_MAX */
	uint64_t head;	  /* GENERAL, 0 if the user has no heads */
	const void *data; /* GENERAL, MAXALIGNed when shown */
	uint32_t len;	  /* GENERAL, bytes, <= NM_MAX_KEY_SIZE */
	const void *form; /* GENERAL, the user's own form of the key, handed on to
					   * the comparator; NULL in what the tree shows */
} NmItem;

#define NM_TAG_MAX 7

/* GENERAL: order of two keys, TID not considered. <0, 0, >0. */
typedef int (*NmCompare)(void *arg, const NmItem *a, const NmItem *b);

/*
 * A place in key space: before, among or after the entries equal to a bound.
 * Three ways to say the bound:
 *	 cmp == NULL	compare with item (FIXED: integers; GENERAL: tree->compare)
 *	 cmp != NULL	cmp(arg, item) gives the sign of (item - bound); item is a
 *					private copy (works for both layouts: prefix and cross-type
 *					bounds).  head/head_valid may give the bound's head when every key
 *					with a smaller (larger) head is before (after) the bound.
 * Ties by TID: entries with tid < this one are before the place, entries with
 * tid >= it are after.  NM_TID_MIN = before all equal ones; NM_TID_MAX = after
 * all equal ones.
 * infinite < 0: before everything; > 0: after everything.
 */
typedef struct NmBound
{
	int infinite;
	NmItem item;
	int (*cmp)(void *arg, const NmItem *item);
	void *arg;
	bool head_valid; /* with cmp: item.head is usable */
	uint64_t tid;
} NmBound;

/* Field by field, since as a whole it would be cleared by a slow string instruction. */
static inline void
nm_bound_clear(NmBound *bound)
{
	bound->infinite = 0;
	bound->item.key = 0;
	bound->item.isnull = false;
	bound->item.tag = 0;
	bound->item.head = 0;
	bound->item.data = NULL;
	bound->item.len = 0;
	bound->item.form = NULL;
	bound->cmp = NULL;
	bound->arg = NULL;
	bound->head_valid = false;
	bound->tid = NM_TID_MIN;
}

/* The place at (item, tid). */
static inline void
nm_bound_at(NmBound *bound, const NmItem *item, uint64_t tid)
{
	nm_bound_clear(bound);
	bound->item = *item;
	bound->tid = tid;
}

/* Process-local handle; one operation at a time. Lives as long as its user. */
typedef struct NmTree
{
	NmPool *pool;
	NmTreeShared *shared;
	uint64_t tree_id; /* expected; operations say NM_GONE on another */
	NmLayout layout;
	NmCompare compare; /* GENERAL only */
	void *compare_arg;
	bool use_heads;			/* items' heads are meaningful */
	bool leave_epoch;		/* comparator may run foreign code */
	int arena;				/* where new pages go (inserter's node) */
	NmPoolError pool_error; /* after NM_NO_MEMORY */
	int pool_errno;
	void *scratch; /* the tree's; set by nm_tree_open */

	/*
	 * For users who lock leaves (README, section 13).  They go by lock ids, the
	 * lower halves of logical ids, never 0.  After a split or an unlink places
	 * that belonged to leaf "from" belong to leaf "to": whoever has a lock on
	 * the former must get one on the latter.  Called with nothing held; may
	 * raise, and is called again then by the next who needs it.  Either all
	 * handles that write to a tree have it or none.
	 */
	void (*pass_locks)(void *arg, uint32_t from, uint32_t to);
	void *pass_locks_arg;

	/*
	 * Set by nm_tree_insert (NM_OK, NM_EXISTS) and nm_tree_first_leaf: the
	 * leaf's lock id, and the one whose locks may not have been passed on to it
	 * yet, or 0.
	 */
	uint32_t leaf_id;
	uint32_t leaf_origin;
} NmTree;

/*
 * Fill a handle for a tree whose shared part is ready (any state).  scratch
 * must point to nm_tree_scratch_size() bytes, MAXALIGNed, owned by the caller
 * and as long-lived as the handle.  layout, compare, compare_arg, use_heads,
 * leave_epoch and arena are the caller's to set before the first operation.
 */
extern size_t nm_tree_scratch_size(void);
extern void nm_tree_open(NmTree *tree, NmPool *pool, NmTreeShared *shared, void *scratch);

/*
 * Give back pages that an insert broken off by an error left in the handle's
 * stash.  Call before the handle's memory goes away.
 */
extern void nm_tree_close(NmTree *tree);

/*
 * Make an empty tree: a root leaf.  shared->layout, nulls_first, fillfactor
 * and merge must be set; assigns tree_id and publishes root last.  NM_OK or NM_NO_MEMORY.
 */
extern NmStatus nm_tree_create(NmTree *tree);

/*
 * Take the tree out of use: root becomes 0, later operations say NM_GONE.
 * Returns the old root word for nm_tree_free_pages, 0 if there was none.
 */
extern uint64_t nm_tree_detach(NmTreeShared *shared);

/*
 * Free every page of a detached tree.  The caller guarantees that no
 * operation on it is running: either by locks or because a grace period
 * (nm_pool_grace_token after detach) has passed.  Cannot fail, calls no
 * comparator, takes the pool lock.  layout is the tree's.
 */
extern void nm_tree_free_pages(NmPool *pool, NmLayout layout, uint64_t old_root);

/*
 * Bulk load bottom-up from entries in (key, TID) order into an unpublished
 * tree (root still 0; fields as for nm_tree_create).  Exact duplicates of
 * (key image or integer, TID) are dropped.  nm_bulk_finish publishes the tree
 * and assigns tree_id; nm_bulk_abort gives every page back.  Private until
 * finish: no locks.
 */
typedef struct NmBulk NmBulk;
extern size_t nm_bulk_size(void); /* bytes of caller's memory for an NmBulk */
extern void nm_bulk_begin(NmBulk *bulk, NmTree *tree, int arena);
extern NmStatus nm_bulk_add(NmBulk *bulk, const NmItem *item, uint64_t tid);
extern NmStatus nm_bulk_finish(NmBulk *bulk);
extern void nm_bulk_abort(NmBulk *bulk);

/*
 * The first leaf that may hold a key, as nm_tree_first_leaf found it.  It guards
 * an insert of that key, and spares the look for conflicts (nm_scan_guard) and
 * the insert their descents while the leaf has not changed.
 */
typedef struct NmGuard
{
	uint64_t lid; /* logical id */
	/* private to the tree from here */
	NmPageNo page;
	uint64_t version;
	uint64_t tree_id;
	int idx; /* entries before the key, of which that state of the leaf has none
			  * and no other leaf either; -1: not known */
} NmGuard;

/*
 * Insert (item, tid).  If guard is not NULL the entry goes in only if, in the
 * same version-lock section, the first leaf that may hold item's key is still
 * the one whose logical id is guard->lid; otherwise NM_STALE and no entry was added
 * (the leaf may have been split, by this very call even).
 * NM_OK, NM_EXISTS, NM_NO_MEMORY, NM_GONE, NM_STALE.  *leaf (may be NULL)
 * gets the page the entry went to, for sampling.
 */
extern NmStatus nm_tree_insert(NmTree *tree, const NmItem *item, uint64_t tid,
							   NmGuard *guard, NmPageNo *leaf);

/* The first leaf that may hold entries at or after the bound. */
extern NmStatus nm_tree_first_leaf(NmTree *tree, const NmBound *bound, NmGuard *guard);

/* Delete exactly (item, tid): undo of an insert. NM_OK or NM_NOT_FOUND. */
extern NmStatus nm_tree_delete(NmTree *tree, const NmItem *item, uint64_t tid);

/*
 * A batch of entries copied out of one leaf, in scan direction order index
 * 0..n-1.  Entries are a consistent picture of that leaf.
 */
#define NM_BATCH_DATA 16384 /* bytes for copied GENERAL keys */

typedef struct NmBatch
{
	int n;
	bool have_keys;	   /* GENERAL: heads, tags and bytes were copied */
	NmPageNo leaf;	   /* address hint, for sampling and kill */
	uint64_t lid;	   /* logical id of the leaf */
	uint64_t tree_id;  /* of the tree it came from */
	uint32_t removals; /* its removal counter at copy time */
	uint64_t tids[NM_LEAF_MAX_ENTRIES];
	union
	{
		int64_t keys[NM_LEAF_MAX_ENTRIES];	 /* FIXED */
		uint64_t heads[NM_LEAF_MAX_ENTRIES]; /* GENERAL */
	};
	int null_from,
		null_to;					   /* FIXED: indexes [from,to) are NULL */
	uint16_t off[NM_LEAF_MAX_ENTRIES]; /* GENERAL: offset in data / 8; entries with
										* the same key image may share them */
	uint16_t len[NM_LEAF_MAX_ENTRIES]; /* GENERAL */
	uint8_t tags[NM_LEAF_MAX_ENTRIES]; /* GENERAL */
	uint64_t data[NM_BATCH_DATA / 8];
} NmBatch;

/* Key of entry i of a batch; its bytes are the batch's. */
static inline void
nm_batch_item(const NmBatch *batch, NmLayout layout, int i, NmItem *item)
{
	item->form = NULL;
	if (layout == NM_LAYOUT_FIXED)
	{
		item->key = batch->keys[i];
		item->isnull = i >= batch->null_from && i < batch->null_to;
		item->tag = 0;
		item->head = 0;
		item->data = NULL;
		item->len = 0;
		return;
	}
	item->key = 0;
	item->isnull = false;
	item->tag = batch->tags[i];
	item->head = batch->heads[i];
	item->data = &batch->data[batch->off[i]];
	item->len = batch->len[i];
}

typedef enum NmDirection
{
	NM_FORWARD = 1,
	NM_BACKWARD = -1
} NmDirection;

/*
 * A scan from one bound towards another.  start and end are places; a forward
 * scan yields entries in [start, end), a backward scan the same set from the
 * high side.  Both bounds (and what they point to) must live as long as the
 * scan is used.
 */
typedef struct NmScan
{
	NmTree *tree;
	NmDirection dir;
	const NmBound *lo;
	const NmBound *hi;
	bool keys_wanted; /* GENERAL: copy key bytes into the batch */
	bool with_killed; /* show killed entries too */
	int most;		  /* entries wanted in a batch, 0 = what the leaf has; for callers
					   * that know how many they want, which PostgreSQL does not tell */

	/*
	 * Called with the lock id of every leaf that the scan reads, before it is
	 * read, empty ones included, with nothing held; may raise.  May be NULL.
	 */
	void (*lock_leaf)(void *arg, uint32_t id);
	void *lock_leaf_arg;
	/* private to the tree from here */
	uint64_t locked_lid; /* leaf locked last */
	uint64_t locked_tree;
	bool started;
	bool done;
	NmPageNo hint_page;
	uint64_t hint_version;
	uint64_t hint_tree; /* tree id it belongs to */
	NmPageNo hint_next;
	NmPageNo leaf_page; /* leaf read last, for nm_scan_next_range */
	uint64_t leaf_version;
	uint64_t leaf_tree;
	int leaf_misses; /* ranges in a row that began elsewhere */
	int leaf_skip;	 /* ranges not to look for there */
	int hint_idx;	 /* entries of hint_next that are before the fence */
	NmGuard *guard;	 /* see nm_scan_guard */
	bool fence_valid;
	NmItem fence; /* where the next leaf begins (or ends) */
	uint64_t fence_tid;
	uint64_t fence_buf[(NM_MAX_KEY_SIZE + 8) / 8];
} NmScan;

extern void nm_scan_init(NmScan *scan, NmTree *tree, NmDirection dir,
						 const NmBound *lo, const NmBound *hi);

/*
 * For a forward scan not yet begun whose bounds are all places of one key, from
 * (key, NM_TID_MIN) to (key, NM_TID_MAX), the former being what the guard was
 * found by: begin in the guard's leaf while that has not changed, and if there
 * is no entry, tell the guard where one would be.
 */
extern void nm_scan_guard(NmScan *scan, NmGuard *guard);

/*
 * Go on with another range: the bounds have got new contents.  As
 * nm_scan_init, except that the leaf read last is looked at before a descent is
 * made, which pays when the ranges come in the scan's order.
 */
extern void nm_scan_next_range(NmScan *scan);

/*
 * Where a scan is, as plain bytes: another process may go on from there with a
 * scan of the same tree, direction and bounds.  What is in it is the tree's
 * business.
 */
typedef struct NmScanPosition
{
	bool started;
	bool done;
	bool isnull;
	uint8_t tag;
	uint32_t len;
	NmPageNo hint_page;
	NmPageNo hint_next;
	int hint_idx;
	uint64_t hint_version;
	uint64_t hint_tree;
	int64_t key;
	uint64_t head;
	uint64_t tid;
	uint64_t data[(NM_MAX_KEY_SIZE + 7) / 8];
} NmScanPosition;

extern void nm_scan_export(const NmScan *scan, NmScanPosition *pos);
extern void nm_scan_import(NmScan *scan, const NmScanPosition *pos);

/*
 * Next batch; NM_OK with batch->n > 0, NM_END, or NM_GONE (position kept: may
 * be continued on a newly loaded tree by setting scan->tree and calling again).
 */
extern NmStatus nm_scan_next(NmScan *scan, NmBatch *batch);

/*
 * Place the scan right after (forward) or before (backward) the given entry,
 * whatever the direction it came from: for mark/restore and turning round.
 * (item, tid) is copied.
 */
extern void nm_scan_reposition(NmScan *scan, NmDirection dir, const NmItem *item, uint64_t tid);

/*
 * Does the leaf that the batch came from still have the same removal counter?
 * True means that no entry was removed from it since the copy.
 */
extern bool nm_batch_unremoved(NmTree *tree, const NmBatch *batch);

/*
 * Mark entries batch->tids[idx[0..n-1]] dead, if logical id and removal
 * counter of the leaf are those of the batch.  Returns how many were marked.
 */
extern int nm_tree_kill(NmTree *tree, const NmBatch *batch, const int *idx, int n);

/*
 * Visit every entry exactly once in key order, whatever splits meanwhile, and
 * remove those for which dead() says true.  dead() runs with nothing held and
 * may raise.  tick() (may be NULL) runs between leaves: interrupts, cost
 * delay.  Empty leaves are unlinked.
 */
typedef struct NmVacuum
{
	bool (*dead)(void *arg, uint64_t tid);
	void (*tick)(void *arg);
	void *arg;
	/* out */
	int64_t visited,
		removed,
		leaves,
		pages_deleted;
} NmVacuum;
extern NmStatus nm_tree_vacuum(NmTree *tree, NmVacuum *vac);

/*
 * Relocate leaves (level 0) or inner pages in parent order; calls no
 * comparator, so a process without the index's types can run it.  want() is
 * asked for every page of that level, with nothing held, and gives the target
 * arena or -1.  A call ends at the first parent page after max_pages
 * relocations (so up to 222 more); *job keeps the position, done is set at the
 * end.  No system call under a lock.
 */
typedef struct NmRelocate
{
	int level; /* 0 = leaves */
	int (*want)(void *arg, NmPageNo page, uint64_t lid);
	void *arg;
	int max_pages;
	bool always; /* copy a page that is on its node already, too */
	/* in/out */
	bool done;
	NmPageNo parent; /* resume point, 0 = from the start */
	uint64_t parent_lid;
	NmPageNo left_parent; /* the one before it, most likely, or 0 */
	/* out, added up over calls */
	int64_t asked,
		moved,
		already,
		busy, /* could not be locked or linked now */
		nomem;
} NmRelocate;
extern NmStatus nm_tree_relocate(NmTree *tree, NmRelocate *job);

/* What nm_tree_stats counts by walking the tree (no comparator). */
typedef struct NmTreeStats
{
	int height; /* levels, 1 = root is a leaf */
	int64_t leaves,
		inner,
		overflow,
		entries,
		killed;
	int64_t free_bytes;					  /* in leaves */
	int64_t pages_by_arena[NM_MAX_NODES]; /* all kinds */
	int64_t leaves_by_arena[NM_MAX_NODES];
} NmTreeStats;
extern NmStatus nm_tree_stats(NmTree *tree, NmTreeStats *stats, void (*tick)(void *), void *arg);

/*
 * Structural check: order inside and between pages, high keys, right links,
 * levels, parent and child bounds, TIDs, logical ids, and the counters of
 * entries and pages.  Judges validated copies only, so it may run beside
 * writers.  What may go on meanwhile:
 *
 * NM_CHECK_ANY_TIME	anything.  NM_STALE means that no fault was found, but the
 *						counters differ, or too much changed to tell.
 * NM_CHECK_NO_WRITERS	relocations and marks.  Counters that differ are a fault;
 *						NM_STALE means that a level moved too fast to be judged.
 * NM_CHECK_QUIET		nothing.
 *
 * Returns NM_CORRUPT with a sentence in msg.
 */
typedef enum NmCheckWhen
{
	NM_CHECK_ANY_TIME,
	NM_CHECK_NO_WRITERS,
	NM_CHECK_QUIET,
} NmCheckWhen;
extern NmStatus nm_tree_check(NmTree *tree, NmCheckWhen when, char *msg, size_t msglen,
							  void (*tick)(void *), void *arg);

/* True while this process holds any version lock; asserted false at errors. */
extern bool nm_version_locks_held(void);

#endif /* NM_BTREE_H */

/*-------------------------------------------------------------------------
 *
 * unique.c
 *	  Uniqueness: search, look into the heap, insert, with no gap between.
 *
 * nbtree closes the gap with the lock on the first leaf that may hold the key.
 * Here that leaf's logical id picks one of NM_NUM_STRIPES LWLocks, which is
 * held exclusively over search, heap check and insert.  The leaf may split
 * between finding its id and inserting; then another process may hold another
 * stripe for the same key.  So the id is given to the insert as a guard: the
 * entry goes in only if, in the version-lock section that inserts, that leaf is
 * still the first one for the key.  Of two processes that took different
 * stripes for one key, at most one has the id that is right at its insert, and
 * the other starts over.
 *
 * Who has to wait for another transaction has no entry meanwhile (see below).
 *
 * Locks: at most one stripe, never while waiting for a transaction or for a
 * load; below it only heap buffers, the pool, and NM_LOCK_REGISTRY.  Where
 * comparisons are a user's code, they run under the stripe like all others, and
 * a stripe is a heavyweight lock instead.
 *
 * IDENTIFICATION
 *	  src/am/unique.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"
#include "am/unique.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "migrator/migrator.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

typedef enum NmVerdict
{
	NM_UNIQUE,	  /* no conflict: insert */
	NM_CONFLICT,  /* PARTIAL: possibly not unique */
	NM_DUPLICATE, /* definite: raise */
	NM_WAIT,	  /* for *xwait, then start over */
	NM_RETRY	  /* the tree went away: start over */
} NmVerdict;

static NmVerdict check_conflicts(NmIndex *idx, NmTree *tree, Relation heap,
								 const NmItem *item, ItemPointer tid, NmGuard *guard,
								 IndexUniqueCheck check, bool *found,
								 TransactionId *xwait, uint32 *token);
static NmVerdict check_row(Relation heap, ItemPointer tid, uint64 other,
						   IndexUniqueCheck check, bool *dead, bool *being_inserted,
						   TransactionId *xwait, uint32 *token);
static void report_violation(NmIndex *idx, Relation index, Relation heap,
							 const NmItem *item) __attribute__((noreturn));
static inline int stripe_of(NmIndex *idx, uint64 lid);
static inline void lock_stripe(NmIndex *idx, Relation index, int stripe);
static inline void unlock_stripe(NmIndex *idx, Relation index, int stripe);
static void held_up_here(NmIndex *idx, uint64 tid);
static bool held_up_before(NmIndex *idx, uint64 tid);

/* Has this process an entry in the list? */
static bool held_up = false;

static inline int
stripe_of(NmIndex *idx, uint64 lid)
{
	uint64 h = (lid + idx->slot->identity) * UINT64CONST(0x9E3779B97F4A7C15);

	return (int) ((h >> 32) % NM_NUM_STRIPES);
}

static inline void
lock_stripe(NmIndex *idx, Relation index, int stripe)
{
	if (unlikely(idx->desc.foreign))
		nm_lock_stripe(index, stripe);
	else
		LWLockAcquire(NmLock(NM_LOCK_STRIPE0 + stripe), LW_EXCLUSIVE);
}

static inline void
unlock_stripe(NmIndex *idx, Relation index, int stripe)
{
	if (unlikely(idx->desc.foreign))
		nm_unlock_stripe(index, stripe);
	else
		LWLockRelease(NmLock(NM_LOCK_STRIPE0 + stripe));
}

/*
 * Rows that are held up: README, "Own entries".  Looked at and written only
 * where somebody is about to wait anyway.
 */
static void
held_up_here(NmIndex *idx, uint64 tid)
{
	NmHeldUp *row = &nm_held_up_rows()[nm_my_slot()];

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	row->db = MyDatabaseId;
	row->heapoid = idx->heapoid;
	row->indexoid = idx->indexoid;
	row->tid = tid;
	held_up = true;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

void
nm_held_up_clear(void)
{
	if (!held_up)
		return;
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	nm_held_up_rows()[nm_my_slot()].db = InvalidOid;
	held_up = false;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

/*
 * Is the insert of a row, whose transaction is running, held up in an index
 * that comes before this one?  Core inserts into a table's indexes in the order
 * of their OIDs.
 */
static bool
held_up_before(NmIndex *idx, uint64 tid)
{
	const NmHeldUp *rows = nm_held_up_rows();
	bool found = false;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
	for (int i = 0; i < nm_registry->nprocs && !found; i++)
		found = rows[i].db == MyDatabaseId && rows[i].heapoid == idx->heapoid &&
				rows[i].tid == tid && rows[i].indexoid < idx->indexoid;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	return found;
}

bool
nm_insert_unique(NmIndex *idx, Relation index, Relation heap,
				 const NmItem *item, ItemPointer tid, IndexUniqueCheck check)
{
	uint64 t = nm_tid_encode(tid);
	NmBound first;

	if (idx->batch == NULL)
		idx->batch = MemoryContextAlloc(TopMemoryContext, sizeof(NmBatch));

	nm_bound_at(&first, item, NM_TID_MIN);

	for (;;)
	{
		NmTree *tree = nm_index_tree(idx);
		NmGuard guard;
		int stripe;
		NmVerdict verdict;
		NmStatus st = NM_OK;
		NmPageNo leaf = NM_NO_PAGE;
		bool found = false;
		TransactionId xwait = InvalidTransactionId;
		uint32 token = 0;

		CHECK_FOR_INTERRUPTS();

		/*
		 * Whatever the state, uniqueness needs all entries.  The row being
		 * added is left out by the load; a deferred recheck's row is an old
		 * one and must be there.
		 */
		if (tree == NULL)
			tree = nm_index_load(idx, index, heap,
								 check == UNIQUE_CHECK_EXISTING ? NULL : tid);
		if (index->rd_options)
			tree->arena = nm_index_arena(index);

		st = nm_tree_first_leaf(tree, &first, &guard);
		if (st == NM_GONE || st == NM_STALE)
			continue;
		if (st != NM_OK)
			elog(ERROR, "unexpected status %d while searching index \"%s\"",
				 (int) st, RelationGetRelationName(index));

		NM_STOP("unique-leaf");
		stripe = stripe_of(idx, guard.lid);
		lock_stripe(idx, index, stripe);

		verdict = check_conflicts(idx, tree, heap, item, tid, &guard, check, &found, &xwait, &token);
		NM_STOP("unique-checked");
		if (verdict == NM_UNIQUE || verdict == NM_CONFLICT)
		{
			if (check != UNIQUE_CHECK_EXISTING)
				st = nm_tree_insert(tree, item, t, &guard, &leaf);
		}
		else if (verdict == NM_WAIT && check != UNIQUE_CHECK_EXISTING)
		{
			/*
			 * A load may have met this row in the heap before we came here, and
			 * the other one's row too.  Two rows that both have an entry would
			 * make both inserters wait, for each other; so who waits has none,
			 * as in nbtree.  The row is ours and not committed: nobody misses
			 * the entry.
			 */
			held_up_here(idx, t);
			(void) nm_tree_delete(tree, item, t);
		}
		unlock_stripe(idx, index, stripe);

		switch (verdict)
		{
			case NM_UNIQUE:
			case NM_CONFLICT:
				break;
			case NM_DUPLICATE:
				/* a conflict that the violation would hide comes first */
				nm_predicate_check_insert(idx, index, heap);
				report_violation(idx, index, heap, item);
				break; /* not reached */
			case NM_WAIT:
				NM_STOP("unique-wait");
				if (token)
					SpeculativeInsertionWait(xwait, token);
				else
					XactLockTableWait(xwait, index, tid, XLTW_InsertIndex);
				continue;
			case NM_RETRY:
				continue;
		}

		if (check == UNIQUE_CHECK_EXISTING)
		{
			if (!found)
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("failed to re-find tuple within index \"%s\"",
								RelationGetRelationName(index)),
						 errhint("This may be because of a non-immutable index expression."),
						 errtableconstraint(heap, RelationGetRelationName(index))));
			return true;
		}

		switch (st)
		{
			case NM_OK:
			case NM_EXISTS:
				nm_held_up_clear();
				nm_sample_leaf(leaf);
				nm_count(idx, 0, 1, 0);
				nm_predicate_check_insert(idx, index, heap);
				return verdict == NM_UNIQUE;
			case NM_GONE:
			case NM_STALE:
				break;
			case NM_NO_MEMORY:
				nm_report_no_memory(tree->pool_error, tree->pool_errno);
				break; /* not reached */
			default:
				elog(ERROR, "unexpected status %d while inserting into index \"%s\"",
					 (int) st, RelationGetRelationName(index));
		}
	}
}

/*
 * Look at every row with an equal key.  The caller holds the stripe.  *found
 * is set when the own row's entry is there.  If nobody has the key, the guard
 * learns where in its leaf the entry goes.
 */
static NmVerdict
check_conflicts(NmIndex *idx, NmTree *tree, Relation heap, const NmItem *item,
				ItemPointer tid, NmGuard *guard, IndexUniqueCheck check, bool *found,
				TransactionId *xwait, uint32 *token)
{
	NmBatch *batch = idx->batch;
	NmScan scan;
	NmBound lo;
	NmBound hi;
	uint64 own = nm_tid_encode(tid);
	NmVerdict verdict = NM_UNIQUE;
	bool finished = false;

	nm_bound_at(&lo, item, NM_TID_MIN);
	nm_bound_at(&hi, item, NM_TID_MAX);

	nm_scan_init(&scan, tree, NM_FORWARD, &lo, &hi);
	nm_scan_guard(&scan, guard);
	scan.keys_wanted = false;
	scan.with_killed = false;

	while (!finished)
	{
		NmStatus st = nm_scan_next(&scan, batch);
		int dead[NM_LEAF_MAX_ENTRIES];
		int ndead = 0;

		if (st == NM_END)
			break;
		if (st != NM_OK)
			return NM_RETRY;

		for (int i = 0; i < batch->n && !finished; i++)
		{
			bool isdead = false;
			bool being_inserted = false;

			/* the own row's entry: a load or CREATE INDEX CONCURRENTLY put it in */
			if (batch->tids[i] == own)
			{
				*found = true;
				continue;
			}

			verdict = check_row(heap, tid, batch->tids[i], check, &isdead, &being_inserted,
								xwait, token);
			/* a load has put it in; its own insert will come here and see ours */
			if (verdict == NM_WAIT && being_inserted && held_up_before(idx, batch->tids[i]))
				verdict = NM_UNIQUE;
			if (verdict != NM_UNIQUE)
				finished = true;
			if (isdead)
				dead[ndead++] = i;
		}

		/* rows that are dead to everyone need no second look by the next one */
		if (ndead > 0)
			nm_tree_kill(tree, batch, dead, ndead);
	}

	/*
	 * A definite conflict doesn't count if the row to be added is dead itself:
	 * CREATE INDEX CONCURRENTLY adds rows that may have been deleted since.
	 * HOT chains are followed: it inserts the root's TID.
	 */
	if (verdict == NM_DUPLICATE)
	{
		ItemPointerData mine = *tid;

		if (!table_index_fetch_tuple_check(heap, &mine, SnapshotSelf, NULL))
			verdict = NM_UNIQUE;
	}
	return verdict;
}

/* Is the row at other, which has the same key, in the way? */
static NmVerdict
check_row(Relation heap, ItemPointer tid, uint64 other, IndexUniqueCheck check,
		  bool *dead, bool *being_inserted, TransactionId *xwait, uint32 *token)
{
	SnapshotData dirty;
	ItemPointerData htid;

	InitDirtySnapshot(dirty);
	nm_tid_decode(other, &htid);
	if (!table_index_fetch_tuple_check(heap, &htid, &dirty, dead))
		return NM_UNIQUE;

	/* a partial check doesn't wait: core checks again later */
	if (check == UNIQUE_CHECK_PARTIAL)
		return NM_CONFLICT;

	*being_inserted = TransactionIdIsValid(dirty.xmin);
	*xwait = *being_inserted ? dirty.xmin : dirty.xmax;
	if (TransactionIdIsValid(*xwait))
	{
		*token = dirty.speculativeToken;
		return NM_WAIT;
	}
	return NM_DUPLICATE;
}

/* No lock held: describing the key reads catalogs. */
static void
report_violation(NmIndex *idx, Relation index, Relation heap, const NmItem *item)
{
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];
	char *key;

	nm_deform_item(&idx->desc, item, values, isnull);
	key = BuildIndexValueDescription(index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("duplicate key value violates unique constraint \"%s\"",
					RelationGetRelationName(index)),
			 key ? errdetail("Key %s already exists.", key) : 0,
			 errtableconstraint(heap, RelationGetRelationName(index))));
}

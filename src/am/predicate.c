/*-------------------------------------------------------------------------
 *
 * predicate.c
 *	  Predicate locks of serializable transactions, at leaf grain.
 *
 * A lock names a logical leaf where nbtree's names a block: the leaf keeps its
 * id through relocation, and an unload moves the locks to the heap relation.
 *
 * A reader locks a leaf, then reads it.  A writer puts its entry in, then looks
 * for locks on that leaf: nbtree looks before, with the page locked, which
 * can't be done under a version lock.  README.md, "Serializable transactions",
 * argues why nothing is missed.
 *
 * IDENTIFICATION
 *	  src/am/predicate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "storage/predicate.h"

static BlockNumber leaf_block(uint32 id);

/*
 * A lock's page number may be anything but the value that means "the whole
 * relation", a lock id anything but 0.
 */
static BlockNumber
leaf_block(uint32 id)
{
	return id == InvalidBlockNumber ? 0 : (BlockNumber) id;
}

/* NmScan.lock_leaf; arg is the IndexScanDesc. */
void
nm_predicate_lock_leaf(void *arg, uint32 id)
{
	IndexScanDesc scan = (IndexScanDesc) arg;

	PredicateLockPage(scan->indexRelation, leaf_block(id), scan->xs_snapshot);
}

/*
 * NmTree.pass_locks; arg is the NmIndex.  Does nothing fast when no
 * serializable transaction is about.
 */
void
nm_predicate_pass(void *arg, uint32 from, uint32 to)
{
	NmIndex *idx = (NmIndex *) arg;
	Relation index;

	/* ids that come again after 2^32 of them */
	if (from == to)
		return;
	/* whoever writes to the tree has it open and locked */
	index = RelationIdGetRelation(idx->indexoid);
	if (!RelationIsValid(index))
		elog(ERROR, "could not open index with OID %u", idx->indexoid);
	PredicateLockPageSplit(index, leaf_block(from), leaf_block(to));
	RelationClose(index);
}

/*
 * Before a slot is made for an index: predicate locks that its leaves had in an
 * earlier life, which only a prepared transaction can have brought over a
 * restart, go to the heap relation.  No LWLock is held.
 */
void
nm_predicate_forget_leaves(NmIndex *idx)
{
	Relation index = RelationIdGetRelation(idx->indexoid);

	if (!RelationIsValid(index))
		return;
	TransferPredicateLocksToHeapRelation(index);
	RelationClose(index);
}

/*
 * Conflicts of an insert that is done: its entry is in the leaf that idx->tree
 * names or, if that is 0, left to whoever loads the tree.  Raises 40001.
 *
 * Leaves first, then the heap relation, where an unload moves their locks all
 * at once: they are found here or there.
 */
void
nm_predicate_check_insert(NmIndex *idx, Relation index, Relation heap)
{
	if (!IsolationIsSerializable())
		return;

	pg_memory_barrier();
	if (idx->tree.leaf_id != 0)
	{
		CheckForSerializableConflictIn(index, NULL, leaf_block(idx->tree.leaf_id));
		if (idx->tree.leaf_origin != 0)
			CheckForSerializableConflictIn(index, NULL, leaf_block(idx->tree.leaf_origin));
	}
	else if (idx->slot->unloading)
	{
		/* not moved yet, perhaps: who unloads holds the load lock until then */
		nm_lock_load(index);
		nm_unlock_load(index);
	}
	CheckForSerializableConflictIn(heap, NULL, InvalidBlockNumber);
}

/*-------------------------------------------------------------------------
 *
 * lifecycle.c
 *	  Trees follow transactions: build, drop, rebuild, commit, abort, prepare.
 *
 * What is to be dropped at the end is kept in a local list, each entry with the
 * transaction nest level whose abort decides:
 *	- at commit: an index that was dropped, and the former storage of one that
 *	  was rebuilt or moved; abort of that level forgets the entry;
 *	- at abort: what was made for storage that this transaction created.
 * A level's commit hands its entries to the level above.  Entries are allocated
 * when they are made: nothing that happens at commit or abort can raise.
 *
 * PREPARE TRANSACTION forgets everything, since COMMIT PREPARED runs elsewhere
 * and tells no one: the sweep finds the files that are gone (registry.c).
 *
 * IDENTIFICATION
 *	  src/am/lifecycle.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#if PG_VERSION_NUM >= 160000
#include "utils/relfilenumbermap.h"
#define RelidByStorage(spc, rel) RelidByRelfilenumber(spc, rel)
#else
#include "utils/relfilenodemap.h"
#define RelidByStorage(spc, rel) RelidByRelfilenode(spc, rel)
#endif

struct NmPendingDrop
{
	slist_node node;
	NmSlot *slot;
	uint64 serial;
	int nest;
	bool at_commit;	   /* else at abort */
	bool concurrently; /* DROP INDEX CONCURRENTLY: several transactions */
	bool if_moved;	   /* altered: drop if the storage is no longer its */
	bool table_moved;  /* the table has other storage until an abort */
	bool due;		   /* the index is gone now */
	Oid new_owner;	   /* index that took the storage over */
};

static slist_head pending_drops = SLIST_STATIC_INIT(pending_drops);
static object_access_hook_type prev_object_access_hook = NULL;

static void finish_drops(bool commit, int nest);
static void resolve_drops(void);

/* Allocate an entry before the step that needs it. */
NmPendingDrop *
nm_pending_make(void)
{
	return MemoryContextAllocZero(TopMemoryContext, sizeof(NmPendingDrop));
}

static void
pending_push(NmPendingDrop *p, NmSlot *slot, uint64 serial, bool at_commit)
{
	p->slot = slot;
	p->serial = serial;
	p->nest = GetCurrentTransactionNestLevel();
	p->at_commit = at_commit;
	slist_push_head(&pending_drops, &p->node);
	if (at_commit && !p->if_moved)
		nm_slot_set_pending(slot, serial, true);
}

void
nm_pending_drop_at_commit(NmPendingDrop *p, NmSlot *slot, uint64 serial)
{
	pending_push(p, slot, serial, true);
}

void
nm_pending_drop_at_abort(NmPendingDrop *p, NmSlot *slot, uint64 serial, bool table_moved)
{
	p->table_moved = table_moved;
	pending_push(p, slot, serial, false);
}

/*
 * ---------------------------------------------------------------------
 * Build
 * ---------------------------------------------------------------------
 */

NmIndex *
nm_build_begin(Relation heap, Relation index)
{
	NmIndex *idx;
	NmPendingDrop *undo;
	uint64 identity;

	nm_require_preload("build the index");
	if (heap->rd_tableam != GetHeapamTableAmRoutine())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" supports heap tables only", NM_AM_NAME),
				 errdetail("Table \"%s\" uses another table access method.",
						   RelationGetRelationName(heap))));
	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	identity = nm_meta_new_identity();
	nm_meta_write(index, MAIN_FORKNUM, identity);

	idx = nm_index_local(index, identity);
	undo = nm_pending_make();
	nm_slot_begin_build(idx);
	nm_pending_drop_at_abort(undo, idx->slot, idx->serial, false);

	/* what the index had before goes when this transaction commits */
	for (;;)
	{
		NmPendingDrop *pending = nm_pending_make();
		NmSlot *old;
		uint64 serial = 0;

		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
		for (old = nm_slot_first_by_oid(idx->key.db, idx->indexoid); old != NULL;
			 old = nm_slot_next_by_oid(old))
		{
			if (old != idx->slot && !old->pending_drop)
			{
				serial = old->serial;
				break;
			}
		}
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		if (old == NULL)
		{
			pfree(pending);
			break;
		}
		nm_pending_drop_at_commit(pending, old, serial);
	}

	nm_index_prepare_tree(idx, index);
	return idx;
}

void
nm_build_finish(NmIndex *idx, Relation index)
{
	NmSlot *slot = idx->slot;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	if (slot->serial != idx->serial ||
		pg_atomic_read_u32(&slot->state) != NM_STATE_BUILDING)
	{
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		elog(ERROR, "index \"%s\" was taken out of memory while it was built",
			 RelationGetRelationName(index));
	}
	slot->load_count++;
	slot->load_time = GetCurrentTimestamp();
	slot->last_lid = Max(slot->last_lid, slot->tree.next_lid);
	pg_atomic_write_u64(&slot->load_tuples, (uint64) slot->tree.nentries);
	nm_slot_set_state(slot, NM_STATE_LOADED);
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	idx->load_count = 0;
}

/*
 * ---------------------------------------------------------------------
 * Drop
 * ---------------------------------------------------------------------
 */

/* Runs before the object is removed.  The index may have had several storages. */
static void
queue_drop(Oid indexoid, int dropflags)
{
	for (;;)
	{
		NmPendingDrop *pending = nm_pending_make();
		NmSlot *slot;
		uint64 serial = 0;

		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
		for (slot = nm_slot_first_by_oid(MyDatabaseId, indexoid); slot != NULL;
			 slot = nm_slot_next_by_oid(slot))
		{
			if (!slot->pending_drop)
			{
				serial = slot->serial;
				break;
			}
		}
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		if (slot == NULL)
		{
			pfree(pending);
			return;
		}
		pending->concurrently = (dropflags & PERFORM_DELETION_CONCURRENTLY) != 0;
		nm_pending_drop_at_commit(pending, slot, serial);
	}
}

/*
 * An index was altered.  SET TABLESPACE gives it other storage and tells nobody
 * else; whether it was that is seen before commit.
 */
static void
queue_if_moved(Oid indexoid)
{
	NmPendingDrop *pending = nm_pending_make();
	NmSlot *slot;
	uint64 serial = 0;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
	slot = nm_slot_first_by_oid(MyDatabaseId, indexoid);
	while (slot != NULL &&
		   (slot->pending_drop || slot->key.backend != NM_INVALID_BACKEND))
		slot = nm_slot_next_by_oid(slot);
	if (slot != NULL)
		serial = slot->serial;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	if (slot == NULL)
		pfree(pending);
	else
	{
		pending->if_moved = true;
		nm_pending_drop_at_commit(pending, slot, serial);
	}
}

/*
 * Does this alteration of a table give it other storage?  To be asked when
 * pg_class is updated and that is not visible yet.
 */
static bool
table_moves(Oid tableoid)
{
	HeapTuple before = SearchSysCache1(RELOID, ObjectIdGetDatum(tableoid));
	HeapTuple after;
	Relation rel;
	ScanKeyData key;
	SysScanDesc scan;
	bool moves;

	if (!HeapTupleIsValid(before))
		return false;
	rel = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(tableoid));
	scan = systable_beginscan(rel, ClassOidIndexId, true, SnapshotSelf, 1, &key);
	after = systable_getnext(scan);
	moves = HeapTupleIsValid(after) &&
			((Form_pg_class) GETSTRUCT(after))->relfilenode !=
				((Form_pg_class) GETSTRUCT(before))->relfilenode;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	ReleaseSysCache(before);
	return moves;
}

/*
 * SET TABLESPACE of a table copies its file and leaves its indexes as they are.
 * What this transaction then inserts lies in the new file alone.  If it aborts,
 * those rows are not dead but gone, and entries would point to what comes there
 * next.  (nbtree's do.)  So the trees go, too, and are loaded from the old file.
 */
static void
queue_for_moved_table(Oid tableoid)
{
	Relation table = RelationIdGetRelation(tableoid);
	List *indexes;
	ListCell *lc;

	if (!RelationIsValid(table))
		return;
	indexes = RelationGetIndexList(table);
	RelationClose(table);

	foreach (lc, indexes)
	{
		/* whatever storages it has had */
		for (int skip = 0;; skip++)
		{
			NmPendingDrop *pending = nm_pending_make();
			NmSlot *slot;
			uint64 serial = 0;
			int n = 0;

			LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
			slot = nm_slot_first_by_oid(MyDatabaseId, lfirst_oid(lc));
			while (slot != NULL && n++ < skip)
				slot = nm_slot_next_by_oid(slot);
			if (slot != NULL)
				serial = slot->serial;
			LWLockRelease(NmLock(NM_LOCK_REGISTRY));
			if (slot == NULL)
			{
				pfree(pending);
				break;
			}
			nm_pending_drop_at_abort(pending, slot, serial, true);
		}
	}
	list_free(indexes);
}

static void
nm_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);

	if (classId != RelationRelationId || subId != 0 || !nm_preloaded())
		return;
	if (access == OAT_DROP)
		queue_drop(objectId, arg ? ((ObjectAccessDrop *) arg)->dropflags : 0);
	else if (access == OAT_POST_ALTER)
	{
		char kind = get_rel_relkind(objectId);

		if (kind == RELKIND_INDEX)
			queue_if_moved(objectId);
		else if ((kind == RELKIND_RELATION || kind == RELKIND_MATVIEW) &&
				 !(arg && ((ObjectAccessPostAlter *) arg)->is_internal) && table_moves(objectId))
			queue_for_moved_table(objectId);
	}
}

/*
 * Before commit, where catalogs can still be read.
 *
 * ALTER TABLE ... TYPE that leaves the data as they are drops an index and
 * gives its storage to a new one: then the tree stays, under the new OID.
 *
 * DROP INDEX CONCURRENTLY ends two transactions while others still use the
 * index; its tree goes with the one that removes the catalog entry.
 */
static void
resolve_drops(void)
{
	slist_iter iter;

	slist_foreach(iter, &pending_drops)
	{
		NmPendingDrop *p = slist_container(NmPendingDrop, node, iter.cur);
		NmTreeKey key;
		Oid old_owner;
		Oid owner;

		if (!p->at_commit)
			continue;
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
		key = p->slot->key;
		old_owner = p->slot->indexoid;
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));

		if (p->concurrently)
			p->due = !SearchSysCacheExists1(RELOID, ObjectIdGetDatum(old_owner));
		if (key.backend != NM_INVALID_BACKEND || p->concurrently)
			continue;
		owner = RelidByStorage(key.spc, key.rel);
		if (p->if_moved)
			p->due = owner != old_owner;
		else if (OidIsValid(owner) && owner != old_owner)
			p->new_owner = owner;
	}
}

/*
 * The end of a transaction (nest 0) or of the abort of a subtransaction at
 * this nest level.
 */
static void
finish_drops(bool commit, int nest)
{
	slist_mutable_iter iter;

	slist_foreach_modify(iter, &pending_drops)
	{
		NmPendingDrop *p = slist_container(NmPendingDrop, node, iter.cur);

		if (p->nest < nest)
			continue;
		if (commit && p->concurrently && !p->due)
			continue;
		slist_delete_current(&iter);

		if (p->at_commit == commit)
		{
			if (commit && OidIsValid(p->new_owner))
				nm_slot_rename(p->slot, p->serial, p->new_owner);
			else if (!p->if_moved || p->due)
				(void) nm_slot_drop(p->slot, p->serial);
		}
		else if (p->at_commit && !p->if_moved)
			nm_slot_set_pending(p->slot, p->serial, false);
		pfree(p);
	}
}

/*
 * ---------------------------------------------------------------------
 * Transaction callbacks
 * ---------------------------------------------------------------------
 */

/* An error may have come out of the middle of a tree operation. */
static void
clean_up_tree_operation(void)
{
	Assert(!nm_version_locks_held());
	nm_epoch_reset(nm_pool);
	nm_held_up_clear();
}

static void
nm_xact_callback(XactEvent event, void *arg)
{
	if (!nm_preloaded())
		return;

	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			if (!slist_is_empty(&pending_drops))
				resolve_drops();
			break;

		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
			nm_unpin_all(0);
			if (!slist_is_empty(&pending_drops))
				finish_drops(true, 0);
			nm_launcher_unblock();
			break;

		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			clean_up_tree_operation();
			nm_unpin_all(0);
			nm_load_abort(0);
			nm_index_close_all();
			if (!slist_is_empty(&pending_drops))
				finish_drops(false, 0);
			nm_launcher_unblock();
			break;

		case XACT_EVENT_PREPARE:
			while (!slist_is_empty(&pending_drops))
			{
				NmPendingDrop *p = slist_container(NmPendingDrop, node,
												   slist_pop_head_node(&pending_drops));

				if (p->at_commit && !p->if_moved)
					nm_slot_set_pending(p->slot, p->serial, false);
				/* however it ends, the tree is loaded from what is then the table's */
				if (p->table_moved)
					(void) nm_slot_drop(p->slot, p->serial);
				pfree(p);
			}
			nm_unpin_all(0);
			nm_launcher_unblock();
			break;

		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			break;
	}
}

static void
nm_subxact_callback(SubXactEvent event, SubTransactionId mySubid,
					SubTransactionId parentSubid, void *arg)
{
	int nest;

	if (!nm_preloaded())
		return;

	nest = GetCurrentTransactionNestLevel();
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		clean_up_tree_operation();
		nm_unpin_all(nest);
		nm_load_abort(nest);
		if (!slist_is_empty(&pending_drops))
			finish_drops(false, nest);
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		slist_iter iter;

		slist_foreach(iter, &pending_drops)
		{
			NmPendingDrop *p = slist_container(NmPendingDrop, node, iter.cur);

			if (p->nest >= nest)
				p->nest = nest - 1;
		}
	}
}

void
nm_xact_install_callbacks(void)
{
	RegisterXactCallback(nm_xact_callback, NULL);
	RegisterSubXactCallback(nm_subxact_callback, NULL);
	prev_object_access_hook = object_access_hook;
	object_access_hook = nm_object_access;
}

/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Which index storage has a tree in memory, and in which state.
 *
 * A fixed array of slots in shared memory, found through two chained hash
 * tables: by storage (database, tablespace, relfilenumber, temp backend) and by
 * (database, index OID).  NM_LOCK_REGISTRY protects the chains, ownership of
 * slots, their state and the detached trees; state and serial are read without
 * it (README, "Reading a slot").
 *
 * A slot whose tree must not be used any more is taken out of both tables at
 * once and gets a new serial, so that every process notices; the pages follow
 * once the grace period has passed and nobody has the slot pinned.
 *
 * IDENTIFICATION
 *	  src/am/registry.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "am/life.h"

#include "common/hashfn.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

NmRegistry *nm_registry = NULL;

static int *buckets_key;
static int *buckets_oid;
static Oid *blocked_dbs;
static NmHeldUp *held_up;
static NmSlot *slots;

/* What an index has that is in no slot and gets none: not loaded, for ever. */
static NmSlot no_slot;

#define FULL_MS 60000

/* Slots this process has pinned: they must be given back at any error. */
#define MAX_PINNED 8
static NmSlot *pinned[MAX_PINNED];
static int pinned_nest[MAX_PINNED]; /* transaction nest level */
static int npinned = 0;
static bool pin_exit_registered = false;

static void slot_unhash(NmSlot *slot);
static bool slot_evictable(NmSlot *slot);
static bool storage_gone(const NmTreeKey *key);

/*
 * ---------------------------------------------------------------------
 * Shared memory
 * ---------------------------------------------------------------------
 */

static int
bucket_count(void)
{
	int n = 16;

	while (n < nm_max_trees)
		n *= 2;
	return n;
}

Size
nm_registry_shmem_size(void)
{
	Size size = MAXALIGN(sizeof(NmRegistry));

	size = add_size(size, MAXALIGN(mul_size(bucket_count(), 2 * sizeof(int))));
	size = add_size(size, MAXALIGN(mul_size(nm_process_slots(), sizeof(Oid))));
	size = add_size(size, MAXALIGN(mul_size(nm_process_slots(), sizeof(NmHeldUp))));
	size = add_size(size, mul_size(nm_max_trees, sizeof(NmSlot)));
	return size;
}

static void
slot_new(NmSlot *slot, NmState state)
{
	pg_atomic_init_u32(&slot->state, state);
	pg_atomic_init_u32(&slot->pins, 0);
	pg_atomic_init_u32(&slot->phase, NM_LOADING_COLLECT);
	pg_atomic_init_u64(&slot->load_blocks_total, 0);
	pg_atomic_init_u64(&slot->load_blocks_done, 0);
	pg_atomic_init_u64(&slot->load_tuples, 0);
	pg_atomic_init_u64(&slot->lookups, 0);
	pg_atomic_init_u64(&slot->inserts, 0);
	pg_atomic_init_u64(&slot->tuples_read, 0);
	slot->next_by_key = slot->next_by_oid = -1;
}

void
nm_registry_shmem_init(void *mem)
{
	char *p = mem;
	int n = bucket_count();

	nm_registry = (NmRegistry *) p;
	p += MAXALIGN(sizeof(NmRegistry));
	buckets_key = (int *) p;
	buckets_oid = buckets_key + n;
	p += MAXALIGN(2 * n * sizeof(int));
	blocked_dbs = (Oid *) p;
	p += MAXALIGN(nm_process_slots() * sizeof(Oid));
	held_up = (NmHeldUp *) p;
	p += MAXALIGN(nm_process_slots() * sizeof(NmHeldUp));
	slots = (NmSlot *) p;

	nm_registry->nslots = nm_max_trees;
	nm_registry->nbuckets = n;
	nm_registry->nprocs = nm_process_slots();
	nm_registry->next_serial = 1;
	nm_registry->full_at = 0;
	ConditionVariableInit(&nm_registry->flip_cv);
	for (int i = 0; i < n; i++)
		buckets_key[i] = buckets_oid[i] = -1;
	for (int i = 0; i < nm_max_trees; i++)
		slot_new(&slots[i], NM_STATE_FREE);
	slot_new(&no_slot, NM_STATE_NOT_LOADED);
}

/* Database whose loading a process forbids, by process slot. */
Oid *
nm_blocked_dbs(void)
{
	return blocked_dbs;
}

/* Rows whose insert is held up, by process slot. */
NmHeldUp *
nm_held_up_rows(void)
{
	return held_up;
}

/*
 * ---------------------------------------------------------------------
 * Finding slots; the caller holds NM_LOCK_REGISTRY
 * ---------------------------------------------------------------------
 */

void
nm_key_of(Relation index, NmTreeKey *key)
{
	key->db = nm_loc_db(nm_rel_locator(index));
	key->spc = nm_loc_spc(nm_rel_locator(index));
	key->rel = nm_loc_rel(nm_rel_locator(index));
	key->backend = nm_rel_backend(index);
}

static inline bool
key_equal(const NmTreeKey *a, const NmTreeKey *b)
{
	return a->rel == b->rel && a->db == b->db && a->spc == b->spc &&
		   a->backend == b->backend;
}

static inline int *
key_bucket(const NmTreeKey *key)
{
	uint32 h = hash_combine(murmurhash32(key->rel),
							hash_combine(murmurhash32(key->db),
										 murmurhash32(key->spc ^ ((uint32) key->backend << 8))));

	return &buckets_key[h & (nm_registry->nbuckets - 1)];
}

static inline int *
oid_bucket(Oid db, Oid indexoid)
{
	uint32 h = hash_combine(murmurhash32(db), murmurhash32(indexoid));

	return &buckets_oid[h & (nm_registry->nbuckets - 1)];
}

int
nm_slot_number(const NmSlot *slot)
{
	return (int) (slot - slots);
}

NmSlot *
nm_slot_find(const NmTreeKey *key)
{
	for (int i = *key_bucket(key); i >= 0; i = slots[i].next_by_key)
	{
		if (key_equal(&slots[i].key, key))
			return &slots[i];
	}
	return NULL;
}

static NmSlot *
oid_chain(int i, Oid db, Oid indexoid)
{
	for (; i >= 0; i = slots[i].next_by_oid)
	{
		if (slots[i].indexoid == indexoid && slots[i].key.db == db)
			return &slots[i];
	}
	return NULL;
}

NmSlot *
nm_slot_first_by_oid(Oid db, Oid indexoid)
{
	return oid_chain(*oid_bucket(db, indexoid), db, indexoid);
}

NmSlot *
nm_slot_next_by_oid(NmSlot *slot)
{
	return oid_chain(slot->next_by_oid, slot->key.db, slot->indexoid);
}

static void
chain_remove(int *head, int number, bool by_key)
{
	int *link = head;

	while (*link != number)
	{
		Assert(*link >= 0);
		link = by_key ? &slots[*link].next_by_key : &slots[*link].next_by_oid;
	}
	*link = by_key ? slots[number].next_by_key : slots[number].next_by_oid;
}

static void
slot_hash(NmSlot *slot)
{
	int *head;

	head = key_bucket(&slot->key);
	slot->next_by_key = *head;
	*head = nm_slot_number(slot);
	head = oid_bucket(slot->key.db, slot->indexoid);
	slot->next_by_oid = *head;
	*head = nm_slot_number(slot);
	slot->hashed = true;
}

static void
slot_unhash(NmSlot *slot)
{
	if (!slot->hashed)
		return;
	chain_remove(key_bucket(&slot->key), nm_slot_number(slot), true);
	chain_remove(oid_bucket(slot->key.db, slot->indexoid), nm_slot_number(slot), false);
	slot->hashed = false;
}

/*
 * ---------------------------------------------------------------------
 * Changing slots; the caller holds NM_LOCK_REGISTRY exclusively
 * ---------------------------------------------------------------------
 */

/*
 * Publish a state.  The barriers order it with what the caller did to the slot
 * and to the heap before, and with what it reads afterwards.
 */
void
nm_slot_set_state(NmSlot *slot, NmState state)
{
	Assert(LWLockHeldByMeInMode(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE));
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->state, state);
	pg_memory_barrier();
	if (state == NM_STATE_FREE || state == NM_STATE_NOT_LOADED || state == NM_STATE_FAILED)
		nm_registry->full_at = 0; /* somebody may have this slot */
}

/*
 * Was there no slot to be had lately, and has none been given back since?  Under
 * NM_LOCK_REGISTRY.  Nobody should ask for a load then, as it cannot be.
 */
bool
nm_registry_full(void)
{
	return nm_registry->full_at != 0 &&
		   !TimestampDifferenceExceeds(nm_registry->full_at, GetCurrentTimestamp(), FULL_MS);
}

/* Is this what nm_slot_attach() gives if there is no slot? */
bool
nm_slot_is_none(const NmSlot *slot)
{
	return slot == &no_slot;
}

/*
 * Take the tree out of use and remember its pages.  The state was changed
 * before, so whoever now meets NM_GONE finds the new state.
 */
void
nm_slot_detach_tree(NmSlot *slot)
{
	uint64 root = nm_tree_detach(&slot->tree);

	if (root == 0)
		return;
	/* no load starts, and so no second tree comes, before this one is reaped */
	Assert(slot->dead_root == 0);
	slot->last_lid = Max(slot->last_lid, slot->tree.next_lid);
	slot->dead_root = root;
	slot->dead_layout = slot->tree.layout;
	slot->dead_token = nm_pool_grace_token(nm_pool);
}

/* Out of the tables, tree out of use; pages follow in nm_slot_reap(). */
static void
slot_kill(NmSlot *slot)
{
	slot_unhash(slot);
	nm_slot_set_state(slot, NM_STATE_DROPPED);
	slot->serial = ++nm_registry->next_serial;
	slot->pending_drop = false;
	slot->unloading = false;
	nm_slot_detach_tree(slot);
}

/*
 * A slot that holds nothing in memory may go to another index: the index it
 * served is found again by its meta page.
 */
static bool
slot_evictable(NmSlot *slot)
{
	NmState state = pg_atomic_read_u32(&slot->state);

	return (state == NM_STATE_NOT_LOADED || state == NM_STATE_FAILED) &&
		   !slot->unloading && !slot->pending_drop && slot->dead_root == 0 &&
		   pg_atomic_read_u32(&slot->pins) == 0;
}

static NmSlot *
slot_take_free(void)
{
	NmSlot *victim = NULL;

	for (int n = 0; n < nm_registry->nslots; n++)
	{
		int i = (nm_registry->free_hint + n) % nm_registry->nslots;

		if (pg_atomic_read_u32(&slots[i].state) == NM_STATE_FREE)
		{
			nm_registry->free_hint = (i + 1) % nm_registry->nslots;
			return &slots[i];
		}
		if (victim == NULL && slot_evictable(&slots[i]))
			victim = &slots[i];
	}
	if (victim != NULL)
		slot_kill(victim);
	else
		nm_registry->full_at = GetCurrentTimestamp();
	return victim;
}

/* Set up a slot for an index; state is published last. */
static void
slot_init(NmSlot *slot, const NmIndex *idx, NmState state)
{
	slot->key = idx->key;
	slot->serial = ++nm_registry->next_serial;
	slot->identity = idx->identity;
	slot->indexoid = idx->indexoid;
	slot->heapoid = idx->heapoid;
	slot->unique = idx->unique;
	slot->pending_drop = false;
	slot->unloading = false;
	slot->stay_out = false;
	slot->load_count = 0;
	slot->last_lid = 0;
	memset(&slot->tree, 0, sizeof(slot->tree));
	memset(slot->delta_head, 0, sizeof(slot->delta_head));
	memset(slot->delta_tail, 0, sizeof(slot->delta_tail));
	pg_atomic_write_u32(&slot->phase, NM_LOADING_COLLECT);
	pg_atomic_write_u64(&slot->load_blocks_total, 0);
	pg_atomic_write_u64(&slot->load_blocks_done, 0);
	pg_atomic_write_u64(&slot->load_tuples, 0);
	pg_atomic_write_u64(&slot->lookups, 0);
	pg_atomic_write_u64(&slot->inserts, 0);
	pg_atomic_write_u64(&slot->tuples_read, 0);
	slot->load_ms = 0;
	slot->load_time = 0;
	slot->fail_time = 0;
	slot->fail_count = 0;
	slot->fail_sqlstate = 0;
	slot->fail_text[0] = '\0';
	slot_hash(slot);
	nm_slot_set_state(slot, state);
}

/*
 * ---------------------------------------------------------------------
 * Attaching an open index to its slot
 * ---------------------------------------------------------------------
 */

/* Does the storage of this relation exist only if this transaction commits? */
static bool
storage_is_new(Relation index)
{
#if PG_VERSION_NUM >= 160000
	return index->rd_createSubid != InvalidSubTransactionId ||
		   index->rd_firstRelfilelocatorSubid != InvalidSubTransactionId ||
		   index->rd_newRelfilelocatorSubid != InvalidSubTransactionId;
#else
	return index->rd_createSubid != InvalidSubTransactionId ||
		   index->rd_firstRelfilenodeSubid != InvalidSubTransactionId ||
		   index->rd_newRelfilenodeSubid != InvalidSubTransactionId;
#endif
}

/* Likewise that of its table (lifecycle.c, SET TABLESPACE). */
static bool
table_is_new(const NmIndex *idx)
{
	Relation table = RelationIdGetRelation(idx->heapoid);
	bool is;

	if (!RelationIsValid(table))
		return false;
	is = storage_is_new(table);
	RelationClose(table);
	return is;
}

static void
report_full(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many numa_btree indexes in memory"),
			 errdetail("All %d slots hold a loaded index.", nm_registry->nslots),
			 errhint("Raise numa_migrate.max_trees and restart the server, or unload indexes with numa.btree_unload().")));
}

static void
attach_none(NmIndex *idx)
{
	idx->slot = &no_slot;
	idx->serial = no_slot.serial;
	idx->load_count = 0;
}

/*
 * Find or make the slot for idx (key, identity etc. are set) and remember it
 * there.  A slot under this key with another identity belongs to a file that
 * is gone.  index may be NULL when the slot was lost under an index that is
 * open: then its predecessors have been looked at before.
 *
 * If all slots are in use, the index was not loaded when this was found out.
 * For many that is all they want to know: without must, idx gets a slot of the
 * process's own that says so, for this one operation.
 */
void
nm_slot_attach(NmIndex *idx, Relation index, bool must)
{
	NmSlot *slot;
	NmPendingDrop *undo = NULL;
	bool stale;
	bool full;
	bool table_moved = false;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
	slot = nm_slot_find(&idx->key);
	if (slot != NULL && slot->identity == idx->identity &&
		slot->indexoid == idx->indexoid && slot->heapoid == idx->heapoid)
	{
		idx->slot = slot;
		idx->serial = slot->serial;
		idx->load_count = 0;
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		return;
	}
	full = slot == NULL && nm_registry_full();
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	if (full && !must)
	{
		attach_none(idx);
		return;
	}

	/* not there, or not as it should be */
	nm_registry_sweep(false);
	nm_predicate_forget_leaves(idx);
	if (index != NULL)
	{
		bool index_is_new = storage_is_new(index);

		table_moved = !index_is_new && table_is_new(idx);
		if (index_is_new || table_moved)
			undo = nm_pending_make();
	}
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	slot = nm_slot_find(&idx->key);
	stale = slot != NULL && slot->identity != idx->identity;
	if (stale)
	{
		slot_kill(slot);
		slot = NULL;
	}
	if (slot == NULL)
	{
		slot = slot_take_free();
		if (slot == NULL)
		{
			LWLockRelease(NmLock(NM_LOCK_REGISTRY));
			if (must)
				report_full();
			if (undo != NULL)
				pfree(undo);
			attach_none(idx);
			return;
		}
		/* an evicted slot is DROPPED but has nothing to reap */
		slot_init(slot, idx, NM_STATE_NOT_LOADED);
	}
	else if (slot->indexoid != idx->indexoid || slot->heapoid != idx->heapoid)
	{
		/* ALTER TABLE ... TYPE gave the storage to a new index */
		slot_unhash(slot);
		slot->indexoid = idx->indexoid;
		slot->heapoid = idx->heapoid;
		slot->unique = idx->unique;
		slot->pending_drop = false;
		slot_hash(slot);
	}
	idx->slot = slot;
	idx->serial = slot->serial;
	idx->load_count = 0;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	if (undo != NULL)
		nm_pending_drop_at_abort(undo, idx->slot, idx->serial, table_moved);

	/*
	 * Other storage of the same index is what it had before SET TABLESPACE:
	 * to be dropped with this transaction if that did it, else gone already.
	 */
	if (index != NULL && nm_rel_backend(index) == NM_INVALID_BACKEND)
	{
		for (;;)
		{
			NmPendingDrop *pending = nm_pending_make();
			NmSlot *old;
			uint64 serial = 0;

			LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
			for (old = nm_slot_first_by_oid(idx->key.db, idx->indexoid); old != NULL;
				 old = nm_slot_next_by_oid(old))
			{
				if (old != idx->slot && !old->pending_drop &&
					pg_atomic_read_u32(&old->state) != NM_STATE_BUILDING)
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
			if (storage_is_new(index))
				nm_pending_drop_at_commit(pending, old, serial);
			else
			{
				pfree(pending);
				(void) nm_slot_drop(old, serial);
			}
		}
	}
}

/*
 * A build begins on idx's storage, whose meta page is written.  A slot under
 * the same key is what the storage held before it was truncated in place (ON
 * COMMIT DELETE ROWS, or a relation made by this transaction): nobody else can
 * see it, so it goes at once.
 */
void
nm_slot_begin_build(NmIndex *idx)
{
	NmSlot *slot;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	slot = nm_slot_find(&idx->key);
	if (slot != NULL)
		slot_kill(slot);
	slot = slot_take_free();
	if (slot == NULL)
	{
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		report_full();
	}
	slot_init(slot, idx, NM_STATE_BUILDING);
	idx->slot = slot;
	idx->serial = slot->serial;
	idx->load_count = 0;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
	nm_registry_sweep(false);
}

/*
 * ---------------------------------------------------------------------
 * Giving up slots.  Nothing here raises an error, waits for other than
 * LWLocks or allocates.
 * ---------------------------------------------------------------------
 */

/*
 * Free the pages of a detached tree if that is safe now.  True if none are
 * left.
 */
bool
nm_slot_reap(NmSlot *slot)
{
	uint64 root;
	NmLayout layout;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	root = slot->dead_root;
	if (root != 0 &&
		(pg_atomic_read_u32(&slot->pins) != 0 ||
		 !nm_pool_grace_passed(nm_pool, slot->dead_token)))
	{
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		return false;
	}
	layout = (NmLayout) slot->dead_layout;
	slot->dead_root = 0;
	if (pg_atomic_read_u32(&slot->state) == NM_STATE_DROPPED &&
		pg_atomic_read_u32(&slot->pins) == 0)
		nm_slot_set_state(slot, NM_STATE_FREE);
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	if (root != 0)
		nm_tree_free_pages(nm_pool, layout, root);
	return true;
}

/* Drop an index from memory, if the slot still is its. */
bool
nm_slot_drop(NmSlot *slot, uint64 serial)
{
	NmState state;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	state = pg_atomic_read_u32(&slot->state);
	if (slot->serial != serial || state == NM_STATE_FREE || state == NM_STATE_DROPPED)
	{
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		return false;
	}
	slot_kill(slot);
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	(void) nm_slot_reap(slot);
	return true;
}

/* The storage went to another index. */
void
nm_slot_rename(NmSlot *slot, uint64 serial, Oid indexoid)
{
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	if (slot->serial == serial && slot->hashed)
	{
		slot_unhash(slot);
		slot->indexoid = indexoid;
		slot->pending_drop = false;
		slot_hash(slot);
	}
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

void
nm_slot_set_pending(NmSlot *slot, uint64 serial, bool pending)
{
	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_EXCLUSIVE);
	if (slot->serial == serial)
		slot->pending_drop = pending;
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));
}

/* The database's files are gone, or moved to another tablespace. */
void
nm_registry_drop_database(Oid db)
{
	for (int i = 0; i < nm_registry->nslots; i++)
	{
		uint64 serial = slots[i].serial;

		if (slots[i].key.db == db &&
			pg_atomic_read_u32(&slots[i].state) != NM_STATE_FREE)
			(void) nm_slot_drop(&slots[i], serial);
	}
}

/*
 * Is the main fork gone or empty?  A dropped file stays behind with length zero
 * until the next checkpoint.  A tree is registered after its meta page was
 * written, so its file is never empty while it is alive.
 */
static bool
storage_gone(const NmTreeKey *key)
{
	struct stat st;
#if PG_VERSION_NUM >= 180000
	RelPathStr path = GetRelationPath(key->db, key->spc, key->rel, key->backend, MAIN_FORKNUM);

	if (stat(path.str, &st) < 0)
		return errno == ENOENT;
#else
	char *path = GetRelationPath(key->db, key->spc, key->rel, key->backend, MAIN_FORKNUM);
	int rc = stat(path, &st);
	int save_errno = errno;

	pfree(path);
	if (rc < 0)
		return save_errno == ENOENT;
#endif
	return st.st_size == 0;
}

void
nm_registry_sweep(bool stat_files)
{
	for (int i = 0; i < nm_registry->nslots; i++)
	{
		NmSlot *slot = &slots[i];
		NmState state = pg_atomic_read_u32(&slot->state);
		NmTreeKey key;
		uint64 serial;
		bool gone = false;

		if (state == NM_STATE_FREE)
			continue;
		if (slot->dead_root != 0 || state == NM_STATE_DROPPED)
			(void) nm_slot_reap(slot);
		if (!stat_files || state == NM_STATE_DROPPED)
			continue;

		/*
		 * A load has its index locked and a build replaces the slot, so both
		 * see to themselves.  An in-place truncation empties the file for a
		 * moment, then makes a new slot: the serial tells.
		 */
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
		state = pg_atomic_read_u32(&slot->state);
		key = slot->key;
		serial = slot->serial;
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		if (state == NM_STATE_NOT_LOADED || state == NM_STATE_FAILED ||
			state == NM_STATE_LOADED)
			gone = storage_gone(&key);
		if (gone)
			(void) nm_slot_drop(slot, serial);
	}
	(void) nm_pool_reclaim(nm_pool);
}

/*
 * ---------------------------------------------------------------------
 * For those who look at all trees
 * ---------------------------------------------------------------------
 */

static void
unpin_at_exit(int code, Datum arg)
{
	nm_unpin_all(0);
}

NmSlot *
nm_slot_next_pinned(int *cursor)
{
	if (npinned >= MAX_PINNED)
		elog(ERROR, "too many numa_btree slots pinned");
	if (!pin_exit_registered)
	{
		before_shmem_exit(unpin_at_exit, (Datum) 0);
		pin_exit_registered = true;
	}

	while (*cursor < nm_registry->nslots)
	{
		NmSlot *slot = &slots[(*cursor)++];
		bool got = false;

		if (pg_atomic_read_u32(&slot->state) != NM_STATE_LOADED)
			continue;
		/* detaching a tree needs the lock exclusively */
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
		if (pg_atomic_read_u32(&slot->state) == NM_STATE_LOADED && !slot->pending_drop)
		{
			pg_atomic_fetch_add_u32(&slot->pins, 1);
			pinned[npinned] = slot;
			pinned_nest[npinned++] = GetCurrentTransactionNestLevel();
			got = true;
		}
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		if (got)
			return slot;
	}
	return NULL;
}

void
nm_slot_unpin(NmSlot *slot)
{
	for (int i = npinned - 1; i >= 0; i--)
	{
		if (pinned[i] == slot)
		{
			npinned--;
			pinned[i] = pinned[npinned];
			pinned_nest[i] = pinned_nest[npinned];
			pg_atomic_fetch_sub_u32(&slot->pins, 1);
			return;
		}
	}
	elog(WARNING, "numa_btree slot %d was not pinned", nm_slot_number(slot));
}

/* At the end of a (sub)transaction of this nest level, and of the process. */
void
nm_unpin_all(int nest)
{
	for (int i = npinned - 1; i >= 0; i--)
	{
		if (pinned_nest[i] >= nest)
			nm_slot_unpin(pinned[i]);
	}
}

NmSlot *
nm_slot_get(int i)
{
	return i >= 0 && i < nm_registry->nslots ? &slots[i] : NULL;
}

void
nm_slot_tree(NmSlot *slot, NmTree *tree, void *scratch)
{
	nm_tree_open(tree, nm_pool, &slot->tree, scratch);
	tree->layout = (NmLayout) slot->tree.layout;
	tree->arena = nm_local_arena();
}

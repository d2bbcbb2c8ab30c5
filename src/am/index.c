/*-------------------------------------------------------------------------
 *
 * index.c
 *	  What a process keeps about an index it has used: NmIndex.
 *
 * One per index OID, in a local hash that lives as long as the process.
 * rd_amcache points to it: core clears that pointer whenever the relation may
 * have changed, and then the meta page and the definition are looked at again.
 *
 * IDENTIFICATION
 *	  src/am/index.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "storage/ipc.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* What rd_amcache holds; core frees it as one chunk. */
typedef struct NmCached
{
	NmIndex *idx;
} NmCached;

typedef struct NmLocalEntry
{
	Oid indexoid; /* hash key */
	NmIndex *idx;
} NmLocalEntry;

static HTAB *local_indexes = NULL;
static bool some_maybe_dropped = false;

static NmIndex *index_open_slow(Relation index);
static void open_handle(NmIndex *idx);

/* Cheap: the index may be gone; nm_index_local() will see. */
static void
relcache_callback(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS seq;
	NmLocalEntry *entry;

	if (OidIsValid(relid))
	{
		entry = hash_search(local_indexes, &relid, HASH_FIND, NULL);
		if (entry && entry->idx)
		{
			entry->idx->maybe_dropped = true;
			some_maybe_dropped = true;
		}
		return;
	}
	hash_seq_init(&seq, local_indexes);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		if (entry->idx)
			entry->idx->maybe_dropped = true;
	}
	some_maybe_dropped = true;
}

/*
 * Forget indexes that no longer exist.  Nobody uses them: an index in use is
 * locked, and so neither dropped by others nor, in use, by this process.
 */
static void
forget_dropped(void)
{
	HASH_SEQ_STATUS seq;
	NmLocalEntry *entry;

	some_maybe_dropped = false;
	hash_seq_init(&seq, local_indexes);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		NmIndex *idx = entry->idx;

		if (idx == NULL || !idx->maybe_dropped)
			continue;
		idx->maybe_dropped = false;
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(entry->indexoid)))
			continue;
		if (idx->tree.pool != NULL)
			nm_tree_close(&idx->tree);
		if (idx->batch)
			pfree(idx->batch);
		MemoryContextDelete(idx->cxt);
		(void) hash_search(local_indexes, &entry->indexoid, HASH_REMOVE, NULL);
	}
}

static void
close_at_exit(int code, Datum arg)
{
	nm_index_close_all();
}

static void
init_local(void)
{
	HASHCTL ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(NmLocalEntry);
	local_indexes = hash_create("numa_btree indexes", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
	before_shmem_exit(close_at_exit, (Datum) 0);
}

/*
 * The local struct of an index, with everything but its slot brought up to
 * date.
 */
NmIndex *
nm_index_local(Relation index, uint64 identity)
{
	Oid indexoid = RelationGetRelid(index);
	NmLocalEntry *entry;
	NmIndex *idx;
	bool found;

	if (local_indexes == NULL)
		init_local();
	entry = hash_search(local_indexes, &indexoid, HASH_FIND, NULL);
	if (entry == NULL || entry->idx == NULL)
	{
		MemoryContext cxt;

		if (some_maybe_dropped)
			forget_dropped();
		cxt = AllocSetContextCreate(TopMemoryContext, "numa_btree index",
									ALLOCSET_SMALL_SIZES);
		idx = MemoryContextAllocZero(cxt, sizeof(NmIndex));
		idx->indexoid = indexoid;
		idx->cxt = cxt;
		idx->scratch = MemoryContextAllocZero(cxt, nm_tree_scratch_size());
		entry = hash_search(local_indexes, &indexoid, HASH_ENTER, &found);
		entry->idx = idx;
	}
	idx = entry->idx;

	if (!idx->desc_valid || !nm_keydesc_matches(&idx->desc, index))
	{
		if (idx->desc.cxt != NULL)
			MemoryContextDelete(idx->desc.cxt);
		memset(&idx->desc, 0, sizeof(idx->desc));
		idx->desc_valid = false;
		nm_keydesc_init(&idx->desc, index, idx->cxt);
		idx->desc_valid = true;
		idx->load_count = 0;
	}
	nm_key_of(index, &idx->key);
	idx->identity = identity;
	idx->heapoid = index->rd_index->indrelid;
	idx->unique = index->rd_index->indisunique;
	idx->fillfactor = (uint8) nm_index_fillfactor(index);
	idx->nulls_first = idx->desc.nulls_first;

	if (index->rd_amcache == NULL)
		index->rd_amcache = MemoryContextAlloc(index->rd_indexcxt, sizeof(NmCached));
	/* not valid until the caller has a slot */
	((NmCached *) index->rd_amcache)->idx = NULL;
	return idx;
}

static NmIndex *
index_open_slow(Relation index)
{
	NmIndex *idx;

	nm_require_preload("use this numa_btree index");
	idx = nm_index_local(index, nm_meta_read(index));
	nm_slot_attach(idx, index, false);
	/* that it has no slot is true now and may not be next time */
	if (!nm_slot_is_none(idx->slot))
		((NmCached *) index->rd_amcache)->idx = idx;
	return idx;
}

NmIndex *
nm_index_open(Relation index)
{
	NmCached *cached = index->rd_amcache;

	if (likely(cached != NULL))
	{
		NmIndex *idx = cached->idx;

		if (likely(idx != NULL && idx->slot->serial == idx->serial &&
				   idx->key.rel == nm_loc_rel(nm_rel_locator(index)) &&
				   idx->key.spc == nm_loc_spc(nm_rel_locator(index))))
			return idx;
	}
	return index_open_slow(index);
}

/* Open the handle on whatever tree the slot has now. */
static void
open_handle(NmIndex *idx)
{
	if (idx->tree.pool != NULL)
		nm_tree_close(&idx->tree);
	nm_tree_open(&idx->tree, nm_pool, &idx->slot->tree, idx->scratch);
	idx->tree.layout = idx->desc.layout;
	idx->tree.compare = nm_compare_items;
	idx->tree.compare_arg = &idx->desc;
	idx->tree.use_heads = idx->desc.head != NM_HEAD_NONE;
	idx->tree.leave_epoch = idx->desc.foreign;
	idx->tree.pass_locks = nm_predicate_pass;
	idx->tree.pass_locks_arg = idx;
}

/*
 * At the abort of a transaction, and at exit: pages that a broken-off insert
 * left in a handle go back.  Not at the abort of a subtransaction: an insert
 * further out may be in the middle of its work.
 */
void
nm_index_close_all(void)
{
	HASH_SEQ_STATUS seq;
	NmLocalEntry *entry;

	if (local_indexes == NULL)
		return;
	hash_seq_init(&seq, local_indexes);
	while ((entry = hash_seq_search(&seq)) != NULL)
	{
		if (entry->idx && entry->idx->tree.pool != NULL)
			nm_tree_close(&entry->idx->tree);
	}
}

/*
 * Bring the handle up to the generation in memory and say whether it may be
 * used.  loading: a tree whose load is in its OPEN phase will do (inserts).
 *
 * The generation is read before and after: without the second look, a tree
 * that was unloaded and is being loaded again between the two could be taken
 * for the one that was LOADED.
 */
NmTree *
nm_index_handle(NmIndex *idx, bool loading)
{
	NmSlot *slot = idx->slot;

	for (;;)
	{
		NmState state = pg_atomic_read_u32(&slot->state);
		uint64 generation;

		pg_read_barrier();
		if (state != NM_STATE_LOADED &&
			!(loading && state == NM_STATE_LOADING &&
			  pg_atomic_read_u32(&slot->phase) == NM_LOADING_OPEN))
			return NULL;
		generation = slot->load_count;
		if (unlikely(slot->serial != idx->serial))
			return NULL;
		if (likely(generation == idx->load_count))
			break;

		open_handle(idx);

		pg_memory_barrier();
		if (pg_atomic_read_u32(&slot->state) == state &&
			slot->load_count == generation && slot->serial == idx->serial)
		{
			idx->load_count = generation;
			break;
		}
	}
	idx->tree.arena = nm_local_arena();
	return &idx->tree;
}

NmTree *
nm_index_tree(NmIndex *idx)
{
	return nm_index_handle(idx, false);
}

/*
 * Zero the shared part for a bulk load, with what only the definition knows,
 * and open the handle on it.  The slot is BUILDING or LOADING by this process
 * and has no detached tree.  Logical ids go on where the last generation left
 * off, so that nothing remembered of that one fits a leaf of this one.
 */
void
nm_index_prepare_tree(NmIndex *idx, Relation index)
{
	NmTreeShared *shared = &idx->slot->tree;

	Assert(shared->root == 0 && idx->slot->dead_root == 0);
	memset(shared, 0, sizeof(*shared));
	shared->layout = idx->desc.layout;
	shared->nulls_first = idx->nulls_first;
	shared->fillfactor = idx->fillfactor;
	shared->merge = nm_index_merge(index);
	shared->next_lid = idx->slot->last_lid;

	open_handle(idx);
	idx->tree.arena = nm_index_arena(index);
	idx->load_count = 0;
}

/*-------------------------------------------------------------------------
 *
 * delta.c
 *	  Inserts that arrive while the index is being loaded.
 *
 * The delta of an index is NM_DELTA_PARTITIONS chains of pool pages.  A
 * process appends to the partition of its process number under that partition's
 * LWLock, which covers the look at the state and the append.  A page that may be
 * needed is taken from the pool before the lock.
 *
 * The flip (load.c) locks all partitions twice, each time for a few
 * instructions: once to take the chains and open the tree for direct inserts,
 * once to publish LOADED after it has worked the chains off with no lock held.
 * So no entry is inserted and no comparator runs under these locks, and the
 * flip ends however fast others insert.
 *
 * IDENTIFICATION
 *	  src/am/delta.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "miscadmin.h"

/* The pool owns the first word of every page. */
typedef struct NmDeltaPage
{
	uint64 version;
	NmPageNo next;
	uint32 used; /* bytes of data */
	char data[FLEXIBLE_ARRAY_MEMBER];
} NmDeltaPage;

#define DELTA_CAPACITY (NM_PAGE_SIZE - offsetof(NmDeltaPage, data))

/* An entry; len bytes of key follow, the whole MAXALIGNed. */
typedef struct NmDeltaEntry
{
	uint64 tid;
	int64 key;
	uint64 head;
	uint32 len;
	bool isnull;
	uint8 tag;
} NmDeltaEntry;

#define ENTRY_HEADER MAXALIGN(sizeof(NmDeltaEntry))

StaticAssertDecl(ENTRY_HEADER + MAXALIGN(NM_MAX_KEY_SIZE) <= NM_PAGE_SIZE - 16,
				 "the longest key fits into a delta page");

static inline LWLock *
partition_lock(const NmSlot *slot, int partition)
{
	int first = (nm_slot_number(slot) * NM_DELTA_PARTITIONS) % NM_NUM_DELTA;

	return NmLock(NM_LOCK_DELTA0 + first + partition);
}

void
nm_delta_lock_all(NmSlot *slot)
{
	for (int i = 0; i < NM_DELTA_PARTITIONS; i++)
		LWLockAcquire(partition_lock(slot, i), LW_EXCLUSIVE);
}

void
nm_delta_unlock_all(NmSlot *slot)
{
	for (int i = NM_DELTA_PARTITIONS - 1; i >= 0; i--)
		LWLockRelease(partition_lock(slot, i));
}

/* Take the chains; all partitions are locked. */
void
nm_delta_take(NmSlot *slot, NmPageNo *chain)
{
	for (int i = 0; i < NM_DELTA_PARTITIONS; i++)
	{
		chain[i] = slot->delta_head[i];
		slot->delta_head[i] = slot->delta_tail[i] = NM_NO_PAGE;
	}
}

/* Give chains back that were taken.  Never raises. */
void
nm_delta_free(NmPageNo *chain)
{
	for (int i = 0; i < NM_DELTA_PARTITIONS; i++)
	{
		while (chain[i] != NM_NO_PAGE)
		{
			NmPageNo page = chain[i];

			chain[i] = ((NmDeltaPage *) nm_pool_page(nm_pool, page))->next;
			nm_pool_free(nm_pool, page);
		}
	}
}

/* Append under the partition's lock; false if there is no room. */
static bool
append_locked(NmSlot *slot, int partition, NmPageNo *spare, const NmItem *item, uint64 tid)
{
	uint32 len = item->data ? item->len : 0;
	uint32 need = ENTRY_HEADER + MAXALIGN(len);
	NmPageNo tail = slot->delta_tail[partition];
	NmDeltaPage *page = tail ? nm_pool_page(nm_pool, tail) : NULL;
	NmDeltaEntry *entry;

	if (page == NULL || page->used + need > DELTA_CAPACITY)
	{
		NmDeltaPage *fresh;

		if (*spare == NM_NO_PAGE)
			return false;
		fresh = nm_pool_page(nm_pool, *spare);
		fresh->next = NM_NO_PAGE;
		fresh->used = 0;
		if (page)
			page->next = *spare;
		else
			slot->delta_head[partition] = *spare;
		slot->delta_tail[partition] = *spare;
		*spare = NM_NO_PAGE;
		page = fresh;
	}
	entry = (NmDeltaEntry *) (page->data + page->used);
	entry->tid = tid;
	entry->key = item->key;
	entry->head = item->head;
	entry->isnull = item->isnull;
	entry->tag = item->tag;
	entry->len = len;
	if (len > 0)
		memcpy((char *) entry + ENTRY_HEADER, item->data, len);
	page->used += need;
	return true;
}

/* Tell the loader that an entry could not be kept.  Partition lock held. */
static void
abandon_locked(NmSlot *slot)
{
	pg_atomic_write_u32(&slot->phase, NM_LOADING_ABANDONED);
}

/*
 * A non-unique insert met LOADING.  True if nothing is left to do; false if
 * the state has changed and is to be looked at again.
 *
 * No memory for the delta is the load's trouble, not the insert's: the heap
 * row is in place, so the load is made to fail and the insert is done.
 */
bool
nm_delta_insert(NmIndex *idx, const NmItem *item, uint64 tid)
{
	NmSlot *slot = idx->slot;
	int partition = nm_my_slot() % NM_DELTA_PARTITIONS;
	LWLock *lock = partition_lock(slot, partition);
	NmPageNo spare = NM_NO_PAGE;
	bool no_memory = false;

	for (;;)
	{
		bool done = false;
		bool direct = false;
		bool again = false;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		if (slot->serial != idx->serial ||
			pg_atomic_read_u32(&slot->state) != NM_STATE_LOADING)
			again = true;
		else
		{
			switch (pg_atomic_read_u32(&slot->phase))
			{
				case NM_LOADING_COLLECT:
					done = append_locked(slot, partition, &spare, item, tid);
					break;
				case NM_LOADING_OPEN:
					direct = !no_memory;
					break;
				default:
					done = true;
			}
			if (!done && no_memory)
			{
				abandon_locked(slot);
				done = true;
			}
		}
		LWLockRelease(lock);

		if (done || again || direct)
		{
			if (spare != NM_NO_PAGE)
			{
				nm_pool_free(nm_pool, spare);
				spare = NM_NO_PAGE;
			}
		}
		if (done)
			return true;
		if (again)
			return false;

		if (direct)
		{
			NmTree *tree = nm_index_handle(idx, true);
			NmStatus st;

			if (tree == NULL)
				return false;
			st = nm_tree_insert(tree, item, tid, NULL, NULL);
			if (st == NM_OK || st == NM_EXISTS)
				return true;
			if (st != NM_NO_MEMORY)
				return false;
			no_memory = true;
		}
		else
		{
			NmPoolError why;

			spare = nm_pool_alloc(nm_pool, nm_local_arena(), false, &why, NULL);
			no_memory = spare == NM_NO_PAGE;
		}
	}
}

/*
 * Insert the entries of the chains taken into the tree.  Pages are freed as
 * they are worked off; what an error leaves is freed by nm_load_abort().
 */
void
nm_delta_drain(NmLoad *load)
{
	NmTree *tree = nm_index_handle(load->idx, true);

	if (tree == NULL)
		elog(ERROR, "tree went away during its load");

	for (int i = 0; i < NM_DELTA_PARTITIONS; i++)
	{
		while (load->chain[i] != NM_NO_PAGE)
		{
			NmPageNo no = load->chain[i];
			NmDeltaPage *page = nm_pool_page(nm_pool, no);
			uint32 pos = 0;

			CHECK_FOR_INTERRUPTS();
			while (pos < page->used)
			{
				NmDeltaEntry *entry = (NmDeltaEntry *) (page->data + pos);
				NmItem item;
				NmStatus st;

				memset(&item, 0, sizeof(item));
				item.key = entry->key;
				item.head = entry->head;
				item.isnull = entry->isnull;
				item.tag = entry->tag;
				item.len = entry->len;
				item.data = (char *) entry + ENTRY_HEADER;

				st = nm_tree_insert(tree, &item, entry->tid, NULL, NULL);
				if (st == NM_NO_MEMORY)
					nm_report_no_memory(tree->pool_error, tree->pool_errno);
				if (st != NM_OK && st != NM_EXISTS)
					elog(ERROR, "unexpected status %d while loading an index", (int) st);
				pos += ENTRY_HEADER + MAXALIGN(entry->len);
			}
			load->chain[i] = page->next;
			nm_pool_free(nm_pool, no);
		}
	}
}

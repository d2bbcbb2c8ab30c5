/*-------------------------------------------------------------------------
 *
 * epoch.c
 *	  Epoch sections, retired pages and grace tokens.
 *
 * README.md beside this file argues why a retired page is not freed while a
 * reader may look at it.
 *
 * IDENTIFICATION
 *	  src/pool/epoch.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool/pool_int.h"

/*
 * The slot of this process.  Threads exist in test programs only; the server
 * is spared the cost of thread-local storage in a shared library.
 */
#ifdef NM_IN_POSTGRES
static NmEpochSlot *my_slot = NULL;
#else
static __thread NmEpochSlot *my_slot = NULL;
#endif

/*
 * A full fence.  ThreadSanitizer knows no fences; there every access that the
 * fence orders is a sequentially consistent operation instead.
 */
#ifdef NM_TSAN
#define FULL_FENCE()			 ((void) 0)
#define FENCED_STORE(obj, value) ((void) atomic_exchange(obj, value))
#else
#define FULL_FENCE() atomic_thread_fence(memory_order_seq_cst)
#define FENCED_STORE(obj, value)                                 \
	do                                                           \
	{                                                            \
		atomic_store_explicit(obj, value, memory_order_relaxed); \
		atomic_thread_fence(memory_order_seq_cst);               \
	} while (0)
#endif

void
nm_epoch_attach(NmPool *pool, int slot)
{
	NM_ASSERT(slot >= 0 && slot < pool->config.nslots);
	my_slot = nm_slots(pool) + slot;
	atomic_store_explicit(&my_slot->epoch, 0, memory_order_release);
}

void
nm_epoch_detach(NmPool *pool)
{
	(void) pool;
	if (my_slot == NULL)
		return;
	atomic_store_explicit(&my_slot->epoch, 0, memory_order_release);
	my_slot = NULL;
}

void
nm_epoch_enter(NmPool *pool)
{
	uint64_t now;

	NM_ASSERT(my_slot != NULL);
	NM_ASSERT(!nm_epoch_inside(pool));
	now = atomic_load_explicit(&pool->shared->global_epoch, memory_order_acquire);
	FENCED_STORE(&my_slot->epoch, now);
}

void
nm_epoch_exit(NmPool *pool)
{
	(void) pool;
	NM_ASSERT(nm_epoch_inside(pool));
	atomic_store_explicit(&my_slot->epoch, 0, memory_order_release);
}

void
nm_epoch_reset(NmPool *pool)
{
	(void) pool;
	if (my_slot != NULL)
		atomic_store_explicit(&my_slot->epoch, 0, memory_order_release);
}

bool
nm_epoch_inside(NmPool *pool)
{
	(void) pool;
	return my_slot != NULL &&
		   atomic_load_explicit(&my_slot->epoch, memory_order_relaxed) != 0;
}

/*
 * The lowest epoch of an open section, UINT64_MAX if none is open.  What the
 * caller did before (unlinking a page, taking a token) is visible to every
 * section that this misses.
 */
static uint64_t
lowest_open_epoch(NmPool *pool)
{
	NmEpochSlot *slots = nm_slots(pool);
	uint64_t lowest = UINT64_MAX;

	FULL_FENCE();
	for (int i = 0; i < pool->config.nslots; i++)
	{
		uint64_t epoch;

#ifdef NM_TSAN
		epoch = atomic_load(&slots[i].epoch);
#else
		epoch = atomic_load_explicit(&slots[i].epoch, memory_order_acquire);
#endif
		if (epoch != 0 && epoch < lowest)
			lowest = epoch;
	}
	return lowest;
}

/*
 * Free up to max retired pages whose epoch lies before every open section.
 * Steps the global epoch when the youngest retired page carries the current
 * one, so that sections opened from now on don't hold it back.
 */
uint64_t
nm_reclaim_locked(NmPool *pool, uint64_t max)
{
	NmPoolShared *shared = pool->shared;
	uint64_t freed = 0;
	uint64_t lowest;

	if (shared->retire_head == NM_NO_PAGE)
		return 0;
	if (nm_retire_link(pool, shared->retire_tail)->epoch ==
		atomic_load_explicit(&shared->global_epoch, memory_order_relaxed))
	{
		atomic_fetch_add(&shared->global_epoch, 1);
		shared->retires_since_step = 0;
	}

	lowest = lowest_open_epoch(pool);
	while (freed < max && shared->retire_head != NM_NO_PAGE)
	{
		NmPageNo page = shared->retire_head;
		NmRetireLink *link = nm_retire_link(pool, page);

		if (link->epoch >= lowest)
			break;
		shared->retire_head = link->next;
		if (shared->retire_head == NM_NO_PAGE)
			shared->retire_tail = NM_NO_PAGE;
		atomic_fetch_sub_explicit(&shared->nretired, 1, memory_order_relaxed);
		nm_page_free_locked(pool, page);
		freed++;
	}
	return freed;
}

void
nm_pool_retire(NmPool *pool, NmPageNo page)
{
	NmPoolShared *shared = pool->shared;
	NmRetireLink *link = nm_retire_link(pool, page);

	NM_ASSERT(page != NM_NO_PAGE);
	nm_pool_lock(pool);
	FULL_FENCE();
	link->next = NM_NO_PAGE;
	link->unused = 0;
	link->epoch = atomic_load(&shared->global_epoch);
	if (shared->retire_tail == NM_NO_PAGE)
		shared->retire_head = page;
	else
	{
		NM_ASSERT(nm_retire_link(pool, shared->retire_tail)->epoch <= link->epoch);
		nm_retire_link(pool, shared->retire_tail)->next = page;
	}
	shared->retire_tail = page;
	atomic_fetch_add_explicit(&shared->nretired, 1, memory_order_relaxed);
	if (++shared->retires_since_step >= NM_RETIRE_STEP)
	{
		shared->retires_since_step = 0;
		atomic_fetch_add(&shared->global_epoch, 1);
		nm_reclaim_locked(pool, NM_RECLAIM_BATCH);
	}
	nm_pool_unlock(pool);
}

uint64_t
nm_pool_reclaim(NmPool *pool)
{
	NmPoolShared *shared = pool->shared;
	uint64_t total = 0;
	uint64_t freed;

	do
	{
		nm_pool_lock(pool);
		freed = nm_reclaim_locked(pool, NM_RECLAIM_BATCH);
		/* a lowered limit takes back what lies idle */
		for (int i = 0; i < pool->narenas; i++)
		{
			if (shared->committed * NM_CHUNK_SIZE <=
				atomic_load_explicit(&shared->limit, memory_order_relaxed))
				break;
			nm_arena_release_idle(pool, i);
		}
		nm_pool_unlock(pool);
		total += freed;
	} while (freed == NM_RECLAIM_BATCH);
	return total;
}

/*
 * A token is the epoch before a step: sections opened later carry a higher
 * one.
 */
uint64_t
nm_pool_grace_token(NmPool *pool)
{
	FULL_FENCE();
	return atomic_fetch_add(&pool->shared->global_epoch, 1);
}

bool
nm_pool_grace_passed(NmPool *pool, uint64_t token)
{
	return lowest_open_epoch(pool) > token;
}

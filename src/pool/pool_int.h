/*-------------------------------------------------------------------------
 *
 * pool_int.h
 *	  Book-keeping of the page pool, private to src/pool and its tests.
 *
 * Everything in NmPoolShared except what is marked atomic is protected by the
 * pool lock.  The variable-length parts lie behind the struct at places
 * computed from the configuration:
 *
 *		NmPoolShared | slots | arenas | partial bitmaps | chunks
 *
 * IDENTIFICATION
 *	  src/pool/pool_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_POOL_INT_H
#define NM_POOL_INT_H

#include "pool/pool.h"

#include <stdatomic.h>

#define NM_CACHE_LINE	64
#define NM_CGROUP_SLACK (UINT64_C(16) * 1024 * 1024)
#define NM_COMMIT_SHIFT 40
#define NM_COMMIT_MAX	((UINT32_C(1) << (64 - NM_COMMIT_SHIFT)) - 1)
#define NM_BITMAP_WORDS (NM_CHUNK_PAGES / 64)

/* Retirements between two steps of the global epoch. */
#define NM_RETIRE_STEP 64
/* Pages freed under one holding of the lock. */
#define NM_RECLAIM_BATCH 256

/* An epoch slot: 0 = outside, else the global epoch seen at entry. */
typedef struct NmEpochSlot
{
	_Alignas(NM_CACHE_LINE) _Atomic uint64_t epoch;
} NmEpochSlot;

typedef struct NmArena
{
	uint32_t ncommitted;   /* chunks backed by memory */
	uint32_t idle;		   /* a wholly free committed chunk + 1, 0 = none */
	uint32_t partial_hint; /* no set bit in the partial bitmap's words before */
	uint32_t hole_hint;	   /* no uncommitted chunk before */
	uint32_t nmisplaced;   /* chunks */
	uint32_t nhuge;		   /* chunks */
	uint64_t nused;		   /* pages handed out */
} NmArena;

typedef struct NmChunk
{
	uint64_t free[NM_BITMAP_WORDS]; /* 1 = free page */
	uint16_t nfree;
	bool misplaced;
	bool huge;
	_Atomic bool committed; /* written under the lock, read without */
} NmChunk;

struct NmPoolShared
{
	/* cache line of the readers: changes seldom */
	_Alignas(NM_CACHE_LINE) _Atomic uint64_t global_epoch;

	_Alignas(NM_CACHE_LINE) _Atomic uint64_t limit;
	_Atomic uint64_t last_id; /* nm_pool_next_id */
	uint64_t committed;		  /* chunks, all arenas */
	uint64_t commits;
	uint64_t releases;
	uint64_t refusals;

	/* FIFO of retired pages, epochs ascending */
	NmPageNo retire_head;
	NmPageNo retire_tail;
	_Atomic uint64_t nretired; /* written under the lock, read without */
	uint32_t retires_since_step;
};

/* The last bytes of a retired page. */
typedef struct NmRetireLink
{
	NmPageNo next;
	uint32_t unused;
	uint64_t epoch;
} NmRetireLink;

_Static_assert(sizeof(NmRetireLink) == NM_PAGE_RESERVED, "retire link does not fit");

static inline size_t
nm_chunks_per_arena(const NmPoolConfig *config)
{
	return config->arena_bytes / NM_CHUNK_SIZE;
}

static inline size_t
nm_partial_words(const NmPoolConfig *config)
{
	return (nm_chunks_per_arena(config) + 63) / 64;
}

static inline NmEpochSlot *
nm_slots(const NmPool *pool)
{
	return (NmEpochSlot *) (pool->shared + 1);
}

static inline NmArena *
nm_arena(const NmPool *pool, int arena)
{
	return (NmArena *) (nm_slots(pool) + pool->config.nslots) + arena;
}

static inline uint64_t *
nm_partial(const NmPool *pool, int arena)
{
	return (uint64_t *) nm_arena(pool, pool->narenas) +
		   (size_t) arena * nm_partial_words(&pool->config);
}

static inline NmChunk *
nm_chunk(const NmPool *pool, int arena, uint32_t chunk)
{
	return (NmChunk *) nm_partial(pool, pool->narenas) +
		   (size_t) arena * nm_chunks_per_arena(&pool->config) + chunk;
}

static inline NmRetireLink *
nm_retire_link(const NmPool *pool, NmPageNo page)
{
	return (NmRetireLink *) ((char *) nm_pool_page(pool, page) + NM_PAGE_SIZE - NM_PAGE_RESERVED);
}

static inline void
nm_pool_lock(NmPool *pool)
{
	pool->config.lock(pool->config.lock_arg);
}

static inline void
nm_pool_unlock(NmPool *pool)
{
	pool->config.unlock(pool->config.lock_arg);
}

/* pool.c: the shared book-keeping in its first state */
extern void nm_pool_init_shared(NmPool *pool, void *shared);

/* chunk.c; all under the pool lock */
extern NmPageNo nm_arena_take(NmPool *pool, int arena);
extern NmPoolError nm_arena_commit(NmPool *pool, int arena, int *errno_saved);
extern void nm_page_free_locked(NmPool *pool, NmPageNo page);
extern bool nm_arena_release_idle(NmPool *pool, int arena);
extern bool nm_punch_range(NmPool *pool, size_t offset, size_t len);

/* epoch.c; under the pool lock */
extern uint64_t nm_reclaim_locked(NmPool *pool, uint64_t max);

/* The advice that populates; tests set a number no kernel knows. */
extern int nm_populate_advice;

#endif /* NM_POOL_INT_H */

/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  Making the mapping, allocation and statistics of the page pool.
 *
 * IDENTIFICATION
 *	  src/pool/pool.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool/pool_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MPOL_PREFERRED
#define MPOL_PREFERRED 1
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif
#ifndef F_SEAL_SHRINK
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW	  0x0004
#endif

static size_t
commit_number_bytes(const NmPoolConfig *config)
{
	size_t bytes = config->narenas * nm_chunks_per_arena(config) * sizeof(uint32_t);

	return (bytes + NM_PAGE_SIZE - 1) / NM_PAGE_SIZE * NM_PAGE_SIZE;
}

size_t
nm_pool_shared_size(const NmPoolConfig *config)
{
	return NM_CACHE_LINE + /* for alignment */
		   sizeof(NmPoolShared) +
		   (size_t) config->nslots * sizeof(NmEpochSlot) +
		   (size_t) config->narenas * sizeof(NmArena) +
		   (size_t) config->narenas * nm_partial_words(config) * sizeof(uint64_t) +
		   (size_t) config->narenas * nm_chunks_per_arena(config) * sizeof(NmChunk);
}

/* shared is zeroed memory. */
void
nm_pool_init_shared(NmPool *pool, void *shared)
{
	uintptr_t addr = ((uintptr_t) shared + NM_CACHE_LINE - 1) & ~(uintptr_t) (NM_CACHE_LINE - 1);

	pool->shared = (NmPoolShared *) addr;
	atomic_store(&pool->shared->global_epoch, 1);
	atomic_store(&pool->shared->limit, pool->config.memory_limit);
}

/* Prefer the arena's node for its range, once and for every process. */
static bool
set_policy(NmPool *pool, int arena)
{
#ifdef SYS_mbind
	unsigned long mask[NM_MAX_NODE_ID / (8 * sizeof(unsigned long))] = {0};
	int node = pool->nodes[arena];

	if (node < 0 || node >= NM_MAX_NODE_ID)
	{
		errno = EINVAL;
		return false;
	}
	mask[node / (8 * sizeof(unsigned long))] = 1UL << (node % (8 * sizeof(unsigned long)));
	/* the kernel reads maxnode - 1 bits */
	return syscall(SYS_mbind, pool->base + (size_t) arena * pool->arena_bytes,
				   pool->arena_bytes, MPOL_PREFERRED, mask,
				   (unsigned long) NM_MAX_NODE_ID + 1, 0U) == 0;
#else
	(void) pool;
	(void) arena;
	errno = ENOSYS;
	return false;
#endif
}

/* Map the memfd at a chunk boundary. */
static bool
map_aligned(NmPool *pool)
{
	size_t reserve = pool->map_bytes + NM_CHUNK_SIZE;
	char *raw;
	char *base;

	raw = mmap(NULL, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return false;
	base = (char *) (((uintptr_t) raw + NM_CHUNK_SIZE - 1) & ~(uintptr_t) (NM_CHUNK_SIZE - 1));
	if (mmap(base, pool->map_bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, pool->memfd, 0) == MAP_FAILED)
	{
		int saved = errno;

		munmap(raw, reserve);
		errno = saved;
		return false;
	}
	if (base > raw)
		munmap(raw, (size_t) (base - raw));
	if (base + pool->map_bytes < raw + reserve)
		munmap(base + pool->map_bytes, (size_t) (raw + reserve - base) - pool->map_bytes);
	pool->base = base;
	return true;
}

NmPool *
nm_pool_create(const NmPoolConfig *config, void *shared, char *err, size_t errlen)
{
	size_t arenas_bytes;
	NmPool *pool;

	if (config->narenas < 1 || config->narenas > NM_MAX_NODES || config->nslots < 1 ||
		config->arena_bytes == 0 || config->arena_bytes % NM_CHUNK_SIZE != 0 ||
		config->lock == NULL || config->unlock == NULL)
	{
		snprintf(err, errlen, "invalid page pool configuration");
		return NULL;
	}
	if (config->arena_bytes / NM_PAGE_SIZE > UINT32_MAX / (size_t) config->narenas)
	{
		snprintf(err, errlen, "%d arenas of %zu bytes exceed the page pool's 16 TiB of address space",
				 config->narenas, config->arena_bytes);
		return NULL;
	}
	arenas_bytes = (size_t) config->narenas * config->arena_bytes;

	pool = calloc(1, sizeof(NmPool));
	if (pool == NULL)
	{
		snprintf(err, errlen, "out of memory");
		return NULL;
	}
	pool->config = *config;
	pool->arena_bytes = config->arena_bytes;
	pool->pages_per_arena = (uint32_t) (config->arena_bytes / NM_PAGE_SIZE);
	pool->npages = (uint64_t) pool->pages_per_arena * (uint64_t) config->narenas;
	pool->narenas = config->narenas;
	memcpy(pool->nodes, config->nodes, sizeof(pool->nodes));
	pool->epoch = 1;
	pool->map_bytes = arenas_bytes + commit_number_bytes(config);

	pool->memfd = (int) syscall(SYS_memfd_create, "numa_migrate", 0x0001U | 0x0002U); /* MFD_CLOEXEC,
																						 * MFD_ALLOW_SEALING */
	if (pool->memfd < 0)
	{
		snprintf(err, errlen, "could not create memory for the page pool: %s", strerror(errno));
		free(pool);
		return NULL;
	}
	if (ftruncate(pool->memfd, (off_t) pool->map_bytes) != 0)
	{
		snprintf(err, errlen, "could not size the page pool to %zu bytes: %s",
				 pool->map_bytes, strerror(errno));
		goto fail;
	}
	/* nobody can cut it off under us; not vital */
	(void) fcntl(pool->memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);

	/* The commit numbers are few; have them now, so that no touch can fail. */
	if (fallocate(pool->memfd, 0, (off_t) arenas_bytes,
				  (off_t) (pool->map_bytes - arenas_bytes)) != 0)
	{
		snprintf(err, errlen, "could not allocate %zu bytes for the page pool's book-keeping: %s",
				 pool->map_bytes - arenas_bytes, strerror(errno));
		goto fail;
	}
	if (!map_aligned(pool))
	{
		snprintf(err, errlen, "could not map %zu bytes of address space for the page pool: %s",
				 pool->map_bytes, strerror(errno));
		goto fail;
	}
	pool->commit_numbers = (uint32_t *) (pool->base + arenas_bytes);

	/* Wishes; a kernel without the feature has no need of them. */
	(void) madvise(pool->base, arenas_bytes, config->huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (config->dontdump)
		(void) madvise(pool->base, arenas_bytes, MADV_DONTDUMP);

	pool->policy_set = true;
	for (int i = 0; i < pool->narenas; i++)
	{
		if (!set_policy(pool, i))
		{
			pool->policy_set = false;
			pool->mbind_errno = errno;
			break;
		}
	}

	nm_pool_init_shared(pool, shared);
	return pool;

fail:
	close(pool->memfd);
	free(pool);
	return NULL;
}

void
nm_pool_reset(NmPool *pool, void *shared)
{
	size_t nnumbers = pool->narenas * nm_chunks_per_arena(&pool->config);

	nm_punch_range(pool, 0, (size_t) pool->narenas * pool->arena_bytes);

	/* A crashed process may have written anything here. */
	for (size_t i = 0; i < nnumbers; i++)
		if (pool->commit_numbers[i] >= NM_COMMIT_MAX)
			pool->commit_numbers[i] = NM_COMMIT_MAX - 1;

	pool->epoch++;
	nm_pool_init_shared(pool, shared);
}

void
nm_pool_destroy(NmPool *pool)
{
	munmap(pool->base, pool->map_bytes);
	close(pool->memfd);
	free(pool);
}

void
nm_pool_set_limit(NmPool *pool, uint64_t bytes)
{
	pool->config.memory_limit = bytes;
	atomic_store_explicit(&pool->shared->limit, bytes, memory_order_relaxed);
}

/* One round over the arenas, starting with the wanted one. */
static NmPageNo
alloc_locked(NmPool *pool, int arena, bool strict, NmPoolError *why, int *errno_saved)
{
	bool may_commit = true;

	*why = NM_POOL_OK;
	for (int i = 0; i < (strict ? 1 : pool->narenas); i++)
	{
		int here = (arena + i) % pool->narenas;
		NmPageNo page = nm_arena_take(pool, here);
		NmPoolError error;

		if (page != NM_NO_PAGE)
			return page;
		if (!may_commit)
			continue;
		error = nm_arena_commit(pool, here, errno_saved);
		if (error == NM_POOL_OK)
			return nm_arena_take(pool, here);
		/* the reason that says most: a full arena is not one while others go on */
		if (*why == NM_POOL_OK || *why == NM_POOL_ARENA_FULL)
			*why = error;
		/* limit and cgroup are the same everywhere; free pages are not */
		if (error == NM_POOL_LIMIT || error == NM_POOL_CGROUP)
			may_commit = false;
	}
	return NM_NO_PAGE;
}

NmPageNo
nm_pool_alloc(NmPool *pool, int arena, bool strict, NmPoolError *why, int *errno_saved)
{
	NmPoolShared *shared = pool->shared;
	NmPoolError reason = NM_POOL_OK;
	int saved = 0;
	NmPageNo page;

	NM_ASSERT(arena >= 0 && arena < pool->narenas);
	NM_ASSERT(!nm_epoch_inside(pool));

	nm_pool_lock(pool);
	page = nm_arena_take(pool, arena);
	if (page == NM_NO_PAGE)
	{
		/* retired pages before new memory */
		if (nm_reclaim_locked(pool, NM_RECLAIM_BATCH) > 0)
			page = nm_arena_take(pool, arena);
		if (page == NM_NO_PAGE)
			page = alloc_locked(pool, arena, strict, &reason, &saved);
		/* before a refusal, everything that waits */
		while (page == NM_NO_PAGE && nm_reclaim_locked(pool, NM_RECLAIM_BATCH) > 0)
			page = alloc_locked(pool, arena, strict, &reason, &saved);
		if (page == NM_NO_PAGE)
			shared->refusals++;
		else
			reason = NM_POOL_OK;
	}
	nm_pool_unlock(pool);

	if (why != NULL)
		*why = reason;
	if (errno_saved != NULL)
		*errno_saved = reason == NM_POOL_KERNEL ? saved : 0;
	return page;
}

void
nm_pool_free(NmPool *pool, NmPageNo page)
{
	nm_pool_lock(pool);
	nm_page_free_locked(pool, page);
	nm_pool_unlock(pool);
}

/* Unique over resets too: the pool epoch is in the upper bits. */
uint64_t
nm_pool_next_id(NmPool *pool)
{
	return ((uint64_t) pool->epoch << 40) |
		   (atomic_fetch_add_explicit(&pool->shared->last_id, 1, memory_order_relaxed) + 1);
}

void
nm_pool_stats(NmPool *pool, NmPoolStats *stats)
{
	NmPoolShared *shared = pool->shared;

	memset(stats, 0, sizeof(*stats));
	nm_pool_lock(pool);
	stats->narenas = pool->narenas;
	for (int i = 0; i < pool->narenas; i++)
	{
		const NmArena *a = nm_arena(pool, i);

		stats->nodes[i] = pool->nodes[i];
		stats->reserved[i] = pool->arena_bytes;
		stats->committed[i] = (uint64_t) a->ncommitted * NM_CHUNK_SIZE;
		stats->used[i] = a->nused * NM_PAGE_SIZE;
		stats->misplaced[i] = (uint64_t) a->nmisplaced * NM_CHUNK_SIZE;
		stats->huge[i] = (uint64_t) a->nhuge * NM_CHUNK_SIZE;
	}
	stats->retired = atomic_load_explicit(&shared->nretired, memory_order_relaxed) * NM_PAGE_SIZE;
	stats->limit = atomic_load_explicit(&shared->limit, memory_order_relaxed);
	stats->commits = shared->commits;
	stats->releases = shared->releases;
	stats->refusals = shared->refusals;
	nm_pool_unlock(pool);
}

const char *
nm_pool_error_text(NmPoolError why)
{
	switch (why)
	{
		case NM_POOL_OK:
			return "no error";
		case NM_POOL_LIMIT:
			return "the limit of numa_migrate.memory_limit has been reached";
		case NM_POOL_ARENA_FULL:
			return "the address space of numa_migrate.max_memory has been used up";
		case NM_POOL_CGROUP:
			return "the memory cgroup has no room left";
		case NM_POOL_KERNEL:
			return "the kernel refused memory";
	}
	return "unknown error";
}

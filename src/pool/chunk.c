/*-------------------------------------------------------------------------
 *
 * chunk.c
 *	  Chunks of an arena: committing, handing out pages, releasing.
 *
 * Everything here runs under the pool lock, except nm_pool_backed.
 *
 * A page is taken from the lowest chunk that has a free one, so that the high
 * chunks of an arena become wholly free.  An arena keeps one wholly free chunk
 * and gives the next one back to the kernel.
 *
 * IDENTIFICATION
 *	  src/pool/chunk.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool/pool_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MPOL_F_NODE
#define MPOL_F_NODE (1 << 0)
#endif
#ifndef MPOL_F_ADDR
#define MPOL_F_ADDR (1 << 1)
#endif

int nm_populate_advice = MADV_POPULATE_WRITE;

/* Pages of a chunk that can be handed out: all but page 0 of arena 0. */
static inline int
chunk_capacity(int arena, uint32_t chunk)
{
	return arena == 0 && chunk == 0 ? NM_CHUNK_PAGES - 1 : NM_CHUNK_PAGES;
}

static inline size_t
chunk_offset(const NmPool *pool, int arena, uint32_t chunk)
{
	return (size_t) arena * pool->arena_bytes + (size_t) chunk * NM_CHUNK_SIZE;
}

static inline uint32_t *
commit_number(const NmPool *pool, int arena, uint32_t chunk)
{
	return pool->commit_numbers +
		   (size_t) arena * nm_chunks_per_arena(&pool->config) + chunk;
}

/*
 * Give the memory of a range back to the kernel.  Both ways do the same; the
 * second needs no mapping.
 */
bool
nm_punch_range(NmPool *pool, size_t offset, size_t len)
{
	int rc;

	do
		rc = madvise(pool->base + offset, len, MADV_REMOVE);
	while (rc != 0 && errno == EINTR);
	if (rc == 0)
		return true;
	do
		rc = fallocate(pool->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					   (off_t) offset, (off_t) len);
	while (rc != 0 && errno == EINTR);
	return rc == 0;
}

/*
 * Back a range with memory.  Returns 0 or the kernel's error; then nothing of
 * the range stays allocated.
 */
static int
populate(NmPool *pool, size_t offset, size_t len)
{
	int rc;
	int saved;

	do
		rc = madvise(pool->base + offset, len, nm_populate_advice);
	while (rc != 0 && (errno == EINTR || errno == EAGAIN));

	/* a kernel before 5.14 doesn't know the advice */
	if (rc != 0 && errno == EINVAL)
	{
		do
			rc = fallocate(pool->memfd, FALLOC_FL_KEEP_SIZE, (off_t) offset, (off_t) len);
		while (rc != 0 && errno == EINTR);
	}
	if (rc == 0)
		return 0;

	/*
	 * The kernel's words for "no memory" here are EFAULT (a page could not be
	 * made: strict overcommit) and ENOSPC (the same, asked by fallocate).
	 */
	saved = errno == EFAULT || errno == ENOSPC ? ENOMEM : errno;
	nm_punch_range(pool, offset, len);
	return saved;
}

/*
 * Put a populated chunk on one huge page, unless the kernel's policy for shared
 * memory (shmem_enabled) had it made so at once.  False if it can't be done, or
 * the kernel can't be asked (before 6.1): the chunk then lies on small pages, or
 * nobody knows.
 */
static bool
make_huge(NmPool *pool, size_t offset)
{
	int rc;

	do
		rc = madvise(pool->base + offset, NM_CHUNK_SIZE, MADV_COLLAPSE);
	while (rc != 0 && errno == EINTR);
	return rc == 0;
}

/*
 * Did the kernel put the chunk elsewhere?  Asked of one page; a kernel that
 * can't tell has no nodes to confuse.
 */
static bool
is_misplaced(NmPool *pool, int arena, const char *addr)
{
#ifdef SYS_get_mempolicy
	int node = -1;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, addr, MPOL_F_NODE | MPOL_F_ADDR) == 0)
		return node != pool->nodes[arena];
#else
	(void) pool;
	(void) arena;
	(void) addr;
#endif
	return false;
}

/* Take any free page of the arena, NM_NO_PAGE if there is none. */
NmPageNo
nm_arena_take(NmPool *pool, int arena)
{
	NmArena *a = nm_arena(pool, arena);
	uint64_t *partial = nm_partial(pool, arena);
	size_t nwords = nm_partial_words(&pool->config);

	for (; a->partial_hint < nwords; a->partial_hint++)
	{
		uint32_t index;
		NmChunk *chunk;

		if (partial[a->partial_hint] == 0)
			continue;
		index = a->partial_hint * 64 + (uint32_t) __builtin_ctzll(partial[a->partial_hint]);
		chunk = nm_chunk(pool, arena, index);
		NM_ASSERT(chunk->nfree > 0 && atomic_load_explicit(&chunk->committed, memory_order_relaxed));
		for (int w = 0; w < NM_BITMAP_WORDS; w++)
		{
			int bit;

			if (chunk->free[w] == 0)
				continue;
			bit = __builtin_ctzll(chunk->free[w]);
			chunk->free[w] &= chunk->free[w] - 1;
			if (--chunk->nfree == 0)
				partial[a->partial_hint] &= partial[a->partial_hint] - 1;
			if (a->idle == index + 1)
				a->idle = 0;
			a->nused++;
			return (NmPageNo) arena * pool->pages_per_arena +
				   index * NM_CHUNK_PAGES + (uint32_t) (w * 64 + bit);
		}
		NM_ASSERT(!"a chunk counts free pages and has none");
		break;
	}
	return NM_NO_PAGE;
}

/* Give a chunk's memory back; it must be wholly free. */
static bool
release_chunk(NmPool *pool, int arena, uint32_t index)
{
	NmPoolShared *shared = pool->shared;
	NmArena *a = nm_arena(pool, arena);
	NmChunk *chunk = nm_chunk(pool, arena, index);
	size_t offset = chunk_offset(pool, arena, index);
	uint32_t number = *commit_number(pool, arena, index);

	NM_ASSERT(chunk->nfree == chunk_capacity(arena, index));

	/* The next commit must start above every version these pages ever had. */
	for (int i = 0; i < NM_CHUNK_PAGES; i++)
	{
		uint64_t word = __atomic_load_n((uint64_t *) (pool->base + offset + (size_t) i * NM_PAGE_SIZE),
										__ATOMIC_RELAXED);

		if ((word >> NM_COMMIT_SHIFT) > number)
			number = (uint32_t) (word >> NM_COMMIT_SHIFT);
	}
	if (number >= NM_COMMIT_MAX)
		return false; /* out of numbers: it stays committed for good */

	/* before the punch: from then on a reader's touch would allocate a page */
	atomic_store_explicit(&chunk->committed, false, memory_order_seq_cst);
	if (!nm_punch_range(pool, offset, NM_CHUNK_SIZE))
	{
		atomic_store_explicit(&chunk->committed, true, memory_order_seq_cst);
		return false;
	}
	*commit_number(pool, arena, index) = number;
	nm_partial(pool, arena)[index / 64] &= ~(UINT64_C(1) << (index % 64));
	chunk->nfree = 0;
	for (int w = 0; w < NM_BITMAP_WORDS; w++)
		chunk->free[w] = 0;
	if (chunk->misplaced)
		a->nmisplaced--;
	chunk->misplaced = false;
	if (chunk->huge)
		a->nhuge--;
	chunk->huge = false;
	if (a->idle == index + 1)
		a->idle = 0;
	if (index < a->hole_hint)
		a->hole_hint = index;
	a->ncommitted--;
	shared->committed--;
	shared->releases++;
	return true;
}

/* Release the arena's idle chunk, if it has one. */
bool
nm_arena_release_idle(NmPool *pool, int arena)
{
	NmArena *a = nm_arena(pool, arena);

	return a->idle != 0 && release_chunk(pool, arena, a->idle - 1);
}

/* Back one more chunk of the arena. */
NmPoolError
nm_arena_commit(NmPool *pool, int arena, int *errno_saved)
{
	NmPoolShared *shared = pool->shared;
	NmArena *a = nm_arena(pool, arena);
	uint32_t nchunks = (uint32_t) nm_chunks_per_arena(&pool->config);
	NmChunk *chunk;
	uint32_t index;
	size_t offset;
	uint64_t headroom;
	uint64_t version;
	uint64_t limit;
	int rc;

	while (a->hole_hint < nchunks &&
		   atomic_load_explicit(&nm_chunk(pool, arena, a->hole_hint)->committed, memory_order_relaxed))
		a->hole_hint++;
	if (a->hole_hint >= nchunks)
		return NM_POOL_ARENA_FULL;
	index = a->hole_hint;
	offset = chunk_offset(pool, arena, index);
	chunk = nm_chunk(pool, arena, index);

	/* At the limit, what lies idle in other arenas makes room. */
	limit = atomic_load_explicit(&shared->limit, memory_order_relaxed);
	for (int i = 0; i < pool->narenas; i++)
	{
		if ((shared->committed + 1) * NM_CHUNK_SIZE <= limit)
			break;
		if (i != arena)
			nm_arena_release_idle(pool, i);
	}
	if ((shared->committed + 1) * NM_CHUNK_SIZE > limit)
		return NM_POOL_LIMIT;

	headroom = pool->config.headroom != NULL ? pool->config.headroom() : nm_cgroup_headroom();
	if (headroom < NM_CHUNK_SIZE + NM_CGROUP_SLACK)
		return NM_POOL_CGROUP;

	rc = populate(pool, offset, NM_CHUNK_SIZE);
	if (rc != 0)
	{
		*errno_saved = rc;
		return NM_POOL_KERNEL;
	}

	chunk->huge = pool->config.huge_pages && make_huge(pool, offset);
	if (chunk->huge)
		a->nhuge++;

	version = (uint64_t) (++*commit_number(pool, arena, index)) << NM_COMMIT_SHIFT;
	for (int i = 0; i < NM_CHUNK_PAGES; i++)
		__atomic_store_n((uint64_t *) (pool->base + offset + (size_t) i * NM_PAGE_SIZE),
						 version, __ATOMIC_RELAXED);

	for (int w = 0; w < NM_BITMAP_WORDS; w++)
		chunk->free[w] = UINT64_MAX;
	if (arena == 0 && index == 0)
		chunk->free[0] &= ~UINT64_C(1);
	chunk->nfree = (uint16_t) chunk_capacity(arena, index);
	chunk->misplaced = is_misplaced(pool, arena, pool->base + offset);
	if (chunk->misplaced)
		a->nmisplaced++;
	atomic_store_explicit(&chunk->committed, true, memory_order_release);
	nm_partial(pool, arena)[index / 64] |= UINT64_C(1) << (index % 64);
	if (index / 64 < a->partial_hint)
		a->partial_hint = index / 64;
	a->ncommitted++;
	shared->committed++;
	shared->commits++;
	return NM_POOL_OK;
}

void
nm_page_free_locked(NmPool *pool, NmPageNo page)
{
	int arena = nm_pool_arena_of(pool, page);
	uint32_t in_arena = page % pool->pages_per_arena;
	uint32_t index = in_arena / NM_CHUNK_PAGES;
	int bit = (int) (in_arena % NM_CHUNK_PAGES);
	NmArena *a = nm_arena(pool, arena);
	NmChunk *chunk;

	NM_ASSERT(page != NM_NO_PAGE && arena < pool->narenas);
	chunk = nm_chunk(pool, arena, index);
	NM_ASSERT(atomic_load_explicit(&chunk->committed, memory_order_relaxed));
	NM_ASSERT((chunk->free[bit / 64] & (UINT64_C(1) << (bit % 64))) == 0);

	chunk->free[bit / 64] |= UINT64_C(1) << (bit % 64);
	chunk->nfree++;
	a->nused--;
	nm_partial(pool, arena)[index / 64] |= UINT64_C(1) << (index % 64);
	if (index / 64 < a->partial_hint)
		a->partial_hint = index / 64;

	if (chunk->nfree == chunk_capacity(arena, index))
	{
		/* Two wholly free chunks: the higher one goes. */
		if (a->idle == 0)
			a->idle = index + 1;
		else if (index + 1 > a->idle)
			release_chunk(pool, arena, index);
		else
		{
			uint32_t high = a->idle - 1;

			a->idle = index + 1;
			release_chunk(pool, arena, high);
		}
	}
}

bool
nm_pool_backed(const NmPool *pool, NmPageNo page)
{
	uint32_t arena = page / pool->pages_per_arena;

	if (page == NM_NO_PAGE || arena >= (uint32_t) pool->narenas)
		return false;
	return atomic_load_explicit(&nm_chunk(pool, (int) arena,
										  page % pool->pages_per_arena / NM_CHUNK_PAGES)
									 ->committed,
								memory_order_acquire);
}

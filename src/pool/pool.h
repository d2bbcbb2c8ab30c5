/*-------------------------------------------------------------------------
 *
 * pool.h
 *	  Page pool: per-node arenas of 4 KiB pages in memory shared by processes.
 *
 * Contract
 *	- One contiguous arena per node inside one memfd mapping, made once by the
 *	  parent process; children inherit it at the same address.  The memory
 *	  policy of an arena is set once (preferred node), so a page's node is its
 *	  address range; pool pages are never moved by a kernel call.
 *	- Memory is committed per 2 MiB chunk with MADV_POPULATE_WRITE, after
 *	  checking the limit and the memory cgroup's headroom.  A refusal is a
 *	  NULL page and a reason; touching a page that was handed out never faults
 *	  for lack of memory.
 *	- A page is freed either at once (nm_pool_free: no other process can reach
 *	  it) or by epoch (nm_pool_retire: readers may still hold its number).
 *	- The last 16 bytes of every page belong to the pool (retire queue).
 *	- The first 8 bytes of every page are its version word.  The pool owns its
 *	  start value: a committed chunk's pages start at (commit number << 40),
 *	  where each chunk counts its own commits, and nobody ever lowers it, so a version seen once is never seen again on
 *	  other content, page reuse included.
 *	- Locks: one sleeping lock given by the caller (an LWLock in the server, a
 *	  mutex in programs), held over commit and free-list work, never while a
 *	  version lock is held.
 *
 * IDENTIFICATION
 *	  src/pool/pool.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_POOL_H
#define NM_POOL_H

#include "port.h"
#include "topology.h"

#define NM_PAGE_SIZE   4096
#define NM_CHUNK_SIZE  (2 * 1024 * 1024)
#define NM_CHUNK_PAGES (NM_CHUNK_SIZE / NM_PAGE_SIZE)

/*
 * Page number: arena * pages_per_arena + index.  0 means "no page" (page 0 of
 * arena 0 is never handed out).  32 bits of 4 KiB pages: 16 TiB of address
 * space over all arenas.
 */
typedef uint32_t NmPageNo;
#define NM_NO_PAGE ((NmPageNo) 0)

typedef enum NmPoolError
{
	NM_POOL_OK = 0,
	NM_POOL_LIMIT,		/* memory_limit reached */
	NM_POOL_ARENA_FULL, /* no address space left in any arena (max_memory) */
	NM_POOL_CGROUP,		/* memory cgroup has no headroom */
	NM_POOL_KERNEL		/* the kernel refused; see errno_saved */
} NmPoolError;

typedef struct NmPoolConfig
{
	int narenas;
	int nodes[NM_MAX_NODES]; /* kernel node id of each arena */
	size_t arena_bytes;		 /* address space per arena, multiple of chunk */
	size_t memory_limit;	 /* committed bytes allowed over all arenas */
	int nslots;				 /* epoch slots = processes (or threads) at once */
	bool dontdump;			 /* MADV_DONTDUMP */
	bool huge_pages;		 /* a chunk is to lie on one huge page, if it can */
	void (*lock)(void *arg); /* sleeping lock over the pool's lists */
	void (*unlock)(void *arg);
	void *lock_arg;
	/* Test hook: if set, called instead of the cgroup reading; bytes left. */
	uint64_t (*headroom)(void);
} NmPoolConfig;

typedef struct NmPoolStats
{
	int narenas;
	int nodes[NM_MAX_NODES];
	uint64_t reserved[NM_MAX_NODES];  /* bytes of address space */
	uint64_t committed[NM_MAX_NODES]; /* bytes backed by memory */
	uint64_t used[NM_MAX_NODES];	  /* bytes in pages handed out, retired ones
									 * included */
	uint64_t retired;				  /* bytes waiting for their epoch, all arenas */
	uint64_t limit;
	uint64_t commits,
		releases,
		refusals;
	uint64_t misplaced[NM_MAX_NODES]; /* committed bytes in chunks whose first
										 * page the kernel put elsewhere (full
										 * node, no policy) */
	uint64_t huge[NM_MAX_NODES];	  /* committed bytes that lie on huge pages, as
									  * far as the kernel said so */
} NmPoolStats;

typedef struct NmPoolShared NmPoolShared;

/* Process-local view of the pool; plain data, inherited by fork. */
typedef struct NmPool
{
	char *base; /* start of the mapping */
	size_t arena_bytes;
	uint32_t pages_per_arena;
	uint64_t npages; /* of all arenas; page numbers are below */
	int narenas;
	int nodes[NM_MAX_NODES];
	int memfd;
	bool policy_set; /* mbind worked; else first touch decides */
	int mbind_errno; /* why not, 0 if it worked */
	NmPoolShared *shared;
	NmPoolConfig config;
	uint32_t epoch;			  /* pool epoch, see nm_pool_epoch */
	uint32_t *commit_numbers; /* last commit number of every chunk; lies behind
								 * the arenas in the memfd, survives a reset */
	size_t map_bytes;		  /* arenas and commit numbers */
} NmPool;

/* Bytes of zeroed shared memory that nm_pool_create needs for its book-keeping. */
extern size_t nm_pool_shared_size(const NmPoolConfig *config);

/*
 * Create the mapping and initialise *shared.  Returns NULL with a message in
 * err when address space or memfd cannot be had.
 */
extern NmPool *nm_pool_create(const NmPoolConfig *config, void *shared, char *err, size_t errlen);

/*
 * After a crash restart: shared memory is new and zeroed, the mapping is the
 * old one.  Punches the whole range out, initialises the book-keeping with a
 * higher pool epoch, cannot fail.
 */
extern void nm_pool_reset(NmPool *pool, void *shared);

/* Unmap and close; for programs and tests. */
extern void nm_pool_destroy(NmPool *pool);

/* Change the limit of committed bytes (bytes). Takes effect on later commits. */
extern void nm_pool_set_limit(NmPool *pool, uint64_t bytes);

/*
 * A page on the given arena, or, if that arena is out of memory, the nearest
 * other one by arena order.  Content past the version word is undefined.
 * Takes the pool lock; call without epoch section or version lock held.
 * Returns NM_NO_PAGE and sets *why (and errno_saved, may be NULL).
 */
extern NmPageNo nm_pool_alloc(NmPool *pool, int arena, bool strict, NmPoolError *why, int *errno_saved);

/*
 * Is there memory behind this page number now?  For a page number remembered
 * from an earlier epoch section (a scan's hint): its chunk may have been
 * released since, and a read there would make the kernel allocate a zero page
 * that nobody accounts for.  The answer may be outdated at once; then the read
 * is still harmless (a zero or foreign header).  False for numbers outside
 * the pool.  Takes no lock.
 */
extern bool nm_pool_backed(const NmPool *pool, NmPageNo page);

/* Give a page back that no other process can reach. */
extern void nm_pool_free(NmPool *pool, NmPageNo page);

/*
 * Give back a page that readers may still be looking at: freed once every
 * process that was in an epoch section now has left it.  Never fails, no
 * allocation.  Must not be called with a version lock held.  The queue runs
 * through the last NM_PAGE_RESERVED bytes of the retired pages, which the
 * pool's user never touches.
 */
#define NM_PAGE_RESERVED 16
extern void nm_pool_retire(NmPool *pool, NmPageNo page);

/*
 * Free what has become safe; returns pages freed.  Called by retire and alloc
 * now and then, by the worker always.
 */
extern uint64_t nm_pool_reclaim(NmPool *pool);

/*
 * True once every epoch section that was open when the token was taken has
 * been left.
 */
extern uint64_t nm_pool_grace_token(NmPool *pool);
extern bool nm_pool_grace_passed(NmPool *pool, uint64_t token);

/*
 * Epoch sections.  A process owns one slot (0..nslots-1) for its life.
 * Sections are short and do not nest; nm_epoch_reset leaves one if open
 * (error cleanup).
 */
extern void nm_epoch_attach(NmPool *pool, int slot);
extern void nm_epoch_detach(NmPool *pool);
extern void nm_epoch_enter(NmPool *pool);
extern void nm_epoch_exit(NmPool *pool);
extern void nm_epoch_reset(NmPool *pool);
extern bool nm_epoch_inside(NmPool *pool);

/* A number never given before in this pool's life, resets included; > 0. */
extern uint64_t nm_pool_next_id(NmPool *pool);

extern void nm_pool_stats(NmPool *pool, NmPoolStats *stats);
extern const char *nm_pool_error_text(NmPoolError why);
/* Headroom of this process's memory cgroup (v1 or v2) in bytes, UINT64_MAX = none. */
extern uint64_t nm_cgroup_headroom(void);

/* Bumped by every reset, from 1. */
static inline uint32_t
nm_pool_epoch(const NmPool *pool)
{
	return pool->epoch;
}

static inline void *
nm_pool_page(const NmPool *pool, NmPageNo page)
{
	return pool->base + (size_t) page * NM_PAGE_SIZE;
}

static inline int
nm_pool_arena_of(const NmPool *pool, NmPageNo page)
{
	return (int) (page / pool->pages_per_arena);
}

/* Arena of a kernel node id, or -1. */
static inline int
nm_pool_arena_of_node(const NmPool *pool, int node)
{
	for (int i = 0; i < pool->narenas; i++)
		if (pool->nodes[i] == node)
			return i;
	return -1;
}

#endif /* NM_POOL_H */

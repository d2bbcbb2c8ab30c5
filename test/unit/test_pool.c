/*-------------------------------------------------------------------------
 *
 * test_pool.c
 *	  The page pool: limits, refusals, release, version words, reset.
 *
 * IDENTIFICATION
 *	  test/unit/test_pool.c
 *
 *-------------------------------------------------------------------------
 */
#include "tap.h"
#include "pool/pool_int.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MB		 ((size_t) 1 << 20)
#define CHUNK_MB (NM_CHUNK_SIZE / MB)

static Rng rng;

static NmPageNo
take(NmPool *pool, int arena)
{
	return nm_pool_alloc(pool, arena, false, NULL, NULL);
}

static uint64_t *
word_of(NmPool *pool, NmPageNo page)
{
	return nm_pool_page(pool, page);
}

/* Bytes that the kernel really holds for the pool, commit numbers included. */
static uint64_t
backed_bytes(NmPool *pool)
{
	struct stat st;

	if (fstat(pool->memfd, &st) != 0)
		return 0;
	return (uint64_t) st.st_blocks * 512;
}

static uint64_t
committed_total(NmPool *pool)
{
	NmPoolStats s;
	uint64_t sum = 0;

	nm_pool_stats(pool, &s);
	for (int i = 0; i < s.narenas; i++)
		sum += s.committed[i];
	return sum;
}

static uint64_t fake_headroom_bytes;

static uint64_t
fake_headroom(void)
{
	return fake_headroom_bytes;
}

static void
no_lock(void *arg)
{
	(void) arg;
}

static void
test_create_errors(void)
{
	NmPoolConfig good = {.narenas = 1, .arena_bytes = NM_CHUNK_SIZE, .nslots = 1, .lock = no_lock, .unlock = no_lock};
	NmPoolConfig c;
	char err[200];
	char *mem = calloc(1, 1 << 20);

#define REFUSED(change, name)                                                                               \
	do                                                                                                      \
	{                                                                                                       \
		c = good;                                                                                           \
		change;                                                                                             \
		err[0] = '\0';                                                                                      \
		ok(nm_pool_create(&c, mem, err, sizeof(err)) == NULL && err[0] != '\0', "create refuses %s", name); \
	} while (0)

	REFUSED(c.narenas = 0, "no arena");
	REFUSED(c.narenas = NM_MAX_NODES + 1, "too many arenas");
	REFUSED(c.arena_bytes = NM_CHUNK_SIZE + NM_PAGE_SIZE, "an arena that is not whole chunks");
	REFUSED(c.arena_bytes = 0, "an empty arena");
	REFUSED(c.nslots = 0, "no slots");
	REFUSED(c.lock = NULL, "no lock");
	REFUSED((c.narenas = 8, c.arena_bytes = (size_t) 4 << 40), "more than 32 bits of pages");
#undef REFUSED
	free(mem);
}

/* Allocate until refused; returns pages, checks that they are all different. */
static uint64_t
drain(NmPool *pool, int arena, bool strict, NmPoolError *why)
{
	size_t total = (size_t) pool->pages_per_arena * pool->narenas;
	char *seen = calloc(1, total);
	uint64_t n = 0;
	NmPageNo page;
	int saved = -1;

	while ((page = nm_pool_alloc(pool, arena, strict, why, &saved)) != NM_NO_PAGE)
	{
		if (page >= total || seen[page])
		{
			fault("page %u handed out twice or outside the pool", page);
			break;
		}
		seen[page] = 1;
		if (*why != NM_POOL_OK || saved != 0)
			fault("a page and a reason (%d, errno %d)", *why, saved);
		if (strict && nm_pool_arena_of(pool, page) != arena)
			fault("page %u of another arena", page);
		memset((char *) nm_pool_page(pool, page) + 8, 0xA5, NM_PAGE_SIZE - 8);
		n++;
	}
	free(seen);
	return n;
}

static void
test_limits(void)
{
	NmPool *pool = pool_make(2, 16, 6, 4);
	NmPoolStats s;
	NmPoolError why;
	uint64_t n;

	n = drain(pool, 0, false, &why);
	ok(n == 3 * NM_CHUNK_PAGES - 1 && why == NM_POOL_LIMIT,
	   "limit of 3 chunks: %llu pages, then %s", (unsigned long long) n, nm_pool_error_text(why));
	nm_pool_stats(pool, &s);
	ok(s.refusals == 1 && s.commits == 3 && s.releases == 0 && s.limit == 6 * MB &&
		   s.committed[0] == 6 * MB && s.committed[1] == 0 && s.used[0] == n * NM_PAGE_SIZE,
	   "statistics after the refusal");
	ok(backed_bytes(pool) >= 6 * MB && backed_bytes(pool) < 6 * MB + 64 * 1024,
	   "the kernel holds three chunks");
	ok(take(pool, 1) == NM_NO_PAGE, "the limit counts over all arenas");

	nm_pool_set_limit(pool, 12 * MB);
	n = drain(pool, 1, true, &why);
	ok(n == 3 * NM_CHUNK_PAGES && why == NM_POOL_LIMIT, "a raised limit works at once, strict stays in its arena");
	nm_pool_set_limit(pool, 1000 * MB);
	n = drain(pool, 1, true, &why);
	ok(n == 5 * NM_CHUNK_PAGES && why == NM_POOL_ARENA_FULL, "strict: the arena's address space ends");
	n = drain(pool, 1, false, &why);
	ok(n == 5 * NM_CHUNK_PAGES && why == NM_POOL_ARENA_FULL, "not strict: the other arena's pages, then full");
	nm_pool_stats(pool, &s);
	ok(s.refusals == 5 && s.used[0] + s.used[1] == 32 * MB - NM_PAGE_SIZE, "all pages but page 0 were handed out");
	ok(faults() == 0, "no page twice, no stray reasons");
	pool_unmake(pool);

	/* fallback goes to the next arena, and around */
	pool = pool_make(3, 2, 100, 4);
	n = drain(pool, 1, true, &why);
	ok(nm_pool_arena_of(pool, take(pool, 1)) == 2, "fallback: the next arena");
	n = drain(pool, 2, true, &why);
	ok(nm_pool_arena_of(pool, take(pool, 1)) == 0, "fallback: and around");
	pool_unmake(pool);

	/* at the limit, another arena's free pages serve, but not if strict */
	pool = pool_make(2, 8, 2, 4);
	take(pool, 0);
	ok(nm_pool_alloc(pool, 1, true, &why, NULL) == NM_NO_PAGE && why == NM_POOL_LIMIT, "strict at the limit");
	ok(nm_pool_arena_of(pool, take(pool, 1)) == 0, "not strict at the limit: free pages elsewhere");
	ok(faults() == 0, "drains were clean");
	pool_unmake(pool);
}

static void
test_cgroup_hook(void)
{
	NmPool *pool = pool_make(2, 8, 100, 4);
	NmPoolError why;
	int saved;

	pool->config.headroom = fake_headroom;
	fake_headroom_bytes = 18 * MB - 1;
	ok(nm_pool_alloc(pool, 0, false, &why, &saved) == NM_NO_PAGE && why == NM_POOL_CGROUP && saved == 0,
	   "one byte short of a chunk and 16 MiB: refused");
	ok(backed_bytes(pool) < 64 * 1024, "nothing was allocated");
	fake_headroom_bytes = 18 * MB;
	ok(take(pool, 0) != NM_NO_PAGE, "exactly enough: granted");
	fake_headroom_bytes = 0;
	ok(take(pool, 0) != NM_NO_PAGE && take(pool, 1) != NM_NO_PAGE, "committed pages need no headroom");
	pool_unmake(pool);
}

static void
test_kernel(void)
{
	NmPool *pool = pool_make(1, 8, 100, 4);
	NmPoolError why;
	int fd;
	int saved = 0;
	NmPageNo page;
	int old_advice = nm_populate_advice;
	bool zero = true;

	nm_populate_advice = 9999; /* EINVAL, as on an old kernel */
	page = take(pool, 0);
	ok(page != NM_NO_PAGE && backed_bytes(pool) >= NM_CHUNK_SIZE, "without MADV_POPULATE_WRITE fallocate backs the chunk");
	for (size_t i = 8; i < NM_CHUNK_SIZE / 8; i++)
		if (i % (NM_PAGE_SIZE / 8) != 0 && ((uint64_t *) pool->base)[i] != 0)
			zero = false;
	ok(zero && *word_of(pool, page) == UINT64_C(1) << 40, "its pages are zero but for the version word");
	drain(pool, 0, false, &why);
	nm_pool_set_limit(pool, 1000 * MB);
	pool_unmake(pool);

	pool = pool_make(1, 8, 100, 4);
	fd = pool->memfd;
	pool->memfd = -1;
	ok(nm_pool_alloc(pool, 0, false, &why, &saved) == NM_NO_PAGE && why == NM_POOL_KERNEL && saved == EBADF,
	   "a refusal of the kernel carries its errno (%d)", saved);
	pool->memfd = fd;
	ok(take(pool, 0) != NM_NO_PAGE && committed_total(pool) == NM_CHUNK_SIZE, "and leaves the pool usable");
	nm_populate_advice = old_advice;
	pool_unmake(pool);

	ok(strcmp(nm_pool_error_text(NM_POOL_LIMIT), nm_pool_error_text(NM_POOL_CGROUP)) != 0 &&
		   nm_pool_error_text((NmPoolError) 99) != NULL,
	   "every reason has a text");
	faults();
}

static void
test_policy(void)
{
	NmPoolConfig c;
	NmPool *pool = pool_make(2, 8, 100, 4);
	NmPool *other;
	NmPageNo page = take(pool, 1);
	NmPoolStats s;
	int node = -1;
	char err[200];
	char line[512];
	bool inside = false;
	bool dd = false;
	bool nh = false;
	FILE *f;

	if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, nm_pool_page(pool, page), 3) != 0)
		skip("no get_mempolicy", "placement");
	else
	{
		int mode = -1;
		unsigned long mask[16] = {0};
		long rc = syscall(SYS_get_mempolicy, &mode, mask, 1025UL, nm_pool_page(pool, page), 2);

		nm_pool_stats(pool, &s);
		ok(node == 0 && s.misplaced[0] + s.misplaced[1] == 0, "the page is where its arena says");
		if (pool->policy_set)
			ok(rc == 0 && mode == 1 && mask[0] == 1, "the arena prefers its node (mode %d, mask %lx)", mode, mask[0]);
		else
			skip("mbind refused", "the arena prefers its node");
	}

	f = fopen("/proc/self/smaps", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		unsigned long lo,
			hi;

		if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
			inside = lo <= (uintptr_t) pool->base && (uintptr_t) pool->base < hi;
		else if (inside && strncmp(line, "VmFlags:", 8) == 0)
		{
			dd = strstr(line, " dd") != NULL;
			nh = strstr(line, " nh") != NULL;
		}
	}
	if (f == NULL)
		skip("no smaps", "dump and huge page flags");
	else
	{
		fclose(f);
		ok(dd, "the mapping is left out of core dumps");
		ok(nh || access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0, "the mapping has no huge pages");
	}
	ok((uintptr_t) pool->base % NM_CHUNK_SIZE == 0, "chunks are aligned");

	/* a node that isn't there: works, and tells */
	c = pool->config;
	c.nodes[0] = c.nodes[1] = 1000;
	other = nm_pool_create(&c, shared_mem(nm_pool_shared_size(&c)), err, sizeof(err));
	page = take(other, 0);
	nm_pool_stats(other, &s);
	ok(page != NM_NO_PAGE && !other->policy_set && other->mbind_errno != 0,
	   "policy refused (errno %d): noted, pages are handed out", other->mbind_errno);
	ok(s.misplaced[0] == NM_CHUNK_SIZE && s.misplaced[1] == 0, "the misplaced chunk is counted");
	nm_pool_free(other, page);
	nm_pool_destroy(other);
	ok(nm_pool_arena_of_node(pool, 0) == 0 && nm_pool_arena_of_node(pool, 5) == -1, "arena of a node");
	pool_unmake(pool);
}

/* Bytes of the mapping that this process sees on huge pages. */
static uint64_t
huge_bytes(NmPool *pool)
{
	char line[512];
	bool inside = false;
	uint64_t sum = 0;
	FILE *f = fopen("/proc/self/smaps", "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		unsigned long lo,
			hi,
			kb;

		if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
			inside = lo >= (uintptr_t) pool->base && hi <= (uintptr_t) pool->base + pool->map_bytes;
		else if (inside && sscanf(line, "ShmemPmdMapped: %lu kB", &kb) == 1)
			sum += kb * 1024;
	}
	if (f != NULL)
		fclose(f);
	return sum;
}

/* Does this kernel make huge pages of shared memory when asked? */
static bool
can_collapse(void)
{
	int fd = (int) syscall(SYS_memfd_create, "test_pool", 0U);
	char *raw = mmap(NULL, 2 * NM_CHUNK_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = (char *) (((uintptr_t) raw + NM_CHUNK_SIZE - 1) & ~(uintptr_t) (NM_CHUNK_SIZE - 1));
	bool can;

	can = ftruncate(fd, NM_CHUNK_SIZE) == 0 &&
		  mmap(at, NM_CHUNK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at;
	if (can)
		memset(at, 1, NM_CHUNK_SIZE);
	can = can && madvise(at, NM_CHUNK_SIZE, 25 /* MADV_COLLAPSE */) == 0;
	munmap(raw, 2 * NM_CHUNK_SIZE);
	close(fd);
	return can;
}

static void
test_huge(void)
{
	NmPool *small = pool_make(2, 16, 100, 4);
	NmPoolConfig c = small->config;
	NmPageNo *pages = calloc(4 * NM_CHUNK_PAGES, sizeof(NmPageNo));
	NmPool *pool;
	NmPoolStats s;
	char err[200];

	nm_epoch_detach(small);
	c.huge_pages = true;
	pool = nm_pool_create(&c, shared_mem(nm_pool_shared_size(&c)), err, sizeof(err));
	nm_epoch_attach(pool, 0);
	for (int i = 0; i < 4 * NM_CHUNK_PAGES; i++)
	{
		pages[i] = take(pool, 1);
		/* touched, so that this process sees it */
		memset((char *) nm_pool_page(pool, pages[i]) + 8, 0x5A, NM_PAGE_SIZE - 8);
	}
	nm_pool_stats(pool, &s);
	ok(s.committed[1] == 4 * NM_CHUNK_SIZE && s.huge[0] == 0 && s.huge[1] <= s.committed[1], "huge pages: four chunks");
	ok(backed_bytes(pool) < 4 * NM_CHUNK_SIZE + 64 * 1024, "huge pages: no more memory than that");
	/* the kernel's word; it may have more than it said when asked before Linux 6.1 */
	ok(huge_bytes(pool) >= s.huge[1], "huge pages: %llu of %llu bytes, the kernel maps %llu", (unsigned long long) s.huge[1],
	   (unsigned long long) s.committed[1], (unsigned long long) huge_bytes(pool));
	if (!can_collapse())
		skip("no MADV_COLLAPSE, or no huge pages of shared memory, here", "huge pages are had");
	else
		ok(s.huge[1] > 0, "huge pages are had");

	for (int i = 0; i < 4 * NM_CHUNK_PAGES; i++)
		nm_pool_free(pool, pages[i]);
	nm_pool_stats(pool, &s);
	ok(s.committed[1] == NM_CHUNK_SIZE && s.huge[1] <= NM_CHUNK_SIZE && backed_bytes(pool) < NM_CHUNK_SIZE + 64 * 1024,
	   "huge pages go back to the kernel as small ones do");
	nm_epoch_detach(pool);
	nm_pool_reset(pool, shared_mem(nm_pool_shared_size(&c)));
	nm_epoch_attach(pool, 0);
	nm_pool_stats(pool, &s);
	ok(s.huge[1] == 0 && backed_bytes(pool) < 64 * 1024 && take(pool, 1) != NM_NO_PAGE, "a reset takes them back, too");
	nm_epoch_detach(pool);
	nm_pool_destroy(pool);

	nm_epoch_attach(small, 0);
	take(small, 0);
	nm_pool_stats(small, &s);
	ok(s.huge[0] == 0 && huge_bytes(small) == 0, "small pages if that was asked for");
	pool_unmake(small);
	free(pages);
}

static void
test_release(void)
{
	NmPool *pool = pool_make(2, 32, 100, 4);
	NmPageNo pages[4 * NM_CHUNK_PAGES];
	NmPoolStats s;
	uint64_t before;
	bool backed;

	for (int i = 0; i < 4 * NM_CHUNK_PAGES; i++)
		pages[i] = take(pool, 1);
	ok(committed_total(pool) == 4 * NM_CHUNK_SIZE, "four chunks committed");
	ok(nm_pool_backed(pool, pages[3 * NM_CHUNK_PAGES]) && !nm_pool_backed(pool, pages[0] - 1) &&
		   !nm_pool_backed(pool, NM_NO_PAGE) && !nm_pool_backed(pool, UINT32_MAX),
	   "backed says which pages have memory");
	for (int i = 0; i < 4 * NM_CHUNK_PAGES; i++)
		nm_pool_free(pool, pages[i]);
	nm_pool_stats(pool, &s);
	ok(s.committed[1] == NM_CHUNK_SIZE && s.used[1] == 0 && s.releases == 3, "all freed: one wholly free chunk stays");
	ok(backed_bytes(pool) < NM_CHUNK_SIZE + 64 * 1024, "the kernel got the others back");
	ok(nm_pool_backed(pool, pages[0]) && !nm_pool_backed(pool, pages[3 * NM_CHUNK_PAGES]), "the lowest chunk is the one that stays");

	/* up and down over the boundary: no commit for each page */
	for (int i = 0; i < NM_CHUNK_PAGES; i++)
		pages[i] = take(pool, 1);
	nm_pool_stats(pool, &s);
	before = s.commits;
	for (int i = 0; i < 1000; i++)
		nm_pool_free(pool, take(pool, 1));
	nm_pool_stats(pool, &s);
	ok(s.commits - before <= 1 && s.releases == 3, "no thrashing at a chunk boundary");
	for (int i = 0; i < NM_CHUNK_PAGES; i++)
		nm_pool_free(pool, pages[i]);

	/* the idle chunk of one arena makes room for another */
	nm_pool_set_limit(pool, NM_CHUNK_SIZE);
	nm_pool_reclaim(pool);
	ok(committed_total(pool) <= NM_CHUNK_SIZE, "a lowered limit takes idle chunks back");
	pages[0] = take(pool, 0);
	ok(nm_pool_arena_of(pool, pages[0]) == 0 && committed_total(pool) == NM_CHUNK_SIZE, "at the limit an idle chunk elsewhere is released");
	nm_pool_free(pool, pages[0]);
	ok(committed_total(pool) == NM_CHUNK_SIZE, "the chunk of page 0 idles as the others do");
	nm_pool_set_limit(pool, 0);
	nm_pool_reclaim(pool);
	ok(committed_total(pool) == 0, "and is released as the others are");

	/* retired pages keep their chunk */
	nm_pool_set_limit(pool, 100 * MB);
	for (int i = 0; i < 3 * NM_CHUNK_PAGES; i++)
		pages[i] = take(pool, 1);
	nm_epoch_enter(pool);
	for (int i = 0; i < 3 * NM_CHUNK_PAGES; i++)
		nm_pool_retire(pool, pages[i]);
	backed = true;
	for (int i = 0; i < 3 * NM_CHUNK_PAGES; i++)
		backed = backed && nm_pool_backed(pool, pages[i]);
	nm_pool_stats(pool, &s);
	ok(backed && s.retired == 3 * NM_CHUNK_SIZE && s.used[1] == 3 * NM_CHUNK_SIZE,
	   "retired pages keep their memory while a section is open");
	nm_epoch_exit(pool);
	ok(nm_pool_reclaim(pool) == 3 * NM_CHUNK_PAGES && committed_total(pool) == NM_CHUNK_SIZE, "and lose it after");

	/* at the limit alloc takes retired pages before it refuses */
	nm_pool_set_limit(pool, NM_CHUNK_SIZE);
	for (int i = 0; i < NM_CHUNK_PAGES; i++)
		pages[i] = take(pool, 1);
	nm_pool_retire(pool, pages[7]);
	ok(take(pool, 1) == pages[7], "alloc reclaims before it refuses");
	pool_unmake(pool);
}

/*
 * A version word never comes back: whatever happens to a page, the word it is
 * handed out with is at least the last one seen, and above it if the memory
 * was another's in between.
 */
static void
test_versions(void)
{
	NmPool *pool = pool_make(2, 8, 100, 4);
	uint32_t total = pool->pages_per_arena * 2;
	uint64_t *last = calloc(total, sizeof(uint64_t));
	NmPageNo *live = calloc(total, sizeof(NmPageNo));
	int nlive = 0;
	int rounds = 200000;
	int resets = 0;
	NmPoolStats s;
	uint64_t releases = 0;

	for (int i = 0; i < rounds; i++)
	{
		/* long swings, so that chunks come and go */
		bool grow = (i / 5000) % 2 == 0 ? rng_below(&rng, 4) != 0 : rng_below(&rng, 4) == 0;

		if (grow)
		{
			NmPageNo p = take(pool, (int) rng_below(&rng, 2));
			uint64_t w;

			if (p == NM_NO_PAGE)
				continue;
			w = *word_of(pool, p);
			if (w < last[p])
				fault("page %u: version %llx after %llx", p, (unsigned long long) w, (unsigned long long) last[p]);
			/* use it; sometimes very much */
			w += 2 * rng_below(&rng, 1000);
			if (rng_below(&rng, 5000) == 0)
				w += UINT64_C(1) << 41;
			*word_of(pool, p) = last[p] = w;
			live[nlive++] = p;
		}
		else if (nlive > 0)
		{
			int k = (int) rng_below(&rng, (uint64_t) nlive);

			if (rng_below(&rng, 2))
				nm_pool_free(pool, live[k]);
			else
				nm_pool_retire(pool, live[k]);
			live[k] = live[--nlive];
		}
		if (rng_below(&rng, (uint64_t) rounds / 4) == 0 || i == rounds / 2)
		{
			nm_pool_stats(pool, &s);
			releases += s.releases;
			/*
			 * What was in use starts higher now: none of it is the old
			 * content.  A reset doesn't look at the pages, so an overrun of a
			 * commit number is forgotten.
			 */
			for (uint32_t p = 0; p < total; p++)
			{
				if ((last[p] >> NM_COMMIT_SHIFT) > pool->commit_numbers[p / NM_CHUNK_PAGES])
					last[p] = 0;
				if (last[p] != 0)
					last[p]++;
			}
			pool_remake(pool);
			nlive = 0;
			resets++;
		}
	}
	/* once more up to the top and down to nothing */
	while ((live[nlive] = take(pool, 1)) != NM_NO_PAGE)
	{
		if (*word_of(pool, live[nlive]) < last[live[nlive]])
			fault("page %u: an old version", live[nlive]);
		nlive++;
	}
	while (nlive > 0)
		nm_pool_free(pool, live[--nlive]);
	nm_pool_stats(pool, &s);
	releases += s.releases;
	ok(faults() == 0 && resets > 0 && releases > 0,
	   "version words only grow (%d steps, %llu releases, %d resets)", rounds, (unsigned long long) releases, resets);

	/* a chunk that ran out of commit numbers is not released any more */
	pool_remake(pool);
	nm_pool_free(pool, take(pool, 0));
	nm_pool_set_limit(pool, 0);
	pool->commit_numbers[0] = NM_COMMIT_MAX;
	nm_pool_reclaim(pool);
	ok(committed_total(pool) == NM_CHUNK_SIZE, "a chunk without commit numbers left stays");
	free(last);
	free(live);
	pool_unmake(pool);
}

static void
test_reset(void)
{
	NmPool *pool = pool_make(2, 8, 100, 4);
	NmPoolStats s;
	NmPoolError why;
	NmPageNo page;
	uint64_t id;
	uint64_t n;

	drain(pool, 0, false, &why);
	nm_pool_set_limit(pool, 50 * MB);
	page = 77;
	nm_pool_retire(pool, page);
	id = nm_pool_next_id(pool);
	ok(nm_pool_next_id(pool) > id && nm_pool_epoch(pool) == 1, "ids grow, the first epoch is 1");
	id = nm_pool_next_id(pool);
	pool_remake(pool);
	nm_pool_stats(pool, &s);
	ok(nm_pool_epoch(pool) == 2 && s.committed[0] + s.committed[1] + s.used[0] + s.used[1] + s.retired == 0,
	   "a reset bumps the epoch and leaves nothing");
	ok(s.limit == 50 * MB, "the limit set last is kept");
	ok(backed_bytes(pool) < 64 * 1024, "the kernel got everything back");
	ok(((uint64_t *) nm_pool_page(pool, 5))[3] == 0, "old pages read as zeroes");
	ok(nm_pool_next_id(pool) > id, "ids grow over a reset");
	n = drain(pool, 1, false, &why);
	ok(n == 8 * NM_CHUNK_PAGES - 1 && why == NM_POOL_ARENA_FULL, "all pages can be had again");
	for (int i = 0; i < 5; i++)
		pool_remake(pool);
	ok(nm_pool_epoch(pool) == 7 && take(pool, 0) != NM_NO_PAGE, "resets in a row");
	ok(faults() == 0, "drains were clean");
	pool_unmake(pool);
}

static void
test_stats(void)
{
	NmPool *pool = pool_make(3, 8, 100, 4);
	NmPageNo *live = calloc(3 * pool->pages_per_arena, sizeof(NmPageNo));
	uint64_t nlive = 0;
	bool in = false;

	for (int i = 0; i < scaled(40000); i++)
	{
		NmPoolStats s;
		uint64_t used = 0;
		uint64_t committed = 0;

		if (rng_below(&rng, 5) < ((i / 5000) % 2 ? 1 : 3))
		{
			/* alloc is called outside of sections only */
			if (in)
				nm_epoch_exit(pool);
			in = false;
			live[nlive] = take(pool, (int) rng_below(&rng, 3));
			nlive += live[nlive] != NM_NO_PAGE;
		}
		else if (nlive > 0)
		{
			uint64_t k = rng_below(&rng, nlive);

			if (rng_below(&rng, 2))
				nm_pool_free(pool, live[k]);
			else
				nm_pool_retire(pool, live[k]);
			live[k] = live[--nlive];
		}
		if (!in && rng_below(&rng, 50) == 0)
		{
			nm_epoch_enter(pool);
			in = true;
		}
		if (i % 97 != 0)
			continue;
		nm_pool_stats(pool, &s);
		for (int a = 0; a < 3; a++)
		{
			used += s.used[a];
			committed += s.committed[a];
			if (s.used[a] > s.committed[a] || s.committed[a] > s.reserved[a] || s.reserved[a] != 8 * MB)
				fault("arena %d: used %llu, committed %llu", a, (unsigned long long) s.used[a], (unsigned long long) s.committed[a]);
		}
		if (used - s.retired != nlive * NM_PAGE_SIZE)
			fault("used %llu, retired %llu, live %llu pages", (unsigned long long) used,
				  (unsigned long long) s.retired, (unsigned long long) nlive);
		if ((s.commits - s.releases) * NM_CHUNK_SIZE != committed)
			fault("commits %llu - releases %llu is not %llu bytes", (unsigned long long) s.commits,
				  (unsigned long long) s.releases, (unsigned long long) committed);
	}
	ok(faults() == 0, "statistics add up at every moment");
	if (in)
		nm_epoch_exit(pool);
	free(live);
	pool_unmake(pool);
}

int
main(void)
{
	rng.s = tap_start("test_pool");
	test_create_errors();
	test_limits();
	test_cgroup_hook();
	test_kernel();
	test_policy();
	test_huge();
	test_release();
	test_versions();
	test_reset();
	test_stats();
	return tap_done();
}

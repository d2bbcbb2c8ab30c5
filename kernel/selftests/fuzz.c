// SPDX-License-Identifier: GPL-2.0
/*
 * Call move_pages2() with random arguments, good, bad and in between, and hold
 * what it does against what its header promises: the error that the first bad
 * argument must give, the number of entries processed, a documented status for
 * each of them, counters that add up, no byte written anywhere else, and
 * contents of memory that never change.
 *
 * usage: fuzz [SEED [CALLS [PROCESSES]]]
 * The same seed makes the same calls. Prints TAP; needs root and two nodes.
 * With failures that the kernel can inject (CONFIG_FAULT_INJECTION), an
 * eighth of the calls meets one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <linux/mempolicy.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "call.h"

#define PAGE		4096UL
#define HUGE		(2UL << 20)
#define CHUNK		4096	/* entries that the call works on at a time */
#define ARENA		(CHUNK * 2 * 8 + 4 * PAGE)
#define CANARY		0xc5
#define NOBODY		65534
#define KERNEL		0xffffffff81000000UL
#define SYSCTL		"/proc/sys/vm/move_pages2_owner"

/* What the processes have found; the first to fail in something says how */
enum { ERRORS, RESULTS, OUTSIDE, CONTENTS, CHECKS };
struct shared {
	uint64_t calls, entries, moved, already, failed, injected;
	uint64_t errs[256], statuses[256];
	int bad[CHECKS];
};

static struct shared *sh;
static long number;
static uint64_t seed;
static int max_node;		/* all up to it have memory */
static int owner_sysctl;

/* Memory to be moved: what the addresses of the lists are taken from */
enum { PRIVATE, SHARED, COPIED, READ_ONLY, NO_ACCESS, ZERO, ABSENT, UNTOUCHED,
       LOCKED, PINNED, THP, HUGETLB, AREAS };
static struct area {
	char *at;
	size_t pages;
	bool filled;	/* holds the pattern */
	bool own;	/* nobody else moves its pages */
} area[AREAS];

/* One call and what must come of it */
struct arena {
	char *base;		/* ARENA bytes between two holes */
};
static struct arena arenas[3], args_arena, ro_arena;
static char *hole;

static struct call {
	uint64_t nr;		/* the how many-eth of this process */
	int pid;
	size_t size;
	unsigned int flags;
	struct move_pages2_args args, *uargs;
	uint64_t want;		/* entries it has to process */
	int err;		/* errno it has to give; 0 for none */
	bool overlap;		/* arrays lie in each other: only bounds count */
	bool root, inject;
} c;

static void add(uint64_t *sum, uint64_t n)
{
	__atomic_fetch_add(sum, n, __ATOMIC_RELAXED);
}

static bool check(bool ok, int what, const char *say, long a, long b)
{
	if (ok || __atomic_fetch_add(&sh->bad[what], 1, __ATOMIC_RELAXED))
		return ok;
	printf("# %s: %ld, expected %ld; call %llu of process seed %llu\n"
	       "#   move_pages2(%d, %p, %zu, %#x) as %s%s\n"
	       "#   pages %#llx nodes %#llx status %#llx nr %llu mode %llu batch %llu\n"
	       "#   migrated %llu already %llu failed %llu, want %llu\n",
	       say, a, b, (unsigned long long)c.nr, (unsigned long long)seed,
	       c.pid, (void *)c.uargs, c.size, c.flags, c.root ? "root" : "nobody",
	       c.inject ? ", with an injected failure" : "",
	       c.args.pages, c.args.nodes, c.args.status, c.args.nr_pages,
	       c.args.mode, c.args.nr_max_batched_migration, c.args.nr_migrated,
	       c.args.nr_already, c.args.nr_failed, (unsigned long long)c.want);
	return false;
}

static uint64_t rnd(void)
{
	static uint64_t state;

	if (!state)
		state = seed * 0x9e3779b97f4a7c15 + 1;
	return next(&state) * 0x2545f4914f6cdd1d >> 8;
}

/* One time in n */
static bool once(unsigned int n)
{
	return rnd() % n == 0;
}

static void *map(size_t pages, int prot, int flags, int fd)
{
	void *p = mmap(NULL, pages * PAGE, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

static struct arena new_arena(void)
{
	char *p = map(ARENA / PAGE + 2, RW, ANON, -1);

	munmap(p, PAGE);
	munmap(p + PAGE + ARENA, PAGE);
	memset(p + PAGE, CANARY, ARENA);
	return (struct arena){ .base = p + PAGE };
}

static uint64_t pattern(int a, size_t page, size_t word)
{
	return 0x9e3779b97f4a7c15 * (a * 65536 + page + 1) + word;
}

static void fill(int a, char *p)
{
	size_t i, w;

	for (i = 0; i < area[a].pages; i++)
		for (w = 0; w < PAGE / 8; w += 32)
			((uint64_t *)(p + i * PAGE))[w] = pattern(a, i, w);
}

static bool intact(void)
{
	size_t i, w;
	int a;

	for (a = 0; a < AREAS; a++)
		for (i = 0; area[a].filled && i < area[a].pages; i++)
			for (w = 0; w < PAGE / 8; w += 32)
				if (((uint64_t *)(area[a].at + i * PAGE))[w] !=
				    pattern(a, i, w))
					return false;
	return true;
}

static void set_area(int a, void *at, size_t pages, bool filled, bool own)
{
	area[a] = (struct area){ at, pages, filled, own };
	if (filled)
		fill(a, at);
}

static void make_areas(void)
{
	int fd = memfd_create("fuzz", 0), pipes[2];
	volatile char *zero;
	char *p;
	size_t i;

	if (fd < 0 || ftruncate(fd, 128 * PAGE) || pipe(pipes))
		die("files");
	set_area(PRIVATE, map(128, RW, ANON, -1), 128, true, true);
	set_area(SHARED, map(64, RW, MAP_SHARED, fd), 64, true, true);
	set_area(LOCKED, map(16, RW, ANON | MAP_LOCKED, -1), 16, true, true);
	set_area(PINNED, map(8, RW, ANON, -1), 8, true, true);
	vmsplice(pipes[1], &(struct iovec){ area[PINNED].at, 8 * PAGE }, 1, 0);
	/* The first half of a file's private mapping is our own copy */
	p = map(64, RW, MAP_PRIVATE, fd);
	set_area(COPIED, p, 32, true, true);
	set_area(READ_ONLY, map(32, PROT_READ, MAP_SHARED, fd), 32, false, false);
	set_area(UNTOUCHED, map(128, RW, MAP_SHARED, fd), 128, false, false);
	set_area(NO_ACCESS, map(8, RW, ANON, -1), 8, true, true);
	area[NO_ACCESS].filled = false;
	mprotect(area[NO_ACCESS].at, 8 * PAGE, PROT_NONE);
	set_area(ABSENT, map(16, RW, ANON, -1), 16, false, false);
	set_area(ZERO, map(8, PROT_READ, ANON, -1), 8, false, false);
	for (i = 0, zero = area[ZERO].at; i < 8; i++)
		(void)zero[i * PAGE];
	p = map(2 * HUGE / PAGE, RW, ANON, -1);
	p = (char *)(((uintptr_t)p + HUGE - 1) / HUGE * HUGE);
	madvise(p, HUGE, MADV_HUGEPAGE);
	set_area(THP, p, HUGE / PAGE, true, true);
	p = mmap(NULL, HUGE, RW, ANON | MAP_HUGETLB, -1, 0);
	if (p != MAP_FAILED)
		set_area(HUGETLB, p, HUGE / PAGE, true, true);

	for (i = 0; i < 3; i++)
		arenas[i] = new_arena();
	args_arena = new_arena();
	ro_arena = new_arena();
	mprotect(ro_arena.base, ARENA, PROT_READ);
	hole = arenas[0].base - PAGE;
}

static uint64_t random_address(void)
{
	uint64_t r = rnd() % 32;
	int a;

	if (r == 0) {
		const uint64_t odd[] = {
			0, ~0ULL, KERNEL, 1ULL << 47, (1ULL << 47) - PAGE,
			0x8000000000000000, (uintptr_t)hole, rnd() << 8, rnd() % (1ULL << 47),
			(uintptr_t)&a, (uintptr_t)&random_address, (uintptr_t)sh,
			getauxval(AT_SYSINFO_EHDR), (uintptr_t)arenas[2].base,
		};

		return odd[rnd() % (sizeof(odd) / sizeof(odd[0]))];
	}
	/* Huge pages take long to move, and pinned ones to give up */
	do {
		a = rnd() % AREAS;
	} while (!area[a].pages || (a >= PINNED && !once(16)));
	return (uintptr_t)area[a].at + rnd() % area[a].pages * PAGE +
	       (once(4) ? rnd() % PAGE : 0);
}

static bool valid_node(int node)
{
	return node >= 0 && node <= max_node;
}

static int random_node(void)
{
	const int odd[] = { -1, max_node + 1, 63, 64, 1023, 1024, INT_MIN, INT_MAX };

	return once(24) ? odd[rnd() % 8] : (int)(rnd() % (max_node + 1));
}

static uint64_t random_u64(void)
{
	const uint64_t odd[] = { 0, 1, ~0ULL, INT_MAX, 1ULL << 32, 1ULL << 63,
				 CHUNK, CHUNK + 1, 72, 4096, 4097 };

	return once(2) ? odd[rnd() % 11] : rnd() << 8 >> rnd() % 64;
}

/*
 * A place for an array of n entries; *bytes are those from there on that the
 * kernel can get at.
 */
static uint64_t place(struct arena *a, uint64_t n, size_t width, size_t *bytes)
{
	const uint64_t bad[] = { (uintptr_t)hole, KERNEL, 1ULL << 63, ~0ULL - 3, 8 };
	uint64_t at;

	if (n > CHUNK * 2 + 8)
		n = rnd() % (once(8) ? CHUNK * 2 : 64);
	if (once(40)) {
		*bytes = 0;
		return bad[rnd() % 5];
	}
	/* In the middle, or ending with the last byte or earlier */
	if (once(8))
		at = ARENA - (once(2) ? n : rnd() % (n + 1)) * width;
	else
		at = 256 + rnd() % (ARENA - n * width - 512) / width * width;
	if (once(16))
		at -= rnd() % width;
	*bytes = ARENA - at;
	return (uintptr_t)a->base + at;
}

/* Mostly short: what matters is how many calls there are, not entries */
static uint64_t random_length(void)
{
	switch (rnd() % 2048) {
	case 0:		return CHUNK - 2 + rnd() % 5;
	case 1:		return once(2) ? CHUNK * 2 - 2 + rnd() % 5 : rnd() % CHUNK;
	case 2:		return 1ULL << (13 + rnd() % 51);
	case 3 ... 8:	return rnd() % 512;
	case 9 ... 40:	return rnd() % 32;
	default:	return rnd() % 4;
	}
}

/* Make up a call and say what it must do */
static void make_call(int peer)
{
	size_t pages, nodes, status, tail = 0;
	bool bad_args = false;
	uint64_t n, i;
	char *at;

	c.err = 0;
	c.want = 0;
	c.overlap = false;
	c.args.nr_pages = random_length();
	n = c.args.nr_pages;
	c.args.pages = place(&arenas[0], n, 8, &pages);
	c.args.nodes = place(&arenas[1], n, 4, &nodes);
	c.args.status = place(&arenas[2], n, 4, &status);
	if (once(6)) {
		c.args.nodes = 0;
		nodes = SIZE_MAX;
	}
	if (once(64)) {
		c.args.status = (uintptr_t)ro_arena.base + rnd() % (ARENA / 2);
		status = 0;
	} else if (once(32)) {
		c.args.status = (c.args.nodes && once(2) ? c.args.nodes : c.args.pages) +
				rnd() % 64 - 32;
		c.overlap = true;
	}
	c.args.mode = once(32) ? random_u64() : rnd() % 3;
	c.args.nr_max_batched_migration =
		once(4) ? random_u64() % 8192 : once(32) ? random_u64() : rnd() % 64;
	/* Left over from the last call: must be overwritten */
	c.args.nr_migrated = c.args.nr_already = c.args.nr_failed = rnd();

	c.flags = rnd() % 32 & rnd();
	if (once(48))
		c.flags |= 1U << rnd() % 32;
	c.pid = once(8) ? peer : once(8) ? getpid() : 0;
	if (once(64))
		c.pid = once(2) ? 2 : (int)random_u64() | 1 << 30;
	c.size = sizeof(c.args);
	if (once(32))
		c.size = once(2) ? 64 + rnd() % 32 : random_u64();

	/* The struct: somewhere, at the end of what is mapped, or not there */
	at = args_arena.base + ARENA / 2 + rnd() % 512;
	if (once(8))
		at = args_arena.base + ARENA - sizeof(c.args) +
		     (once(8) ? rnd() % 8 : 0);
	c.uargs = (void *)at;
	if (at + sizeof(c.args) > args_arena.base + ARENA) {
		bad_args = true;
	} else {
		memcpy(at, &c.args, sizeof(c.args));
		if (c.size > sizeof(c.args) && c.size <= PAGE) {
			tail = c.size - sizeof(c.args);
			if (at + c.size > args_arena.base + ARENA)
				bad_args = true;
			else
				memset(at + sizeof(c.args), once(2) ? 0 : 1, tail);
		}
	}
	if (once(64)) {
		c.uargs = (void *)(once(2) ? (uintptr_t)hole : KERNEL);
		bad_args = true;
	}
	if (once(128)) {
		c.flags = MOVE_PAGES2_HANDSHAKE | (once(4) ? 1 : 0);
		c.pid = once(4);
		c.uargs = once(4) ? c.uargs : NULL;
		c.size = once(4);
	}

	/* Fill the arrays, as far as they are ours and it makes sense */
	n = n < CHUNK * 3 ? n : CHUNK * 3;
	for (i = 0; i < n && (i + 1) * 8 <= pages; i++)
		((uint64_t *)c.args.pages)[i] = random_address();
	if (c.args.nodes)
		for (i = 0; i < n && (i + 1) * 4 <= nodes; i++)
			((int *)c.args.nodes)[i] = random_node();

	/* The first that is wrong decides */
	if (c.flags & MOVE_PAGES2_HANDSHAKE)
		c.err = c.flags != MOVE_PAGES2_HANDSHAKE || c.pid || c.uargs ||
			c.size ? EINVAL : 0;
	else if (c.flags >= MOVE_PAGES2_OWNER * 2)
		c.err = EINVAL;
	else if (c.size < sizeof(c.args))
		c.err = EINVAL;
	else if (c.size > PAGE)
		c.err = E2BIG;
	else if (bad_args)
		c.err = EFAULT;
	else if (tail && ((char *)c.uargs)[sizeof(c.args)])
		c.err = E2BIG;
	else if (c.args.mode > 2 ||
		 c.args.nr_max_batched_migration > MOVE_PAGES2_BATCH_MAX)
		c.err = EINVAL;
	else if ((c.flags & MOVE_PAGES2_MOVE_ALL && !c.root) ||
		 (c.flags & MOVE_PAGES2_OWNER && !owner_sysctl))
		c.err = EPERM;
	else if (c.pid && c.pid != peer && c.pid != getpid())
		c.err = c.pid == 2 ? EINVAL : ESRCH;
	if (c.err || c.flags & MOVE_PAGES2_HANDSHAKE)
		return;

	c.want = c.args.nr_pages;
	if (c.want > pages / 8)
		c.want = pages / 8;
	if (c.want > nodes / 4)
		c.want = nodes / 4;
	if (c.want > status / 4 && !c.overlap)
		c.want = status / 4;
	if (!c.want && c.args.nr_pages)
		c.err = EFAULT;
}

static bool documented(int st)
{
	return st >= 0 ? valid_node(st) :
	       st == -ENOENT || st == -EACCES || st == -ENODEV || st == -EBUSY ||
	       st == -EAGAIN || st == -ENOMEM || st == -EFAULT;
}

static bool in_arena(struct arena *a, uint64_t at)
{
	return at >= (uintptr_t)a->base && at < (uintptr_t)a->base + ARENA;
}

/* Bytes of and around an array, to see afterwards which of them changed */
struct window {
	char *at;
	size_t len;
	char was[ARENA];
};

static void save(struct window *w, struct arena *a, uint64_t array, size_t len)
{
	char *end = (char *)array + len + 64;

	w->len = 0;
	if (!in_arena(a, array))
		return;
	w->at = (char *)array - 64;
	if (w->at < a->base)
		w->at = a->base;
	if (end > a->base + ARENA)
		end = a->base + ARENA;
	w->len = end - w->at;
	memcpy(w->was, w->at, w->len);
}

/* Whether anything changed but the len bytes from array on */
static bool untouched(struct window *w, uint64_t array, size_t len)
{
	size_t from = (char *)array - w->at;

	if (!w->len)
		return true;
	if (from + len > w->len)
		len = w->len - from;
	return !memcmp(w->at, w->was, from) &&
	       !memcmp(w->at + from + len, w->was + from + len,
		       w->len - from - len);
}

/* A number for what moves as one: three areas map the same file */
static uint64_t folio_of(int a, uint64_t addr)
{
	if (a == SHARED || a == READ_ONLY || a == UNTOUCHED)
		return AREAS + (addr - (uintptr_t)area[a].at) / PAGE;
	return a >= THP ? (uint64_t)a : addr / PAGE;
}

/*
 * Where the kernel's other call sees own pages must be where we were told,
 * except for a page that the list wants on two nodes.
 */
static void compare_places(const uint64_t *pages, const int *nodes,
			   const int *status, uint64_t n)
{
	static uint64_t addr[64], folio[64];
	static int told[64], is[64], wanted[64];
	static bool own[64];
	uint64_t i, k, m = 0;
	int a;

	for (i = 0; i < n && m < 64; i++)
		for (a = 0; a < AREAS; a++)
			if (area[a].pages && m < 64 &&
			    pages[i] - (uintptr_t)area[a].at < area[a].pages * PAGE) {
				addr[m] = pages[i];
				own[m] = area[a].own;
				folio[m] = folio_of(a, pages[i]);
				wanted[m] = nodes ? nodes[i] : 0;
				told[m++] = status[i];
			}
	if (!m || n > 64 || syscall(SYS_move_pages, 0, m, addr, NULL, is, 0))
		return;
	for (i = 0; i < m; i++) {
		for (k = 0; k < m; k++)
			if (folio[k] == folio[i] && wanted[k] != wanted[i])
				break;
		if (k == m && own[i] && told[i] >= 0)
			check(told[i] == is[i], RESULTS, "page is elsewhere",
			      told[i], is[i]);
	}
}

static void check_entries(long ret, const uint64_t *pages, const int *nodes,
			  const int *status)
{
	uint64_t failed = 0;
	long i;

	for (i = 0; i < ret; i++) {
		int st = status[i];

		failed += st < 0;
		if (st < 0 && st > -256)
			add(&sh->statuses[-st], 1);
		check(documented(st), RESULTS, "undocumented status", st, 0);
		if (!nodes)
			continue;
		check(valid_node(nodes[i]) == (st != -ENODEV), RESULTS,
		      "status of a bad node", st, -ENODEV);
		if (valid_node(nodes[i]) && pages[i] >= 1ULL << 47)
			check(st == -EFAULT, RESULTS, "not an address", st, -EFAULT);
	}
	check(c.args.nr_failed == failed, RESULTS, "failures counted",
	      c.args.nr_failed, failed);
	if (c.pid == 0 && once(16))
		compare_places(pages, nodes, status, ret);
}

static void do_call(int peer, int fail_fd)
{
	static struct window pages, nodes, status;
	struct move_pages2_args asked;
	char text[20];
	size_t len;
	long ret;
	int err;

	make_call(peer);
	asked = c.args;
	if (!c.overlap) {
		save(&pages, &arenas[0], c.args.pages, c.want * 8);
		save(&nodes, &arenas[1], c.args.nodes, c.want * 4);
		save(&status, &arenas[2], c.args.status, c.want * 4);
	}

	c.inject = fail_fd >= 0 && c.root && once(8);
	if (c.inject) {
		len = sprintf(text, "%d", (int)(1 + rnd() % 10));
		if (pwrite(fail_fd, text, len, 0) != (ssize_t)len)
			die("fail-nth");
	}
	errno = 0;
	ret = syscall(number, c.pid, c.uargs, c.size, c.flags);
	err = errno;
	if (c.inject) {
		/* 0 is left if the failure was met */
		memset(text, 0, sizeof(text));
		if (pread(fail_fd, text, sizeof(text) - 1, 0) > 0 && !atoi(text))
			add(&sh->injected, 1);
		pwrite(fail_fd, "0", 1, 0);
	}

	add(&sh->calls, 1);
	if (ret < 0)
		add(&sh->errs[err < 256 ? err : 255], 1);
	if (c.flags & MOVE_PAGES2_HANDSHAKE) {
		check(c.err ? ret == -1 && err == c.err : ret == MOVE_PAGES2_ABI_MAGIC,
		      ERRORS, "handshake", ret < 0 ? -err : ret, c.err);
		return;
	}

	if (c.inject)
		check(ret < 0 ? err == c.err || err == ENOMEM || err == EFAULT :
		      !c.err && (uint64_t)ret <= c.want, ERRORS,
		      "result", ret < 0 ? -err : ret, c.err ? -c.err : (long)c.want);
	else if (c.err)
		/* Who isn't root may not even learn that there is no memory */
		check(ret == -1 && (err == c.err || (c.pid == 2 && !c.root &&
						     err == EPERM)), ERRORS, "errno",
		      ret < 0 ? -err : ret, -c.err);
	else if (!c.overlap)
		check(ret >= 0 && (uint64_t)ret == c.want, ERRORS, "returned",
		      ret < 0 ? -err : ret, c.want);
	else
		check(ret < 0 ? err == EFAULT : (uint64_t)ret <= c.args.nr_pages,
		      ERRORS, "returned", ret < 0 ? -err : ret, c.want);

	/* What must be as it was */
	if (in_arena(&args_arena, (uintptr_t)c.uargs) &&
	    (char *)c.uargs + sizeof(c.args) <= args_arena.base + ARENA) {
		memcpy(&c.args, c.uargs, sizeof(c.args));
		check(!memcmp(&c.args, &asked, offsetof(struct move_pages2_args, nr_migrated)),
		      OUTSIDE, "arguments changed", 0, 0);
		if (ret >= 0)
			check(c.args.nr_migrated + c.args.nr_already +
			      c.args.nr_failed == (uint64_t)ret, RESULTS, "sum",
			      c.args.nr_migrated + c.args.nr_already +
			      c.args.nr_failed, ret);
	}
	if (c.overlap)
		return;
	check(untouched(&pages, c.args.pages, 0), OUTSIDE, "pages[] changed", 0, 0);
	check(untouched(&nodes, c.args.nodes, 0), OUTSIDE, "nodes[] changed", 0, 0);
	/* After an injected failure there may be statuses that aren't counted */
	len = (c.inject ? c.want : ret > 0 ? (uint64_t)ret : 0) * 4;
	check(untouched(&status, c.args.status, len), OUTSIDE,
	      "status[] changed beyond the result", 0, 0);
	if (ret < 0)
		return;
	add(&sh->entries, ret);
	add(&sh->moved, c.args.nr_migrated);
	add(&sh->already, c.args.nr_already);
	add(&sh->failed, c.args.nr_failed);
	check_entries(ret, (uint64_t *)c.args.pages, (int *)c.args.nodes,
		      (int *)c.args.status);
}

/* A process that has all of the memory mapped, too, until the pipe closes */
static int start_peer(int *release)
{
	int fd[2], pid;
	char x;

	if (pipe(fd))
		die("pipe");
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid) {
		close(fd[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(read(fd[0], &x, 1) < 0 || !intact());
	}
	close(fd[0]);
	*release = fd[1];
	return pid;
}

static int fuzz(uint64_t calls)
{
	int fail_fd, release, peer, st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	make_areas();
	fail_fd = open("/proc/self/fail-nth", O_RDWR);
	peer = start_peer(&release);
	for (c.nr = 0; c.nr < calls; c.nr++) {
		/* The effective user changes what is allowed */
		if (c.nr % 64 == 0) {
			if (seteuid(0))
				die("seteuid");
			c.root = !once(4);
			if (!c.root && seteuid(NOBODY))
				die("seteuid");
			if (c.nr % 8192 == 0)
				check(intact(), CONTENTS, "contents", 0, 0);
		}
		do_call(peer, fail_fd);
		if (sh->bad[ERRORS] + sh->bad[RESULTS] + sh->bad[OUTSIDE] > 10)
			break;
	}
	check(intact(), CONTENTS, "contents", 0, 0);
	close(release);
	check(waitpid(peer, &st, 0) == peer && st == 0, CONTENTS,
	      "contents in the other process", st, 0);
	return 0;
}

static void write_number(const char *path, int n)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return;
	fprintf(f, "%d\n", n);
	fclose(f);
}

/* Let /proc/self/fail-nth meet all kinds of allocations, and quietly */
static void set_up_injection(void)
{
	const char *what[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
	char path[100];
	int i;

	for (i = 0; i < 3; i++) {
		sprintf(path, "/sys/kernel/debug/%s/verbose", what[i]);
		write_number(path, 0);
		sprintf(path, "/sys/kernel/debug/%s/ignore-gfp-wait", what[i]);
		write_number(path, 0);
		sprintf(path, "/sys/kernel/debug/%s/min-order", what[i]);
		write_number(path, 0);
	}
}

static long isolated(void)
{
	long v, sum = 0, seen = 0;
	char name[100];
	FILE *f;

	/* Writing folds the per-CPU differences in */
	write_number("/proc/sys/vm/stat_refresh", 1);
	f = fopen("/proc/vmstat", "r");
	while (f && fscanf(f, "%99s %ld", name, &v) == 2)
		if (!strncmp(name, "nr_isolated_", 12)) {
			sum += v < 0 ? -v : v;
			seen++;
		}
	if (f)
		fclose(f);
	return seen == 2 ? sum : -1;
}

int main(int argc, char **argv)
{
	const uint64_t base = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	const uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 0) : 100000;
	const int processes = argc > 3 ? atoi(argv[3]) : 1;
	static const char *const what[CHECKS] = {
		"errors and numbers of entries as documented",
		"statuses and counters true", "nothing written elsewhere",
		"contents unchanged",
	};
	int i, p, st, bad = 0;
	struct timespec t0, t1;
	char path[100];
	double s;

	setvbuf(stdout, NULL, _IOLBF, 0);
	number = find_call();
	for (max_node = 0;; max_node++) {
		sprintf(path, "/sys/devices/system/node/node%d/meminfo", max_node + 1);
		if (access(path, R_OK))
			break;
	}
	if (max_node < 1 || geteuid()) {
		printf("1..0 # SKIP needs root and two nodes\n");
		return 4;
	}
	printf("1..%d\n", CHECKS + 2);
	sh = map(2, RW, MAP_SHARED | MAP_ANONYMOUS, -1);
	set_up_injection();
	write_number("/proc/sys/vm/nr_hugepages", 8);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (owner_sysctl = 0; owner_sysctl < 2; owner_sysctl++) {
		write_number(SYSCTL, owner_sysctl);
		for (p = 0; p < processes; p++) {
			seed = base * 1000 + owner_sysctl * 500 + p;
			if (fork() == 0)
				_exit(fuzz(calls / 2 / processes));
		}
		while (wait(&st) > 0)
			if (st) {
				printf("# a process ended with %#x\n", st);
				bad = 1;
			}
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);
	write_number(SYSCTL, 0);
	write_number("/proc/sys/vm/nr_hugepages", 0);
	s = t1.tv_sec - t0.tv_sec + (t1.tv_nsec - t0.tv_nsec) / 1e9;

	printf("# seed %llu, %d processes: %llu calls in %.0f s (%.0f/s), %llu entries: %llu moved, %llu there, %llu not; %llu failures injected\n#",
	       (unsigned long long)base, processes, (unsigned long long)sh->calls, s,
	       sh->calls / s, (unsigned long long)sh->entries,
	       (unsigned long long)sh->moved, (unsigned long long)sh->already,
	       (unsigned long long)sh->failed, (unsigned long long)sh->injected);
	for (i = 0; i < 256; i++)
		if (sh->errs[i])
			printf(" %s %llu", strerrorname_np(i), (unsigned long long)sh->errs[i]);
	printf("; of entries:");
	for (i = 0; i < 256; i++)
		if (sh->statuses[i])
			printf(" %s %llu", strerrorname_np(i), (unsigned long long)sh->statuses[i]);
	printf("\n");

	for (i = 0; i < CHECKS; i++) {
		printf("%sok %d fuzz: %s\n", sh->bad[i] ? "not " : "", i + 1, what[i]);
		bad |= sh->bad[i];
	}
	/* Input that never gets far finds nothing */
	p = !bad && sh->moved > calls / 100 && sh->failed && sh->errs[EFAULT] &&
	    sh->errs[EINVAL] && sh->errs[EPERM];
	printf("%sok %d fuzz: calls of all kinds were made\n", p ? "" : "not ", i + 1);
	st = isolated() == 0;
	printf("%sok %d fuzz: no page stays isolated\n", st ? "" : "not ", i + 2);
	return bad || !p || !st;
}

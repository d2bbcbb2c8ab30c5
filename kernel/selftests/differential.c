// SPDX-License-Identifier: GPL-2.0
/*
 * Every kind of memory twice, alike: the same random lists go to move_pages()
 * for the one twin and to move_pages2() for the other. What move_pages() moves
 * move_pages2() must move, too; it must give each entry the status that this kind
 * of memory has; and the contents must stay as they were, for all who map them.
 * One page that only move_pages() moves is looked at by itself: the ring of aio.
 *
 * usage: differential [SEED [ROUNDS]]
 * Prints TAP. Needs root, two memory nodes, /dev/ram0 and /dev/ram1: for the
 * guest, since what these hold is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "call.h"
#include "machine.h"

#define PAGE		4096UL
#define HUGE		(2UL << 20)
#define GIB		(1UL << 30)
#define WORDS		(PAGE / 8)
#define RW		(PROT_READ | PROT_WRITE)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)
#define OLD_MOVE_ALL	4	/* MPOL_MF_MOVE_ALL */
#define SMALL		32	/* pages of a kind, unless they are huge */
#define MOST		4096	/* entries of a list */
#define OTHERS		3	/* processes that map what is shared */
#define MOVES		0	/* the status is the node that was asked for */

enum { OLD, NEW, TWINS };

/* One of the twins of a kind */
struct range {
	char *at;
	size_t pages;
	uint64_t seed;	/* of its contents */
};

/* ---- kinds of memory; what they need is left open until the end ---- */

static void *map(size_t len, int prot, int flags, int fd)
{
	void *p = mmap(NULL, len, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

static uint64_t pattern(const struct range *r, size_t page, size_t word)
{
	return r->seed * 0x9e3779b97f4a7c15 + page * 0x10001 + word;
}

static void fill(const struct range *r, char *at)
{
	size_t i, w;

	for (i = 0; i < r->pages; i++)
		for (w = 0; w < WORDS; w += 73)
			((uint64_t *)(at + i * PAGE))[w] = pattern(r, i, w);
}

static size_t differences(const struct range *r)
{
	size_t i, w, bad = 0;

	for (i = 0; i < r->pages; i++)
		for (w = 0; w < WORDS; w += 73)
			bad += ((volatile uint64_t *)(r->at + i * PAGE))[w] !=
			       pattern(r, i, w);
	return bad;
}

/* At an address that is a multiple of align */
static char *map_aligned(size_t len, size_t align, int flags, int fd)
{
	char *room = map(len + align, PROT_NONE, ANON | MAP_NORESERVE, -1);
	char *at = (char *)(((uintptr_t)room + align - 1) / align * align);

	if (at > room)
		munmap(room, at - room);
	munmap(at + len, room + align - at);
	if (mmap(at, len, RW, flags | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("mmap");
	return at;
}

static int memory_file(size_t len, unsigned int flags)
{
	int fd = memfd_create("differential", flags);

	if (fd < 0 || ftruncate(fd, len))
		die("memfd");
	return fd;
}

static void make_private(struct range *r)
{
	r->pages = SMALL;
	r->at = map(r->pages * PAGE, RW, ANON, -1);
	madvise(r->at, r->pages * PAGE, MADV_NOHUGEPAGE);
	fill(r, r->at);
}

static void make_no_access(struct range *r)
{
	make_private(r);
	mprotect(r->at, r->pages * PAGE, PROT_NONE);
}

static void make_locked(struct range *r)
{
	make_private(r);
	if (mlock(r->at, r->pages * PAGE))
		die("mlock");
}

/*
 * Pages that were moved elsewhere, and new ones where they had been: two pages
 * with the same index in one anon_vma, as a walk by ranges sorts them.
 */
static void make_twice(struct range *r)
{
	char *to = map(SMALL * PAGE, PROT_NONE, ANON, -1);

	make_private(r);
	/* Not all of it, or the old mapping would lose its anon_vma */
	if (mremap(r->at, SMALL / 2 * PAGE, SMALL / 2 * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) == MAP_FAILED)
		die("mremap");
	fill(r, r->at);
	/* The two halves of the list: the same indices */
	if (mremap(to, SMALL / 2 * PAGE, SMALL / 2 * PAGE,
		   MREMAP_MAYMOVE | MREMAP_FIXED, r->at + SMALL / 2 * PAGE) == MAP_FAILED)
		die("mremap");
	fill(r, r->at);
}

static void make_shared(struct range *r)
{
	r->pages = SMALL;
	r->at = map(r->pages * PAGE, RW, MAP_SHARED, memory_file(r->pages * PAGE, 0));
	fill(r, r->at);
}

static void make_sysv(struct range *r)
{
	int id = shmget(IPC_PRIVATE, SMALL * PAGE, 0600);

	r->pages = SMALL;
	r->at = shmat(id, NULL, 0);
	if (id < 0 || r->at == (void *)-1)
		die("shm");
	shmctl(id, IPC_RMID, NULL);
	fill(r, r->at);
}

/* Something else was here before, and was moved */
static void make_reused(struct range *r)
{
	int fd = memory_file(SMALL * PAGE, 0), node[SMALL], status[SMALL];
	void *addr[SMALL];
	size_t i;

	make_private(r);
	for (i = 0; i < SMALL; i++) {
		addr[i] = r->at + i * PAGE;
		node[i] = 1;
	}
	syscall(SYS_move_pages, 0, SMALL, addr, node, status, 0);
	munmap(r->at, SMALL * PAGE);
	if (mmap(r->at, SMALL * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("mmap");
	fill(r, r->at);
}

static int disk_file(const struct range *r)
{
	char path[100];
	int fd;

	sprintf(path, "/tmp/differential.fs/%llx", (unsigned long long)r->seed);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, SMALL * PAGE))
		die("file");
	return fd;
}

static void make_file(struct range *r)
{
	r->pages = SMALL;
	r->at = map(r->pages * PAGE, RW, MAP_SHARED, disk_file(r));
	fill(r, r->at);
	/* A page under writeback would only be tried again later */
	msync(r->at, r->pages * PAGE, MS_SYNC);
}

/* The file's pages, in a mapping where a write would make a copy */
static void make_file_private(struct range *r)
{
	int fd;

	make_file(r);
	munmap(r->at, r->pages * PAGE);
	fd = disk_file(r);
	r->at = map(r->pages * PAGE, RW, MAP_PRIVATE, fd);
	if (differences(r))
		die("file");
}

static void make_thp(struct range *r)
{
	r->pages = 2 * HUGE / PAGE;
	r->at = map_aligned(2 * HUGE, HUGE, ANON, -1);
	madvise(r->at, 2 * HUGE, MADV_HUGEPAGE);
	fill(r, r->at);
}

static void make_hugetlb(struct range *r)
{
	r->pages = HUGE / PAGE;
	r->at = map(HUGE, RW, ANON | MAP_HUGETLB, -1);
	fill(r, r->at);
}

/* An aligned GiB, whose page table all who map it share */
static void make_hugetlb_shared(struct range *r)
{
	r->pages = 2 * HUGE / PAGE;
	r->at = map_aligned(GIB, GIB, MAP_SHARED | MAP_NORESERVE,
			    memory_file(GIB, MFD_HUGETLB));
	fill(r, r->at);
}

static void make_mergeable(struct range *r)
{
	size_t i;

	r->pages = 4;
	r->at = map(r->pages * PAGE, RW, ANON, -1);
	/* All pages alike, and unlike the other twin's */
	for (i = 0; i < r->pages; i++)
		memset(r->at + i * PAGE, r->seed, PAGE);
	madvise(r->at, r->pages * PAGE, MADV_MERGEABLE);
}

static void make_zero(struct range *r)
{
	size_t i;

	r->pages = 4;
	r->at = map(r->pages * PAGE, PROT_READ, ANON, -1);
	for (i = 0; i < r->pages; i++)
		(void)*(volatile char *)(r->at + i * PAGE);
}

static void make_absent(struct range *r)
{
	r->pages = 4;
	r->at = map(r->pages * PAGE, RW, ANON, -1);
}

static void make_hole(struct range *r)
{
	r->pages = 4;
	r->at = map(r->pages * PAGE, RW, MAP_SHARED, memory_file(r->pages * PAGE, 0));
}

/* So low that mmap() doesn't come there by itself */
static void make_unmapped(struct range *r)
{
	r->pages = 4;
	r->at = (char *)0x100000 + r->seed * r->pages * PAGE;
}

static void make_swapped(struct range *r)
{
	r->pages = SMALL;
	r->at = map(r->pages * PAGE, RW, ANON, -1);
	madvise(r->at, r->pages * PAGE, MADV_NOHUGEPAGE);
	fill(r, r->at);
}

static void make_pinned(struct range *r)
{
	struct iovec iov;
	int p[2];

	make_private(r);
	r->pages = 8;
	iov = (struct iovec){ .iov_base = r->at, .iov_len = r->pages * PAGE };
	if (pipe(p) || vmsplice(p[1], &iov, 1, 0) != (ssize_t)iov.iov_len)
		die("vmsplice");
}

static void make_registered(struct range *r)
{
	struct io_uring_params p = {};
	struct iovec iov;
	int ring = syscall(SYS_io_uring_setup, 1, &p);

	make_private(r);
	iov = (struct iovec){ .iov_base = r->at, .iov_len = r->pages * PAGE };
	if (ring < 0 || syscall(SYS_io_uring_register, ring,
				IORING_REGISTER_BUFFERS, &iov, 1))
		die("io_uring");
}

/* Its memory says no when it is to be migrated, each time */
static void make_secret(struct range *r)
{
	int fd = syscall(SYS_memfd_secret, 0);

	r->pages = 4;
	if (fd < 0 || ftruncate(fd, r->pages * PAGE))
		die("memfd_secret");
	r->at = map(r->pages * PAGE, RW, MAP_SHARED, fd);
	fill(r, r->at);
}

/* Of a kind: nothing is read and compared; the other processes map it, too */
#define QUIET	1
#define FORKED	2

static const struct kind {
	const char *name;
	void (*make)(struct range *r);
	int want;	/* the status of an entry that isn't on the wanted node */
	int flags;
	size_t unit;	/* pages that move together */
} kinds[] = {
	{ "private memory", make_private, MOVES, 0, 1 },
	{ "memory without access", make_no_access, MOVES, QUIET, 1 },
	{ "copies shared after fork()", make_private, MOVES, FORKED, 1 },
	{ "indices that come twice", make_twice, MOVES, 0, 1 },
	{ "locked memory", make_locked, MOVES, 0, 1 },
	{ "shared memory", make_shared, MOVES, FORKED, 1 },
	{ "shared memory, locked elsewhere", make_shared, MOVES, FORKED, 1 },
	{ "System V shared memory", make_sysv, MOVES, FORKED, 1 },
	{ "addresses used again", make_reused, MOVES, FORKED, 1 },
	{ "a file", make_file, MOVES, FORKED, 1 },
	{ "a file, mapped privately", make_file_private, MOVES, 0, 1 },
	{ "transparent huge pages", make_thp, MOVES, 0, HUGE / PAGE },
	{ "hugetlb", make_hugetlb, MOVES, 0, HUGE / PAGE },
	{ "hugetlb, shared with its page table", make_hugetlb_shared, MOVES, FORKED, HUGE / PAGE },
	{ "KSM", make_mergeable, MOVES, QUIET, 4 },
	{ "the zero page", make_zero, -EFAULT, QUIET, 1 },
	{ "memory never touched", make_absent, -ENOENT, QUIET, 1 },
	{ "holes of a file", make_hole, -ENOENT, QUIET, 1 },
	{ "addresses of nothing", make_unmapped, -EFAULT, QUIET, 1 },
	{ "swapped out", make_swapped, -ENOENT, QUIET, 1 },
	{ "pages in a pipe", make_pinned, -EBUSY, 0, 1 },
	{ "a buffer of io_uring", make_registered, -EBUSY, 0, 1 },
	{ "memfd_secret()", make_secret, -EAGAIN, 0, 1 },
};
#define KINDS	((int)(sizeof(kinds) / sizeof(kinds[0])))
#define LOCKED_ELSEWHERE	6
#define TABLE_SHARED		13
#define SWAPPED			19

/* ---- lists ---- */

static struct range range[KINDS][TWINS];
static long number;
static uint64_t seed;

static struct entry {
	int kind;
	size_t page;
} list[MOST];
static void *addr[TWINS][MOST];
static int target[MOST], status[TWINS][MOST], before[TWINS][MOST], after[TWINS][MOST];

static struct tally {
	unsigned long old, new, both, lost, odd, skipped;
} tally[KINDS];
static unsigned long more;	/* moved by the new call only */

static uint64_t rnd(uint64_t below)
{
	return next(&seed) % below;
}

static void locate(int twin, int *where, size_t n)
{
	if (syscall(SYS_move_pages, 0, n, addr[twin], NULL, where, 0))
		die("move_pages");
}

static long move_new(void **a, int *node, int *st, size_t n, unsigned int flags,
		     unsigned int mode, unsigned int batch)
{
	struct move_pages2_args args = {
		.pages = (uintptr_t)a,
		.nodes = (uintptr_t)node,
		.status = (uintptr_t)st,
		.nr_pages = n,
		.mode = mode,
		.nr_max_batched_migration = batch,
	};

	return syscall(number, 0, &args, sizeof(args), MOVE_PAGES2_MOVE_ALL | flags);
}

/* Page tables may be missing after a move of hugetlb: make them again */
static size_t read_all(void)
{
	size_t bad = 0;
	int k, t;

	for (k = 0; k < KINDS; k++)
		for (t = 0; t < TWINS && !(kinds[k].flags & QUIET); t++)
			bad += differences(&range[k][t]);
	return bad;
}

/* All of it to one node, whatever can be moved */
static void gather(int node)
{
	static void *a[MOST];
	static int nodes[MOST], st[MOST];
	size_t i, n, done;
	int k, t;

	for (k = 0; k < KINDS; k++)
		for (t = 0; t < TWINS; t++)
			for (done = 0; done < range[k][t].pages; done += n) {
				n = range[k][t].pages - done;
				n = n < MOST ? n : MOST;
				for (i = 0; i < n; i++) {
					a[i] = range[k][t].at + (done + i) * PAGE;
					nodes[i] = node;
				}
				move_new(a, nodes, st, n, 0, 0, 0);
			}
}

/* A list over all kinds, or with many pages of few of them */
static size_t make_list(void)
{
	const size_t n = rnd(3) ? 1 + rnd(200) : 1 + rnd(MOST);
	const int only = rnd(3) ? -1 : (int)rnd(KINDS);
	const bool alternate = rnd(2);
	const uint64_t choice = rnd(~0ULL);
	size_t i;

	for (i = 0; i < n; i++) {
		struct entry *e = &list[i];
		size_t unit;

		e->kind = only >= 0 && rnd(4) ? only : (int)rnd(KINDS);
		e->page = rnd(range[e->kind][OLD].pages);
		addr[OLD][i] = range[e->kind][OLD].at + e->page * PAGE;
		addr[NEW][i] = range[e->kind][NEW].at + e->page * PAGE;
		/* The same node each time that a page is in the list */
		unit = e->page / kinds[e->kind].unit + e->kind * 977;
		target[i] = choice >> (alternate ? unit % 60 : 61) & 1;
	}
	return n;
}

static void check_entry(size_t i)
{
	const struct kind *k = &kinds[list[i].kind];
	struct tally *t = &tally[list[i].kind];
	int was = before[NEW][i], is = after[NEW][i], want = k->want ?: target[i];
	bool by_old, by_new;

	by_old = before[OLD][i] >= 0 && before[OLD][i] != target[i] &&
		 after[OLD][i] == target[i];
	by_new = was >= 0 && was != target[i] && is == target[i];
	t->old += by_old;
	t->new += by_new;
	more += by_new && !by_old;
	if (before[OLD][i] != was) {
		t->skipped++;
	} else if (by_old && !by_new) {
		if (!t->lost++)
			printf("# %s: move_pages() moved page %zu to %d, move_pages2() says %d, is on %d\n",
			       k->name, list[i].page, target[i], status[NEW][i], is);
	}

	/* On the wanted node already, or swapped in meanwhile */
	if (was == target[i] || (list[i].kind == SWAPPED && was >= 0))
		want = target[i];
	if (status[NEW][i] != want || (status[NEW][i] >= 0 && is != status[NEW][i])) {
		if (!t->odd++)
			printf("# %s: page %zu was on %d, should go to %d: status %d, expected %d, is on %d\n",
			       k->name, list[i].page, was, target[i], status[NEW][i],
			       want, is);
	}
}

static size_t one_round(unsigned int r)
{
	static const unsigned int batches[] = { 0, 1, 8, 64, 512, 4096 };
	size_t i, n, bad;
	long ret;

	gather(r & 1);
	for (i = OLD; i < TWINS; i++)
		madvise(range[SWAPPED][i].at, range[SWAPPED][i].pages * PAGE, MADV_PAGEOUT);
	n = make_list();
	bad = read_all();
	locate(OLD, before[OLD], n);
	locate(NEW, before[NEW], n);
	/* By turns first and second */
	if (r & 2)
		syscall(SYS_move_pages, 0, n, addr[OLD], target, status[OLD], OLD_MOVE_ALL);
	ret = move_new(addr[NEW], target, status[NEW], n,
		       rnd(2) ? MOVE_PAGES2_NO_RECLAIM : 0, rnd(3), batches[rnd(6)]);
	if (!(r & 2))
		syscall(SYS_move_pages, 0, n, addr[OLD], target, status[OLD], OLD_MOVE_ALL);
	bad += read_all();
	locate(OLD, after[OLD], n);
	locate(NEW, after[NEW], n);
	if (ret != (long)n) {
		printf("# move_pages2() returned %ld of %zu (%s)\n", ret, n, strerror(errno));
		return bad + 1;
	}
	for (i = 0; i < n; i++)
		check_entry(i);
	return bad;
}

/* ---- the machine and the other processes ---- */

#define POOL(node) \
	"/sys/devices/system/node/node" #node "/hugepages/hugepages-2048kB/nr_hugepages"

static void set_up_machine(void)
{
	start_swap();
	mount_disk("/tmp/differential.fs");
	/* On each node, for all that may come there */
	if (!write_text(POOL(0), "8") || !write_text(POOL(1), "8"))
		die("hugetlb");
}

/* Merge what is alike, and stop: pages must stay what they are */
static void merge(void)
{
	int i;

	if (!write_text("/sys/kernel/mm/ksm/sleep_millisecs", "1") ||
	    !write_text("/sys/kernel/mm/ksm/pages_to_scan", "1000") ||
	    !write_text("/sys/kernel/mm/ksm/run", "1"))
		die("KSM");
	/* Of each twin one page is kept and three share it */
	for (i = 0; i < 3000 && read_number("/sys/kernel/mm/ksm/pages_sharing") < 6; i++)
		usleep(10000);
	write_text("/sys/kernel/mm/ksm/run", "0");
	if (i == 3000)
		printf("# KSM has not merged the pages\n");
}

static int go[2], ready[2];

static size_t forked_differences(void)
{
	size_t bad = 0;
	int k, t;

	for (k = 0; k < KINDS; k++)
		for (t = 0; t < TWINS && kinds[k].flags & FORKED; t++)
			bad += differences(&range[k][t]);
	return bad;
}

/* Map what is shared, until all moves are done */
static void other_process(bool locks)
{
	size_t bad = forked_differences();
	int t;
	char c = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(go[1]);
	for (t = 0; t < TWINS && locks; t++) {
		const struct range *r = &range[LOCKED_ELSEWHERE][t];

		bad += mlock(r->at, r->pages * PAGE) != 0;
	}
	if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) < 0)
		bad++;
	_exit(bad + forked_differences() != 0);
}

/* How many page tables point to a page, as far as they aren't shared */
static uint64_t mapcount(const char *at)
{
	int pm = open("/proc/self/pagemap", O_RDONLY);
	int kc = open("/proc/kpagecount", O_RDONLY);
	uint64_t entry, count;

	if (pread(pm, &entry, 8, (uintptr_t)at / PAGE * 8) != 8 ||
	    pread(kc, &count, 8, (entry & ((1ULL << 55) - 1)) * 8) != 8)
		die("mapcount");
	close(pm);
	close(kc);
	return count;
}

/*
 * The exception: the kernel itself holds a reference to the ring of aio, which only
 * the ring's own function for migration knows of. move_pages() tries, and moves it;
 * move_pages2() sees a page that is pinned.
 */
static bool ring_of_aio(void)
{
	aio_context_t ctx = 0;
	void *page;
	int was, is, to, st, by_new, by_old;

	if (syscall(SYS_io_setup, 100, &ctx))
		die("io_setup");
	page = (void *)(uintptr_t)ctx;
	(void)*(volatile char *)page;
	if (syscall(SYS_move_pages, 0, 1, &page, NULL, &was, 0))
		die("move_pages");
	to = !was;
	if (move_new(&page, &to, &st, 1, 0, MOVE_PAGES2_MODE_SYNC, 0) != 1 ||
	    syscall(SYS_move_pages, 0, 1, &page, NULL, &by_new, 0) ||
	    syscall(SYS_move_pages, 0, 1, &page, &to, &is, OLD_MOVE_ALL) < 0 ||
	    syscall(SYS_move_pages, 0, 1, &page, NULL, &by_old, 0))
		die("the ring of aio");
	syscall(SYS_io_destroy, ctx);
	printf("# the ring of aio was on %d: move_pages2() says %d, is on %d; move_pages() brings it to %d\n",
	       was, st, by_new, by_old);
	return was >= 0 && st == -EBUSY && by_new == was && by_old == to;
}

int main(int argc, char **argv)
{
	const unsigned int rounds = argc > 2 ? atoi(argv[2]) : 30;
	unsigned long lost = 0, tables;
	bool failed = false, ok;
	size_t bad = 0;
	unsigned int r;
	int k, t, o, st;
	char c;

	seed = (argc > 1 ? strtoull(argv[1], NULL, 0) : 1) * 0x9e3779b97f4a7c15 + 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	number = find_call();
	printf("1..%d\n", KINDS + 5);
	set_up_machine();
	for (k = 0; k < KINDS; k++)
		for (t = 0; t < TWINS; t++) {
			range[k][t].seed = k * TWINS + t + 1;
			kinds[k].make(&range[k][t]);
			if (!(kinds[k].flags & FORKED))
				madvise(range[k][t].at, range[k][t].pages * PAGE, MADV_DONTFORK);
		}
	merge();
	if (pipe(go) || pipe(ready))
		die("pipe");
	for (o = 0; o < OTHERS; o++)
		if (fork() == 0)
			other_process(o == 0);
	for (o = 0; o < OTHERS; o++)
		if (read(ready[0], &c, 1) != 1)
			die("another process");

	/* All processes use it, and it looks as if one did */
	tables = mapcount(range[TABLE_SHARED][NEW].at);

	for (r = 0; r < rounds && bad == 0; r++)
		bad += one_round(r);

	/* Not before: it swaps them in */
	bad += differences(&range[SWAPPED][OLD]) + differences(&range[SWAPPED][NEW]);
	close(go[1]);
	for (o = 0; o < OTHERS; o++)
		if (wait(&st) < 0 || st)
			bad++;
	for (k = 0; k < KINDS; k++) {
		const struct tally *y = &tally[k];

		lost += y->lost;
		ok = !y->odd;
		/* Nearly all were alike, or the comparison says nothing */
		if (kinds[k].want == MOVES)
			ok &= y->new && y->old && y->skipped * 20 <= y->new + y->old;
		printf("%sok %d differential: %s: move_pages() moved %lu, move_pages2() %lu; %lu not alike before\n",
		       ok ? "" : "not ", k + 1, kinds[k].name, y->old, y->new, y->skipped);
		failed |= !ok;
	}
	printf("%sok %d differential: what move_pages() moves move_pages2() moves, too (not %lu entries)\n",
	       lost ? "not " : "", k + 1, lost);
	printf("%sok %d differential: and others: %lu\n", more ? "" : "not ", k + 2, more);
	printf("%sok %d differential: contents are what they were (%zu are not), here and in %d processes\n",
	       bad ? "not " : "", k + 3, bad, OTHERS);
	printf("%sok %d differential: hugetlb: %d processes share a page table (%lu)\n",
	       tables == 1 ? "" : "not ", k + 4, OTHERS + 1, tables);
	ok = ring_of_aio();
	failed |= !ok;
	printf("%sok %d differential: the ring of aio is moved by move_pages() only\n",
	       ok ? "" : "not ", k + 5);
	/* Gone for others at once, and from the device when we end */
	umount2("/tmp/differential.fs", MNT_DETACH);
	swapoff("/dev/ram0");
	write_text(POOL(0), "0");
	write_text(POOL(1), "0");
	return failed || lost || !more || bad || tables != 1;
}

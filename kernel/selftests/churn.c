// SPDX-License-Identifier: GPL-2.0
/*
 * Move pages from node to node while everything else that handles pages is at
 * work on them: swap, compaction, NUMA balancing, KSM, huge pages that are split
 * and collapsed, mlock, holes and truncation, mremap, exec, pages pinned by
 * io_uring and vmsplice, writeback, and memory blocks that go off and on line.
 *
 * usage: churn SECONDS
 * Each kind of memory has a process that counts up in it, knows how far each
 * word must be, and disturbs it. In the end no write may be lost, each
 * disturbance must have taken place, and pages of each kind must have moved.
 * Prints TAP. Needs root, two memory nodes, /dev/ram0 and /dev/ram1: for the
 * guest, since what these hold is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "call.h"
#include "machine.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif
#define PAGE	4096UL
#define HUGE	(2UL << 20)
#define PAGES	256	/* of a kind of memory, unless it is huge */
#define MOST	1024
#define WORDS	(PAGE / 8)
#define MOVERS	2
#define RW	(PROT_READ | PROT_WRITE)

/* A kind of memory as its process and the movers see it */
struct live {
	uint64_t *volatile mem;
	volatile uint64_t rounds, moved, lost;
	volatile pid_t pid;
};

struct control {
	volatile int stop;
	volatile bool odd;	/* a result that isn't documented */
	volatile uint64_t blocks, calls;
	struct live live[32];
};

static struct control *ctl;
static long number;

/* Of the process of one kind */
static struct live *me;
static uint64_t *mem;
static uint64_t expected[MOST];
static size_t pages = PAGES;
static uint64_t seed;
static int fd = -1;

static uint64_t rnd(uint64_t below)
{
	return next(&seed) % below;
}

static void *map(size_t len, int flags, int file)
{
	void *p = mmap(NULL, len, RW, flags, file, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* The word of a page that is counted up */
static uint64_t *word(size_t page)
{
	return mem + page * WORDS + page % WORDS;
}

static void count_up(size_t page)
{
	if (*word(page) != expected[page]) {
		me->lost++;
		expected[page] = *word(page);
	}
	++*word(page);
	expected[page]++;
}

/* A random part of the memory, of at most half of it */
static void part(size_t *first, size_t *nr)
{
	*nr = 1 + rnd(pages / 2);
	*first = rnd(pages - *nr + 1);
}

static void advise(int advice)
{
	size_t first, nr;

	part(&first, &nr);
	madvise(mem + first * WORDS, nr * PAGE, advice);
}

static void forget(size_t first, size_t nr)
{
	memset(expected + first, 0, nr * sizeof(*expected));
}

/* ---- setting up memory, and disturbing it ---- */

static void set_up_private(void)
{
	mem = map(pages * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(mem, pages * PAGE, MADV_NOHUGEPAGE);
}

static void set_up_shared(void)
{
	fd = memfd_create("churn", 0);
	if (fd < 0 || ftruncate(fd, pages * PAGE))
		die("memfd");
	mem = map(pages * PAGE, MAP_SHARED, fd);
}

static void set_up_thp(void)
{
	char *p = map(3 * HUGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	pages = 2 * HUGE / PAGE;
	mem = (void *)(((uintptr_t)p + HUGE - 1) / HUGE * HUGE);
	madvise(mem, 2 * HUGE, MADV_HUGEPAGE);
}

static void set_up_hugetlb(void)
{
	pages = 2 * HUGE / PAGE;
	fd = memfd_create("churn", MFD_HUGETLB);
	if (fd < 0 || ftruncate(fd, pages * PAGE))
		die("hugetlb");
	mem = map(pages * PAGE, MAP_SHARED, fd);
}

static void set_up_file(void)
{
	fd = open("/tmp/churn.fs/file", O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, pages * PAGE))
		die("file");
	mem = map(pages * PAGE, MAP_SHARED, fd);
}

static void set_up_mergeable(void)
{
	set_up_private();
	madvise(mem, pages * PAGE, MADV_MERGEABLE);
}

static void page_out(void)
{
	advise(MADV_PAGEOUT);
}

static void compact(void)
{
	if (!rnd(4))
		write_text("/proc/sys/vm/compact_memory", "1");
}

static void lock_memory(void)
{
	size_t first, nr;

	part(&first, &nr);
	if (rnd(2))
		mlock(mem + first * WORDS, nr * PAGE);
	else
		munlock(mem + first * WORDS, nr * PAGE);
}

/* Pages that are alike again may be merged, until the next write */
static void make_alike(void)
{
	size_t first, nr, i;

	part(&first, &nr);
	for (i = first; i < first + nr; i++) {
		if (*word(i) != expected[i])
			me->lost++;
		*word(i) = 0;
		expected[i] = 0;
	}
	usleep(20000);
}

static void split_or_collapse(void)
{
	size_t i = rnd(pages);

	if (rnd(2)) {
		madvise(mem + i * WORDS, PAGE, MADV_DONTNEED);
		forget(i, 1);
	} else {
		madvise(mem, pages * PAGE, MADV_COLLAPSE);
	}
}

static void map_again(void)
{
	munmap(mem, pages * PAGE);
	if (mmap(mem, pages * PAGE, RW, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("mmap");
}

static void make_holes(void)
{
	size_t first, nr;

	part(&first, &nr);
	if (rnd(2)) {
		if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      first * PAGE, nr * PAGE))
			die("fallocate");
		forget(first, nr);
	} else {
		if (ftruncate(fd, first * PAGE) || ftruncate(fd, pages * PAGE))
			die("ftruncate");
		forget(first, pages - first);
	}
}

static void remap(void)
{
	size_t half = pages / 2 * PAGE;
	char *to = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	char *from = (char *)mem;

	/* The two halves may come to lie in two mappings, and in one again */
	if (mremap(from + half, half, half, MREMAP_MAYMOVE | MREMAP_FIXED,
		   to + half) == MAP_FAILED ||
	    mremap(from, half, half, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
		die("mremap");
	mem = (uint64_t *)to;
	me->mem = mem;
	mprotect(to, half, PROT_READ);
	mprotect(to, half, RW);
}

static void write_back(void)
{
	size_t first, nr;

	part(&first, &nr);
	msync(mem + first * WORDS, nr * PAGE, rnd(2) ? MS_SYNC : MS_ASYNC);
	posix_fadvise(fd, first * PAGE, nr * PAGE, POSIX_FADV_DONTNEED);
}

/* The program that is executed counts up, too, in the second word of pages */
static void execute(void)
{
	static uint64_t by_others;
	char file[20];
	int st;

	sprintf(file, "%d", fd);
	if (fork() == 0) {
		execl("/proc/self/exe", "churn", "executed", file, NULL);
		_exit(1);
	}
	by_others++;
	if (wait(&st) < 0 || st || mem[5 * WORDS + 1] != by_others ||
	    mem[77 * WORDS + 1] != by_others)
		me->lost++;
}

static int executed(const char *file)
{
	volatile uint64_t *p = map(PAGES * PAGE, MAP_SHARED, atoi(file));

	p[5 * WORDS + 1]++;
	p[77 * WORDS + 1]++;
	return 0;
}

/*
 * What is written to a page after it went into a pipe is read there, as long
 * as the pipe has the page itself and not what it was before a move.
 */
static void splice_page(void)
{
	size_t i = rnd(pages), k;
	struct iovec iov = { .iov_base = mem + i * WORDS, .iov_len = PAGE };
	static uint64_t got[WORDS];
	int p[2];

	/* Or it would be the zero page that goes into the pipe */
	count_up(i);
	if (pipe(p) || vmsplice(p[1], &iov, 1, 0) != (ssize_t)PAGE)
		die("vmsplice");
	for (k = 0; k < 50; k++)
		count_up(i);
	usleep(1000);
	if (read(p[0], got, PAGE) != (ssize_t)PAGE || got[i % WORDS] != expected[i])
		me->lost++;
	close(p[0]);
	close(p[1]);
}

/* A ring of one entry, and its registered buffer: one page of the memory */
static struct ring {
	int fd, file;
	unsigned int *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
} ring;

static void set_up_ring(void)
{
	struct io_uring_params p = {};
	char *sq, *cq;

	set_up_private();
	ring.fd = syscall(SYS_io_uring_setup, 1, &p);
	if (ring.fd < 0)
		die("io_uring_setup");
	sq = mmap(NULL, p.sq_off.array + p.sq_entries * 4, RW,
		  MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
	cq = mmap(NULL, p.cq_off.cqes + p.cq_entries * sizeof(*ring.cqe), RW,
		  MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_CQ_RING);
	ring.sqe = mmap(NULL, p.sq_entries * sizeof(*ring.sqe), RW,
			MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring.sqe == MAP_FAILED)
		die("mmap of the ring");
	ring.sq_tail = (void *)(sq + p.sq_off.tail);
	ring.sq_mask = (void *)(sq + p.sq_off.ring_mask);
	ring.sq_array = (void *)(sq + p.sq_off.array);
	ring.cq_head = (void *)(cq + p.cq_off.head);
	ring.cq_mask = (void *)(cq + p.cq_off.ring_mask);
	ring.cqe = (void *)(cq + p.cq_off.cqes);
	ring.file = memfd_create("ring", 0);
}

static bool ring_do(int op, void *buf)
{
	unsigned int tail = *ring.sq_tail, i = tail & *ring.sq_mask;
	int res;

	memset(&ring.sqe[i], 0, sizeof(ring.sqe[i]));
	ring.sqe[i].opcode = op;
	ring.sqe[i].fd = ring.file;
	ring.sqe[i].addr = (uintptr_t)buf;
	ring.sqe[i].len = PAGE;
	ring.sq_array[i] = i;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS,
		    NULL, 0) != 1)
		return false;
	res = ring.cqe[*ring.cq_head & *ring.cq_mask].res;
	__atomic_store_n(ring.cq_head, *ring.cq_head + 1, __ATOMIC_RELEASE);
	return res == (int)PAGE;
}

/*
 * The ring writes from and reads into the page that it has pinned; we see the
 * page that is mapped. They must be the same one.
 */
static void pin(void)
{
	size_t i = rnd(pages), k;
	struct iovec iov = { .iov_base = mem + i * WORDS, .iov_len = PAGE };
	uint64_t got;

	if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &iov, 1))
		die("io_uring_register");
	for (k = 0; k < 20; k++) {
		count_up(i);
		if (!ring_do(IORING_OP_WRITE_FIXED, iov.iov_base) ||
		    pread(ring.file, &got, 8, i % WORDS * 8) != 8 ||
		    got != expected[i])
			me->lost++;
		got++;
		if (pwrite(ring.file, &got, 8, i % WORDS * 8) != 8 ||
		    !ring_do(IORING_OP_READ_FIXED, iov.iov_base))
			me->lost++;
		expected[i]++;
		usleep(500);
	}
	syscall(SYS_io_uring_register, ring.fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
}

static void nothing(void)
{
}

static const struct kind {
	const char *name;
	void (*set_up)(void);
	void (*disturb)(void);
	const char *counter;	/* of /proc/vmstat: it must have grown */
} kinds[] = {
	{ "swap of private memory", set_up_private, page_out, "pswpout" },
	{ "swap of shared memory", set_up_shared, page_out, "pswpin" },
	{ "compaction", set_up_private, compact, "compact_isolated" },
	{ "NUMA balancing", set_up_private, nothing, "numa_pte_updates" },
	{ "KSM", set_up_mergeable, make_alike, "cow_ksm" },
	{ "huge pages split and collapsed", set_up_thp, split_or_collapse,
	  "thp_split_pmd" },
	{ "hugetlb unmapped and mapped", set_up_hugetlb, map_again, NULL },
	{ "mlock", set_up_shared, lock_memory, "unevictable_pgs_mlocked" },
	{ "holes and truncation", set_up_shared, make_holes, NULL },
	{ "mremap", set_up_shared, remap, NULL },
	{ "exec", set_up_shared, execute, NULL },
	{ "writeback of a file", set_up_file, write_back, "nr_written" },
	{ "buffers of io_uring", set_up_ring, pin, NULL },
	{ "pages in pipes", set_up_private, splice_page, NULL },
};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static void live(int k)
{
	size_t i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	me = &ctl->live[k];
	seed = 88172645463325252 + k * 7919;
	kinds[k].set_up();
	me->pid = getpid();
	me->mem = mem;
	while (!ctl->stop) {
		for (i = 0; i < 200; i++)
			count_up(rnd(pages));
		kinds[k].disturb();
		me->rounds++;
		/* Leave time to the movers */
		usleep(2000);
	}
	for (i = 0; i < pages; i++)
		me->lost += *word(i) != expected[i];
	_exit(0);
}

/* ---- moving ---- */

static bool documented(int st)
{
	return st == 0 || st == 1 || st == -ENOENT || st == -EACCES ||
	       st == -EBUSY || st == -EAGAIN || st == -ENOMEM || st == -EFAULT;
}

static void mover(int m)
{
	static const int batches[] = { 1, 8, 32, 512, 4096 };
	static uint64_t addr[MOST];
	static int node[MOST], status[MOST];
	struct move_pages2_args args;
	size_t i, n;
	long ret;
	int k = m * KINDS / MOVERS;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, -10);
	seed = 362436069 + m * 104729;
	while (!ctl->stop) {
		struct live *l = &ctl->live[k = (k + 1) % KINDS];
		size_t all = kinds[k].set_up == set_up_thp ||
			     kinds[k].set_up == set_up_hugetlb ? MOST : PAGES;
		bool mixed = rnd(3) == 0;
		int to = rnd(2);

		if (!l->mem)
			continue;
		n = 1 + rnd(rnd(4) ? 64 : all);
		for (i = 0; i < n; i++) {
			addr[i] = (uintptr_t)l->mem + rnd(all) * PAGE;
			node[i] = mixed ? (int)rnd(2) : to;
		}
		memset(&args, 0, sizeof(args));
		args.pages = (uintptr_t)addr;
		args.nodes = (uintptr_t)node;
		args.status = (uintptr_t)status;
		args.nr_pages = n;
		args.mode = rnd(3);
		args.nr_max_batched_migration = batches[rnd(5)];
		ret = syscall(number, l->pid, &args, sizeof(args),
			      MOVE_PAGES2_MOVE_ALL | MOVE_PAGES2_PAGE_CACHE |
			      (rnd(2) ? MOVE_PAGES2_NO_DRAIN : 0) |
			      (rnd(2) ? MOVE_PAGES2_NO_RECLAIM : 0));
		if (ret != (long)n) {
			printf("# returned %ld (%s) of %zu\n", ret, strerror(errno), n);
			ctl->odd = true;
		}
		for (i = 0; i < n && ret == (long)n; i++)
			if (!documented(status[i])) {
				printf("# %s: status %d\n", kinds[k].name, status[i]);
				ctl->odd = true;
			}
		__atomic_fetch_add(&l->moved, args.nr_migrated, __ATOMIC_RELAXED);
		__atomic_fetch_add(&ctl->calls, 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

/* ---- memory blocks ---- */

static void on_alarm(int sig)
{
	(void)sig;
}

/*
 * Take blocks of the second node off line, one at a time, and bring them back.
 * One with pages that can't move is refused, or tried until the alarm.
 */
static void hotplug(void)
{
	const struct sigaction sa = { .sa_handler = on_alarm };
	const struct itimerval limit = { .it_value.tv_sec = 5 };
	char path[100];
	int block;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGALRM, &sa, NULL);
	while (!ctl->stop) {
		for (block = 0; block < 64 && !ctl->stop; block++) {
			sprintf(path, "/sys/devices/system/memory/memory%d/node1", block);
			if (access(path, F_OK))
				continue;
			sprintf(path, "/sys/devices/system/memory/memory%d/state", block);
			setitimer(ITIMER_REAL, &limit, NULL);
			if (!write_text(path, "offline"))
				continue;
			usleep(200000);
			setitimer(ITIMER_REAL, &limit, NULL);
			if (!write_text(path, "online")) {
				printf("# memory block %d stays off line\n", block);
				ctl->odd = true;
			} else {
				ctl->blocks++;
			}
		}
		usleep(10000);
	}
	_exit(0);
}

/* ---- all together ---- */

static long vmstat(const char *want)
{
	FILE *f = fopen("/proc/vmstat", "r");
	long v, found = -1;
	char name[100];

	while (f && fscanf(f, "%99s %ld", name, &v) == 2)
		if (!strcmp(name, want))
			found = v;
	if (f)
		fclose(f);
	return found;
}

static bool all_met(void)
{
	int k;

	for (k = 0; k < KINDS; k++)
		if (!ctl->live[k].rounds || !ctl->live[k].moved)
			return false;
	return ctl->blocks;
}

static void set_up_machine(void)
{
	start_swap();
	mount_disk("/tmp/churn.fs");
	if (!write_text("/proc/sys/vm/nr_hugepages", "8") ||
	    !write_text("/proc/sys/kernel/numa_balancing", "1") ||
	    !write_text("/sys/kernel/mm/ksm/sleep_millisecs", "1") ||
	    !write_text("/sys/kernel/mm/ksm/pages_to_scan", "1000") ||
	    !write_text("/sys/kernel/mm/ksm/run", "1"))
		die("settings");
}

static void restore_machine(void)
{
	write_text("/proc/sys/kernel/numa_balancing", "0");
	write_text("/sys/kernel/mm/ksm/run", "0");
	write_text("/proc/sys/vm/nr_hugepages", "0");
	umount("/tmp/churn.fs");
	swapoff("/dev/ram0");
}

int main(int argc, char **argv)
{
	long before[KINDS], grown, isolated;
	const int seconds = argc > 1 ? atoi(argv[1]) : 20;
	bool bad = false, ended = true, ok;
	int i, k, m, st;

	if (argc == 3 && !strcmp(argv[1], "executed"))
		return executed(argv[2]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	number = find_call();
	printf("1..%d\n", KINDS + 4);
	ctl = map(sizeof(*ctl), MAP_SHARED | MAP_ANONYMOUS, -1);
	set_up_machine();
	for (k = 0; k < KINDS; k++)
		before[k] = kinds[k].counter ? vmstat(kinds[k].counter) : 0;
	for (k = 0; k < KINDS; k++)
		if (fork() == 0)
			live(k);
	for (m = 0; m < MOVERS; m++)
		if (fork() == 0)
			mover(m);
	if (fork() == 0)
		hotplug();

	/* On a busy machine it takes longer until everything has met */
	for (i = 0; i < seconds || (i < 10 * seconds && !all_met()); i++)
		sleep(1);
	ctl->stop = 1;
	while (wait(&st) > 0)
		if (st) {
			printf("# a process ended with %#x\n", st);
			ended = false;
		}
	write_text("/proc/sys/vm/stat_refresh", "1");

	for (k = 0; k < KINDS; k++) {
		struct live *l = &ctl->live[k];

		grown = kinds[k].counter ? vmstat(kinds[k].counter) - before[k] : 1;
		ok = !l->lost && l->rounds && l->moved && grown > 0;
		printf("%sok %d churn: %s: %llu rounds, %llu entries moved, %llu writes lost",
		       ok ? "" : "not ", k + 1, kinds[k].name,
		       (unsigned long long)l->rounds, (unsigned long long)l->moved,
		       (unsigned long long)l->lost);
		if (kinds[k].counter)
			printf(", %s %ld", kinds[k].counter, grown);
		printf("\n");
		bad |= !ok;
	}
	restore_machine();
	printf("%sok %d churn: memory blocks went off and on line: %llu times\n",
	       ctl->blocks ? "" : "not ", k + 1, (unsigned long long)ctl->blocks);
	printf("%sok %d churn: only expected results, in %llu calls\n",
	       ctl->odd ? "not " : "", k + 2, (unsigned long long)ctl->calls);
	printf("%sok %d churn: all processes ended well\n", ended ? "" : "not ", k + 3);
	write_text("/proc/sys/vm/stat_refresh", "1");
	isolated = vmstat("nr_isolated_anon") | vmstat("nr_isolated_file");
	printf("%sok %d churn: no page stays isolated\n", isolated ? "not " : "", k + 4);
	return bad || !ended || !ctl->blocks || ctl->odd || isolated;
}

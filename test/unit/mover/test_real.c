/*-------------------------------------------------------------------------
 *
 * test_real.c
 *	  The movers on real memory shared by processes.
 *
 * On a machine with one node nothing can move, but presence, absence and
 * "already there" are real; with two nodes pages move, and where they are
 * afterwards is asked from the kernel by a separate process, not taken from
 * the mover.  Each case runs with every engine the kernel has.
 *
 * IDENTIFICATION
 *	  test/unit/mover/test_real.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "check.h"

#include "mover/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NPAGES 1024
#define PAGE   4096

static NmTopology topo;
static NmMoverCaps caps;
static NmEngine engine;
static int home,
	other; /* two allowed nodes; other = -1 on one node */

static char *mem;
static int memfd;
static void *addrs[NPAGES];
static int32_t status[NPAGES];
static NmMoveItem items[NPAGES];

static void
map_memory(void)
{
	memfd = memfd_create("nm_test", MFD_CLOEXEC);
	CHECK(memfd >= 0);
	CHECK_INT(ftruncate(memfd, (off_t) NPAGES * PAGE), 0);
	mem = mmap(NULL, (size_t) NPAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	CHECK(mem != MAP_FAILED);
	for (int i = 0; i < NPAGES; i++)
		addrs[i] = mem + (size_t) i * PAGE;
}

static void
unmap_memory(void)
{
	munmap(mem, (size_t) NPAGES * PAGE);
	close(memfd);
}

/* Pages that exist, in whatever process. */
static long
pages_allocated(void)
{
	struct stat st;

	CHECK_INT(fstat(memfd, &st), 0);
	return (long) (st.st_blocks / (PAGE / 512));
}

/* Run fn in a child; its failed CHECKs become ours. */
static void
in_child(void (*fn)(void))
{
	int st;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		check_bad = 0;
		fn();
		fflush(stdout);
		_exit(check_bad > 0);
	}
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

/*
 * A process that maps every step-th page and waits.  It writes (what is there
 * already): a read would map resident neighbours too, by fault-around.
 */
static int hold_pipe[2];

static pid_t
start_holder(int step)
{
	int ready[2];
	char c;
	pid_t pid;

	CHECK_INT(pipe(ready), 0);
	CHECK_INT(pipe(hold_pipe), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		close(hold_pipe[1]);
		for (int i = 0; i < NPAGES; i += step)
			*(volatile unsigned char *) (mem + (size_t) i * PAGE) = (unsigned char) i;
		(void) !write(ready[1], "x", 1);
		(void) !read(hold_pipe[0], &c, 1); /* until the parent closes */
		_exit(0);
	}
	close(hold_pipe[0]);
	CHECK_INT(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void
end_holder(pid_t pid)
{
	int st;

	close(hold_pipe[1]);
	CHECK_INT(waitpid(pid, &st, 0), pid);
}

static void
fill_even(void)
{
	for (int i = 0; i < NPAGES; i += 2)
		memset(mem + (size_t) i * PAGE, i & 0xff, PAGE);
}

static NmMoveOptions
options(void)
{
	NmMoveOptions opt = {
		.engine = engine,
		.mode = NM_MODE_SYNC,
		.all_mappers = true,
		.page_size = PAGE};

	return opt;
}

static void
move_to(int node, int step, NmMoveStats *stats)
{
	NmMoveOptions opt = options();
	int n = 0;
	void *scratch = malloc(nm_move_scratch_size(NPAGES));

	memset(stats, 0, sizeof(*stats));
	for (int i = 0; i < NPAGES; i += step)
	{
		items[n].addr = addrs[i];
		items[n++].node = node;
	}
	CHECK(nm_move(&caps, &topo, items, n, &opt, stats, scratch));
	CHECK_INT(stats->asked, n);
	free(scratch);
}

/* Every page that exists must be on this node; asked by the raw call. */
static int expect_node;

static void
verify_node(void)
{
	int st[NPAGES / 2];
	void *ask[NPAGES / 2];
	unsigned bad = 0;

	for (int i = 0; i < NPAGES; i += 2)
	{
		ask[i / 2] = addrs[i];
		for (int k = 0; k < PAGE; k += 512)
			bad += (unsigned char) mem[(size_t) i * PAGE + k] != (i & 0xff);
	}
	CHECK_INT(bad, 0); /* the content came along */
	CHECK_INT(syscall(SYS_move_pages, 0, NPAGES / 2, ask, NULL, st, 0), 0);
	for (int i = 0; i < NPAGES / 2; i++)
		CHECK_INT(st[i], expect_node);
}

/* ---- cases ---- */

/* Pages that only another process has used are seen, holes stay holes. */
static void
query_shared_memory(void)
{
	NmMoveOptions opt = options();
	void *scratch = malloc(nm_move_scratch_size(NPAGES));
	long before;

	map_memory();
	in_child(fill_even);
	before = pages_allocated();
	CHECK_INT(before, NPAGES / 2);
	CHECK(nm_query_nodes(&caps, addrs, NPAGES, status, &opt, scratch));
	for (int i = 0; i < NPAGES; i++)
	{
		if (i % 2 == 0)
			CHECK(nm_topology_index(&topo, status[i]) >= 0);
		else
			CHECK_INT(status[i], -ENOENT);
	}
	CHECK_INT(pages_allocated(), before);
	unmap_memory();
	free(scratch);
}

/* An address outside any mapping is absent, not an error of the whole. */
static void
unmapped_addresses(void)
{
	NmMoveStats stats;

	map_memory();
	fill_even();
	munmap(mem + (size_t) 10 * PAGE, (size_t) 10 * PAGE);
	move_to(home, 1, &stats);
	CHECK_INT(stats.absent, NPAGES / 2 + 5);
	CHECK_INT(stats.already + stats.moved, NPAGES / 2 - 5);
	unmap_memory();
}

static void
move_to_own_node(void)
{
	NmMoveStats stats;

	map_memory();
	in_child(fill_even);
	move_to(home, 2, &stats); /* wherever they were */
	move_to(home, 1, &stats);
	CHECK_INT(stats.already, NPAGES / 2);
	CHECK_INT(stats.absent, NPAGES / 2);
	CHECK_INT(stats.moved + stats.busy + stats.denied + stats.failed, 0);
	CHECK_INT(pages_allocated(), NPAGES / 2);
	expect_node = home;
	in_child(verify_node);
	unmap_memory();
}

/* Two processes map the pages. */
static void
move_shared(void)
{
	NmMoveStats stats;
	pid_t holder;

	if (other < 0)
		SKIP("one memory node");
	if (!caps.cap_sys_nice)
		SKIP("no CAP_SYS_NICE");
	map_memory();
	in_child(fill_even);
	move_to(home, 2, &stats);
	holder = start_holder(2);
	move_to(other, 1, &stats);
	CHECK_INT(stats.moved, NPAGES / 2);
	CHECK_INT(stats.absent, NPAGES / 2);
	expect_node = other;
	in_child(verify_node);
	CHECK_INT(pages_allocated(), NPAGES / 2);
	end_holder(holder);
	unmap_memory();
}

/*
 * Without the capability a page that another process maps is denied, and one
 * that only this process maps is not.  All in a child that nobody else has
 * mapped the memory of, for the parent's own entries would count too.
 */
static void
as_nobody(void)
{
	NmMoveStats stats;
	pid_t holder;
	int wrong = 0;

	fill_even();
	move_to(home, 2, &stats);
	holder = start_holder(4);
	CHECK_INT(setresuid(65534, 65534, 65534), 0);
	nm_mover_probe(&caps, "");
	CHECK(!caps.cap_sys_nice);
	move_to(other, 2, &stats);
	CHECK_INT(stats.denied, NPAGES / 4);
	CHECK_INT(stats.moved, NPAGES / 4);
	for (int i = 0; i < NPAGES / 2; i++)
		wrong += items[i].status != (i % 2 ? other : -EACCES);
	CHECK_INT(wrong, 0);
	end_holder(holder);
}

static void
move_shared_unprivileged(void)
{
	if (other < 0)
		SKIP("one memory node");
	if (geteuid() != 0)
		SKIP("not root");
	map_memory();
	in_child(as_nobody);
	unmap_memory();
}

/* A pinned page stays and is said to be busy, the others move. */
static void
move_with_pinned(void)
{
	NmMoveStats stats;
	int p[2];
	struct
	{
		void *base;
		size_t len;
	} iov;

	if (other < 0)
		SKIP("one memory node");
	map_memory();
	fill_even();
	move_to(home, 2, &stats);
	CHECK_INT(pipe(p), 0);
	for (int i = 0; i < 10; i++) /* the pipe holds references to the pages */
	{
		iov.base = addrs[i * 40];
		iov.len = PAGE;
		CHECK_INT(syscall(SYS_vmsplice, p[1], &iov, 1, 0), PAGE);
	}
	move_to(other, 2, &stats);
	CHECK_INT(stats.busy, 10);
	CHECK_INT(stats.moved, NPAGES / 2 - 10);
	close(p[0]);
	close(p[1]);
	move_to(other, 2, &stats);
	CHECK_INT(stats.moved, 10);
	CHECK_INT(stats.already, NPAGES / 2 - 10);
	expect_node = other;
	in_child(verify_node);
	unmap_memory();
}

/* Targets alternate: stock move_pages' worst case. */
static void
move_interleaved(void)
{
	NmMoveOptions opt = options();
	NmMoveStats stats;
	void *scratch = malloc(nm_move_scratch_size(NPAGES));

	if (other < 0)
	{
		free(scratch);
		SKIP("one memory node");
	}
	map_memory();
	fill_even();
	move_to(home, 2, &stats);
	memset(&stats, 0, sizeof(stats));
	for (int i = 0; i < NPAGES / 2; i++)
	{
		items[i].addr = addrs[i * 2];
		items[i].node = i % 2 ? other : home;
	}
	CHECK(nm_move(&caps, &topo, items, NPAGES / 2, &opt, &stats, scratch));
	CHECK_INT(stats.moved, NPAGES / 4);
	CHECK_INT(stats.already, NPAGES / 4);
	CHECK(nm_query_nodes(&caps, addrs, NPAGES, status, &opt, scratch));
	for (int i = 0; i < NPAGES / 2; i++)
		CHECK_INT(status[i * 2], i % 2 ? other : home);
	unmap_memory();
	free(scratch);
}

/*
 * Huge pages: alternating targets, a second process mapping all of them.
 */
static void
move_huge(void)
{
	size_t huge = 2 * 1024 * 1024;
	int n = 8;
	NmMoveOptions opt = options();
	NmMoveStats stats = {0};
	void *scratch = malloc(nm_move_scratch_size(64));
	char *p;
	pid_t pid;
	int st;

	p = mmap(NULL, n * huge, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB | (21 << 26), -1, 0);
	if (p == MAP_FAILED)
	{
		free(scratch);
		SKIP("no huge pages (vm.nr_hugepages)");
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		for (int i = 0; i < n; i++)
			memset(p + i * huge, i + 1, huge);
		_exit(0);
	}
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK_INT(st, 0);

	opt.page_size = huge;
	opt.hugetlb = true;
	for (int i = 0; i < 4 * n; i++)
	{
		items[i].addr = p + (i / 4) * huge + (i % 4) * 8192;
		items[i].node = other >= 0 && (i / 4) % 2 ? other : home;
	}
	CHECK(nm_move(&caps, &topo, items, 4 * n, &opt, &stats, scratch));
	CHECK_INT(stats.asked, n);
	CHECK_INT(stats.moved + stats.already, n);
	for (int i = 0; i < n; i++)
	{
		void *a = p + i * huge;
		int node = -1;
		unsigned bad = 0;

		for (size_t k = 0; k < huge; k += 4096)
			bad += p[i * huge + k] != i + 1;
		CHECK_INT(bad, 0);
		CHECK_INT(syscall(SYS_move_pages, 0, 1, &a, NULL, &node, 0), 0);
		CHECK_INT(node, other >= 0 && i % 2 ? other : home);
	}
	munmap(p, n * huge);
	free(scratch);
}

int
main(void)
{
	char err[256];
	int ran = 0;

	if (!nm_topology_read(&topo, "", err, sizeof(err)))
	{
		printf("# %s\n", err);
		return 1;
	}
	home = other = -1;
	for (int i = 0; i < topo.nnodes; i++)
	{
		if (!topo.nodes[i].allowed)
			continue;
		if (home < 0)
			home = topo.nodes[i].id;
		else if (other < 0)
			other = topo.nodes[i].id;
	}
	nm_mover_probe(&caps, "");

	for (engine = NM_ENGINE_MOVE_PAGES; engine <= NM_ENGINE_MOVE_PAGES2; engine++)
	{
		if (nm_mover_choose(&caps, engine) != engine)
		{
			printf("# engine %s is not here\n", nm_engine_name(engine));
			continue;
		}
		printf("# engine %s\n", nm_engine_name(engine));
		ran++;
		RUN(query_shared_memory);
		RUN(unmapped_addresses);
		RUN(move_to_own_node);
		RUN(move_shared);
		RUN(move_shared_unprivileged);
		RUN(move_with_pinned);
		RUN(move_interleaved);
		RUN(move_huge);
	}
	if (ran == 0)
	{
		/* a sandbox without move_pages: nothing real can be tested here */
		check_skipped++;
		printf("skip   - all: move_pages: %s\n", strerror(caps.move_pages_errno));
	}
	return FINISH();
}

// SPDX-License-Identifier: GPL-2.0
/*
 * What moving a page costs: move_pages() against move_pages2(), in turn, over
 * the same lists of the same memory.
 *
 * usage: migrate [-r ROUNDS] [-n PAGES] [GROUP...]
 *
 * Prints one row per case: a name, then per method the nanoseconds per page
 * that came to its target (the median of the rounds), how many of the pages
 * that should have moved did, and how many entries got no or a wrong status.
 * On the deterministic clock of kernel/vm/run --icount a nanosecond is one
 * instruction. Needs root and two memory nodes.
 *
 * Between the rounds everything is put back by a call that isn't counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "calls.h"
#include "folios.h"

#define MAX_PAGES	32768
#define MAX_MAPPERS 256
#define MAX_ROUNDS	32
enum list
{
	FRIENDLY,
	HALF,
	ALTERNATE,
	PINNED,
	ABSENT,
	HALF_PINNED,
	ALL_ABSENT,
	TOGETHER,
	LISTS
};

struct bench_case
{
	const char *group;
	enum list list;
	int mappers;		 /* 0: private memory */
	unsigned int call;	 /* entries of one call */
	unsigned int batch;	 /* of move_pages2() */
	unsigned int stride; /* distance of the pages in pages; 0: 1 */
	unsigned int share;	 /* other processes touch one page of so many */
	unsigned int pages;	 /* 0: as many as -n says */
	enum folio folio;	 /* with stride 0: one entry for each folio */
};

static const struct bench_case cases[] = {
	{"shared", FRIENDLY, 0, 2048, 32},
	{"shared", FRIENDLY, 1, 2048, 32},
	{"shared", FRIENDLY, 4, 2048, 32},
	{"shared", FRIENDLY, 16, 2048, 32},
	{"shared", FRIENDLY, 64, 2048, 32},
	{"many", FRIENDLY, 256, 2048, 32},
	{"lists", HALF, 4, 2048, 32},
	{"lists", ALTERNATE, 4, 2048, 32},
	{"lists", PINNED, 4, 2048, 32},
	{"lists", ABSENT, 4, 2048, 32},
	{"lists", HALF_PINNED, 4, 2048, 32},
	{"lists", ALL_ABSENT, 4, 2048, 32},
	{"lists", TOGETHER, 4, 2048, 32},
	{"density", FRIENDLY, 64, 512, 32, 512, 1},
	{"density", FRIENDLY, 64, 512, 32, 128, 1},
	{"density", FRIENDLY, 64, 512, 32, 64, 1},
	{"density", FRIENDLY, 64, 512, 32, 16, 1},
	{"part", FRIENDLY, 64, 2048, 32, 1, 5},
	{"calls", FRIENDLY, 4, 1, 32},
	{"calls", FRIENDLY, 4, 16, 32},
	{"calls", FRIENDLY, 4, 128, 32},
	{"calls", FRIENDLY, 4, 512, 32},
	{"calls", FRIENDLY, 4, 4096, 32, .pages = 4096},
	{"calls", FRIENDLY, 4, 32768, 32, .pages = 32768},
	{"calls", FRIENDLY, 0, 1, 32},
	{"calls", FRIENDLY, 0, 16, 32},
	{"batches", FRIENDLY, 16, 2048, 1},
	{"batches", FRIENDLY, 16, 2048, 8},
	{"batches", FRIENDLY, 16, 2048, 128},
	{"batches", FRIENDLY, 16, 2048, 512},
	{"batches", FRIENDLY, 16, 2048, 4096},
	{"folios", FRIENDLY, 0, 2048, 32, .folio = MTHP},
	{"folios", FRIENDLY, 4, 2048, 32, .folio = MTHP},
	{"folios", FRIENDLY, 64, 2048, 32, .folio = MTHP},
	{"folios", FRIENDLY, 0, 2048, 32, .folio = THP},
	{"folios", FRIENDLY, 1, 2048, 32, .folio = THP},
	{"folios", FRIENDLY, 64, 2048, 32, .folio = THP},
	{"folios", FRIENDLY, 0, 2048, 32, .folio = HUGETLB},
	{"folios", FRIENDLY, 1, 2048, 32, .folio = HUGETLB},
	{"folios", FRIENDLY, 64, 2048, 32, .folio = HUGETLB},
	/* Each folio comes once for each of its pages */
	{"repeats", FRIENDLY, 4, 2048, 32, 1, .folio = MTHP},
	{"repeats", FRIENDLY, 4, 2048, 32, 1, .folio = THP},
	{"repeats", FRIENDLY, 4, 2048, 32, 1, .folio = HUGETLB},
};

static const char *const list_name[LISTS] = {
	"friendly",
	"half there",
	"alternating",
	"1 % pinned",
	"1 % absent",
	"half there, 1 % pinned",
	"all absent",
	"all together",
};

static long number;								/* of move_pages2(), or -1 */
static unsigned int all_pages = 2048, nr_pages; /* of the case */
static int rounds = 5;

static char *memory; /* nr_pages * stride pages */
static unsigned int stride, share, entry_pages;
static pid_t mapper[MAX_MAPPERS];
static int nr_mappers, go[2], ready[2];
static int pin[2 * (MAX_PAGES / 100 + 1)], nr_pins;

static uint64_t addr[MAX_PAGES];
static int target[MAX_PAGES], status[MAX_PAGES], was[MAX_PAGES], is[MAX_PAGES];
static bool pinned[MAX_PAGES];

/*
 * Touch the pages of the case, one of every @step from @from on; as a writer
 * if these are the first. Of a folio that has one entry, all of its pages.
 */
static void
touch(bool first, unsigned int from, unsigned int step)
{
	unsigned int i, k;

	for (i = from; i < nr_pages; i += step)
	{
		for (k = 0; k < entry_pages; k++)
		{
			volatile uint64_t *p = (void *) (memory + ((size_t) i * stride + k) * PAGE);

			if (first)
				*p = i;
			else if (*p != i)
				exit(3);
		}
	}
}

static void
start_mappers(int n)
{
	char c = 0;
	int i;

	if (pipe(go) || pipe(ready))
		die("pipe");
	for (i = 0; i < n; i++)
	{
		mapper[i] = fork();
		if (mapper[i] < 0)
			die("fork");
		if (mapper[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		/* Reading would map the pages around it, too (fault_around_bytes) */
		touch(share > 1, i % share, share);
		if (write(ready[1], &c, 1) != 1 || read(go[0], &c, 1) < 0)
			_exit(2);
		/* Contents after all moves */
		touch(false, 0, 1);
		_exit(0);
	}
	for (i = 0; i < n; i++)
		if (read(ready[0], &c, 1) != 1)
			die("mapper");
	nr_mappers = n;
}

static void
stop_mappers(void)
{
	int i, st;

	close(go[0]);
	close(go[1]);
	close(ready[0]);
	close(ready[1]);
	for (i = 0; i < nr_mappers; i++)
		if (waitpid(mapper[i], &st, 0) != mapper[i] || st)
		{
			fprintf(stderr, "a process saw other contents: %x\n", st);
			exit(1);
		}
	nr_mappers = 0;
}

/* The node that an entry asks for, if most pages come from node @from */
static int
goal(enum list list, unsigned int i, int from)
{
	if (list == ALTERNATE)
		return i % 2 ? from : !from;
	if (list == TOGETHER)
		return i % 4 < 2 ? !from : from;
	return !from;
}

/* Whether the page is there already */
static bool
is_there(enum list list, unsigned int i)
{
	return (list == HALF || list == HALF_PINNED || list == TOGETHER) && i % 2 == 0;
}

static unsigned int
nr_folios(const struct bench_case *c)
{
	return nr_pages * entry_pages / folio_pages[c->folio];
}

/* How many folios have the size they should have */
static unsigned int
folios_left(const struct bench_case *c)
{
	unsigned int i, n = 0, step = folio_pages[c->folio] / entry_pages;

	for (i = 0; i < nr_pages; i += step)
		n += is_folio(c->folio, memory + (size_t) i * stride * PAGE);
	return n;
}

/*
 * Memory of the case, mapped by this process and the mappers - 1 others. False
 * if the kernel has no such memory.
 */
static bool
set_up(const struct bench_case *c)
{
	unsigned int i;

	entry_pages = c->stride ? 1 : folio_pages[c->folio];
	stride = c->stride ? c->stride : entry_pages;
	nr_pages = c->pages ? c->pages : all_pages;
	/* Each page far from the next takes a page table of each process */
	if (c->stride > 1 && nr_pages > 512)
		nr_pages = 512;
	/* As much memory, but enough entries to tell something by */
	if (entry_pages > 1)
	{
		nr_pages /= entry_pages;
		if (nr_pages < 64)
			nr_pages = 64;
	}
	share = c->share ? c->share : 1;
	memory = map_folios(c->folio, (size_t) nr_pages * stride, c->mappers > 0);
	if (!memory)
		return false;
	touch(true, 0, 1);
	if (folios_left(c) < nr_folios(c))
	{
		unmap_folios(memory, (size_t) nr_pages * stride);
		return false;
	}
	if (c->mappers > 1)
		start_mappers(c->mappers - 1);

	memset(pinned, 0, sizeof(pinned));
	for (i = 50; i + 3 < nr_pages; i += 100)
	{
		char *p = memory + (size_t) i * stride * PAGE;

		/* Odd ones, which are not there already */
		if (c->list == PINNED || c->list == HALF_PINNED || c->list == TOGETHER)
		{
			struct iovec v = {p + PAGE, 8};

			if (pipe(&pin[2 * nr_pins]) ||
				vmsplice(pin[2 * nr_pins + 1], &v, 1, 0) != 8)
				die("vmsplice");
			nr_pins++;
			pinned[i + 1] = true;
		}
		if (c->list == ABSENT || c->list == TOGETHER)
			madvise(p + 3 * (size_t) stride * PAGE, PAGE, MADV_DONTNEED);
	}
	if (c->list == ALL_ABSENT)
		madvise(memory, (size_t) nr_pages * stride * PAGE, MADV_DONTNEED);
	return true;
}

static void
tear_down(void)
{
	int i;

	stop_mappers();
	for (i = 0; i < 2 * nr_pins; i++)
		close(pin[i]);
	nr_pins = 0;
	unmap_folios(memory, (size_t) nr_pages * stride);
}

/* All pages to where the list wants them to come from */
static void
put(const struct bench_case *c, int from)
{
	unsigned int i;

	for (i = 0; i < nr_pages; i++)
	{
		addr[i] = (uintptr_t) memory + (size_t) i * stride * PAGE;
		target[i] = goal(c->list, i, from);
		if (!is_there(c->list, i))
			target[i] = !target[i];
	}
	/* One target at a time, so that the old call can do it, too */
	move(number < 0 ? OLD : NEW, addr, target, status, nr_pages, 512);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return x < y ? -1 : x > y;
}

struct outcome
{
	double per_page[MAX_ROUNDS];
	unsigned int wanted, moved, wrong;
};

static void
one_round(const struct bench_case *c, enum method m, int from,
		  int r, struct outcome *o)
{
	unsigned int i, wanted = 0, moved = 0, wrong = 0;
	uint64_t start, end;

	put(c, from);
	locate(addr, was, nr_pages);
	for (i = 0; i < nr_pages; i++)
	{
		target[i] = goal(c->list, i, from);
		status[i] = GONE;
		if (!pinned[i] && was[i] != target[i])
			wanted++;
	}

	start = now();
	for (i = 0; i < nr_pages; i += c->call)
		move(m, addr + i, target + i, status + i,
			 nr_pages - i < c->call ? nr_pages - i : c->call, c->batch);
	end = now();

	locate(addr, is, nr_pages);
	for (i = 0; i < nr_pages; i++)
	{
		if (is[i] != was[i] && is[i] == target[i])
			moved++;
		if (status[i] == GONE || (status[i] >= 0 && status[i] != is[i]) ||
			(status[i] < 0 && is[i] == target[i] && was[i] != target[i]))
			wrong++;
	}
	o->per_page[r] = moved ? (double) (end - start) / moved : 0;
	o->wanted = wanted;
	o->moved = moved;
	o->wrong = wrong;
}

static void
run(const struct bench_case *c)
{
	struct outcome o[METHODS];
	double median[METHODS];
	unsigned int whole;
	enum method m;
	int r;

	printf("%-8s %-22s %7s %4d %4u ", c->group, list_name[c->list],
		   folio_name[c->folio], c->mappers, c->share ? c->share : 1);
	if (!set_up(c))
	{
		printf("   this kernel gives no such folios\n");
		return;
	}
	/* Round -1 warms up; the direction alternates */
	for (r = -1; r < rounds; r++)
		for (m = OLD; m < METHODS; m++)
			if (m == OLD || number >= 0)
				one_round(c, m, r & 1, r < 0 ? 0 : r, &o[m]);
	whole = folios_left(c);
	tear_down();

	printf("%5u %5u %5u", stride, c->call, c->batch);
	for (m = OLD; m < METHODS; m++)
	{
		if (m == NEW && number < 0)
		{
			printf("        -           -     -");
			continue;
		}
		qsort(o[m].per_page, rounds, sizeof(double), compare);
		median[m] = o[m].per_page[rounds / 2];
		printf(" %9.0f %5u/%-5u %5u", median[m], o[m].moved, o[m].wanted,
			   o[m].wrong);
	}
	if (number >= 0 && median[OLD] > 0 && median[NEW] > 0)
		printf(" %6.2f", median[OLD] / median[NEW]);
	else
		printf("      -");
	/* Base pages that are absent here can't be looked at, nor be split */
	if (c->folio != BASE && whole < nr_folios(c))
		printf("  %u of %u folios were split", nr_folios(c) - whole, nr_folios(c));
	putchar('\n');
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	unsigned int i;
	int opt, a;

	while ((opt = getopt(argc, argv, "r:n:")) != -1)
	{
		if (opt == 'r')
			rounds = atoi(optarg);
		else if (opt == 'n')
			all_pages = atoi(optarg);
		else
			return 2;
	}
	if (rounds < 1 || rounds > MAX_ROUNDS || all_pages < 200 ||
		all_pages > MAX_PAGES)
	{
		fprintf(stderr, "1 to %d rounds, 200 to %d pages\n", MAX_ROUNDS,
				MAX_PAGES);
		return 2;
	}
	number = find_move_pages2();

	printf("%-8s %-22s %7s %4s %4s %5s %5s %5s %9s %-11s %5s %9s %-11s %5s %6s\n", "group",
		   "list", "folio", "maps", "1of", "apart", "call", "batch", "old ns", "moved", "wrong",
		   "new ns", "moved", "wrong", "ratio");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		bool wanted = optind == argc;

		for (a = optind; a < argc; a++)
			wanted |= !strcmp(argv[a], cases[i].group);
		if (wanted)
			run(&cases[i]);
	}
	return 0;
}

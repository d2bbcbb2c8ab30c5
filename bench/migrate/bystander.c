// SPDX-License-Identifier: GPL-2.0
/*
 * What moves do to those who are only near: one process moves shared memory
 * from node to node and back, and on another CPU a second one either uses the
 * memory ("touch") or forks ("fork"), as fast as it can.
 *
 * usage: bystander [-m MAPPERS] [-n PAGES] [-t MILLISECONDS] [-r ROUNDS]
 *
 * Methods take turns of @t milliseconds. Prints CSV, one line for each turn:
 * pages moved (the kernel's pgmigrate_success), TLB shootdowns, what the
 * bystander did, and its median, 99th percentile and longest time for one.
 * A mover that is "paced" sleeps between calls, so that it moves as many pages a
 * second as move_pages() did in its turn just before: what the bystander then
 * loses is the price of the same work. report makes a table of it. Needs root, two memory nodes and two CPUs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "calls.h"
#include "folios.h"
#include "../lib/counter.h"
#include "../lib/random.h"

#define MAX_PAGES	65536
#define MAX_MAPPERS 256
#define DRAWS		65536

struct way
{
	const char *name;
	enum method method;
	unsigned int call; /* entries of one call; 0: nothing is moved */
	unsigned int batch;
	bool alternate; /* targets alternate from page to page */
	bool paced;		/* at the rate of the last way that moved by move_pages() */
};

static const struct way ways[] = {
	{"no moves", NEW, 0, 0, false, false},
	{"move_pages, 1 a call", OLD, 1, 0, false, false},
	{"move_pages2, 1 a call", NEW, 1, 32, false, false},
	{"move_pages2, 1 a call, paced", NEW, 1, 32, false, true},
	{"move_pages, 16 a call", OLD, 16, 0, false, false},
	{"move_pages2, 16 a call", NEW, 16, 32, false, false},
	{"move_pages2, 16 a call, paced", NEW, 16, 32, false, true},
	{"move_pages, 512 a call", OLD, 512, 0, false, false},
	{"move_pages2, 512 a call, batch 8", NEW, 512, 8, false, false},
	{"move_pages2, 512 a call, batch 32", NEW, 512, 32, false, false},
	{"move_pages2, 512 a call, batch 512", NEW, 512, 512, false, false},
	{"move_pages2, 512 a call, batch 32, paced", NEW, 512, 32, false, true},
	{"move_pages2, 32 a call, batch 32, paced", NEW, 32, 32, false, true},
	{"move_pages, 4096 a call", OLD, 4096, 0, false, false},
	{"move_pages2, 4096 a call, batch 32", NEW, 4096, 32, false, false},
	{"move_pages2, 4096 a call, batch 32, paced", NEW, 4096, 32, false, true},
	{"move_pages, 512 a call, alternating", OLD, 512, 0, true, false},
	{"move_pages2, 512 a call, batch 32, alternating", NEW, 512, 32, true, false},
	{"move_pages2, 512 a call, batch 32, alternating, paced", NEW, 512, 32, true, true},
};

/*
 * What the bystander has done since @epoch. Times are kept by their size in
 * eighths of a power of two; a reader subtracts nothing, but asks for new
 * counts by another epoch.
 */
#define SHADES 512
static struct shared
{
	volatile uint32_t epoch;   /* of the mover */
	volatile uint32_t started; /* the bystander's */
	volatile uint64_t done;
	volatile uint64_t longest; /* ticks */
	volatile uint32_t times[SHADES];
} * shared;

static uint64_t addr[MAX_PAGES];
static int target[MAX_PAGES], status[MAX_PAGES];
static uint32_t draw[DRAWS];
static char *memory;
static unsigned int nr_pages = 16384, nr_mappers = 4, rounds = 5, turn_ms = 700;
static pid_t other[MAX_MAPPERS + 1];
static double ticks_per_ns;
static double pace; /* pages a nanosecond, of move_pages() in its last turn */

static unsigned int
shade(uint64_t ticks)
{
	unsigned int log;

	if (ticks < 8)
		return ticks;
	log = 63 - __builtin_clzll(ticks);
	return (log - 2) * 8 + ((ticks >> (log - 3)) & 7);
}

/* The least number of ticks that has this shade */
static uint64_t
least(unsigned int s)
{
	return s < 8 ? s : (8ull + s % 8) << (s / 8 - 1);
}

/* Pages as a zipfian distribution of exponent 0.99 draws them, spread out */
static void
make_draws(void)
{
	double *sum = malloc(nr_pages * sizeof(double)), all = 0;
	uint32_t *place = malloc(nr_pages * sizeof(uint32_t));
	uint64_t state = 1;
	unsigned int i;

	if (!sum || !place)
		die("malloc");
	for (i = 0; i < nr_pages; i++)
	{
		unsigned int j = next_random(&state) % (i + 1);

		/* i^-0.99 is i^-1 times i^0.01, which hardly differs from 1 */
		all += 1.0 / (i + 1);
		sum[i] = all;
		place[i] = place[j];
		place[j] = i;
	}
	for (i = 0; i < DRAWS; i++)
	{
		double want = (next_random(&state) >> 11) * 0x1p-53 * all;
		unsigned int low = 0, high = nr_pages - 1;

		while (low < high)
		{
			unsigned int mid = (low + high) / 2;

			if (sum[mid] < want)
				low = mid + 1;
			else
				high = mid;
		}
		draw[i] = place[low];
	}
	free(sum);
	free(place);
}

static void
pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

static void
touch_all(void)
{
	unsigned int i;

	for (i = 0; i < nr_pages; i++)
		*(volatile char *) (memory + (size_t) i * PAGE) += 1;
}

static void
one_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		_exit(4);
}

/* Never returns */
static void
stand_by(bool forks)
{
	unsigned int i = 0;
	uint64_t then, t;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to(0);
	touch_all();
	then = __rdtsc();
	for (;;)
	{
		if (forks)
			one_fork();
		else
			*(volatile uint64_t *) (memory + (size_t) draw[i++ % DRAWS] * PAGE) += 1;
		t = __rdtsc();
		if (shared->started != shared->epoch)
		{
			shared->done = 0;
			shared->longest = 0;
			memset((void *) shared->times, 0, sizeof(shared->times));
			shared->started = shared->epoch;
		}
		else
		{
			shared->done++;
			shared->times[shade(t - then)]++;
			if (t - then > shared->longest)
				shared->longest = t - then;
		}
		then = t;
	}
}

/* The time that so many of 1,000 were not longer than, in ns */
static double
per_mille(unsigned int n)
{
	uint64_t all = 0, sum = 0;
	unsigned int s;

	for (s = 0; s < SHADES; s++)
		all += shared->times[s];
	for (s = 0; s < SHADES - 1; s++)
	{
		sum += shared->times[s];
		if (sum * 1000 >= all * n)
			break;
	}
	return least(s) / ticks_per_ns;
}

static void
turn(const struct way *w, unsigned int round, bool forks)
{
	uint64_t start, end, until, moved, flushes, done, taken = 0;
	unsigned int i, n;

	/* All pages on node 0, or every second one */
	for (i = 0; i < nr_pages; i++)
		target[i] = w->alternate ? i & 1 : 0;
	move(ways[1].method, addr, target, status, nr_pages, 0);
	for (i = 0; i < nr_pages; i++)
		target[i] ^= 1;

	shared->epoch++;
	while (shared->started != shared->epoch)
		sched_yield();
	moved = pages_migrated();
	flushes = tlb_shootdowns();
	start = now();
	until = start + turn_ms * 1000000ull;
	i = 0;
	while (now() < until)
	{
		if (!w->call)
		{
			usleep(1000);
			continue;
		}
		if (i == nr_pages)
		{
			for (i = 0; i < nr_pages; i++)
				target[i] ^= 1;
			i = 0;
		}
		n = nr_pages - i < w->call ? nr_pages - i : w->call;
		move(w->method, addr + i, target + i, status + i, n, w->batch);
		i += n;
		taken += n;
		if (w->paced)
		{
			double ahead = taken / pace - (now() - start);

			if (ahead > 0)
				usleep(ahead / 1000);
		}
	}
	end = now();
	done = shared->done;
	moved = pages_migrated() - moved;
	flushes = tlb_shootdowns() - flushes;
	if (w->method == OLD && moved)
		pace = (double) moved / (end - start);
	printf("%s,%u,\"%s\",%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.0f,%.0f,%.0f\n",
		   forks ? "fork" : "touch", round, w->name, nr_mappers, nr_pages, end - start, moved, flushes,
		   done, per_mille(500), per_mille(990), shared->longest / ticks_per_ns);
	fflush(stdout);
}

static void
calibrate(void)
{
	uint64_t t = now(), c = __rdtsc();

	usleep(200000);
	ticks_per_ns = (double) (__rdtsc() - c) / (now() - t);
}

int
main(int argc, char **argv)
{
	int opt, n, forks, ready[2];
	unsigned int i, r, w;

	while ((opt = getopt(argc, argv, "m:n:t:r:")) != -1)
	{
		unsigned int v = atoi(optarg ? optarg : "0");

		if (opt == 'm')
			nr_mappers = v;
		else if (opt == 'n')
			nr_pages = v;
		else if (opt == 't')
			turn_ms = v;
		else if (opt == 'r')
			rounds = v;
		else
			return 2;
	}
	if (nr_mappers < 2 || nr_mappers > MAX_MAPPERS || nr_pages < 512 || nr_pages > MAX_PAGES || !rounds || !turn_ms)
	{
		fprintf(stderr, "2 to %d mappers, 512 to %d pages\n", MAX_MAPPERS, MAX_PAGES);
		return 2;
	}
	n = find_move_pages2();
	calibrate();
	make_draws();
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memory = map_folios(BASE, nr_pages, true);
	if (shared == MAP_FAILED || !memory)
		die("mmap");
	for (i = 0; i < nr_pages; i++)
		addr[i] = (uintptr_t) memory + (size_t) i * PAGE;
	touch_all();

	/* This process and the bystander map it, too */
	if (pipe(ready))
		die("pipe");
	for (i = 0; i + 2 < nr_mappers; i++)
	{
		other[i] = fork();
		if (other[i] < 0)
			die("fork");
		if (other[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		touch_all();
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	for (i = 0; i + 2 < nr_mappers; i++)
	{
		char c;

		if (read(ready[0], &c, 1) != 1)
			die("mapper");
	}
	pin_to(1);

	printf("bystander,round,way,mappers,pages,ns,moved,shootdowns,done,p50_ns,p99_ns,longest_ns\n");
	for (forks = 0; forks < 2; forks++)
	{
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0)
			stand_by(forks);
		for (r = 0; r < rounds; r++)
			for (w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
				if (ways[w].method == OLD || n >= 0 || !ways[w].call)
					turn(&ways[w], r, forks);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	for (i = 0; i + 2 < nr_mappers; i++)
		kill(other[i], SIGKILL);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0
/*
 * Move pages from node to node while processes write to them, unmap and map
 * them again, drop their page table entries and fork; in the end no write may
 * be lost.
 *
 * usage: stress SECONDS
 * Prints TAP. Needs root and two memory nodes.
 */
#define _GNU_SOURCE
#include <errno.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>

#include "call.h"

#define WRITERS	4
#define PAGES	1024
#define WORDS	512	/* of a page; writer w owns word w of each shared page */

struct control {
	volatile int stop;
	uint64_t writes[WRITERS], remaps[WRITERS], lost[WRITERS];
};

static struct control *ctl;
static uint64_t *shared, *private;
static int fd;
static long number;

static void *map(void *at, int flags, int file)
{
	void *p = mmap(at, PAGES * 4096, PROT_READ | PROT_WRITE, flags, file, 0);

	if (p == MAP_FAILED)
		die("mmap");
	return p;
}

/* Count up in words that nobody else writes, and know how far each must be */
static void writer(int w)
{
	static uint64_t in_shared[PAGES], in_private[PAGES];
	uint64_t seed = 88172645463325252 + w * 7919, r;
	int i, st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!ctl->stop) {
		for (i = 0; i < 1000; i++) {
			r = next(&seed) % PAGES;
			shared[r * WORDS + w]++;
			in_shared[r]++;
			r = next(&seed) % PAGES;
			private[r * WORDS]++;
			in_private[r]++;
		}
		ctl->writes[w] += 2000;
		switch (next(&seed) % 16) {
		case 0:	/* unmap and map again, at the same place */
			munmap(shared, PAGES * 4096);
			map(shared, MAP_SHARED | MAP_FIXED, fd);
			ctl->remaps[w]++;
			break;
		case 1:	/* of shared memory this drops the entries only */
			madvise((char *)shared + next(&seed) % PAGES / 2 * 4096,
				PAGES / 2 * 4096, MADV_DONTNEED);
			break;
		case 2:
			if (fork() == 0)
				_exit(shared[w] != in_shared[0] ||
				      private[0] != in_private[0]);
			if (wait(&st) > 0 && st)
				ctl->lost[w]++;
			break;
		}
	}
	for (i = 0; i < PAGES; i++) {
		ctl->lost[w] += shared[i * WORDS + w] != in_shared[i];
		ctl->lost[w] += private[i * WORDS] != in_private[i];
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	static const int batches[] = { 1, 8, 32, 512, 4096 };
	static uint64_t addr[PAGES];
	static int node[PAGES], status[PAGES];
	uint64_t seed = 362436069, moved = 0, failed = 0, calls = 0;
	uint64_t writes = 0, remaps = 0, lost = 0;
	struct move_pages2_args args;
	bool odd = false;
	pid_t pid[WRITERS];
	char name[100];
	int i, w, st;
	time_t end;
	long v, isolated = 0, seen = 0;
	FILE *f;

	setvbuf(stdout, NULL, _IOLBF, 0);
	number = find_call();
	printf("1..4\n");

	ctl = map(NULL, MAP_SHARED | MAP_ANONYMOUS, -1);
	fd = memfd_create("stress", 0);
	if (fd < 0 || ftruncate(fd, PAGES * 4096))
		die("memfd");
	shared = map(NULL, MAP_SHARED, fd);
	private = map(NULL, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	for (w = 0; w < WRITERS; w++) {
		pid[w] = fork();
		if (pid[w] < 0)
			die("fork");
		if (!pid[w])
			writer(w);
	}

	end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	while (time(NULL) < end) {
		bool own = next(&seed) % 2;
		long ret;

		/* Mixed targets, or all to one */
		for (i = 0; i < PAGES; i++) {
			addr[i] = (uintptr_t)(own ? private : shared) + i * 4096;
			node[i] = calls % 3 ? (int)(calls % 2) : (int)(next(&seed) % 2);
		}
		memset(&args, 0, sizeof(args));
		args.pages = (uintptr_t)addr;
		args.nodes = (uintptr_t)node;
		args.status = (uintptr_t)status;
		args.nr_pages = PAGES;
		args.mode = next(&seed) % 3;
		args.nr_max_batched_migration = batches[next(&seed) % 5];
		ret = syscall(number, own ? pid[next(&seed) % WRITERS] : 0, &args,
			      sizeof(args), MOVE_PAGES2_MOVE_ALL |
			      (next(&seed) % 2 ? MOVE_PAGES2_NO_DRAIN : 0) |
			      MOVE_PAGES2_PAGE_CACHE);
		if (ret != PAGES)
			odd = true;
		for (i = 0; i < PAGES; i++)
			if (status[i] != node[i] && status[i] != -EBUSY &&
			    status[i] != -EAGAIN && status[i] != -ENOENT &&
			    /* not mapped, for a moment; never written */
			    status[i] != -EFAULT)
				odd = true;
		moved += args.nr_migrated;
		failed += args.nr_failed;
		calls++;
	}
	ctl->stop = 1;
	for (w = 0; w < WRITERS; w++) {
		if (waitpid(pid[w], &st, 0) != pid[w] || st)
			odd = true;
		writes += ctl->writes[w];
		remaps += ctl->remaps[w];
		lost += ctl->lost[w];
	}

	/* Writing folds the per-CPU differences in */
	f = fopen("/proc/sys/vm/stat_refresh", "w");
	if (f) {
		fputs("1", f);
		fclose(f);
	}
	f = fopen("/proc/vmstat", "r");
	while (f && fscanf(f, "%99s %ld", name, &v) == 2)
		if (!strncmp(name, "nr_isolated_", 12)) {
			isolated |= v;
			seen++;
		}

	printf("# %llu calls, %llu pages moved, %llu not, %llu writes, %llu remaps\n",
	       (unsigned long long)calls, (unsigned long long)moved,
	       (unsigned long long)failed, (unsigned long long)writes,
	       (unsigned long long)remaps);
	printf("%sok 1 stress: no write is lost (%llu)\n", lost ? "not " : "",
	       (unsigned long long)lost);
	printf("%sok 2 stress: pages move while they are written to\n",
	       moved > PAGES && writes > 10000 && remaps ? "" : "not ");
	printf("%sok 3 stress: only expected results\n", odd ? "not " : "");
	printf("%sok 4 stress: no page stays isolated\n",
	       seen == 2 && !isolated ? "" : "not ");
	return lost || odd || moved <= PAGES || isolated || seen != 2;
}

// SPDX-License-Identifier: GPL-2.0
/* move_pages() and move_pages2() as the programs here call them. */
#define _GNU_SOURCE
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "move_pages2.h"

#define MOVE_ALL 4 /* MPOL_MF_MOVE_ALL */

static long number = -1;

void
die(const char *what)
{
	perror(what);
	exit(1);
}

uint64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

long
read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (f)
	{
		if (fscanf(f, "%ld", &n) != 1)
			n = -1;
		fclose(f);
	}
	return n;
}

long
find_move_pages2(void)
{
	number = read_number(MOVE_PAGES2_SYSFS_NUMBER);
	if (number >= 0 && syscall(number, 0, NULL, 0, MOVE_PAGES2_HANDSHAKE) !=
						   MOVE_PAGES2_ABI_MAGIC)
		number = -1;
	return number;
}

void
move(enum method m, uint64_t *addr, int *target, int *status, unsigned int n,
	 unsigned int batch)
{
	struct move_pages2_args args = {
		.pages = (uintptr_t) addr,
		.nodes = (uintptr_t) target,
		.status = (uintptr_t) status,
		.nr_pages = n,
		.nr_max_batched_migration = batch,
	};

	/* What became of the pages is for the caller to look up */
	if (m == OLD)
		syscall(SYS_move_pages, 0, (long) n, addr, target, status, MOVE_ALL);
	else
		syscall(number, 0, &args, sizeof(args),
				MOVE_PAGES2_MOVE_ALL | MOVE_PAGES2_PAGE_CACHE);
}

void
locate(uint64_t *addr, int *status, unsigned int n)
{
	struct move_pages2_args args = {
		.pages = (uintptr_t) addr,
		.status = (uintptr_t) status,
		.nr_pages = n,
	};

	if (number < 0)
	{
		if (syscall(SYS_move_pages, 0, (long) n, addr, NULL, status, 0))
			die("move_pages");
	}
	else if (syscall(number, 0, &args, sizeof(args),
					 MOVE_PAGES2_MOVE_ALL | MOVE_PAGES2_PAGE_CACHE) != n)
	{
		die("move_pages2");
	}
}

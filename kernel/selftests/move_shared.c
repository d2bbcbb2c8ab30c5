// SPDX-License-Identifier: GPL-2.0
/*
 * Move every second 64 KiB of the largest shared mapping of a process to
 * another node with move_pages2(), and check the result by move_pages().
 *
 * usage: move_shared PID NODE
 * Prints "asked N moved N already N failed N absent N there N", where "there"
 * is the number of asked pages that the kernel reports on NODE afterwards.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "move_pages2.h"

#define SPAN	65536

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (!f || fscanf(f, "%ld", &n) != 1)
		die(path);
	fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	uint64_t start, end, best = 0, best_end = 0, n = 0, i, a;
	unsigned long absent = 0, there = 0;
	struct move_pages2_args args = { 0 };
	char line[512], mode[5];
	long number, page, ret;
	int32_t *nodes, *status;
	uint64_t *pages;
	int pid, node;
	FILE *f;

	if (argc != 3) {
		fprintf(stderr, "usage: move_shared PID NODE\n");
		return 2;
	}
	pid = atoi(argv[1]);
	node = atoi(argv[2]);
	page = sysconf(_SC_PAGESIZE);

	if (read_number(MOVE_PAGES2_SYSFS_ABI) != MOVE_PAGES2_ABI_VERSION) {
		fprintf(stderr, "another version of move_pages2\n");
		return 1;
	}
	number = read_number(MOVE_PAGES2_SYSFS_NUMBER);
	if (syscall(number, 0, NULL, 0, MOVE_PAGES2_HANDSHAKE) !=
	    MOVE_PAGES2_ABI_MAGIC)
		die("handshake");

	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	f = fopen(line, "r");
	if (!f)
		die(line);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &start, &end,
			   mode) == 3 &&
		    !strcmp(mode, "rw-s") && end - start > best_end - best) {
			best = start;
			best_end = end;
		}
	fclose(f);
	if (!best) {
		fprintf(stderr, "process %d has no shared mapping\n", pid);
		return 1;
	}

	n = (best_end - best) / page;
	pages = calloc(n, sizeof(*pages));
	nodes = calloc(n, sizeof(*nodes));
	status = calloc(n, sizeof(*status));
	if (!pages || !nodes || !status)
		die("calloc");
	for (i = 0, a = best; a < best_end; a += page)
		if ((a - best) / SPAN % 2) {
			pages[i] = a;
			nodes[i++] = node;
		}
	n = i;

	args.pages = (uintptr_t)pages;
	args.nodes = (uintptr_t)nodes;
	args.status = (uintptr_t)status;
	args.nr_pages = n;
	ret = syscall(number, pid, &args, sizeof(args),
		      MOVE_PAGES2_MOVE_ALL | MOVE_PAGES2_PAGE_CACHE);
	if (ret != (long)n)
		die("move_pages2");
	for (i = 0; i < n; i++)
		absent += status[i] == -ENOENT;

	/* Nor is the query the witness: ask the old call, mapped pages only */
	if (syscall(SYS_move_pages, pid, n, pages, NULL, nodes, 0))
		die("move_pages");
	for (i = 0; i < n; i++) {
		there += nodes[i] == node;
		if (nodes[i] >= 0 && status[i] >= 0 && nodes[i] != status[i]) {
			fprintf(stderr, "%" PRIx64 ": told %d, is on %d\n",
				pages[i], status[i], nodes[i]);
			return 1;
		}
	}
	printf("asked %" PRIu64 " moved %llu already %llu failed %llu absent %lu there %lu\n",
	       n, args.nr_migrated, args.nr_already, args.nr_failed, absent,
	       there);
	return 0;
}

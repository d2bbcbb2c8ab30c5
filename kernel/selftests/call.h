/* SPDX-License-Identifier: GPL-2.0 */
/* What all test programs need to make the call: its number, and random input. */
#ifndef CALL_H
#define CALL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "move_pages2.h"

/* The number in a file, or -1 */
static inline long read_number(const char *path)
{
	FILE *f = fopen(path, "r");
	long n = -1;

	if (f) {
		if (fscanf(f, "%ld", &n) != 1)
			n = -1;
		fclose(f);
	}
	return n;
}

/* The call's number; a kernel that hasn't got it ends the test as skipped */
static inline long find_call(void)
{
	long number = read_number(MOVE_PAGES2_SYSFS_NUMBER);

	if (number < 0 || syscall(number, 0, NULL, 0, MOVE_PAGES2_HANDSHAKE) !=
	    MOVE_PAGES2_ABI_MAGIC) {
		printf("1..0 # SKIP this kernel has no move_pages2()\n");
		exit(4);
	}
	return number;
}

static inline uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static inline void die(const char *what)
{
	perror(what);
	printf("Bail out! %s\n", what);
	exit(1);
}

#endif /* CALL_H */

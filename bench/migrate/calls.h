/* SPDX-License-Identifier: GPL-2.0 */
/*
 * move_pages() and move_pages2() as the programs here call them, and what both
 * programs need to time them.
 */
#ifndef BENCH_MIGRATE_CALLS_H
#define BENCH_MIGRATE_CALLS_H

#include <stdint.h>

#define PAGE 4096
#define GONE 77 /* a status the kernel never gives */

enum method
{
	OLD, /* move_pages() */
	NEW, /* move_pages2() */
	METHODS
};

/* Look for move_pages2() in sysfs, and shake hands. Its number, or -1. */
extern long find_move_pages2(void);

/*
 * One call for n entries, pages that others map included. The new call takes
 * pages that this process hasn't mapped from the page cache, and unmaps @batch
 * pages at once.
 */
extern void move(enum method m, uint64_t *addr, int *target, int *status,
				 unsigned int n, unsigned int batch);

/*
 * The nodes of n pages, by the new call if there is one, which also sees those
 * that this process hasn't mapped.
 */
extern void locate(uint64_t *addr, int *status, unsigned int n);

/* Nanoseconds of the monotonic clock. */
extern uint64_t now(void);

/* Print errno with @what and end. */
extern void die(const char *what) __attribute__((noreturn));

/* The first number in a file, or -1. */
extern long read_number(const char *path);

#endif

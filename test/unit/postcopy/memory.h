/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  What the unit tests of post-copy share: memory with a snapshot behind it.
 *
 * Every test runs in a process of its own, because a process puts the
 * SIGBUS handler in place only once.
 *
 * IDENTIFICATION
 *	  test/unit/postcopy/memory.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TEST_MEMORY_H
#define NM_TEST_MEMORY_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "postcopy/internal.h"
#include "../asserts.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern int check_bad; /* CHECKs of this process that failed */

typedef struct Memory
{
	int fd;
	size_t npages;	/* of the region; the file has some more */
	char *base;		/* to be registered */
	char *alias;	/* the same memory */
	char *snapshot; /* what the pages shall hold */
	void *shared;	/* the book-keeping; shared with children */
	NmPcConfig config;

	/* how the source behaves */
	int fail_errno;			/* of the next call, once */
	int die;				/* the next call ends the process */
	char *read_first;		/* touched by the next call */
	uint32_t calls;			/* of this process */
	uint32_t *shared_calls; /* of all processes, [npages] per first page */
	long delay_ns;
	/* what "failed" was told */
	int failed_errno;
	void *failed_addr;
	void *jump; /* sigjmp_buf to leave by, or NULL */
} Memory;

#define EXTRA_PAGES 64 /* of the file, behind the region */

extern Memory *memory_make(NmPcFill fill, size_t npages, int cell_pages);
extern void memory_unmake(Memory *m);
extern NmPostcopy *memory_attach(Memory *m); /* a failed CHECK if it fails */

/* Does the page, read through base, hold the snapshot's bytes? */
extern bool page_good(Memory *m, size_t page);
/* Is the page in memory, whoever maps it? */
extern bool page_exists(Memory *m, size_t page);
/* One byte read, the way a toucher does. */
extern int touch(Memory *m, size_t page);

/*
 * Run fn in a child; what it printed and whether its CHECKs held.  Returns the
 * wait status.
 */
extern int in_child(void (*fn)(void *), void *arg);

/* A test in its own process. */
extern void run_apart(void (*test)(void), const char *name);
#define RUN_APART(test) run_apart(test, #test)
extern void skip_test(const char *name, const char *why);
/* The closing line; the exit status. */
extern int finish(void);

#define NFILLS 3
extern const NmPcFill fills[NFILLS];

#endif /* NM_TEST_MEMORY_H */

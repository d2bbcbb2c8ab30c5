/*-------------------------------------------------------------------------
 *
 * sys.h
 *	  System calls of post-copy, behind a table that tests can replace.
 *
 * Private to src/postcopy and its tests.  All are async-signal-safe.  Results
 * are bytes done or 0, errors negative errnos.
 *
 * IDENTIFICATION
 *	  src/postcopy/sys.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_POSTCOPY_SYS_H
#define NM_POSTCOPY_SYS_H

#include "postcopy.h"

#include <stdint.h>

typedef struct NmPcSys
{
	/*
	 * A userfaultfd in SIGBUS mode, for minor faults too if asked; the fd or
	 * an error.  EOPNOTSUPP: the kernel lacks a feature.
	 */
	int (*open)(bool minor);
	int (*enroll)(int fd, void *addr, size_t bytes, bool minor);
	int (*unenroll)(int fd, void *addr, size_t bytes);

	/*
	 * Bytes done, which may be fewer than asked, or the error of the first page.
	 * EEXIST: it is there (copy, zero) or mapped (map).
	 */
	long (*copy)(int fd, void *to, const void *from, size_t bytes);
	long (*map)(int fd, void *addr, size_t bytes); /* EFAULT: absent */
	long (*zero)(int fd, void *addr, size_t bytes);
	long (*write)(int fd, const void *from, size_t bytes, off_t at);

	/* Sleep while *word is value, or for the time. */
	void (*wait)(uint32_t *word, uint32_t value, long ns);
	void (*wake)(uint32_t *word);
	/* Does the thread exist?  False also for one of another pid namespace. */
	bool (*alive)(int tid);
} NmPcSys;

extern const NmPcSys nm_pc_sys_kernel; /* the real ones */
extern const NmPcSys *nm_pc_sys;	   /* in use */

#endif /* NM_POSTCOPY_SYS_H */

/*-------------------------------------------------------------------------
 *
 * sys.h
 *	  System calls of the movers, behind a table that tests can replace.
 *
 * Private to src/mover and its tests.  Every function returns what the kernel
 * returned, with an error as a negative errno (never -1 and errno apart: a -1
 * read as a status would be EPERM).
 *
 * IDENTIFICATION
 *	  src/mover/sys.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_MOVER_SYS_H
#define NM_MOVER_SYS_H

#include "mover.h"

/*
 * The system call's interface, as kernel/uapi/move_pages2.h defines it.  The
 * extension must build on machines without our kernel tree, so it has its own
 * copy; test/unit/mover compares the two.
 */
#define NM_MP2_SYSFS_NUMBER "/sys/kernel/mm/move_pages2/number"
#define NM_MP2_SYSFS_ABI	"/sys/kernel/mm/move_pages2/abi"
#define NM_MP2_ABI_VERSION	1
#define NM_MP2_ABI_MAGIC	(0x4d503200 | NM_MP2_ABI_VERSION)

#define NM_MP2_MOVE_ALL	  (1U << 0)
#define NM_MP2_PAGE_CACHE (1U << 1)
#define NM_MP2_NO_DRAIN	  (1U << 2)
#define NM_MP2_OWNER	  (1U << 4)
#define NM_MP2_HANDSHAKE  (1U << 31)

typedef struct NmMp2Args
{
	uint64_t pages;	 /* uint64_t[nr_pages] */
	uint64_t nodes;	 /* int32_t[nr_pages], 0 = query */
	uint64_t status; /* int32_t[nr_pages] */
	uint64_t nr_pages;
	uint64_t mode;
	uint64_t nr_max_batched_migration;
	uint64_t nr_migrated; /* out */
	uint64_t nr_already;  /* out */
	uint64_t nr_failed;	  /* out */
} NmMp2Args;

/* move_pages(2) flags */
#define NM_MPOL_MF_MOVE		(1 << 1)
#define NM_MPOL_MF_MOVE_ALL (1 << 2)

typedef struct NmSys
{
	/* stock call: number of pages not moved, or -errno */
	long (*move_pages)(unsigned long n, void **pages, const int *nodes,
					   int *status, int flags);
	/* ours: entries processed, or -errno */
	long (*move_pages2)(long number, NmMp2Args *args, size_t size, unsigned int flags);
	int (*mincore)(void *addr, size_t length, unsigned char *vec);
	/* read one byte, so that the page is in the caller's page table */
	void (*touch)(void *addr);
	int (*get_mempolicy)(void *addr);		 /* node of a page, or -errno */
	int (*mbind)(void *addr, size_t length); /* default policy: harmless */
} NmSys;

extern const NmSys nm_sys_kernel; /* the real ones */
extern const NmSys *nm_sys;		  /* in use */

#endif /* NM_MOVER_SYS_H */

/*-------------------------------------------------------------------------
 *
 * sys.c
 *	  The real system calls behind sys.h.
 *
 * Through syscall(2) and not libnuma: the library is one more dependency for
 * six calls, says "available" where seccomp refuses, and knows no move_pages2.
 *
 * IDENTIFICATION
 *	  src/mover/sys.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* get_mempolicy(2) flags */
#define MPOL_F_NODE_FLAG (1 << 0)
#define MPOL_F_ADDR_FLAG (1 << 1)

static inline long
result(long r)
{
	return r == -1 ? -(long) errno : r;
}

static long
sys_move_pages(unsigned long n, void **pages, const int *nodes, int *status, int flags)
{
#ifdef SYS_move_pages
	return result(syscall(SYS_move_pages, 0, n, pages, nodes, status, flags));
#else
	return -ENOSYS;
#endif
}

static long
sys_move_pages2(long number, NmMp2Args *args, size_t size, unsigned int flags)
{
	return result(syscall(number, 0, args, size, flags));
}

static int
sys_mincore(void *addr, size_t length, unsigned char *vec)
{
	return (int) result(mincore(addr, length, vec));
}

/*
 * Not inlined, so that checkers of uninitialised or racy reads can be told
 * about this one place.
 */
static NM_RACY __attribute__((noinline)) void
sys_touch(void *addr)
{
	(void) *(volatile unsigned char *) addr;
}

static int
sys_get_mempolicy(void *addr)
{
#ifdef SYS_get_mempolicy
	int node = -1;
	long r;

	r = result(syscall(SYS_get_mempolicy, &node, NULL, 0, addr,
					   MPOL_F_NODE_FLAG | MPOL_F_ADDR_FLAG));
	return r < 0 ? (int) r : node;
#else
	return -ENOSYS;
#endif
}

static int
sys_mbind(void *addr, size_t length)
{
#ifdef SYS_mbind
	return (int) result(syscall(SYS_mbind, addr, length, 0, NULL, 0, 0));
#else
	return -ENOSYS;
#endif
}

const NmSys nm_sys_kernel = {
	.move_pages = sys_move_pages,
	.move_pages2 = sys_move_pages2,
	.mincore = sys_mincore,
	.touch = sys_touch,
	.get_mempolicy = sys_get_mempolicy,
	.mbind = sys_mbind,
};

const NmSys *nm_sys = &nm_sys_kernel;

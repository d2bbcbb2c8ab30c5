/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * move_pages2() - move pages of a process to other memory nodes, partially
 * if need be, with a true status for every entry.
 *
 *	long move_pages2(pid_t pid, struct move_pages2_args *args,
 *			 size_t size, unsigned int flags);
 *
 * pid is the process whose addresses are named, 0 for the caller itself.
 * size is sizeof(struct move_pages2_args) as the caller knows it.
 */
#ifndef _UAPI_LINUX_MOVE_PAGES2_H
#define _UAPI_LINUX_MOVE_PAGES2_H

#include <linux/types.h>

/*
 * Finding the call. Numbers of system calls that are not in the mainline
 * table may mean another call in another kernel, so no number is given here:
 *
 * 1. Read MOVE_PAGES2_SYSFS_ABI; it must say MOVE_PAGES2_ABI_VERSION
 *    (decimal). No such file: the kernel has no move_pages2().
 * 2. Read the call's number (decimal) from MOVE_PAGES2_SYSFS_NUMBER.
 * 3. syscall(number, 0, NULL, 0, MOVE_PAGES2_HANDSHAKE) must return
 *    MOVE_PAGES2_ABI_MAGIC. Anything else: do not call it.
 *
 * A later, compatible extension appends fields to the struct or adds flags
 * and keeps the version; a version that differs is another interface.
 */
#define MOVE_PAGES2_SYSFS_NUMBER	"/sys/kernel/mm/move_pages2/number"
#define MOVE_PAGES2_SYSFS_ABI		"/sys/kernel/mm/move_pages2/abi"
#define MOVE_PAGES2_ABI_VERSION		1
#define MOVE_PAGES2_ABI_MAGIC		(0x4d503200 | MOVE_PAGES2_ABI_VERSION)

/*
 * Flags. An unknown flag is -EINVAL.
 *
 * MOVE_ALL: also move pages that other processes map; needs CAP_SYS_NICE, or
 * the call fails with -EPERM. Without it such entries get -EACCES.
 *
 * PAGE_CACHE: an entry that the process has not mapped, in a shared mapping
 * of a file (tmpfs, memfd, SysV and anonymous shared memory and hugetlb
 * included), is looked up in the page cache of that file. Nothing is faulted
 * in and no page table is filled. Without MOVE_ALL the caller must own the
 * file or be allowed to write it, and a page that somebody maps is -EACCES
 * unless this is a query.
 *
 * NO_DRAIN: never ask the other CPUs to drain their LRU batches. The pages
 * that sit in one get -EBUSY; otherwise the call drains once, at most, if it
 * meets such a page. For background movers that come back later anyway.
 *
 * NO_RECLAIM: if the target node has no free page, do not reclaim or compact
 * memory there; the entry gets -ENOMEM.
 *
 * OWNER: also move a page that other processes map if it belongs to a file that
 * the caller owns (by fsuid), mapped shared, opened for writing, in a mapping
 * that may be made writable. Needs no capability, but the sysctl
 * vm.move_pages2_owner must be 1, or the call fails with -EPERM. A page that
 * doesn't fulfil this gets -EACCES as without the flag.
 *
 * HANDSHAKE: do nothing and return MOVE_PAGES2_ABI_MAGIC. All other
 * arguments must be zero, or the call fails with -EINVAL.
 */
#define MOVE_PAGES2_MOVE_ALL		(1U << 0)
#define MOVE_PAGES2_PAGE_CACHE		(1U << 1)
#define MOVE_PAGES2_NO_DRAIN		(1U << 2)
#define MOVE_PAGES2_NO_RECLAIM		(1U << 3)
#define MOVE_PAGES2_OWNER		(1U << 4)
#define MOVE_PAGES2_HANDSHAKE		(1U << 31)

/*
 * Values of mode: how long to wait for a page that is locked or being
 * written. ASYNC does not wait; SYNC_LIGHT waits for locks that are not held
 * for I/O; SYNC waits for locks and for writeback. The two that wait do so
 * for one page at a time, after an attempt at the whole batch that does not.
 */
#define MOVE_PAGES2_MODE_ASYNC		0
#define MOVE_PAGES2_MODE_SYNC_LIGHT	1
#define MOVE_PAGES2_MODE_SYNC		2

/* Values of nr_max_batched_migration: 0 is the default, above MAX is -EINVAL */
#define MOVE_PAGES2_BATCH_DEFAULT	32
#define MOVE_PAGES2_BATCH_MAX		4096

/**
 * struct move_pages2_args - the arguments, the same for 32-bit callers
 * @pages: pointer to __u64[nr_pages], the addresses
 * @nodes: pointer to __s32[nr_pages], the wanted nodes; or 0 to query: the
 *	status of each entry tells where its page is and nothing is moved
 * @status: pointer to __s32[nr_pages], written
 * @nr_pages: number of entries
 * @mode: MOVE_PAGES2_MODE_*
 * @nr_max_batched_migration: how many base pages may be unmapped (and so out
 *	of their users' reach) at once; a huge page counts as all of its base
 *	pages but is never divided
 * @nr_migrated: written: entries whose page this call moved
 * @nr_already: written: entries whose page was on the wanted node already
 *	(query: whose page was found)
 * @nr_failed: written: entries with a negative status
 *
 * The call returns the number of entries it processed, as readv(2) does:
 * every entry below it has a status, no entry from it on was touched or has
 * had its status written, and nr_migrated + nr_already + nr_failed is equal
 * to it. It is less than nr_pages if a signal arrived, or if an array can't
 * be accessed from there on, or after 2^31 - 4096 entries. A page that can't
 * be moved never ends the call. It returns a negative errno only if nothing
 * was processed (or if the counters can't be written).
 *
 * Status of an entry:
 *	>= 0	 the node that holds the page now
 *	-ENOENT  no page there (with PAGE_CACHE: nor in the file's page cache)
 *	-EACCES  mapped by others too and neither MOVE_ALL nor OWNER allow it,
 *		 or the wanted node is outside the cpuset of the process
 *	-ENODEV  the wanted node does not exist or has no memory
 *	-EBUSY	 somebody holds a reference to the page (it is pinned, for
 *		 instance for I/O), or it could not be isolated
 *	-EAGAIN  not moved for a passing reason, a retry may succeed
 *	-ENOMEM  no free page on the wanted node
 *	-EFAULT  not a mapped address, or memory that can't be moved (the
 *		 zero page, device memory)
 *	-EIO, -EHWPOISON  reserved; other values may be added, so treat any
 *		 negative status as "not moved"
 *
 * Several entries may lie in one huge page: it is moved once and all of them
 * get its result. If they ask for different nodes the first that needs a move
 * decides. A page that its owners freed while it was being moved counts as
 * moved.
 */
struct move_pages2_args {
	__u64 pages;
	__u64 nodes;
	__u64 status;
	__u64 nr_pages;
	__u64 mode;
	__u64 nr_max_batched_migration;
	__u64 nr_migrated;
	__u64 nr_already;
	__u64 nr_failed;
};

/* Size of the first version; less is -EINVAL, a non-zero unknown rest -E2BIG */
#define MOVE_PAGES2_ARGS_SIZE_VER0	72

#endif /* _UAPI_LINUX_MOVE_PAGES2_H */

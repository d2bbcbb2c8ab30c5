/*-------------------------------------------------------------------------
 *
 * probe.c
 *	  What this machine and process can do, and which engine serves a wish.
 *
 * Everything is asked by trying it harmlessly: a capability in /proc does not
 * say what seccomp, a user namespace or an old kernel makes of a call.
 *
 * IDENTIFICATION
 *	  src/mover/probe.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Read one decimal number that is all there is in a file.  Returns 0 or
 * -errno; -EPROTO if the content is anything else.
 */
static int
read_number(const char *root, const char *path, long *value)
{
	char name[PATH_MAX];
	char buf[64];
	char *end;
	ssize_t len;
	int fd;

	if (snprintf(name, sizeof(name), "%s%s", root, path) >= (int) sizeof(name))
		return -ENAMETOOLONG;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do
		len = read(fd, buf, sizeof(buf) - 1);
	while (len < 0 && errno == EINTR);
	if (len < 0)
	{
		int e = errno;

		close(fd);
		return -e;
	}
	close(fd);
	buf[len] = '\0';

	errno = 0;
	*value = strtol(buf, &end, 10);
	if (end == buf || errno != 0 || end[strspn(end, " \n")] != '\0')
		return -EPROTO;
	return 0;
}

/*
 * Find move_pages2: ABI version, number, handshake, in this order.  A number
 * alone may be another call in another kernel.
 */
static void
probe_move_pages2(NmMoverCaps *caps, const char *root)
{
	long abi,
		number,
		r;
	int e;

	caps->move_pages2 = false;
	caps->move_pages2_number = -1;
	caps->move_pages2_abi = 0;

	e = read_number(root, NM_MP2_SYSFS_ABI, &abi);
	if (e < 0)
	{
		caps->move_pages2_errno = -e;
		return;
	}
	caps->move_pages2_abi = abi < 0 ? 0 : (uint64_t) abi;
	if (abi != NM_MP2_ABI_VERSION)
	{
		caps->move_pages2_errno = EPROTONOSUPPORT;
		return;
	}
	e = read_number(root, NM_MP2_SYSFS_NUMBER, &number);
	if (e == 0 && (number <= 0 || number > INT_MAX))
		e = -EPROTO;
	if (e < 0)
	{
		caps->move_pages2_errno = -e;
		return;
	}
	caps->move_pages2_number = number;

	r = nm_sys->move_pages2(number, NULL, 0, NM_MP2_HANDSHAKE);
	if (r != NM_MP2_ABI_MAGIC)
	{
		caps->move_pages2_errno = r < 0 ? (int) -r : EPROTO;
		return;
	}
	caps->move_pages2 = true;
	caps->move_pages2_errno = 0;
}

void
nm_mover_probe(NmMoverCaps *caps, const char *root)
{
	void *page;
	long value;
	int status = 0;
	long r;

	memset(caps, 0, sizeof(*caps));
	caps->os_page_size = (size_t) sysconf(_SC_PAGESIZE);
	caps->numa_balancing = -1;
	if (read_number(root, "/proc/sys/kernel/numa_balancing", &value) == 0)
		caps->numa_balancing = (int) value;

	probe_move_pages2(caps, root);

	/*
	 * A private page, aligned and touched: the calls below then fail only for
	 * reasons that would meet every page.
	 */
	page = mmap(NULL, caps->os_page_size, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
	{
		caps->move_pages_errno = caps->mbind_errno = caps->get_mempolicy_errno = ENOMEM;
		return;
	}
	*(volatile char *) page = 1;

	/* No nodes: a query, which moves nothing. */
	r = nm_sys->move_pages(1, &page, NULL, &status, NM_MPOL_MF_MOVE);
	caps->move_pages = r >= 0;
	caps->move_pages_errno = r < 0 ? (int) -r : 0;

	/*
	 * MOVE_ALL is checked before anything else, also for a query.  This is
	 * the kernel's own answer; CapEff would say yes in a user namespace.
	 */
	if (caps->move_pages)
		caps->cap_sys_nice = nm_sys->move_pages(1, &page, NULL, &status, NM_MPOL_MF_MOVE_ALL) >= 0;
	else if (caps->move_pages2)
	{
		uint64_t addr = (uint64_t) (uintptr_t) page;
		NmMp2Args args = {
			.pages = (uint64_t) (uintptr_t) &addr,
			.status = (uint64_t) (uintptr_t) &status,
			.nr_pages = 1};

		caps->cap_sys_nice = nm_sys->move_pages2(caps->move_pages2_number, &args, sizeof(args),
												 NM_MP2_MOVE_ALL) >= 0;
	}

	/* The rule for a file's owner: EINVAL if unknown, EPERM if switched off */
	if (caps->move_pages2)
	{
		uint64_t addr = (uint64_t) (uintptr_t) page;
		NmMp2Args args = {
			.pages = (uint64_t) (uintptr_t) &addr,
			.status = (uint64_t) (uintptr_t) &status,
			.nr_pages = 1};

		caps->owner_rule = nm_sys->move_pages2(caps->move_pages2_number, &args, sizeof(args),
											   NM_MP2_OWNER) >= 0;
	}

	r = nm_sys->mbind(page, caps->os_page_size);
	caps->mbind = r == 0;
	caps->mbind_errno = r < 0 ? (int) -r : 0;

	r = nm_sys->get_mempolicy(page);
	caps->get_mempolicy = r >= 0;
	caps->get_mempolicy_errno = r < 0 ? (int) -r : 0;

	munmap(page, caps->os_page_size);
}

NmEngine
nm_mover_choose(const NmMoverCaps *caps, NmEngine wish)
{
	if (wish == NM_ENGINE_OFF)
		return NM_ENGINE_OFF;
	if (caps->move_pages2 && wish != NM_ENGINE_MOVE_PAGES)
		return NM_ENGINE_MOVE_PAGES2;
	if (caps->move_pages)
		return NM_ENGINE_MOVE_PAGES;
	return NM_ENGINE_OFF;
}

const char *
nm_engine_name(NmEngine engine)
{
	switch (engine)
	{
		case NM_ENGINE_OFF:
			return "off";
		case NM_ENGINE_MOVE_PAGES:
			return "move_pages";
		case NM_ENGINE_MOVE_PAGES2:
			return "move_pages2";
		case NM_ENGINE_AUTO:
			return "auto";
	}
	return "unknown";
}

const char *
nm_mode_name(NmMode mode)
{
	switch (mode)
	{
		case NM_MODE_ASYNC:
			return "async";
		case NM_MODE_SYNC_LIGHT:
			return "sync_light";
		case NM_MODE_SYNC:
			return "sync";
		case NM_MODE_AUTO:
			return "auto";
	}
	return "unknown";
}

const char *
nm_move_status_text(int status)
{
	if (status >= 0)
		return "on a node";
	switch (-status)
	{
		case ENOENT:
			return "absent (not in memory)";
		case EFAULT:
			return "absent (not mapped, or not movable memory)";
		case EBUSY:
			return "busy (pinned or being used by the kernel)";
		case EAGAIN:
			return "busy (a retry may succeed)";
		case EACCES:
			return "denied (other processes map the page, or the node is outside the cpuset)";
		case EPERM:
			return "denied (no permission for the system call)";
		case ENODEV:
			return "refused (node not allowed or without memory)";
		case ENOMEM:
			return "failed (no free memory on the node)";
		case ENOSYS:
			return "failed (no such system call)";
		case ECANCELED:
			return "not tried (stopped before)";
		case EIO:
			return "failed (I/O error)";
		case EHWPOISON:
			return "failed (hardware memory error)";
		default:
			return strerror(-status);
	}
}

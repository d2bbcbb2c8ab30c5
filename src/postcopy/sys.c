/*-------------------------------------------------------------------------
 *
 * sys.c
 *	  The real system calls behind sys.h.
 *
 * The descriptor is opened for faults of user space only, which needs no
 * privilege since Linux 5.11 and costs nothing: in SIGBUS mode the kernel's own
 * accesses fail whatever the privilege.
 *
 * IDENTIFICATION
 *	  src/postcopy/sys.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.11; older headers lack it. */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* Headers from before 5.14 know no minor faults: such a build can only copy. */
#ifdef UFFD_FEATURE_MINOR_SHMEM
#define MINOR_FEATURE UFFD_FEATURE_MINOR_SHMEM
#define MINOR_MODE	  UFFDIO_REGISTER_MODE_MINOR
#define MINOR_IOCTLS  (UINT64_C(1) << _UFFDIO_CONTINUE)
#else
#define MINOR_FEATURE 0
#define MINOR_MODE	  0
#define MINOR_IOCTLS  0
#endif

static int
sys_open(bool minor)
{
#ifdef SYS_userfaultfd
	struct uffdio_api api = {.api = UFFD_API};
	int fd;

	if (minor && MINOR_FEATURE == 0)
		return -EOPNOTSUPP;
	fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0 && errno == EINVAL)
		fd = (int) syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	api.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM | (minor ? MINOR_FEATURE : 0);
	if (ioctl(fd, UFFDIO_API, &api) != 0)
	{
		int err = errno;

		(void) close(fd);
		return err == EINVAL ? -EOPNOTSUPP : -err;
	}
	return fd;
#else
	return -ENOSYS;
#endif
}

static int
sys_enroll(int fd, void *addr, size_t bytes, bool minor)
{
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t) addr, .len = bytes},
		.mode = UFFDIO_REGISTER_MODE_MISSING | (minor ? MINOR_MODE : 0)};
	uint64_t need = UINT64_C(1) << _UFFDIO_COPY | UINT64_C(1) << _UFFDIO_ZEROPAGE | (minor ? MINOR_IOCTLS : 0);

	if (ioctl(fd, UFFDIO_REGISTER, &reg) != 0)
		return -errno;
	/* hugetlb can't do zero pages, for instance */
	return (reg.ioctls & need) == need ? 0 : -EOPNOTSUPP;
}

static int
sys_unenroll(int fd, void *addr, size_t bytes)
{
	struct uffdio_range range = {.start = (uintptr_t) addr, .len = bytes};

	return ioctl(fd, UFFDIO_UNREGISTER, &range) == 0 ? 0 : -errno;
}

/*
 * The calls fail with EAGAIN after doing a part, and say in the argument how
 * much, or why nothing.
 */
static inline long
outcome(int r, size_t bytes, int64_t done)
{
	int err = errno;

	if (r == 0)
		return (long) bytes;
	if (err == EAGAIN && done > 0)
		return (long) done;
	return -err;
}

static long
sys_copy(int fd, void *to, const void *from, size_t bytes)
{
	struct uffdio_copy c = {
		.dst = (uintptr_t) to, .src = (uintptr_t) from, .len = bytes, .mode = UFFDIO_COPY_MODE_DONTWAKE};
	int r = ioctl(fd, UFFDIO_COPY, &c);

	return outcome(r, bytes, c.copy);
}

static long
sys_map(int fd, void *addr, size_t bytes)
{
#if MINOR_FEATURE
	struct uffdio_continue c = {
		.range = {.start = (uintptr_t) addr, .len = bytes}, .mode = UFFDIO_CONTINUE_MODE_DONTWAKE};
	int r = ioctl(fd, UFFDIO_CONTINUE, &c);

	return outcome(r, bytes, c.mapped);
#else
	return -ENOSYS;
#endif
}

static long
sys_zero(int fd, void *addr, size_t bytes)
{
	struct uffdio_zeropage c = {
		.range = {.start = (uintptr_t) addr, .len = bytes}, .mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE};
	int r = ioctl(fd, UFFDIO_ZEROPAGE, &c);

	return outcome(r, bytes, c.zeropage);
}

static long
sys_write(int fd, const void *from, size_t bytes, off_t at)
{
	ssize_t r = pwrite(fd, from, bytes, at);

	return r < 0 ? -errno : (long) r;
}

static void
sys_wait(uint32_t *word, uint32_t value, long ns)
{
	struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

	(void) syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

static void
sys_wake(uint32_t *word)
{
	(void) syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool
sys_alive(int tid)
{
	return kill(tid, 0) == 0 || errno != ESRCH;
}

const NmPcSys nm_pc_sys_kernel = {
	.open = sys_open,
	.enroll = sys_enroll,
	.unenroll = sys_unenroll,
	.copy = sys_copy,
	.map = sys_map,
	.zero = sys_zero,
	.write = sys_write,
	.wait = sys_wait,
	.wake = sys_wake,
	.alive = sys_alive,
};

const NmPcSys *nm_pc_sys = &nm_pc_sys_kernel;

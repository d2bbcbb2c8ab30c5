/*-------------------------------------------------------------------------
 *
 * test_probe.c
 *	  nm_mover_probe(): finding move_pages2, errno handling, seccomp.
 *
 * IDENTIFICATION
 *	  test/unit/mover/test_probe.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "check.h"
#include "fake_kernel.h"
#include "fake_root.h"

#include "../../../kernel/uapi/move_pages2.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static NmMoverCaps caps;

/* ---- our copy of the interface against the kernel's ---- */

static void
same_interface(void)
{
	CHECK_STR(NM_MP2_SYSFS_NUMBER, MOVE_PAGES2_SYSFS_NUMBER);
	CHECK_STR(NM_MP2_SYSFS_ABI, MOVE_PAGES2_SYSFS_ABI);
	CHECK_INT(NM_MP2_ABI_VERSION, MOVE_PAGES2_ABI_VERSION);
	CHECK_INT(NM_MP2_ABI_MAGIC, MOVE_PAGES2_ABI_MAGIC);
	CHECK_INT(NM_MP2_MOVE_ALL, MOVE_PAGES2_MOVE_ALL);
	CHECK_INT(NM_MP2_PAGE_CACHE, MOVE_PAGES2_PAGE_CACHE);
	CHECK_INT(NM_MP2_NO_DRAIN, MOVE_PAGES2_NO_DRAIN);
	CHECK_INT(NM_MP2_OWNER, MOVE_PAGES2_OWNER);
	CHECK_INT(NM_MP2_HANDSHAKE, MOVE_PAGES2_HANDSHAKE);
	CHECK_INT(NM_MODE_ASYNC, MOVE_PAGES2_MODE_ASYNC);
	CHECK_INT(NM_MODE_SYNC_LIGHT, MOVE_PAGES2_MODE_SYNC_LIGHT);
	CHECK_INT(NM_MODE_SYNC, MOVE_PAGES2_MODE_SYNC);
	CHECK_INT(NM_BATCH_DEFAULT, MOVE_PAGES2_BATCH_DEFAULT);
	CHECK_INT(NM_BATCH_MAX, MOVE_PAGES2_BATCH_MAX);
	CHECK_INT(sizeof(NmMp2Args), MOVE_PAGES2_ARGS_SIZE_VER0);
	CHECK_INT(sizeof(NmMp2Args), sizeof(struct move_pages2_args));
#define SAME(f) CHECK_INT(offsetof(NmMp2Args, f), offsetof(struct move_pages2_args, f))
	SAME(pages);
	SAME(nodes);
	SAME(status);
	SAME(nr_pages);
	SAME(mode);
	SAME(nr_max_batched_migration);
	SAME(nr_migrated);
	SAME(nr_already);
	SAME(nr_failed);
}

/* ---- discovery ---- */

static const char *
root_with(const char *abi, const char *number)
{
	const char *root = fake_root_new();

	if (abi)
		fake_file(root, NM_MP2_SYSFS_ABI + 1, abi);
	if (number)
		fake_file(root, NM_MP2_SYSFS_NUMBER + 1, number);
	return root;
}

static void
discover(const char *abi, const char *number, long answer, int expect_errno, int expect_handshakes)
{
	fake_reset();
	fake.handshake_answer = answer;
	nm_sys = &fake_sys;
	nm_mover_probe(&caps, root_with(abi, number));
	nm_sys = &nm_sys_kernel;
	CHECK_INT(caps.move_pages2, expect_errno == 0);
	CHECK_INT(caps.move_pages2_errno, expect_errno);
	CHECK_INT(fake.handshakes, expect_handshakes);
}

static void
found(void)
{
	discover("1\n", "600\n", NM_MP2_ABI_MAGIC, 0, 1);
	CHECK_INT(caps.move_pages2_number, 600);
	CHECK_INT(caps.move_pages2_abi, 1);
	discover("1", "600", NM_MP2_ABI_MAGIC, 0, 1);
}

static void
no_sysfs_file(void)
{
	discover(NULL, NULL, NM_MP2_ABI_MAGIC, ENOENT, 0);
	discover("1\n", NULL, NM_MP2_ABI_MAGIC, ENOENT, 0);
	/* a number alone is not trusted */
	discover(NULL, "600\n", NM_MP2_ABI_MAGIC, ENOENT, 0);
	CHECK_INT(caps.move_pages2_number, -1);
}

static void
other_abi(void)
{
	discover("2\n", "600\n", NM_MP2_ABI_MAGIC, EPROTONOSUPPORT, 0);
	CHECK_INT(caps.move_pages2_abi, 2);
	discover("0\n", "600\n", NM_MP2_ABI_MAGIC, EPROTONOSUPPORT, 0);
}

static void
malformed_files(void)
{
	discover("one\n", "600\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("1 1\n", "600\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("", "600\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("1\n", "\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("1\n", "600x\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("1\n", "-600\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("1\n", "0\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
	discover("1\n", "99999999999\n", NM_MP2_ABI_MAGIC, EPROTO, 0);
}

static void
handshake_fails(void)
{
	discover("1\n", "600\n", -ENOSYS, ENOSYS, 1);
	discover("1\n", "600\n", -EPERM, EPERM, 1);
	discover("1\n", "600\n", 0, EPROTO, 1);
	discover("1\n", "600\n", NM_MP2_ABI_MAGIC + 1, EPROTO, 1);
}

static void
choices(void)
{
	NmMoverCaps c = {0};

	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_AUTO), NM_ENGINE_OFF);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_MOVE_PAGES), NM_ENGINE_OFF);
	c.move_pages = true;
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_AUTO), NM_ENGINE_MOVE_PAGES);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_MOVE_PAGES2), NM_ENGINE_MOVE_PAGES);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_OFF), NM_ENGINE_OFF);
	c.move_pages2 = true;
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_AUTO), NM_ENGINE_MOVE_PAGES2);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_MOVE_PAGES2), NM_ENGINE_MOVE_PAGES2);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_MOVE_PAGES), NM_ENGINE_MOVE_PAGES);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_OFF), NM_ENGINE_OFF);
	c.move_pages = false;
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_AUTO), NM_ENGINE_MOVE_PAGES2);
	CHECK_INT(nm_mover_choose(&c, NM_ENGINE_MOVE_PAGES), NM_ENGINE_OFF);
}

/* ---- the wrappers' errno ---- */

/* -1 is EPERM if taken for an errno; the wrappers give the real one. */
static void
errno_of_wrappers(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *addr = page;
	int node = 0;
	int status = 77;
	unsigned char vec[2];

	page[0] = 1;
	CHECK_INT(nm_sys_kernel.move_pages2(100000, NULL, 0, NM_MP2_HANDSHAKE), -ENOSYS);
	CHECK_INT(nm_sys_kernel.move_pages(1, &addr, &node, &status, 1 << 20), -EINVAL);
	CHECK_INT(nm_sys_kernel.move_pages(1, (void **) 8, &node, &status, NM_MPOL_MF_MOVE), -EFAULT);
	node = 1000000;
	CHECK_INT(nm_sys_kernel.move_pages(1, &addr, &node, &status, NM_MPOL_MF_MOVE), -ENODEV);
	CHECK_INT(nm_sys_kernel.move_pages(1, &addr, NULL, &status, NM_MPOL_MF_MOVE), 0);
	CHECK(status >= 0);
	/* an unaligned address is as good */
	addr = page + 123;
	status = 77;
	CHECK_INT(nm_sys_kernel.move_pages(1, &addr, NULL, &status, NM_MPOL_MF_MOVE), 0);
	CHECK(status >= 0 && status != 77);
	CHECK_INT(nm_sys_kernel.mincore(page + 1, 4096, vec), -EINVAL);
	CHECK_INT(nm_sys_kernel.mincore((void *) 4096, 4096, vec), -ENOMEM);
	CHECK_INT(nm_sys_kernel.mincore(page, 8192, vec), 0);
	CHECK_INT(vec[0] & 1, 1);
	CHECK_INT(vec[1] & 1, 0);
	CHECK_INT(nm_sys_kernel.mbind(page + 1, 4096), -EINVAL);
	CHECK_INT(nm_sys_kernel.mbind(page, 4096), 0);
	CHECK(nm_sys_kernel.get_mempolicy(page) >= 0);
	CHECK_INT(nm_sys_kernel.get_mempolicy((void *) 4096), -EFAULT);
	munmap(page, 8192);
}

static void
this_machine(void)
{
	nm_mover_probe(&caps, "");
	CHECK_INT(caps.os_page_size, sysconf(_SC_PAGESIZE));
	if (!caps.move_pages)
		SKIP(strerror(caps.move_pages_errno));
	CHECK_INT(caps.move_pages_errno, 0);
	CHECK(caps.get_mempolicy);
	CHECK(caps.mbind);
	/* what it is without the module */
	if (access(NM_MP2_SYSFS_ABI, R_OK) != 0)
	{
		CHECK(!caps.move_pages2);
		CHECK_INT(caps.move_pages2_errno, ENOENT);
	}
	else
		CHECK(caps.move_pages2);
}

/* ---- seccomp and privileges, each in a child process ---- */

/* The named calls fail with EPERM from here on, as in a container. */
static bool
install_filter(const int *calls, int n)
{
	struct sock_filter prog[16];
	int len = 0;
	struct sock_fprog fprog;

	prog[len++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (int i = 0; i < n; i++)
	{
		prog[len++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) calls[i], 0, 1);
		prog[len++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	prog[len++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	fprog.len = (unsigned short) len;
	fprog.filter = prog;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) == 0;
}

/* Run fn in a child; its failed CHECKs become ours. */
static void
in_child(void (*fn)(void))
{
	int st;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		check_bad = 0;
		fn();
		fflush(stdout);
		_exit(check_skip ? 99 : check_bad > 0);
	}
	CHECK(pid > 0);
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK(WIFEXITED(st));
	if (WIFEXITED(st) && WEXITSTATUS(st) == 99)
		check_skip = "no seccomp filters on this kernel";
	else
		CHECK_INT(WEXITSTATUS(st), 0);
}

static void
refuse_move_pages(void)
{
	const int calls[] = {SYS_move_pages};
	NmTopology *topo = malloc(sizeof(NmTopology));
	NmMoveItem item;
	NmMoveOptions opt = {.mode = NM_MODE_SYNC, .page_size = 4096};
	NmMoveStats stats = {0};
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *addr = page;
	int32_t status;
	char err[256];
	void *scratch = malloc(nm_move_scratch_size(1));

	page[0] = 1;
	if (!install_filter(calls, 1))
	{
		check_skip = "no seccomp";
		return;
	}
	nm_mover_probe(&caps, "");
	CHECK(!caps.move_pages);
	CHECK_INT(caps.move_pages_errno, EPERM);
	CHECK(!caps.cap_sys_nice || caps.move_pages2);
	CHECK(caps.mbind);
	CHECK(caps.get_mempolicy);
	if (!caps.move_pages2)
	{
		CHECK_INT(nm_mover_choose(&caps, NM_ENGINE_AUTO), NM_ENGINE_OFF);

		/* where it is can still be told, by another call */
		CHECK(nm_query_nodes(&caps, &addr, 1, &status, &opt, scratch));
		CHECK(status >= 0);
	}

	/* a filter that came after the probe: denied, not failed or lost */
	CHECK(nm_topology_read(topo, "", err, sizeof(err)));
	caps.move_pages = true;
	opt.engine = NM_ENGINE_MOVE_PAGES;
	item.addr = page;
	item.node = topo->nodes[0].id;
	CHECK(nm_move(&caps, topo, &item, 1, &opt, &stats, scratch));
	CHECK_INT(stats.asked, 1);
	CHECK_INT(stats.denied, 1);
	CHECK_INT(item.status, -EPERM);
	free(scratch);
	free(topo);
}

static void
refuse_all_three(void)
{
	const int calls[] = {SYS_move_pages, SYS_mbind, SYS_get_mempolicy};
	NmMoveOptions opt = {.page_size = 4096};
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *addr = page;
	int32_t status = 5;
	void *scratch = malloc(nm_move_scratch_size(1));

	page[0] = 1;
	if (!install_filter(calls, 3))
	{
		check_skip = "no seccomp";
		return;
	}
	nm_mover_probe(&caps, "");
	CHECK_INT(caps.move_pages_errno, EPERM);
	CHECK_INT(caps.mbind_errno, EPERM);
	CHECK_INT(caps.get_mempolicy_errno, EPERM);
	CHECK(!caps.move_pages && !caps.mbind && !caps.get_mempolicy);
	if (!caps.move_pages2)
	{
		CHECK(nm_query_nodes(&caps, &addr, 1, &status, &opt, scratch));
		CHECK_INT(status, -EPERM);
	}
	free(scratch);
}

static void
refuse_mbind(void)
{
	const int calls[] = {SYS_mbind};

	if (!install_filter(calls, 1))
	{
		check_skip = "no seccomp";
		return;
	}
	nm_mover_probe(&caps, "");
	CHECK(caps.move_pages);
	CHECK(!caps.mbind);
	CHECK_INT(caps.mbind_errno, EPERM);
	CHECK(caps.get_mempolicy);
	CHECK_INT(nm_mover_choose(&caps, NM_ENGINE_AUTO) == NM_ENGINE_OFF, 0);
}

static void
seccomp_move_pages(void)
{
	in_child(refuse_move_pages);
}

static void
seccomp_all_three(void)
{
	in_child(refuse_all_three);
}

static void
seccomp_mbind(void)
{
	in_child(refuse_mbind);
}

static void
drop_to_nobody(void)
{
	nm_mover_probe(&caps, "");
	CHECK(caps.cap_sys_nice);
	if (setresuid(65534, 65534, 65534) != 0)
	{
		CHECK(!"setresuid");
		return;
	}
	nm_mover_probe(&caps, "");
	CHECK(!caps.cap_sys_nice);
	CHECK(caps.move_pages);
}

static void
capability(void)
{
	nm_mover_probe(&caps, "");
	if (geteuid() != 0)
		SKIP("not root: there is no capability to lose");
	if (!caps.cap_sys_nice)
		SKIP("root without CAP_SYS_NICE");
	in_child(drop_to_nobody);
}

int
main(void)
{
	RUN(same_interface);
	RUN(found);
	RUN(no_sysfs_file);
	RUN(other_abi);
	RUN(malformed_files);
	RUN(handshake_fails);
	RUN(choices);
	RUN(errno_of_wrappers);
	RUN(this_machine);
	RUN(seccomp_move_pages);
	RUN(seccomp_all_three);
	RUN(seccomp_mbind);
	RUN(capability);
	fake_root_remove_all();
	return FINISH();
}

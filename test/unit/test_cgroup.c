/*-------------------------------------------------------------------------
 *
 * test_cgroup.c
 *	  Headroom of the memory cgroup, read from made-up /proc and mounts.
 *
 * IDENTIFICATION
 *	  test/unit/test_cgroup.c
 *
 *-------------------------------------------------------------------------
 */
#include "tap.h"
#include "pool/cgroup_int.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/nm_cgroup_XXXXXX";

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void) st;
	(void) flag;
	(void) ftw;
	return ftw->level > 0 ? remove(path) : 0;
}

static void
clean(void)
{
	nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Write a file below the root, with its directories. */
static void
put(const char *path, const char *fmt, ...)
{
	char name[1024];
	va_list ap;
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *p = name + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++)
	{
		*p = '\0';
		mkdir(name, 0777);
		*p = '/';
	}
	f = fopen(name, "w");
	if (f == NULL)
	{
		fault("cannot write %s", name);
		return;
	}
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

static void
expect(uint64_t want, const char *name)
{
	uint64_t got = nm_cgroup_headroom_at(root);

	ok(got == want, "%s", name);
	if (got != want)
		diag("got %llu, want %llu", (unsigned long long) got, (unsigned long long) want);
}

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MOUNT "33 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" \
				 "34 25 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory\n"

int
main(void)
{
	uint64_t here;

	tap_start("test_cgroup");
	if (mkdtemp(root) == NULL)
	{
		perror(root);
		return 2;
	}

	expect(UINT64_MAX, "nothing to read: no limit");

	/* v2 */
	put("proc/self/cgroup", "0::/app/db\n");
	put("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda rw\n" V2_MOUNT);
	expect(UINT64_MAX, "v2: no files (root group): no limit");
	put("sys/fs/cgroup/app/db/memory.max", "max\n");
	put("sys/fs/cgroup/app/db/memory.current", "5000\n");
	expect(UINT64_MAX, "v2: max");
	put("sys/fs/cgroup/app/db/memory.max", "8000\n");
	expect(3000, "v2: max - current");
	put("sys/fs/cgroup/app/memory.max", "7000\n");
	put("sys/fs/cgroup/app/memory.current", "6500\n");
	expect(500, "v2: a group above is tighter");
	put("sys/fs/cgroup/app/memory.stat", "anon 1\nfile 900\nxinactive_file 99\ninactive_file 600\nactive_file 400\n");
	expect(1300, "v2: page cache counts as free, the active one by half");
	put("sys/fs/cgroup/app/memory.current", "9000\n");
	expect(0, "v2: above the limit: nothing left");
	put("sys/fs/cgroup/app/memory.current", "100\n");
	expect(3000, "v2: the own group is tighter again");
	clean();

	/* v2 in a container: the own group is the mount's root */
	put("proc/self/cgroup", "0::/docker/abc\n");
	put("proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("sys/fs/cgroup/memory.max", "1000\n");
	put("sys/fs/cgroup/memory.current", "900\n");
	expect(100, "v2: the mount's root is the own group");
	put("proc/self/mountinfo", "30 23 0:26 /docker/abcd /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	expect(100, "v2: a mount of another group: its root");
	put("proc/self/cgroup", "0::/docker/abc/sub\n");
	put("proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("sys/fs/cgroup/sub/memory.max", "50\n");
	put("sys/fs/cgroup/sub/memory.current", "10\n");
	expect(40, "v2: below the mount's root");
	clean();

	/* v1 */
	put("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n");
	put("proc/self/mountinfo", V1_MOUNT);
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "1234\n");
	expect(UINT64_MAX, "v1: the default is no limit");
	put("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "10000\n");
	expect(8766, "v1: limit - usage");
	put("sys/fs/cgroup/memory/a/b/memory.stat", "inactive_file 9\ntotal_inactive_file 200\ntotal_active_file 68\n");
	expect(9000, "v1: cache from the totals");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "20000\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "19999\n");
	expect(1, "v1: up to the mount point");

	/* hybrid: the tighter of both */
	put("proc/self/mountinfo", V1_MOUNT "35 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
	put("proc/self/cgroup", "4:memory:/a/b\n0::/z\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "20000000\n");
	put("sys/fs/cgroup/unified/z/memory.max", "100\n");
	put("sys/fs/cgroup/unified/z/memory.current", "30\n");
	expect(70, "hybrid: the tighter hierarchy counts");

	/* rubbish */
	put("proc/self/cgroup", "nonsense\n\n0:\n::\n");
	put("proc/self/mountinfo", "a b c\n - cgroup2\n1 2 3 4 5 - cgroup2\n");
	expect(UINT64_MAX, "rubbish: no limit, no crash");
	clean();
	rmdir(root);

	here = nm_cgroup_headroom();
	ok(here > 0 && nm_cgroup_headroom() > 0, "the real one can be asked");
	return tap_done();
}

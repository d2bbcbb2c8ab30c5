/*-------------------------------------------------------------------------
 *
 * sql_doctor.c
 *	  numa.doctor(): what of the machine, the server and its rights helps or
 *	  hinders, in sentences.
 *
 * Each item is a small function that fills ok, detail and hint.  It must not
 * raise an error whatever it finds: what can't be read is said to be unknown.
 *
 * IDENTIFICATION
 *	  src/sql_doctor.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sql_api.h"

#include "funcapi.h"
#include "lib/stringinfo.h"
#include "migrator/migrator.h"
#include "mover/sys.h"
#include "postcopy/postcopy.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(nm_sql_doctor);

typedef struct Finding
{
	bool ok;
	StringInfoData detail;
	StringInfoData hint; /* empty = none */
} Finding;

static NmTopology doctor_topo;
static bool doctor_topo_whole;

/*
 * First bytes of a file in sysfs or procfs, without its last newline.  False
 * if it can't be read.
 */
static bool
read_text(const char *path, char *buf, size_t buflen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len;

	if (fd < 0)
		return false;
	do
		len = read(fd, buf, buflen - 1);
	while (len < 0 && errno == EINTR);
	close(fd);
	if (len < 0)
		return false;
	while (len > 0 && buf[len - 1] == '\n')
		len--;
	buf[len] = '\0';
	return true;
}

static bool
read_int(const char *path, long *value)
{
	char buf[64];
	char *end;

	if (!read_text(path, buf, sizeof(buf)))
		return false;
	*value = strtol(buf, &end, 10);
	return end != buf;
}

/* The number after "name" at the start of a line of /proc/self/status. */
static bool
read_status(const char *name, long *value)
{
	char buf[8192];
	char *p;

	buf[0] = '\n';
	if (!read_text("/proc/self/status", buf + 1, sizeof(buf) - 1))
		return false;
	p = strstr(buf, name);
	if (p == NULL || p == buf || p[-1] != '\n')
		return false;
	*value = strtol(p + strlen(name), NULL, 10);
	return true;
}

/* "1536 kB", "64 MB", "12 GB" */
static void
append_bytes(StringInfo s, uint64 bytes)
{
	if (bytes < UINT64CONST(10) * 1024 * 1024)
		appendStringInfo(s, "%llu kB", (unsigned long long) (bytes / 1024));
	else if (bytes < UINT64CONST(10) * 1024 * 1024 * 1024)
		appendStringInfo(s, "%llu MB", (unsigned long long) (bytes / (1024 * 1024)));
	else
		appendStringInfo(s, "%llu GB", (unsigned long long) (bytes / (1024 * 1024 * 1024)));
}

static void
check_preload(Finding *f)
{
	f->ok = nm_preloaded();
	if (f->ok)
		appendStringInfoString(&f->detail, "numa_migrate is in shared_preload_libraries");
	else if (nm_locks != NULL)
	{
		appendStringInfoString(&f->detail, "preloaded, but there is no page pool; the server's log says why");
		appendStringInfoString(&f->hint, "Lower numa_migrate.max_memory or raise the limit on address space, and restart the server.");
	}
	else
	{
		appendStringInfoString(&f->detail, "not preloaded: numa_btree indexes can't be used, pages can't be moved, no worker runs");
		appendStringInfoString(&f->hint, "Add numa_migrate to shared_preload_libraries and restart the server.");
	}
}

static void
check_nodes(Finding *f)
{
	int memory = 0,
		allowed = 0;

	for (int i = 0; i < doctor_topo.nnodes; i++)
	{
		const NmNode *node = &doctor_topo.nodes[i];

		memory += node->has_memory;
		allowed += node->allowed;
		appendStringInfo(&f->detail, "%s%d%s", i > 0 ? ", " : "nodes ", node->id,
						 !node->has_memory ? " (no memory)" : !node->allowed ? " (not allowed)"
														  : !node->has_cpu	 ? " (no CPU)"
																			 : "");
	}
	appendStringInfo(&f->detail, "; %d with memory, %d allowed", memory, allowed);
	f->ok = allowed > 1 && doctor_topo_whole;
	if (!doctor_topo_whole)
		appendStringInfo(&f->hint, "Only the first %d nodes can be described.", NM_MAX_NODES);
	else if (memory < 2)
		appendStringInfoString(&f->hint, "With one node there is nowhere to move pages to; everything else works.");
	else if (allowed < 2)
		appendStringInfoString(&f->hint, "The server's cpuset allows one node only: see AllowedMemoryNodes of its systemd unit, or cpuset.mems.");
}

static void
check_engine(Finding *f)
{
	NmEngine engine = nm_mover_choose(nm_get_caps(), (NmEngine) nm_engine);

	f->ok = engine != NM_ENGINE_OFF;
	appendStringInfo(&f->detail, "numa_migrate.engine = %s, in force: %s",
					 nm_engine_name((NmEngine) nm_engine), nm_engine_name(engine));
	if (nm_engine == NM_ENGINE_OFF)
		appendStringInfoString(&f->hint, "Shared buffers are not moved; set numa_migrate.engine to auto to move them.");
	else if (!f->ok)
		appendStringInfoString(&f->hint, "Shared buffers can't be moved here; tree pages of numa_btree indexes can.");
}

static void
check_move_pages(Finding *f)
{
	const NmMoverCaps *caps = nm_get_caps();

	f->ok = caps->move_pages;
	if (f->ok)
		appendStringInfoString(&f->detail, "the system call is there and permitted");
	else
	{
		appendStringInfo(&f->detail, "the system call fails: %s", strerror(caps->move_pages_errno));
		appendStringInfoString(&f->hint, caps->move_pages_errno == EPERM ? "See item seccomp." : "The kernel must be built with CONFIG_NUMA and CONFIG_MIGRATION.");
	}
}

static void
check_move_pages2(Finding *f)
{
	const NmMoverCaps *caps = nm_get_caps();

	f->ok = caps->move_pages2;
	if (f->ok)
	{
		appendStringInfo(&f->detail, "found: system call %ld, ABI version %llu",
						 caps->move_pages2_number, (unsigned long long) caps->move_pages2_abi);
		return;
	}
	switch (caps->move_pages2_errno)
	{
		case ENOENT:
			appendStringInfoString(&f->detail, "this kernel does not have it (no " NM_MP2_SYSFS_ABI ")");
			appendStringInfoString(&f->hint, "Not required: stock move_pages is used. See kernel/ for a kernel with it.");
			break;
		case EPROTONOSUPPORT:
			appendStringInfo(&f->detail, "the kernel has ABI version %llu, this extension needs %d",
							 (unsigned long long) caps->move_pages2_abi, NM_MP2_ABI_VERSION);
			appendStringInfoString(&f->hint, "Use the kernel patch and the extension of one release.");
			break;
		default:
			appendStringInfo(&f->detail, "system call %ld (ABI version %llu) fails the handshake: %s",
							 caps->move_pages2_number, (unsigned long long) caps->move_pages2_abi,
							 strerror(caps->move_pages2_errno));
			appendStringInfoString(&f->hint, caps->move_pages2_errno == EPERM ? "See item seccomp; a container's filter must allow this number." : "The call is not used.");
			break;
	}
}

static void
check_cap_sys_nice(Finding *f)
{
	f->ok = nm_get_caps()->cap_sys_nice;
	if (f->ok)
		appendStringInfoString(&f->detail, "held: pages that several processes use can be moved");
	else if (nm_get_caps()->owner_rule)
	{
		/* Shared memory's owner is the user that the server runs as */
		f->ok = true;
		appendStringInfoString(&f->detail, "not held, but vm.move_pages2_owner lets the server move its shared memory");
	}
	else
	{
		appendStringInfoString(&f->detail, "not held: shared buffers that more than one process uses can't be moved; tree pages can");
		appendStringInfoString(&f->hint, "Put AmbientCapabilities=CAP_SYS_NICE into the server's systemd unit (systemctl edit) and restart; in a container, --cap-add SYS_NICE.");
	}
}

static void
check_seccomp(Finding *f)
{
	const NmMoverCaps *caps = nm_get_caps();
	StringInfoData refused;
	long mode = -1;

	initStringInfo(&refused);
	if (caps->move_pages_errno == EPERM)
		appendStringInfoString(&refused, " move_pages");
	if (caps->mbind_errno == EPERM)
		appendStringInfoString(&refused, " mbind");
	if (caps->get_mempolicy_errno == EPERM)
		appendStringInfoString(&refused, " get_mempolicy");
	if (caps->move_pages2_errno == EPERM)
		appendStringInfoString(&refused, " move_pages2");

	f->ok = refused.len == 0;
	if (!read_status("Seccomp:", &mode))
		mode = -1;
	appendStringInfo(&f->detail, "%s; %s%s",
					 mode == 0 ? "no filter is installed" : mode == 2 ? "a filter is installed"
														: mode == 1	  ? "strict mode"
																	  : "unknown whether a filter is installed",
					 f->ok ? "no call that is needed is refused" : "refused:", refused.data);
	if (!f->ok)
		appendStringInfoString(&f->hint, "Container engines allow these calls together with the capability: --cap-add SYS_NICE, or a seccomp profile that lists them.");
	pfree(refused.data);
}

static void
check_huge_pages(Finding *f)
{
	bool hugetlb;
	size_t size = nm_buffers_page_size(&hugetlb);
	uint64 bytes = (uint64) NBuffers * BLCKSZ;
	const char *setting = GetConfigOption("huge_pages", true, false);

	f->ok = true;
	appendStringInfoString(&f->detail, "shared buffers (");
	append_bytes(&f->detail, bytes);
	appendStringInfo(&f->detail, ") lie on pages of %zu kB, huge_pages = %s",
					 size / 1024, setting ? setting : "unknown");
	if (hugetlb)
		appendStringInfo(&f->hint, "A huge page moves as a whole, with all %zu buffers in it, and at a cost that does not grow with the number of sessions.",
						 size / BLCKSZ);
	else if (bytes >= UINT64CONST(8) * 1024 * 1024 * 1024)
		appendStringInfoString(&f->hint, "With shared buffers of this size huge pages save page tables and make moves far cheaper, but kernel and worker then place 2 MB at a time.");
}

static void
check_page_tables(Finding *f)
{
	long kb = -1;

	f->ok = true;
	if (!read_status("VmPTE:", &kb))
		appendStringInfoString(&f->detail, "size of this session's page tables is unknown");
	else
		appendStringInfo(&f->detail, "this session's page tables take %ld kB", kb);
	if (nm_preloaded())
	{
		NmPoolStats stats;
		uint64 committed = 0;
		uint64 small = 0; /* a huge page takes 8 bytes of a page table */

		nm_pool_stats(nm_pool, &stats);
		for (int i = 0; i < stats.narenas; i++)
		{
			committed += stats.committed[i];
			small += stats.committed[i] - stats.huge[i];
		}
		appendStringInfoString(&f->detail, "; the pool holds ");
		append_bytes(&f->detail, committed);
		appendStringInfoString(&f->detail, ", which is up to ");
		append_bytes(&f->detail, small / 512);
		appendStringInfoString(&f->detail, " of page tables in each session that uses all of it");

		/* all sessions together against a tenth of the pool's memory */
		if ((uint64) MaxConnections * (small / 512) > Max(committed, UINT64CONST(1) << 30))
		{
			f->ok = false;
			appendStringInfo(&f->hint, "With max_connections = %d page tables may take more memory than the indexes themselves; use fewer sessions (a connection pooler)%s.",
							 MaxConnections, nm_pool_page_size == NM_POOL_PAGE_2MB ? "" : ", or numa_migrate.pool_page_size = 2MB");
		}
	}
}

static void
check_shmem_thp(Finding *f)
{
	char buf[256];

	f->ok = true;
	if (!read_text("/sys/kernel/mm/transparent_hugepage/shmem_enabled", buf, sizeof(buf)))
	{
		buf[0] = '\0';
		appendStringInfoString(&f->detail, "unknown: this kernel does not tell");
	}
	else
		appendStringInfo(&f->detail, "shmem_enabled: %s", buf);
	if (strstr(buf, "[always]") || strstr(buf, "[within_size]") || strstr(buf, "[force]"))
	{
		f->ok = false;
		appendStringInfoString(&f->hint, "Shared buffers may lie on transparent huge pages: a move takes 2 MB at once and more than was asked. Set it to never or advise for exact placement.");
	}
	else if (nm_preloaded() && nm_pool_page_size == NM_POOL_PAGE_2MB)
	{
		NmPoolStats stats;
		uint64 committed = 0;
		uint64 huge = 0;

		nm_pool_stats(nm_pool, &stats);
		for (int i = 0; i < stats.narenas; i++)
		{
			committed += stats.committed[i];
			huge += stats.huge[i];
		}
		appendStringInfoString(&f->detail, "; of the pool's ");
		append_bytes(&f->detail, committed);
		appendStringInfoString(&f->detail, ", ");
		append_bytes(&f->detail, huge);
		appendStringInfoString(&f->detail, " are known to lie on huge pages");
		if (huge < committed)
		{
			f->ok = false;
			appendStringInfoString(&f->hint, "The kernel had no huge pages for the rest, or can't be asked (before Linux 6.1); it lies on small pages, which is slower but nothing worse.");
		}
		if (strstr(buf, "[advise]") == NULL)
			appendStringInfo(&f->hint, "%sWith shmem_enabled set to advise the kernel makes the pool's huge pages at once instead of collapsing small ones.",
							 f->hint.len > 0 ? " " : "");
	}
}

static void
check_numa_balancing(Finding *f)
{
	int value = nm_get_caps()->numa_balancing;

	f->ok = value <= 0;
	if (value < 0)
		appendStringInfoString(&f->detail, "this kernel has no automatic balancing");
	else
		appendStringInfo(&f->detail, "kernel.numa_balancing = %d", value);
	if (value > 0)
		appendStringInfoString(&f->hint, "The kernel moves shared buffers to whoever touched them last, against our moves. sysctl kernel.numa_balancing=0; tree pages have their own policy and are left alone.");
}

static void
check_zone_reclaim(Finding *f)
{
	long value;

	if (!read_int("/proc/sys/vm/zone_reclaim_mode", &value))
	{
		f->ok = true;
		appendStringInfoString(&f->detail, "this kernel has no vm.zone_reclaim_mode");
		return;
	}
	f->ok = value == 0;
	appendStringInfo(&f->detail, "vm.zone_reclaim_mode = %ld", value);
	if (!f->ok)
		appendStringInfoString(&f->hint, "The kernel throws cached files out of a node before it uses another one's free memory. sysctl vm.zone_reclaim_mode=0.");
}

static void
check_overcommit(Finding *f)
{
	long mode,
		ratio = -1;

	if (!read_int("/proc/sys/vm/overcommit_memory", &mode))
	{
		f->ok = true;
		appendStringInfoString(&f->detail, "vm.overcommit_memory is unknown");
		return;
	}
	(void) read_int("/proc/sys/vm/overcommit_ratio", &ratio);
	f->ok = mode != 1;
	appendStringInfo(&f->detail, "vm.overcommit_memory = %ld", mode);
	if (mode == 2)
		appendStringInfo(&f->detail, " (ratio %ld): the pool is charged page by page, as it grows", ratio);
	else if (mode == 0)
		appendStringInfoString(&f->detail, ": the pool reserves address space only");
	else
		appendStringInfoString(&f->hint, "The kernel never refuses memory and kills a process when it runs out. vm.overcommit_memory=2 is safer for a database server.");
}

static void
check_cgroup(Finding *f)
{
	uint64 left = nm_cgroup_headroom();

	f->ok = true;
	if (left == PG_UINT64_MAX)
	{
		appendStringInfoString(&f->detail, "no memory limit");
		return;
	}
	appendStringInfoString(&f->detail, "memory limit with ");
	append_bytes(&f->detail, left);
	appendStringInfoString(&f->detail, " left");
	if (nm_preloaded())
	{
		NmPoolStats stats;
		uint64 committed = 0;

		nm_pool_stats(nm_pool, &stats);
		for (int i = 0; i < stats.narenas; i++)
			committed += stats.committed[i];
		if (stats.limit > committed && stats.limit - committed > left)
		{
			f->ok = false;
			appendStringInfoString(&f->hint, "numa_migrate.memory_limit lets indexes grow by ");
			append_bytes(&f->hint, stats.limit - committed);
			appendStringInfoString(&f->hint, ", more than is left: inserts will get an error first. Lower it, or raise the group's limit.");
		}
	}
}

static void
check_pool_policy(Finding *f)
{
	if (!nm_preloaded())
	{
		f->ok = false;
		appendStringInfoString(&f->detail, "no pool without preload");
		appendStringInfoString(&f->hint, "See item preload.");
		return;
	}
	f->ok = nm_pool->policy_set;
	if (f->ok)
		appendStringInfo(&f->detail, "%d arena(s), each with its node's memory policy", nm_pool->narenas);
	else
	{
		appendStringInfo(&f->detail, "memory policy could not be set (mbind: %s): a page lies where it was first touched",
						 strerror(nm_pool->mbind_errno));
		appendStringInfoString(&f->hint, "Containers need --cap-add SYS_NICE or a seccomp profile that allows mbind.");
	}
}

/* Not needed by this version; the item tells whether it would be there. */
static void
check_userfaultfd(Finding *f)
{
	long value = -1;
	int missing = nm_postcopy_probe(NM_PC_COPY);
	int minor = nm_postcopy_probe(NM_PC_CONTINUE);

	f->ok = true;
	if (missing == 0)
		appendStringInfo(&f->detail, "shared memory can be filled by who touches it; minor faults: %s", minor == 0 ? "yes" : strerror(minor));
	else
		appendStringInfo(&f->detail, "not available: %s", strerror(missing));
	if (read_int("/proc/sys/vm/unprivileged_userfaultfd", &value))
		appendStringInfo(&f->detail, ", vm.unprivileged_userfaultfd = %ld", value);
	appendStringInfoString(&f->detail, "; no feature of this version needs it");
}

static void
check_old_snapshot(Finding *f)
{
	f->ok = true;
#if PG_VERSION_NUM < 170000
	{
		const char *value = GetConfigOption("old_snapshot_threshold", true, false);

		appendStringInfo(&f->detail, "old_snapshot_threshold = %s", value ? value : "unknown");
		if (value && strcmp(value, "-1") != 0)
		{
			f->ok = false;
			appendStringInfoString(&f->hint, "While it is on, numa_btree indexes are not used by queries. Set it to -1 and restart.");
		}
	}
#else
	appendStringInfoString(&f->detail, "this version of PostgreSQL does not have it");
#endif
}

static void
check_worker(Finding *f)
{
	int pid = nm_migrator_pid();

	if (pid < 0)
	{
		f->ok = false;
		appendStringInfoString(&f->detail, "no worker without preload");
		appendStringInfoString(&f->hint, "See item preload.");
		return;
	}
	f->ok = pid != 0;
	if (f->ok)
		appendStringInfo(&f->detail, "the worker runs as process %d", pid);
	else
	{
		appendStringInfo(&f->detail, "the worker does not run; max_worker_processes = %d", max_worker_processes);
		appendStringInfoString(&f->hint, "Raise max_worker_processes and restart if other extensions take all slots; otherwise see the server's log, it is started again within seconds.");
	}
}

/*
 * numa.doctor() -> item, ok, detail, hint
 */
Datum
nm_sql_doctor(PG_FUNCTION_ARGS)
{
	static const struct
	{
		const char *item;
		void (*check)(Finding *f);
	} items[] = {
		{"preload", check_preload},
		{"nodes", check_nodes},
		{"engine", check_engine},
		{"move_pages", check_move_pages},
		{"move_pages2", check_move_pages2},
		{"CAP_SYS_NICE", check_cap_sys_nice},
		{"seccomp", check_seccomp},
		{"page pool", check_pool_policy},
		{"huge pages", check_huge_pages},
		{"page tables", check_page_tables},
		{"shmem THP", check_shmem_thp},
		{"kernel.numa_balancing", check_numa_balancing},
		{"zone_reclaim", check_zone_reclaim},
		{"overcommit", check_overcommit},
		{"memory cgroup", check_cgroup},
		{"userfaultfd", check_userfaultfd},
		{"old_snapshot_threshold", check_old_snapshot},
		{"worker slot", check_worker},
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char err[256];

	doctor_topo_whole = nm_topology_read(&doctor_topo, "", err, sizeof(err));
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < (int) lengthof(items); i++)
	{
		Finding f = {false};
		Datum values[4];
		bool nulls[4] = {0};

		initStringInfo(&f.detail);
		initStringInfo(&f.hint);
		items[i].check(&f);
		values[0] = CStringGetTextDatum(items[i].item);
		values[1] = BoolGetDatum(f.ok);
		values[2] = CStringGetTextDatum(f.detail.data);
		values[3] = CStringGetTextDatum(f.hint.data);
		nulls[3] = f.hint.len == 0;
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * topology.c
 *	  Memory nodes of the machine, read from sysfs and procfs.
 *
 * Files used, all below an optional prefix:
 *	sys/devices/system/node/online			which nodes exist now
 *	sys/devices/system/node/has_memory		... and have memory (N_MEMORY)
 *	sys/devices/system/node/nodeN/cpulist	CPUs
 *	sys/devices/system/node/nodeN/meminfo	total and free memory
 *	sys/devices/system/node/nodeN/distance	one number per online node
 *	proc/self/status						Mems_allowed_list (cpuset)
 *
 * Only "online" is trusted to exist: a kernel without NUMA has none of the
 * node files, a container may hide procfs.  What can't be read is taken as
 * "no restriction", because the kernel itself refuses a wrong target later and
 * says so page by page.
 *
 * IDENTIFICATION
 *	  src/topology.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS(nbits) (((nbits) + 63) / 64)

static inline bool
bit_get(const uint64_t *bits, int i)
{
	return (bits[i / 64] >> (i % 64)) & 1;
}

/*
 * Read a whole small file into buf, NUL-terminated.  Returns its length, or
 * -1 if it can't be read or doesn't fit (a file cut in the middle would be
 * read as another fact).
 */
static ssize_t
read_file(const char *root, const char *path, char *buf, size_t buflen)
{
	char name[PATH_MAX];
	size_t len = 0;
	int fd;

	if (snprintf(name, sizeof(name), "%s/%s", root, path) >= (int) sizeof(name))
		return -1;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	while (len < buflen)
	{
		ssize_t r = read(fd, buf + len, buflen - len);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
		{
			close(fd);
			return -1;
		}
		if (r == 0)
			break;
		len += (size_t) r;
	}
	close(fd);
	if (len == buflen)
		return -1;
	buf[len] = '\0';
	return (ssize_t) len;
}

/*
 * Walk over a list such as "0,2-3,8".  Calls set(arg, id) for every id;
 * returns false on bad syntax or an id >= nbits.  An empty list is good (a
 * node without CPUs prints one).
 */
static bool
walk_list(const char *list, long nbits, void (*set)(void *arg, long id), void *arg)
{
	const char *p = list;

	while (*p == ' ' || *p == '\t' || *p == '\n')
		p++;
	if (*p == '\0')
		return true;

	for (;;)
	{
		char *end;
		long from,
			to;

		while (*p == ' ' || *p == '\t')
			p++;
		if (*p < '0' || *p > '9')
			return false;
		errno = 0;
		from = to = strtol(p, &end, 10);
		if (errno != 0)
			return false;
		p = end;
		if (*p == '-')
		{
			p++;
			if (*p < '0' || *p > '9')
				return false;
			to = strtol(p, &end, 10);
			if (errno != 0)
				return false;
			p = end;
		}
		if (from > to || to >= nbits)
			return false;
		for (long id = from; id <= to; id++)
			set(arg, id);

		while (*p == ' ' || *p == '\t' || *p == '\n')
			p++;
		if (*p == '\0')
			return true;
		if (*p != ',')
			return false;
		p++;
	}
}

static void
set_bit(void *arg, long id)
{
	((uint64_t *) arg)[id / 64] |= UINT64_C(1) << (id % 64);
}

bool
nm_parse_node_list(const char *list, uint64_t *bits, int nbits)
{
	memset(bits, 0, WORDS(nbits) * sizeof(uint64_t));
	return walk_list(list, nbits, set_bit, bits);
}

/* Map of CPUs to one node. */
struct cpu_arg
{
	NmTopology *topo;
	int node;
	int ncpus;
};

static void
set_cpu(void *arg, long cpu)
{
	struct cpu_arg *a = arg;

	a->topo->cpu_node[cpu] = (int16_t) a->node;
	a->ncpus++;
}

/*
 * Value in bytes of a line "... Name:   123 kB" of a meminfo file; false if
 * there is no such line.
 */
static bool
meminfo_bytes(const char *text, const char *name, uint64_t *bytes)
{
	const char *p = strstr(text, name);

	if (p == NULL)
		return false;
	*bytes = strtoull(p + strlen(name), NULL, 10) * 1024;
	return true;
}

static void
read_memory(NmNode *node, const char *root, bool whole_machine)
{
	char path[64];
	char buf[16384];

	if (whole_machine)
		snprintf(path, sizeof(path), "proc/meminfo");
	else
		snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", node->id);
	if (read_file(root, path, buf, sizeof(buf)) < 0)
		return;
	if (!meminfo_bytes(buf, "MemTotal:", &node->total_bytes))
		node->total_bytes = 0;
	if (!meminfo_bytes(buf, "MemFree:", &node->free_bytes))
		node->free_bytes = 0;
}

/*
 * CPUs of a node: text as the kernel prints it, and the map.  The text is cut
 * at a comma, with "..." behind it, if it is longer than the field; the map is
 * always whole.
 */
static void
read_cpus(NmTopology *topo, NmNode *node, const char *root, const char *path)
{
	char buf[65536];
	struct cpu_arg arg = {topo, node->id, 0};
	char *end;

	if (read_file(root, path, buf, sizeof(buf)) < 0)
		return;
	end = buf + strcspn(buf, "\n");
	*end = '\0';
	walk_list(buf, NM_MAX_CPUS, set_cpu, &arg);
	node->has_cpu = arg.ncpus > 0;

	if ((size_t) (end - buf) < sizeof(node->cpus))
		strcpy(node->cpus, buf);
	else
	{
		size_t keep = sizeof(node->cpus) - 4;

		while (keep > 0 && buf[keep - 1] != ',')
			keep--;
		memcpy(node->cpus, buf, keep);
		strcpy(node->cpus + keep, "...");
	}
}

/*
 * Distances of a node.  The kernel prints one number per online node in
 * ascending order of their ids, which is the order of topo->nodes.
 */
static void
read_distances(const NmTopology *topo, NmNode *node, const char *root)
{
	char path[64];
	char buf[16384];
	char *p = buf;

	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/distance", node->id);
	if (read_file(root, path, buf, sizeof(buf)) < 0)
		buf[0] = '\0';
	for (int i = 0; i < topo->nnodes; i++)
	{
		char *end;
		long d = strtol(p, &end, 10);

		if (end == p)
			d = (topo->nodes[i].id == node->id) ? 10 : 20; /* ACPI's defaults */
		p = end;
		node->distance[i] = (int) d;
	}
}

bool
nm_topology_read(NmTopology *topo, const char *root, char *err, size_t errlen)
{
	uint64_t online[WORDS(NM_MAX_NODE_ID)];
	uint64_t memory[WORDS(NM_MAX_NODE_ID)];
	uint64_t allowed[WORDS(NM_MAX_NODE_ID)];
	bool have_memory_file = false;
	bool have_allowed = false;
	bool numa;
	int nonline = 0;
	char buf[16384];

	memset(topo, 0, sizeof(*topo));
	for (int i = 0; i < NM_MAX_CPUS; i++)
		topo->cpu_node[i] = -1;

	numa = read_file(root, "sys/devices/system/node/online", buf, sizeof(buf)) > 0 &&
		   nm_parse_node_list(buf, online, NM_MAX_NODE_ID);
	if (!numa)
	{
		memset(online, 0, sizeof(online));
		set_bit(online, 0);
	}

	if (read_file(root, "sys/devices/system/node/has_memory", buf, sizeof(buf)) >= 0)
		have_memory_file = nm_parse_node_list(buf, memory, NM_MAX_NODE_ID);

	if (read_file(root, "proc/self/status", buf, sizeof(buf)) > 0)
	{
		char *line = strstr(buf, "\nMems_allowed_list:");

		if (line != NULL)
		{
			line += strlen("\nMems_allowed_list:");
			line[strcspn(line, "\n")] = '\0';
			have_allowed = nm_parse_node_list(line, allowed, NM_MAX_NODE_ID);
		}
	}

	for (int id = 0; id < NM_MAX_NODE_ID; id++)
	{
		NmNode *node;

		if (!bit_get(online, id))
			continue;
		if (nonline++ >= NM_MAX_NODES)
			continue;
		node = &topo->nodes[topo->nnodes++];
		node->id = id;
		read_memory(node, root, !numa);
		if (numa)
		{
			char path[64];

			snprintf(path, sizeof(path), "sys/devices/system/node/node%d/cpulist", id);
			read_cpus(topo, node, root, path);
		}
		else
			read_cpus(topo, node, root, "sys/devices/system/cpu/online");

		/*
		 * has_memory also knows a node whose memory is being taken offline;
		 * total memory of zero overrules it.  Without the file the total
		 * decides, and without both there is memory if this is the only node.
		 */
		if (!numa)
			node->has_memory = true;
		else if (have_memory_file)
			node->has_memory = bit_get(memory, id) && node->total_bytes > 0;
		else
			node->has_memory = node->total_bytes > 0;
		node->allowed = node->has_memory &&
						(!numa || !have_allowed || bit_get(allowed, id));
	}

	for (int i = 0; i < topo->nnodes; i++)
		read_distances(topo, &topo->nodes[i], root);

	if (nonline > NM_MAX_NODES)
	{
		if (err != NULL)
			snprintf(err, errlen, "this machine has %d memory nodes, more than the %d that numa_migrate can describe",
					 nonline, NM_MAX_NODES);
		return false;
	}
	return true;
}

void
nm_topology_refresh_free(NmTopology *topo, const char *root)
{
	char name[PATH_MAX];
	bool numa;

	numa = snprintf(name, sizeof(name), "%s/sys/devices/system/node/online", root) < (int) sizeof(name) &&
		   access(name, R_OK) == 0;
	for (int i = 0; i < topo->nnodes; i++)
	{
		NmNode now = {.id = topo->nodes[i].id};

		read_memory(&now, root, !numa);
		topo->nodes[i].free_bytes = now.free_bytes;
	}
}

int
nm_topology_index(const NmTopology *topo, int node)
{
	int lo = 0,
		hi = topo->nnodes - 1;

	while (lo <= hi)
	{
		int mid = (lo + hi) / 2;

		if (topo->nodes[mid].id == node)
			return mid;
		if (topo->nodes[mid].id < node)
			lo = mid + 1;
		else
			hi = mid - 1;
	}
	return -1;
}

int
nm_current_node(const NmTopology *topo)
{
	unsigned int cpu,
		node;

	if (getcpu(&cpu, &node) != 0)
		return -1;
	if (nm_topology_index(topo, (int) node) >= 0)
		return (int) node;
	/* a node that came online after the topology was read */
	return cpu < NM_MAX_CPUS ? topo->cpu_node[cpu] : -1;
}

int
nm_topology_cpu_list(const NmTopology *topo, int node, char *buf, size_t buflen)
{
	size_t len = 0;

	if (buflen > 0)
		buf[0] = '\0';
	for (int cpu = 0; cpu < NM_MAX_CPUS; cpu++)
	{
		int last = cpu;

		if (topo->cpu_node[cpu] != node)
			continue;
		while (last + 1 < NM_MAX_CPUS && topo->cpu_node[last + 1] == node)
			last++;
		len += (size_t) snprintf(len < buflen ? buf + len : NULL, len < buflen ? buflen - len : 0,
								 last > cpu ? "%s%d-%d" : "%s%d", len > 0 ? "," : "", cpu, last);
		cpu = last;
	}
	return (int) len;
}

/*-------------------------------------------------------------------------
 *
 * test_topology.c
 *	  nm_topology_* on made-up machines and on this one.
 *
 * IDENTIFICATION
 *	  test/unit/mover/test_topology.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "topology.h"

#include "check.h"
#include "fake_root.h"

#include <stdarg.h>
#include <unistd.h>

static NmTopology topo;
static char err[256];

/* Ids with holes: numactl had bugs with {0,16,17} and {0,1,16,17}. */
static void
sparse_ids(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0,16-17", "0,16-17", "0,16-17");
	fake_node(root, 0, "0-3", 1000, 400, "10 20 30");
	fake_node(root, 16, "4-7", 2000, 500, "20 10 40");
	fake_node(root, 17, "8,10", 3000, 600, "30 40 10");

	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK_INT(topo.nnodes, 3);
	CHECK_INT(topo.nodes[0].id, 0);
	CHECK_INT(topo.nodes[1].id, 16);
	CHECK_INT(topo.nodes[2].id, 17);
	CHECK_INT(topo.nodes[1].total_bytes, 2000 * 1024);
	CHECK_INT(topo.nodes[1].free_bytes, 500 * 1024);
	CHECK_INT(topo.nodes[1].distance[2], 40);
	CHECK_INT(topo.nodes[2].distance[0], 30);
	CHECK_INT(topo.cpu_node[3], 0);
	CHECK_INT(topo.cpu_node[4], 16);
	CHECK_INT(topo.cpu_node[9], -1);
	CHECK_INT(topo.cpu_node[10], 17);
	CHECK_STR(topo.nodes[2].cpus, "8,10");
	CHECK(topo.nodes[0].allowed && topo.nodes[1].allowed && topo.nodes[2].allowed);
	CHECK_INT(nm_topology_index(&topo, 0), 0);
	CHECK_INT(nm_topology_index(&topo, 17), 2);
	CHECK_INT(nm_topology_index(&topo, 1), -1);
	CHECK_INT(nm_topology_index(&topo, 18), -1);
	CHECK_INT(nm_topology_index(&topo, -1), -1);
}

/* A node with CPUs and no memory is no target. */
static void
memoryless_node(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0-1", "0", "0");
	fake_node(root, 0, "0-1", 1000, 400, "10 20");
	fake_node(root, 1, "2-3", 0, 0, "20 10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK_INT(topo.nnodes, 2);
	CHECK(topo.nodes[1].has_cpu);
	CHECK(!topo.nodes[1].has_memory);
	CHECK(!topo.nodes[1].allowed);
	CHECK(topo.nodes[0].allowed);
	CHECK_INT(topo.cpu_node[2], 1);
}

/* The same without the has_memory file: total memory decides. */
static void
memoryless_node_old_kernel(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0-1", NULL, "0-1");
	fake_node(root, 0, "0-1", 1000, 400, "10 20");
	fake_node(root, 1, "2-3", 0, 0, "20 10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK(topo.nodes[0].allowed);
	CHECK(!topo.nodes[1].has_memory);
	CHECK(!topo.nodes[1].allowed);
}

/* CXL: memory and no CPU. */
static void
cpuless_node(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0-1", "0-1", "0-1");
	fake_node(root, 0, "0-1", 1000, 400, "10 20");
	fake_node(root, 1, "", 5000, 4000, "20 10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK(!topo.nodes[1].has_cpu);
	CHECK(topo.nodes[1].has_memory);
	CHECK(topo.nodes[1].allowed);
	CHECK_STR(topo.nodes[1].cpus, "");
}

static void
cpuset_narrower(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0-3", "0-3", "1,3");
	for (int i = 0; i < 4; i++)
	{
		char cpu[16];

		snprintf(cpu, sizeof(cpu), "%d", i);
		fake_node(root, i, cpu, 1000, 400, "10 20 20 20");
	}
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK(!topo.nodes[0].allowed);
	CHECK(topo.nodes[1].allowed);
	CHECK(!topo.nodes[2].allowed);
	CHECK(topo.nodes[3].allowed);
	CHECK(topo.nodes[0].has_memory);
}

/* A container may hide procfs: no restriction is known then. */
static void
no_procfs(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0-1", "0-1", NULL);
	fake_node(root, 0, "0", 1000, 400, "10 20");
	fake_node(root, 1, "1", 1000, 400, "20 10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK(topo.nodes[0].allowed && topo.nodes[1].allowed);
}

static void
highest_id(void)
{
	const char *root = fake_root_new();
	char node[16];

	snprintf(node, sizeof(node), "0,%d", NM_MAX_NODE_ID - 1);
	fake_node_list(root, node, node, node);
	fake_node(root, 0, "0", 1000, 400, "10 20");
	fake_node(root, NM_MAX_NODE_ID - 1, "1", 1000, 400, "20 10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK_INT(topo.nnodes, 2);
	CHECK_INT(topo.nodes[1].id, NM_MAX_NODE_ID - 1);
	CHECK(topo.nodes[1].allowed);
	CHECK_INT(topo.cpu_node[1], NM_MAX_NODE_ID - 1);
	CHECK_INT(nm_topology_index(&topo, NM_MAX_NODE_ID - 1), 1);
}

static void
too_many_nodes(void)
{
	const char *root = fake_root_new();
	char list[32];

	snprintf(list, sizeof(list), "0-%d", NM_MAX_NODES);
	fake_node_list(root, list, list, list);
	for (int i = 0; i <= NM_MAX_NODES; i++)
		fake_node(root, i, "", 1000, 400, "");
	err[0] = '\0';
	CHECK(!nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK(strstr(err, "65 memory nodes") != NULL);

	/* exactly as many as fit */
	root = fake_root_new();
	snprintf(list, sizeof(list), "0-%d", NM_MAX_NODES - 1);
	fake_node_list(root, list, list, list);
	for (int i = 0; i < NM_MAX_NODES; i++)
		fake_node(root, i, "", 1000, 400, "");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK_INT(topo.nnodes, NM_MAX_NODES);
	/* no distances in the file: ACPI's defaults */
	CHECK_INT(topo.nodes[5].distance[5], 10);
	CHECK_INT(topo.nodes[5].distance[6], 20);
}

static void
no_numa_kernel(void)
{
	const char *root = fake_root_new();

	fake_file(root, "sys/devices/system/cpu/online", "0-5\n");
	fake_file(root, "proc/meminfo", "MemTotal:       5000 kB\nMemFree:        123 kB\n");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	CHECK_INT(topo.nnodes, 1);
	CHECK_INT(topo.nodes[0].id, 0);
	CHECK(topo.nodes[0].allowed);
	CHECK_INT(topo.nodes[0].total_bytes, 5000 * 1024);
	CHECK_INT(topo.nodes[0].free_bytes, 123 * 1024);
	CHECK_STR(topo.nodes[0].cpus, "0-5");
	CHECK_INT(topo.cpu_node[5], 0);
	CHECK_INT(topo.cpu_node[6], -1);
	fake_file(root, "proc/meminfo", "MemTotal:       5000 kB\nMemFree:        77 kB\n");
	nm_topology_refresh_free(&topo, root);
	CHECK_INT(topo.nodes[0].free_bytes, 77 * 1024);
}

/* Every second CPU: the text does not fit, the map does. */
static void
long_cpu_list(void)
{
	const char *root = fake_root_new();
	static char list[32768];
	static char got[32768];
	size_t len = 0;

	for (int cpu = 0; cpu < NM_MAX_CPUS; cpu += 2)
		len += (size_t) snprintf(list + len, sizeof(list) - len, "%s%d", cpu ? "," : "", cpu);
	CHECK(len < sizeof(list));
	fake_node_list(root, "0", "0", "0");
	fake_node(root, 0, list, 1000, 400, "10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	len = strlen(topo.nodes[0].cpus);
	CHECK(len < sizeof(topo.nodes[0].cpus));
	CHECK_STR(topo.nodes[0].cpus + len - 4, ",...");
	CHECK_INT(topo.cpu_node[NM_MAX_CPUS - 2], 0);
	CHECK_INT(topo.cpu_node[NM_MAX_CPUS - 1], -1);
	CHECK_INT(nm_topology_cpu_list(&topo, 0, NULL, 0), strlen(list));
	nm_topology_cpu_list(&topo, 0, got, sizeof(got));
	CHECK_STR(got, list);
	/* cut by the caller's buffer, as snprintf */
	CHECK_INT(nm_topology_cpu_list(&topo, 0, got, 8), strlen(list));
	CHECK_STR(got, "0,2,4,6");
}

static void
cpu_ranges(void)
{
	char got[64];

	memset(&topo, 0, sizeof(topo));
	for (int i = 0; i < NM_MAX_CPUS; i++)
		topo.cpu_node[i] = -1;
	for (int i = 0; i < 4; i++)
		topo.cpu_node[i] = topo.cpu_node[i + 8] = 3;
	topo.cpu_node[NM_MAX_CPUS - 1] = 3;
	nm_topology_cpu_list(&topo, 3, got, sizeof(got));
	CHECK_STR(got, "0-3,8-11,8191");
	CHECK_INT(nm_topology_cpu_list(&topo, 4, got, sizeof(got)), 0);
	CHECK_STR(got, "");
}

static void
refresh_free(void)
{
	const char *root = fake_root_new();

	fake_node_list(root, "0,2", "0,2", "0,2");
	fake_node(root, 0, "0", 1000, 400, "10 20");
	fake_node(root, 2, "1", 1000, 500, "20 10");
	CHECK(nm_topology_read(&topo, root, err, sizeof(err)));
	fake_node(root, 2, "1", 9999, 7, "99 99");
	nm_topology_refresh_free(&topo, root);
	CHECK_INT(topo.nodes[1].free_bytes, 7 * 1024);
	CHECK_INT(topo.nodes[1].total_bytes, 1000 * 1024);
	CHECK_INT(topo.nodes[1].distance[0], 20);
	CHECK_INT(topo.nodes[0].free_bytes, 400 * 1024);
}

static void
node_lists(void)
{
	uint64_t bits[16];
	static const char *const bad[] = {
		"x", "1-", "-1", "1,,2", ",", "1,", "2-1", "1 2", "0x1", "1-2-3",
		"64", "0-64", "99999999999999999999", "1;2", NULL};

	CHECK(nm_parse_node_list("0,2-3", bits, 64));
	CHECK_INT(bits[0], 0xd);
	CHECK(nm_parse_node_list(" 1 , 3\n", bits, 64));
	CHECK_INT(bits[0], 0xa);
	CHECK(nm_parse_node_list("", bits, 64));
	CHECK_INT(bits[0], 0);
	CHECK(nm_parse_node_list("63", bits, 64));
	CHECK(bits[0] == UINT64_C(1) << 63);
	CHECK(nm_parse_node_list("1023", bits, 1024));
	CHECK(bits[15] == UINT64_C(1) << 63);
	CHECK(!nm_parse_node_list("1024", bits, 1024));
	for (int i = 0; bad[i]; i++)
	{
		if (nm_parse_node_list(bad[i], bits, 64))
			printf("#   accepted \"%s\"\n", bad[i]);
		CHECK(!nm_parse_node_list(bad[i], bits, 64));
	}
}

static void
this_machine(void)
{
	int allowed = 0;
	uint64_t total = 0;
	int here;

	CHECK(nm_topology_read(&topo, "", err, sizeof(err)));
	CHECK(topo.nnodes >= 1);
	for (int i = 0; i < topo.nnodes; i++)
	{
		allowed += topo.nodes[i].allowed;
		total += topo.nodes[i].total_bytes;
		CHECK(topo.nodes[i].free_bytes <= topo.nodes[i].total_bytes);
		if (topo.nodes[i].has_memory)
			CHECK_INT(topo.nodes[i].distance[i], 10);
	}
	CHECK(allowed >= 1);
	CHECK(total > 64 * 1024 * 1024);
	here = nm_current_node(&topo);
	CHECK(nm_topology_index(&topo, here) >= 0);
	CHECK(topo.nodes[nm_topology_index(&topo, here)].has_cpu);
}

int
main(void)
{
	RUN(sparse_ids);
	RUN(memoryless_node);
	RUN(memoryless_node_old_kernel);
	RUN(cpuless_node);
	RUN(cpuset_narrower);
	RUN(no_procfs);
	RUN(highest_id);
	RUN(too_many_nodes);
	RUN(no_numa_kernel);
	RUN(long_cpu_list);
	RUN(cpu_ranges);
	RUN(refresh_free);
	RUN(node_lists);
	RUN(this_machine);
	fake_root_remove_all();
	return FINISH();
}

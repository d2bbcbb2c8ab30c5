/*-------------------------------------------------------------------------
 *
 * topology.h
 *	  Memory nodes of the machine: ids, CPUs, memory, distances, permission.
 *
 * Node ids are the kernel's and may be sparse ({0,16,17}); nothing here
 * assumes 0..n-1.  A node may have CPUs and no memory, or memory and no CPU
 * (CXL).  "Allowed" means in this process's Mems_allowed (cpuset) and with
 * memory.  Read from sysfs and procfs; no library.
 *
 * IDENTIFICATION
 *	  src/topology.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TOPOLOGY_H
#define NM_TOPOLOGY_H

#include "port.h"

#define NM_MAX_NODES   64	/* nodes we can describe; more are refused */
#define NM_MAX_NODE_ID 1024 /* kernel ids are below this (NODES_SHIFT <= 10) */
#define NM_MAX_CPUS	   8192 /* the kernel's own limit (NR_CPUS) */

typedef struct NmNode
{
	int id; /* the kernel's node id */
	bool has_memory;
	bool has_cpu;
	bool allowed; /* in Mems_allowed, and has memory */
	uint64_t total_bytes;
	uint64_t free_bytes;
	char cpus[256];				/* list format, as sysfs prints it: "0-3,8"; a
								 * longer list ends in "...", see
								 * nm_topology_cpu_list */
	int distance[NM_MAX_NODES]; /* by position in NmTopology.nodes */
} NmNode;

typedef struct NmTopology
{
	int nnodes;
	NmNode nodes[NM_MAX_NODES];	   /* ascending by id */
	int16_t cpu_node[NM_MAX_CPUS]; /* CPU -> kernel node id, -1 unknown */
} NmTopology;

/*
 * Fill *topo.  root is a prefix for /sys and /proc ("" for the real machine),
 * so that tests can present sparse or memoryless nodes.  Returns false with a
 * message in err only if there are more than NM_MAX_NODES nodes; a kernel
 * without NUMA yields one node 0 with all CPUs.
 */
extern bool nm_topology_read(NmTopology *topo, const char *root, char *err, size_t errlen);

/* Refresh only free_bytes of every node. */
extern void nm_topology_refresh_free(NmTopology *topo, const char *root);

/* Position of a kernel node id in topo->nodes, or -1. */
extern int nm_topology_index(const NmTopology *topo, int node);

/* Kernel node id the calling thread runs on now (vDSO getcpu), -1 unknown. */
extern int nm_current_node(const NmTopology *topo);

/*
 * Whole CPU list of a node from the map, however long.  As snprintf: returns
 * the length it has or would have.
 */
extern int nm_topology_cpu_list(const NmTopology *topo, int node, char *buf, size_t buflen);

/*
 * Parse a list such as "0,2-3" into a bitmap over kernel ids (64 bits per
 * word).  Returns false on bad syntax or an id >= nbits.
 */
extern bool nm_parse_node_list(const char *list, uint64_t *bits, int nbits);

#endif /* NM_TOPOLOGY_H */

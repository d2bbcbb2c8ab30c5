/*-------------------------------------------------------------------------
 *
 * sql_api.h
 *	  What the SQL functions on topology, placement and moves share.
 *
 *	sql_api.c		arguments, relations, privileges, what can be asked
 *	sql_topology.c	numa.topology
 *	sql_doctor.c	numa.doctor
 *	sql_placement.c	numa.buffer_placement, numa.relation_placement
 *	sql_move.c		numa.move_relation, spread_relation, balance_buffers
 *	sql_tree.c		the same for the pages of a numa_btree index
 *	sql_settings.c	numa.set_mode, set_batch, get_mode, get_batch
 *
 * Include after postgres.h.
 *
 * Without preload: topology, doctor, placement of shared buffers and the
 * settings work, since they need nothing of ours in shared memory; everything
 * that moves or looks at trees raises 55000.
 *
 * IDENTIFICATION
 *	  src/sql_api.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_SQL_API_H
#define NM_SQL_API_H

#include "numa_migrate.h"

#include "fmgr.h"
#include "migrator/migrator.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* ---- arguments (sql_api.c) ---- */

/*
 * Nodes as they are now: cpusets and memory change while a server runs, so
 * this is read anew.  Valid until the next call.  ERROR 54000 if there are
 * more than can be described.
 */
extern const NmTopology *nm_topology_now(void);

/*
 * ERROR 22023 (no such node) or 55000 (not allowed, no memory, not in
 * numa_migrate.nodes).
 */
extern void nm_check_target_node(const NmTopology *topo, int node);

/*
 * A list of target nodes: argument argno (int[]), each checked; a node named
 * k times counts k times.  NULL means numa_migrate.nodes, or all allowed.
 */
typedef struct NmNodeList
{
	int n;
	int node[NM_MAX_NODES * 16];
} NmNodeList;
extern void nm_node_list_arg(FunctionCallInfo fcinfo, int argno,
							 const NmTopology *topo, NmNodeList *list);

extern bool nm_mode_by_name(const char *name, NmMode *mode);
extern NmMode nm_check_mode(const char *name); /* ERROR 22023 */
extern void nm_check_batch(int batch);		   /* ERROR 22023 */

/* ---- relations (sql_api.c) ---- */

/*
 * Open with AccessShareLock.  *tree tells whether it is a numa_btree index,
 * whose memory is tree pages, not shared buffers.  ERRORs: 22023 without
 * storage, 0A000 temporary (own tree excepted), and for a move also catalog,
 * TOAST, 42501.
 */
extern Relation nm_open_to_look(Oid relid, bool *tree);
extern Relation nm_open_to_move(Oid relid, bool *tree);

/* ---- shared buffers (see also migrator.h) ---- */

/* Header word of buffer i, read without a lock. */
static inline uint64
nm_buffer_state(int i)
{
#if PG_VERSION_NUM >= 190000
	return pg_atomic_read_u64(&GetBufferDescriptor(i)->state);
#else
	return pg_atomic_read_u32(&GetBufferDescriptor(i)->state);
#endif
}

/* ---- asking the kernel (sql_api.c) ---- */

/*
 * Can placement be asked at all?  ERROR 55000 with the cause if not.
 */
extern const NmMoverCaps *nm_require_query(void);

/* Options for nm_query_nodes with cancel between calls. */
extern void nm_query_options(NmMoveOptions *opt, size_t page_size, bool hugetlb);

/* ---- moves of shared buffers (sql_move.c) ---- */

/*
 * Unless page moves are possible: ERROR 55000.  Fills the options but for the
 * page size, and says what of the wishes is not met.
 */
extern void nm_move_begin(NmMoveOptions *opt, const char *what, bool mode_given,
						  NmMode mode, int batch);

/* One row: asked, moved, already, busy, denied, absent, failed, calls, elapsed_ms */
extern Datum nm_move_result(FunctionCallInfo fcinfo, const NmMoveStats *stats);

/* ---- tree pages (sql_tree.c) ---- */

/* Relocate every page of the index's tree to list->node[logical id % n]. */
extern void nm_tree_spread(Relation index, const NmNodeList *list, NmMoveStats *stats);

/* A count of pages on each node; [NM_MAX_NODE_ID] for "not resident". */
typedef struct NmPageCount
{
	int64 pages[NM_MAX_NODE_ID + 1];
	int64 bytes[NM_MAX_NODE_ID + 1];
} NmPageCount;
extern void nm_tree_placement(Relation index, NmPageCount *tree, NmPageCount *overflow);

static inline int
nm_count_slot(int status)
{
	return status >= 0 && status < NM_MAX_NODE_ID ? status : NM_MAX_NODE_ID;
}

#endif /* NM_SQL_API_H */

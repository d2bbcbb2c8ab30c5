/*-------------------------------------------------------------------------
 *
 * sql_api.c
 *	  Arguments, relations and privileges of the SQL functions.
 *
 * IDENTIFICATION
 *	  src/sql_api.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>

#include "sql_api.h"

#include "access/relation.h"
#include "am/am.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

static bool query_tick(void *arg);

const NmTopology *
nm_topology_now(void)
{
	static NmTopology *topo = NULL;
	char err[256];

	if (topo == NULL)
		topo = MemoryContextAlloc(TopMemoryContext, sizeof(NmTopology));
	if (!nm_topology_read(topo, "", err, sizeof(err)))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%s", err)));
	return topo;
}

/* "0, 16, 17": all nodes, or the allowed ones. */
static char *
node_names(const NmTopology *topo, bool allowed)
{
	StringInfoData s;

	initStringInfo(&s);
	for (int i = 0; i < topo->nnodes; i++)
	{
		if (allowed && !topo->nodes[i].allowed)
			continue;
		appendStringInfo(&s, "%s%d", s.len > 0 ? ", " : "", topo->nodes[i].id);
	}
	return s.len > 0 ? s.data : "none";
}

/* May pages go to this node, as far as numa_migrate.nodes says? */
static bool
in_setting(int node)
{
	uint64_t bits[NM_MAX_NODE_ID / 64];

	if (nm_nodes == NULL || nm_nodes[0] == '\0' ||
		!nm_parse_node_list(nm_nodes, bits, NM_MAX_NODE_ID))
		return true;
	return node >= 0 && node < NM_MAX_NODE_ID && ((bits[node / 64] >> (node % 64)) & 1) != 0;
}

void
nm_check_target_node(const NmTopology *topo, int node)
{
	int pos = nm_topology_index(topo, node);

	if (pos < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("memory node %d does not exist", node),
				 errhint("Nodes of this machine: %s. See numa.topology().",
						 node_names(topo, false))));
	if (!topo->nodes[pos].has_memory)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("node %d has no memory", node),
				 errhint("Nodes that can hold pages: %s. See numa.topology().",
						 node_names(topo, true))));
	if (!topo->nodes[pos].allowed)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("memory node %d is not allowed for this server", node),
				 errdetail("The server's cpuset does not include it."),
				 errhint("Nodes that are allowed: %s. Change AllowedMemoryNodes or cpuset.mems of the service for more.",
						 node_names(topo, true))));
	if (!in_setting(node))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("memory node %d is not in numa_migrate.nodes", node),
				 errdetail("The setting is \"%s\".", nm_nodes),
				 errhint("Choose one of those nodes, or have an administrator change the setting.")));
}

/*
 * The default list: numa_migrate.nodes, or every allowed node.  A node in the
 * setting that is not usable now is left out rather than refused, as the
 * worker does.
 */
static void
default_nodes(const NmTopology *topo, NmNodeList *list)
{
	list->n = 0;
	for (int i = 0; i < topo->nnodes; i++)
	{
		if (topo->nodes[i].allowed && in_setting(topo->nodes[i].id))
			list->node[list->n++] = topo->nodes[i].id;
	}
	if (list->n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no memory node of numa_migrate.nodes can be used now"),
				 errdetail("The setting is \"%s\"; nodes that are allowed: %s.",
						   nm_nodes ? nm_nodes : "", node_names(topo, true)),
				 errhint("Change numa_migrate.nodes, or name the nodes in the call.")));
}

void
nm_node_list_arg(FunctionCallInfo fcinfo, int argno, const NmTopology *topo, NmNodeList *list)
{
	ArrayType *array;
	Datum *elems;
	bool *nulls;
	int n;

	if (PG_ARGISNULL(argno))
	{
		default_nodes(topo, list);
		return;
	}

	array = PG_GETARG_ARRAYTYPE_P(argno);
	if (ARR_NDIM(array) > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("list of nodes must have one dimension"),
				 errhint("Write it like '{0,1}'.")));
	deconstruct_array(array, INT4OID, sizeof(int32), true, TYPALIGN_INT, &elems, &nulls, &n);
	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("list of nodes is empty"),
				 errhint("Give NULL for all allowed nodes.")));
	if (n > (int) lengthof(list->node))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("list of nodes has %d entries, more than %d", n, (int) lengthof(list->node)),
				 errhint("Use smaller weights.")));
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("list of nodes must not contain null"),
					 errhint("Give NULL in place of the list for all allowed nodes.")));
		list->node[i] = DatumGetInt32(elems[i]);
		nm_check_target_node(topo, list->node[i]);
	}
	list->n = n;
}

bool
nm_mode_by_name(const char *name, NmMode *mode)
{
	static const NmMode all[] = {NM_MODE_AUTO, NM_MODE_ASYNC, NM_MODE_SYNC_LIGHT, NM_MODE_SYNC};

	for (int i = 0; i < (int) lengthof(all); i++)
	{
		if (pg_strcasecmp(name, nm_mode_name(all[i])) == 0)
		{
			*mode = all[i];
			return true;
		}
	}
	return false;
}

NmMode
nm_check_mode(const char *name)
{
	NmMode mode;

	if (!nm_mode_by_name(name, &mode))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown migration mode \"%s\"", name),
				 errhint("Modes are auto, async, sync_light and sync.")));
	return mode;
}

void
nm_check_batch(int batch)
{
	if (batch < 0 || batch > NM_BATCH_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("batch of %d pages is outside the range 0 to %d", batch, NM_BATCH_MAX),
				 errhint("0 chooses automatically; 8 to 128 keeps pauses of other sessions short.")));
}

/*
 * Owner, superuser or (17 and later) holder of MAINTAIN; for an index its
 * table's, as for REINDEX.
 */
static void
check_move_privilege(Relation rel)
{
	Oid relid = RelationGetRelid(rel);
	bool allowed;

#if PG_VERSION_NUM >= 160000
	allowed = object_ownercheck(RelationRelationId, relid, GetUserId());
#else
	allowed = pg_class_ownercheck(relid, GetUserId());
#endif
#if PG_VERSION_NUM >= 170000
	if (!allowed)
	{
		Oid table = relid;

		if (rel->rd_rel->relkind == RELKIND_INDEX)
			table = IndexGetRelation(relid, true);
		allowed = OidIsValid(table) &&
				  pg_class_aclcheck(table, GetUserId(), ACL_MAINTAIN) == ACLCHECK_OK;
	}
#endif
	if (!allowed)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of relation \"%s\" to move its pages",
						RelationGetRelationName(rel)),
#if PG_VERSION_NUM >= 170000
				 errhint("The owner, a superuser and roles with MAINTAIN on the table may.")
#else
				 errhint("The owner and superusers may.")
#endif
					 ));
}

static Relation
open_relation(Oid relid, bool *tree)
{
	Relation rel = try_relation_open(relid, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid),
				 errhint("It may have been dropped meanwhile.")));
	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
	{
		bool partitioned = rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE ||
						   rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX;

		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("relation \"%s\" has no storage", RelationGetRelationName(rel)),
				 partitioned ? errhint("Name its partitions, which hold the data; see pg_partition_tree().") : errhint("Name a table, materialized view, sequence or index.")));
	}
	*tree = nm_is_numa_btree(rel);

	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("relation \"%s\" is a temporary relation of another session",
						RelationGetRelationName(rel)),
				 errhint("Its pages are in that session's own memory; only that session reaches them.")));

	/* The tree of an own temporary table is in the pool like any other. */
	if (RelationUsesLocalBuffers(rel) && !*tree)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("relation \"%s\" is temporary and not in shared buffers",
						RelationGetRelationName(rel)),
				 errhint("This session's own memory holds it, on the node where the session first used it.")));
	return rel;
}

Relation
nm_open_to_look(Oid relid, bool *tree)
{
	return open_relation(relid, tree);
}

Relation
nm_open_to_move(Oid relid, bool *tree)
{
	Relation rel = open_relation(relid, tree);

	if (IsCatalogRelation(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move system catalog \"%s\"", RelationGetRelationName(rel)),
				 errhint("numa.balance_buffers() evens all shared buffers, catalogs included.")));
	if (IsToastRelation(rel) || IsToastNamespace(RelationGetNamespace(rel)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move TOAST relation \"%s\"", RelationGetRelationName(rel)),
				 errhint("numa.balance_buffers() evens all shared buffers, TOAST included.")));
	check_move_privilege(rel);
	return rel;
}

const NmMoverCaps *
nm_require_query(void)
{
	const NmMoverCaps *caps = nm_get_caps();

	if (!caps->move_pages && !caps->move_pages2 && !caps->get_mempolicy)
	{
		errno = caps->move_pages_errno;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot ask the kernel where memory is"),
				 errdetail("System call move_pages: %m."),
				 caps->move_pages_errno == EPERM ? errhint("A seccomp filter refuses the call, as in a container. Start the container with --cap-add SYS_NICE or a seccomp profile that allows move_pages and mbind.") : errhint("The kernel must be built with CONFIG_NUMA and CONFIG_MIGRATION.")));
	}
	return caps;
}

static bool
query_tick(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return true;
}

void
nm_query_options(NmMoveOptions *opt, size_t page_size, bool hugetlb)
{
	memset(opt, 0, sizeof(*opt));
	opt->engine = NM_ENGINE_AUTO;
	opt->mode = NM_MODE_ASYNC;
	opt->page_size = page_size;
	opt->hugetlb = hugetlb;
	opt->tick = query_tick;
}

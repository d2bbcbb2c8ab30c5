/*-------------------------------------------------------------------------
 *
 * sql_topology.c
 *	  numa.topology(): the machine's memory nodes.
 *
 * IDENTIFICATION
 *	  src/sql_topology.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sql_api.h"

#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(nm_sql_topology);

/*
 * numa.topology() -> node, cpus, total_bytes, free_bytes, distances, allowed
 *
 * distances are in the order of the rows.
 */
Datum
nm_sql_topology(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const NmTopology *topo = nm_topology_now();

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < topo->nnodes; i++)
	{
		const NmNode *node = &topo->nodes[i];
		Datum values[6];
		bool nulls[6] = {0};
		Datum distances[NM_MAX_NODES];
		int len = nm_topology_cpu_list(topo, node->id, NULL, 0);
		char *cpus = palloc(len + 1);

		nm_topology_cpu_list(topo, node->id, cpus, len + 1);
		for (int k = 0; k < topo->nnodes; k++)
			distances[k] = Int32GetDatum(node->distance[k]);

		values[0] = Int32GetDatum(node->id);
		values[1] = CStringGetTextDatum(cpus);
		values[2] = Int64GetDatum((int64) node->total_bytes);
		values[3] = Int64GetDatum((int64) node->free_bytes);
		values[4] = PointerGetDatum(construct_array(distances, topo->nnodes, INT4OID,
													sizeof(int32), true, TYPALIGN_INT));
		values[5] = BoolGetDatum(node->allowed);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * sql_pool.c
 *	  numa.stat_pool: memory of the page pool.
 *
 * IDENTIFICATION
 *	  src/sql_pool.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sql_api.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(nm_sql_stat_pool);

/*
 * numa.stat_pool_info() -> node, reserved_bytes, committed_bytes, used_bytes,
 * retired_bytes, limit_bytes, refusals
 *
 * One row per arena.  retired_bytes (pages that wait until no process can look
 * at them; part of used_bytes), limit_bytes and refusals are of the whole pool
 * and stand in every row.  Retired pages that may go are freed first, so that
 * the figures are those of a quiet server.
 */
Datum
nm_sql_stat_pool(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	NmPoolStats stats;

	nm_require_preload("show the page pool");
	(void) nm_pool_reclaim(nm_pool);
	nm_pool_stats(nm_pool, &stats);

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < stats.narenas; i++)
	{
		Datum values[7];
		bool nulls[7] = {0};

		values[0] = Int32GetDatum(stats.nodes[i]);
		values[1] = Int64GetDatum((int64) stats.reserved[i]);
		values[2] = Int64GetDatum((int64) stats.committed[i]);
		values[3] = Int64GetDatum((int64) stats.used[i]);
		values[4] = Int64GetDatum((int64) stats.retired);
		values[5] = Int64GetDatum((int64) stats.limit);
		values[6] = Int64GetDatum((int64) stats.refusals);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

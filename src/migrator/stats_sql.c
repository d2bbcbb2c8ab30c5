/*-------------------------------------------------------------------------
 *
 * stats_sql.c
 *	  SQL functions behind numa.stat_migrator, stat_moves and stat_access.
 *
 * IDENTIFICATION
 *	  src/migrator/stats_sql.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "access/htup_details.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#if PG_VERSION_NUM >= 160000
#include "utils/relfilenumbermap.h"
#define relation_of_storage(spc, rel) RelidByRelfilenumber(spc, rel)
#else
#include "utils/relfilenodemap.h"
#define relation_of_storage(spc, rel) RelidByRelfilenode(spc, rel)
#endif

PG_FUNCTION_INFO_V1(nm_sql_stat_migrator);
PG_FUNCTION_INFO_V1(nm_sql_stat_moves);
PG_FUNCTION_INFO_V1(nm_sql_stat_access);
PG_FUNCTION_INFO_V1(nm_sql_stat_reset);

static const char *const state_names[] = {
	"not running", "watching", "idle", "moving", "backing off"};

/* Counters need shared memory only, not the pool. */
static void
need_counters(const char *what)
{
	if (nm_migrator == NULL)
		nm_require_preload(what);
}

/* One row about the worker. */
Datum
nm_sql_stat_migrator(PG_FUNCTION_ARGS)
{
#define MIGRATOR_COLS 20
	TupleDesc tupdesc;
	Datum values[MIGRATOR_COLS];
	bool nulls[MIGRATOR_COLS] = {0};
	NmMigratorShared m;
	int i = 0;

	need_counters("show the migrator's counters");
	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_SHARED);
	memcpy(&m, nm_migrator, sizeof(m));
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));

	nulls[i] = m.pid == 0;
	values[i++] = Int32GetDatum(m.pid);
	values[i++] = CStringGetTextDatum(state_names[m.state]);
	nulls[i] = m.pid == 0;
	values[i++] = TimestampTzGetDatum(m.started);
	values[i++] = Int64GetDatum(m.counters.rounds);
	values[i++] = Int64GetDatum(m.counters.samples);
	values[i++] = Int64GetDatum(m.counters.dropped);
	values[i++] = Int64GetDatum(m.counters.forgotten);
	values[i++] = Int64GetDatum(m.counters.local);
	values[i++] = Int64GetDatum(m.counters.remote);
	values[i++] = Int64GetDatum(m.counters.unknown);
	values[i++] = Int64GetDatum(m.counters.moves);
	values[i++] = Int64GetDatum(m.counters.drifted);
	values[i++] = Int64GetDatum(m.counters.errors);
	nulls[i] = m.error_text[0] == '\0';
	values[i++] = CStringGetTextDatum(m.error_text);
	nulls[i] = m.error_text[0] == '\0';
	values[i++] = TimestampTzGetDatum(m.error_time);
	values[i++] = CStringGetTextDatum(nm_mode_name((NmMode) m.mode));
	values[i++] = Int32GetDatum(m.batch);
	nulls[i] = m.pid == 0;
	values[i++] = CStringGetTextDatum(nm_engine_name((NmEngine) m.engine));
	values[i++] = Float8GetDatum(m.pause_ms);
	values[i++] = TimestampTzGetDatum(m.since);
	Assert(i == MIGRATOR_COLS);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls)));
}

/* kind x by_worker: four rows, always. */
Datum
nm_sql_stat_moves(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	need_counters("show the counters of moves");
	InitMaterializedSRF(fcinfo, 0);
	for (int kind = 0; kind < NM_MOVE_KINDS; kind++)
		for (int who = 0; who < 2; who++)
		{
			NmMoveCounters *c = &nm_migrator->moves[kind][who];
			Datum values[11];
			bool nulls[11] = {0};

			values[0] = CStringGetTextDatum(kind == NM_MOVE_TREE ? "tree" : "buffers");
			values[1] = BoolGetDatum(who == 1);
			values[2] = Int64GetDatum(pg_atomic_read_u64(&c->asked));
			values[3] = Int64GetDatum(pg_atomic_read_u64(&c->moved));
			values[4] = Int64GetDatum(pg_atomic_read_u64(&c->already));
			values[5] = Int64GetDatum(pg_atomic_read_u64(&c->busy));
			values[6] = Int64GetDatum(pg_atomic_read_u64(&c->denied));
			values[7] = Int64GetDatum(pg_atomic_read_u64(&c->absent));
			values[8] = Int64GetDatum(pg_atomic_read_u64(&c->failed));
			values[9] = Int64GetDatum(pg_atomic_read_u64(&c->calls));
			values[10] = Float8GetDatum(pg_atomic_read_u64(&c->elapsed_us) / 1000.0);
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
		}
	PG_RETURN_VOID();
}

/*
 * Sampled accesses per relation or tree, node they came from and node the page
 * was on at the time.
 */
Datum
nm_sql_stat_access(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char *copy;
	Size size;
	int nnodes;

	need_counters("show sampled accesses");
	InitMaterializedSRF(fcinfo, 0);
	nnodes = nm_migrator->nnodes;
	size = NM_ACCESS_STATS * nm_migrator->access_stride;
	copy = MemoryContextAllocHuge(CurrentMemoryContext, size);

	/* Copied first: looking up relations must not happen under the lock. */
	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_SHARED);
	memcpy(copy, nm_access_stat(0), size);
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));

	for (int i = 0; i < NM_ACCESS_STATS; i++)
	{
		NmAccessStat *stat = (NmAccessStat *) (copy + i * nm_migrator->access_stride);
		Oid relid = InvalidOid;

		if (stat->kind == 0)
			continue;
		if (stat->rel != InvalidOid &&
			(stat->db == MyDatabaseId || stat->db == InvalidOid))
			relid = relation_of_storage(stat->spc, stat->rel);
		for (int from = 0; from < nnodes; from++)
			for (int at = 0; at <= nnodes; at++)
			{
				NmAccessCell *cell = &stat->cell[from * (nnodes + 1) + at];
				Datum values[8];
				bool nulls[8] = {0};

				if (cell->samples == 0)
					continue;
				values[0] = CStringGetTextDatum(stat->kind == NM_SAMPLE_LEAF ? "tree" : "buffers");
				nulls[1] = stat->rel == InvalidOid;
				values[1] = ObjectIdGetDatum(stat->db);
				nulls[2] = stat->rel == InvalidOid;
				values[2] = ObjectIdGetDatum(stat->rel);
				nulls[3] = !OidIsValid(relid);
				values[3] = ObjectIdGetDatum(relid);
				values[4] = Int32GetDatum(nm_topology.nodes[from].id);
				nulls[5] = at == nnodes;
				values[5] = Int32GetDatum(at == nnodes ? 0 : nm_topology.nodes[at].id);
				values[6] = Int64GetDatum(cell->samples);
				values[7] = Int64GetDatum(cell->accesses);
				tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
			}
		CHECK_FOR_INTERRUPTS();
	}
	pfree(copy);
	PG_RETURN_VOID();
}

Datum
nm_sql_stat_reset(PG_FUNCTION_ARGS)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to reset the statistics of numa_migrate"),
				 errhint("Only a superuser may do this.")));
	need_counters("reset statistics");
	nm_stat_reset();
	PG_RETURN_VOID();
}

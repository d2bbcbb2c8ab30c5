/*-------------------------------------------------------------------------
 *
 * stat.c
 *	  SQL: numa.btree_load(), numa.btree_unload(), numa.stat_btree.
 *
 * IDENTIFICATION
 *	  src/am/stat.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "access/relation.h"
#include "access/table.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(nm_sql_btree_load);
PG_FUNCTION_INFO_V1(nm_sql_btree_unload);
PG_FUNCTION_INFO_V1(nm_sql_stat_btree);

#define STAT_COLUMNS 26

static Relation open_own_index(Oid indexoid, Relation *heap, const char *what);
static const char *state_name(NmState state);

/*
 * Open an index of ours and, first, its table; the user may maintain it.
 */
static Relation
open_own_index(Oid indexoid, Relation *heap, const char *what)
{
	Oid heapoid = IndexGetRelation(indexoid, true);
	Relation index;
	bool allowed;

	*heap = OidIsValid(heapoid) ? try_table_open(heapoid, AccessShareLock) : NULL;
	index = try_relation_open(indexoid, AccessShareLock);
	if (index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", indexoid)));
	if (!nm_is_numa_btree(index))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a %s index", RelationGetRelationName(index), NM_AM_NAME),
				 index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ? errhint("Name the indexes of its partitions.") : 0));
	if (*heap == NULL || index->rd_index->indrelid != heapoid)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not open the table of index \"%s\"",
						RelationGetRelationName(index))));
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary indexes of other sessions"),
				 errhint("Only the session that made index \"%s\" can %s it.",
						 RelationGetRelationName(index), what)));

#if PG_VERSION_NUM >= 160000
	allowed = object_ownercheck(RelationRelationId, heapoid, GetUserId());
#else
	allowed = pg_class_ownercheck(heapoid, GetUserId());
#endif
#if PG_VERSION_NUM >= 170000
	if (!allowed)
		allowed = pg_class_aclcheck(heapoid, GetUserId(), ACL_MAINTAIN) == ACLCHECK_OK;
#endif
	if (!allowed)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of table \"%s\" to %s its indexes",
						RelationGetRelationName(*heap), what),
#if PG_VERSION_NUM >= 170000
				 errhint("The owner, a superuser and roles with MAINTAIN on the table may.")
#else
				 errhint("The owner and superusers may.")
#endif
					 ));
	return index;
}

/* btree_load(index regclass) returns bool: was it loaded by this call? */
Datum
nm_sql_btree_load(PG_FUNCTION_ARGS)
{
	Relation heap;
	Relation index;
	bool loaded;

	nm_require_preload("load an index");
	index = open_own_index(PG_GETARG_OID(0), &heap, "load");
	(void) nm_index_load_forced(nm_index_open(index), index, heap, &loaded);
	relation_close(index, NoLock);
	table_close(heap, NoLock);
	PG_RETURN_BOOL(loaded);
}

/* btree_unload(index regclass) returns bool: was there something to unload? */
Datum
nm_sql_btree_unload(PG_FUNCTION_ARGS)
{
	Relation heap;
	Relation index;
	bool unloaded;

	nm_require_preload("unload an index");
	index = open_own_index(PG_GETARG_OID(0), &heap, "unload");
	unloaded = nm_index_unload(nm_index_open(index), index);
	relation_close(index, NoLock);
	table_close(heap, NoLock);
	PG_RETURN_BOOL(unloaded);
}

static const char *
state_name(NmState state)
{
	switch (state)
	{
		case NM_STATE_NOT_LOADED:
			return "not loaded";
		case NM_STATE_BUILDING:
			return "building";
		case NM_STATE_LOADING:
			return "loading";
		case NM_STATE_LOADED:
			return "loaded";
		case NM_STATE_FAILED:
			return "failed";
		case NM_STATE_FREE:
		case NM_STATE_DROPPED:
			break;
	}
	return "dropped";
}

/* One row per index of this database that the registry knows. */
Datum
nm_sql_stat_btree(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	if (!nm_preloaded())
		return (Datum) 0;

	for (int i = 0; i < nm_registry->nslots; i++)
	{
		NmSlot *shared = nm_slot_get(i);
		NmSlot slot;
		NmState state;
		int64 pages;
		Datum values[STAT_COLUMNS];
		bool nulls[STAT_COLUMNS] = {false};
		int n = 0;

		if (pg_atomic_read_u32(&shared->state) == NM_STATE_FREE)
			continue;
		LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
		memcpy(&slot, shared, sizeof(slot));
		LWLockRelease(NmLock(NM_LOCK_REGISTRY));
		state = pg_atomic_read_u32(&slot.state);
		if (state == NM_STATE_FREE || state == NM_STATE_DROPPED ||
			slot.key.db != MyDatabaseId)
			continue;
		pages = slot.tree.nleaves + slot.tree.ninner + slot.tree.noverflow;

#define PUT(datum) (values[n++] = (datum))
#define PUT_IF(cond, datum)      \
	do                           \
	{                            \
		if (cond)                \
			values[n] = (datum); \
		else                     \
			nulls[n] = true;     \
		n++;                     \
	} while (0)
		PUT(ObjectIdGetDatum(slot.indexoid));
		PUT(ObjectIdGetDatum(slot.heapoid));
		PUT(CStringGetTextDatum(state_name(state)));
		PUT(BoolGetDatum(slot.unique));
		PUT(BoolGetDatum(slot.key.backend != NM_INVALID_BACKEND));
		PUT_IF(state == NM_STATE_LOADED, Int64GetDatum(slot.tree.nentries));
		PUT_IF(state == NM_STATE_LOADED, Int64GetDatum(pages));
		PUT_IF(state == NM_STATE_LOADED, Int64GetDatum(pages * NM_PAGE_SIZE));
		PUT_IF(state == NM_STATE_LOADED, Int32GetDatum((int32) (slot.tree.root >> 32) + 1));
		PUT(Int64GetDatum((int64) slot.load_count));
		PUT(Int64GetDatum((int64) pg_atomic_read_u64(&slot.load_blocks_total)));
		PUT(Int64GetDatum((int64) pg_atomic_read_u64(&slot.load_blocks_done)));
		PUT(Int64GetDatum((int64) pg_atomic_read_u64(&slot.load_tuples)));
		PUT_IF(slot.load_time != 0, TimestampTzGetDatum(slot.load_time));
		PUT_IF(slot.load_time != 0, Int64GetDatum(slot.load_ms));
		PUT(BoolGetDatum(slot.stay_out));
		PUT(Int32GetDatum(slot.fail_count));
		PUT_IF(slot.fail_time != 0, TimestampTzGetDatum(slot.fail_time));
		PUT_IF(slot.fail_text[0] != '\0', CStringGetTextDatum(slot.fail_text));
		PUT(Int64GetDatum((int64) pg_atomic_read_u64(&slot.lookups)));
		PUT(Int64GetDatum((int64) pg_atomic_read_u64(&slot.inserts)));
		PUT(Int64GetDatum((int64) pg_atomic_read_u64(&slot.tuples_read)));
		PUT(Int64GetDatum((int64) slot.tree.splits));
		PUT(Int64GetDatum((int64) slot.tree.deletes));
		PUT(Int64GetDatum((int64) slot.tree.relocations));
		PUT(Int64GetDatum((int64) slot.tree.restarts));
#undef PUT
#undef PUT_IF
		Assert(n == STAT_COLUMNS);

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

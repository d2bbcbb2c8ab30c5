/*-------------------------------------------------------------------------
 *
 * build.c
 *	  CREATE INDEX and REINDEX: scan the heap, sort, load the tree bottom-up.
 *
 * Scan and sort may be done by several processes (team.c).
 *
 * The caller holds at least ShareLock on the heap (ShareUpdateExclusiveLock for
 * CONCURRENTLY) and an exclusive lock on the new index, so the tree is private
 * until nm_build_finish() publishes it.  An error on the way leaves no page
 * behind: nm_spool_load() gives its own back, and the life cycle frees the slot
 * with the (sub)transaction.
 *
 * IDENTIFICATION
 *	  src/am/build.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"
#include "am/team.h"

#include "access/tableam.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/pg_am.h"
#include "commands/defrem.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

static void warn_if_class_lacking(Relation index);

/*
 * What can't have one of our indexes.  Catalogs are read before we can be
 * loaded and during recovery; TOAST tables are read with snapshots and by code
 * that knows nbtree only.  The collation test is core's for nbtree, made there
 * by the operator class's OID.
 */
void
nm_check_supported(Relation heap, Relation index)
{
	if (heap->rd_rel->relisshared)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support shared relations", NM_AM_NAME),
				 errdetail("The index \"%s\" would be on shared catalog \"%s\".",
						   RelationGetRelationName(index), RelationGetRelationName(heap))));
	if (IsToastRelation(heap))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support TOAST tables", NM_AM_NAME),
				 errhint("Use a btree index.")));
	if (IsSystemRelation(heap))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("access method \"%s\" does not support system catalogs", NM_AM_NAME),
				 errdetail("The index \"%s\" would be on catalog \"%s\".",
						   RelationGetRelationName(index), RelationGetRelationName(heap)),
				 errhint("Use a btree index.")));

	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		Oid collation = index->rd_indcollation[i];
		Oid order = index_getprocid(index, i + 1, NM_ORDER_PROC);

		if ((order == F_BTTEXT_PATTERN_CMP || order == F_BTBPCHAR_PATTERN_CMP) &&
			OidIsValid(collation) && !get_collation_isdeterministic(collation))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("nondeterministic collations are not supported for pattern operator classes"),
					 errdetail("Column %d of index \"%s\" has the collation \"%s\".",
							   i + 1, RelationGetRelationName(index),
							   get_collation_name(collation))));
	}
}

/*
 * A type of another extension whose class was not cloned may still be coercible
 * to one that has a class: citext then gets text's order, silently, and a unique
 * index takes 'a' beside 'A'.  btree would have used the type's own default.
 */
static void
warn_if_class_lacking(Relation index)
{
	for (int i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		Oid type = TupleDescAttr(RelationGetDescr(index), i)->atttypid;
		Oid wanted = GetDefaultOpClass(type, BTREE_AM_OID);

		if (OidIsValid(wanted) &&
			get_opclass_input_type(wanted) != index->rd_opcintype[i] &&
			get_opclass_family(GetDefaultOpClass(type, index->rd_rel->relam)) == index->rd_opfamily[i])
			ereport(WARNING,
					(errmsg("column %d of index \"%s\" is ordered as type %s, not as %s",
							i + 1, RelationGetRelationName(index),
							format_type_be_qualified(index->rd_opcintype[i]),
							format_type_be_qualified(type)),
					 errdetail("Access method \"%s\" has no operator class for type %s.",
							   NM_AM_NAME, format_type_be_qualified(type)),
					 errhint("Take over that of btree with numa.clone_opclass(), then make the index again.")));
	}
}

int
nm_restrict_search_path(void)
{
	int level = NewGUCNestLevel();

#if PG_VERSION_NUM >= 170000
	RestrictSearchPath();
#else
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
#endif
	return level;
}

void
nm_build_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
				  bool alive, void *state)
{
	nm_spool_add((NmSpool *) state, values, isnull, tid, alive);
}

/*
 * Parallel workers that core would use.  Before 17 it plans them for nbtree's
 * builds only, so we ask where it would.  An empty table, as TRUNCATE leaves
 * it, has nothing to share, whatever its parallel_workers option says.
 */
static int
workers_for(Relation heap, Relation index, IndexInfo *indexInfo)
{
	if (!IsNormalProcessingMode() || RelationGetNumberOfBlocks(heap) == 0)
		return 0;
#if PG_VERSION_NUM >= 170000
	return indexInfo->ii_ParallelWorkers;
#else
	return plan_create_index_workers(RelationGetRelid(heap), RelationGetRelid(index));
#endif
}

/*
 * ambuild.  Core has switched to the table's owner already; the search path is
 * set here (core does it from version 17 only), so that an expression which
 * builds also loads, and the reverse.
 */
IndexBuildResult *
nm_build(Relation heap, Relation index, IndexInfo *indexInfo)
{
	IndexBuildResult *result = palloc0(sizeof(IndexBuildResult));
	NmIndex *idx;
	NmSpool *spool;
	int nworkers;
	int level;

	nm_check_supported(heap, index);

	/* pg_upgrade: empty tables, and nothing of ours is there */
	if (IsBinaryUpgrade)
		return result;

	nm_require_preload("build the index");
	warn_if_class_lacking(index);

	level = nm_restrict_search_path();
	idx = nm_build_begin(heap, index);

	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, NM_PHASE_SCAN);
	spool = nm_spool_begin(idx, heap, index, indexInfo->ii_Unique, maintenance_work_mem);
	nm_spool_show_progress(spool);
	NM_STOP("build-begun");
	nworkers = workers_for(heap, index, indexInfo);
	if (nworkers == 0 || !nm_team_build(spool, indexInfo, nworkers, &result->heap_tuples))
		result->heap_tuples = table_index_build_scan(heap, index, indexInfo, true, true,
													 nm_build_callback, spool, NULL);
	NM_STOP("build-scanned");
	result->index_tuples = (double) nm_spool_load(spool);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE,
								 (int64) result->index_tuples);
	nm_spool_end(spool);

	nm_build_finish(idx, index);
	AtEOXact_GUC(false, level);
	return result;
}

/*
 * ambuildempty: the init fork of an unlogged index.  After a crash it becomes
 * the main fork, and the tree is gone then.
 */
void
nm_buildempty(Relation index)
{
	nm_meta_write(index, INIT_FORKNUM, nm_meta_new_identity());
}

char *
nm_buildphasename(int64 phasenum)
{
	switch (phasenum)
	{
		case PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE:
			return "initializing";
		case NM_PHASE_SCAN:
			return "scanning table";
		case NM_PHASE_SORT:
			return "sorting entries";
		case NM_PHASE_LOAD:
			return "loading entries in tree";
		default:
			return NULL;
	}
}

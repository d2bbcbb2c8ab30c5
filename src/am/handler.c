/*-------------------------------------------------------------------------
 *
 * handler.c
 *	  Handler of the access method numa_btree: what it can do, who does it.
 *
 * Never fails, preloaded or not, so that a table with one of our indexes can
 * always be opened.
 *
 * IDENTIFICATION
 *	  src/am/handler.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "access/amapi.h"
#include "access/nbtree.h"
#include "access/stratnum.h"
#include "commands/defrem.h"
#include "commands/vacuum.h"
#include "fmgr.h"

#if PG_VERSION_NUM >= 180000
#include "access/cmptype.h"
#endif

StaticAssertDecl(NM_NSTRATEGIES == BTMaxStrategyNumber, "strategies are nbtree's");
StaticAssertDecl(NM_NSUPPORT == BTNProcs, "support functions are nbtree's");
StaticAssertDecl(NM_ORDER_PROC == BTORDER_PROC, "support functions are nbtree's");
StaticAssertDecl(NM_OPTIONS_PROC == BTOPTIONS_PROC, "support functions are nbtree's");

PG_FUNCTION_INFO_V1(nm_handler);

#if PG_VERSION_NUM >= 180000
static CompareType
nm_translate_strategy(StrategyNumber strategy, Oid opfamily)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return COMPARE_LT;
		case BTLessEqualStrategyNumber:
			return COMPARE_LE;
		case BTEqualStrategyNumber:
			return COMPARE_EQ;
		case BTGreaterEqualStrategyNumber:
			return COMPARE_GE;
		case BTGreaterStrategyNumber:
			return COMPARE_GT;
		default:
			return COMPARE_INVALID;
	}
}

static StrategyNumber
nm_translate_cmptype(CompareType cmptype, Oid opfamily)
{
	switch (cmptype)
	{
		case COMPARE_LT:
			return BTLessStrategyNumber;
		case COMPARE_LE:
			return BTLessEqualStrategyNumber;
		case COMPARE_EQ:
			return BTEqualStrategyNumber;
		case COMPARE_GE:
			return BTGreaterEqualStrategyNumber;
		case COMPARE_GT:
			return BTGreaterStrategyNumber;
		default:
			return InvalidStrategy;
	}
}
#endif

static void
nm_fill_routine(IndexAmRoutine *am)
{
	am->amstrategies = NM_NSTRATEGIES;
	am->amsupport = NM_NSUPPORT;
	am->amoptsprocnum = NM_OPTIONS_PROC;
	am->amcanorder = true;
	am->amcanorderbyop = false;
#if PG_VERSION_NUM >= 180000
	am->amcanhash = false;
	am->amconsistentequality = true;
	am->amconsistentordering = true;
#endif
	am->amcanbackward = true;
	am->amcanunique = true;
	am->amcanmulticol = true;
	am->amoptionalkey = true;
	am->amsearcharray = true;
	am->amsearchnulls = true;
	am->amstorage = false;
	am->amclusterable = true;
	am->ampredlocks = true;
	am->amcanparallel = true;
#if PG_VERSION_NUM >= 170000
	am->amcanbuildparallel = true;
#endif
	am->amcaninclude = true;
	am->amusemaintenanceworkmem = false;
#if PG_VERSION_NUM >= 160000
	am->amsummarizing = false;
#endif
	/* a file of one page: core gets here with min_parallel_index_scan_size = 0 */
	am->amparallelvacuumoptions = VACUUM_OPTION_PARALLEL_BULKDEL | VACUUM_OPTION_PARALLEL_COND_CLEANUP;
	am->amkeytype = InvalidOid;

	am->ambuild = nm_build;
	am->ambuildempty = nm_buildempty;
	am->aminsert = nm_insert;
#if PG_VERSION_NUM >= 170000
	am->aminsertcleanup = NULL;
#endif
	am->ambulkdelete = nm_bulkdelete;
	am->amvacuumcleanup = nm_vacuumcleanup;
	am->amcanreturn = nm_canreturn;
	am->amcostestimate = nm_costestimate;
#if PG_VERSION_NUM >= 180000
	am->amgettreeheight = NULL;
#endif
	am->amoptions = nm_options;
	am->amproperty = nm_property;
	am->ambuildphasename = nm_buildphasename;
	am->amvalidate = nm_validate;
	am->amadjustmembers = nm_adjustmembers;
	am->ambeginscan = nm_beginscan;
	am->amrescan = nm_rescan;
	am->amgettuple = nm_gettuple;
	am->amgetbitmap = nm_getbitmap;
	am->amendscan = nm_endscan;
	am->ammarkpos = nm_markpos;
	am->amrestrpos = nm_restrpos;
	am->amestimateparallelscan = nm_estimateparallelscan;
	am->aminitparallelscan = nm_initparallelscan;
	am->amparallelrescan = nm_parallelrescan;
#if PG_VERSION_NUM >= 180000
	am->amtranslatestrategy = nm_translate_strategy;
	am->amtranslatecmptype = nm_translate_cmptype;
#endif
}

Datum
nm_handler(PG_FUNCTION_ARGS)
{
#if PG_VERSION_NUM >= 190000
	/* core keeps the pointer and never frees it */
	static IndexAmRoutine routine;

	if (routine.type != T_IndexAmRoutine)
	{
		nm_fill_routine(&routine);
		routine.type = T_IndexAmRoutine;
	}
	PG_RETURN_POINTER(&routine);
#else
	IndexAmRoutine *routine = makeNode(IndexAmRoutine);

	nm_fill_routine(routine);
	PG_RETURN_POINTER(routine);
#endif
}

/* Is this an index of ours?  By what its handler said, not by a name. */
bool
nm_is_numa_btree(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_INDEX &&
		   rel->rd_indam != NULL && rel->rd_indam->ambuild == nm_build;
}

Oid
nm_am_oid(void)
{
	return get_am_oid(NM_AM_NAME, true);
}

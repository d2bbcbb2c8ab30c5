/*-------------------------------------------------------------------------
 *
 * planner.c
 *	  Which of our indexes the planner sees, how big they are, what they cost.
 *
 * A hook runs after core has collected a table's indexes.  It takes out those
 * that a scan could not use now, and gives the others the size of their tree:
 * core sees a file of one block.  It never loads and never raises.
 *
 * IDENTIFICATION
 *	  src/am/planner.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "am/life.h"

#include "access/htup_details.h"
#include "access/stratnum.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "parser/parsetree.h"
#include "utils/index_selfuncs.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* What core's estimates for nbtree charge for a page, in cpu_operator_cost. */
#define PAGE_CPU_MULTIPLIER 50.0

#if PG_VERSION_NUM >= 190000
static build_simple_rel_hook_type prev_build_simple_rel_hook = NULL;
#else
static get_relation_info_hook_type prev_get_relation_info_hook = NULL;
#endif

static bool index_usable(IndexOptInfo *info, RelOptInfo *rel);
static double pages_for(IndexOptInfo *info, Relation index, double tuples, int *height);
#if PG_VERSION_NUM >= 180000
static void estimate(PlannerInfo *root, IndexPath *path, double loop_count, GenericCosts *costs);
static double correlation_of(PlannerInfo *root, IndexOptInfo *index);
#endif

/*
 * Average width and number of different values, NULLs being one, that ANALYZE
 * found in a column of the index; 0 where it does not know.
 */
static void
column_statistics(IndexOptInfo *info, Oid heapoid, int column, double tuples,
				  double *width, double *distinct)
{
	AttrNumber att = info->indexkeys[column];
	HeapTuple tuple;
	Form_pg_statistic form;

	*width = *distinct = 0;
	/* those of an expression are kept under the index */
	tuple = SearchSysCache3(STATRELATTINH,
							ObjectIdGetDatum(att != 0 ? heapoid : info->indexoid),
							Int16GetDatum(att != 0 ? att : column + 1), BoolGetDatum(false));
	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_statistic) GETSTRUCT(tuple);
	*width = form->stawidth;
	if (form->stadistinct != 0)
		*distinct = (form->stadistinct > 0 ? form->stadistinct : -form->stadistinct * tuples) +
					(form->stanullfrac > 0 ? 1 : 0);
	ReleaseSysCache(tuple);
}

/*
 * Pages of BLCKSZ bytes and height that a tree of that many entries would
 * have, for one that is not in memory.
 */
static double
pages_for(IndexOptInfo *info, Relation index, double tuples, int *height)
{
	double width = 0;
	double distinct = 1;
	double bytes;
	double fanout;
	double pages;

	for (int i = 0; i < info->ncolumns; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(index), i);
		double att_width;
		double att_distinct;

		column_statistics(info, index->rd_index->indrelid, i, tuples, &att_width, &att_distinct);
		if (att->attlen > 0)
			att_width = att->attlen;
		else if (att_width <= 0)
			att_width = get_typavgwidth(att->atttypid, att->atttypmod);
		width += att_width;
		distinct = att_distinct > 0 ? Min(tuples, distinct * Max(1.0, att_distinct)) : tuples;
	}
	width = MAXALIGN((int) width) + 8;
	bytes = tuples * width;
	/* equal keys once, and a TID for each entry; columns are taken as independent */
	if (nm_index_merge(index))
		bytes = Min(bytes, distinct * width + tuples * 4);
	fanout = Max(4.0, NM_PAGE_SIZE * NM_DEFAULT_FILLFACTOR / 100.0 / width);
	pages = Max(1.0, ceil(bytes / (NM_PAGE_SIZE * NM_DEFAULT_FILLFACTOR / 100.0)));
	*height = 0;
	for (double n = pages; n > 1.0; n = ceil(n / fanout))
		(*height)++;
	return ceil(pages * NM_PAGE_SIZE / BLCKSZ);
}

/* May a scan use it now?  Then fill in its size. */
static bool
index_usable(IndexOptInfo *info, RelOptInfo *rel)
{
	Relation index;
	NmTreeKey key;
	NmSlot *slot;
	NmState state = NM_STATE_NOT_LOADED;
	bool not_now = false; /* failed lately, or no slot to be had */
	bool stay_out = false;
	bool temp;
	NmTreeShared tree;

	if (!nm_preloaded() || RecoveryInProgress())
		return false;
#if PG_VERSION_NUM < 170000
	/* rows are pruned while snapshots that may look for them are alive */
	if (old_snapshot_threshold >= 0)
		return false;
#endif

	/* core has just opened and locked it */
	index = RelationIdGetRelation(info->indexoid);
	if (!RelationIsValid(index))
		return false;
	nm_key_of(index, &key);
	temp = key.backend != NM_INVALID_BACKEND;

	LWLockAcquire(NmLock(NM_LOCK_REGISTRY), LW_SHARED);
	slot = nm_slot_find(&key);
	if (slot != NULL)
	{
		state = pg_atomic_read_u32(&slot->state);
		tree = slot->tree;
		not_now = nm_load_backing_off(slot);
		stay_out = slot->stay_out;
	}
	else
		not_now = nm_registry_full();
	LWLockRelease(NmLock(NM_LOCK_REGISTRY));

	/* no worker can load a temporary index, so its first scan must */
	if (state != NM_STATE_LOADED && (not_now || (nm_load == NM_LOAD_EAGER && !temp)))
	{
		RelationClose(index);
		if (!not_now && !stay_out && state != NM_STATE_LOADING)
			nm_launcher_poke();
		return false;
	}

	/*
	 * For a whole index core took the table's row count; so does nbtree's.  The
	 * block in the file counts like nbtree's metapage: without it a small index
	 * would have one page where nbtree has two, and other plans.
	 */
	if (state == NM_STATE_LOADED)
	{
		double pages = (double) tree.nleaves + tree.ninner + tree.noverflow;

		if (info->indpred != NIL)
			info->tuples = Min((double) Max(tree.nentries, 0), rel->tuples);
		info->pages = 1 + (BlockNumber) Max(1.0, ceil(pages * NM_PAGE_SIZE / BLCKSZ));
		info->tree_height = (int) (tree.root >> 32);
	}
	else
	{
		int height;

		if (info->indpred != NIL)
			info->tuples = index->rd_rel->reltuples >= 0 ? Min(index->rd_rel->reltuples, rel->tuples) : rel->tuples;
		info->pages = 1 + (BlockNumber) Max(1.0, pages_for(info, index, info->tuples, &height));
		info->tree_height = height;
	}
	RelationClose(index);
	return true;
}

bool
nm_index_is_ours(const struct IndexOptInfo *info)
{
	return (void *) info->amcostestimate == (void *) nm_costestimate;
}

/* Take out what can't be used, and put in what the file does not tell. */
static void
filter_indexes(RelOptInfo *rel)
{
	List *keep = NIL;
	bool changed = false;
	ListCell *lc;

	foreach (lc, rel->indexlist)
	{
		IndexOptInfo *info = lfirst_node(IndexOptInfo, lc);

		/* a hypothetical one has no storage */
		if (!nm_index_is_ours(info) || info->hypothetical || index_usable(info, rel))
			keep = lappend(keep, info);
		else
			changed = true;
	}
	if (changed)
		rel->indexlist = keep;
	else
		list_free(keep);
}

#if PG_VERSION_NUM >= 190000
static void
nm_build_simple_rel(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	if (prev_build_simple_rel_hook)
		prev_build_simple_rel_hook(root, rel, rte);
	filter_indexes(rel);
}
#else
static void
nm_get_relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	if (prev_get_relation_info_hook)
		prev_get_relation_info_hook(root, relid, inhparent, rel);
	filter_indexes(rel);
}
#endif

void
nm_planner_install_hooks(void)
{
#if PG_VERSION_NUM >= 190000
	prev_build_simple_rel_hook = build_simple_rel_hook;
	build_simple_rel_hook = nm_build_simple_rel;
#else
	prev_get_relation_info_hook = get_relation_info_hook;
	get_relation_info_hook = nm_get_relation_info;
#endif
}

/*
 * Up to 17 core's estimate for nbtree fits: same operators and strategies, and
 * height and pages come from the hook above.  That of 18 counts on skip scans,
 * which we do not do.
 */
void
nm_costestimate(struct PlannerInfo *root, struct IndexPath *path, double loop_count,
				Cost *startup, Cost *total, Selectivity *selectivity,
				double *correlation, double *pages)
{
#if PG_VERSION_NUM >= 180000
	GenericCosts costs;

	memset(&costs, 0, sizeof(costs));
	estimate(root, path, loop_count, &costs);
	*startup = costs.indexStartupCost;
	*total = costs.indexTotalCost;
	*selectivity = costs.indexSelectivity;
	*correlation = costs.indexCorrelation;
	*pages = costs.numIndexPages;
#else
	IndexOptInfo *index = path->indexinfo;
	bool *reverse_sort = index->reverse_sort;
	bool forward = false;

	/*
	 * Core leaves an index unordered, without directions, when it finds no
	 * btree family for one of its "<" (a class of reversed order).  nbtree's
	 * indexes always have them, and its estimate looks at the first.  Only the
	 * correlation's sign depends on it, which its user squares.
	 */
	if (reverse_sort == NULL)
		index->reverse_sort = &forward;
	btcostestimate(root, path, loop_count, startup, total, selectivity, correlation, pages);
	index->reverse_sort = reverse_sort;
#endif
}

#if PG_VERSION_NUM >= 180000
/*
 * As core estimated for nbtree before it had skip scans: leading "=" quals and
 * the inequalities of the next column bound the scan.
 */
static void
estimate(PlannerInfo *root, IndexPath *path, double loop_count, GenericCosts *costs)
{
	IndexOptInfo *index = path->indexinfo;
	List *bounds = NIL;
	int column = 0;
	bool equal_here = false;
	bool found_array = false;
	bool found_is_null = false;
	double descents = 1;
	double descent;
	ListCell *lc;

	foreach (lc, path->indexclauses)
	{
		IndexClause *clause = lfirst_node(IndexClause, lc);
		ListCell *lc2;

		if (column != clause->indexcol)
		{
			if (!equal_here)
				break;
			equal_here = false;
			column++;
			if (column != clause->indexcol)
				break;
		}
		foreach (lc2, clause->indexquals)
		{
			RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc2);
			Expr *expr = rinfo->clause;
			Oid op = InvalidOid;

			if (IsA(expr, OpExpr))
				op = ((OpExpr *) expr)->opno;
			else if (IsA(expr, RowCompareExpr))
				op = linitial_oid(((RowCompareExpr *) expr)->opnos);
			else if (IsA(expr, ScalarArrayOpExpr))
			{
				ScalarArrayOpExpr *array = (ScalarArrayOpExpr *) expr;
				double length = estimate_array_length(root, lsecond(array->args));

				op = array->opno;
				found_array = true;
				if (length > 1)
					descents *= length;
			}
			else if (IsA(expr, NullTest))
			{
				if (((NullTest *) expr)->nulltesttype == IS_NULL)
				{
					found_is_null = true;
					equal_here = true;
				}
			}
			if (OidIsValid(op) &&
				get_op_opfamily_strategy(op, index->opfamily[column]) == BTEqualStrategyNumber)
				equal_here = true;
			bounds = lappend(bounds, rinfo);
		}
	}

	if (index->unique && column == index->nkeycolumns - 1 && equal_here &&
		!found_array && !found_is_null)
		costs->numIndexTuples = 1.0;
	else
	{
		List *quals = add_predicate_to_index_quals(index, bounds);

		costs->numIndexTuples = clauselist_selectivity(root, quals, index->rel->relid,
													   JOIN_INNER, NULL) *
								index->rel->tuples;
		descents = Max(1.0, Min(descents, ceil(index->pages * 0.3333333)));
		costs->numIndexTuples = rint(costs->numIndexTuples / descents);
	}
	costs->num_sa_scans = descents;
#if PG_VERSION_NUM >= 190000
	/* the block in the file is no leaf; nbtree says so of its metapage */
	costs->numNonLeafPages = 1;
#endif
	genericcostestimate(root, path, loop_count, costs);

	/* comparisons on the way down, then the cost of visiting each page */
	if (index->tuples > 1)
	{
		descent = ceil(log(index->tuples) / log(2.0)) * cpu_operator_cost;
		costs->indexStartupCost += descent;
		costs->indexTotalCost += descents * descent;
	}
	descent = (index->tree_height + 1) * PAGE_CPU_MULTIPLIER * cpu_operator_cost;
	costs->indexStartupCost += descent;
	costs->indexTotalCost += descents * descent;

	costs->indexCorrelation = correlation_of(root, index);
}

/* Of the first column, scaled down if there are more. */
static double
correlation_of(PlannerInfo *root, IndexOptInfo *index)
{
	VariableStatData var;
	AttStatsSlot slot;
	double result = 0;
	Oid sortop;

	memset(&var, 0, sizeof(var));
	if (index->indexkeys[0] != 0)
	{
		RangeTblEntry *rte = planner_rt_fetch(index->rel->relid, root);

		if (get_relation_stats_hook &&
			(*get_relation_stats_hook)(root, rte, index->indexkeys[0], &var))
		{
			if (HeapTupleIsValid(var.statsTuple) && !var.freefunc)
				elog(ERROR, "no function provided to release variable stats with");
		}
		else
		{
			var.statsTuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(rte->relid),
											 Int16GetDatum(index->indexkeys[0]),
											 BoolGetDatum(rte->inh));
			var.freefunc = ReleaseSysCache;
		}
	}
	else
	{
		if (get_index_stats_hook &&
			(*get_index_stats_hook)(root, index->indexoid, 1, &var))
		{
			if (HeapTupleIsValid(var.statsTuple) && !var.freefunc)
				elog(ERROR, "no function provided to release variable stats with");
		}
		else
		{
			var.statsTuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(index->indexoid),
											 Int16GetDatum(1), BoolGetDatum(false));
			var.freefunc = ReleaseSysCache;
		}
	}
	if (!HeapTupleIsValid(var.statsTuple))
		return 0;

	sortop = get_opfamily_member(index->opfamily[0], index->opcintype[0],
								 index->opcintype[0], BTLessStrategyNumber);
	if (OidIsValid(sortop) && index->reverse_sort != NULL &&
		get_attstatsslot(&slot, var.statsTuple, STATISTIC_KIND_CORRELATION, sortop,
						 ATTSTATSSLOT_NUMBERS))
	{
		result = slot.numbers[0];
		if (index->reverse_sort[0])
			result = -result;
		if (index->nkeycolumns > 1)
			result *= 0.75;
		free_attstatsslot(&slot);
	}
	ReleaseVariableStats(var);
	return result;
}
#endif

/*-------------------------------------------------------------------------
 *
 * implied.c
 *	  Index conditions that a table's restrictions imply.
 *
 * Core derives index conditions from some clauses for indexes of btree's access
 * method, or of btree's own operator families, only:
 *	- (a, b) > (1, 2), for which btree has a key of its own;
 *	- LIKE, ~ and starts_with() on a text_pattern_ops column;
 *	- before 18, inet << net;
 *	- in 15, a boolean column standing alone.
 * Here the same or, of a row comparison, what its first column says (a >= 1) is
 * added to what core matches with our indexes, and core is asked for their paths
 * once more.  The clause itself stays a filter, so that nothing hangs on a
 * condition's being exact.
 *
 * Only restrictions, not join clauses, and at the top level of WHERE only, not
 * below OR.
 *
 * IDENTIFICATION
 *	  src/am/implied.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "access/stratnum.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

static set_rel_pathlist_hook_type prev_set_rel_pathlist_hook = NULL;

/* Add a clause that follows from another one, unless it is there already. */
static List *
add_implied(PlannerInfo *root, List *implied, RestrictInfo *from, Expr *clause)
{
	ListCell *lc;
	RestrictInfo *rinfo;

	foreach (lc, implied)
	{
		if (equal(lfirst_node(RestrictInfo, lc)->clause, clause))
			return implied;
	}
	rinfo = make_simple_restrictinfo(root, clause);
	/* what must not be looked at before another clause has held must not here */
	rinfo->security_level = from->security_level;
	return lappend(implied, rinfo);
}

/*
 * (a, b) > (x, y) implies a >= x, whatever is NULL: where a >= x is false or
 * unknown, a row comparison is.
 */
static Expr *
of_row_comparison(RowCompareExpr *row, int col, IndexOptInfo *index)
{
	Expr *left = linitial(row->largs);
	Expr *right = linitial(row->rargs);
	Oid family = linitial_oid(row->opfamilies);
	Oid op = linitial_oid(row->opnos);
	int strategy;
	Oid left_type;
	Oid right_type;
	bool on_right = false;

	if (!match_index_to_operand((Node *) left, col, index))
	{
		if (!match_index_to_operand((Node *) right, col, index))
			return NULL;
		on_right = true;
	}
	get_op_opfamily_properties(op, family, false, &strategy, &left_type, &right_type);
	if (strategy == BTLessStrategyNumber)
		op = get_opfamily_member(family, left_type, right_type, BTLessEqualStrategyNumber);
	else if (strategy == BTGreaterStrategyNumber)
		op = get_opfamily_member(family, left_type, right_type, BTGreaterEqualStrategyNumber);
	if (OidIsValid(op) && on_right)
	{
		op = get_commutator(op);
		left = linitial(row->rargs);
		right = linitial(row->largs);
	}
	if (!OidIsValid(op))
		return NULL;
	return make_opclause(op, BOOLOID, false, copyObject(left), copyObject(right),
						 InvalidOid, linitial_oid(row->inputcollids));
}

#if PG_VERSION_NUM < 160000
/* A boolean column, NOT column, column IS TRUE, column IS FALSE. */
static Expr *
of_boolean(Node *clause, int col, IndexOptInfo *index)
{
	bool value = true;

	if (index->opcintype[col] != BOOLOID)
		return NULL;
	if (is_notclause(clause))
	{
		clause = (Node *) get_notclausearg((Expr *) clause);
		value = false;
	}
	else if (IsA(clause, BooleanTest))
	{
		BooleanTest *test = (BooleanTest *) clause;

		if (test->booltesttype != IS_TRUE && test->booltesttype != IS_FALSE)
			return NULL;
		clause = (Node *) test->arg;
		value = test->booltesttype == IS_TRUE;
	}
	if (!match_index_to_operand(clause, col, index))
		return NULL;
	return make_opclause(BooleanEqualOperator, BOOLOID, false, copyObject((Expr *) clause),
						 (Expr *) makeBoolConst(value, false), InvalidOid, InvalidOid);
}
#endif

/*
 * The family of btree's for which a function's support function knows
 * conditions, if our column's class is its twin; InvalidOid where core asks for
 * our own family with success, or there is nothing to know.
 */
static Oid
btree_family(int col, IndexOptInfo *index)
{
	Oid type = index->opcintype[col];

	if (type != TEXTOID && type != BPCHAROID && type != INETOID)
		return InvalidOid;
	switch (get_opfamily_proc(index->opfamily[col], type, type, NM_ORDER_PROC))
	{
		case F_BTTEXT_PATTERN_CMP:
			return TEXT_PATTERN_BTREE_FAM_OID;
		case F_BTBPCHAR_PATTERN_CMP:
			return BPCHAR_PATTERN_BTREE_FAM_OID;
#if PG_VERSION_NUM < 180000
		case F_NETWORK_CMP:
			return NETWORK_BTREE_FAM_OID;
#endif
		default:
			return InvalidOid;
	}
}

/* What the support function of an operator's or a function's says of the column. */
static List *
of_function(PlannerInfo *root, Node *clause, int col, IndexOptInfo *index)
{
	SupportRequestIndexCondition request;
	List *args;
	Oid function;
	Oid family;
	Oid support;
	int arg = 0;
	ListCell *lc;

	if (IsA(clause, OpExpr))
	{
		set_opfuncid((OpExpr *) clause);
		function = ((OpExpr *) clause)->opfuncid;
		args = ((OpExpr *) clause)->args;
		if (list_length(args) != 2)
			return NIL;
	}
	else if (IsA(clause, FuncExpr))
	{
		function = ((FuncExpr *) clause)->funcid;
		args = ((FuncExpr *) clause)->args;
	}
	else
		return NIL;

	foreach (lc, args)
	{
		if (match_index_to_operand(lfirst(lc), col, index))
			break;
		arg++;
	}
	if (lc == NULL)
		return NIL;
	/* catalogs are asked last: this is done for every restriction of a query */
	family = btree_family(col, index);
	if (!OidIsValid(family))
		return NIL;
	support = get_func_support(function);
	if (!OidIsValid(support))
		return NIL;

	request.type = T_SupportRequestIndexCondition;
	request.root = root;
	request.funcid = function;
	request.node = clause;
	request.indexarg = arg;
	request.index = index;
	request.indexcol = col;
	request.opfamily = family;
	request.indexcollation = index->indexcollations[col];
	request.lossy = true;
	return (List *) DatumGetPointer(OidFunctionCall1(support, PointerGetDatum(&request)));
}

/* All that the index's restrictions imply and core does not find itself. */
static List *
implied_clauses(PlannerInfo *root, IndexOptInfo *index)
{
	List *implied = NIL;
	ListCell *lc;

	foreach (lc, index->indrestrictinfo)
	{
		RestrictInfo *rinfo = lfirst_node(RestrictInfo, lc);
		Node *clause = (Node *) rinfo->clause;

		if (rinfo->pseudoconstant)
			continue;
		for (int col = 0; col < index->nkeycolumns; col++)
		{
			Expr *one = NULL;
			List *some;
			ListCell *lc2;

			if (IsA(clause, RowCompareExpr))
				one = of_row_comparison((RowCompareExpr *) clause, col, index);
#if PG_VERSION_NUM < 160000
			else
				one = of_boolean(clause, col, index);
#endif
			if (one != NULL)
				implied = add_implied(root, implied, rinfo, one);
			some = of_function(root, clause, col, index);
			foreach (lc2, some)
				implied = add_implied(root, implied, rinfo, lfirst(lc2));
		}
	}
	return implied;
}

/*
 * Offer paths of our indexes with implied conditions.  Core's own paths have
 * been made, and gathering has not been thought of yet.
 */
static void
nm_set_rel_pathlist(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	List *indexes = NIL;
	List *restrictions = NIL;
	List *saved = rel->indexlist;
	ListCell *lc;
	ListCell *lc2;

	if (prev_set_rel_pathlist_hook)
		prev_set_rel_pathlist_hook(root, rel, rti, rte);
	if (rte->rtekind != RTE_RELATION || rel->baserestrictinfo == NIL || IS_DUMMY_REL(rel))
		return;

	foreach (lc, saved)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);
		List *implied;

		if (!nm_index_is_ours(index) || (index->indpred != NIL && !index->predOK))
			continue;
		implied = implied_clauses(root, index);
		if (implied == NIL)
			continue;
		indexes = lappend(indexes, index);
		restrictions = lappend(restrictions, index->indrestrictinfo);
		index->indrestrictinfo = list_concat_copy(index->indrestrictinfo, implied);
	}
	if (indexes == NIL)
		return;

	rel->indexlist = indexes;
	create_index_paths(root, rel);
	rel->indexlist = saved;
	forboth(lc, indexes, lc2, restrictions)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		index->indrestrictinfo = lfirst(lc2);
	}
}

void
nm_implied_install_hook(void)
{
	prev_set_rel_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = nm_set_rel_pathlist;
}

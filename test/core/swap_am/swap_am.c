/*-------------------------------------------------------------------------
 *
 * swap_am.c
 *	  Test module: CREATE INDEX that means btree makes a numa_btree index.
 *
 * So that PostgreSQL's own tests, which know nothing of numa_btree, test it.
 * An index stays with btree where core insists on that (constraints) and where
 * numa_btree is no choice (catalogs; operator classes that only btree has), so
 * that each remaining difference in the tests' output says something.
 *
 * Tests are told apart by application_name, which pg_regress sets to
 * "pg_regress/NAME" and isolationtester to "isolation/NAME/SESSION".
 *
 * IDENTIFICATION
 *	  test/core/swap_am/swap_am.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/attnum.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;

#define SWAP_TO "numa_btree"
/* support function 1 of both, the order function */
#define ORDER_PROC 1

void _PG_init(void);

static ProcessUtility_hook_type prev_ProcessUtility = NULL;
static char *keep_unique = NULL;

/*
 * Is the test that this session is part of in a list, or this index of it,
 * "test/index"?
 */
static bool
listed(const char *list, const char *index)
{
	const char *name = strchr(application_name, '/');
	size_t len;

	if (name == NULL)
		return false;
	name++;
	len = strcspn(name, "/");
	while (*list != '\0')
	{
		size_t n;

		list += strspn(list, ", ");
		n = strcspn(list, ", ");
		if (n >= len && strncmp(list, name, len) == 0)
		{
			if (n == len)
				return true;
			if (list[len] == '/' && index != NULL && n - len - 1 == strlen(index) &&
				strncmp(list + len + 1, index, n - len - 1) == 0)
				return true;
		}
		list += n;
	}
	return false;
}

/* Have two operator classes the same order function?  Then one does for the other. */
static bool
same_order(Oid a, Oid b)
{
	Oid proc;

	if (!OidIsValid(a) || !OidIsValid(b) || get_opclass_input_type(a) != get_opclass_input_type(b))
		return false;
	proc = get_opfamily_proc(get_opclass_family(a), get_opclass_input_type(a),
							 get_opclass_input_type(a), ORDER_PROC);
	return OidIsValid(proc) &&
		   proc == get_opfamily_proc(get_opclass_family(b), get_opclass_input_type(b),
									 get_opclass_input_type(b), ORDER_PROC);
}

/* The type of an index column, InvalidOid if there is none: core will say why. */
static Oid
column_type(IndexElem *elem, IndexStmt *stmt, Oid relid, const char *query)
{
	Relation rel;
	ParseState *pstate;
	Node *expr;

	if (elem->name != NULL)
	{
		AttrNumber attnum = get_attnum(relid, elem->name);

		return attnum > 0 ? get_atttype(relid, attnum) : InvalidOid;
	}
	if (stmt->transformed)
		return exprType(elem->expr);

	rel = table_open(relid, AccessShareLock);
	pstate = make_parsestate(NULL);
	pstate->p_sourcetext = query;
	addNSItemToQuery(pstate, addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
					 false, true, true);
	expr = transformExpr(pstate, copyObject(elem->expr), EXPR_KIND_INDEX_EXPRESSION);
	free_parsestate(pstate);
	table_close(rel, NoLock);
	return exprType(expr);
}

static bool
swappable(IndexStmt *stmt, const char *query)
{
	Oid btree = BTREE_AM_OID;
	Oid am;
	Oid relid;
	char relkind;
	ListCell *lc;

	if (strcmp(stmt->accessMethod, "btree") != 0 || stmt->primary || stmt->isconstraint ||
		stmt->excludeOpNames != NIL)
		return false;
	am = get_am_oid(SWAP_TO, true);
	if (!OidIsValid(am))
		return false;
	relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	if (!OidIsValid(relid) || IsCatalogRelationOid(relid))
		return false;
	relkind = get_rel_relkind(relid);
	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW && relkind != RELKIND_PARTITIONED_TABLE)
		return false;
	if (stmt->unique && listed(keep_unique, stmt->idxname))
		return false;
#if PG_VERSION_NUM < 180000
	if (stmt->unique && relkind == RELKIND_PARTITIONED_TABLE)
		return false;
#endif
	foreach (lc, stmt->options)
	{
		if (strcmp(lfirst_node(DefElem, lc)->defname, "fillfactor") != 0)
			return false;
	}
	foreach (lc, stmt->indexParams)
	{
		IndexElem *elem = lfirst_node(IndexElem, lc);
		Oid ours;
		Oid theirs;

		if (elem->opclass != NIL)
		{
			ours = get_opclass_oid(am, elem->opclass, true);
			theirs = get_opclass_oid(btree, elem->opclass, true);
		}
		else
		{
			Oid type = column_type(elem, stmt, relid, query);

			if (!OidIsValid(type))
				return false;
			ours = GetDefaultOpClass(type, am);
			theirs = GetDefaultOpClass(type, btree);
		}
		if (!same_order(ours, theirs))
			return false;
	}
	return true;
}

static void
swap_utility(PlannedStmt *pstmt, const char *query, bool readOnlyTree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *env, DestReceiver *dest, QueryCompletion *qc)
{
	if (IsA(pstmt->utilityStmt, IndexStmt) && !IsAbortedTransactionBlockState() &&
		swappable((IndexStmt *) pstmt->utilityStmt, query))
	{
		/* a cached plan's tree must stay as it is */
		if (readOnlyTree)
			pstmt = copyObject(pstmt);
		((IndexStmt *) pstmt->utilityStmt)->accessMethod = pstrdup(SWAP_TO);
	}

	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, query, readOnlyTree, context, params, env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query, readOnlyTree, context, params, env, dest, qc);
}

void
_PG_init(void)
{
	DefineCustomStringVariable("swap_am.keep_unique",
							   "Tests, or indexes of tests, that stay with btree if unique, separated by commas.",
							   NULL, &keep_unique, "", PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("swap_am");

	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = swap_utility;
}

/*-------------------------------------------------------------------------
 *
 * utility.c
 *	  What core refuses or breaks for an index that is not btree, said early;
 *	  and commands that want a database for themselves.
 *
 * Before version 18 a unique index of ours makes every INSERT ... ON CONFLICT
 * on its table fail inside the executor with an internal error, even when
 * another index is the arbiter.  A WARNING says so when the index is made, and
 * a clear error comes before the internal one.  A foreign key that core would
 * let refer to such an index gets a clear error instead of the internal one.
 *
 * DROP DATABASE, RENAME, SET TABLESPACE and CREATE DATABASE ... TEMPLATE fail or
 * wait when somebody is connected to the database, so our loaders are kept out
 * (launcher.c).
 *
 * IDENTIFICATION
 *	  src/am/utility.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/plannodes.h"
#include "parser/parsetree.h"
#include "tcop/utility.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static ProcessUtility_hook_type prev_ProcessUtility = NULL;

#if PG_VERSION_NUM < 180000
static ExecutorStart_hook_type prev_ExecutorStart = NULL;

/* Does a table, or a partition of it, have a unique index of ours? */
typedef struct NmConflictEntry
{
	Oid relid;	 /* hash key */
	Oid culprit; /* the index, or InvalidOid */
} NmConflictEntry;

static HTAB *conflict_cache = NULL;
static bool conflict_cache_valid = false;

static void nm_executor_start(QueryDesc *queryDesc, int eflags);
static void check_on_conflict(PlannedStmt *stmt, Plan *plan);
static Oid unique_index_of(Oid relid);
static Oid unique_index_below(Oid relid);
#endif

static void nm_process_utility(PlannedStmt *pstmt, const char *queryString,
							   bool readOnlyTree, ProcessUtilityContext context,
							   ParamListInfo params, QueryEnvironment *queryEnv,
							   DestReceiver *dest, QueryCompletion *qc);
static Oid database_wanted(Node *stmt, bool *files_go);

/*
 * ---------------------------------------------------------------------
 * INSERT ... ON CONFLICT before 18
 * ---------------------------------------------------------------------
 */

#if PG_VERSION_NUM < 180000
static void
conflict_cache_callback(Datum arg, Oid relid)
{
	conflict_cache_valid = false;
}

/* A unique index of ours on this very table. */
static Oid
unique_index_of(Oid relid)
{
	Oid am = nm_am_oid();
	Oid result = InvalidOid;
	Relation rel;
	List *indexes;
	ListCell *lc;

	rel = OidIsValid(am) ? try_relation_open(relid, AccessShareLock) : NULL;
	if (rel == NULL)
		return InvalidOid;

	indexes = RelationGetIndexList(rel);
	foreach (lc, indexes)
	{
		Oid indexoid = lfirst_oid(lc);
		HeapTuple class = SearchSysCache1(RELOID, ObjectIdGetDatum(indexoid));
		HeapTuple index = SearchSysCache1(INDEXRELID, ObjectIdGetDatum(indexoid));

		if (HeapTupleIsValid(class) && HeapTupleIsValid(index) &&
			((Form_pg_class) GETSTRUCT(class))->relam == am &&
			((Form_pg_index) GETSTRUCT(index))->indisunique)
			result = indexoid;
		if (HeapTupleIsValid(class))
			ReleaseSysCache(class);
		if (HeapTupleIsValid(index))
			ReleaseSysCache(index);
	}
	list_free(indexes);
	relation_close(rel, AccessShareLock);
	return result;
}

/* On the table or, since rows may be routed there, on any of its partitions. */
static Oid
unique_index_below(Oid relid)
{
	NmConflictEntry *entry;
	Oid culprit = InvalidOid;
	bool found;

	if (conflict_cache == NULL)
	{
		HASHCTL ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(NmConflictEntry);
		conflict_cache = hash_create("numa_btree ON CONFLICT targets", 32, &ctl,
									 HASH_ELEM | HASH_BLOBS);
		CacheRegisterRelcacheCallback(conflict_cache_callback, (Datum) 0);
	}
	if (!conflict_cache_valid)
	{
		HASH_SEQ_STATUS seq;

		hash_seq_init(&seq, conflict_cache);
		while ((entry = hash_seq_search(&seq)) != NULL)
			(void) hash_search(conflict_cache, &entry->relid, HASH_REMOVE, NULL);
		conflict_cache_valid = true;
	}
	entry = hash_search(conflict_cache, &relid, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->culprit;

	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
	{
		List *members = find_all_inheritors(relid, NoLock, NULL);
		ListCell *lc;

		foreach (lc, members)
		{
			culprit = unique_index_of(lfirst_oid(lc));
			if (OidIsValid(culprit))
				break;
		}
		list_free(members);
	}
	else
		culprit = unique_index_of(relid);

	/* what was read may be out of date if an invalidation came meanwhile */
	if (conflict_cache_valid)
	{
		entry = hash_search(conflict_cache, &relid, HASH_ENTER, &found);
		entry->culprit = culprit;
	}
	return culprit;
}

/* A ModifyTable is the root of the plan or, in a WITH, of a subplan. */
static void
check_on_conflict(PlannedStmt *stmt, Plan *plan)
{
	ModifyTable *modify = (ModifyTable *) plan;
	ListCell *lc;

	if (plan == NULL || !IsA(plan, ModifyTable) ||
		modify->onConflictAction == ONCONFLICT_NONE)
		return;

	foreach (lc, modify->resultRelations)
	{
		Oid relid = rt_fetch(lfirst_int(lc), stmt->rtable)->relid;
		Oid culprit = unique_index_below(relid);

		if (OidIsValid(culprit))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("INSERT ... ON CONFLICT on table \"%s\" is not supported because of unique index \"%s\"",
							get_rel_name(relid), get_rel_name(culprit)),
					 errdetail("Before PostgreSQL 18, ON CONFLICT needs every unique index of the table to be a btree index."),
					 errhint("Make the index a btree index, or not unique.")));
	}
}

static void
nm_executor_start(QueryDesc *queryDesc, int eflags)
{
	PlannedStmt *stmt = queryDesc->plannedstmt;

	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY) &&
		(stmt->commandType == CMD_INSERT || stmt->hasModifyingCTE))
	{
		ListCell *lc;

		check_on_conflict(stmt, stmt->planTree);
		foreach (lc, stmt->subplans)
			check_on_conflict(stmt, lfirst(lc));
	}

	if (prev_ExecutorStart)
		prev_ExecutorStart(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}
#endif /* PG_VERSION_NUM < 180000 */

/*
 * ---------------------------------------------------------------------
 * Utility commands
 * ---------------------------------------------------------------------
 */

/* What comes before us in the chain, or core. */
static void
run_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_ProcessUtility)
		prev_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

#if PG_VERSION_NUM < 180000
/*
 * Core chooses the unique index that a foreign key refers to, from all of the
 * table, and then insists on btree.  That choice cannot be foretold without
 * the locks that it is made under, so the error is recognized: an internal one
 * of that very function, in which there is no other of this kind.
 */
static bool
is_foreign_key_error(void)
{
	ErrorData *edata;
	bool is;

	if (geterrcode() != ERRCODE_INTERNAL_ERROR)
		return false;
	edata = CopyErrorData();
	is = edata->funcname != NULL && strcmp(edata->funcname, "ATAddForeignKeyConstraint") == 0 &&
		 edata->message != NULL && strstr(edata->message, "b-tree") != NULL;
	FreeErrorData(edata);
	return is;
}

/* run_utility() for commands that may make foreign keys. */
static void
run_with_foreign_keys(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
					  ProcessUtilityContext context, ParamListInfo params,
					  QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	MemoryContext cxt = CurrentMemoryContext;

	PG_TRY();
	{
		run_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		if (!is_foreign_key_error())
			PG_RE_THROW();
		FlushErrorState();
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("foreign keys cannot refer to a unique numa_btree index"),
				 errdetail("Before PostgreSQL 18, a foreign key needs a btree index on the referenced columns, and of several unique indexes on them the oldest is taken."),
				 errhint("Make the index a btree index.")));
	}
	PG_END_TRY();
}
#endif

/*
 * The database that a command wants nobody to be connected to, or InvalidOid.
 * *files_go: its files are gone from where they were, when the command is done.
 */
static Oid
database_wanted(Node *stmt, bool *files_go)
{
	const char *name = NULL;
	ListCell *lc;

	*files_go = false;
	switch (nodeTag(stmt))
	{
		case T_DropdbStmt:
			name = ((DropdbStmt *) stmt)->dbname;
			*files_go = true;
			break;
		case T_RenameStmt:
			if (((RenameStmt *) stmt)->renameType == OBJECT_DATABASE)
				name = ((RenameStmt *) stmt)->subname;
			break;
		case T_AlterDatabaseStmt:
			foreach (lc, ((AlterDatabaseStmt *) stmt)->options)
			{
				if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
				{
					name = ((AlterDatabaseStmt *) stmt)->dbname;
					*files_go = true;
				}
			}
			break;
		case T_CreatedbStmt:
			name = "template1";
			foreach (lc, ((CreatedbStmt *) stmt)->options)
			{
				DefElem *option = lfirst_node(DefElem, lc);

				if (strcmp(option->defname, "template") == 0 && option->arg)
					name = defGetString(option);
			}
			break;
		default:
			break;
	}
	return name ? get_database_oid(name, true) : InvalidOid;
}

static void
nm_process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				   ProcessUtilityContext context, ParamListInfo params,
				   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Node *stmt = pstmt->utilityStmt;
	Oid db = InvalidOid;
	bool files_go = false;
	bool unique_of_ours = false;

	if (nm_preloaded() && !RecoveryInProgress())
	{
		db = database_wanted(stmt, &files_go);
		if (OidIsValid(db) && db != MyDatabaseId)
			nm_launcher_block_database(db);
	}
#if PG_VERSION_NUM < 180000
	unique_of_ours = IsA(stmt, IndexStmt) && ((IndexStmt *) stmt)->unique &&
					 ((IndexStmt *) stmt)->accessMethod != NULL &&
					 strcmp(((IndexStmt *) stmt)->accessMethod, NM_AM_NAME) == 0;
#endif

#if PG_VERSION_NUM < 180000
	if (IsA(stmt, CreateStmt) || IsA(stmt, AlterTableStmt) || IsA(stmt, CreateSchemaStmt))
		run_with_foreign_keys(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
#endif
		run_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);

	/*
	 * A prepared transaction's drops are known by the files it removed, and
	 * those are gone now: no need to leave the memory to the next sweep.
	 */
	if (IsA(stmt, TransactionStmt) && nm_preloaded() &&
		(((TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED ||
		 ((TransactionStmt *) stmt)->kind == TRANS_STMT_ROLLBACK_PREPARED))
		nm_registry_sweep(true);

	if (files_go && OidIsValid(db) && db != MyDatabaseId)
		nm_registry_drop_database(db);
	if (unique_of_ours)
		ereport(WARNING,
				(errmsg("unique numa_btree indexes do not support INSERT ... ON CONFLICT and foreign keys before PostgreSQL 18"),
				 errdetail("INSERT ... ON CONFLICT fails on a table that has one, whatever its conflict target."),
				 errhint("Where these are needed, use a unique btree index.")));
}

void
nm_utility_install_hooks(void)
{
#if PG_VERSION_NUM < 180000
	prev_ExecutorStart = ExecutorStart_hook;
	ExecutorStart_hook = nm_executor_start;
#endif
	prev_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = nm_process_utility;
}

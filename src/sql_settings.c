/*-------------------------------------------------------------------------
 *
 * sql_settings.c
 *	  numa.set_mode, numa.set_batch and their readers.
 *
 * For the session the two knobs are settings like any other: SET in a
 * function's clothes, undone if the transaction aborts.
 *
 * Persisting is ALTER SYSTEM plus a reload, so that the value is in the one
 * place where an administrator looks, survives a crash (the file is written
 * durably) and reaches the worker like any changed setting.  ALTER SYSTEM
 * itself can't run inside a function, for one reason only: its effect on the
 * file is not undone if the transaction aborts.  AlterSystemSetConfigFile,
 * which does its work, depends on no transaction; it locks, validates and
 * checks (allow_alter_system, 17 and later) by itself.  So it is called
 * directly, and the documentation says that persisting is not transactional.
 * The reload is asked for at the end, after everything that can fail.
 *
 * IDENTIFICATION
 *	  src/sql_settings.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "sql_api.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#define MODE_SETTING  "numa_migrate.mode"
#define BATCH_SETTING "numa_migrate.batch"

PG_FUNCTION_INFO_V1(nm_sql_set_mode);
PG_FUNCTION_INFO_V1(nm_sql_set_batch);
PG_FUNCTION_INFO_V1(nm_sql_get_mode);
PG_FUNCTION_INFO_V1(nm_sql_get_batch);

static void
check_persist(bool persist)
{
	if (persist && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to persist a setting of numa_migrate"),
				 errhint("Only superusers may; without persist the value holds for this session.")));
}

static void
apply(const char *name, const char *value, bool persist)
{
	SetConfigOption(name, value, PGC_USERSET, PGC_S_SESSION);

	if (persist)
	{
		VariableSetStmt *set = makeNode(VariableSetStmt);
		AlterSystemStmt *stmt = makeNode(AlterSystemStmt);
		A_Const *arg = makeNode(A_Const);

		arg->location = -1;
		arg->val.sval.type = T_String;
		arg->val.sval.sval = pstrdup(value);
		set->kind = VAR_SET_VALUE;
		set->name = pstrdup(name);
		set->args = list_make1(arg);
		stmt->setstmt = set;
		AlterSystemSetConfigFile(stmt);

		if (kill(PostmasterPid, SIGHUP) != 0)
			ereport(WARNING,
					(errmsg("could not ask the postmaster to reload its configuration: %m"),
					 errhint("The value is saved and takes effect at the next reload.")));
	}
}

static void
reject_null(FunctionCallInfo fcinfo, const char *what)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", PG_ARGISNULL(0) ? what : "persist"),
				 errhint("\"auto\" and 0 are the defaults of mode and batch.")));
}

/* numa.set_mode(mode text, persist bool = false) */
Datum
nm_sql_set_mode(PG_FUNCTION_ARGS)
{
	NmMode mode;
	bool persist;

	reject_null(fcinfo, "mode");
	mode = nm_check_mode(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	persist = PG_GETARG_BOOL(1);
	check_persist(persist);
	apply(MODE_SETTING, nm_mode_name(mode), persist);
	PG_RETURN_VOID();
}

/* numa.set_batch(batch int, persist bool = false) */
Datum
nm_sql_set_batch(PG_FUNCTION_ARGS)
{
	int batch;
	bool persist;
	char value[16];

	reject_null(fcinfo, "batch");
	batch = PG_GETARG_INT32(0);
	nm_check_batch(batch);
	persist = PG_GETARG_BOOL(1);
	check_persist(persist);
	snprintf(value, sizeof(value), "%d", batch);
	apply(BATCH_SETTING, value, persist);
	PG_RETURN_VOID();
}

/* numa.get_mode() -> text: what this session's moves use */
Datum
nm_sql_get_mode(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(nm_mode_name((NmMode) nm_mode)));
}

/* numa.get_batch() -> int */
Datum
nm_sql_get_batch(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(nm_batch);
}

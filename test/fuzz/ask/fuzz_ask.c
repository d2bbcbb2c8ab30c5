/*-------------------------------------------------------------------------
 *
 * fuzz_ask.c
 *	  Test module: a query is answered without indexes, by nbtree and by
 *	  numa_btree, in one snapshot, and the answers are compared.
 *
 * A table has each index twice, once of either access method. Which one a plan
 * may use is decided by a planner hook that hides the others, which
 * plans it may choose by the planner's enable_* settings. What the executor
 * really ran is taken from its plan state, so that a question which no index
 * answered is not counted as one that tested an index.
 *
 * Answers are compared by
 *	  - the number of rows,
 *	  - the rows as a multiset, bit by bit: 1.0 is not 1.00,
 *	  - the first "nkeys" columns in the order in which they came, where equal
 *		values count as the same: the order of equal keys is free,
 *	  - for a scroll cursor, besides: the same position always holds the same row.
 *
 * IDENTIFICATION
 *	  test/fuzz/ask/fuzz_ask.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/skey.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "parser/parse_type.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"

PG_MODULE_MAGIC;

void _PG_init(void);

PG_FUNCTION_INFO_V1(fuzz_ask);
PG_FUNCTION_INFO_V1(fuzz_show);
PG_FUNCTION_INFO_V1(fuzz_use_way);
PG_FUNCTION_INFO_V1(fuzz_int4_reverse_cmp);
PG_FUNCTION_INFO_V1(fuzz_dawdle);

/* What a plan was seen to do. */
#define USED_NUMA	  (1 << 0)
#define USED_BTREE	  (1 << 1)
#define USED_INDEX	  (1 << 2)
#define USED_ONLY	  (1 << 3)
#define USED_BITMAP	  (1 << 4)
#define USED_BACKWARD (1 << 5)
#define USED_ANDOR	  (1 << 6)
#define USED_MERGE	  (1 << 7)
#define USED_RESCAN	  (1 << 8) /* inner side of a nested loop, or a subplan */
#define USED_PARALLEL (1 << 9)
#define USED_SCROLL	  (1 << 10)
#define USED_ARRAY	  (1 << 11)
#define USED_INCSORT  (1 << 12)

/* A way to answer. */
typedef enum Way
{
	WAY_SEQ,
	WAY_BTREE,
	WAY_NUMA
} Way;
#define NWAYS 3
static const char *const way_name[NWAYS] = {"sequential scan", "btree", "numa_btree"};

typedef struct Question
{
	char *sql;
	int nkeys;		/* output columns that ORDER BY determines, from the first */
	bool rows_free; /* LIMIT among equals: compare only these columns */
	char *how;		/* letters, see settings() */
	int *steps;		/* scroll cursor: rows to fetch, negative = backwards */
	int nsteps;
	int nargs;
	Oid *argtypes;
	Datum *args;
	char *nulls;
} Question;

typedef struct Answer
{
	char sqlstate[6]; /* empty: no error */
	char *message;
	uint64 rows;
	uint64 set;
	uint64 order;
	int used;
	char *moved; /* scroll cursor: what was not where it had been */
} Answer;

#if PG_VERSION_NUM >= 190000
static build_simple_rel_hook_type prev_simple_rel = NULL;
#else
static get_relation_info_hook_type prev_relation_info = NULL;
#endif
static ExecutorStart_hook_type prev_executor_start = NULL;

/* While a question is being answered: indexes of other access methods are hidden. */
static bool answering = false;
static bool hiding = false; /* likewise, for whatever this session does */
static Oid may_use = InvalidOid;
static int used;
static Oid numa_am = InvalidOid;

static void
hide_indexes(RelOptInfo *rel)
{
	ListCell *lc;

	if (!answering && !hiding)
		return;
	foreach (lc, rel->indexlist)
	{
		if (((IndexOptInfo *) lfirst(lc))->relam != may_use)
			rel->indexlist = foreach_delete_current(rel->indexlist, lc);
	}
}

#if PG_VERSION_NUM >= 190000
static void
see_relation(PlannerInfo *root, RelOptInfo *rel, RangeTblEntry *rte)
{
	if (prev_simple_rel)
		prev_simple_rel(root, rel, rte);
	hide_indexes(rel);
}
#else
static void
see_relation(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	if (prev_relation_info)
		prev_relation_info(root, relid, inhparent, rel);
	hide_indexes(rel);
}
#endif

/* Note what the plan consists of. */
static bool
look_at(PlanState *ps, void *context)
{
	bool rescanned = *(bool *) context;
	Relation index = NULL;
	ScanKey keys = NULL;
	int nkeys = 0;

	if (ps == NULL)
		return false;
	switch (nodeTag(ps))
	{
		case T_IndexScanState:
			index = ((IndexScanState *) ps)->iss_RelationDesc;
			keys = ((IndexScanState *) ps)->iss_ScanKeys;
			nkeys = ((IndexScanState *) ps)->iss_NumScanKeys;
			used |= USED_INDEX;
			if (ScanDirectionIsBackward(((IndexScan *) ps->plan)->indexorderdir))
				used |= USED_BACKWARD;
			break;
		case T_IndexOnlyScanState:
			index = ((IndexOnlyScanState *) ps)->ioss_RelationDesc;
			keys = ((IndexOnlyScanState *) ps)->ioss_ScanKeys;
			nkeys = ((IndexOnlyScanState *) ps)->ioss_NumScanKeys;
			used |= USED_ONLY;
			if (ScanDirectionIsBackward(((IndexOnlyScan *) ps->plan)->indexorderdir))
				used |= USED_BACKWARD;
			break;
		case T_BitmapIndexScanState:
			index = ((BitmapIndexScanState *) ps)->biss_RelationDesc;
			keys = ((BitmapIndexScanState *) ps)->biss_ScanKeys;
			nkeys = ((BitmapIndexScanState *) ps)->biss_NumScanKeys;
			used |= USED_BITMAP;
			break;
		case T_BitmapAndState:
		case T_BitmapOrState:
			used |= USED_ANDOR;
			break;
		case T_MergeJoinState:
			used |= USED_MERGE;
			break;
		case T_GatherState:
		case T_GatherMergeState:
			used |= USED_PARALLEL;
			break;
		case T_IncrementalSortState:
			used |= USED_INCSORT;
			break;
		default:
			break;
	}
	if (index)
	{
		if (index->rd_rel->relam == BTREE_AM_OID)
			used |= USED_BTREE;
		else if (index->rd_rel->relam == numa_am)
			used |= USED_NUMA;
		if (rescanned)
			used |= USED_RESCAN;
		for (int i = 0; i < nkeys; i++)
			if (keys[i].sk_flags & SK_SEARCHARRAY)
				used |= USED_ARRAY;
	}
	if (IsA(ps, NestLoopState))
	{
		bool inner = true;

		return look_at(outerPlanState(ps), context) || look_at(innerPlanState(ps), &inner);
	}
	return planstate_tree_walker(ps, look_at, context);
}

static void
see_plan(QueryDesc *desc, int eflags)
{
	bool rescanned = false;

	if (prev_executor_start)
		prev_executor_start(desc, eflags);
	else
		standard_ExecutorStart(desc, eflags);
	if (answering && desc->planstate && !(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		look_at(desc->planstate, &rescanned);
}

static void
set(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_SUSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static void
set_bool(const char *name, bool value)
{
	set(name, value ? "on" : "off");
}

/*
 * Planner settings for one way. "how" has letters: plain (i)ndex scans, index-(o)nly
 * ones too, (b)itmaps, or (a)ny of them; (m)erge or (n)ested-loop joins only; in
 * (p)arallel; (g)eneric plan.
 */
static void
settings(Way way, const char *how)
{
	bool any = strchr(how, 'a') != NULL;
	bool seq = way == WAY_SEQ;
	bool merge = strchr(how, 'm') != NULL && !seq;
	bool nest = strchr(how, 'n') != NULL && !seq;
	bool parallel = strchr(how, 'p') != NULL && !seq;

	set_bool("enable_seqscan", seq);
	set_bool("enable_indexscan", !seq && (any || strpbrk(how, "io")));
	set_bool("enable_indexonlyscan", !seq && (any || strchr(how, 'o')));
	set_bool("enable_bitmapscan", !seq && (any || strchr(how, 'b')));
	set_bool("enable_sort", seq || any || strchr(how, 'b'));
	set_bool("enable_incremental_sort", any);
	set_bool("enable_hashjoin", !merge && !nest);
	set_bool("enable_mergejoin", !nest);
	set_bool("enable_nestloop", !merge);
	set_bool("enable_material", !merge && !nest);
	set_bool("enable_memoize", !nest);
	set("max_parallel_workers_per_gather", parallel ? "2" : "0");
	if (parallel)
	{
		set("parallel_setup_cost", "0");
		set("parallel_tuple_cost", "0");
		set("min_parallel_table_scan_size", "0");
		set("min_parallel_index_scan_size", "0");
		set("enable_hashagg", "off");
	}
	set("plan_cache_mode", strchr(how, 'g') ? "force_generic_plan" : "force_custom_plan");
}

/* So that sums of hashes tell multisets of rows apart. */
static uint64
mix(uint64 h)
{
	h = (h ^ (h >> 30)) * UINT64CONST(0xbf58476d1ce4e5b9);
	h = (h ^ (h >> 27)) * UINT64CONST(0x94d049bb133111eb);
	return h ^ (h >> 31);
}

/* A column's value as a number; equal: what the type calls equal is the same. */
static uint64
value_hash(TupleDesc desc, int column, Datum value, bool isnull, bool equal)
{
	Form_pg_attribute att = TupleDescAttr(desc, column);

	if (isnull)
		return 0x9e3779b97f4a7c15;
	if (equal)
	{
		TypeCacheEntry *type = lookup_type_cache(att->atttypid, TYPECACHE_HASH_EXTENDED_PROC_FINFO);

		if (OidIsValid(type->hash_extended_proc))
			return DatumGetUInt64(FunctionCall2Coll(&type->hash_extended_proc_finfo, att->attcollation, value, Int64GetDatum(0)));
	}
	return datum_image_hash(value, att->attbyval, att->attlen);
}

/* The hash of columns [0, n) of a row. */
static uint64
row_hash(TupleDesc desc, HeapTuple row, int n, bool equal)
{
	uint64 h = 17;

	for (int i = 0; i < n; i++)
	{
		bool isnull;
		Datum value = SPI_getbinval(row, desc, i + 1, &isnull);

		h = hash_combine64(h, value_hash(desc, i, value, isnull, equal));
	}
	return h;
}

/* Rows that just came from SPI, in order. */
static void
add_rows(const Question *q, Answer *a)
{
	TupleDesc desc = SPI_tuptable->tupdesc;
	int nkeys = Min(q->nkeys, desc->natts);

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple row = SPI_tuptable->vals[i];

		CHECK_FOR_INTERRUPTS();
		a->order = hash_combine64(a->order, row_hash(desc, row, nkeys, true));
		if (!q->rows_free)
			a->set += mix(row_hash(desc, row, desc->natts, false));
	}
	a->rows += SPI_processed;
}

/*
 * Fetch forwards and backwards as the question says, then everything. Position p is the
 * p-th row, 0 before the first.
 */
static void
scroll(const Question *q, Way way, SPIPlanPtr plan, Answer *a)
{
	Portal portal = SPI_cursor_open(NULL, plan, q->args, q->nulls, true);
	int64 size = 64;
	uint64 *whole = palloc0(size * sizeof(uint64));
	uint64 *keys = palloc0(size * sizeof(uint64));
	bool *seen = palloc0(size * sizeof(bool));
	int64 position = 0;
	int64 last = -1; /* number of rows, once the end was reached */

	/* Three more steps: to the end, back to the start, and once through it all. */
	for (int s = 0; s < q->nsteps + 3; s++)
	{
		bool forward = s < q->nsteps ? q->steps[s] > 0 : s != q->nsteps + 1;
		long count = s < q->nsteps ? labs(q->steps[s]) : FETCH_ALL;
		TupleDesc desc;

		SPI_cursor_fetch(portal, forward, count);
		desc = SPI_tuptable->tupdesc;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			HeapTuple row = SPI_tuptable->vals[i];
			uint64 h = row_hash(desc, row, desc->natts, false);

			position += forward ? 1 : -1;
			if (position < 1 || (last >= 0 && position > last))
			{
				a->moved = psprintf("step %d: a row at position " INT64_FORMAT " of " INT64_FORMAT, s, position, last);
				break;
			}
			while (position >= size)
			{
				whole = repalloc(whole, 2 * size * sizeof(uint64));
				keys = repalloc(keys, 2 * size * sizeof(uint64));
				seen = repalloc(seen, 2 * size * sizeof(bool));
				memset(seen + size, 0, size * sizeof(bool));
				size *= 2;
			}
			/* nbtree gives the rows of a posting list in the same order in either direction */
			if (seen[position] && whole[position] != h && way != WAY_BTREE)
				a->moved = psprintf("step %d: another row at position " INT64_FORMAT, s, position);
			seen[position] = true;
			whole[position] = h;
			keys[position] = row_hash(desc, row, Min(q->nkeys, desc->natts), true);
		}
		if (a->moved)
			break;
		if ((long) SPI_processed < count)
		{
			if (!forward && position > 1)
				a->moved = psprintf("step %d: the start was reached at position " INT64_FORMAT, s, position);
			if (forward && last >= 0 && position < last)
				a->moved = psprintf("step %d: the end was reached at position " INT64_FORMAT " of " INT64_FORMAT, s, position, last);
			if (forward && last < 0)
				last = position;
			position = forward ? last + 1 : 0;
		}
		SPI_freetuptable(SPI_tuptable);
	}
	for (int64 p = 1; p <= last && !a->moved; p++)
	{
		a->order = hash_combine64(a->order, keys[p]);
		if (!q->rows_free)
			a->set += mix(whole[p]);
	}
	a->rows = Max(last, 0);
	used |= USED_SCROLL;
	SPI_cursor_close(portal);
}

/* Answer a question one way. Its errors are part of the answer, cancel and the like aren't. */
static void
answer(const Question *q, Way way, Answer *a)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	int nest;

	memset(a, 0, sizeof(*a));
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	nest = NewGUCNestLevel();
	PG_TRY();
	{
		SPIPlanPtr plan;
		MemoryContext spi;

		settings(way, q->how);
		answering = true;
		may_use = way == WAY_SEQ ? InvalidOid : way == WAY_BTREE ? BTREE_AM_OID
																 : numa_am;
		used = 0;

		SPI_connect();
		plan = SPI_prepare_cursor(q->sql, q->nargs, q->argtypes,
								  q->nsteps > 0 ? CURSOR_OPT_SCROLL : CURSOR_OPT_PARALLEL_OK);
		if (plan == NULL)
			elog(ERROR, "SPI_prepare: %s", SPI_result_code_string(SPI_result));
		if (q->nsteps > 0)
			scroll(q, way, plan, a);
		else
		{
			int rc = SPI_execute_plan(plan, q->args, q->nulls, true, 0);

			if (rc != SPI_OK_SELECT)
				elog(ERROR, "SPI_execute_plan: %s", SPI_result_code_string(rc));
			add_rows(q, a);
		}
		spi = MemoryContextSwitchTo(context);
		if (a->moved)
			a->moved = pstrdup(a->moved);
		MemoryContextSwitchTo(spi);
		SPI_finish();
		answering = false;
		AtEOXact_GUC(false, nest);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData *e;

		answering = false;
		MemoryContextSwitchTo(context);
		e = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		if (ERRCODE_TO_CATEGORY(e->sqlerrcode) == MAKE_SQLSTATE('5', '7', '0', '0', '0') || /* canceled, shut down */
			ERRCODE_TO_CATEGORY(e->sqlerrcode) == ERRCODE_TRANSACTION_ROLLBACK)
		{
			MemoryContextSwitchTo(context);
			CurrentResourceOwner = owner;
			ReThrowError(e);
		}
		strlcpy(a->sqlstate, unpack_sql_state(e->sqlerrcode), sizeof(a->sqlstate));
		a->message = e->message;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	a->used = used;
}

/* A question from a function's arguments. */
static void
get_question(FunctionCallInfo fcinfo, Question *q)
{
	Datum *elems;
	bool *nulls;
	int n;

	memset(q, 0, sizeof(*q));
	q->sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
	q->nkeys = PG_GETARG_INT32(1);
	q->how = text_to_cstring(PG_GETARG_TEXT_PP(2));
	q->rows_free = strchr(q->how, 'f') != NULL;
	if (PG_NARGS() > 3 && !PG_ARGISNULL(3))
	{
		ArrayType *steps = PG_GETARG_ARRAYTYPE_P(3);

		q->nsteps = ArrayGetNItems(ARR_NDIM(steps), ARR_DIMS(steps));
		q->steps = (int *) ARR_DATA_PTR(steps);
	}
	if (PG_NARGS() > 4 && !PG_ARGISNULL(4))
	{
		/* pairs of type and value */
		deconstruct_array(PG_GETARG_ARRAYTYPE_P(4), TEXTOID, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
		q->nargs = n / 2;
		q->argtypes = palloc(q->nargs * sizeof(Oid));
		q->args = palloc0(q->nargs * sizeof(Datum));
		q->nulls = palloc0(q->nargs + 1);
		for (int i = 0; i < q->nargs; i++)
		{
			int32 typmod;
			Oid input;
			Oid ioparam;

#if PG_VERSION_NUM >= 160000
			(void) parseTypeString(TextDatumGetCString(elems[2 * i]), &q->argtypes[i], &typmod, NULL);
#else
			parseTypeString(TextDatumGetCString(elems[2 * i]), &q->argtypes[i], &typmod, false);
#endif
			q->nulls[i] = nulls[2 * i + 1] ? 'n' : ' ';
			getTypeInputInfo(q->argtypes[i], &input, &ioparam);
			if (!nulls[2 * i + 1])
				q->args[i] = OidInputFunctionCall(input, TextDatumGetCString(elems[2 * i + 1]), ioparam, typmod);
		}
	}
	numa_am = get_index_am_oid("numa_btree", false);
}

static void
describe(StringInfo s, Way way, const Answer *a)
{
	appendStringInfo(s, "%s: ", way_name[way]);
	if (a->sqlstate[0])
		appendStringInfo(s, "ERROR %s: %s", a->sqlstate, a->message);
	else
		appendStringInfo(s, UINT64_FORMAT " rows, set %016llx, order %016llx%s%s%s", a->rows, (unsigned long long) a->set,
						 (unsigned long long) a->order, a->used & (USED_NUMA | USED_BTREE) ? "" : ", no index",
						 a->moved ? ", " : "", a->moved ? a->moved : "");
}

/*
 * fuzz_ask(sql text, nkeys int, how text, steps int[], args text[]) returns text
 *
 * Answers: "ROWS USED" when all agree, "!" and the answers when not, and "E" with ROWS =
 * the SQLSTATE when all failed alike; "B": btree alone met an internal error.
 */
Datum
fuzz_ask(PG_FUNCTION_ARGS)
{
	Question q;
	Answer a[NWAYS];
	StringInfoData s;
	bool same = true;
	bool core;

	get_question(fcinfo, &q);
	for (Way way = 0; way < NWAYS; way++)
		answer(&q, way, &a[way]);
	/* what only nbtree stumbles over is core's */
	core = strncmp(a[WAY_BTREE].sqlstate, "XX", 2) == 0 && strcmp(a[WAY_NUMA].sqlstate, a[WAY_BTREE].sqlstate) != 0;
	if (core)
		a[WAY_BTREE] = a[WAY_SEQ];
	for (Way way = 0; way < NWAYS; way++)
		same = same && strcmp(a[way].sqlstate, a[0].sqlstate) == 0 &&
			   a[way].rows == a[0].rows && a[way].set == a[0].set && a[way].order == a[0].order && !a[way].moved;
	initStringInfo(&s);
	if (same && core)
		appendStringInfoString(&s, "Bbtree fails");
	else if (same && a[0].sqlstate[0])
		appendStringInfo(&s, "E%s %s", a[0].sqlstate, a[0].message);
	else if (same)
		appendStringInfo(&s, UINT64_FORMAT " %d", a[0].rows, a[WAY_NUMA].used | (a[WAY_BTREE].used & USED_BTREE));
	else
	{
		appendStringInfoChar(&s, '!');
		for (Way way = 0; way < NWAYS; way++)
		{
			if (way > 0)
				appendStringInfoChar(&s, '\n');
			describe(&s, way, &a[way]);
		}
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(s.data, s.len));
}

/* fuzz_use_way(way int) returns void: from now on the session's plans have these indexes only; -1: all */
Datum
fuzz_use_way(PG_FUNCTION_ARGS)
{
	Way way = PG_GETARG_INT32(0);

	hiding = PG_GETARG_INT32(0) >= 0;
	may_use = way == WAY_SEQ ? InvalidOid : way == WAY_BTREE ? BTREE_AM_OID
															 : get_index_am_oid("numa_btree", false);
	PG_RETURN_VOID();
}

/* fuzz_show(sql text, way int, how text, args text[]) returns text: the first rows, for a report */
Datum
fuzz_show(PG_FUNCTION_ARGS)
{
	char *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));
	Way way = PG_GETARG_INT32(1);
	char *how = text_to_cstring(PG_GETARG_TEXT_PP(2));
	int nest = NewGUCNestLevel();
	MemoryContext context = CurrentMemoryContext;
	StringInfoData s;

	initStringInfo(&s);
	numa_am = get_index_am_oid("numa_btree", false);
	settings(way, how);
	PG_TRY();
	{
		answering = true;
		may_use = way == WAY_SEQ ? InvalidOid : way == WAY_BTREE ? BTREE_AM_OID
																 : numa_am;
		SPI_connect();
		SPI_execute(sql, strncmp(sql, "EXPLAIN", 7) != 0, 0);
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			MemoryContext spi;
			char *c[4];
			int n = Min(SPI_tuptable->tupdesc->natts, 4);

			for (int k = 0; k < n; k++)
				c[k] = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, k + 1);
			spi = MemoryContextSwitchTo(context);
			for (int k = 0; k < n; k++)
				appendStringInfo(&s, "%s%s", k ? " | " : "", c[k] ? c[k] : "NULL");
			appendStringInfoChar(&s, '\n');
			MemoryContextSwitchTo(spi);
		}
		SPI_finish();
	}
	PG_FINALLY();
	{
		answering = false;
	}
	PG_END_TRY();
	AtEOXact_GUC(false, nest);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(s.data, s.len));
}

/* An order function that core does not know, for operator classes of the tests' own. */
Datum
fuzz_int4_reverse_cmp(PG_FUNCTION_ARGS)
{
	int32 a = PG_GETARG_INT32(0);
	int32 b = PG_GETARG_INT32(1);

	PG_RETURN_INT32(a < b ? 1 : a > b ? -1
									  : 0);
}

/*
 * The argument; slowly while an index is being loaded, so that others meet the load. An
 * index on this is an index on the column.
 */
Datum
fuzz_dawdle(PG_FUNCTION_ARGS)
{
	if (debug_query_string && strncmp(debug_query_string, "SELECT numa.btree_load", 22) == 0)
		pg_usleep(100);
	PG_RETURN_INT32(PG_GETARG_INT32(0));
}

void
_PG_init(void)
{
#if PG_VERSION_NUM >= 190000
	prev_simple_rel = build_simple_rel_hook;
	build_simple_rel_hook = see_relation;
#else
	prev_relation_info = get_relation_info_hook;
	get_relation_info_hook = see_relation;
#endif
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = see_plan;
}

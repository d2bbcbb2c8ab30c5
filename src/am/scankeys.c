/*-------------------------------------------------------------------------
 *
 * scankeys.c
 *	  From the executor's scan keys to bounds in the tree and filters.
 *
 * See scankeys.h.  Order below always means index order: on a DESC column "<"
 * is a lower bound.  Nothing here holds a lock; comparators may raise.
 *
 * IDENTIFICATION
 *	  src/am/scankeys.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"
#include "am/scankeys.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "lib/qunique.h"
#include "utils/array.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

typedef struct NmElementSort
{
	const NmKeyDesc *keydesc;
	NmKeyInfo *info;
	Oid collation;
	bool desc;
} NmElementSort;

static void analyse_key(NmScanKeys *sk, NmKeyInfo *info, ScanKey key);
static bool set_array(NmScanKeys *sk, NmKeyInfo *info, ScanKey key);
static void find_element_order(NmScanKeys *sk, NmKeyInfo *info);
static int compare_elements(const void *a, const void *b, void *arg);
static void choose_bounds(NmScanKeys *sk);
static bool is_tighter(NmScanKeys *sk, int a, int b, bool lower);
static void fill_bounds(NmScanKeys *sk);
static void fill_bound(NmScanKeys *sk, NmBound *bound, NmBoundKeys *keys, bool is_lower);
static bool integers_head(const NmKeyDesc *desc, const NmBoundKeys *keys, bool highest, uint64 *head);
static int compare_argument(const NmKeyDesc *desc, const NmKeyInfo *info, Datum value, Datum arg);
static int compare_bound(void *arg, const NmItem *item);
static bool match_array(NmScanKeys *sk, NmKeyInfo *info, ScanKey key, Datum value);
static bool match_scalar(NmScanKeys *sk, NmKeyInfo *info, ScanKey key, Datum value);

void
nm_keys_init(NmScanKeys *sk, Relation index, const NmKeyDesc *desc, int nkeys)
{
	memset(sk, 0, sizeof(*sk));
	sk->index = index;
	sk->desc = desc;
	sk->cxt = CurrentMemoryContext;
	sk->info = palloc0(Max(nkeys, 1) * sizeof(NmKeyInfo));
	sk->filters = palloc(Max(nkeys, 1) * sizeof(int));
	sk->lo_keys.desc = desc;
	sk->lo_keys.cols = palloc0((desc->nkeys + 1) * sizeof(NmBoundColumn));
	sk->hi_keys.desc = desc;
	sk->hi_keys.cols = palloc0((desc->nkeys + 1) * sizeof(NmBoundColumn));
	sk->satisfiable = true;
}

void
nm_keys_end(NmScanKeys *sk)
{
	if (sk->array_cxt)
		MemoryContextDelete(sk->array_cxt);
	pfree(sk->info);
	pfree(sk->filters);
	pfree(sk->lo_keys.cols);
	pfree(sk->hi_keys.cols);
}

static bool
is_plain_integer(Oid type, NmFixedKind *kind)
{
	switch (type)
	{
		case INT2OID:
			*kind = NM_FIXED_INT2;
			return true;
		case INT4OID:
			*kind = NM_FIXED_INT4;
			return true;
		case INT8OID:
			*kind = NM_FIXED_INT8;
			return true;
		default:
			return false;
	}
}

/* Built-in order functions between integers of different width. */
static bool
is_integer_cross_order(Oid proc)
{
	switch (proc)
	{
		case F_BTINT24CMP:
		case F_BTINT28CMP:
		case F_BTINT42CMP:
		case F_BTINT48CMP:
		case F_BTINT82CMP:
		case F_BTINT84CMP:
			return true;
		default:
			return false;
	}
}

/*
 * Work out what depends on the kind of key and not on its value.  Catalog
 * look-ups happen here, so the result is kept over rescans.
 */
static void
analyse_key(NmScanKeys *sk, NmKeyInfo *info, ScanKey key)
{
	const NmKeyDesc *desc = sk->desc;
	int i = key->sk_attno - 1;
	Oid family = sk->index->rd_opfamily[i];
	Oid intype = sk->index->rd_opcintype[i];
	Oid subtype = OidIsValid(key->sk_subtype) ? key->sk_subtype : intype;

	if (key->sk_flags & (SK_ROW_HEADER | SK_ROW_MEMBER | SK_ORDER_BY))
		elog(ERROR, "unsupported scan key flags 0x%x for index \"%s\"",
			 key->sk_flags, RelationGetRelationName(sk->index));
	if (key->sk_attno < 1 || key->sk_attno > desc->nkeys)
		elog(ERROR, "invalid scan key column %d for index \"%s\"",
			 key->sk_attno, RelationGetRelationName(sk->index));

	memset(info, 0, sizeof(*info));
	info->attno = key->sk_attno;
	info->strategy = key->sk_strategy;
	info->subtype = key->sk_subtype;
	info->flags = key->sk_flags & ~SK_ISNULL;
	info->isnull_test = (key->sk_flags & (SK_SEARCHNULL | SK_SEARCHNOTNULL)) != 0;
	info->is_array = (key->sk_flags & SK_SEARCHARRAY) != 0;
	if (info->isnull_test)
		return;
	if (key->sk_strategy < 1 || key->sk_strategy > NM_NSTRATEGIES)
		elog(ERROR, "unrecognized strategy number %d for index \"%s\"",
			 key->sk_strategy, RelationGetRelationName(sk->index));

	if (subtype == intype)
	{
		info->arg_order = NM_ARG_SAME;
		info->arg_kind = desc->kind[i];
	}
	else
	{
		Oid proc = get_opfamily_proc(family, intype, subtype, NM_ORDER_PROC);
		NmFixedKind column_kind;

		if (!OidIsValid(proc))
			info->arg_order = NM_ARG_NONE;
		else if (desc->column[i] == NM_ORDER_INTEGER && is_integer_cross_order(proc) &&
				 is_plain_integer(intype, &column_kind) &&
				 is_plain_integer(subtype, &info->arg_kind))
			info->arg_order = NM_ARG_INTEGER;
		else
		{
			info->arg_order = NM_ARG_CALL;
			fmgr_info_cxt(proc, &info->order, sk->cxt);
		}
	}
}

/* Order among an array's elements, which may be of a type of their own. */
static void
find_element_order(NmScanKeys *sk, NmKeyInfo *info)
{
	int i = info->attno - 1;
	Oid type = info->subtype;
	Oid proc;

	if (info->elem_order_known)
		return;
	info->elem_order_known = true;
	if (!OidIsValid(type) || type == sk->index->rd_opcintype[i])
		proc = sk->desc->order[i].fn_oid;
	else
		proc = get_opfamily_proc(sk->index->rd_opfamily[i], type, type, NM_ORDER_PROC);
	if (!OidIsValid(proc))
		return;
	info->elem_kind = nm_fixed_kind_of_proc(proc);
	fmgr_info_cxt(proc, &info->elem_order, sk->cxt);
	if (proc == sk->desc->order[i].fn_oid)
	{
		info->elem_order.fn_expr = sk->desc->order[i].fn_expr;
		info->elem_as_column = sk->keys[info - sk->info].sk_collation == sk->desc->collation[i];
	}
}

/*
 * Integers that a Datum holds sign-extended need no function to be compared.
 * Lists of a thousand of them are common.
 */
#ifdef USE_FLOAT8_BYVAL
#define ST_SORT			 sort_integers
#define ST_ELEMENT_TYPE	 Datum
#define ST_COMPARE(a, b) (((int64) * (a) > (int64) * (b)) - ((int64) * (a) < (int64) * (b)))
#define ST_SCOPE		 static
#define ST_DECLARE
#define ST_DEFINE
#include "lib/sort_template.h"

static bool
are_integers(const NmKeyInfo *info)
{
	return info->elem_kind == NM_FIXED_INT2 || info->elem_kind == NM_FIXED_INT4 ||
		   info->elem_kind == NM_FIXED_INT8;
}
#endif

/* Sort the elements into index order and drop what is there twice; returns how many stay. */
static int
sort_elements(Datum *elems, int n, NmElementSort *sort)
{
#ifdef USE_FLOAT8_BYVAL
	if (are_integers(sort->info))
	{
		int kept = 1;

		sort_integers(elems, n);
		for (int i = 1; i < n; i++)
		{
			if (elems[i] != elems[kept - 1])
				elems[kept++] = elems[i];
		}
		for (int i = 0; sort->desc && i < kept / 2; i++)
		{
			Datum d = elems[i];

			elems[i] = elems[kept - 1 - i];
			elems[kept - 1 - i] = d;
		}
		return kept;
	}
#endif
	qsort_arg(elems, n, sizeof(Datum), compare_elements, sort);
	return (int) qunique_arg(elems, n, sizeof(Datum), compare_elements, sort);
}

static int
compare_elements(const void *a, const void *b, void *arg)
{
	NmElementSort *sort = (NmElementSort *) arg;
	Datum da = *(const Datum *) a;
	Datum db = *(const Datum *) b;
	int r;

	if (sort->info->elem_kind != NM_FIXED_NONE)
	{
		int64 x = nm_fixed_value(sort->info->elem_kind, da);
		int64 y = nm_fixed_value(sort->info->elem_kind, db);

		r = (x > y) - (x < y);
	}
	else if (sort->info->elem_as_column)
		r = nm_compare_column(sort->keydesc, sort->info->attno, da, db);
	else
		r = DatumGetInt32(FunctionCall2Coll(&sort->info->elem_order, sort->collation, da, db));
	if (sort->desc)
		return r < 0 ? 1 : (r > 0 ? -1 : 0);
	return r;
}

/*
 * Take an array key apart.  False if nothing can match.  Operators are
 * strict, so NULL elements match nothing and are dropped.  An inequality with
 * any element is one with the smallest or largest.
 */
static bool
set_array(NmScanKeys *sk, NmKeyInfo *info, ScanKey key)
{
	MemoryContext old = MemoryContextSwitchTo(sk->array_cxt);
	ArrayType *array = DatumGetArrayTypeP(key->sk_argument);
	Datum *elems;
	bool *nulls;
	int n;
	int kept = 0;
	int16 len;
	bool byval;
	char align;
	NmElementSort sort = {.keydesc = sk->desc, .info = info, .collation = key->sk_collation};

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (!nulls[i])
			elems[kept++] = elems[i];
	}
	MemoryContextSwitchTo(old);

	info->elems = elems;
	info->nelems = kept;
	info->sorted = false;
	info->cur = 0;
	if (kept == 0)
		return false;

	find_element_order(sk, info);
	if (!OidIsValid(info->elem_order.fn_oid))
		return true; /* a filter that looks at each element */

	if (info->strategy != BTEqualStrategyNumber)
	{
		bool want_max = info->strategy == BTLessStrategyNumber ||
						info->strategy == BTLessEqualStrategyNumber;

		info->arg = elems[0];
		for (int i = 1; i < kept; i++)
		{
			int r = compare_elements(&elems[i], &info->arg, &sort);

			if (want_max ? r > 0 : r < 0)
				info->arg = elems[i];
		}
		info->nelems = 0; /* a scalar now */
		return true;
	}

	sort.desc = (sk->desc->indoption[info->attno - 1] & INDOPTION_DESC) != 0;
	info->nelems = sort_elements(elems, kept, &sort);
	info->sorted = true;
	info->arg = elems[0];
	return true;
}

void
nm_keys_set(NmScanKeys *sk, ScanKey keys, int nkeys)
{
	bool arrays = false;

	sk->keys = keys;
	sk->nkeys = nkeys;
	sk->satisfiable = true;
	sk->point = false;
	sk->nfilters = 0;

	for (int i = 0; i < nkeys; i++)
	{
		ScanKey key = &keys[i];
		NmKeyInfo *info = &sk->info[i];

		if (info->attno != key->sk_attno || info->strategy != key->sk_strategy ||
			info->subtype != key->sk_subtype || info->flags != (key->sk_flags & ~SK_ISNULL))
			analyse_key(sk, info, key);
		if (info->is_array)
			arrays = true;
		/* operators are strict: comparing with NULL gives nothing */
		if ((key->sk_flags & SK_ISNULL) && !info->isnull_test)
			sk->satisfiable = false;
	}
	if (!sk->satisfiable)
		return;

	if (arrays)
	{
		if (sk->array_cxt == NULL)
			sk->array_cxt = AllocSetContextCreate(sk->cxt, "numa_btree array keys",
												  ALLOCSET_SMALL_SIZES);
		else
			MemoryContextReset(sk->array_cxt);
	}

	for (int i = 0; i < nkeys; i++)
	{
		NmKeyInfo *info = &sk->info[i];

		info->bound = false;
		info->nelems = 0;
		if (info->isnull_test)
			continue;
		if (info->is_array)
		{
			if (!set_array(sk, info, &keys[i]))
			{
				sk->satisfiable = false;
				return;
			}
		}
		else
			info->arg = keys[i].sk_argument;
	}

	choose_bounds(sk);
	if (!sk->satisfiable)
		return;

	for (int i = 0; i < nkeys; i++)
	{
		if (!sk->info[i].bound)
			sk->filters[sk->nfilters++] = i;
	}

	fill_bounds(sk);
	sk->point = (sk->desc->layout == NM_LAYOUT_FIXED && nkeys == 1 && sk->nprefix == 1 &&
				 sk->narrays == 0 && !sk->info[0].isnull_test && sk->lo.cmp == NULL);
}

/* Is the argument of key a a tighter bound than that of key b? */
static bool
is_tighter(NmScanKeys *sk, int a, int b, bool lower)
{
	NmKeyInfo *ka = &sk->info[a];
	NmKeyInfo *kb = &sk->info[b];
	NmElementSort sort = {
		.keydesc = sk->desc,
		.info = ka,
		.collation = sk->desc->collation[ka->attno - 1],
		.desc = (sk->desc->indoption[ka->attno - 1] & INDOPTION_DESC) != 0,
	};
	int r;

	if (ka->subtype != kb->subtype)
		return false; /* either will do */
	find_element_order(sk, ka);
	if (!OidIsValid(ka->elem_order.fn_oid))
		return false;
	r = compare_elements(&ka->arg, &kb->arg, &sort);
	if (r == 0)
		return ka->strategy == BTLessStrategyNumber || ka->strategy == BTGreaterStrategyNumber;
	return lower ? r > 0 : r < 0;
}

/*
 * Give the keys of the leading columns their roles.  Keys come sorted by
 * column, but nothing here needs that.
 */
static void
choose_bounds(NmScanKeys *sk)
{
	const NmKeyDesc *desc = sk->desc;

	sk->nprefix = 0;
	sk->narrays = 0;
	sk->lower = sk->upper = -1;
	sk->lower_null = sk->upper_null = false;

	for (int col = 0; col < desc->nkeys; col++)
	{
		bool is_desc = (desc->indoption[col] & INDOPTION_DESC) != 0;
		bool nulls_first = (desc->indoption[col] & INDOPTION_NULLS_FIRST) != 0;
		int equal = -1;
		int array = -1;
		int isnull = -1;
		int lower = -1;
		int upper = -1;
		bool strict = false;

		for (int i = 0; i < sk->nkeys; i++)
		{
			NmKeyInfo *info = &sk->info[i];
			bool is_lower;

			if (info->attno != col + 1)
				continue;
			if (info->isnull_test)
			{
				if (info->flags & SK_SEARCHNULL)
					isnull = i;
				else
					strict = true;
				continue;
			}
			strict = true;
			if (info->arg_order == NM_ARG_NONE || (info->nelems > 0 && !info->sorted))
				continue; /* can only be a filter */
			if (info->strategy == BTEqualStrategyNumber)
			{
				if (info->nelems > 0)
					array = array < 0 ? i : array;
				else
					equal = equal < 0 ? i : equal;
				continue;
			}
			is_lower = (info->strategy == BTGreaterStrategyNumber ||
						info->strategy == BTGreaterEqualStrategyNumber) != is_desc;
			if (is_lower)
				lower = (lower < 0 || is_tighter(sk, i, lower, true)) ? i : lower;
			else
				upper = (upper < 0 || is_tighter(sk, i, upper, false)) ? i : upper;
		}

		/* NULL and anything else at once: nothing */
		if (isnull >= 0 && strict)
		{
			sk->satisfiable = false;
			return;
		}

		/* what is strict on this column holds for every entry in the bounds */
		if (equal >= 0 || array >= 0 || lower >= 0 || upper >= 0 || strict)
		{
			for (int i = 0; i < sk->nkeys; i++)
			{
				if (sk->info[i].attno == col + 1 && (sk->info[i].flags & SK_SEARCHNOTNULL))
					sk->info[i].bound = true;
			}
		}

		if (equal >= 0 || array >= 0 || isnull >= 0)
		{
			int i = equal >= 0 ? equal : (array >= 0 ? array : isnull);

			sk->info[i].bound = true;
			sk->prefix[sk->nprefix++] = i;
			if (equal < 0 && array >= 0)
				sk->arrays[sk->narrays++] = i;
			/* IS NULL said twice */
			for (int j = 0; isnull >= 0 && j < sk->nkeys; j++)
			{
				if (sk->info[j].attno == col + 1)
					sk->info[j].bound = true;
			}
			continue;
		}

		sk->lower = lower;
		sk->upper = upper;
		if (lower >= 0)
			sk->info[lower].bound = true;
		if (upper >= 0)
			sk->info[upper].bound = true;
		if (strict)
		{
			/* leave the NULLs out */
			sk->lower_null = nulls_first && lower < 0;
			sk->upper_null = !nulls_first && upper < 0;
		}
		break;
	}
}

/* Set the bounds from the roles and the current array elements. */
static void
fill_bounds(NmScanKeys *sk)
{
	fill_bound(sk, &sk->lo, &sk->lo_keys, true);
	fill_bound(sk, &sk->hi, &sk->hi_keys, false);
}

static void
fill_bound(NmScanKeys *sk, NmBound *bound, NmBoundKeys *keys, bool is_lower)
{
	const NmKeyDesc *desc = sk->desc;
	int last = is_lower ? sk->lower : sk->upper;
	bool last_null = is_lower ? sk->lower_null : sk->upper_null;
	NmBoundColumn *first = &keys->cols[0];
	bool integer;

	nm_bound_clear(bound);
	keys->ncols = 0;
	keys->have_tail = false;
	for (int i = 0; i < sk->nprefix; i++)
	{
		NmKeyInfo *info = &sk->info[sk->prefix[i]];
		NmBoundColumn *c = &keys->cols[keys->ncols++];

		c->isnull = info->isnull_test;
		c->value = info->arg;
		c->key = info->isnull_test ? NULL : info;
	}
	/* before all entries equal to the prefix, or after them */
	bound->tid = is_lower ? NM_TID_MIN : NM_TID_MAX;

	if (last >= 0)
	{
		NmKeyInfo *info = &sk->info[last];
		NmBoundColumn *c = &keys->cols[keys->ncols++];
		bool inclusive = info->strategy == BTLessEqualStrategyNumber ||
						 info->strategy == BTGreaterEqualStrategyNumber;

		c->isnull = false;
		c->value = info->arg;
		c->key = info;
		if (!inclusive)
			bound->tid = is_lower ? NM_TID_MAX : NM_TID_MIN;
	}
	else if (last_null)
	{
		NmBoundColumn *c = &keys->cols[keys->ncols++];

		c->isnull = true;
		c->value = (Datum) 0;
		c->key = NULL;
		bound->tid = is_lower ? NM_TID_MAX : NM_TID_MIN;
	}

	if (keys->ncols == 0)
	{
		bound->infinite = is_lower ? -1 : 1;
		return;
	}

	integer = first->isnull || first->key->arg_order == NM_ARG_INTEGER ||
			  (first->key->arg_order == NM_ARG_SAME && desc->column[0] == NM_ORDER_INTEGER);
	if (desc->layout == NM_LAYOUT_FIXED && integer)
	{
		bound->item.isnull = first->isnull;
		if (!first->isnull)
		{
			bound->item.key = nm_fixed_value(first->key->arg_kind, first->value);
			if (desc->desc_first)
				bound->item.key = ~bound->item.key;
		}
		return;
	}

	bound->cmp = compare_bound;
	bound->arg = keys;
	if (desc->layout != NM_LAYOUT_GENERAL || desc->head == NM_HEAD_NONE)
		return;
	if (desc->head == NM_HEAD_INTEGERS)
		bound->head_valid = integers_head(desc, keys, bound->tid != NM_TID_MIN, &bound->item.head);
	else if (first->isnull)
	{
		bound->item.head = desc->nulls_first ? 0 : PG_UINT64_MAX;
		bound->head_valid = true;
	}
	else if (first->key->arg_order == NM_ARG_SAME)
	{
		keys->head = bound->item.head = nm_value_head(desc, first->value);
		keys->have_tail = nm_value_tail(desc, first->value, &keys->tail);
		bound->head_valid = true;
	}
}

/*
 * The head of a bound's leading integers.  Of those that the bound leaves open
 * the lowest or the highest values, so that it is on the bound's side of all
 * entries that have the others.  False if a column is not compared as integers.
 */
static bool
integers_head(const NmKeyDesc *desc, const NmBoundKeys *keys, bool highest, uint64 *head)
{
	int left = 64;

	for (int i = 0; i < desc->nhead; i++)
	{
		const NmBoundColumn *c;
		NmFixedKind kind;

		if (i >= keys->ncols)
		{
			if (highest)
				*head |= PG_UINT64_MAX >> (64 - left);
			return true;
		}
		c = &keys->cols[i];
		kind = desc->kind[i];
		if (!c->isnull && c->key->arg_order == NM_ARG_INTEGER)
			kind = c->key->arg_kind;
		else if (!c->isnull && c->key->arg_order != NM_ARG_SAME)
			return false;
		if (!nm_head_add(desc, i, c->isnull ? 0 : nm_fixed_value(kind, c->value), c->isnull, head))
			return true;
		left -= desc->column_bits[i];
	}
	return true;
}

/* Order of a column value against a key's argument, DESC not applied. */
static inline int
compare_argument(const NmKeyDesc *desc, const NmKeyInfo *info, Datum value, Datum arg)
{
	int i = info->attno - 1;

	if (info->arg_order == NM_ARG_SAME)
		return nm_compare_column(desc, info->attno, value, arg);
	if (info->arg_order == NM_ARG_INTEGER)
	{
		int64 x = nm_fixed_value(desc->kind[i], value);
		int64 y = nm_fixed_value(info->arg_kind, arg);

		return (x > y) - (x < y);
	}
	return DatumGetInt32(FunctionCall2Coll((FmgrInfo *) &info->order,
										   desc->collation[i], value, arg));
}

/* NmBound.cmp: sign of (item - bound) over the bound's columns. */
static int
compare_bound(void *arg, const NmItem *item)
{
	const NmBoundKeys *keys = (const NmBoundKeys *) arg;
	const NmKeyDesc *desc = keys->desc;
	NmTupleBuffer buffer;
	IndexTuple itup = NULL;
	int from = 0;

	if (keys->have_tail && item->head == keys->head && (item->tag & NM_TAG_FOLDED))
	{
		NmTail tail;

		if (nm_image_tail(desc, item, &tail))
		{
			int r = nm_compare_tails(&tail, &keys->tail);

			if (r != 0)
				return desc->desc_first ? (r < 0 ? 1 : -1) : r;
			if (keys->ncols == 1)
				return 0;
			from = 1;
		}
	}
	if (from == 0 && desc->layout == NM_LAYOUT_GENERAL && desc->column[0] == NM_ORDER_CALL &&
		keys->ncols > 0 && !keys->cols[0].isnull)
	{
		Datum first;

		if (nm_image_first(desc, item, &first))
		{
			int r = compare_argument(desc, keys->cols[0].key, first, keys->cols[0].value);

			if (r != 0)
				return desc->desc_first ? (r < 0 ? 1 : -1) : r;
			if (keys->ncols == 1)
				return 0;
			from = 1;
		}
	}
	if (desc->layout == NM_LAYOUT_GENERAL)
		itup = nm_item_tuple(desc, item, &buffer);

	for (int i = from; i < keys->ncols; i++)
	{
		const NmBoundColumn *c = &keys->cols[i];
		Datum value;
		bool isnull;
		int r;

		if (desc->layout == NM_LAYOUT_FIXED)
		{
			isnull = item->isnull;
			value = isnull ? (Datum) 0 : nm_fixed_datum(desc->fixed, desc->desc_first ? ~item->key : item->key);
		}
		else
			value = index_getattr(itup, i + 1, desc->tupdesc, &isnull);

		if (isnull || c->isnull)
		{
			bool nulls_first = (desc->indoption[i] & INDOPTION_NULLS_FIRST) != 0;

			if (isnull && c->isnull)
				continue;
			return isnull == nulls_first ? -1 : 1;
		}
		r = compare_argument(desc, c->key, value, c->value);
		if (r != 0)
		{
			if (desc->indoption[i] & INDOPTION_DESC)
				return r < 0 ? 1 : -1;
			return r;
		}
	}
	return 0;
}

/*
 * ---------------------------------------------------------------------
 * Combinations of array elements
 * ---------------------------------------------------------------------
 */

static inline void
set_element(NmKeyInfo *info, int cur)
{
	info->cur = cur;
	info->arg = info->elems[cur];
}

void
nm_keys_start(NmScanKeys *sk, NmDirection dir)
{
	if (sk->narrays == 0)
		return;
	for (int i = 0; i < sk->narrays; i++)
	{
		NmKeyInfo *info = &sk->info[sk->arrays[i]];

		set_element(info, dir == NM_FORWARD ? 0 : info->nelems - 1);
	}
	fill_bounds(sk);
}

bool
nm_keys_advance(NmScanKeys *sk, NmDirection dir)
{
	/* the last column turns fastest: that is index order */
	for (int i = sk->narrays - 1; i >= 0; i--)
	{
		NmKeyInfo *info = &sk->info[sk->arrays[i]];
		int next = info->cur + (dir == NM_FORWARD ? 1 : -1);

		if (next >= 0 && next < info->nelems)
		{
			set_element(info, next);
			fill_bounds(sk);
			return true;
		}
		set_element(info, dir == NM_FORWARD ? 0 : info->nelems - 1);
	}
	return false;
}

void
nm_keys_save(const NmScanKeys *sk, int *cur)
{
	for (int i = 0; i < sk->narrays; i++)
		cur[i] = sk->info[sk->arrays[i]].cur;
}

void
nm_keys_restore(NmScanKeys *sk, const int *cur)
{
	if (sk->narrays == 0)
		return;
	for (int i = 0; i < sk->narrays; i++)
		set_element(&sk->info[sk->arrays[i]], cur[i]);
	fill_bounds(sk);
}

/*
 * ---------------------------------------------------------------------
 * Filters
 * ---------------------------------------------------------------------
 */

/* Is the value one of the array's elements (or in order with one of them)? */
static bool
match_array(NmScanKeys *sk, NmKeyInfo *info, ScanKey key, Datum value)
{
	int lo = 0;
	int hi = info->nelems;
	bool desc = (sk->desc->indoption[info->attno - 1] & INDOPTION_DESC) != 0;

	if (!info->sorted || info->arg_order == NM_ARG_NONE)
	{
		for (int i = 0; i < info->nelems; i++)
		{
			if (DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation,
											   value, info->elems[i])))
				return true;
		}
		return false;
	}
	while (lo < hi)
	{
		int mid = (lo + hi) / 2;
		int r = compare_argument(sk->desc, info, value, info->elems[mid]);

		if (r == 0)
			return true;
		if ((r < 0) != desc)
			hi = mid;
		else
			lo = mid + 1;
	}
	return false;
}

static bool
match_scalar(NmScanKeys *sk, NmKeyInfo *info, ScanKey key, Datum value)
{
	int r;

	/* the operator itself, unless its order is one we know without a call */
	if (info->arg_order == NM_ARG_NONE || info->arg_order == NM_ARG_CALL ||
		sk->desc->column[info->attno - 1] == NM_ORDER_CALL)
		return DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation,
											  value, info->arg));

	r = compare_argument(sk->desc, info, value, info->arg);
	switch (info->strategy)
	{
		case BTLessStrategyNumber:
			return r < 0;
		case BTLessEqualStrategyNumber:
			return r <= 0;
		case BTEqualStrategyNumber:
			return r == 0;
		case BTGreaterEqualStrategyNumber:
			return r >= 0;
		default:
			return r > 0;
	}
}

bool
nm_keys_match(NmScanKeys *sk, const NmBatch *batch, int i)
{
	const NmKeyDesc *desc = sk->desc;
	NmTupleBuffer buffer;
	IndexTuple itup = NULL;

	if (desc->layout == NM_LAYOUT_GENERAL)
	{
		NmItem item;

		nm_batch_item(batch, NM_LAYOUT_GENERAL, i, &item);
		itup = nm_image_tuple(desc, &item, &buffer);
	}

	for (int f = 0; f < sk->nfilters; f++)
	{
		NmKeyInfo *info = &sk->info[sk->filters[f]];
		ScanKey key = &sk->keys[sk->filters[f]];
		Datum value;
		bool isnull;

		if (desc->layout == NM_LAYOUT_FIXED)
		{
			isnull = i >= batch->null_from && i < batch->null_to;
			value = isnull ? (Datum) 0 : nm_fixed_datum(desc->fixed, desc->desc_first ? ~batch->keys[i] : batch->keys[i]);
		}
		else
			value = index_getattr(itup, info->attno, desc->tupdesc, &isnull);

		if (info->isnull_test)
		{
			if (isnull != ((info->flags & SK_SEARCHNULL) != 0))
				return false;
			continue;
		}
		if (isnull)
			return false;
		if (info->nelems > 0 ? !match_array(sk, info, key, value) : !match_scalar(sk, info, key, value))
			return false;
	}
	return true;
}

/*-------------------------------------------------------------------------
 *
 * spool_general.c
 *	  Sort entries of the GENERAL layout: index tuples.
 *
 * An entry has 64 bits that decide most comparisons without its tuple:
 *	- the head that the tree uses, too, where the first column has one, or that
 *	  of the collation's sort key (spool_sortkey.c).  All is sorted by heads
 *	  first; what has equal heads is sorted by the next eight bytes of the first
 *	  column, or of the sort key, and so on, where that is a string of bytes (a
 *	  radix sort from the top, with quicksort inside);
 *	- else the abbreviated key that the type's own sort support offers (numeric),
 *	  as long as it finds that worth it.
 * What they leave open is decided by the columns, then by the TID.
 *
 * Any order function will do: tuplesort, which we could use for classes whose
 * "<" a btree family has, would form a minimal tuple of every row besides.
 *
 * IDENTIFICATION
 *	  src/am/spool_general.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "am/spool.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* Below this many equal heads the columns are compared at once. */
#define REFINE_MIN 8
/* Words of the first column that are looked at one by one. */
#define REFINE_MAX 32

/* Is entry.key an abbreviated key of column 1? */
static inline bool
is_abbreviated(const NmSpool *spool)
{
	return spool->support[0].abbrev_converter != NULL;
}

static inline int
compare_tids(const NmSpoolEntry *a, const NmSpoolEntry *b)
{
	uint64 x = a->what & ~NM_WHAT_FLAG;
	uint64 y = b->what & ~NM_WHAT_FLAG;

	return (x > y) - (x < y);
}

static inline int
compare_heads(const NmSpoolTuple *a, const NmSpoolTuple *b)
{
	return (a->entry.key > b->entry.key) - (a->entry.key < b->entry.key);
}

/* Equal heads, or none: by abbreviated keys, columns, TID. */
static inline int
compare_rest(NmSpool *spool, const NmSpoolEntry *a, IndexTuple ta,
			 const NmSpoolEntry *b, IndexTuple tb)
{
	int r;

	if (is_abbreviated(spool))
	{
		r = ApplySortComparator((Datum) a->key, (a->what & NM_WHAT_FLAG) != 0,
								(Datum) b->key, (b->what & NM_WHAT_FLAG) != 0,
								&spool->support[0]);
		if (r != 0)
			return r;
	}
	if (spool->locale)
	{
		r = nm_sort_keys_compare(spool, ta, tb);
		if (r != 0)
			return r;
	}
	r = nm_compare_tuples(&spool->idx->desc, ta, tb, spool->support);
	return r != 0 ? r : compare_tids(a, b);
}

#define ST_SORT			 sort_by_heads
#define ST_ELEMENT_TYPE	 NmSpoolTuple
#define ST_COMPARE(a, b) compare_heads(a, b)
#define ST_SCOPE		 static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DECLARE
#define ST_DEFINE
#include "lib/sort_template.h"

#define ST_SORT				  sort_by_columns
#define ST_ELEMENT_TYPE		  NmSpoolTuple
#define ST_COMPARE_ARG_TYPE	  NmSpool
#define ST_COMPARE(a, b, arg) compare_rest(arg, &(a)->entry, (a)->itup, &(b)->entry, (b)->itup)
#define ST_SCOPE			  static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DECLARE
#define ST_DEFINE
#include "lib/sort_template.h"

/* Sort support for a column whose class's "<" no btree family has. */
static int
call_order(Datum a, Datum b, SortSupport ssup)
{
	return DatumGetInt32(FunctionCall2Coll((FmgrInfo *) ssup->ssup_extra,
										   ssup->ssup_collation, a, b));
}

/*
 * The ordering operator of a key column, if core's sort support for it orders
 * exactly as the operator class's order function does; else InvalidOid.
 */
static Oid
ordering_operator(const NmSpool *spool, int i)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	Oid type = spool->index->rd_opcintype[i];
	Oid family;
	Oid family_type;
	Oid op;
#if PG_VERSION_NUM >= 180000
	CompareType strategy;
#else
	int16 strategy;
#endif

	op = get_opfamily_member(spool->index->rd_opfamily[i], type, type, BTLessStrategyNumber);
	if (!OidIsValid(op) ||
		!get_ordering_op_properties(op, &family, &family_type, &strategy) ||
		get_opfamily_proc(family, family_type, family_type, NM_ORDER_PROC) != desc->order[i].fn_oid ||
		has_fn_opclass_options((FmgrInfo *) &desc->order[i]))
		return InvalidOid;
	return op;
}

void
nm_spool_general_begin(NmSpool *spool)
{
	const NmKeyDesc *desc = &spool->idx->desc;

	nm_sort_keys_begin(spool);
	spool->heads = desc->head != NM_HEAD_NONE || spool->locale != NULL;
	for (int i = 0; i < desc->nkeys; i++)
	{
		SortSupport ssup = &spool->support[i];
		Oid op;

		if (desc->column[i] != NM_ORDER_CALL)
			continue;
		ssup->ssup_cxt = spool->cxt;
		ssup->ssup_collation = desc->collation[i];
		ssup->ssup_nulls_first = (desc->indoption[i] & INDOPTION_NULLS_FIRST) != 0;
		ssup->ssup_attno = i + 1;
		ssup->abbreviate = i == 0 && spool->locale == NULL;
		op = ordering_operator(spool, i);
		if (OidIsValid(op))
			PrepareSortSupportFromOrderingOp(op, ssup);
		else
		{
			ssup->ssup_extra = (void *) &desc->order[i];
			ssup->comparator = call_order;
		}
		ssup->ssup_reverse = (desc->indoption[i] & INDOPTION_DESC) != 0;
	}
	spool->review_next = 10;

	spool->tuple_cxt = GenerationContextCreate(spool->cxt, "numa_btree spool tuples",
											   ALLOCSET_DEFAULT_SIZES);
	spool->maxentries = 1024;
	spool->tuples = palloc(spool->maxentries * sizeof(NmSpoolTuple));
}

int
nm_spool_general_compare(NmSpool *spool, const NmSpoolEntry *a, IndexTuple ta,
						 const NmSpoolEntry *b, IndexTuple tb)
{
	if (spool->heads && a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return compare_rest(spool, a, ta, b, tb);
}

/* The head of a tuple, before sorting has changed it. */
static inline uint64
head_of_tuple(const NmSpool *spool, IndexTuple itup)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	const NmSortKey *key;

	if (spool->locale == NULL)
		return nm_tuple_head(desc, itup);
	key = nm_sort_key(itup);
	if (key->len == 0)
		return desc->nulls_first ? 0 : PG_UINT64_MAX;
	return nm_key_word(desc, key->data, key->len, 0);
}

/*
 * The bytes that order the first column, as far as they do.  False if they are
 * not known after the first `words` words: it is NULL, or no string of bytes, or
 * compressed, or its sort key is cut off.
 */
static bool
ordering_bytes(const NmSpool *spool, IndexTuple itup, int words, const char **data, int *len)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	struct varlena *v;
	bool isnull;

	if (spool->locale)
	{
		const NmSortKey *key = nm_sort_key(itup);

		*data = key->data;
		*len = key->len;
		return *len > 0 && (!key->cut || *len > words * 8);
	}
	if (desc->column[0] != NM_ORDER_VARLENA && desc->column[0] != NM_ORDER_BPCHAR)
		return false;
	v = (struct varlena *) DatumGetPointer(index_getattr(itup, 1, desc->tupdesc, &isnull));
	if (isnull || VARATT_IS_COMPRESSED(v))
		return false;
	*data = VARDATA_ANY(v);
	*len = VARSIZE_ANY_EXHDR(v);
	if (desc->column[0] == NM_ORDER_BPCHAR)
		*len = bpchartruelen(unconstify(char *, *data), *len);
	return true;
}

/*
 * Give the tuples the eight bytes of the first column, or of its sort key,
 * after `words` words as heads, padded with zeros.  False if there are none, or
 * if it is no string of bytes; nothing is changed then.  (Heads of NULLs are
 * equal to none but the extreme.)
 *
 * Right because the words before are equal, padded ones included: where padded
 * strings differ first, the smaller byte belongs to the smaller string, or is
 * padding of one that is the other's beginning.
 */
static bool
next_heads(const NmSpool *spool, NmSpoolTuple *t, int64 n, int words)
{
	bool any = false;
	const char *data;
	int len;

	if (words >= REFINE_MAX)
		return false;
	for (int64 i = 0; i < n; i++)
	{
		if (!ordering_bytes(spool, t[i].itup, words, &data, &len))
			return false;
		any = any || len > words * 8;
	}
	if (!any)
		return false;
	for (int64 i = 0; i < n; i++)
	{
		(void) ordering_bytes(spool, t[i].itup, words, &data, &len);
		t[i].entry.key = nm_key_word(&spool->idx->desc, data, len, words);
	}
	return true;
}

static void
sort_tuples(NmSpool *spool, NmSpoolTuple *t, int64 n, int words)
{
	int64 end;

	if (n < 2)
		return;
	if (!spool->heads)
	{
		sort_by_columns(t, n, spool);
		return;
	}
	sort_by_heads(t, n);
	for (int64 start = 0; start < n; start = end)
	{
		for (end = start + 1; end < n && t[end].entry.key == t[start].entry.key; end++)
			;
		if (end - start == 1)
			continue;
		if (end - start >= REFINE_MIN && next_heads(spool, t + start, end - start, words + 1))
			sort_tuples(spool, t + start, end - start, words + 1);
		else
			sort_by_columns(t + start, end - start, spool);
	}
}

/* Sort what is in memory and write it out as one run. */
void
nm_spool_general_flush(NmSpool *spool)
{
	NmRun *run = nm_run_begin(spool);

	sort_tuples(spool, spool->tuples, spool->nentries, 0);
	for (int64 i = 0; i < spool->nentries; i++)
	{
		NmSpoolTuple *t = &spool->tuples[i];

		if ((i & 255) == 0)
			CHECK_FOR_INTERRUPTS();
		/* sorting has changed it */
		if (spool->heads)
			t->entry.key = head_of_tuple(spool, t->itup);
		nm_run_write(run, &t->entry, sizeof(NmSpoolEntry));
		nm_run_write(run, t->itup, nm_spool_tuple_size(spool, t->itup));
	}
	nm_run_end(spool, run);
	spool->nentries = 0;
	MemoryContextReset(spool->tuple_cxt);
}

/* Is there room for one more, within the work memory? */
static bool
make_room(NmSpool *spool)
{
	Size tuples = MemoryContextMemAllocated(spool->tuple_cxt, false);
	int64 more = spool->maxentries;

	if (spool->nentries < spool->maxentries)
		return tuples + spool->maxentries * sizeof(NmSpoolTuple) <= spool->workmem ||
			   spool->nentries < 1024;
	/* the array may take what the tuples of twice as many leave */
	if (2 * tuples + 2 * more * sizeof(NmSpoolTuple) > spool->workmem)
		more = more / 4;
	if (tuples + (spool->maxentries + more) * sizeof(NmSpoolTuple) > spool->workmem)
		return false;
	spool->maxentries += more;
	spool->tuples = repalloc_huge(spool->tuples, spool->maxentries * sizeof(NmSpoolTuple));
	return true;
}

void
nm_spool_general_stop_abbreviating(NmSpool *spool)
{
	SortSupport ssup = &spool->support[0];

	if (!is_abbreviated(spool))
		return;
	ssup->comparator = ssup->abbrev_full_comparator;
	ssup->abbrev_converter = NULL;
	ssup->abbrev_abort = NULL;
	ssup->abbrev_full_comparator = NULL;
}

void
nm_spool_general_add(NmSpool *spool, Datum *values, bool *isnull, ItemPointer tid, uint64 what)
{
	SortSupport ssup = &spool->support[0];
	MemoryContext old;
	NmSpoolTuple *t;

	if (!make_room(spool))
		nm_spool_general_flush(spool);

	t = &spool->tuples[spool->nentries];
	old = MemoryContextSwitchTo(spool->locale ? spool->cxt : spool->tuple_cxt);
	t->itup = nm_form_tuple(&spool->idx->desc, spool->index, values, isnull, tid);
	MemoryContextSwitchTo(old);
	if (spool->locale)
		t->itup = nm_sort_key_attach(spool, t->itup);
	t->entry.what = what | (isnull[0] ? NM_WHAT_FLAG : 0);
	t->entry.key = head_of_tuple(spool, t->itup);

	spool->ntotal++;
	if (spool->ntotal >= spool->review_next)
	{
		spool->review_next *= 2;
		if (spool->locale)
			nm_sort_keys_review(spool);
		else if (is_abbreviated(spool) &&
				 ssup->abbrev_abort((int) Min(spool->ntotal, INT_MAX), ssup))
			nm_spool_general_stop_abbreviating(spool);
	}
	if (is_abbreviated(spool) && !isnull[0])
	{
		bool null;

		t->entry.key = (uint64) ssup->abbrev_converter(index_getattr(t->itup, 1, spool->idx->desc.tupdesc, &null), ssup);
	}
	spool->nentries++;
}

void
nm_spool_general_load(NmSpool *spool)
{
	nm_spool_set_phase(spool, NM_PHASE_SORT);
	if (spool->nruns == 0)
	{
		sort_tuples(spool, spool->tuples, spool->nentries, 0);
		nm_spool_set_phase(spool, NM_PHASE_LOAD);
		for (int64 i = 0; i < spool->nentries; i++)
		{
			NmItem item;

			if ((i & 255) == 0)
				CHECK_FOR_INTERRUPTS();
			nm_item_from_tuple(&spool->idx->desc, spool->tuples[i].itup, &item, &spool->image);
			nm_spool_emit(spool, &item, spool->tuples[i].entry.what);
		}
		return;
	}

	if (spool->nentries > 0)
		nm_spool_general_flush(spool);
	pfree(spool->tuples);
	spool->tuples = NULL;
	nm_runs_load(spool);
}

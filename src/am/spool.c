/*-------------------------------------------------------------------------
 *
 * spool.c
 *	  Sort index entries and load them bottom-up into a tree.
 *
 * Three ways to bring entries in (key, TID) order:
 *	- FIXED keys are sorted here, 16 bytes an entry: in memory as long as they
 *	  fit into the work memory, else in runs on temporary files that are merged.
 *	- GENERAL keys go through tuplesort with the ordering operators of the
 *	  operator class.  (tuplesort_begin_index_btree insists on nbtree.)
 *	- An operator class whose "<" tuplesort does not know (no btree family has
 *	  it, before version 18) has its entries kept unsorted and inserted one by
 *	  one.
 *
 * Pages of the pool are taken only inside nm_spool_load(), which gives them
 * back at any error and when the process is told to exit.  No lock is held.
 *
 * IDENTIFICATION
 *	  src/am/spool.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "am/spool.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/tupdesc.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "commands/progress.h"
#include "executor/tuptable.h"
#include "lib/binaryheap.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/buffile.h"
#include "storage/ipc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"
#include "utils/tuplestore.h"

#if PG_VERSION_NUM >= 130000
#include "access/detoast.h"
#endif
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * An entry of the FIXED layout.  what = rank << 62 | TID << 1 | dead, where
 * rank puts NULLs at their end; so the order is (rank, key, what).
 */
typedef struct NmFixedEntry
{
	int64 key;
	uint64 what;
} NmFixedEntry;

#define ENTRY_RANK		 (UINT64CONST(1) << 62)
#define ENTRY_TID(what)	 (((what) & (ENTRY_RANK - 1)) >> 1)
#define ENTRY_DEAD(what) (((what) &1) != 0)

static inline int
compare_entries(const NmFixedEntry *a, const NmFixedEntry *b)
{
	if (unlikely(((a->what ^ b->what) & ENTRY_RANK) != 0))
		return (a->what & ENTRY_RANK) ? 1 : -1;
	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->what != b->what)
		return a->what < b->what ? -1 : 1;
	return 0;
}

#define ST_SORT			 sort_entries
#define ST_ELEMENT_TYPE	 NmFixedEntry
#define ST_COMPARE(a, b) compare_entries(a, b)
#define ST_SCOPE		 static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DECLARE
#define ST_DEFINE
#include "lib/sort_template.h"

/* A sorted run on disk, read through a small buffer. */
#define RUN_BUFFER 512

typedef struct NmRun
{
	BufFile *file;
	int64 left; /* entries not yet read into the buffer */
	int pos;
	int n;
	NmFixedEntry buf[RUN_BUFFER];
} NmRun;

struct NmSpool
{
	NmIndex *idx;
	Relation heap;
	Relation index;
	bool unique_check;
	bool nulls_distinct;
	bool progress;
	Size workmem; /* bytes */
	MemoryContext cxt;

	/* FIXED */
	NmFixedEntry *entries;
	int64 nentries;
	int64 maxentries; /* allocated */
	int64 limit;	  /* what the work memory allows */
	NmRun **runs;
	int nruns;
	int maxruns;

	/* GENERAL */
	TupleDesc tupdesc;		 /* index columns, then the TID and alive word */
	TupleTableSlot *in_slot; /* virtual: a row on its way in */
	TupleTableSlot *slot;	 /* a sorted row */
	Tuplesortstate *sort;
	Tuplestorestate *store; /* when there is no ordering operator */
	uint64 *dead;			/* with store: TIDs that are not alive */
	int64 ndead;
	int64 maxdead;

	/* while loading */
	NmTree *tree;
	NmBulk *bulk;
	bool bulk_open;
	bool created;
	NmItem last_item; /* last alive entry, for the unique check */
	IndexTuple last_tuple;
	bool last_valid;
};

static bool can_sort(NmSpool *spool, Oid *operators);
static void spool_fixed(NmSpool *spool, Datum value, bool isnull, uint64 what);
static void write_run(NmSpool *spool);
static bool run_fill(NmRun *run);
static void merge_runs(NmSpool *spool, int from, int to, bool to_bulk);
static void load_fixed(NmSpool *spool);
static void load_sorted(NmSpool *spool);
static void load_unsorted(NmSpool *spool);
static void add_entry(NmSpool *spool, const NmItem *item, uint64 tid);
static void check_unique_neighbour(NmSpool *spool, const NmItem *item, IndexTuple itup);
static void check_unique_tree(NmSpool *spool);
static bool items_equal(NmSpool *spool, const NmItem *a, const NmItem *b);
static void report_duplicate(NmSpool *spool, const NmItem *item);
static void give_back(int code, Datum arg);

NmSpool *
nm_spool_begin(NmIndex *idx, Relation heap, Relation index, bool unique_check, int workmem)
{
	const NmKeyDesc *desc = &idx->desc;
	MemoryContext cxt;
	MemoryContext old;
	NmSpool *spool;

	cxt = AllocSetContextCreate(CurrentMemoryContext, "numa_btree spool",
								ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);

	spool = palloc0(sizeof(NmSpool));
	spool->idx = idx;
	spool->heap = heap;
	spool->index = index;
	spool->unique_check = unique_check;
	spool->nulls_distinct = !index->rd_index->indnullsnotdistinct;
	spool->workmem = (Size) workmem * 1024;
	spool->cxt = cxt;

	if (desc->layout == NM_LAYOUT_FIXED)
	{
		spool->limit = Max(spool->workmem / sizeof(NmFixedEntry), 1024);
		spool->maxentries = Min(spool->limit, 8192);
		spool->entries = palloc(spool->maxentries * sizeof(NmFixedEntry));
	}
	else
	{
		AttrNumber attnums[INDEX_MAX_KEYS + 1];
		Oid operators[INDEX_MAX_KEYS + 1];
		Oid collations[INDEX_MAX_KEYS + 1];
		bool nulls_first[INDEX_MAX_KEYS + 1];

		spool->tupdesc = CreateTemplateTupleDesc(desc->natts + 1);
		for (int i = 0; i < desc->natts; i++)
			TupleDescCopyEntry(spool->tupdesc, i + 1, desc->tupdesc, i + 1);
		TupleDescInitEntry(spool->tupdesc, desc->natts + 1, "tid", INT8OID, -1, 0);
#if PG_VERSION_NUM >= 190000
		TupleDescFinalize(spool->tupdesc);
#endif

		if (can_sort(spool, operators))
		{
			for (int i = 0; i < desc->nkeys; i++)
			{
				attnums[i] = i + 1;
				collations[i] = desc->collation[i];
				nulls_first[i] = (desc->indoption[i] & INDOPTION_NULLS_FIRST) != 0;
			}
			attnums[desc->nkeys] = desc->natts + 1;
			operators[desc->nkeys] = Int8LessOperator;
			collations[desc->nkeys] = InvalidOid;
			nulls_first[desc->nkeys] = false;
			spool->sort = tuplesort_begin_heap(spool->tupdesc, desc->nkeys + 1, attnums,
											   operators, collations, nulls_first,
											   workmem, NULL, TUPLESORT_NONE);
		}
		else
			spool->store = tuplestore_begin_heap(false, false, workmem);
		spool->in_slot = MakeSingleTupleTableSlot(spool->tupdesc, &TTSOpsVirtual);
		spool->slot = MakeSingleTupleTableSlot(spool->tupdesc, &TTSOpsMinimalTuple);
	}

	MemoryContextSwitchTo(old);
	return spool;
}

/* CREATE INDEX: show the phases in pg_stat_progress_create_index. */
void
nm_spool_show_progress(NmSpool *spool)
{
	spool->progress = true;
}

static inline void
set_phase(NmSpool *spool, int phase)
{
	if (spool->progress)
		pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, phase);
}

/*
 * Ordering operators of the key columns, if tuplesort would order by them
 * exactly as the operator class's order function does.
 */
static bool
can_sort(NmSpool *spool, Oid *operators)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	Relation index = spool->index;

	for (int i = 0; i < desc->nkeys; i++)
	{
		Oid type = index->rd_opcintype[i];
		Oid family;
		Oid family_type;
#if PG_VERSION_NUM >= 180000
		CompareType strategy;
#else
		int16 strategy;
#endif

		operators[i] = get_opfamily_member(index->rd_opfamily[i], type, type,
										   (desc->indoption[i] & INDOPTION_DESC) ? BTGreaterStrategyNumber : BTLessStrategyNumber);
		if (!OidIsValid(operators[i]) ||
			!get_ordering_op_properties(operators[i], &family, &family_type, &strategy) ||
			get_opfamily_proc(family, family_type, family_type, NM_ORDER_PROC) !=
				desc->order[i].fn_oid ||
			has_fn_opclass_options((FmgrInfo *) &desc->order[i]))
			return false;
	}
	return true;
}

void
nm_spool_add(NmSpool *spool, Datum *values, bool *isnull, ItemPointer tid, bool alive)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	uint64 what = (nm_tid_encode(tid) << 1) | (alive ? 0 : 1);
	Datum *row;
	bool *nulls;
	bool detoasted[INDEX_MAX_KEYS];

	if (desc->layout == NM_LAYOUT_FIXED)
	{
		spool_fixed(spool, values[0], isnull[0], what);
		return;
	}

	ExecClearTuple(spool->in_slot);
	row = spool->in_slot->tts_values;
	nulls = spool->in_slot->tts_isnull;

	/* values kept out of line would be fetched once per comparison */
	for (int i = 0; i < desc->natts; i++)
	{
		row[i] = values[i];
		nulls[i] = isnull[i];
		detoasted[i] = false;
		if (!isnull[i] && TupleDescAttr(desc->tupdesc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
		{
			row[i] = PointerGetDatum(detoast_external_attr((struct varlena *) DatumGetPointer(values[i])));
			detoasted[i] = true;
		}
	}
	row[desc->natts] = Int64GetDatum((int64) what);
	nulls[desc->natts] = false;

	if (spool->sort)
	{
		ExecStoreVirtualTuple(spool->in_slot);
		tuplesort_puttupleslot(spool->sort, spool->in_slot);
	}
	else
	{
		tuplestore_putvalues(spool->store, spool->tupdesc, row, nulls);
		if (!alive && spool->unique_check)
		{
			if (spool->ndead >= spool->maxdead)
			{
				MemoryContext old = MemoryContextSwitchTo(spool->cxt);

				spool->maxdead = Max(1024, spool->maxdead * 2);
				spool->dead = spool->dead ? repalloc_huge(spool->dead, spool->maxdead * sizeof(uint64)) : palloc(spool->maxdead * sizeof(uint64));
				MemoryContextSwitchTo(old);
			}
			spool->dead[spool->ndead++] = nm_tid_encode(tid);
		}
	}

	for (int i = 0; i < desc->natts; i++)
	{
		if (detoasted[i])
			pfree(DatumGetPointer(row[i]));
	}
}

/*
 * ---------------------------------------------------------------------
 * FIXED entries
 * ---------------------------------------------------------------------
 */
static void
spool_fixed(NmSpool *spool, Datum value, bool isnull, uint64 what)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	NmFixedEntry *e;

	if (spool->nentries >= spool->maxentries)
	{
		if (spool->maxentries < spool->limit)
		{
			spool->maxentries = Min(spool->maxentries * 2, spool->limit);
			spool->entries = repalloc_huge(spool->entries,
										   spool->maxentries * sizeof(NmFixedEntry));
		}
		else
			write_run(spool);
	}

	e = &spool->entries[spool->nentries++];
	e->key = 0;
	e->what = what;
	if (!isnull)
	{
		e->key = nm_fixed_value(desc->fixed, value);
		if (desc->desc_first)
			e->key = ~e->key;
	}
	if (isnull != desc->nulls_first)
		e->what |= ENTRY_RANK;
}

static NmRun *
new_run(NmSpool *spool)
{
	MemoryContext old = MemoryContextSwitchTo(spool->cxt);
	NmRun *run = palloc(sizeof(NmRun));

	run->file = BufFileCreateTemp(false);
	run->left = 0;
	run->pos = run->n = 0;
	if (spool->nruns >= spool->maxruns)
	{
		spool->maxruns = Max(16, spool->maxruns * 2);
		spool->runs = spool->runs ? repalloc(spool->runs, spool->maxruns * sizeof(NmRun *)) : palloc(spool->maxruns * sizeof(NmRun *));
	}
	spool->runs[spool->nruns++] = run;
	MemoryContextSwitchTo(old);
	return run;
}

static void
rewind_run(NmRun *run)
{
	if (BufFileSeek(run->file, 0, 0L, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of an index sort")));
}

/* Sort what is in memory and write it out as one run. */
static void
write_run(NmSpool *spool)
{
	NmRun *run = new_run(spool);

	sort_entries(spool->entries, spool->nentries);
	for (int64 i = 0; i < spool->nentries; i += RUN_BUFFER)
	{
		CHECK_FOR_INTERRUPTS();
		BufFileWrite(run->file, &spool->entries[i],
					 Min(RUN_BUFFER, spool->nentries - i) * sizeof(NmFixedEntry));
	}
	run->left = spool->nentries;
	spool->nentries = 0;
	rewind_run(run);
}

/* Have at least one entry at run->buf[run->pos]; false at the end. */
static bool
run_fill(NmRun *run)
{
	Size want;

	if (run->pos < run->n)
		return true;
	if (run->left == 0)
		return false;
	run->n = (int) Min(run->left, RUN_BUFFER);
	want = run->n * sizeof(NmFixedEntry);
#if PG_VERSION_NUM >= 160000
	BufFileReadExact(run->file, run->buf, want);
#else
	if (BufFileRead(run->file, run->buf, want) != want)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of an index sort")));
#endif
	run->left -= run->n;
	run->pos = 0;
	return true;
}

static int
compare_runs(Datum a, Datum b, void *arg)
{
	NmRun *ra = (NmRun *) DatumGetPointer(a);
	NmRun *rb = (NmRun *) DatumGetPointer(b);

	/* binaryheap keeps the largest on top */
	return -compare_entries(&ra->buf[ra->pos], &rb->buf[rb->pos]);
}

static void
add_fixed(NmSpool *spool, const NmFixedEntry *e)
{
	NmItem item;
	bool nulls_first = spool->idx->desc.nulls_first;

	item.key = e->key;
	item.isnull = ((e->what & ENTRY_RANK) != 0) != nulls_first;
	item.head = 0;
	item.data = NULL;
	item.len = 0;
	if (spool->unique_check && !ENTRY_DEAD(e->what))
		check_unique_neighbour(spool, &item, NULL);
	add_entry(spool, &item, ENTRY_TID(e->what));
}

/*
 * Merge runs[from .. to) into the bulk load, or into one new run that takes
 * the place of the first.
 */
static void
merge_runs(NmSpool *spool, int from, int to, bool to_bulk)
{
	binaryheap *heap = binaryheap_allocate(to - from, compare_runs, NULL);
	NmRun *out = NULL;
	NmFixedEntry *buf = NULL;
	int nbuf = 0;
	int64 count = 0;

	if (!to_bulk)
	{
		out = new_run(spool);
		buf = palloc(RUN_BUFFER * sizeof(NmFixedEntry));
	}

	for (int i = from; i < to; i++)
	{
		if (run_fill(spool->runs[i]))
			binaryheap_add_unordered(heap, PointerGetDatum(spool->runs[i]));
	}
	binaryheap_build(heap);

	while (!binaryheap_empty(heap))
	{
		NmRun *run = (NmRun *) DatumGetPointer(binaryheap_first(heap));
		NmFixedEntry *e = &run->buf[run->pos];

		if ((count++ & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		if (to_bulk)
			add_fixed(spool, e);
		else
		{
			buf[nbuf++] = *e;
			if (nbuf == RUN_BUFFER)
			{
				BufFileWrite(out->file, buf, nbuf * sizeof(NmFixedEntry));
				nbuf = 0;
			}
		}
		run->pos++;
		if (run_fill(run))
			binaryheap_replace_first(heap, PointerGetDatum(run));
		else
			binaryheap_remove_first(heap);
	}
	binaryheap_free(heap);

	for (int i = from; i < to; i++)
	{
		BufFileClose(spool->runs[i]->file);
		pfree(spool->runs[i]);
		spool->runs[i] = NULL;
	}
	if (!to_bulk)
	{
		if (nbuf > 0)
			BufFileWrite(out->file, buf, nbuf * sizeof(NmFixedEntry));
		pfree(buf);
		out->left = count;
		rewind_run(out);
		/* close the gap; the new run is the last one */
		memmove(&spool->runs[from], &spool->runs[to],
				(spool->nruns - to) * sizeof(NmRun *));
		spool->nruns -= to - from;
	}
	else
		spool->nruns = from;
}

static void
load_fixed(NmSpool *spool)
{
	int fanin = Max(6, spool->workmem / (2 * sizeof(NmRun)));

	set_phase(spool, NM_PHASE_SORT);
	if (spool->nruns == 0)
	{
		sort_entries(spool->entries, spool->nentries);
		set_phase(spool, NM_PHASE_LOAD);
		for (int64 i = 0; i < spool->nentries; i++)
		{
			if ((i & 1023) == 0)
				CHECK_FOR_INTERRUPTS();
			add_fixed(spool, &spool->entries[i]);
		}
		return;
	}

	if (spool->nentries > 0)
		write_run(spool);
	pfree(spool->entries);
	spool->entries = NULL;
	while (spool->nruns > fanin)
		merge_runs(spool, 0, fanin, false);
	set_phase(spool, NM_PHASE_LOAD);
	merge_runs(spool, 0, spool->nruns, true);
}

/*
 * ---------------------------------------------------------------------
 * GENERAL entries
 * ---------------------------------------------------------------------
 */

/* One spooled row as an item; *itup is palloc'd. */
static uint64
row_to_item(NmSpool *spool, NmItem *item, IndexTuple *itup)
{
	int natts = spool->idx->desc.natts;
	uint64 what;
	ItemPointerData tid;

	slot_getallattrs(spool->slot);
	what = (uint64) DatumGetInt64(spool->slot->tts_values[natts]);
	nm_tid_decode(ENTRY_TID(what), &tid);
	nm_form_item(spool->idx, spool->index, spool->slot->tts_values,
				 spool->slot->tts_isnull, &tid, item, itup);
	return what;
}

static void
load_sorted(NmSpool *spool)
{
	int64 count = 0;

	set_phase(spool, NM_PHASE_SORT);
	tuplesort_performsort(spool->sort);
	set_phase(spool, NM_PHASE_LOAD);

	while (tuplesort_gettupleslot(spool->sort, true, false, spool->slot, NULL))
	{
		NmItem item;
		IndexTuple itup;
		uint64 what = row_to_item(spool, &item, &itup);

		if ((count++ & 255) == 0)
			CHECK_FOR_INTERRUPTS();
		add_entry(spool, &item, ENTRY_TID(what));
		if (spool->unique_check && !ENTRY_DEAD(what))
			check_unique_neighbour(spool, &item, itup); /* keeps itup */
		else
			pfree(itup);
	}
}

/* No ordering operator: the tree itself sorts. */
static void
load_unsorted(NmSpool *spool)
{
	int64 count = 0;

	set_phase(spool, NM_PHASE_LOAD);
	while (tuplestore_gettupleslot(spool->store, true, false, spool->slot))
	{
		NmItem item;
		IndexTuple itup;
		uint64 what = row_to_item(spool, &item, &itup);
		NmStatus st;

		if ((count++ & 255) == 0)
			CHECK_FOR_INTERRUPTS();
		st = nm_tree_insert(spool->tree, &item, ENTRY_TID(what), NULL, NULL);
		if (st == NM_NO_MEMORY)
			nm_report_no_memory(spool->tree->pool_error, spool->tree->pool_errno);
		if (st != NM_OK && st != NM_EXISTS)
			elog(ERROR, "unexpected status %d while building index \"%s\"",
				 (int) st, RelationGetRelationName(spool->index));
		pfree(itup);
	}
	if (spool->unique_check)
		check_unique_tree(spool);
}

static void
add_entry(NmSpool *spool, const NmItem *item, uint64 tid)
{
	NmStatus st = nm_bulk_add(spool->bulk, item, tid);

	if (likely(st == NM_OK))
		return;
	if (st == NM_NO_MEMORY)
		nm_report_no_memory(spool->tree->pool_error, spool->tree->pool_errno);
	elog(ERROR, "unexpected status %d while loading index \"%s\"",
		 (int) st, RelationGetRelationName(spool->index));
}

static bool
items_equal(NmSpool *spool, const NmItem *a, const NmItem *b)
{
	if (spool->idx->desc.layout == NM_LAYOUT_FIXED)
		return a->isnull == b->isnull && (a->isnull || a->key == b->key);
	return nm_compare_items(&spool->idx->desc, a, b) == 0;
}

/*
 * An alive entry in order: equal to the alive one before it?  GENERAL: takes
 * over itup.
 */
static void
check_unique_neighbour(NmSpool *spool, const NmItem *item, IndexTuple itup)
{
	if (spool->nulls_distinct && nm_item_has_null_key(&spool->idx->desc, item))
	{
		if (itup)
			pfree(itup);
		return;
	}
	if (spool->last_valid && items_equal(spool, &spool->last_item, item))
		report_duplicate(spool, item);
	if (spool->last_tuple)
		pfree(spool->last_tuple);
	spool->last_tuple = itup;
	spool->last_item = *item;
	spool->last_valid = true;
}

static int
compare_uint64(const void *a, const void *b)
{
	uint64 x = *(const uint64 *) a;
	uint64 y = *(const uint64 *) b;

	return (x > y) - (x < y);
}

/* Unique check after the fact, for entries that were inserted one by one. */
static void
check_unique_tree(NmSpool *spool)
{
	NmScan *scan = palloc(sizeof(NmScan));
	NmBatch *batch = palloc(sizeof(NmBatch));
	NmBound lo;
	NmBound hi;

	if (spool->ndead > 1)
		qsort(spool->dead, spool->ndead, sizeof(uint64), compare_uint64);

	memset(&lo, 0, sizeof(lo));
	memset(&hi, 0, sizeof(hi));
	lo.infinite = -1;
	hi.infinite = 1;
	nm_scan_init(scan, spool->tree, NM_FORWARD, &lo, &hi);
	scan->keys_wanted = true;
	scan->with_killed = false;
	while (nm_scan_next(scan, batch) == NM_OK)
	{
		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < batch->n; i++)
		{
			NmItem item;
			IndexTuple itup;

			if (spool->ndead > 0 &&
				bsearch(&batch->tids[i], spool->dead, spool->ndead, sizeof(uint64), compare_uint64))
				continue;
			nm_item_from_batch(&spool->idx->desc, batch, i, &item);
			itup = CopyIndexTuple((IndexTuple) item.data);
			item.data = itup;
			check_unique_neighbour(spool, &item, itup);
		}
	}
	pfree(batch);
	pfree(scan);
}

static void
report_duplicate(NmSpool *spool, const NmItem *item)
{
	Datum values[INDEX_MAX_KEYS];
	bool isnull[INDEX_MAX_KEYS];
	char *key;

	nm_deform_item(&spool->idx->desc, item, values, isnull);
	key = BuildIndexValueDescription(spool->index, values, isnull);
	ereport(ERROR,
			(errcode(ERRCODE_UNIQUE_VIOLATION),
			 errmsg("could not create unique index \"%s\"",
					RelationGetRelationName(spool->index)),
			 key ? errdetail("Key %s is duplicated.", key) : errdetail("Duplicate keys exist."),
			 errtableconstraint(spool->heap, RelationGetRelationName(spool->index))));
}

/* Give every page of the unfinished tree back: at an error, or at exit. */
static void
give_back(int code, Datum arg)
{
	NmSpool *spool = (NmSpool *) DatumGetPointer(arg);

	if (nm_epoch_inside(nm_pool))
		nm_epoch_reset(nm_pool);
	if (spool->bulk_open)
	{
		spool->bulk_open = false;
		nm_bulk_abort(spool->bulk);
	}
	if (spool->created)
	{
		uint64 root = nm_tree_detach(spool->tree->shared);

		spool->created = false;
		if (root != 0)
			nm_tree_free_pages(nm_pool, NM_LAYOUT_GENERAL, root);
	}
}

int64
nm_spool_load(NmSpool *spool)
{
	NmTree *tree = &spool->idx->tree;
	MemoryContext old = MemoryContextSwitchTo(spool->cxt);

	/* the caller has prepared slot->tree and the handle, root still 0 */
	spool->tree = tree;

	PG_ENSURE_ERROR_CLEANUP(give_back, PointerGetDatum(spool));
	{
		NmStatus st;

		if (spool->store)
		{
			st = nm_tree_create(tree);
			if (st == NM_NO_MEMORY)
				nm_report_no_memory(tree->pool_error, tree->pool_errno);
			spool->created = true;
			load_unsorted(spool);
			spool->created = false;
		}
		else
		{
			spool->bulk = palloc0(nm_bulk_size());
			nm_bulk_begin(spool->bulk, tree, tree->arena);
			spool->bulk_open = true;
			if (spool->sort)
				load_sorted(spool);
			else
				load_fixed(spool);
			st = nm_bulk_finish(spool->bulk);
			if (st == NM_NO_MEMORY)
				nm_report_no_memory(tree->pool_error, tree->pool_errno);
			if (st != NM_OK)
				elog(ERROR, "unexpected status %d while finishing index \"%s\"",
					 (int) st, RelationGetRelationName(spool->index));
			spool->bulk_open = false;
		}
	}
	PG_END_ENSURE_ERROR_CLEANUP(give_back, PointerGetDatum(spool));

	MemoryContextSwitchTo(old);
	/* exact duplicates were dropped on the way */
	return tree->shared->nentries;
}

void
nm_spool_end(NmSpool *spool)
{
	MemoryContext cxt = spool->cxt;

	if (spool->sort)
		tuplesort_end(spool->sort);
	if (spool->store)
		tuplestore_end(spool->store);
	if (spool->slot)
	{
		ExecDropSingleTupleTableSlot(spool->in_slot);
		ExecDropSingleTupleTableSlot(spool->slot);
	}
	for (int i = 0; i < spool->nruns; i++)
	{
		if (spool->runs[i])
			BufFileClose(spool->runs[i]->file);
	}
	MemoryContextDelete(cxt);
}

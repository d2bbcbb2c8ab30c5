/*-------------------------------------------------------------------------
 *
 * spool.c
 *	  Sort index entries and load them bottom-up into a tree.
 *
 * Entries are brought into (key, TID) order by spool_fixed.c or
 * spool_general.c, in memory or in runs (spool_runs.c), and come back one by
 * one through nm_spool_emit(), which checks uniqueness and adds them to the
 * tree.
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
#include "commands/progress.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

NmSpool *
nm_spool_begin(NmIndex *idx, Relation heap, Relation index, bool unique_check, int workmem)
{
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
	spool->fixed = idx->desc.layout == NM_LAYOUT_FIXED;
	spool->unique_check = unique_check;
	spool->nulls_distinct = !index->rd_index->indnullsnotdistinct;
	spool->equal_is_same = idx->desc.order[0].fn_oid == F_BTTEXTCMP &&
						   get_collation_isdeterministic(idx->desc.collation[0]);
	spool->workmem = (Size) workmem * 1024;
	spool->cxt = cxt;
	if (spool->fixed)
		nm_spool_fixed_begin(spool);
	else
	{
		nm_spool_general_begin(spool);
		if (unique_check)
			spool->last_data = palloc(NM_MAX_KEY_SIZE);
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

void
nm_spool_set_workmem(NmSpool *spool, int workmem)
{
	spool->workmem = (Size) workmem * 1024;
}

void
nm_spool_share(NmSpool *spool, SharedFileSet *files, int worker)
{
	Assert(spool->nruns == 0);
	spool->shared = files;
	spool->worker = worker;
}

void
nm_spool_flush(NmSpool *spool)
{
	if (spool->nentries == 0)
		return;
	if (spool->fixed)
		nm_spool_fixed_flush(spool);
	else
		nm_spool_general_flush(spool);
}

void
nm_spool_set_phase(NmSpool *spool, int phase)
{
	if (!spool->progress)
		return;
	pgstat_progress_update_param(PROGRESS_CREATEIDX_SUBPHASE, phase);
	pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_TOTAL, spool->nadded);
}

void
nm_spool_add(NmSpool *spool, Datum *values, bool *isnull, ItemPointer tid, bool alive)
{
	uint64 what = (nm_tid_encode(tid) << 1) | (alive ? 0 : 1);

	spool->nadded++;
	if (spool->fixed)
		nm_spool_fixed_add(spool, values[0], isnull[0], what);
	else
		nm_spool_general_add(spool, values, isnull, tid, what);
}

/*
 * Neighbours are seldom equal, and where equal means the same bytes there is no
 * need to ask a collation, whose comparison is the dearest part of a row.
 */
static bool
items_equal(NmSpool *spool, const NmItem *a, const NmItem *b)
{
	Datum da;
	Datum db;

	if (spool->fixed)
		return a->isnull == b->isnull && (a->isnull || a->key == b->key);
	if (spool->equal_is_same && nm_image_first(&spool->idx->desc, a, &da) &&
		nm_image_first(&spool->idx->desc, b, &db) && nm_plain_text(da) && nm_plain_text(db))
	{
		const char *va = DatumGetPointer(da);
		const char *vb = DatumGetPointer(db);

		if (VARSIZE_ANY_EXHDR(va) != VARSIZE_ANY_EXHDR(vb) ||
			memcmp(VARDATA_ANY(va), VARDATA_ANY(vb), VARSIZE_ANY_EXHDR(va)) != 0)
			return false;
	}
	return a->head == b->head && nm_compare_items(&spool->idx->desc, a, b) == 0;
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

/* An alive entry in order: equal to the alive one before it? */
static void
check_unique_neighbour(NmSpool *spool, const NmItem *item)
{
	if (spool->nulls_distinct && nm_item_has_null_key(&spool->idx->desc, item))
		return;
	if (spool->last_valid && items_equal(spool, &spool->last_item, item))
		report_duplicate(spool, item);
	spool->last_item = *item;
	if (!spool->fixed)
	{
		/* a run's buffer moves on */
		memcpy(spool->last_data, item->data, item->len);
		spool->last_item.data = spool->last_data;
		spool->last_item.form = NULL;
	}
	spool->last_valid = true;
}

/* The next entry in order: check it, add it to the tree. */
void
nm_spool_emit(NmSpool *spool, const NmItem *item, uint64 what)
{
	NmStatus st;

	if (spool->unique_check && !NM_WHAT_DEAD(what))
		check_unique_neighbour(spool, item);
	st = nm_bulk_add(spool->bulk, item, NM_WHAT_TID(what));
	if (likely(st == NM_OK))
	{
		if ((++spool->nloaded & 255) == 0 && spool->progress)
			pgstat_progress_update_param(PROGRESS_CREATEIDX_TUPLES_DONE, spool->nloaded);
		return;
	}
	if (st == NM_NO_MEMORY)
		nm_report_no_memory(spool->tree->pool_error, spool->tree->pool_errno);
	elog(ERROR, "unexpected status %d while loading index \"%s\"",
		 (int) st, RelationGetRelationName(spool->index));
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

		spool->bulk = palloc0(nm_bulk_size());
		nm_bulk_begin(spool->bulk, tree, tree->arena);
		spool->bulk_open = true;
		if (spool->fixed)
			nm_spool_fixed_load(spool);
		else
			nm_spool_general_load(spool);
		st = nm_bulk_finish(spool->bulk);
		if (st == NM_NO_MEMORY)
			nm_report_no_memory(tree->pool_error, tree->pool_errno);
		if (st != NM_OK)
			elog(ERROR, "unexpected status %d while finishing index \"%s\"",
				 (int) st, RelationGetRelationName(spool->index));
		spool->bulk_open = false;
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

	nm_runs_close(spool);
	if (spool->files)
		dsm_detach(spool->files);
	MemoryContextDelete(cxt);
}

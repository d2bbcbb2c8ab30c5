/*-------------------------------------------------------------------------
 *
 * insert.c
 *	  aminsert, and the usage counters of an index.
 *
 * An insert without a uniqueness check is one call into the tree; whether the
 * tree is there at all is nm_insert_wanted()'s question, whose answer may be
 * out of date by the time the tree is reached: NM_GONE asks again.
 *
 * IDENTIFICATION
 *	  src/am/insert.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"
#include "am/unique.h"

#include "access/xact.h"
#include "migrator/migrator.h"
#include "miscadmin.h"

/*
 * Counters not yet written to their slots.  The slot may have got another
 * owner since: its serial tells, and the numbers are dropped then.
 */
#define NM_PENDING		 8
#define NM_PENDING_FLUSH 1024

typedef struct NmPending
{
	NmSlot *slot;
	uint64 serial;
	uint32 lookups;
	uint32 inserts;
	uint32 tuples_read;
} NmPending;

static NmPending pending[NM_PENDING];
static int npending = 0;
static bool callback_registered = false;

static void flush_counters(void);
static void counters_at_xact_end(XactEvent event, void *arg);
static void insert_plain(NmIndex *idx, Relation index, Relation heap, const NmItem *item,
						 ItemPointer tid);

static void
flush_counters(void)
{
	for (int i = 0; i < npending; i++)
	{
		NmPending *p = &pending[i];

		if (p->slot->serial != p->serial)
			continue;
		if (p->lookups)
			pg_atomic_fetch_add_u64(&p->slot->lookups, p->lookups);
		if (p->inserts)
			pg_atomic_fetch_add_u64(&p->slot->inserts, p->inserts);
		if (p->tuples_read)
			pg_atomic_fetch_add_u64(&p->slot->tuples_read, p->tuples_read);
	}
	npending = 0;
}

/* Atomic additions only: nothing here can raise. */
static void
counters_at_xact_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT ||
		event == XACT_EVENT_PARALLEL_COMMIT || event == XACT_EVENT_PARALLEL_ABORT ||
		event == XACT_EVENT_PREPARE)
		flush_counters();
}

void
nm_count(NmIndex *idx, uint32 lookups, uint32 inserts, uint32 tuples_read)
{
	NmPending *p;

	if (unlikely(!callback_registered))
	{
		RegisterXactCallback(counters_at_xact_end, NULL);
		callback_registered = true;
	}

	p = pending;
	while (p < pending + npending && (p->slot != idx->slot || p->serial != idx->serial))
		p++;
	if (p == pending + npending)
	{
		if (npending == NM_PENDING)
		{
			flush_counters();
			p = pending;
		}
		memset(p, 0, sizeof(*p));
		p->slot = idx->slot;
		p->serial = idx->serial;
		npending++;
	}
	p->lookups += lookups;
	p->inserts += inserts;
	p->tuples_read += tuples_read;
	if (p->lookups + p->inserts + p->tuples_read >= NM_PENDING_FLUSH)
		flush_counters();
}

/*
 * Insert without looking at other entries.  No lock is held.
 */
static void
insert_plain(NmIndex *idx, Relation index, Relation heap, const NmItem *item, ItemPointer tid)
{
	uint64 t = nm_tid_encode(tid);

	idx->tree.leaf_id = 0;
	while (nm_insert_wanted(idx, item, t))
	{
		NmTree *tree = nm_index_tree(idx);
		NmPageNo leaf;
		NmStatus st;

		CHECK_FOR_INTERRUPTS();
		if (tree == NULL)
			continue; /* unloaded since */
		if (index->rd_options)
			tree->arena = nm_index_arena(index);

		st = nm_tree_insert(tree, item, t, NULL, &leaf);
		switch (st)
		{
			case NM_OK:
			case NM_EXISTS:
				nm_sample_leaf(leaf);
				nm_count(idx, 0, 1, 0);
				nm_predicate_check_insert(idx, index, heap);
				return;
			case NM_GONE:
			case NM_STALE:
				break;
			case NM_NO_MEMORY:
				if (index->rd_index->indisunique)
					nm_report_no_memory(tree->pool_error, tree->pool_errno);
				if (nm_insert_when_full(idx, index))
				{
					nm_predicate_check_insert(idx, index, heap);
					return;
				}
				break;
			default:
				elog(ERROR, "unexpected status %d while inserting into index \"%s\"",
					 (int) st, RelationGetRelationName(index));
		}
	}
	nm_predicate_check_insert(idx, index, heap);
}

bool
nm_insert(Relation index, Datum *values, bool *isnull, ItemPointer tid,
		  Relation heap, IndexUniqueCheck check, bool indexUnchanged,
		  struct IndexInfo *indexInfo)
{
	NmIndex *idx = nm_index_open(index);
	NmItem item;
	IndexTuple itup;
	bool unique = false;

	nm_form_item(idx, index, values, isnull, tid, &item, &itup);

	/* NULL is unequal to everything unless the index says otherwise */
	if (check != UNIQUE_CHECK_NO &&
		nm_item_has_null_key(&idx->desc, &item) &&
		!index->rd_index->indnullsnotdistinct)
	{
		check = UNIQUE_CHECK_NO;
		unique = true;
	}

	if (check == UNIQUE_CHECK_NO)
		insert_plain(idx, index, heap, &item, tid);
	else
		unique = nm_insert_unique(idx, index, heap, &item, tid, check);

	if (itup)
		pfree(itup);
	return unique;
}

/*-------------------------------------------------------------------------
 *
 * sql_tree.c
 *	  Moves and placement of the pages of a numa_btree index.
 *
 * Tree pages move by relocation: the tree copies a page into the wanted node's
 * arena and swings the links, so no system call and no privilege is needed
 * and every engine does it.  The index's slot stays pinned meanwhile, so that
 * an unload waits before it frees pages.
 *
 * IDENTIFICATION
 *	  src/sql_tree.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sql_api.h"

#include "access/xlog.h"
#include "am/am.h"
#include "miscadmin.h"
#include "storage/ipc.h"

/* Relocations between two looks for a cancel. */
#define STEP_PAGES 64

/* Page numbers collected before the kernel is asked for them. */
#define ASK_PAGES 16384

typedef struct TreeWork
{
	NmSlot *slot; /* pinned */
	NmTree tree;

	/* spread */
	int arenas[lengthof(((NmNodeList *) 0)->node)];
	int narenas;

	/* placement */
	NmPageCount *count;
	int64 by_arena[NM_MAX_NODES]; /* pages met, by address range */
	void **pages;
	int32 *status;
	size_t npages;
	void *scratch;
	NmMoveOptions opt;
} TreeWork;

static void
unpin_slot(int code, Datum arg)
{
	nm_slot_unpin((NmSlot *) DatumGetPointer(arg));
}

/*
 * Pin the index's slot if its tree is in memory; else say so and return NULL.
 * The caller must arrange for unpin_slot() on error and exit.
 */
static NmSlot *
pin_slot(Relation index)
{
	NmIndex *idx = nm_index_open(index);
	int cursor = 0;
	NmSlot *slot;

	while ((slot = nm_slot_next_pinned(&cursor)) != NULL)
	{
		if (slot == idx->slot && slot->serial == idx->serial)
			return slot;
		nm_slot_unpin(slot);
	}
	ereport(NOTICE,
			(errmsg("index \"%s\" is not loaded: it has no pages in memory",
					RelationGetRelationName(index)),
			 errhint("numa.btree_load() brings it in.")));
	return NULL;
}

static void
refuse_standby(const char *what)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot %s during recovery", what),
				 errhint("numa_btree indexes are loaded when the standby is promoted.")));
}

static void
open_tree(TreeWork *work)
{
	/* shared->root: level << 32 | page */
	nm_slot_tree(work->slot, &work->tree, palloc(nm_tree_scratch_size()));
}

static int
root_level(const TreeWork *work)
{
	return (int) (work->slot->tree.root >> 32);
}

/*
 * ---------------------------------------------------------------------
 * Moves
 * ---------------------------------------------------------------------
 */

static int
spread_want(void *arg, NmPageNo page, uint64_t lid)
{
	TreeWork *work = arg;

	return work->arenas[lid % work->narenas];
}

static void
spread_levels(TreeWork *work, NmMoveStats *stats)
{
	bool full = false;

	for (int level = 0; level <= root_level(work); level++)
	{
		NmRelocate job = {
			.level = level,
			.want = spread_want,
			.arg = work,
			.always = nm_debug_relocate,
			.max_pages = STEP_PAGES};
		NmMoveStats before = *stats;
		NmStatus status;

		do
		{
			uint64 t0 = nm_now_ns();

			CHECK_FOR_INTERRUPTS();
			status = nm_tree_relocate(&work->tree, &job);
			stats->asked = before.asked + job.asked;
			stats->moved = before.moved + job.moved;
			stats->already = before.already + job.already;
			stats->busy = before.busy + job.busy;
			stats->failed = before.failed + job.nomem;
			stats->elapsed_ms += (double) (nm_now_ns() - t0) / 1e6;
		} while (status == NM_OK && !job.done);

		full |= job.nomem > 0 || status == NM_NO_MEMORY;
		if (status != NM_OK)
			break;
	}
	if (full)
		ereport(WARNING,
				(errmsg("%lld pages could not be moved: %s",
						(long long) stats->failed, nm_pool_error_text(work->tree.pool_error)),
				 errhint("A relocated page needs a free one on its target; raise numa_migrate.memory_limit or max_memory.")));
}

void
nm_tree_spread(Relation index, const NmNodeList *list, NmMoveStats *stats)
{
	TreeWork *work = palloc0(sizeof(TreeWork));

	refuse_standby("move the pages of a numa_btree index");
	nm_require_preload("move the pages of a numa_btree index");
	for (int i = 0; i < list->n; i++)
	{
		int arena = nm_pool_arena_of_node(nm_pool, list->node[i]);

		if (arena < 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the page pool has no memory on node %d", list->node[i]),
					 errdetail("The node could not be used when the server started."),
					 errhint("Restart the server to use it for numa_btree indexes.")));
		work->arenas[i] = arena;
	}
	work->narenas = list->n;

	work->slot = pin_slot(index);
	if (work->slot == NULL)
		return;
	PG_ENSURE_ERROR_CLEANUP(unpin_slot, PointerGetDatum(work->slot));
	{
		open_tree(work);
		spread_levels(work, stats);
	}
	PG_END_ENSURE_ERROR_CLEANUP(unpin_slot, PointerGetDatum(work->slot));
	nm_slot_unpin(work->slot);
}

/*
 * ---------------------------------------------------------------------
 * Placement
 * ---------------------------------------------------------------------
 */

static int
cmp_pointer(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *) a;
	uintptr_t y = (uintptr_t) * (void *const *) b;

	return x < y ? -1 : x > y;
}

/*
 * Ask the kernel where the collected pages are.  A page may have been freed
 * meanwhile; it then counts where its memory is, or as not resident.
 */
static void
ask_pages(TreeWork *work)
{
	if (work->npages == 0)
		return;
	qsort(work->pages, work->npages, sizeof(void *), cmp_pointer);
	nm_query_nodes(nm_get_caps(), work->pages, work->npages, work->status,
				   &work->opt, work->scratch);
	for (size_t i = 0; i < work->npages; i++)
	{
		work->count->pages[nm_count_slot(work->status[i])]++;
		work->count->bytes[nm_count_slot(work->status[i])] += NM_PAGE_SIZE;
	}
	work->npages = 0;
}

/* Wants nothing: a way to see every page of a level once. */
static int
collect_page(void *arg, NmPageNo page, uint64_t lid)
{
	TreeWork *work = arg;

	work->by_arena[nm_pool_arena_of(nm_pool, page)]++;
	work->pages[work->npages++] = nm_pool_page(nm_pool, page);
	if (work->npages == ASK_PAGES)
		ask_pages(work);
	if (work->npages % 1024 == 0)
		CHECK_FOR_INTERRUPTS();
	return -1;
}

static void
stats_tick(void *arg)
{
	CHECK_FOR_INTERRUPTS();
}

static void
count_levels(TreeWork *work, NmPageCount *overflow)
{
	for (int level = 0; level <= root_level(work); level++)
	{
		NmRelocate job = {
			.level = level,
			.want = collect_page,
			.arg = work,
			.max_pages = STEP_PAGES};
		NmStatus status;

		do
			status = nm_tree_relocate(&work->tree, &job);
		while (status == NM_OK && !job.done);
		ask_pages(work);
		if (status != NM_OK)
			return;
	}

	/*
	 * Overflow pages (long keys) are on no level; they are counted by the
	 * address range of their arena, which is the pool's rule.
	 */
	if (work->slot->tree.noverflow > 0)
	{
		NmTreeStats *stats = palloc0(sizeof(NmTreeStats));

		if (nm_tree_stats(&work->tree, stats, stats_tick, NULL) == NM_OK && stats->overflow > 0)
		{
			for (int i = 0; i < nm_pool->narenas; i++)
			{
				int64 rest = stats->pages_by_arena[i] - work->by_arena[i];
				int slot = nm_count_slot(nm_pool->nodes[i]);

				if (rest <= 0)
					continue;
				overflow->pages[slot] += rest;
				overflow->bytes[slot] += rest * NM_PAGE_SIZE;
			}
		}
	}
}

void
nm_tree_placement(Relation index, NmPageCount *tree, NmPageCount *overflow)
{
	TreeWork *work = palloc0(sizeof(TreeWork));

	refuse_standby("look at the pages of a numa_btree index");
	nm_require_preload("look at the pages of a numa_btree index");
	work->count = tree;
	work->pages = palloc(ASK_PAGES * sizeof(void *));
	work->status = palloc(ASK_PAGES * sizeof(int32));
	work->scratch = palloc(nm_move_scratch_size(ASK_PAGES));
	nm_query_options(&work->opt, nm_get_caps()->os_page_size, false);

	work->slot = pin_slot(index);
	if (work->slot == NULL)
		return;
	PG_ENSURE_ERROR_CLEANUP(unpin_slot, PointerGetDatum(work->slot));
	{
		open_tree(work);
		count_levels(work, overflow);
	}
	PG_END_ENSURE_ERROR_CLEANUP(unpin_slot, PointerGetDatum(work->slot));
	nm_slot_unpin(work->slot);
}

/*-------------------------------------------------------------------------
 *
 * sql_move.c
 *	  numa.move_relation, numa.spread_relation, numa.balance_buffers.
 *
 * A whole relation is found by one pass over the buffer descriptors: they are
 * dense in memory, so this is cheaper than a hash lookup per block, and it
 * meets the buffers in order of address.  Pages are collected into slices and
 * each slice goes through nm_move().  No buffer is pinned and no lock but the
 * relation's is held meanwhile: a buffer that gets another block under way is
 * moved in its place, which harms nobody.
 *
 * A cancel comes through between two system calls; what was moved until then
 * stays moved and is counted in numa.stat_moves.
 *
 * IDENTIFICATION
 *	  src/sql_move.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>

#include "sql_api.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* Pages per slice: 256 MiB of 4 kB pages, 1 MiB of list. */
#define SLICE_PAGES 65536

/* Buffers taken from the scan at a time. */
#define SCAN_BUFFERS 1024

PG_FUNCTION_INFO_V1(nm_sql_move_relation);
PG_FUNCTION_INFO_V1(nm_sql_spread_relation);
PG_FUNCTION_INFO_V1(nm_sql_balance_buffers);

typedef struct MoveJob
{
	const NmTopology *topo;
	const NmMoverCaps *caps;
	NmMoveOptions opt;
	NmMoveStats stats;
	NmMoveItem *items;
	size_t nitems;
	char *last_page; /* last one added: buffers share pages */
	void *scratch;
} MoveJob;

static bool
move_tick(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return true;
}

/*
 * What stands in the way of moving, as an ERROR, and what is lost of the
 * caller's wishes, as a NOTICE (a mode from the settings: once per session).
 */
void
nm_move_begin(NmMoveOptions *opt, const char *what, bool mode_given, NmMode mode, int batch)
{
	static bool mode_notice_given = false;
	const NmMoverCaps *caps = nm_get_caps();
	NmEngine engine = nm_mover_choose(caps, (NmEngine) nm_engine);

	if (nm_engine == NM_ENGINE_OFF)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s because numa_migrate.engine is off", what),
				 errhint("Set numa_migrate.engine to auto and reload the configuration.")));
	if (engine == NM_ENGINE_OFF)
	{
		errno = caps->move_pages_errno;
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s because the kernel refuses to move pages", what),
				 errdetail("System call move_pages: %m."),
				 caps->move_pages_errno == EPERM ? errhint("A seccomp filter refuses the call, as in a container. Start the container with --cap-add SYS_NICE or a seccomp profile that allows move_pages.") : errhint("The kernel must be built with CONFIG_NUMA and CONFIG_MIGRATION. See numa.doctor().")));
	}
	if (nm_engine == NM_ENGINE_MOVE_PAGES2 && engine != NM_ENGINE_MOVE_PAGES2)
		ereport(NOTICE,
				(errmsg("engine move_pages2 is not available on this kernel, using %s",
						nm_engine_name(engine))));

	if (!mode_given)
		mode = nm_effective_mode(false);
	if (engine == NM_ENGINE_MOVE_PAGES && mode != NM_MODE_AUTO &&
		(mode_given || (nm_mode != NM_MODE_AUTO && !mode_notice_given)))
	{
		ereport(NOTICE,
				(errmsg("engine move_pages ignores mode \"%s\"", nm_mode_name(mode)),
				 errdetail("The kernel's move_pages always waits; batch means pages per call.")));
		if (!mode_given)
			mode_notice_given = true;
	}

	memset(opt, 0, sizeof(*opt));
	opt->engine = engine;
	opt->mode = mode;
	opt->batch = batch;
	opt->all_mappers = caps->cap_sys_nice || caps->owner_rule;
	opt->tick = move_tick;
}

static void
job_begin(MoveJob *job, const NmTopology *topo)
{
	job->topo = topo;
	job->caps = nm_get_caps();
	job->opt.page_size = nm_buffers_page_size(&job->opt.hugetlb);
	memset(&job->stats, 0, sizeof(job->stats));
	job->items = palloc(SLICE_PAGES * sizeof(NmMoveItem));
	job->scratch = palloc(nm_move_scratch_size(SLICE_PAGES));
	job->nitems = 0;
	job->last_page = NULL;
}

static void
job_flush(MoveJob *job)
{
	size_t n = job->nitems;

	job->nitems = 0;
	nm_move(job->caps, job->topo, job->items, n, &job->opt, &job->stats, job->scratch);
}

/* Pages come in ascending order, so a page named before is the last one. */
static void
job_add(MoveJob *job, char *page, int node)
{
	if (page == job->last_page)
		return;
	job->last_page = page;
	job->items[job->nitems].addr = page;
	job->items[job->nitems].node = node;
	if (++job->nitems == SLICE_PAGES)
		job_flush(job);
}

/*
 * Target of a block.  By block number rather than in turn, so that doing it
 * again finds every page already there; with pages larger than blocks by page,
 * for a page can have one node only.
 */
static int
spread_target(const MoveJob *job, const NmNodeList *list, BlockNumber block, void *page)
{
	uint64 unit = block;

	if (list->n == 1)
		return list->node[0];
	if (job->opt.page_size > BLCKSZ)
		unit = (uintptr_t) page / job->opt.page_size;
	return list->node[unit % list->n];
}

static void
move_buffers_of(MoveJob *job, Relation rel, const NmNodeList *list)
{
	NmRelLocator locator = nm_rel_locator(rel);
	NmBufferInfo *found = palloc(SCAN_BUFFERS * sizeof(NmBufferInfo));
	int cursor = 0;

	while (cursor < nm_buffer_count())
	{
		int n = nm_buffers_scan(&cursor, &locator, found, SCAN_BUFFERS);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
		{
			void *pages[NM_BUFFER_OS_PAGES];
			int npages = nm_buffer_os_pages(found[i].addr, job->opt.page_size,
											pages, NM_BUFFER_OS_PAGES);

			for (int k = 0; k < npages; k++)
				job_add(job, pages[k], spread_target(job, list, found[i].block, pages[k]));
		}
	}
	job_flush(job);
	pfree(found);
}

/* One WARNING per statement for what the kernel did not let us do. */
static void
warn_denied(const MoveJob *job)
{
	if (job->stats.denied == 0)
		return;
	if (!job->opt.all_mappers)
		ereport(WARNING,
				(errmsg("%lld of %lld pages were not moved because other processes use them too",
						(long long) job->stats.denied, (long long) job->stats.asked),
				 errdetail("The kernel lets a process move shared pages only with the capability CAP_SYS_NICE."),
				 errhint("Give it to the server, for example with AmbientCapabilities=CAP_SYS_NICE in its systemd unit, and restart.")));
	else
		ereport(WARNING,
				(errmsg("%lld of %lld pages were not moved because the kernel did not permit it",
						(long long) job->stats.denied, (long long) job->stats.asked),
				 errhint("See numa.doctor() for seccomp and cpuset limits.")));
}

static void
warn_full(const MoveJob *job)
{
	if (job->stats.failed > 0)
		ereport(WARNING,
				(errmsg("%lld of %lld pages could not be moved",
						(long long) job->stats.failed, (long long) job->stats.asked),
				 errhint("The target node may have no free memory; see numa.topology().")));
}

Datum
nm_move_result(FunctionCallInfo fcinfo, const NmMoveStats *stats)
{
	TupleDesc tupdesc;
	Datum values[9];
	bool nulls[9] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int64GetDatum(stats->asked);
	values[1] = Int64GetDatum(stats->moved);
	values[2] = Int64GetDatum(stats->already);
	values[3] = Int64GetDatum(stats->busy);
	values[4] = Int64GetDatum(stats->denied);
	values[5] = Int64GetDatum(stats->absent);
	values[6] = Int64GetDatum(stats->failed);
	values[7] = Int64GetDatum(stats->calls);
	values[8] = Float8GetDatum(stats->elapsed_ms);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), values, nulls));
}

/*
 * Arguments mode (text) and batch (int) at positions argno and argno + 1; NULL
 * means the setting.
 */
static bool
knob_args(FunctionCallInfo fcinfo, int argno, NmMode *mode, int *batch)
{
	bool mode_given = !PG_ARGISNULL(argno);

	*mode = NM_MODE_AUTO;
	if (mode_given)
		*mode = nm_check_mode(text_to_cstring(PG_GETARG_TEXT_PP(argno)));
	*batch = nm_effective_batch();
	if (!PG_ARGISNULL(argno + 1))
	{
		*batch = PG_GETARG_INT32(argno + 1);
		nm_check_batch(*batch);
	}
	return mode_given;
}

/* Whatever happens, what was moved is counted. */
static void
move_tree(MoveJob *job, Relation rel, const NmNodeList *list)
{
	PG_TRY();
	{
		nm_tree_spread(rel, list, &job->stats);
	}
	PG_CATCH();
	{
		nm_stat_add_moves(NM_MOVE_TREE, false, &job->stats);
		PG_RE_THROW();
	}
	PG_END_TRY();
	nm_stat_add_moves(NM_MOVE_TREE, false, &job->stats);
}

static void
move_buffers(MoveJob *job, Relation rel, const NmNodeList *list)
{
	PG_TRY();
	{
		move_buffers_of(job, rel, list);
	}
	PG_CATCH();
	{
		nm_stat_add_moves(NM_MOVE_BUFFERS, false, &job->stats);
		PG_RE_THROW();
	}
	PG_END_TRY();
	nm_stat_add_moves(NM_MOVE_BUFFERS, false, &job->stats);
	warn_denied(job);
	warn_full(job);
}

static Oid
relation_arg(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("relation must not be null"),
				 errhint("Give the name of a table or index.")));
	return PG_GETARG_OID(0);
}

/*
 * Common part of move_relation and spread_relation.  Order of checks: what the
 * caller wrote, then the relation and the right to it, then the server.
 */
static Datum
move_or_spread(FunctionCallInfo fcinfo, const NmTopology *topo, const NmNodeList *list, const char *what)
{
	NmMode mode;
	int batch;
	bool mode_given = knob_args(fcinfo, 2, &mode, &batch);
	bool tree;
	Relation rel = nm_open_to_move(relation_arg(fcinfo), &tree);
	MoveJob job;

	nm_require_preload(what);
	memset(&job, 0, sizeof(job));

	if (tree)
		move_tree(&job, rel, list); /* same with every engine, mode, batch */
	else
	{
		nm_move_begin(&job.opt, what, mode_given, mode, batch);
		job_begin(&job, topo);
		move_buffers(&job, rel, list);
	}
	relation_close(rel, AccessShareLock);
	return nm_move_result(fcinfo, &job.stats);
}

/*
 * numa.move_relation(relation regclass, node int, mode text = NULL, batch int = NULL)
 */
Datum
nm_sql_move_relation(PG_FUNCTION_ARGS)
{
	const NmTopology *topo = nm_topology_now();
	NmNodeList list;

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("node must not be null"),
				 errhint("numa.topology() shows the nodes; numa.spread_relation() uses all of them.")));
	list.n = 1;
	list.node[0] = PG_GETARG_INT32(1);
	nm_check_target_node(topo, list.node[0]);
	return move_or_spread(fcinfo, topo, &list, "move a relation");
}

/*
 * numa.spread_relation(relation regclass, nodes int[] = NULL, mode text = NULL, batch int = NULL)
 *
 * A node named twice gets twice as much.
 */
Datum
nm_sql_spread_relation(PG_FUNCTION_ARGS)
{
	const NmTopology *topo = nm_topology_now();
	NmNodeList *list = palloc(sizeof(NmNodeList));

	nm_node_list_arg(fcinfo, 1, topo, list);
	return move_or_spread(fcinfo, topo, list, "spread a relation");
}

/*
 * ---------------------------------------------------------------------
 * numa.balance_buffers
 * ---------------------------------------------------------------------
 */

typedef struct Balance
{
	MoveJob job;
	NmMoveOptions query; /* for asking */
	bool have_pages2;	 /* hugetlb presence is known to the kernel */
	void **pages;		 /* one slice */
	int32 *status;
	void *scratch;
	/* by kernel node id, last = everything without a node */
	int64 have[NM_MAX_NODE_ID + 1];
	int64 want[NM_MAX_NODE_ID + 1];
	int64 seen[NM_MAX_NODE_ID + 1];
} Balance;

/*
 * Ask for the nodes of the next slice of the pool's pages, from buffer *next
 * on.  Returns the number of pages; 0 at the end.
 */
static size_t
balance_slice(Balance *b, int *next, char **last_page)
{
	size_t n = 0;
	size_t page_size = b->job.opt.page_size;

	while (*next < nm_buffer_count() && n + NM_BUFFER_OS_PAGES < SLICE_PAGES)
	{
		int i = (*next)++;
		void *pages[NM_BUFFER_OS_PAGES];
		int npages;

		if (i % SCAN_BUFFERS == 0)
			CHECK_FOR_INTERRUPTS();

		/*
		 * The presence of a huge page that this process has not touched is
		 * known only by a buffer in use; see nm_query_nodes.
		 */
		if (b->query.hugetlb && !b->have_pages2 && (nm_buffer_state(i) & BM_TAG_VALID) == 0)
			continue;
		npages = nm_buffer_os_pages(nm_buffer_base() + (Size) i * BLCKSZ, page_size,
									pages, NM_BUFFER_OS_PAGES);
		for (int k = 0; k < npages; k++)
		{
			if ((char *) pages[k] == *last_page)
				continue;
			*last_page = pages[k];
			b->pages[n++] = pages[k];
		}
	}
	if (n > 0)
		nm_query_nodes(b->job.caps, b->pages, n, b->status, &b->query, b->scratch);
	return n;
}

/*
 * Share the pages out: want[] by weight, largest remainder to the first nodes
 * of the list.
 */
static void
balance_quota(Balance *b, const NmNodeList *list)
{
	int64 total = 0;
	int64 given = 0;

	for (int id = 0; id < NM_MAX_NODE_ID; id++)
		total += b->have[id];
	for (int i = 0; i < list->n; i++)
	{
		/* cumulative, so that the parts add up to the whole */
		int64 upto = (int64) ((double) total * (i + 1) / list->n + 0.5);

		b->want[list->node[i]] += upto - given;
		given = upto;
	}
}

/*
 * Should the page at hand leave its node?  Of the have[] pages of a node
 * have - want leave, evenly spaced over the pool rather than the first ones.
 */
static bool
balance_leaves(Balance *b, int node)
{
	int64 excess = b->have[node] - b->want[node];
	int64 k = b->seen[node]++;

	if (excess <= 0 || b->have[node] == 0)
		return false;
	if (k >= b->have[node])
		return false; /* came here since the count */
	return (int64) ((double) (k + 1) * excess / b->have[node]) >
		   (int64) ((double) k * excess / b->have[node]);
}

static void
balance_run(Balance *b, const NmNodeList *list)
{
	int64 room[NM_MAX_NODE_ID];
	char *last_page = NULL;
	int next = 0;
	int turn = 0;
	size_t n;
	uint64 t0 = nm_now_ns();

	/* How is it now? */
	while ((n = balance_slice(b, &next, &last_page)) > 0 || next < nm_buffer_count())
	{
		for (size_t i = 0; i < n; i++)
		{
			if (b->status[i] >= 0 && b->status[i] < NM_MAX_NODE_ID)
				b->have[b->status[i]]++;
		}
	}
	balance_quota(b, list);
	for (int id = 0; id < NM_MAX_NODE_ID; id++)
		room[id] = Max(b->want[id] - b->have[id], 0);

	/* Move the excess into the room. */
	next = 0;
	last_page = NULL;
	while ((n = balance_slice(b, &next, &last_page)) > 0 || next < nm_buffer_count())
	{
		for (size_t i = 0; i < n; i++)
		{
			int from = b->status[i];
			int to = -1;

			if (from < 0 || from >= NM_MAX_NODE_ID)
				continue;
			if (balance_leaves(b, from))
			{
				for (int k = 0; k < list->n && to < 0; k++)
				{
					int candidate = list->node[turn++ % list->n];

					if (room[candidate] > 0)
						to = candidate;
				}
			}
			if (to < 0)
			{
				/* stays: an entry like any other, only cheaper */
				b->job.stats.asked++;
				b->job.stats.already++;
				continue;
			}
			room[to]--;
			job_add(&b->job, b->pages[i], to);
		}
		job_flush(&b->job);
	}

	/* with the time it took to look, which is most of it if little moves */
	b->job.stats.elapsed_ms = (double) (nm_now_ns() - t0) / 1e6;
}

/*
 * numa.balance_buffers(nodes int[] = NULL, mode text = NULL, batch int = NULL)
 *
 * Evens the resident part of the whole buffer pool with as few moves as can
 * be.  A node named twice gets twice as much; pages on nodes that are not
 * named all leave.
 */
Datum
nm_sql_balance_buffers(PG_FUNCTION_ARGS)
{
	const NmTopology *topo = nm_topology_now();
	NmNodeList *list = palloc(sizeof(NmNodeList));
	Balance *b = palloc0(sizeof(Balance));
	NmMode mode;
	int batch;
	bool mode_given;

	nm_node_list_arg(fcinfo, 0, topo, list);
	mode_given = knob_args(fcinfo, 1, &mode, &batch);
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to balance shared buffers"),
				 errhint("numa.spread_relation() is for the owner of a relation.")));
	nm_require_preload("balance shared buffers");

	nm_move_begin(&b->job.opt, "balance shared buffers", mode_given, mode, batch);
	job_begin(&b->job, topo);
	nm_query_options(&b->query, b->job.opt.page_size, b->job.opt.hugetlb);
	b->have_pages2 = b->job.caps->move_pages2;
	b->pages = palloc(SLICE_PAGES * sizeof(void *));
	b->status = palloc(SLICE_PAGES * sizeof(int32));
	b->scratch = palloc(nm_move_scratch_size(SLICE_PAGES));

	PG_TRY();
	{
		balance_run(b, list);
	}
	PG_CATCH();
	{
		nm_stat_add_moves(NM_MOVE_BUFFERS, false, &b->job.stats);
		PG_RE_THROW();
	}
	PG_END_TRY();
	nm_stat_add_moves(NM_MOVE_BUFFERS, false, &b->job.stats);
	warn_denied(&b->job);
	warn_full(&b->job);
	return nm_move_result(fcinfo, &b->job.stats);
}

/*-------------------------------------------------------------------------
 *
 * bufmove.c
 *	  Moves of shared buffers by the worker.
 *
 * A place moves as a whole: all its resident blocks, since neighbours in one
 * call are far cheaper per page than the same pages one by one, and since
 * samples see only a few of the blocks that are used.  Addresses are
 * collected first, each under its partition lock for the moment of the lookup;
 * nothing is held when the kernel is called.
 *
 * IDENTIFICATION
 *	  src/migrator/bufmove.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include <errno.h>

/* OS pages per call of nm_move: one place, or as much of a relation. */
#define MOVE_PAGES_MAX (NM_RANGE_BLOCKS * NM_BUFFER_OS_PAGES)

/* No target that was out of memory, for this many seconds. */
#define FULL_SECONDS 60
/* After being denied: first and longest pause of all buffer moves. */
#define DENIED_SECONDS	   60
#define DENIED_SECONDS_MAX 3600
/* A relation whose cold places were looked at rests this long. */
#define FOLLOW_SECONDS 30

#define REFUSED_SHARE 0.9

static NmTuner tuner;
static bool tuner_ready = false;

static size_t page_size;
static bool hugetlb;
static NmMoveItem *items = NULL;
static void *scratch = NULL;
static int nitems = 0;

static double node_full_until[NM_MAX_NODES];
static double denied_until = 0;
static int denied_times = 0;
static bool denied_logged = false;
static bool off_logged = false;

/* The relation whose cold places follow now. */
static struct
{
	bool active;
	NmPlaceKey group;
	NmRelLocator rel;
	int to;
	int cursor;
	NmMoveStats stats;
} follow;

void
nm_bufmove_init(void)
{
	page_size = nm_buffers_page_size(&hugetlb);
	if (!tuner_ready)
	{
		nm_tuner_init(&tuner);
		tuner_ready = true;
	}
	if (items == NULL)
	{
		scratch = MemoryContextAllocExtended(TopMemoryContext,
											 nm_move_scratch_size(MOVE_PAGES_MAX), MCXT_ALLOC_HUGE);
		items = MemoryContextAlloc(TopMemoryContext, MOVE_PAGES_MAX * sizeof(NmMoveItem));
	}
}

NmTuner *
nm_bufmove_tuner(void)
{
	return tuner_ready ? &tuner : NULL;
}

NmEngine
nm_effective_engine(void)
{
	return nm_mover_choose(nm_get_caps(), (NmEngine) nm_engine);
}

NmMode
nm_effective_mode(bool background)
{
	if (nm_mode != NM_MODE_AUTO)
		return (NmMode) nm_mode;
	if (!background)
		return NM_MODE_SYNC;
	return tuner_ready ? tuner.mode : NM_MODE_ASYNC;
}

int
nm_effective_batch(void)
{
	if (nm_batch > 0)
		return nm_batch;
	return tuner_ready ? tuner.batch : NM_BATCH_DEFAULT;
}

bool
nm_bufmove_possible(double now)
{
	if (nm_effective_engine() == NM_ENGINE_OFF)
	{
		if (!off_logged && nm_engine != NM_ENGINE_OFF)
		{
			const NmMoverCaps *caps = nm_get_caps();

			errno = caps->move_pages_errno;
			ereport(LOG,
					(errmsg("numa_migrate cannot move shared buffers: no usable system call"),
					 errdetail("move_pages: %m."),
					 errhint("Only pages of numa_btree indexes are relocated. See numa.doctor().")));
			off_logged = true;
		}
		return false;
	}
	off_logged = false;
	return now >= denied_until;
}

bool
nm_bufmove_node_full(int node, double now)
{
	return now < node_full_until[node];
}

/*
 * The kernel refuses pages that other processes map unless we have
 * CAP_SYS_NICE.  Say so once, and try again ever more rarely: the capability
 * can't come to a running process, but a page mapped by us alone is allowed.
 */
static void
note_denied(const NmMoveStats *delta, double now)
{
	int64 tried = delta->moved + delta->busy + delta->denied + delta->failed;

	if (delta->denied == 0 || delta->denied < REFUSED_SHARE * tried)
	{
		if (delta->moved > 0)
			denied_times = 0;
		return;
	}
	if (!denied_logged)
	{
		if (!nm_get_caps()->cap_sys_nice)
			ereport(LOG,
					(errmsg("numa_migrate may not move shared buffers that other processes use"),
					 errdetail("The server lacks the capability CAP_SYS_NICE."),
					 errhint("Start the server with it, for example by AmbientCapabilities=CAP_SYS_NICE in its systemd unit. Pages of numa_btree indexes are relocated all the same.")));
		else
			ereport(LOG,
					(errmsg("numa_migrate was denied moving shared buffers"),
					 errdetail("The server has CAP_SYS_NICE, so a seccomp filter or cpuset may be the reason.")));
		denied_logged = true;
	}
	denied_until = now + Min((double) DENIED_SECONDS * (1 << Min(denied_times, 10)), (double) DENIED_SECONDS_MAX);
	denied_times++;
}

static bool
move_tick(void *arg)
{
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* Move items[0..nitems-1] to a node position; adds to *total. */
static void
move_items(int to, NmPolicyParams *params, bool mostly_there, int64 *budget, NmMoveStats *total)
{
	const NmMoverCaps *caps = nm_get_caps();
	NmMoveOptions opt = {0};
	NmMoveStats delta = {0};
	int full = 0;
	int n = nitems;

	nitems = 0;
	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
	{
		items[i].node = nm_topology.nodes[to].id;
		items[i].status = 0;
	}
	opt.engine = nm_effective_engine();
	opt.mode = nm_effective_mode(true);
	opt.batch = nm_effective_batch();
	opt.all_mappers = caps->cap_sys_nice || caps->owner_rule;
	opt.page_size = page_size;
	opt.hugetlb = hugetlb;
	/* stock move_pages is slow on lists with pages that are there already */
	opt.query_first = mostly_there || opt.engine == NM_ENGINE_MOVE_PAGES;
	opt.tick = move_tick;
	if (opt.engine == NM_ENGINE_OFF)
		return;

	(void) nm_move(caps, &nm_topology, items, n, &opt, &delta, scratch);

	for (int i = 0; i < n; i++)
	{
		nm_locate_learn(items[i].addr, items[i].status);
		if (items[i].status == -ENOMEM)
			full++;
	}
	if (full * 2 > n)
		node_full_until[to] = params->now + FULL_SECONDS;
	note_denied(&delta, params->now);
	(void) nm_tuner_feedback(&tuner, &delta, opt.batch, nm_max_latency);
	nm_stat_add_moves(NM_MOVE_BUFFERS, true, &delta);
	*budget -= delta.moved * (int64) page_size;

	total->asked += delta.asked;
	total->moved += delta.moved;
	total->already += delta.already;
	total->busy += delta.busy;
	total->denied += delta.denied;
	total->absent += delta.absent;
	total->failed += delta.failed;
	total->calls += delta.calls;
	total->elapsed_ms += delta.elapsed_ms;
}

static void
add_buffer(char *addr)
{
	void *pages[NM_BUFFER_OS_PAGES];
	int n = nm_buffer_os_pages(addr, page_size, pages, NM_BUFFER_OS_PAGES);

	for (int i = 0; i < n; i++)
		items[nitems++].addr = pages[i];
}

static bool
items_full(void)
{
	return nitems + NM_BUFFER_OS_PAGES > MOVE_PAGES_MAX;
}

bool
nm_bufmove_place(const NmPlaceKey *place, int to, NmSketch *sketch, NmPolicyParams *params, int64 *budget)
{
	NmMoveStats total = {0};

	nitems = 0;
	if (place->kind == NM_PLACE_OSPAGE)
	{
		uintptr_t base = (uintptr_t) nm_buffer_base() / page_size;

		items[nitems++].addr = (void *) ((base + place->no) * page_size);
	}
	else
	{
		NmRelLocator rel;
		BlockNumber first = place->no * NM_RANGE_BLOCKS;

		nm_loc_spc(rel) = place->spc;
		nm_loc_db(rel) = place->db;
		nm_loc_rel(rel) = place->rel;
		for (int i = 0; i < NM_RANGE_BLOCKS; i++)
		{
			char *addr = nm_buffer_address(&rel, MAIN_FORKNUM, first + i);

			if (addr)
				add_buffer(addr);
		}
	}
	move_items(to, params, false, budget, &total);
	nm_policy_outcome(sketch, params, place, to, &total);
	return total.moved > 0;
}

/*
 * Does shared buffers hold more of a relation's main fork than this many
 * places?  Stops counting when the answer is known.
 */
static bool
more_resident(const NmRelLocator *rel, double places)
{
	NmBufferInfo info[256];
	int cursor = 0;
	int64 blocks = 0;

	while (cursor < nm_buffer_count())
	{
		int n = nm_buffers_scan(&cursor, rel, info, lengthof(info));

		for (int i = 0; i < n; i++)
			blocks += info[i].fork == MAIN_FORKNUM;
		if (blocks > places * NM_RANGE_BLOCKS)
			return true;
		CHECK_FOR_INTERRUPTS();
	}
	return false;
}

/*
 * Is there a relation most of whose places are decided?  Starts following.
 * At most one relation is counted per call, because that reads all headers.
 */
static bool
start_follow(NmSketch *sketch, NmPolicyParams *params)
{
	uint32 capacity = nm_sketch_capacity(sketch);

	for (uint32 i = 0; i < capacity; i++)
	{
		NmPlace *all = nm_sketch_entry(sketch, i);
		NmRelLocator rel;
		double decided;
		int to;

		if (all == NULL || all->key.no != NM_PLACE_ALL || all->key.kind != NM_PLACE_RANGE)
			continue;
		decided = nm_policy_leader(sketch, params, &all->key, &to);
		if (decided == 0 || nm_bufmove_node_full(to, params->now))
			continue;
		all->until = params->now + FOLLOW_SECONDS;
		nm_loc_spc(rel) = all->key.spc;
		nm_loc_db(rel) = all->key.db;
		nm_loc_rel(rel) = all->key.rel;
		if (more_resident(&rel, decided * 2))
			return false;
		memset(&follow, 0, sizeof(follow));
		follow.active = true;
		follow.group = all->key;
		follow.rel = rel;
		follow.to = to;
		return true;
	}
	return false;
}

/*
 * Cold places of a relation follow the decided ones: all its buffers, other
 * forks too, except those in places that have evidence of their own.  The
 * header scan goes on where it stopped when the budget is used up.
 */
bool
nm_bufmove_follow(NmSketch *sketch, NmPolicyParams *params, int64 *budget)
{
	NmBufferInfo info[256];

	if (!follow.active && !start_follow(sketch, params))
		return false;

	nitems = 0;
	while (follow.cursor < nm_buffer_count() && *budget > 0 && !tuner.over)
	{
		int n = nm_buffers_scan(&follow.cursor, &follow.rel, info, lengthof(info));

		for (int i = 0; i < n; i++)
		{
			NmPlaceKey key = follow.group;

			key.no = info[i].block / NM_RANGE_BLOCKS;
			if (nm_locate_cached(info[i].addr) == follow.to)
				continue;
			if (info[i].fork == MAIN_FORKNUM &&
				nm_policy_decided_elsewhere(sketch, params, &key, follow.to))
				continue;
			add_buffer(info[i].addr);
			if (items_full())
				move_items(follow.to, params, true, budget, &follow.stats);
		}
		CHECK_FOR_INTERRUPTS();
		if (params->now < denied_until || nm_bufmove_node_full(follow.to, params->now))
		{
			nitems = 0;
			follow.active = false;
			return false;
		}
	}
	move_items(follow.to, params, true, budget, &follow.stats);
	if (follow.cursor < nm_buffer_count())
		return true;
	follow.active = false;
	return false;
}

void
nm_bufmove_abort(void)
{
	nitems = 0;
	follow.active = false;
}

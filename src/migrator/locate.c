/*-------------------------------------------------------------------------
 *
 * locate.c
 *	  What is known about a sample: its place, and where its memory is.
 *
 * A tree page's node is its arena.  For shared buffers only the kernel knows,
 * so it is asked (nm_query_nodes) for the pages that samples hit, and the
 * answers are kept in a map of two bytes per buffer (or per huge page).  Moves
 * update the map.  Others move pages too: each round a sixteenth of the known
 * answers is asked again, and if many of those have changed the whole map is
 * forgotten.
 *
 * IDENTIFICATION
 *	  src/migrator/locate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#define VERIFY_ONE_IN 16
#define VERIFY_MIN	  16   /* fewer checks decide nothing */
#define DRIFT_SHARE	  0.1  /* of checked pages: forget the map */
#define QUERY_PAGES	  1024 /* pages per call to the kernel */

/*
 * One entry per unit (a buffer, or a huge page): generation << 8 | node
 * position + 1.  An entry of another generation is unknown; generation 0 is
 * never current, so zeroed memory is unknown.
 */
static uint16 *map = NULL;
static size_t map_units = 0;
static uint16 generation = 1;

static size_t page_size;
static bool hugetlb;
static uint64 drifted = 0;
static uint32 verify_tick = 0;

/* Pages to ask about: unit and, while verifying, what was believed. */
static void **ask_addr = NULL;
static uint32 *ask_unit = NULL;
static int8 *ask_believed = NULL;
static int32 *ask_status = NULL;
static void *ask_scratch = NULL;

void
nm_locate_init(void)
{
	size_t bytes = (size_t) nm_buffer_count() * BLCKSZ;

	page_size = nm_buffers_page_size(&hugetlb);
	map_units = page_size > BLCKSZ ? bytes / page_size + 2 : (size_t) nm_buffer_count();

	/*
	 * calloc rather than palloc: it hands out untouched zero pages, so only
	 * the parts that samples hit take memory.
	 */
	if (map == NULL)
		map = calloc(map_units, sizeof(uint16));
	if (map == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory for the map of shared buffers")));

	if (ask_addr == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		ask_scratch = palloc(nm_move_scratch_size(QUERY_PAGES));
		ask_unit = palloc(QUERY_PAGES * sizeof(uint32));
		ask_believed = palloc(QUERY_PAGES * sizeof(int8));
		ask_status = palloc(QUERY_PAGES * sizeof(int32));
		ask_addr = palloc(QUERY_PAGES * sizeof(void *));
		MemoryContextSwitchTo(old);
	}
}

static uint32
unit_of(const char *addr)
{
	size_t unit;

	if (page_size > BLCKSZ)
		unit = ((uintptr_t) addr + BLCKSZ / 2) / page_size - (uintptr_t) nm_buffer_base() / page_size;
	else
		unit = (addr - nm_buffer_base()) / BLCKSZ;
	return unit < map_units ? (uint32) unit : (uint32) (map_units - 1);
}

static int
believed(uint32 unit)
{
	uint16 entry = map[unit];

	return (entry >> 8) == generation ? (int) (entry & 0xFF) - 1 : -1;
}

static void
believe(uint32 unit, int32 status)
{
	int node = status < 0 ? -1 : nm_topology_index(&nm_topology, status);

	map[unit] = (uint16) (generation << 8) | (uint16) (node + 1);
}

int
nm_locate_cached(const char *addr)
{
	return believed(unit_of(addr));
}

void
nm_locate_learn(const void *addr, int32 status)
{
	const char *middle = (const char *) addr + page_size / 2;

	if (map == NULL || middle < nm_buffer_base() ||
		middle >= nm_buffer_base() + (size_t) nm_buffer_count() * BLCKSZ)
		return;
	/* unit_of wants the start of a buffer; any address in it gives the same */
	if (page_size > BLCKSZ)
		middle -= BLCKSZ / 2;
	believe(unit_of(middle), status);
}

uint64
nm_locate_drifted(void)
{
	uint64 n = drifted;

	drifted = 0;
	return n;
}

static void
forget_all(void)
{
	generation = generation % 255 + 1;
	if (generation == 1)
		memset(map, 0, map_units * sizeof(uint16)); /* no entry may come alive again */
}

/* Ask the kernel about the pages collected and note the answers. */
static void
ask_kernel(int n)
{
	const NmMoverCaps *caps = nm_get_caps();
	NmMoveOptions opt = {0};
	int checked = 0;
	int changed = 0;

	if (n == 0)
		return;
	/* Asking moves nothing, so the engine setting doesn't matter here. */
	opt.engine = nm_mover_choose(caps, NM_ENGINE_AUTO);
	opt.page_size = page_size;
	opt.hugetlb = hugetlb;
	for (int i = 0; i < n; i++)
		ask_status[i] = -ENOENT;
	nm_query_nodes(caps, ask_addr, n, ask_status, &opt, ask_scratch);
	for (int i = 0; i < n; i++)
	{
		if (ask_believed[i] >= 0 && ask_status[i] >= 0)
		{
			checked++;
			if (nm_topology_index(&nm_topology, ask_status[i]) != ask_believed[i])
				changed++;
		}
	}
	drifted += changed;
	if (checked >= VERIFY_MIN && changed > checked * DRIFT_SHARE)
		forget_all();
	for (int i = 0; i < n; i++)
		believe(ask_unit[i], ask_status[i]);
	CHECK_FOR_INTERRUPTS();
}

static int
compare_unit(const void *a, const void *b)
{
	uint32 x = *(const uint32 *) a;
	uint32 y = *(const uint32 *) b;

	return (x > y) - (x < y);
}

/* An address inside the unit that stands for it. */
static void *
unit_address(uint32 unit)
{
	uintptr_t base = (uintptr_t) nm_buffer_base();

	if (page_size > BLCKSZ)
		return (void *) ((base / page_size + unit) * page_size);
	return (void *) ((base + (size_t) unit * BLCKSZ + BLCKSZ / 2) & ~(uintptr_t) (page_size - 1));
}

/*
 * Make sure the map knows the units of this round (duplicates allowed; sorted
 * here), asking for unknown ones and for some of the known ones.
 */
static void
know_units(uint32 *units, int n)
{
	int m = 0;

	qsort(units, n, sizeof(uint32), compare_unit);
	for (int i = 0; i < n; i++)
	{
		int now;

		if (i > 0 && units[i] == units[i - 1])
			continue;
		now = believed(units[i]);
		if (now >= 0 && ++verify_tick % VERIFY_ONE_IN != 0)
			continue;
		ask_addr[m] = unit_address(units[i]);
		ask_unit[m] = units[i];
		ask_believed[m] = (int8) now;
		if (++m == QUERY_PAGES)
		{
			ask_kernel(m);
			m = 0;
		}
	}
	ask_kernel(m);
}

static void
resolve_block(const NmRingSample *sample, NmResolved *r, uint32 *unit)
{
	NmRelLocator rel;
	char *addr;

	nm_loc_spc(rel) = sample->spc;
	nm_loc_db(rel) = sample->db;
	nm_loc_rel(rel) = sample->rel;
	addr = nm_buffer_address(&rel, MAIN_FORKNUM, sample->block);

	r->spc = sample->spc;
	r->db = sample->db;
	r->rel = sample->rel;
	*unit = UINT32_MAX;
	if (addr)
		*unit = unit_of(addr);

	if (page_size > BLCKSZ)
	{
		/* A huge page holds blocks of anyone: it is the place. */
		if (addr == NULL)
			return;
		r->place.kind = NM_PLACE_OSPAGE;
		r->place.no = *unit;
		return;
	}
	r->place.kind = NM_PLACE_RANGE;
	r->place.spc = sample->spc;
	r->place.db = sample->db;
	r->place.rel = sample->rel;
	r->place.no = sample->block / NM_RANGE_BLOCKS;
}

static void
resolve_leaf(const NmRingSample *sample, NmResolved *r)
{
	NmTreeKey key;
	int arena;

	if (nm_pool == NULL || sample->block / nm_pool->pages_per_arena >= nm_pool->narenas)
		return;
	arena = nm_pool_arena_of(nm_pool, sample->block);
	r->at = (int8) nm_topology_index(&nm_topology, nm_pool->nodes[arena]);
	r->place.kind = NM_PLACE_CHUNK;
	r->place.no = sample->block / NM_CHUNK_PAGES;
	if (nm_treemove_owner(sample->block, &key))
	{
		r->spc = r->place.spc = key.spc;
		r->db = r->place.db = key.db;
		r->rel = r->place.rel = key.rel;
	}
}

int
nm_locate_samples(const NmRingSample *samples, int n, NmResolved *out)
{
	uint32 *unit = palloc(Max(n, 1) * sizeof(uint32));
	uint32 *sorted = palloc(Max(n, 1) * sizeof(uint32));
	int nunits = 0;
	int m = 0;

	for (int i = 0; i < n; i++)
	{
		NmResolved *r = &out[m];
		int from = nm_topology_index(&nm_topology, samples[i].node);

		if (from < 0)
			continue;
		memset(r, 0, sizeof(*r));
		r->kind = samples[i].kind;
		r->from = (int8) from;
		r->at = -1;
		r->weight = samples[i].weight;
		unit[m] = UINT32_MAX;
		if (samples[i].kind == NM_SAMPLE_BLOCK)
		{
			resolve_block(&samples[i], r, &unit[m]);
			if (unit[m] != UINT32_MAX)
				sorted[nunits++] = unit[m];
		}
		else
			resolve_leaf(&samples[i], r);
		m++;
	}
	know_units(sorted, nunits);
	for (int i = 0; i < m; i++)
	{
		if (unit[i] != UINT32_MAX)
			out[i].at = (int8) believed(unit[i]);
	}
	pfree(unit);
	pfree(sorted);
	return m;
}

/*-------------------------------------------------------------------------
 *
 * ring.c
 *	  Shared memory of the migrator, and how a process writes its samples.
 *
 * Each process slot has its own ring (ring.h), so sampling takes no lock and
 * shares no cache line with another process.  Samples are taken whenever
 * sample_rate > 0, whatever the policy: numa.stat_access shows them too.
 *
 * IDENTIFICATION
 *	  src/migrator/ring.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "miscadmin.h"
#include "storage/proc.h"

NmMigratorShared *nm_migrator = NULL;

int nm_sample_countdown = 0;

/* Accesses after which a process that doesn't sample looks at the setting again. */
#define RECHECK_ACCESSES 65536

static uint32 sample_seed = 0;

static Size
access_stride(void)
{
	Size nnodes = Max(nm_topology.nnodes, 1);

	return MAXALIGN(offsetof(NmAccessStat, cell) + nnodes * (nnodes + 1) * sizeof(NmAccessCell));
}

static Size
header_size(void)
{
	return CACHELINEALIGN(sizeof(NmMigratorShared));
}

static Size
access_size(void)
{
	return CACHELINEALIGN(mul_size(NM_ACCESS_STATS, access_stride()));
}

Size
nm_migrator_shmem_size(void)
{
	Size size = add_size(header_size(), access_size());

	return add_size(size, mul_size(nm_process_slots(), sizeof(NmRing)));
}

void
nm_migrator_shmem_init(void *mem)
{
	nm_migrator = mem;
	if (nm_migrator->nrings != 0)
		return; /* EXEC_BACKEND child: it is in use */
	nm_migrator->nnodes = Max(nm_topology.nnodes, 1);
	nm_migrator->access_stride = access_stride();
	nm_migrator->access_offset = header_size();
	nm_migrator->ring_offset = header_size() + access_size();
	nm_migrator->nrings = nm_process_slots();
	nm_stat_init(nm_migrator);
}

static uint32
next_random(void)
{
	if (sample_seed == 0)
		sample_seed = (uint32) MyProcPid * 2654435761u | 1;
	sample_seed ^= sample_seed << 13;
	sample_seed ^= sample_seed >> 17;
	sample_seed ^= sample_seed << 5;
	return sample_seed;
}

/*
 * The countdown is drawn from [rate / 2, rate * 3 / 2): a fixed step would
 * fall into step with the program (a lookup is one leaf and one block, so
 * every even step would see blocks only).  The first one of a process is drawn
 * from [1, rate], so that accesses of short sessions have the same chance.
 */
static void
reset_countdown(int rate, bool first)
{
	if (rate <= 0)
		nm_sample_countdown = RECHECK_ACCESSES;
	else if (rate == 1)
		nm_sample_countdown = 1;
	else if (first)
		nm_sample_countdown = 1 + (int) (next_random() % (uint32) rate);
	else
		nm_sample_countdown = Max(rate / 2 + (int) (next_random() % (uint32) rate), 1);
}

/*
 * Start a sample; false if none is to be taken now.  The count of a process
 * that has not sampled so far ends too early, so that is no sample.
 */
static bool
begin_sample(NmRingSample *sample, NmSampleKind kind)
{
	static bool counting = false;
	int rate = nm_sample_rate;
	bool was_counting = counting;

	counting = rate > 0;
	reset_countdown(rate, !was_counting);
	if (!counting || !was_counting || nm_migrator == NULL || MyProc == NULL)
		return false;

	memset(sample, 0, sizeof(*sample));
	sample->kind = kind;
	sample->node = (int16) nm_current_node(&nm_topology);
	sample->weight = rate;
	return true;
}

static void
end_sample(const NmRingSample *sample)
{
	int slot = nm_my_slot();

	if (slot >= 0 && slot < nm_migrator->nrings)
		(void) nm_ring_push(nm_ring(slot), sample);
}

void
nm_sample_leaf_slow(NmPageNo page)
{
	NmRingSample sample;

	if (!begin_sample(&sample, NM_SAMPLE_LEAF))
		return;
	sample.block = page;
	end_sample(&sample);
}

void
nm_sample_block_slow(const NmRelLocator *rel, BlockNumber block)
{
	NmRingSample sample;

	if (!begin_sample(&sample, NM_SAMPLE_BLOCK))
		return;
	sample.spc = nm_loc_spc(*rel);
	sample.db = nm_loc_db(*rel);
	sample.rel = nm_loc_rel(*rel);
	sample.block = block;
	end_sample(&sample);
}

/*-------------------------------------------------------------------------
 *
 * sql_placement.c
 *	  numa.buffer_placement, numa.relation_placement: where memory is, by the
 *	  kernel's own word.
 *
 * Works without preload for everything in shared buffers.  Looking neither
 * allocates memory nor reads a block: pages that are not resident are reported
 * as such (node null).  With stock move_pages the resident ones must be in this
 * process's page table, which costs 8 bytes of page table per page looked at;
 * with move_pages2 it costs nothing.
 *
 * IDENTIFICATION
 *	  src/sql_placement.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "sql_api.h"

#include "access/relation.h"
#include "am/am.h"
#include "common/relpath.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#if PG_VERSION_NUM >= 150000
#include "common/pg_prng.h"
#endif

/* Buffers per slice. */
#define SLICE_BUFFERS 4096

PG_FUNCTION_INFO_V1(nm_sql_buffer_placement);
PG_FUNCTION_INFO_V1(nm_sql_relation_placement);

/* One slice of buffers on its way through the kernel. */
typedef struct Slice
{
	const NmMoverCaps *caps;
	NmMoveOptions opt;
	size_t page_size;
	int nbuffers;
	int first[SLICE_BUFFERS + 1]; /* buffer -> its pages in page[] */
	void *page[SLICE_BUFFERS * NM_BUFFER_OS_PAGES];
	int32 status[SLICE_BUFFERS * NM_BUFFER_OS_PAGES];
	void *scratch;
} Slice;

static Slice *
slice_create(void)
{
	Slice *s = palloc(sizeof(Slice));
	bool hugetlb;

	s->caps = nm_require_query();
	s->page_size = nm_buffers_page_size(&hugetlb);
	nm_query_options(&s->opt, s->page_size, hugetlb);
	s->scratch = palloc(nm_move_scratch_size(lengthof(s->page)));
	s->nbuffers = 0;
	s->first[0] = 0;
	return s;
}

static void
slice_add(Slice *s, char *addr)
{
	int at = s->first[s->nbuffers];

	at += nm_buffer_os_pages(addr, s->page_size, &s->page[at], NM_BUFFER_OS_PAGES);
	s->first[++s->nbuffers] = at;
}

static void
slice_ask(Slice *s)
{
	nm_query_nodes(s->caps, s->page, s->first[s->nbuffers], s->status, &s->opt, s->scratch);
}

static void
slice_clear(Slice *s)
{
	s->nbuffers = 0;
}

/* Bytes of a buffer that one of its pages stands for. */
static inline int64
page_share(const Slice *s)
{
	return Min((int64) s->page_size, BLCKSZ);
}

/*
 * numa.buffer_placement(sample float8 = 1.0) -> node, buffers, bytes, dirty, pinned
 *
 * A buffer counts for the node of its first page, its bytes for the node of
 * each page.  With sample < 1 each buffer is looked at with that probability,
 * and the numbers are those of the sample.
 */
typedef struct BufferRow
{
	int64 buffers,
		bytes,
		dirty,
		pinned;
} BufferRow;

static void
count_slice(Slice *s, const uint64 *states, BufferRow *rows)
{
	slice_ask(s);
	for (int b = 0; b < s->nbuffers; b++)
	{
		BufferRow *row = &rows[nm_count_slot(s->status[s->first[b]])];

		row->buffers++;
		if (states[b] & BM_DIRTY)
			row->dirty++;
		if (BUF_STATE_GET_REFCOUNT(states[b]) > 0)
			row->pinned++;
		for (int k = s->first[b]; k < s->first[b + 1]; k++)
			rows[nm_count_slot(s->status[k])].bytes += page_share(s);
	}
	slice_clear(s);
}

Datum
nm_sql_buffer_placement(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	double sample = PG_ARGISNULL(0) ? 1.0 : PG_GETARG_FLOAT8(0);
	BufferRow *rows = palloc0((NM_MAX_NODE_ID + 1) * sizeof(BufferRow));
	uint64 *states = palloc(SLICE_BUFFERS * sizeof(uint64));
	Slice *s;

	if (isnan(sample) || sample <= 0 || sample > 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample must be greater than 0 and at most 1"),
				 errhint("0.01 looks at one buffer in a hundred.")));
	s = slice_create();
	InitMaterializedSRF(fcinfo, 0);

	for (int i = 0; i < NBuffers; i++)
	{
		uint64 state = nm_buffer_state(i);

		if (i % SLICE_BUFFERS == 0)
			CHECK_FOR_INTERRUPTS();
		if (sample < 1 && pg_prng_double(&pg_global_prng_state) >= sample)
			continue;

		/*
		 * A huge page that only others have touched can't be seen without
		 * touching it (mincore knows this process's table only), and
		 * touching a hole would allocate it.  A buffer that holds a block is
		 * there for sure; the others count as not resident, unless
		 * move_pages2 can look them up.
		 */
		if (s->opt.hugetlb && !s->caps->move_pages2 && (state & BM_TAG_VALID) == 0)
		{
			BufferRow *row = &rows[NM_MAX_NODE_ID];

			row->buffers++;
			row->bytes += BLCKSZ;
			continue;
		}
		states[s->nbuffers] = state;
		slice_add(s, nm_buffer_base() + (Size) i * BLCKSZ);
		if (s->nbuffers == SLICE_BUFFERS)
			count_slice(s, states, rows);
	}
	count_slice(s, states, rows);

	for (int id = 0; id <= NM_MAX_NODE_ID; id++)
	{
		Datum values[5];
		bool nulls[5] = {0};

		if (rows[id].buffers == 0 && rows[id].bytes == 0)
			continue;
		values[0] = Int32GetDatum(id);
		nulls[0] = id == NM_MAX_NODE_ID;
		values[1] = Int64GetDatum(rows[id].buffers);
		values[2] = Int64GetDatum(rows[id].bytes);
		values[3] = Int64GetDatum(rows[id].dirty);
		values[4] = Int64GetDatum(rows[id].pinned);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/*
 * numa.relation_placement(regclass) -> fork, node, pages, bytes, share
 *
 * For a numa_btree index fork is "tree" (and "overflow" for pages of long
 * keys) and a page is a page of the tree; else a page is a buffer.
 */
static void
put_counts(ReturnSetInfo *rsinfo, const char *fork, const NmPageCount *count, int64 total)
{
	for (int id = 0; id <= NM_MAX_NODE_ID; id++)
	{
		Datum values[5];
		bool nulls[5] = {0};

		if (count->pages[id] == 0 && count->bytes[id] == 0)
			continue;
		values[0] = CStringGetTextDatum(fork);
		values[1] = Int32GetDatum(id);
		nulls[1] = id == NM_MAX_NODE_ID;
		values[2] = Int64GetDatum(count->pages[id]);
		values[3] = Int64GetDatum(count->bytes[id]);
		values[4] = Float8GetDatum((double) count->bytes[id] / (double) total);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

static int64
sum_bytes(const NmPageCount *count)
{
	int64 total = 0;

	for (int id = 0; id <= NM_MAX_NODE_ID; id++)
		total += count->bytes[id];
	return total;
}

static void
count_buffers(Relation rel, NmPageCount *forks)
{
	NmRelLocator locator = nm_rel_locator(rel);
	NmBufferInfo *found = palloc(SLICE_BUFFERS * sizeof(NmBufferInfo));
	Slice *s = slice_create();
	int cursor = 0;

	while (cursor < nm_buffer_count())
	{
		int n = nm_buffers_scan(&cursor, &locator, found, SLICE_BUFFERS);

		CHECK_FOR_INTERRUPTS();
		for (int i = 0; i < n; i++)
			slice_add(s, found[i].addr);
		slice_ask(s);
		for (int b = 0; b < n; b++)
		{
			NmPageCount *count;

			/* read without a lock: the tag may be half changed */
			if (found[b].fork < 0 || found[b].fork > MAX_FORKNUM)
				continue;
			count = &forks[found[b].fork];
			count->pages[nm_count_slot(s->status[s->first[b]])]++;
			for (int k = s->first[b]; k < s->first[b + 1]; k++)
				count->bytes[nm_count_slot(s->status[k])] += page_share(s);
		}
		slice_clear(s);
	}
}

Datum
nm_sql_relation_placement(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool tree;
	Relation rel = nm_open_to_look(PG_GETARG_OID(0), &tree);
	int64 total = 0;

	if (tree)
	{
		NmPageCount *pages = palloc0(sizeof(NmPageCount));
		NmPageCount *overflow = palloc0(sizeof(NmPageCount));

		nm_require_query();
		nm_tree_placement(rel, pages, overflow);
		InitMaterializedSRF(fcinfo, 0);
		total = sum_bytes(pages) + sum_bytes(overflow);
		put_counts(rsinfo, "tree", pages, total);
		put_counts(rsinfo, "overflow", overflow, total);
	}
	else
	{
		NmPageCount *forks = palloc0((MAX_FORKNUM + 1) * sizeof(NmPageCount));

		count_buffers(rel, forks);
		InitMaterializedSRF(fcinfo, 0);
		for (int f = 0; f <= MAX_FORKNUM; f++)
			total += sum_bytes(&forks[f]);
		for (int f = 0; f <= MAX_FORKNUM; f++)
			put_counts(rsinfo, forkNames[f], &forks[f], total);
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/*-------------------------------------------------------------------------
 *
 * move.c
 *	  A whole request, chunk by chunk.
 *
 * Counters are brought up to date entry by entry, before each tick, so a tick
 * that throws the caller out leaves them true: what was moved is counted, what
 * was not tried is not.
 *
 * IDENTIFICATION
 *	  src/mover/move.c
 *
 *-------------------------------------------------------------------------
 */
#include "move_int.h"

#include <errno.h>
#include <string.h>

#define ALIGN8(x) (((x) + 7) & ~(size_t) 7)

static size_t
work_cap(size_t n)
{
	return n < CHUNK_MAX ? n : CHUNK_MAX;
}

size_t
nm_move_scratch_size(size_t n)
{
	size_t cap = work_cap(n);

	return ALIGN8(n * sizeof(NmMoveItem)) +
		   2 * ALIGN8(cap * sizeof(void *)) + /* todo, addr */
		   ALIGN8(cap * sizeof(uint64_t)) +	  /* addr64 */
		   ALIGN8(cap * sizeof(void *)) +	  /* qaddr */
		   4 * ALIGN8(cap * sizeof(int)) +	  /* node, status, qpos, qstatus */
		   2 * ALIGN8(cap + 8);				  /* present, vec */
}

static void *
carve(char **p, size_t bytes)
{
	void *r = *p;

	*p += ALIGN8(bytes);
	return r;
}

void
nm_work_init(MoveWork *w, const NmMoverCaps *caps, const NmMoveOptions *opt,
			 NmMoveStats *stats, size_t n, void *scratch)
{
	char *p = scratch;

	memset(w, 0, sizeof(*w));
	w->caps = caps;
	w->opt = opt;
	w->stats = stats;
	w->start_ns = nm_now_ns();
	w->start_ms = stats->elapsed_ms;
	w->full_node = -1;

	w->cap = work_cap(n);
	w->sort = carve(&p, n * sizeof(NmMoveItem));
	w->todo = carve(&p, w->cap * sizeof(NmMoveItem *));
	w->addr = carve(&p, w->cap * sizeof(void *));
	w->addr64 = carve(&p, w->cap * sizeof(uint64_t));
	w->qaddr = carve(&p, w->cap * sizeof(void *));
	w->node = carve(&p, w->cap * sizeof(int));
	w->status = carve(&p, w->cap * sizeof(int));
	w->qpos = carve(&p, w->cap * sizeof(int));
	w->qstatus = carve(&p, w->cap * sizeof(int));
	w->present = carve(&p, w->cap + 8);
	w->vec = carve(&p, w->cap + 8);
}

/* Settle one entry: its status and one count. */
void
nm_resolve(MoveWork *w, NmMoveItem *item, int status, bool moved)
{
	NmMoveStats *stats = w->stats;

	item->status = status;
	stats->asked++;
	if (status == item->node)
	{
		if (moved)
			stats->moved++;
		else
			stats->already++;
		return;
	}
	if (status >= 0)
	{
		stats->failed++; /* on a node, but another one */
		return;
	}
	switch (-status)
	{
		case ENOENT:
		case EFAULT:
			stats->absent++;
			break;
		case EBUSY:
		case EAGAIN:
		case EINTR:
			stats->busy++;
			break;
		case EACCES:
		case EPERM:
		case ENODEV:
			stats->denied++;
			break;
		default:
			stats->failed++;
			break;
	}
}

/* Between calls: false if the caller wants to stop.  May not return. */
bool
nm_tick(MoveWork *w)
{
	w->stats->elapsed_ms = w->start_ms + (double) (nm_now_ns() - w->start_ns) / 1e6;
	if (!w->stopped && w->opt->tick != NULL && !w->opt->tick(w->opt->arg))
		w->stopped = true;
	return !w->stopped;
}

/*
 * Entries per chunk.  Stock move_pages: pages per call, which is also how many
 * it makes unreachable at once (up to 512).  move_pages2 has its own batch, so
 * a chunk only bounds the time between ticks, but is never below the batch.
 */
static size_t
chunk_entries(const NmMoveOptions *opt, size_t cap)
{
	size_t by_bytes = CHUNK_BYTES / opt->page_size;
	size_t n;

	if (by_bytes == 0)
		by_bytes = 1;
	if (opt->engine == NM_ENGINE_MOVE_PAGES)
	{
		if (opt->batch > 0)
			n = (size_t) opt->batch;
		else
			n = by_bytes < NM_BATCH_DEFAULT ? by_bytes : NM_BATCH_DEFAULT;
	}
	else
	{
		n = by_bytes < 1024 ? by_bytes : 1024;
		if (n * (opt->page_size / 4096) < (size_t) opt->batch)
			n = (size_t) opt->batch / (opt->page_size / 4096);
	}
	return n < cap ? n : cap;
}

bool
nm_move(const NmMoverCaps *caps, const NmTopology *topo,
		NmMoveItem *items, size_t n,
		const NmMoveOptions *opt, NmMoveStats *stats, void *scratch)
{
	MoveWork w;
	size_t nwork,
		nrefused,
		step;
	bool complete = true;

	if (n == 0)
		return true;
	nm_work_init(&w, caps, opt, stats, n, scratch);
	if (opt->engine != NM_ENGINE_MOVE_PAGES && opt->engine != NM_ENGINE_MOVE_PAGES2)
		w.refused = ENOSYS;

	nwork = nm_clean_list(topo, items, n, opt->page_size, w.sort, &nrefused);
	stats->asked += (int64_t) nrefused;
	stats->denied += (int64_t) nrefused;

	step = chunk_entries(opt, w.cap);
	for (size_t i = 0; i < nwork && !w.stopped;)
	{
		size_t len = 0;

		/* One target per chunk: see clean.c. */
		while (i + len < nwork && len < step && items[i + len].node == items[i].node)
		{
			w.todo[len] = &items[i + len];
			len++;
		}
		nm_engine_chunk(&w, len, items[i].node);
		i += len;
		(void) nm_tick(&w);
	}

	/* What was never reached is not counted, and says so. */
	for (size_t i = 0; i < nwork; i++)
	{
		if (items[i].status == ST_PENDING)
		{
			items[i].status = -ECANCELED;
			complete = false;
		}
	}
	nm_clean_finish(items, n, opt->page_size, w.sort);
	stats->elapsed_ms = w.start_ms + (double) (nm_now_ns() - w.start_ns) / 1e6;
	return complete;
}

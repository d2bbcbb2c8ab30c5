/*-------------------------------------------------------------------------
 *
 * engine.c
 *	  One chunk of a clean list through a system call.
 *
 * Every entry ends in nm_resolve() with what the kernel says of it; nothing is
 * concluded from a call's return value alone when the call may have stopped in
 * the middle.
 *
 * IDENTIFICATION
 *	  src/mover/engine.c
 *
 *-------------------------------------------------------------------------
 */
#include "move_int.h"

#include <errno.h>
#include <string.h>

/* Calls in a row that a signal ended before their first entry. */
#define MAX_IDLE 16

/* In status[] before a call: the kernel stored nothing for this entry. */
#define NOT_STORED INT32_MIN

/* Resolve all that is left with one errno. */
static void
give_up(MoveWork *w, size_t n, int status)
{
	for (size_t i = 0; i < n; i++)
		nm_resolve(w, w->todo[i], status, false);
}

static void
load_addrs(MoveWork *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w->addr[i] = page_of(w->todo[i]->addr, w->opt->page_size);
}

/*
 * Ask where the pages are; resolve those that are absent or on their target
 * already.  Returns how many of todo[] are left.
 */
static size_t
query_and_drop(MoveWork *w, NmEngine engine, size_t n)
{
	size_t left = 0;

	load_addrs(w, n);
	nm_query_chunk(w, engine, n);
	for (size_t i = 0; i < n; i++)
	{
		NmMoveItem *item = w->todo[i];

		if (w->status[i] == item->node || w->status[i] == -ENOENT || w->status[i] == -EFAULT)
			nm_resolve(w, item, w->status[i], false);
		else
			w->todo[left++] = item;
	}
	return left;
}

/*
 * move_pages2 finishes every list and tells the truth per entry, so one pass
 * does; in a waiting mode what failed for a passing reason gets one more.
 */
static void
chunk_move_pages2(MoveWork *w, size_t n, int target)
{
	const NmMoveOptions *opt = w->opt;
	NmMode mode = opt->mode == NM_MODE_AUTO ? NM_MODE_SYNC : opt->mode;
	unsigned int flags = NM_MP2_PAGE_CACHE;
	bool again = mode != NM_MODE_ASYNC;

	if (opt->all_mappers && w->caps->cap_sys_nice)
		flags |= NM_MP2_MOVE_ALL;
	else if (opt->all_mappers && w->caps->owner_rule)
		flags |= NM_MP2_OWNER;
	if (mode == NM_MODE_ASYNC)
		flags |= NM_MP2_NO_DRAIN; /* a background mover comes back anyway */

	while (n > 0)
	{
		size_t done = 0,
			   kept = 0;
		int idle = 0;

		for (size_t i = 0; i < n; i++)
		{
			w->addr64[i] = (uint64_t) (uintptr_t) page_of(w->todo[i]->addr, opt->page_size);
			w->node[i] = target;
		}
		while (done < n)
		{
			NmMp2Args args = {
				.pages = (uint64_t) (uintptr_t) (w->addr64 + done),
				.nodes = (uint64_t) (uintptr_t) (w->node + done),
				.status = (uint64_t) (uintptr_t) (w->status + done),
				.nr_pages = n - done,
				.mode = (uint64_t) mode,
				.nr_max_batched_migration = (uint64_t) opt->batch};
			long r;
			uint64_t migrated,
				nomem = 0,
				failed = 0;

			r = nm_sys->move_pages2(w->caps->move_pages2_number, &args, sizeof(args), flags);
			w->stats->calls++;
			if (r == -EPERM && (flags & NM_MP2_OWNER))
			{
				/* The rule was switched off since we asked */
				flags &= ~NM_MP2_OWNER;
				continue;
			}
			if (r == 0 || r == -EINTR)
			{
				if (++idle < MAX_IDLE)
				{
					if (!nm_tick(w))
						break;
					continue;
				}
				r = -EINTR;
			}
			if (r < 0)
			{
				if (r == -EPERM || r == -ENOSYS)
					w->refused = (int) -r;
				for (size_t i = done; i < n; i++)
					nm_resolve(w, w->todo[i], (int) r, false);
				done = n;
				break;
			}

			/*
			 * The counters say how many of the entries on a node were moved.
			 * An entry that is on another node than asked (a page inside a
			 * huge one that went elsewhere) is no success of ours.
			 */
			idle = 0;
			migrated = args.nr_migrated;
			for (size_t i = done; i < done + (size_t) r; i++)
			{
				if (w->status[i] >= 0 && w->status[i] != target && migrated > 0)
					migrated--;
			}
			for (size_t i = done; i < done + (size_t) r; i++)
			{
				NmMoveItem *item = w->todo[i];
				int st = w->status[i];

				failed += st < 0;
				nomem += st == -ENOMEM;
				if (st == -EAGAIN && again)
				{
					w->todo[kept++] = item;
					continue;
				}
				nm_resolve(w, item, st, st == target && migrated > 0);
				if (st == target && migrated > 0)
					migrated--;
			}
			if (nomem > 0 && nomem == failed)
				w->full_node = target;
			done += (size_t) r;
			if (done < n && !nm_tick(w))
				break;
		}
		if (w->stopped)
		{
			/* tried once, though not again */
			give_up(w, kept, -EAGAIN);
			return;
		}
		n = kept;
		again = false;
	}
}

/*
 * One stock call over todo[0..n-1].  Returns how many are left to be tried
 * again, 0 at the end; what is known is resolved.
 *
 * How the call behaves (Linux 6.12, mm/migrate.c): pages are collected until
 * one is found already there or can't be collected, whose status is stored,
 * and then those collected so far are migrated.  If one of them fails to
 * migrate, no status is stored for any of them, the rest of the list is not
 * tried, and the return value counts failed and untried ones together.  So
 * after anything but 0 the kernel is asked where each page is, and:
 *	- no status stored at all: the whole list was one batch and every page has
 *	  been tried, several times; those not on their target are busy;
 *	- else the rest goes into another call.
 */
static size_t
stock_call(MoveWork *w, size_t n, int target)
{
	int flags = NM_MPOL_MF_MOVE;
	bool stored = false;
	size_t left = 0,
		   asked = 0;
	long r;

	if (w->opt->all_mappers && w->caps->cap_sys_nice)
		flags = NM_MPOL_MF_MOVE_ALL;

	load_addrs(w, n);
	for (size_t i = 0; i < n; i++)
	{
		w->node[i] = target;
		w->status[i] = NOT_STORED;

		/*
		 * Known to be resident a moment ago.  Not only the first time: a move
		 * of a huge page unshares page tables and drops this process's own
		 * entries.
		 */
		nm_sys->touch(w->addr[i]);
	}
	r = nm_sys->move_pages(n, w->addr, w->node, w->status, flags);
	w->stats->calls++;

	if (r == -EPERM || r == -ENOSYS)
	{
		w->refused = (int) -r;
		give_up(w, n, (int) r);
		return 0;
	}

	/* Resolve what the call itself is sure of. */
	for (size_t i = 0; i < n; i++)
	{
		NmMoveItem *item = w->todo[i];
		int st = w->status[i];

		if (st != NOT_STORED)
			stored = true;
		if (r == 0 && st == target)
			nm_resolve(w, item, st, true);
		else
		{
			w->todo[left] = item;
			w->addr[left] = w->addr[i];
			w->node[left++] = st; /* kept across the query */
		}
	}
	if (left == 0)
		return 0;

	/*
	 * Where are the others?  A huge page behind two addresses says "busy" for
	 * the second although it has moved; a call that stopped says nothing.
	 */
	nm_query_chunk(w, NM_ENGINE_MOVE_PAGES, left);
	for (size_t i = 0; i < left; i++)
	{
		NmMoveItem *item = w->todo[i];
		int said = w->node[i];
		int now = w->status[i];

		if (now == target)
			nm_resolve(w, item, now, true);
		else if (now == -ENOENT || now == -EFAULT)
			nm_resolve(w, item, now, false);
		else if (said == -EACCES || said == -EBUSY || said == -ENOMEM)
			nm_resolve(w, item, said, false);
		else if (r == -ENOMEM || r == -EACCES || r == -ENODEV || r == -E2BIG || r == -EFAULT)
			nm_resolve(w, item, (int) r, false);
		else if (r > 0 && (!stored || n == 1))
			nm_resolve(w, item, -EBUSY, false);
		else
			w->todo[asked++] = item;
	}
	if (r == -ENOMEM)
		w->full_node = target;
	return asked;
}

static void
chunk_move_pages(MoveWork *w, size_t n, int target)
{
	NmMoveItem **all = w->todo;

	for (;;)
	{
		size_t left = stock_call(w, n, target);

		if (left == 0)
			return;
		if (left == n)
			break; /* no progress */
		n = left;
		if (!nm_tick(w))
			return;
	}

	/*
	 * One by one, so that every page gets its own try and its own answer.
	 */
	for (size_t i = 0; i < n; i++)
	{
		w->todo = all + i;
		if (w->refused)
			nm_resolve(w, all[i], -w->refused, false);
		else if (w->full_node == target)
			nm_resolve(w, all[i], -ENOMEM, false);
		else if (stock_call(w, 1, target) > 0)
			nm_resolve(w, all[i], -EAGAIN, false);
		if (i + 1 < n && !nm_tick(w))
			break;
	}
	w->todo = all;
}

void
nm_engine_chunk(MoveWork *w, size_t n, int target)
{
	NmEngine engine = w->opt->engine;

	if (w->refused)
	{
		give_up(w, n, -w->refused);
		return;
	}
	if (engine == NM_ENGINE_MOVE_PAGES || w->opt->query_first)
	{
		/*
		 * For the stock call this is needed: a page already there would
		 * flush the batch and be counted as moved.
		 */
		n = query_and_drop(w, engine, n);
	}
	if (n == 0)
		return;
	if (w->full_node == target)
	{
		give_up(w, n, -ENOMEM);
		return;
	}
	if (engine == NM_ENGINE_MOVE_PAGES2)
		chunk_move_pages2(w, n, target);
	else
		chunk_move_pages(w, n, target);
}

/*-------------------------------------------------------------------------
 *
 * query.c
 *	  Where pages are now, without making any.
 *
 * Stock move_pages answers from the caller's page table, so a page that this
 * process has not used yet looks absent; touching it puts it there, but
 * touching a hole of shared memory allocates a page on the toucher's node.
 * mincore looks into the page cache of a shared mapping and does neither.  So:
 * mincore, touch what is resident, ask.  move_pages2 looks into the page cache
 * itself.
 *
 * Before Linux 6.12 an entry that is not mapped says -EFAULT, since then
 * -ENOENT: both are "absent", as is a page swapped out after the touch.
 *
 * IDENTIFICATION
 *	  src/mover/query.c
 *
 *-------------------------------------------------------------------------
 */
#include "move_int.h"

#include <errno.h>
#include <string.h>

#define PRESENT_NO		0
#define PRESENT_YES		1
#define PRESENT_UNKNOWN 2 /* ask the kernel, but don't touch */

/* Entries of one query call: bounds the time without a tick. */
#define QUERY_CHUNK 1024

static int
presence_of(MoveWork *w, void *addr)
{
	int r = nm_sys->mincore(addr, w->caps->os_page_size, w->vec);

	if (r == 0)
		return (w->vec[0] & 1) ? PRESENT_YES : PRESENT_NO;
	return r == -ENOMEM ? PRESENT_NO : PRESENT_UNKNOWN;
}

/*
 * Fill w->present for w->addr[0..n-1].  Runs of neighbours are asked together;
 * a run with an unmapped page in it fails as a whole and is asked page by page.
 */
static void
find_present(MoveWork *w, size_t n)
{
	size_t page = w->caps->os_page_size;

	if (w->opt->hugetlb)
	{
		/* mincore sees only this process's table; the caller vouches */
		memset(w->present, PRESENT_YES, n);
		return;
	}

	for (size_t i = 0; i < n;)
	{
		size_t len = 1;
		int r;

		while (w->opt->page_size == page && i + len < n &&
			   (char *) w->addr[i + len] == (char *) w->addr[i] + len * page)
			len++;
		if (len == 1)
		{
			w->present[i] = (unsigned char) presence_of(w, w->addr[i]);
			i++;
			continue;
		}
		r = nm_sys->mincore(w->addr[i], len * page, w->vec);
		if (r == 0)
		{
			for (size_t k = 0; k < len; k++)
				w->present[i + k] = (w->vec[k] & 1) ? PRESENT_YES : PRESENT_NO;
		}
		else
		{
			for (size_t k = 0; k < len; k++)
				w->present[i + k] = (unsigned char) presence_of(w, w->addr[i + k]);
		}
		i += len;
	}
}

static void
query_move_pages2(MoveWork *w, size_t n)
{
	size_t done = 0;
	int idle = 0;

	for (size_t i = 0; i < n; i++)
		w->addr64[i] = (uint64_t) (uintptr_t) w->addr[i];

	while (done < n)
	{
		NmMp2Args args = {
			.pages = (uint64_t) (uintptr_t) (w->addr64 + done),
			.status = (uint64_t) (uintptr_t) (w->status + done),
			.nr_pages = n - done};
		long r = nm_sys->move_pages2(w->caps->move_pages2_number, &args, sizeof(args),
									 NM_MP2_PAGE_CACHE | NM_MP2_NO_DRAIN);

		if (r > 0)
		{
			done += (size_t) r;
			idle = 0;
			continue;
		}
		/* a signal before the first entry: its handler has run by now */
		if ((r == 0 || r == -EINTR) && ++idle < 16)
			continue;
		for (; done < n; done++)
			w->status[done] = r == 0 ? -EINTR : (int) r;
	}
}

static void
query_move_pages(MoveWork *w, size_t n)
{
	size_t m = 0;
	long r = 0;

	find_present(w, n);
	for (size_t i = 0; i < n; i++)
	{
		w->status[i] = -ENOENT;
		if (w->present[i] == PRESENT_NO)
			continue;
		if (w->present[i] == PRESENT_YES)
			nm_sys->touch(w->addr[i]);
		w->qaddr[m] = w->addr[i];
		w->qpos[m] = (int) i;
		w->qstatus[m] = -ENOENT;
		m++;
	}
	if (m == 0)
		return;

	if (w->caps->move_pages)
		r = nm_sys->move_pages(m, w->qaddr, NULL, w->qstatus, NM_MPOL_MF_MOVE);
	else if (w->caps->get_mempolicy)
	{
		/* slower, and it faults in what is missing: only what is there */
		for (size_t k = 0; k < m; k++)
		{
			if (w->present[w->qpos[k]] == PRESENT_YES)
				w->qstatus[k] = nm_sys->get_mempolicy(w->qaddr[k]);
		}
	}
	else
		r = w->caps->move_pages_errno ? -w->caps->move_pages_errno : -ENOSYS;

	for (size_t k = 0; k < m; k++)
		w->status[w->qpos[k]] = r < 0 ? (int) r : w->qstatus[k];
}

void
nm_query_chunk(MoveWork *w, NmEngine engine, size_t n)
{
	if (engine == NM_ENGINE_MOVE_PAGES2)
		query_move_pages2(w, n);
	else
		query_move_pages(w, n);
}

/*
 * The answers don't depend on the engine; move_pages2 is taken when it is
 * there, since it neither touches nor maps, unless stock move_pages is asked
 * for by name.  A machine on which nothing can be asked says why in every
 * status.
 */
bool
nm_query_nodes(const NmMoverCaps *caps, void *const *addrs, size_t n,
			   int32_t *status, const NmMoveOptions *opt, void *scratch)
{
	NmMoveStats unused = {0};
	MoveWork w;
	NmEngine engine = nm_mover_choose(caps, opt->engine == NM_ENGINE_OFF ? NM_ENGINE_AUTO : opt->engine);

	nm_work_init(&w, caps, opt, &unused, n, scratch);
	for (size_t done = 0; done < n;)
	{
		size_t len = n - done < QUERY_CHUNK ? n - done : QUERY_CHUNK;

		for (size_t i = 0; i < len; i++)
			w.addr[i] = page_of(addrs[done + i], opt->page_size);
		nm_query_chunk(&w, engine, len);
		for (size_t i = 0; i < len; i++)
			status[done + i] = w.status[i];
		done += len;
		if (!nm_tick(&w))
		{
			for (; done < n; done++)
				status[done] = -ECANCELED;
			return false;
		}
	}
	return true;
}

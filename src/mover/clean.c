/*-------------------------------------------------------------------------
 *
 * clean.c
 *	  Turn a request into a list the kernel handles well.
 *
 * Stock move_pages flushes the pages it has collected (a TLB shootdown and an
 * unmap each) whenever the target changes, fails on a second address in one
 * huge page, and gives the whole call up for one bad node.  So: one entry per
 * real page, refused targets out, grouped by target, ascending by address
 * within a target.
 *
 * IDENTIFICATION
 *	  src/mover/clean.c
 *
 *-------------------------------------------------------------------------
 */
#include "move_int.h"

#include <errno.h>
#include <string.h>

typedef int (*ItemCmp)(const NmMoveItem *a, const NmMoveItem *b, size_t page_size);

/* By page; an entry marked as duplicate after the one it repeats. */
static int
by_page(const NmMoveItem *a, const NmMoveItem *b, size_t page_size)
{
	uintptr_t pa = (uintptr_t) page_of(a->addr, page_size);
	uintptr_t pb = (uintptr_t) page_of(b->addr, page_size);

	if (pa != pb)
		return pa < pb ? -1 : 1;
	return (int) (a->status == ST_DUPLICATE) - (int) (b->status == ST_DUPLICATE);
}

static int
rank(const NmMoveItem *item)
{
	if (item->status == ST_PENDING)
		return 0;
	return item->status == ST_DUPLICATE ? 2 : 1;
}

/* Work first, then refused ones, then duplicates; by target, then address. */
static int
by_target(const NmMoveItem *a, const NmMoveItem *b, size_t page_size)
{
	int ra = rank(a),
		rb = rank(b);

	if (ra != rb)
		return ra - rb;
	if (a->node != b->node)
		return a->node < b->node ? -1 : 1;
	if (a->addr != b->addr)
		return (uintptr_t) a->addr < (uintptr_t) b->addr ? -1 : 1;
	return 0;
}

/*
 * Stable bottom-up merge sort in caller's memory: qsort may allocate and is
 * not stable, and of two wishes for one page the first shall count.  A list
 * that is in order already costs one pass.
 */
static void
sort_items(NmMoveItem *items, size_t n, ItemCmp cmp, size_t page_size, NmMoveItem *tmp)
{
	NmMoveItem *from = items,
			   *to = tmp;
	bool sorted = true;

	for (size_t i = 1; i < n && sorted; i++)
		sorted = cmp(&items[i - 1], &items[i], page_size) <= 0;
	if (sorted)
		return;

	for (size_t width = 1; width < n; width *= 2)
	{
		NmMoveItem *swap;

		for (size_t lo = 0; lo < n; lo += 2 * width)
		{
			size_t mid = lo + width < n ? lo + width : n;
			size_t hi = mid + width < n ? mid + width : n;
			size_t a = lo,
				   b = mid,
				   k = lo;

			while (a < mid && b < hi)
				to[k++] = cmp(&from[b], &from[a], page_size) < 0 ? from[b++] : from[a++];
			while (a < mid)
				to[k++] = from[a++];
			while (b < hi)
				to[k++] = from[b++];
		}
		swap = from;
		from = to;
		to = swap;
	}
	if (from != items)
		memcpy(items, from, n * sizeof(*items));
}

/*
 * Returns the number of entries to work on, which are items[0..] in order;
 * *nrefused entries with status -ENODEV follow, then the duplicates.
 */
size_t
nm_clean_list(const NmTopology *topo, NmMoveItem *items, size_t n,
			  size_t page_size, NmMoveItem *tmp, size_t *nrefused)
{
	size_t nwork = 0;

	*nrefused = 0;
	for (size_t i = 0; i < n; i++)
		items[i].status = ST_PENDING;
	sort_items(items, n, by_page, page_size, tmp);

	for (size_t i = 0; i < n; i++)
	{
		int pos;

		if (i > 0 && page_of(items[i].addr, page_size) == page_of(items[i - 1].addr, page_size))
		{
			items[i].status = ST_DUPLICATE;
			continue;
		}
		pos = nm_topology_index(topo, items[i].node);
		if (pos < 0 || !topo->nodes[pos].allowed)
		{
			items[i].status = -ENODEV;
			(*nrefused)++;
		}
		else
			nwork++;
	}
	sort_items(items, n, by_target, page_size, tmp);
	return nwork;
}

/* Give duplicates the answer of the entry they repeat. */
void
nm_clean_finish(NmMoveItem *items, size_t n, size_t page_size, NmMoveItem *tmp)
{
	sort_items(items, n, by_page, page_size, tmp);
	for (size_t i = 1; i < n; i++)
	{
		if (items[i].status == ST_DUPLICATE)
			items[i].status = items[i - 1].status;
	}
}

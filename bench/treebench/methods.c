/*-------------------------------------------------------------------------
 *
 * methods.c
 *	  Ways to move the pages that a cell's descents visit to another node.
 *
 * IDENTIFICATION
 *	  bench/treebench/methods.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "methods.h"
#include "mover/sys.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MPOL_DEFAULT 0
#define MPOL_BIND	 2
#define MPOL_MF_MOVE (1 << 1)

/* A status that no call writes. */
#define UNWRITTEN (-9999)

void
mover_init(Mover *m, const NmMoverCaps *caps, const NmTopology *topo)
{
	memset(m, 0, sizeof(*m));
	m->caps = caps;
	m->topo = topo;
}

void
mover_free(Mover *m)
{
	free(m->pages);
	free(m->nodes);
	free(m->status);
	free(m->addrs);
	free(m->items);
	free(m->scratch);
}

static void *
bigger(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	if (p == NULL)
	{
		perror("treebench: list");
		exit(1);
	}
	return p;
}

void
mover_reserve(Mover *m, size_t n)
{
	if (n <= m->cap)
		return;
	m->cap = n * 2;
	m->pages = bigger(m->pages, m->cap * sizeof(void *));
	m->nodes = bigger(m->nodes, m->cap * sizeof(int));
	m->status = bigger(m->status, m->cap * sizeof(int));
	m->addrs = bigger(m->addrs, m->cap * sizeof(uint64_t));
	m->items = bigger(m->items, m->cap * sizeof(NmMoveItem));
	m->scratch = bigger(m->scratch, nm_move_scratch_size(m->cap));
}

static int
compare_pages(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (void *const *) a;
	uintptr_t y = (uintptr_t) * (void *const *) b;

	return (x > y) - (x < y);
}

/* Each page once; returns how many. */
static size_t
distinct(void **pages, size_t n)
{
	size_t kept = 0;

	qsort(pages, n, sizeof(void *), compare_pages);
	for (size_t i = 0; i < n; i++)
	{
		if (i == 0 || pages[i] != pages[i - 1])
			pages[kept++] = pages[i];
	}
	return kept;
}

static uint64_t
count_there(const int *status, size_t n, int node)
{
	uint64_t there = 0;

	for (size_t i = 0; i < n; i++)
		there += status[i] == node;
	return there;
}

/* The mover of the extension, as numa.move_relation() calls it: it makes its own clean list. */
static uint64_t
move_clean(Mover *m, const Method *method, size_t n, int node)
{
	NmMoveOptions opt = {.page_size = 4096};
	NmMoveStats stats = {0};

	opt.engine = method->kind == MOVE_STOCK_CLEAN ? NM_ENGINE_MOVE_PAGES : NM_ENGINE_MOVE_PAGES2;
	opt.mode = method->mode;
	opt.batch = method->kind == MOVE_STOCK_CLEAN ? 512 : method->batch;
	for (size_t i = 0; i < n; i++)
		m->items[i] = (NmMoveItem){.addr = m->pages[i], .node = node};
	(void) nm_move(m->caps, m->topo, m->items, n, &opt, &stats, m->scratch);
	return (uint64_t) (stats.moved + stats.already);
}

uint64_t
move_list(Mover *m, const Method *method, size_t n, int node)
{
	uint64_t there = 0;

	switch (method->kind)
	{
		case MOVE_NONE:
		case MOVE_RELOCATE:
			return 0;

		case MOVE_STOCK_ONCE:
		case MOVE_STOCK:
			if (method->kind == MOVE_STOCK_ONCE)
				n = distinct(m->pages, n);
			for (size_t i = 0; i < n; i++)
			{
				m->nodes[i] = node;
				m->status[i] = UNWRITTEN;
			}
			(void) nm_sys->move_pages(n, m->pages, m->nodes, m->status, NM_MPOL_MF_MOVE);
			return count_there(m->status, n, node);

		case MOVE_PAGES2:
		{
			NmMp2Args args = {.nr_pages = n, .mode = method->mode, .nr_max_batched_migration = (uint64_t) method->batch};

			for (size_t i = 0; i < n; i++)
			{
				m->addrs[i] = (uintptr_t) m->pages[i];
				m->nodes[i] = node;
				m->status[i] = UNWRITTEN;
			}
			args.pages = (uintptr_t) m->addrs;
			args.nodes = (uintptr_t) m->nodes;
			args.status = (uintptr_t) m->status;
			(void) nm_sys->move_pages2(m->caps->move_pages2_number, &args, sizeof(args), 0);
			return count_there(m->status, n, node);
		}

		case MOVE_STOCK_CLEAN:
		case MOVE_PAGES2_CLEAN:
			return move_clean(m, method, n, node);

		case MOVE_PER_PAGE:
			n = distinct(m->pages, n);
			for (size_t i = 0; i < n; i++)
			{
				int status = UNWRITTEN;

				(void) nm_sys->move_pages(1, &m->pages[i], &node, &status, NM_MPOL_MF_MOVE);
				there += status == node;
			}
			return there;

		case MOVE_MBIND:
			n = distinct(m->pages, n);
			if (m->bound_from == NULL || (char *) m->pages[0] < m->bound_from)
				m->bound_from = m->pages[0];
			if ((char *) m->pages[n - 1] + 4096 > m->bound_to)
				m->bound_to = (char *) m->pages[n - 1] + 4096;
			for (size_t i = 0; i < n; i++)
			{
				unsigned long mask = 1UL << node;

				there += syscall(SYS_mbind, m->pages[i], 4096, MPOL_BIND, &mask, sizeof(mask) * 8 + 1, MPOL_MF_MOVE) == 0;
			}
			return there;
	}
	return 0;
}

void
unbind(Mover *m)
{
	if (m->bound_from != NULL)
		(void) syscall(SYS_mbind, m->bound_from, m->bound_to - m->bound_from, MPOL_DEFAULT, NULL, 0UL, 0);
	m->bound_from = m->bound_to = NULL;
}

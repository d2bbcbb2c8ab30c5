/*-------------------------------------------------------------------------
 *
 * fake_kernel.c
 *	  A small model of the kernel's page placement.
 *
 * IDENTIFICATION
 *	  test/unit/mover/fake_kernel.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "fake_kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

FakeKernel fake;

void
fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.page_size = 4096;
	fake.cap_sys_nice = true;
	for (int i = 0; i < FAKE_NODES; i++)
	{
		fake.free_pages[i] = -1;
		fake.online[i] = fake.in_cpuset[i] = i < 4;
	}
	for (int i = 0; i < FAKE_PAGES; i++)
		fake.page[i] = (FakePage){.mapped = true, .resident = true, .mine = true};
	fake.handshake_answer = NM_MP2_ABI_MAGIC;
	fake.expected_number = 600;
}

void *
fake_addr(int page)
{
	return FAKE_BASE + (size_t) page * fake.page_size;
}

FakePage *
fake_page(const void *addr)
{
	size_t i = ((uintptr_t) addr - (uintptr_t) FAKE_BASE) / fake.page_size;

	if ((uintptr_t) addr < (uintptr_t) FAKE_BASE || i >= FAKE_PAGES || !fake.page[i].mapped)
		return NULL;
	return &fake.page[i];
}

void
fake_topology(NmTopology *topo)
{
	memset(topo, 0, sizeof(*topo));
	for (int i = 0; i < FAKE_NODES; i++)
	{
		NmNode *node;

		if (!fake.online[i])
			continue;
		node = &topo->nodes[topo->nnodes++];
		node->id = i;
		node->has_memory = true;
		node->has_cpu = true;
		node->allowed = fake.in_cpuset[i];
	}
}

void
fake_caps(NmMoverCaps *caps, bool move_pages2)
{
	memset(caps, 0, sizeof(*caps));
	caps->move_pages = true;
	caps->get_mempolicy = true;
	caps->mbind = true;
	caps->move_pages2 = move_pages2;
	caps->move_pages2_number = move_pages2 ? fake.expected_number : -1;
	caps->cap_sys_nice = fake.cap_sys_nice;
	caps->owner_rule = fake.owner_rule && move_pages2;
	caps->os_page_size = 4096;
}

/* Migrate one page, if it can be: 0 or -errno. */
static int
migrate(FakePage *page, int node)
{
	page->tries++;
	if (fake.free_pages[node] == 0)
		return -ENOMEM;
	if (page->pinned)
		return -EBUSY;
	if (fake.free_pages[node] > 0)
		fake.free_pages[node]--;
	page->node = node;
	if (fake.hugetlb)
	{
		for (int i = 0; i < FAKE_PAGES; i++)
			fake.page[i].mine = false;
	}
	return 0;
}

static void
watch_list(size_t n, void *const *pages, const int *nodes)
{
	fake.move_calls++;
	if (n > fake.longest)
		fake.longest = n;
	for (size_t i = 0; i < n; i++)
	{
		FakePage *page = fake_page(pages[i]);

		if (i > 0 && nodes[i] != nodes[i - 1])
			fake.mixed_targets++;
		if (i > 0 && (uintptr_t) pages[i] < (uintptr_t) pages[i - 1])
			fake.unsorted++;
		if (i > 0 && pages[i] == pages[i - 1])
			fake.repeated++;
		if (page && page->resident && page->node == nodes[i])
			fake.useless++;
		if (page == NULL || !page->resident)
			fake.absent_asked++;
	}
}

static int
absent_status(void)
{
	return fake.old_efault ? -EFAULT : -ENOENT;
}

/*
 * Migrate the list collected so far.  As move_pages_and_store_status(): 0, or
 * -errno, or failed + untried entries.
 */
static long
flush(size_t *list, size_t *nlist, void **pages, int node, int *status,
	  size_t start, size_t i, size_t n)
{
	long failed = 0;
	bool nomem = false;

	if (*nlist == 0)
		return 0;
	for (size_t k = 0; k < *nlist; k++)
	{
		int r = migrate(fake_page(pages[list[k]]), node);

		if (r == -ENOMEM)
		{
			nomem = true;
			break;
		}
		failed += r != 0;
	}
	*nlist = 0;
	if (nomem)
		return -ENOMEM;
	if (failed > 0)
		return failed + (long) (n - i);
	for (size_t k = start; k < i; k++)
		status[k] = node;
	return 0;
}

static long
fake_move_pages(unsigned long n, void **pages, const int *nodes, int *status, int flags)
{
	static size_t list[FAKE_PAGES * 2];
	size_t nlist = 0,
		   start = 0;
	int current = -1;
	long err;

	if (fake.move_pages_errno)
		return -fake.move_pages_errno;
	if ((flags & NM_MPOL_MF_MOVE_ALL) && !fake.cap_sys_nice)
		return -EPERM;
	if (nodes == NULL)
	{
		fake.query_calls++;
		for (size_t i = 0; i < n; i++)
		{
			FakePage *page = fake_page(pages[i]);

			status[i] = page == NULL ? -EFAULT : page->mine ? page->node
															: absent_status();
		}
		return 0;
	}

	watch_list(n, pages, nodes);
	for (size_t i = 0; i < n; i++)
	{
		FakePage *page = fake_page(pages[i]);
		int st;

		if (nodes[i] < 0 || nodes[i] >= FAKE_NODES || !fake.online[nodes[i]] || !fake.in_cpuset[nodes[i]])
		{
			err = nodes[i] >= 0 && nodes[i] < FAKE_NODES && fake.online[nodes[i]] ? -EACCES : -ENODEV;
			(void) flush(list, &nlist, pages, current, status, start, i, n);
			return err;
		}
		if (current < 0)
		{
			current = nodes[i];
			start = i;
		}
		else if (current != nodes[i])
		{
			err = flush(list, &nlist, pages, current, status, start, i, n);
			if (err)
				return err;
			start = i;
			current = nodes[i];
		}

		if (page == NULL)
			st = -EFAULT;
		else if (!page->mine)
			st = absent_status();
		else if (page->node == current)
			st = current;
		else if (page->shared && !(flags & NM_MPOL_MF_MOVE_ALL))
			st = -EACCES;
		else if (page->stuck)
			st = -EBUSY;
		else
		{
			list[nlist++] = i;
			continue;
		}
		status[i] = st;
		err = flush(list, &nlist, pages, current, status, start, i, n);
		if (err)
			return err > 0 ? err - 1 : err;
		current = -1;
	}
	return flush(list, &nlist, pages, current, status, start, n, n);
}

static long
fake_move_pages2(long number, NmMp2Args *args, size_t size, unsigned int flags)
{
	uint64_t *pages;
	int *nodes,
		*status;
	size_t n;
	static void *list[FAKE_PAGES * 2];

	if (number != fake.expected_number)
	{
		printf("# called system call %ld, which is not move_pages2\n", number);
		abort();
	}
	if (flags == NM_MP2_HANDSHAKE)
	{
		fake.handshakes++;
		return args == NULL && size == 0 ? fake.handshake_answer : -EINVAL;
	}
	if (fake.move_pages2_errno)
		return -fake.move_pages2_errno;
	if (size != sizeof(NmMp2Args) || args->mode > 2 || args->nr_max_batched_migration > 4096)
		return -EINVAL;
	if ((flags & NM_MP2_MOVE_ALL) && !fake.cap_sys_nice)
		return -EPERM;
	if ((flags & NM_MP2_OWNER) && (!fake.owner_rule || fake.owner_off))
		return -EPERM;
	if (fake.eintr_left > 0)
	{
		fake.eintr_left--;
		return -EINTR;
	}
	if (fake.zero_left > 0)
	{
		fake.zero_left--;
		return 0;
	}

	pages = (uint64_t *) (uintptr_t) args->pages;
	nodes = (int *) (uintptr_t) args->nodes;
	status = (int *) (uintptr_t) args->status;
	n = args->nr_pages;
	for (size_t i = 0; i < n; i++)
		list[i] = (void *) (uintptr_t) pages[i];
	args->nr_migrated = args->nr_already = args->nr_failed = 0;
	if (nodes)
	{
		watch_list(n, list, nodes);
		fake.last_args = *args;
		fake.last_flags = flags;
	}
	else
		fake.query_calls++;
	if (fake.short_every > 0 && n > (size_t) fake.short_every)
		n = (size_t) fake.short_every;

	for (size_t i = 0; i < n; i++)
	{
		FakePage *page = fake_page(list[i]);
		int st;

		if (page == NULL)
			st = -EFAULT;
		else if (!page->resident || (!page->mine && !(flags & NM_MP2_PAGE_CACHE)))
			st = -ENOENT;
		else if (nodes == NULL || page->node == nodes[i])
			st = page->node;
		else if (!fake.online[nodes[i]])
			st = -ENODEV;
		else if (!fake.in_cpuset[nodes[i]] || (page->shared && !(flags & NM_MP2_MOVE_ALL) && !(page->own && (flags & NM_MP2_OWNER))))
			st = -EACCES;
		else if (page->stuck)
			st = -EBUSY;
		else if (page->again > 0)
		{
			page->again--;
			st = -EAGAIN;
		}
		else
		{
			st = migrate(page, nodes[i]);
			if (st == 0)
			{
				status[i] = nodes[i];
				args->nr_migrated++;
				continue;
			}
		}
		status[i] = st;
		if (st >= 0)
			args->nr_already++;
		else
			args->nr_failed++;
	}
	return (long) n;
}

static int
fake_mincore(void *addr, size_t length, unsigned char *vec)
{
	if (fake.mincore_errno)
		return -fake.mincore_errno;
	if ((uintptr_t) addr % 4096 != 0)
		return -EINVAL;
	for (size_t off = 0; off < length; off += 4096)
	{
		FakePage *page = fake_page((char *) addr + off);

		if (page == NULL)
			return -ENOMEM;
		/* bits 1-7 are undefined for the caller */
		vec[off / 4096] = (unsigned char) (0xa0 | page->resident);
	}
	return 0;
}

static void
fake_touch(void *addr)
{
	FakePage *page = fake_page(addr);

	fake.touches++;
	if (page == NULL)
	{
		printf("# touched an unmapped address: SIGSEGV\n");
		abort();
	}
	if (!page->resident)
	{
		fake.allocated++;
		page->resident = true;
		page->node = fake.toucher_node;
	}
	page->mine = true;
}

static int
fake_get_mempolicy(void *addr)
{
	FakePage *page = fake_page(addr);

	if (page == NULL)
		return -EFAULT;
	fake_touch(addr);
	return page->node;
}

static int
fake_mbind(void *addr, size_t length)
{
	return 0;
}

const NmSys fake_sys = {
	.move_pages = fake_move_pages,
	.move_pages2 = fake_move_pages2,
	.mincore = fake_mincore,
	.touch = fake_touch,
	.get_mempolicy = fake_get_mempolicy,
	.mbind = fake_mbind,
};

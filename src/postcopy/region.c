/*-------------------------------------------------------------------------
 *
 * region.c
 *	  Attach and detach: the regions of this process.
 *
 * Regions lie in static memory, so that a handler never meets freed memory.
 *
 * IDENTIFICATION
 *	  src/postcopy/region.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

NmPostcopy nm_pc_regions[NM_PC_MAX_REGIONS];
pid_t *nm_pc_process;

/* Note which process this is; 0 or a negative errno. */
static int
note_process(pid_t me)
{
	if (nm_pc_process == NULL)
	{
		void *page = mmap(NULL, NM_PC_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			return -errno;
		if (madvise(page, NM_PC_PAGE, MADV_WIPEONFORK) != 0)
		{
			int err = errno;

			(void) munmap(page, NM_PC_PAGE);
			return -err;
		}
		nm_pc_process = page;
	}
	*nm_pc_process = me;
	return 0;
}

static bool
is_minor(NmPcFill fill)
{
	return fill != NM_PC_COPY;
}

int
nm_postcopy_probe(NmPcFill fill)
{
	int fd = nm_pc_sys->open(is_minor(fill));

	if (fd < 0)
		return -fd;
	(void) close(fd);
	return 0;
}

static bool
good_cell(int cell_pages)
{
	return cell_pages >= 1 && cell_pages <= NM_PC_MAX_CELL_PAGES && (cell_pages & (cell_pages - 1)) == 0;
}

static size_t
cells_of(size_t bytes, int cell_pages)
{
	size_t cell = (size_t) cell_pages * NM_PC_PAGE;

	return (bytes + cell - 1) / cell;
}

size_t
nm_postcopy_shared_size(size_t bytes, int cell_pages)
{
	return sizeof(NmPcShared) + cells_of(bytes, cell_pages) * sizeof(uint32_t);
}

void
nm_postcopy_shared_init(void *shared, size_t bytes, int cell_pages)
{
	NmPcShared *s = shared;

	memset(s, 0, nm_postcopy_shared_size(bytes, cell_pages));
	s->bytes = bytes;
	s->cell_pages = (uint32_t) cell_pages;
	s->ncells = cells_of(bytes, cell_pages);
}

static bool
good_config(const NmPcConfig *c, const NmPcShared *s)
{
	if (c->base == NULL || (uintptr_t) c->base % NM_PC_PAGE != 0 || c->bytes == 0 || c->bytes % NM_PC_PAGE != 0)
		return false;
	if (!good_cell(c->cell_pages) || c->source == NULL || c->buffers < 0)
		return false;
	if (c->header_bytes < 8 || c->header_bytes > NM_PC_MAX_HEADER || c->header_bytes % 8 != 0)
		return false;
	switch (c->fill)
	{
		case NM_PC_COPY:
			break;
		case NM_PC_CONTINUE:
			if (c->alias == NULL || (uintptr_t) c->alias % NM_PC_PAGE != 0)
				return false;
			break;
		case NM_PC_CONTINUE_WRITE:
			if (c->memfd < 0 || c->offset < 0 || c->offset % NM_PC_PAGE != 0)
				return false;
			break;
		default:
			return false;
	}
	return s->bytes == c->bytes && s->cell_pages == (uint32_t) c->cell_pages;
}

/* Forget a region and what this process has of it. */
static void
let_go(NmPostcopy *pc)
{
	__atomic_store_n(&pc->attached, 0, __ATOMIC_RELEASE);
	if (pc->fd >= 0)
		(void) close(pc->fd);
	if (pc->buffers)
		(void) munmap(pc->buffers, (size_t) pc->config.buffers * (size_t) pc->config.cell_pages * NM_PC_PAGE);
	free(pc->in_use);
	memset(pc, 0, sizeof(*pc));
	pc->fd = -1;
}

NmPostcopy *
nm_postcopy_attach(const NmPcConfig *config, void *shared, int *err)
{
	NmPostcopy *pc = NULL;
	pid_t me = getpid();

	if (!good_config(config, shared))
	{
		*err = EINVAL;
		return NULL;
	}
	*err = -note_process(me);
	if (*err != 0)
		return NULL;
	for (int i = NM_PC_MAX_REGIONS - 1; i >= 0; i--)
	{
		/* what a fork left behind: the parent's region and descriptor */
		if (nm_pc_regions[i].attached && nm_pc_regions[i].pid != me)
			let_go(&nm_pc_regions[i]);
		if (!nm_pc_regions[i].attached)
			pc = &nm_pc_regions[i];
	}
	if (pc == NULL)
	{
		*err = ENOSPC;
		return NULL;
	}
	memset(pc, 0, sizeof(*pc));
	pc->config = *config;
	pc->shared = shared;
	pc->pid = me;
	pc->npages = config->bytes / NM_PC_PAGE;
	pc->fd = -1;
	if (config->buffers > 0)
	{
		/* touched now: in the handler memory might be short */
		size_t bytes = (size_t) config->buffers * (size_t) config->cell_pages * NM_PC_PAGE;

		pc->in_use = calloc((size_t) config->buffers, sizeof(uint32_t));
		pc->buffers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (pc->buffers == MAP_FAILED)
			pc->buffers = NULL;
		if (pc->in_use == NULL || pc->buffers == NULL)
		{
			*err = ENOMEM;
			let_go(pc);
			return NULL;
		}
	}
	*err = -nm_pc_handler_install();
	if (*err == 0)
	{
		pc->fd = nm_pc_sys->open(is_minor(config->fill));
		*err = pc->fd < 0 ? -pc->fd : 0;
	}
	if (*err != 0)
	{
		let_go(pc);
		return NULL;
	}

	/* before the registration: another thread's touch may come at once */
	__atomic_store_n(&pc->attached, 1, __ATOMIC_RELEASE);
	*err = -nm_pc_sys->enroll(pc->fd, config->base, config->bytes, is_minor(config->fill));
	if (*err != 0)
	{
		let_go(pc);
		return NULL;
	}
	return pc;
}

int
nm_postcopy_detach(NmPostcopy *pc)
{
	int err = nm_pc_sys->unenroll(pc->fd, pc->config.base, pc->config.bytes);

	let_go(pc); /* closing the descriptor ends what the call did not */
	return err;
}

size_t
nm_postcopy_cells(const NmPostcopy *pc)
{
	return pc->shared->ncells;
}

/*
 * No shared counter: a filler that dies between its cell's word and the counter would
 * leave them apart for good.  A filled cell stays so, so each is looked at once.
 */
bool
nm_postcopy_complete(NmPostcopy *pc)
{
	size_t cell = __atomic_load_n(&pc->seen_done, __ATOMIC_RELAXED);

	while (cell < pc->shared->ncells && __atomic_load_n(&pc->shared->cells[cell], __ATOMIC_ACQUIRE) == NM_CELL_DONE)
		cell++;
	__atomic_store_n(&pc->seen_done, cell, __ATOMIC_RELAXED);
	return cell == pc->shared->ncells;
}

void
nm_postcopy_stats(const NmPostcopy *pc, NmPcStats *stats)
{
	const uint64_t *from = (const uint64_t *) (const void *) &pc->stats;
	uint64_t *to = (uint64_t *) (void *) stats;

	for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

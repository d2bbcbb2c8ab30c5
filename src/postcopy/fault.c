/*-------------------------------------------------------------------------
 *
 * fault.c
 *	  Serve a touch, an "ensure" or the background filler.
 *
 * IDENTIFICATION
 *	  src/postcopy/fault.c
 *
 *-------------------------------------------------------------------------
 */
#include "internal.h"

#include <errno.h>

/*
 * The cell is filled and yet the page was absent, or not mapped here.  It may
 * have come since the touch; it may never have been mapped in this process (minor fault); or its memory has
 * been given back since.  In the last case it gets zeros, as any hole: the source's content is old, and
 * zeros are no header.
 */
static int
touch_filled(NmPostcopy *pc, size_t page)
{
	int err = -EFAULT;
	uint64_t since = 0;
	long r;

	if (pc->config.fill != NM_PC_COPY)
		err = nm_pc_map_cell(pc, page / (size_t) pc->config.cell_pages);
	if (err != -EFAULT)
		return err;
	do
	{
		r = nm_pc_sys->zero(pc->fd, (char *) pc->config.base + page * NM_PC_PAGE, NM_PC_PAGE);
		if (r > 0)
			nm_pc_count(pc, holes, 1);
		if (r > 0 || r == -EEXIST)
			return 0;
		if (r != -EAGAIN)
			return (int) r;
	} while (nm_pc_try_again(pc, &since));
	return -EAGAIN;
}

int
nm_pc_touch(NmPostcopy *pc, size_t page)
{
	size_t cell = page / (size_t) pc->config.cell_pages;
	int err;

	nm_pc_count(pc, faults, 1);
	switch (nm_pc_claim(pc, cell, true))
	{
		case NM_CLAIM_MINE:
			err = nm_pc_fill_cell(pc, cell);
			nm_pc_release(pc, cell, err == 0);
			return err;
		case NM_CLAIM_DONE:
			return touch_filled(pc, page);
		default:
			return -EDEADLK; /* the source reads what it is to fill */
	}
}

/* Most often it is mapped, which one call for one page finds out. */
static int
ensure_mapped(NmPostcopy *pc, size_t page)
{
	if (nm_pc_sys->map(pc->fd, (char *) pc->config.base + page * NM_PC_PAGE, NM_PC_PAGE) == -EEXIST)
		return 0;
	return touch_filled(pc, page);
}

int
nm_postcopy_ensure(NmPostcopy *pc, const void *addr, size_t length)
{
	size_t at = (size_t) ((const char *) addr - (const char *) pc->config.base);
	int result = 0;

	if ((const char *) addr < (const char *) pc->config.base || at > pc->config.bytes || length > pc->config.bytes - at)
		return -EFAULT;
	if (length == 0)
		return 0;
	for (size_t page = at / NM_PC_PAGE; page <= (at + length - 1) / NM_PC_PAGE; page++)
	{
		size_t cell = page / (size_t) pc->config.cell_pages;
		NmPcClaim claim = nm_pc_claim(pc, cell, true);
		int err;

		if (claim == NM_CLAIM_SELF)
			return -EDEADLK;
		if (claim == NM_CLAIM_MINE)
		{
			err = nm_pc_fill_cell(pc, cell);
			nm_pc_release(pc, cell, err == 0);
		}
		else
			err = pc->config.fill == NM_PC_COPY ? 0 : ensure_mapped(pc, page);
		if (err < 0)
			return err;
		/* reading may fault once more, on a hole: then it has zeros after */
		if (claim == NM_CLAIM_DONE && !nm_pc_header_present(pc, (const char *) pc->config.base + page * NM_PC_PAGE, page))
			result = -ENODATA;
	}
	return result;
}

int
nm_postcopy_fill_some(NmPostcopy *pc, size_t *cursor, int max_cells)
{
	int filled = 0;

	while (*cursor < pc->shared->ncells && filled < max_cells)
	{
		size_t cell = *cursor;
		int err;

		if (nm_pc_claim(pc, cell, false) == NM_CLAIM_MINE)
		{
			err = nm_pc_fill_cell(pc, cell);
			nm_pc_release(pc, cell, err == 0);
			if (err < 0)
				return err;
			filled++;
		}
		(*cursor)++;
	}
	return filled;
}

int
nm_postcopy_forget(NmPostcopy *pc, size_t first_page, size_t npages)
{
	size_t per = (size_t) pc->config.cell_pages;
	size_t end = first_page + npages;

	if (end < first_page || end > pc->npages || first_page % per != 0 || (end % per != 0 && end != pc->npages))
		return -EINVAL;
	for (size_t cell = first_page / per; cell * per < end; cell++)
	{
		switch (nm_pc_claim(pc, cell, true))
		{
			case NM_CLAIM_MINE:
				nm_pc_release(pc, cell, true);
				break;
			case NM_CLAIM_DONE:
				break;
			default:
				return -EDEADLK;
		}
	}
	return 0;
}

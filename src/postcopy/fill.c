/*-------------------------------------------------------------------------
 *
 * fill.c
 *	  Bring a cell's pages in.  The caller holds the cell.
 *
 * All of it may run in a signal handler.
 *
 * IDENTIFICATION
 *	  src/postcopy/fill.c
 *
 *-------------------------------------------------------------------------
 */
#include "internal.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

__thread int nm_pc_filling __attribute__((tls_model("initial-exec")));

/* EAGAIN without progress means that someone is changing the address space. */
#define PATIENCE_NS UINT64_C(1000000000)

static inline size_t
cell_first(const NmPostcopy *pc, size_t cell)
{
	return cell * (size_t) pc->config.cell_pages;
}

/* Pages of a cell: the region's last one may be short. */
static inline int
cell_count(const NmPostcopy *pc, size_t cell)
{
	size_t left = pc->npages - cell_first(pc, cell);

	return left < (size_t) pc->config.cell_pages ? (int) left : pc->config.cell_pages;
}

/*
 * Is the page at this address there, by its header?  Others may be writing to
 * it: words are read one by one, the first of them, which was written last,
 * first.
 */
bool
nm_pc_header_present(NmPostcopy *pc, const char *at, size_t page)
{
	uint64_t header[NM_PC_MAX_HEADER / 8];
	const uint64_t *from = (const uint64_t *) (const void *) at;

	header[0] = __atomic_load_n(&from[0], __ATOMIC_ACQUIRE);
	if (pc->config.present == NULL)
		return header[0] != 0;
	for (int i = 1; i < pc->config.header_bytes / 8; i++)
		header[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	return pc->config.present(pc->config.arg, header, page);
}

/*
 * Write a page that others can see already: its first word last, so that the
 * header says "there" only once all is.
 */
static void
write_in_place(char *to, const char *from)
{
	uint64_t first;

	memcpy(&first, from, sizeof(first));
	memcpy(to + sizeof(first), from + sizeof(first), NM_PC_PAGE - sizeof(first));
	__atomic_store_n((uint64_t *) (void *) to, first, __ATOMIC_RELEASE);
}

/*
 * A page that exists, in a cell that we hold: either it has come with its
 * content, or somebody who is not attached read the hole.
 */
static void
fill_existing(NmPostcopy *pc, char *at, size_t page, const char *from)
{
	if (nm_pc_header_present(pc, at, page))
	{
		nm_pc_count(pc, exists, 1);
		return;
	}
	write_in_place(at, from);
	nm_pc_count(pc, foreign, 1);
}

/*
 * After EAGAIN: false once it has been so for too long.  *since is 0 at first,
 * and again after progress.
 */
bool
nm_pc_try_again(NmPostcopy *pc, uint64_t *since)
{
	uint64_t now = nm_now_ns();

	nm_pc_count(pc, retries, 1);
	if (*since == 0)
		*since = now;
	if (now - *since > PATIENCE_NS)
		return false;
	(void) sched_yield();
	return true;
}

static int
fill_copy(NmPostcopy *pc, size_t first, int n, const char *from)
{
	char *base = (char *) pc->config.base + first * NM_PC_PAGE;
	size_t bytes = (size_t) n * NM_PC_PAGE;
	size_t done = 0;
	uint64_t since = 0;

	while (done < bytes)
	{
		long r = nm_pc_sys->copy(pc->fd, base + done, from + done, bytes - done);

		if (r > 0)
		{
			nm_pc_count(pc, pages, (uint64_t) r / NM_PC_PAGE);
			done += (size_t) r;
			since = 0;
		}
		else if (r == -EEXIST)
		{
			fill_existing(pc, base + done, first + done / NM_PC_PAGE, from + done);
			done += NM_PC_PAGE;
		}
		else if (r != -EAGAIN)
			return (int) r;
		else if (!nm_pc_try_again(pc, &since))
			return -EAGAIN;
	}
	return 0;
}

static int
fill_alias(NmPostcopy *pc, size_t first, int n, const char *from)
{
	char *at = (char *) pc->config.alias + first * NM_PC_PAGE;

	for (int i = 0; i < n; i++, at += NM_PC_PAGE, from += NM_PC_PAGE)
	{
		if (nm_pc_header_present(pc, at, first + (size_t) i))
			nm_pc_count(pc, exists, 1);
		else
		{
			write_in_place(at, from);
			nm_pc_count(pc, pages, 1);
		}
	}
	return 0;
}

static int
fill_write(NmPostcopy *pc, size_t first, int n, const char *from)
{
	off_t at = pc->config.offset + (off_t) (first * NM_PC_PAGE);
	size_t bytes = (size_t) n * NM_PC_PAGE;
	size_t done = 0;
	uint64_t since = 0;

	while (done < bytes)
	{
		long r = nm_pc_sys->write(pc->config.memfd, from + done, bytes - done, at + (off_t) done);

		if (r > 0)
			done += (size_t) r;
		else if (r == 0)
			return -ENOSPC;
		else if (r != -EAGAIN && r != -EINTR)
			return (int) r;
		else if (!nm_pc_try_again(pc, &since))
			return (int) r;
	}
	nm_pc_count(pc, pages, (uint64_t) n);
	return 0;
}

/*
 * Map a cell's pages, all in the page cache, into this process.  -EFAULT: one
 * is not.
 */
int
nm_pc_map_cell(NmPostcopy *pc, size_t cell)
{
	char *base = (char *) pc->config.base + cell_first(pc, cell) * NM_PC_PAGE;
	size_t bytes = (size_t) cell_count(pc, cell) * NM_PC_PAGE;
	size_t done = 0;
	int result = 0;
	uint64_t since = 0;

	while (done < bytes)
	{
		long r = nm_pc_sys->map(pc->fd, base + done, bytes - done);

		if (r > 0)
		{
			done += (size_t) r;
			since = 0;
		}
		else if (r == -EEXIST)
			done += NM_PC_PAGE; /* mapped */
		else if (r == -EFAULT)
		{
			result = -EFAULT; /* the others shall be mapped */
			done += NM_PC_PAGE;
		}
		else if (r != -EAGAIN)
			return (int) r;
		else if (!nm_pc_try_again(pc, &since))
			return -EAGAIN;
	}
	return result;
}

/* A buffer of this process's; waits while all are in use. */
static int
buffer_take(NmPostcopy *pc)
{
	for (;;)
	{
		for (int i = 0; i < pc->config.buffers; i++)
		{
			uint32_t is_free = 0;

			if (__atomic_compare_exchange_n(&pc->in_use[i], &is_free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return i;
		}
		nm_pc_sys->wait(&pc->in_use[0], 1, 1000000);
	}
}

static void
buffer_give(NmPostcopy *pc, int i)
{
	__atomic_store_n(&pc->in_use[i], 0, __ATOMIC_RELEASE);
	nm_pc_sys->wake(&pc->in_use[0]);
}

/*
 * Fill a cell that this thread holds, and map it where a touch would need that.
 */
int
nm_pc_fill_cell(NmPostcopy *pc, size_t cell)
{
	size_t first = cell_first(pc, cell);
	int n = cell_count(pc, cell);
	int buffer = -1;
	void *room = NULL;
	const char *from;
	int err = 0;

	if (pc->config.buffers > 0)
	{
		buffer = buffer_take(pc);
		room = pc->buffers + (size_t) buffer * (size_t) pc->config.cell_pages * NM_PC_PAGE;
	}
	nm_pc_filling++;
	from = pc->config.source(pc->config.arg, first, n, room, &err);
	nm_pc_filling--;
	if (from == NULL)
		err = err > 0 ? -err : -EIO;
	else
	{
		switch (pc->config.fill)
		{
			case NM_PC_COPY:
				err = fill_copy(pc, first, n, from);
				break;
			case NM_PC_CONTINUE:
				err = fill_alias(pc, first, n, from);
				break;
			case NM_PC_CONTINUE_WRITE:
				err = fill_write(pc, first, n, from);
				break;
		}
	}
	if (buffer >= 0)
		buffer_give(pc, buffer);
	if (err == 0 && pc->config.fill != NM_PC_COPY)
		err = nm_pc_map_cell(pc, cell);
	if (err == 0)
		nm_pc_count(pc, cells, 1);
	return err;
}

/*-------------------------------------------------------------------------
 *
 * postcopy.h
 *	  Memory that is filled when it is touched, by whoever touches it.
 *
 * A region is a range of shared memory (a MAP_SHARED mapping of a memfd or of
 * tmpfs) whose pages come from a source, a snapshot for instance.  It is cut
 * into cells of cell_pages pages.  The first touch of an absent page raises
 * SIGBUS in the toucher (userfaultfd, UFFD_FEATURE_SIGBUS); the handler fills
 * the page's whole cell and returns, and the touch is repeated.  There is no
 * queue and no thread that serves it.
 *
 * Contract
 *	- Pages are 4 KiB.  Nothing here knows PostgreSQL.
 *	- A registration belongs to one process.  Every process that touches the
 *	  region attaches first, forked children too.  One that did not and touches a hole
 *	  makes a page of zeros for everyone; so whether a page is there is what its
 *	  header says, never that it exists.  A user who finds an absent header
 *	  calls nm_postcopy_ensure() before it believes it, and before it writes
 *	  to such a page.
 *	- System calls that read or write an absent page fail with EFAULT: the
 *	  kernel's own accesses raise no signal.  nm_postcopy_ensure() goes before them.
 *	- A touch must not happen with SIGBUS blocked: the kernel kills the process.
 *	- attach and detach of one process exclude each other, and detach excludes
 *	  touches of that region by the process's other threads.  All else is free to
 *	  run at once in any thread or process.
 *	- Functions return 0 or more, or a negative errno.
 *
 * The arguments are in README.md beside this file.
 *
 * IDENTIFICATION
 *	  src/postcopy/postcopy.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_POSTCOPY_H
#define NM_POSTCOPY_H

#include "port.h"

#include <sys/types.h>

#define NM_PC_PAGE			 4096
#define NM_PC_MAX_CELL_PAGES 512
#define NM_PC_MAX_HEADER	 256
#define NM_PC_MAX_REGIONS	 16 /* attached at once in one process */

typedef enum NmPcFill
{
	/* UFFDIO_COPY: the kernel allocates, copies and maps in one call. */
	NM_PC_COPY = 1,

	/*
	 * Copied through a second mapping, then UFFDIO_CONTINUE.  Wins where the
	 * second mapping has its memory already (MADV_POPULATE_WRITE).  Each process
	 * faults once per cell, even where others have filled it.
	 */
	NM_PC_CONTINUE,

	/*
	 * As CONTINUE, but written through the file descriptor.  Only for memory
	 * that nobody but attached processes reads: what is there is overwritten
	 * without a look at its header.
	 */
	NM_PC_CONTINUE_WRITE
} NmPcFill;

typedef struct NmPcConfig
{
	NmPcFill fill;
	void *base;		/* the mapping that is touched; page-aligned */
	size_t bytes;	/* multiple of the page size */
	void *alias;	/* CONTINUE: second, never registered mapping of the same memory */
	int memfd;		/* CONTINUE_WRITE */
	off_t offset;	/* CONTINUE_WRITE: of base in memfd */
	int cell_pages; /* filled per fault: a power of two, 1 .. NM_PC_MAX_CELL_PAGES */

	/*
	 * The header that tells whether a page is there: its first header_bytes
	 * (multiple of 8, 8 .. NM_PC_MAX_HEADER).  Where a page is filled in place, its first 8 bytes
	 * are written last.  present gets a copy of the header and the page's number in the region;
	 * NULL: there if the first 8 bytes aren't all zero.
	 */
	int header_bytes;
	bool (*present)(void *arg, const void *header, size_t page);

	/*
	 * Give the bytes of pages first .. first + npages - 1: a pointer to
	 * npages * 4096 bytes, valid until the next call in this thread, or NULL
	 * with *err set to an errno.  buffer is room for a whole cell, or NULL if
	 * buffers is 0.
	 */
	const void *(*source)(void *arg, size_t first, int npages, void *buffer, int *err);
	int buffers; /* fills of this process at once that get a buffer */

	/*
	 * A touch could not be served (source, no memory, page beyond the end of
	 * the file).  May leave by siglongjmp: nothing is held.  When it returns, or
	 * is NULL, the signal goes to whoever handled SIGBUS before.  Not called for
	 * a touch by a source.
	 */
	void (*failed)(void *arg, void *addr, int err);
	void *arg;
} NmPcConfig;
/* present, source and failed run in a signal handler: async-signal-safe only. */

typedef struct NmPostcopy NmPostcopy; /* a region as one process sees it */

/* Counters of this process since attach. */
typedef struct NmPcStats
{
	uint64_t faults;   /* touches that came here */
	uint64_t cells;	   /* filled here, by touch, ensure or fill_some */
	uint64_t pages;	   /* filled here */
	uint64_t waits;	   /* for another's fill of the same cell */
	uint64_t exists;   /* pages found there by header while filling */
	uint64_t foreign;  /* pages found without a header, filled in place */
	uint64_t holes;	   /* pages absent again after their cell was filled: zeros */
	uint64_t retries;  /* EAGAIN of the kernel */
	uint64_t stolen;   /* cells taken over from a thread that died filling */
	uint64_t failures; /* touches not served */
} NmPcStats;

/*
 * Can this process use it?  0, or the errno of what is missing.
 * For NM_PC_CONTINUE*: minor faults of shared memory too (Linux 5.14).
 */
extern int nm_postcopy_probe(NmPcFill fill);

/*
 * The book-keeping that processes share: bytes of memory, 8-byte aligned, that must
 * be initialised once while nobody is attached.  After init every cell is
 * unfilled.
 */
extern size_t nm_postcopy_shared_size(size_t bytes, int cell_pages);
extern void nm_postcopy_shared_init(void *shared, size_t bytes, int cell_pages);

/*
 * Register the region in this process and, the first time, put the SIGBUS handler
 * in front of the one there is.  *config is copied.  NULL with *err (an errno):
 * EINVAL a bad config or shared memory made for another, ENOSPC too many regions,
 * ENOSYS, EPERM, EOPNOTSUPP no userfaultfd, or without what is needed.
 */
extern NmPostcopy *nm_postcopy_attach(const NmPcConfig *config, void *shared, int *err);

/*
 * Take the registration back.  Pages not filled by then read as zeros.  The
 * handler stays: somebody may have chained to it.
 */
extern int nm_postcopy_detach(NmPostcopy *pc);

/*
 * Make [addr, addr + length) present, so that neither a touch nor a system call
 * by this process faults on it.  -ENODATA: a page's cell was filled
 * before, and its header says that the page is not there (it has been forgotten,
 * or given back); -EFAULT: not in the region.  Errors of the source as they are.
 */
extern int nm_postcopy_ensure(NmPostcopy *pc, const void *addr, size_t length);

/*
 * Fill cells that nobody has filled, in order from *cursor (a cell number, 0 at first),
 * at most max_cells of them.  Cells that others are filling are left to them.
 * Returns how many it filled; *cursor is at the end (nm_postcopy_cells) when all have
 * been seen.
 */
extern int nm_postcopy_fill_some(NmPostcopy *pc, size_t *cursor, int max_cells);

extern size_t nm_postcopy_cells(const NmPostcopy *pc);
/* Have all cells been filled?  Then every process may detach. */
extern bool nm_postcopy_complete(NmPostcopy *pc);

/*
 * The source's content of these pages is no longer wanted; whole cells (the
 * region's last may be short).  Waits for fills under way.  To be called before the memory
 * is given back (MADV_REMOVE): without it a touch would bring old content back.
 */
extern int nm_postcopy_forget(NmPostcopy *pc, size_t first_page, size_t npages);

extern void nm_postcopy_stats(const NmPostcopy *pc, NmPcStats *stats);

/* Is our handler the one the kernel calls now?  False: someone put another over it. */
extern bool nm_postcopy_handler_in_place(void);

#endif /* NM_POSTCOPY_H */

/*-------------------------------------------------------------------------
 *
 * internal.h
 *	  What the files of post-copy share.
 *
 * IDENTIFICATION
 *	  src/postcopy/internal.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_POSTCOPY_INTERNAL_H
#define NM_POSTCOPY_INTERNAL_H

#include "postcopy.h"
#include "sys.h"

/*
 * A cell's word, in shared memory: not filled, filled, or the thread that is
 * filling it, shifted by two, with NM_CELL_OWNED and perhaps NM_CELL_WAITERS.
 */
#define NM_CELL_EMPTY	UINT32_C(0)
#define NM_CELL_DONE	UINT32_C(1)
#define NM_CELL_OWNED	UINT32_C(2)
#define NM_CELL_WAITERS UINT32_C(1)

typedef struct NmPcShared
{
	uint64_t bytes;
	uint32_t cell_pages;
	uint32_t pad;
	uint64_t ncells;
	uint32_t cells[];
} NmPcShared;

struct NmPostcopy
{
	NmPcConfig config;
	NmPcShared *shared;
	int fd;
	pid_t pid;		   /* a forked child's copy is not its own */
	size_t npages;	   /* of the region */
	char *buffers;	   /* config.buffers cells */
	uint32_t *in_use;  /* of each buffer */
	uint32_t attached; /* read by the handler; set last, cleared first */
	size_t seen_done;  /* cells before this one are filled */
	NmPcStats stats;   /* changed by atomic adds */
};

/* All regions of this process. */
extern NmPostcopy nm_pc_regions[NM_PC_MAX_REGIONS];

/*
 * The process that attached last, in a page that the kernel zeroes in every
 * child (MADV_WIPEONFORK): knowing it costs no system call, and a fork that
 * nobody was told of can't be overlooked.  NULL before the first attach.
 */
extern pid_t *nm_pc_process;

/* Id of the calling thread. */
extern uint32_t nm_pc_thread(void);

#define nm_pc_count(pc, what, n) ((void) __atomic_fetch_add(&(pc)->stats.what, (n), __ATOMIC_RELAXED))

/* cell.c */
typedef enum NmPcClaim
{
	NM_CLAIM_MINE = 1, /* ours to fill; nm_pc_release must follow */
	NM_CLAIM_DONE,	   /* filled, and what the filler wrote can be seen */
	NM_CLAIM_SELF,	   /* this very thread is filling it: a touch from inside */
	NM_CLAIM_BUSY	   /* only without waiting: somebody is filling it */
} NmPcClaim;

extern NmPcClaim nm_pc_claim(NmPostcopy *pc, size_t cell, bool wait);
extern void nm_pc_release(NmPostcopy *pc, size_t cell, bool filled);

/*
 * fill.c.  nm_pc_filling: this thread is inside a source, holding a cell.  In
 * static thread-local storage, which a signal handler may use.
 */
extern __thread int nm_pc_filling __attribute__((tls_model("initial-exec")));
extern bool nm_pc_header_present(NmPostcopy *pc, const char *at, size_t page);
extern int nm_pc_fill_cell(NmPostcopy *pc, size_t cell);
extern bool nm_pc_try_again(NmPostcopy *pc, uint64_t *since);
extern int nm_pc_map_cell(NmPostcopy *pc, size_t cell);

/* fault.c: serve a touch.  0, or why not. */
extern int nm_pc_touch(NmPostcopy *pc, size_t page);

/* signal.c */
extern int nm_pc_handler_install(void);

#endif /* NM_POSTCOPY_INTERNAL_H */

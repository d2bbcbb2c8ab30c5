/*-------------------------------------------------------------------------
 *
 * migrator.h
 *	  The background worker: what moves where, when, how fast.
 *
 *	ring.c		samples: each process writes to its own lock-free ring
 *	sketch.c	decaying counts by place and node; pure C, unit-tested
 *	policy.c	proposals from the sketch: affinity, balance, tier; pure C
 *	tuner.c		mode and batch by feedback, within max_latency; pure C
 *	worker.c	the loop: drain, decide, move, account; survives any error
 *	locate.c	what is known about a sample: its place, where its memory is
 *	bufmove.c	moves of shared buffers: whole places, then what follows
 *	treemove.c	relocation of tree pages: chunks, then inner pages
 *	buffers.c	where blocks of shared buffers are: block -> address, no pin
 *	stats.c		counters behind numa.stat_migrator, stat_moves, stat_access
 *	stats_sql.c	the SQL functions that show them
 *
 * One worker, no database connection.  It answers every barrier, holds no
 * LWLock across a page move and never runs a comparator.  Argued in README.md.
 *
 * IDENTIFICATION
 *	  src/migrator/migrator.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_MIGRATOR_H
#define NM_MIGRATOR_H

#include "numa_migrate.h"

#include "storage/block.h"

/*
 * One sampled access.  For a tree leaf: kind LEAF, page.  For a block of
 * shared buffers: kind BLOCK, locator and block.
 */
typedef enum NmSampleKind
{
	NM_SAMPLE_LEAF = 1,
	NM_SAMPLE_BLOCK = 2
} NmSampleKind;

typedef struct NmSample
{
	uint8 kind;
	int16 node;		  /* kernel node id the process ran on */
	NmPageNo page;	  /* LEAF */
	NmRelLocator rel; /* BLOCK, main fork */
	BlockNumber block;
} NmSample;

/*
 * Count one access and, once in sample_rate, write a sample.  Called by the
 * access method; a few instructions when not sampling; never blocks, never
 * raises.
 */
extern int nm_sample_countdown; /* process-local */
extern void nm_sample_leaf_slow(NmPageNo page);
extern void nm_sample_block_slow(const NmRelLocator *rel, BlockNumber block);

static inline void
nm_sample_leaf(NmPageNo page)
{
	if (--nm_sample_countdown <= 0)
		nm_sample_leaf_slow(page);
}

static inline void
nm_sample_block(const NmRelLocator *rel, BlockNumber block)
{
	if (--nm_sample_countdown <= 0)
		nm_sample_block_slow(rel, block);
}

/*
 * Where blocks lie in shared buffers (buffers.c).  Addresses only: nothing is
 * pinned or locked on return, a block may have been evicted since.
 */
extern char *nm_buffer_address(const NmRelLocator *rel, ForkNumber fork, BlockNumber block);
extern size_t nm_buffers_page_size(bool *hugetlb); /* real page size behind them */
extern char *nm_buffer_base(void);
extern int nm_buffer_count(void);

typedef struct NmBufferInfo
{
	NmRelLocator rel;
	ForkNumber fork;
	BlockNumber block;
	char *addr;
	bool dirty;
	bool pinned;
} NmBufferInfo;

/*
 * Buffers that hold a block, of one relation (all forks) or of any (rel =
 * NULL), in address order: fills out[] and advances *cursor (start at 0) by at
 * most NM_SCAN_HEADERS headers; the end is *cursor == nm_buffer_count().  The
 * caller checks for interrupts between calls.  Reads headers without locks: a
 * picture for statistics and moves, not for decisions about content.
 */
#define NM_SCAN_HEADERS 16384
extern int nm_buffers_scan(int *cursor, const NmRelLocator *rel, NmBufferInfo *out, int max);

/*
 * The OS pages that belong to the buffer at addr, each page to exactly one
 * buffer (buffers need not be aligned); with huge pages the one it lies in.
 * Returns how many, at most NM_BUFFER_OS_PAGES.
 */
#define NM_BUFFER_OS_PAGES (BLCKSZ / 1024 + 1)
extern int nm_buffer_os_pages(char *addr, size_t page_size, void **pages, int max);

/*
 * Counters added by whoever moves pages (worker or SQL function); shown in
 * numa.stat_moves.  kind: "buffers" or "tree".
 */
typedef enum NmMoveKind
{
	NM_MOVE_BUFFERS = 0,
	NM_MOVE_TREE = 1,
	NM_MOVE_KINDS
} NmMoveKind;
extern void nm_stat_add_moves(NmMoveKind kind, bool by_worker, const NmMoveStats *stats);

/* The worker's process, 0 if it doesn't run, -1 without preload.  No lock: one word. */
extern int nm_migrator_pid(void);

/* Persisted mode and batch, followed by the worker (set_mode(..., persist)). */
extern NmMode nm_effective_mode(bool background);
extern int nm_effective_batch(void);

/* Engine for the moves of this process, as the setting wishes and can be. */
extern NmEngine nm_effective_engine(void);

#endif /* NM_MIGRATOR_H */

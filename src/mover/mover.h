/*-------------------------------------------------------------------------
 *
 * mover.h
 *	  Moving memory between nodes: one interface, several engines.
 *
 * A request is an array of (address, node wanted, result).  nm_move() turns it
 * into what the kernel handles well, a "clean list": deduplicated by real page
 * size, sorted so that neighbours are together, pages already there dropped,
 * targets that are not allowed refused, absent pages left out (presence is
 * asked from mincore first, which neither maps nor allocates; only resident
 * pages are touched before a stock move_pages), cut into chunks between which
 * the caller may be interrupted, results counted by cause.
 *
 * Engines: move_pages2 (ours, kernel/uapi/move_pages2.h; found through sysfs
 * and a handshake, never by a trusted number) and stock move_pages.  Tree
 * pages move by relocation (btree.h), not here.
 *
 * No lock is held or taken; no PostgreSQL header; never raises an error.
 *
 * IDENTIFICATION
 *	  src/mover/mover.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_MOVER_H
#define NM_MOVER_H

#include "port.h"
#include "topology.h"

typedef enum NmEngine
{
	NM_ENGINE_OFF = 0,
	NM_ENGINE_MOVE_PAGES = 1,
	NM_ENGINE_MOVE_PAGES2 = 2,
	NM_ENGINE_AUTO = 3 /* a wish, never a result of nm_mover_choose */
} NmEngine;

typedef enum NmMode
{
	NM_MODE_ASYNC = 0,
	NM_MODE_SYNC_LIGHT = 1,
	NM_MODE_SYNC = 2,
	NM_MODE_AUTO = 3 /* async for background work, sync by hand */
} NmMode;

#define NM_BATCH_DEFAULT 32 /* pages unmapped at once; kernel.md 0.5 */
#define NM_BATCH_MAX	 4096

/* What this machine and process can do; filled once per process. */
typedef struct NmMoverCaps
{
	bool move_pages; /* call exists and is permitted (seccomp) */
	int move_pages_errno;
	bool move_pages2;		  /* discovered and handshake done */
	int move_pages2_errno;	  /* why not: ENOENT no sysfs file, ... */
	long move_pages2_number;  /* system call number, -1 */
	uint64_t move_pages2_abi; /* ABI version from sysfs, 0 */
	bool cap_sys_nice;		  /* effective: may move pages others map */
	bool owner_rule;		  /* vm.move_pages2_owner: those of own files, too */
	bool mbind;				  /* permitted */
	int mbind_errno;
	bool get_mempolicy; /* permitted */
	int get_mempolicy_errno;
	int numa_balancing; /* kernel.numa_balancing, -1 unknown */
	size_t os_page_size;
} NmMoverCaps;

/* root: prefix for sysfs/procfs in tests ("" normally). */
extern void nm_mover_probe(NmMoverCaps *caps, const char *root);

/* The engine that serves a wish on this machine: may be NM_ENGINE_OFF. */
extern NmEngine nm_mover_choose(const NmMoverCaps *caps, NmEngine wish);
extern const char *nm_engine_name(NmEngine engine);
extern const char *nm_mode_name(NmMode mode);

typedef struct NmMoveItem
{
	void *addr;		/* any address in the page */
	int32_t node;	/* kernel node id wanted */
	int32_t status; /* out: >= 0 node it is on now; else -errno:
								 * -ENOENT absent, -EBUSY/-EAGAIN busy,
								 * -EACCES/-EPERM denied, -ENODEV node refused,
								 * -ENOMEM target full, ... */
} NmMoveItem;

typedef struct NmMoveOptions
{
	NmEngine engine; /* chosen, not AUTO */
	NmMode mode;
	int batch;		  /* 0 = default; move_pages: pages per call */
	bool all_mappers; /* pages others map, too: by cap_sys_nice or owner_rule */
	size_t page_size; /* real page size behind the addresses: 4096
								 * or a huge page's */
	bool hugetlb;	  /* mincore sees only the caller's table: take
								 * pages as present, one target per call, touch
								 * before each call */
	bool query_first; /* drop pages already there without a move call */
	/* between chunks; returns false to stop early. May longjmp. */
	bool (*tick)(void *arg);
	void *arg;
} NmMoveOptions;

/* asked = moved + already + busy + denied + absent + failed, in OS pages. */
typedef struct NmMoveStats
{
	int64_t asked,
		moved,
		already,
		busy,
		denied,
		absent,
		failed,
		calls;
	double elapsed_ms;
} NmMoveStats;

/*
 * Move items[0..n-1]; reorders the array.  Duplicates of one OS page are
 * counted once.  Adds to *stats.  Memory: caller's scratch of
 * nm_move_scratch_size(n) bytes (so that a longjmp out of tick leaks nothing).
 * Returns false if tick stopped it before the end: entries that were not
 * reached have status -ECANCELED and are not counted.  The array is in order
 * of addresses afterwards.
 */
extern size_t nm_move_scratch_size(size_t n);
extern bool nm_move(const NmMoverCaps *caps, const NmTopology *topo,
					NmMoveItem *items, size_t n,
					const NmMoveOptions *opt, NmMoveStats *stats, void *scratch);

/*
 * Where are these pages now?  status[i] = node or -errno (-ENOENT: not
 * resident).  Neither maps nor allocates: asks mincore first and touches only
 * resident pages (not needed with move_pages2, which looks in the page cache).
 * opt->engine = OFF or AUTO takes what the machine has.  Returns false if tick
 * stopped it (status -ECANCELED for the rest).  scratch as above.
 */
extern bool nm_query_nodes(const NmMoverCaps *caps, void *const *addrs, size_t n,
						   int32_t *status, const NmMoveOptions *opt, void *scratch);

/* 32 status codes to words for users: "busy (pinned)", ... */
extern const char *nm_move_status_text(int status);

#endif /* NM_MOVER_H */

/*-------------------------------------------------------------------------
 *
 * move_int.h
 *	  What the parts of nm_move() share.
 *
 * Private to src/mover.
 *
 *	clean.c		sort, duplicates, refused targets
 *	query.c		presence and current node of pages
 *	engine.c	one chunk through move_pages2 or stock move_pages
 *	move.c		the whole request, chunk by chunk
 *
 * IDENTIFICATION
 *	  src/mover/move_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_MOVE_INT_H
#define NM_MOVE_INT_H

#include "sys.h"

/* Entries of one system call at most; also the largest batch. */
#define CHUNK_MAX NM_BATCH_MAX

/* Bytes moved between two ticks, as a bound on the wait for a cancel. */
#define CHUNK_BYTES (32 * 1024 * 1024)

/*
 * Values of NmMoveItem.status while a request is under way.  The kernel stores
 * errnos and nodes only, so these can't be met in an answer.
 */
#define ST_PENDING	 INT32_MIN
#define ST_DUPLICATE (INT32_MIN + 1)

typedef struct MoveWork
{
	const NmMoverCaps *caps;
	const NmMoveOptions *opt;
	NmMoveStats *stats;
	uint64_t start_ns;
	double start_ms; /* stats->elapsed_ms at the start */
	bool stopped;	 /* tick said so */
	int refused;	 /* errno by which the kernel refuses every move
								 * of this process, 0 = none so far */
	int full_node;	 /* node that had no free page for a whole call,
								 * -1 = none: no use to try it again */

	/* scratch */
	NmMoveItem *sort;  /* as many as items */
	size_t cap;		   /* length of the arrays below */
	NmMoveItem **todo; /* items of the chunk not resolved yet */
	void **addr;	   /* arguments and answers of a call */
	uint64_t *addr64;  /* move_pages2 wants 64 bits on any machine */
	int *node;
	int *status;
	void **qaddr; /* the same inside a query, whose entries are */
	int *qpos;	  /* some of addr[]: addr[qpos[k]] == qaddr[k] */
	int *qstatus;
	unsigned char *present; /* PRESENT_* by entry of addr */
	unsigned char *vec;		/* mincore's answer */
} MoveWork;

static inline void *
page_of(const void *addr, size_t page_size)
{
	return (void *) ((uintptr_t) addr & ~(uintptr_t) (page_size - 1));
}

/* clean.c */
extern size_t nm_clean_list(const NmTopology *topo, NmMoveItem *items, size_t n,
							size_t page_size, NmMoveItem *tmp, size_t *nrefused);
extern void nm_clean_finish(NmMoveItem *items, size_t n, size_t page_size, NmMoveItem *tmp);

/* query.c: w->status[i] for w->addr[0..n-1] */
extern void nm_query_chunk(MoveWork *w, NmEngine engine, size_t n);

/* engine.c: resolve w->todo[0..n-1], all of one target */
extern void nm_engine_chunk(MoveWork *w, size_t n, int target);

/* move.c */
extern void nm_work_init(MoveWork *w, const NmMoverCaps *caps, const NmMoveOptions *opt,
						 NmMoveStats *stats, size_t n, void *scratch);
extern void nm_resolve(MoveWork *w, NmMoveItem *item, int status, bool moved);
extern bool nm_tick(MoveWork *w);

#endif /* NM_MOVE_INT_H */

/*-------------------------------------------------------------------------
 *
 * methods.h
 *	  Ways to move the pages that a cell's descents visit to another node.
 *
 * "Paper's list": every visited page, leaf by leaf from the root, so that inner
 * pages come once per leaf.  "Clean list": each page once, in the order of
 * addresses, without those that are there already.
 *
 * IDENTIFICATION
 *	  bench/treebench/methods.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TB_METHODS_H
#define TB_METHODS_H

#include "mover/mover.h"

typedef enum MoveKind
{
	MOVE_NONE,		   /* lists are made, nothing is moved: the ceiling */
	MOVE_STOCK,		   /* one move_pages(2) call, paper's list */
	MOVE_STOCK_ONCE,   /* one move_pages call, each page once */
	MOVE_STOCK_CLEAN,  /* the mover with move_pages, clean list */
	MOVE_PER_PAGE,	   /* one move_pages call per page, each page once */
	MOVE_MBIND,		   /* one mbind(2) per page, each page once */
	MOVE_PAGES2,	   /* one move_pages2 call, paper's list */
	MOVE_PAGES2_CLEAN, /* the mover with move_pages2, clean list */
	MOVE_RELOCATE	   /* src/btree copies the leaves; no call, no list */
} MoveKind;

typedef struct Method
{
	char name[48];
	MoveKind kind;
	NmMode mode; /* move_pages2 */
	int batch;	 /* move_pages2 */
} Method;

/* Per thread. */
typedef struct Mover
{
	const NmMoverCaps *caps;
	const NmTopology *topo;
	size_t cap; /* entries there is room for */
	void **pages;
	int *nodes;
	int *status;
	uint64_t *addrs;
	NmMoveItem *items;
	void *scratch;
	char *bound_from; /* what mbind has split into mappings of their own */
	char *bound_to;
} Mover;

extern void mover_init(Mover *m, const NmMoverCaps *caps, const NmTopology *topo);
extern void mover_free(Mover *m);
/* Room for a list of n entries. */
extern void mover_reserve(Mover *m, size_t n);

/*
 * Move m->pages[0..n-1] to a node.  Returns how many entries the method reports
 * as being there afterwards, duplicates and those that were there included, as
 * the paper counts.
 */
extern uint64_t move_list(Mover *m, const Method *method, size_t n, int node);

/* Take mbind's policies back, which would make other methods slower. */
extern void unbind(Mover *m);

#endif /* TB_METHODS_H */

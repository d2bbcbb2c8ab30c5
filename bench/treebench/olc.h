/*-------------------------------------------------------------------------
 *
 * olc.h
 *	  The control: a plain B+-tree with optimistic lock coupling.
 *
 * What the literature calls a BTreeOLC: nodes of 4 KiB, keys and values of 8
 * bytes in two arrays, a version word per node, full nodes split on the way
 * down.  Leaves are chained.  Like its models it has no deletes and gives no
 * node back, so it needs no epochs.
 *
 * Written after Leis, Haubenschild and Neumann, "Optimistic Lock Coupling"
 * (2019); the measured tree of src/btree shares nothing with it but NM_RACY.
 *
 * IDENTIFICATION
 *	  bench/treebench/olc.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TB_OLC_H
#define TB_OLC_H

#include "port.h"

#define OLC_NODE_SIZE 4096

typedef struct OlcTree OlcTree;

typedef struct OlcStats
{
	uint64_t entries;
	uint64_t leaves;
	uint64_t inner;
	int height; /* 1 = the root is a leaf */
} OlcStats;

/*
 * An empty tree with room for max_bytes of nodes; memory is touched as nodes
 * are made.  NULL if the address space cannot be had.
 */
extern OlcTree *olc_create(size_t max_bytes, bool huge_pages);
extern void olc_destroy(OlcTree *tree);

/* Insert, or replace the value of a key that is there.  False: no room left. */
extern bool olc_insert(OlcTree *tree, int64_t key, uint64_t value);

extern bool olc_lookup(OlcTree *tree, int64_t key, uint64_t *value);

/* Copy up to max entries at or after "from", in order; returns how many. */
extern int olc_scan(OlcTree *tree, int64_t from, int max, int64_t *keys, uint64_t *values);

/*
 * The nodes that descents to every leaf with keys in [from, to] visit, in the
 * order of the visits: each leaf behind the inner nodes above it, which
 * therefore come once per leaf.  Returns how many there are; no more than max
 * are written.
 */
extern size_t olc_paths(OlcTree *tree, int64_t from, int64_t to, void **nodes, size_t max);

/* Counts by walking; nobody may write meanwhile. */
extern void olc_stats(const OlcTree *tree, OlcStats *stats);

/*
 * Order inside and between nodes, separators, chain of leaves; nobody may
 * write meanwhile.  NULL, or what is wrong.
 */
extern const char *olc_check(const OlcTree *tree);

#endif /* TB_OLC_H */

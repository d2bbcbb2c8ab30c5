/*-------------------------------------------------------------------------
 *
 * treelib.h
 *	  Keys, comparators and a model for the tests of the tree.
 *
 * A universe is a sorted list of keys that a test draws from.  GENERAL keys
 * carry a checksum in their last byte, so that a comparator notices bytes that
 * no writer ever wrote.  The model is a sorted array of entries that refer to
 * the universe.
 *
 * IDENTIFICATION
 *	  test/unit/treelib.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TREELIB_H
#define NM_TREELIB_H

#include "tap.h"
#include "btree/btree.h"

#include <setjmp.h>

typedef struct Universe
{
	NmLayout layout;
	bool nulls_first;
	bool heads;
	bool fold;	/* GENERAL: the comparator ignores case */
	bool merge; /* trees over it store equal keys once */
	int n;
	NmItem *items; /* in order */
	int *klass;	   /* equal keys have the same; ascending */
} Universe;

/* What the comparators look at and count; one per handle. */
typedef struct CompareArg
{
	NmTree *tree;
	bool fold;
	uint64_t calls;
	uint64_t jump_at; /* longjmp at this call; 0 = never */
	jmp_buf jump;
} CompareArg;

typedef struct Entry
{
	int k; /* in the universe */
	uint64_t tid;
	bool killed;	/* may vanish at any moment */
	uint64_t stamp; /* when it came */
} Entry;

typedef struct Model
{
	const Universe *u;
	Entry *e;
	int n;
	int cap;
	uint64_t now;
} Model;

extern Universe *universe_fixed(Rng *r, int n, bool nulls, bool nulls_first);
extern Universe *universe_general(Rng *r, int n, bool heads, bool fold, uint32_t max_len);
/*
 * Images whose bytes do not repeat what the head says, and a tag that says which
 * do; for universes with heads that do not ignore case.
 */
extern Universe *universe_split(Universe *u);
/* Of equal keys keep the first. */
extern Universe *universe_distinct(Universe *u);
extern void universe_free(Universe *u);

/* Order of two byte keys; fold ignores case. */
extern int bytes_compare(const void *a, uint32_t alen, const void *b, uint32_t blen, bool fold);
extern uint64_t bytes_head(const void *data, uint32_t len, bool fold);
/* Put the checksum in the last byte, if long enough to have one. */
extern void bytes_seal(void *data, uint32_t len, bool fold);
extern bool bytes_sealed(const void *data, uint32_t len);
/* The whole key of an item, split or not; buf is for NM_MAX_KEY_SIZE bytes. */
extern const void *item_bytes(const NmItem *item, void *buf, uint32_t *len);
/* Does the batch show the item as entry i? */
extern bool batch_shows(const NmBatch *b, int i, NmLayout layout, const NmItem *item);

/* NmCompare on byte keys; arg is a CompareArg. */
extern int tree_compare(void *arg, const NmItem *a, const NmItem *b);
/* What every comparator does first: counts, checks, maybe jumps. */
extern void compare_entry(CompareArg *ca, const NmItem *item);

/* A handle with scratch and comparator; closed by handle_close. */
extern NmTree *handle_open(NmPool *pool, NmTreeShared *shared, const Universe *u, bool leave_epoch);
extern void handle_close(NmTree *tree);
extern CompareArg *handle_arg(NmTree *tree);
/* An empty tree over a universe; shared memory. */
extern NmTreeShared *shared_make(const Universe *u, int fillfactor);

extern void model_init(Model *m, const Universe *u);
extern void model_free(Model *m);
/* First entry not before (class of k, tid). */
extern int model_find(const Model *m, int klass, uint64_t tid);
extern Entry *model_get(const Model *m, int k, uint64_t tid);
extern void model_add(Model *m, int k, uint64_t tid);
extern void model_remove(Model *m, int at);
extern int model_live(const Model *m);

/* tid of small pieces */
static inline uint64_t
make_tid(uint64_t block, uint64_t offset)
{
	return block << 16 | offset;
}

/* Whole tree by one scan against the model; faults on any difference. */
extern void verify_scan(NmTree *tree, Model *m, NmDirection dir, const char *when);
/* nm_tree_check, counters, both scans. */
extern void verify_tree(NmTree *tree, Model *m, const char *when);

/* Go on with the scan as another process would, from its exported position. */
extern void scan_hop(NmScan *scan);

extern const NmBound bound_low;
extern const NmBound bound_high;

extern const char *status_name(NmStatus st);

#endif /* NM_TREELIB_H */

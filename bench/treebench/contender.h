/*-------------------------------------------------------------------------
 *
 * contender.h
 *	  One face for the trees that are compared.
 *
 * A tree is opened once; each thread that uses it has a session.  Both trees
 * give what they find by copying it out, as a user without pointers into
 * shared pages must have it.
 *
 * IDENTIFICATION
 *	  bench/treebench/contender.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TB_CONTENDER_H
#define TB_CONTENDER_H

#include "port.h"

typedef struct TbSize
{
	uint64_t entries,
		leaves,
		inner;
	int height;
} TbSize;

typedef struct Contender
{
	const char *name;

	/*
	 * Room for that many entries and sessions; nodes: kernel ids of the memory
	 * nodes to spread over later, narenas of them.  Exits with a message if it
	 * can't be had.
	 */
	void *(*open)(uint64_t entries, int sessions, int narenas, const int *nodes);
	void (*close)(void *tree);
	void *(*begin)(void *tree, int session);
	void (*end)(void *session);

	/* False: no memory. */
	bool (*insert)(void *session, int64_t key, uint64_t value);
	bool (*get)(void *session, int64_t key, uint64_t *value);

	/*
	 * The first "max" entries at or after "from": how many there are; *sum gets
	 * the sum of their values added.
	 */
	int (*scan)(void *session, int64_t from, int max, uint64_t *sum);

	/* Quiet tree. */
	void (*size)(void *session, TbSize *size);
	/* NULL or what is wrong with the quiet tree. */
	const char *(*check)(void *session);

	/*
	 * The pages that descents to all leaves of a range visit, leaf by leaf from
	 * the root, so that inner pages come once per leaf.  At most max are written;
	 * returns how many there are.
	 */
	size_t (*paths)(void *session, int64_t from, int64_t to, void **pages, size_t max);

	/*
	 * Move the leaves of a range to a node without a system call; NULL if the
	 * tree can't.  Returns how many moved.
	 */
	size_t (*relocate)(void *session, int64_t from, int64_t to, int node);
} Contender;

/* What a scan found, added up. */
static inline uint64_t
tb_sum(const uint64_t *values, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += values[i];
	return sum;
}

/* Trees opened from now on lie on huge pages, as far as the kernel has them. */
extern bool tb_huge_pages;

extern const Contender contender_numa; /* src/btree */
extern const Contender contender_olc;  /* olc.c */

#endif /* TB_CONTENDER_H */

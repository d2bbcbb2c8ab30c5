/*-------------------------------------------------------------------------
 *
 * contender_olc.c
 *	  The control as a contender.
 *
 * IDENTIFICATION
 *	  bench/treebench/contender_olc.c
 *
 *-------------------------------------------------------------------------
 */
#include "contender.h"
#include "olc.h"

#include <stdio.h>

#define SCAN_MAX 256

/* Entries are copied here, as nm_scan_next copies them into its batch. */
typedef struct Session
{
	OlcTree *tree;
	int64_t keys[SCAN_MAX];
	uint64_t values[SCAN_MAX];
} Session;

static void *
control_open(uint64_t entries, int sessions, int narenas, const int *nodes)
{
	/* half-filled leaves are the worst case of random inserts */
	OlcTree *tree = olc_create((size_t) entries * 40 + (8 << 20), tb_huge_pages);

	(void) sessions;
	(void) narenas;
	(void) nodes;
	if (tree == NULL)
	{
		perror("treebench: control tree");
		exit(1);
	}
	return tree;
}

static void
control_close(void *tree)
{
	olc_destroy(tree);
}

static void *
control_begin(void *tree, int session)
{
	Session *s = calloc(1, sizeof(Session));

	(void) session;
	s->tree = tree;
	return s;
}

static void
control_end(void *session)
{
	free(session);
}

static bool
control_insert(void *session, int64_t key, uint64_t value)
{
	return olc_insert(((Session *) session)->tree, key, value);
}

static bool
control_get(void *session, int64_t key, uint64_t *value)
{
	return olc_lookup(((Session *) session)->tree, key, value);
}

static int
control_scan(void *session, int64_t from, int max, uint64_t *sum)
{
	Session *s = session;
	int n = olc_scan(s->tree, from, max < SCAN_MAX ? max : SCAN_MAX, s->keys, s->values);

	*sum += tb_sum(s->values, n);
	return n;
}

static void
control_size(void *session, TbSize *size)
{
	OlcStats stats;

	olc_stats(((Session *) session)->tree, &stats);
	size->entries = stats.entries;
	size->leaves = stats.leaves;
	size->inner = stats.inner;
	size->height = stats.height;
}

static const char *
control_check(void *session)
{
	return olc_check(((Session *) session)->tree);
}

static size_t
control_paths(void *session, int64_t from, int64_t to, void **pages, size_t max)
{
	return olc_paths(((Session *) session)->tree, from, to, pages, max);
}

const Contender contender_olc = {
	.name = "olc",
	.open = control_open,
	.close = control_close,
	.begin = control_begin,
	.end = control_end,
	.insert = control_insert,
	.get = control_get,
	.scan = control_scan,
	.size = control_size,
	.check = control_check,
	.paths = control_paths,
	.relocate = NULL,
};

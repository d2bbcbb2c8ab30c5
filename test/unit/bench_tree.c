/*-------------------------------------------------------------------------
 *
 * bench_tree.c
 *	  Cost of the tree's basic operations on int8 keys, one thread: distinct
 *	  ones, then ten values only.
 *
 *		bench_tree [ENTRIES [OPERATIONS]]
 *
 * Counts are fixed and the random sequence is always the same, so that
 * instruction counts (valgrind --tool=callgrind, perf stat) can be compared.
 * Times are of the processor, not of the clock on the wall.
 *
 * IDENTIFICATION
 *	  test/unit/bench_tree.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/btree.h"
#include "../../bench/lib/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
no_lock(void *arg)
{
	(void) arg;
}

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t) ts.tv_sec * UINT64_C(1000000000) + (uint64_t) ts.tv_nsec;
}

static void
report(const char *what, uint64_t from, uint64_t n)
{
	printf("%-28s %10.1f ns\n", what, (double) (cpu_ns() - from) / (double) n);
	fflush(stdout);
}

static void
check(bool good, const char *what)
{
	if (!good)
	{
		fprintf(stderr, "bench_tree: %s\n", what);
		exit(1);
	}
}

/* Ten keys: entry number i of 0 .. n - 1, in some order of TIDs as a heap has them. */
static uint64_t
tid_at(uint64_t i)
{
	return i / 200 << 16 | (i % 200 + 1);
}

static void
report_size(const char *what, NmTree *tree, uint64_t n)
{
	NmTreeStats stats;
	char msg[256];

	check(nm_tree_check(tree, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) == NM_OK, msg);
	nm_tree_stats(tree, &stats, NULL, NULL);
	printf("%-28s %10.2f (%lld leaves, %lld inner, height %d)\n", what,
		   (double) (stats.leaves + stats.inner) * NM_PAGE_SIZE / (double) n,
		   (long long) stats.leaves, (long long) stats.inner, stats.height);
}

static void
duplicates(NmPool *pool, uint64_t n, uint64_t ops, NmBulk *bulk, NmScan *scan, NmBatch *b)
{
	NmTreeShared *shared = calloc(2, sizeof(NmTreeShared));
	NmTree trees[2];
	NmTree *tree = &trees[0];
	uint64_t seed = 2;
	uint64_t from;
	uint64_t step = n / 3 * 2 + 1;
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++)
	{
		shared[i].layout = NM_LAYOUT_FIXED;
		shared[i].fillfactor = 90;
		shared[i].merge = true;
		nm_tree_open(&trees[i], pool, &shared[i], aligned_alloc(16, (nm_tree_scratch_size() + 15) / 16 * 16));
		trees[i].layout = NM_LAYOUT_FIXED;
	}

	from = cpu_ns();
	nm_bulk_begin(bulk, tree, 0);
	for (uint64_t k = 0; k < 10; k++)
	{
		NmItem item = {.key = (int64_t) k};

		for (uint64_t i = k; i < n; i += 10)
			check(nm_bulk_add(bulk, &item, tid_at(i)) == NM_OK, "bulk_add");
	}
	check(nm_bulk_finish(bulk) == NM_OK, "bulk_finish");
	report("10 keys: bulk load", from, n);
	report_size("10 keys: bytes, fill 90", tree, n);

	from = cpu_ns();
	for (uint64_t i = 0; i < ops; i++)
	{
		uint64_t r = next_random(&seed) % n;
		NmBound lo = {.item = {.key = (int64_t) (r % 10)}, .tid = tid_at(r)};
		NmBound hi = lo;

		hi.tid++;
		nm_scan_init(scan, tree, NM_FORWARD, &lo, &hi);
		check(nm_scan_next(scan, b) == NM_OK && b->n == 1 && b->tids[0] == lo.tid, "lookup");
		sum += b->tids[0];
	}
	report("10 keys: find a TID", from, ops);

	from = cpu_ns();
	{
		NmBound lo = {.infinite = -1};
		NmBound hi = {.infinite = 1};
		uint64_t seen = 0;

		nm_scan_init(scan, tree, NM_FORWARD, &lo, &hi);
		while (nm_scan_next(scan, b) == NM_OK)
			seen += (uint64_t) b->n;
		check(seen == n, "full scan");
	}
	report("10 keys: full scan", from, n);

	/* TIDs as a growing heap gives them, keys at random */
	tree = &trees[1];
	check(nm_tree_create(tree) == NM_OK, "create");
	from = cpu_ns();
	for (uint64_t i = 0; i < n; i++)
	{
		NmItem item = {.key = (int64_t) (next_random(&seed) % 10)};

		check(nm_tree_insert(tree, &item, tid_at(i), NULL, NULL) == NM_OK, "insert");
	}
	report("10 keys: insert, heap order", from, n);
	report_size("10 keys: bytes", tree, n);
	nm_tree_free_pages(pool, NM_LAYOUT_FIXED, nm_tree_detach(&shared[1]));

	/* TIDs in no order */
	while (n % step == 0 || (step % 2 == 0 && n % 2 == 0) || (step % 5 == 0 && n % 5 == 0))
		step++;
	nm_tree_open(tree, pool, &shared[1], tree->scratch);
	tree->layout = NM_LAYOUT_FIXED;
	check(nm_tree_create(tree) == NM_OK, "create");
	from = cpu_ns();
	for (uint64_t i = 0; i < n; i++)
	{
		uint64_t at = i * step % n;
		NmItem item = {.key = (int64_t) (at * 7 % 10)};

		check(nm_tree_insert(tree, &item, tid_at(at), NULL, NULL) == NM_OK, "insert");
	}
	report("10 keys: insert, any order", from, n);
	report_size("10 keys: bytes", tree, n);
	printf("%-28s %10llx\n", "checksum", (unsigned long long) sum);
}

int
main(int argc, char **argv)
{
	uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	uint64_t ops = argc > 2 ? strtoull(argv[2], NULL, 0) : n;
	NmPoolConfig config;
	char err[256];
	NmPool *pool;
	NmTreeShared *shared = calloc(1, sizeof(NmTreeShared));
	NmTree tree;
	NmBulk *bulk = aligned_alloc(64, (nm_bulk_size() + 63) / 64 * 64);
	NmBatch *b = malloc(sizeof(NmBatch));
	NmScan *scan = malloc(sizeof(NmScan));
	NmTreeStats stats;
	uint64_t seed = 1;
	uint64_t from;
	uint64_t sum = 0;
	NmBound high = {.infinite = 1};

	memset(&config, 0, sizeof(config));
	config.narenas = 1;
	config.arena_bytes = ((size_t) n * 64 + (64 << 20)) / NM_CHUNK_SIZE * NM_CHUNK_SIZE;
	config.memory_limit = config.arena_bytes;
	config.nslots = 4;
	config.lock = config.unlock = no_lock;
	pool = nm_pool_create(&config, calloc(1, nm_pool_shared_size(&config)), err, sizeof(err));
	check(pool != NULL, "pool");
	nm_epoch_attach(pool, 0);

	shared->layout = NM_LAYOUT_FIXED;
	shared->fillfactor = 90;
	shared->merge = true;
	nm_tree_open(&tree, pool, shared, aligned_alloc(16, (nm_tree_scratch_size() + 15) / 16 * 16));
	tree.layout = NM_LAYOUT_FIXED;

	/* even keys */
	from = cpu_ns();
	nm_bulk_begin(bulk, &tree, 0);
	for (uint64_t i = 0; i < n; i++)
	{
		NmItem item = {.key = (int64_t) (i * 2)};

		check(nm_bulk_add(bulk, &item, i << 16 | 1) == NM_OK, "bulk_add");
	}
	check(nm_bulk_finish(bulk) == NM_OK, "bulk_finish");
	report("bulk load, per entry", from, n);
	nm_tree_stats(&tree, &stats, NULL, NULL);
	printf("%-28s %10.2f (%lld leaves, %lld inner, height %d)\n", "bytes per entry, fill 90",
		   (double) (stats.leaves + stats.inner) * NM_PAGE_SIZE / (double) n,
		   (long long) stats.leaves, (long long) stats.inner, stats.height);

	from = cpu_ns();
	for (uint64_t i = 0; i < ops; i++)
	{
		NmBound lo = {.item = {.key = (int64_t) (next_random(&seed) % n * 2)}, .tid = NM_TID_MIN};
		NmBound hi = lo;

		hi.tid = NM_TID_MAX;
		nm_scan_init(scan, &tree, NM_FORWARD, &lo, &hi);
		check(nm_scan_next(scan, b) == NM_OK && b->n == 1 && b->keys[0] == lo.item.key, "lookup");
		sum += b->tids[0];
	}
	report("random lookup", from, ops);

	from = cpu_ns();
	for (uint64_t i = 0; i < ops / 10; i++)
	{
		NmBound lo = {.item = {.key = (int64_t) (next_random(&seed) % n * 2)}, .tid = NM_TID_MIN};
		NmBound hi = {.item = {.key = lo.item.key + 200}, .tid = NM_TID_MIN};

		nm_scan_init(scan, &tree, NM_FORWARD, &lo, &hi);
		while (nm_scan_next(scan, b) == NM_OK)
			sum += b->tids[b->n - 1];
	}
	report("scan of 100", from, ops / 10);

	from = cpu_ns();
	{
		NmBound lo = {.infinite = -1};
		uint64_t seen = 0;

		nm_scan_init(scan, &tree, NM_FORWARD, &lo, &high);
		while (nm_scan_next(scan, b) == NM_OK)
			seen += (uint64_t) b->n;
		check(seen == n, "full scan");
	}
	report("full scan, per entry", from, n);

	from = cpu_ns();
	for (uint64_t i = 0; i < ops; i++)
	{
		uint64_t r = next_random(&seed);
		NmItem item = {.key = (int64_t) (r % n * 2 + 1)};

		check(nm_tree_insert(&tree, &item, i << 16 | 2, NULL, NULL) == NM_OK, "insert");
	}
	report("random insert", from, ops);

	from = cpu_ns();
	for (uint64_t i = 0; i < ops; i++)
	{
		NmItem item = {.key = (int64_t) (n * 2 + i)};

		check(nm_tree_insert(&tree, &item, i << 16 | 3, NULL, NULL) == NM_OK, "ascending insert");
	}
	report("ascending insert", from, ops);
	nm_tree_stats(&tree, &stats, NULL, NULL);
	printf("%-28s %10.2f (%lld leaves, %lld inner, height %d)\n", "bytes per entry, after all",
		   (double) (stats.leaves + stats.inner) * NM_PAGE_SIZE / (double) (n + 2 * ops),
		   (long long) stats.leaves, (long long) stats.inner, stats.height);
	printf("%-28s %10llx\n", "checksum", (unsigned long long) sum);
	duplicates(pool, n, ops, bulk, scan, b);
	return 0;
}

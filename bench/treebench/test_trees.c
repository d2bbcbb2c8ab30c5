/*-------------------------------------------------------------------------
 *
 * test_trees.c
 *	  The control against a model and under threads; both contenders against
 *	  each other; lists of visited pages; relocation of a cell.
 *
 * IDENTIFICATION
 *	  bench/treebench/test_trees.c
 *
 *-------------------------------------------------------------------------
 */
#include "tap.h"
#include "contender.h"
#include "keys.h"
#include "olc.h"

#include <stdio.h>
#include <string.h>

static Rng rng;

/* ---- the control against a sorted array ---- */

typedef struct Model
{
	int64_t *keys;
	uint64_t *values;
	int n;
} Model;

static int
model_place(const Model *m, int64_t key)
{
	int lo = 0;
	int hi = m->n;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (m->keys[mid] < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void
model_put(Model *m, int64_t key, uint64_t value)
{
	int at = model_place(m, key);

	if (at == m->n || m->keys[at] != key)
	{
		memmove(m->keys + at + 1, m->keys + at, (size_t) (m->n - at) * 8);
		memmove(m->values + at + 1, m->values + at, (size_t) (m->n - at) * 8);
		m->keys[at] = key;
		m->n++;
	}
	m->values[at] = value;
}

static void
compare_scan(OlcTree *tree, const Model *m, int64_t from, int max)
{
	int64_t keys[600];
	uint64_t values[600];
	int at = model_place(m, from);
	int want = m->n - at < max ? m->n - at : max;
	int got = olc_scan(tree, from, max, keys, values);

	if (got != want)
		fault("scan of %d from %lld: %d entries, the model has %d", max, (long long) from, got, want);
	for (int i = 0; i < got && i < want; i++)
	{
		if (keys[i] != m->keys[at + i] || values[i] != m->values[at + i])
			fault("scan: entry %d differs", i);
	}
}

/* Keys of one pattern, and the ends of the range. */
static int64_t
some_key(int pattern, int i)
{
	switch (pattern)
	{
		case 0:
			return i; /* ascending */
		case 1:
			return -i;
		case 2:
			return (int64_t) rng_next(&rng);
		case 3:
			return (int64_t) rng_below(&rng, 3000); /* many replaced */
		default:
			return i % 1000 == 0 ? INT64_MAX : i % 1000 == 1 ? INT64_MIN
															 : (int64_t) (rng_next(&rng) >> rng_below(&rng, 60));
	}
}

static void
test_model(int pattern)
{
	const int n = scaled(40000);
	OlcTree *tree = olc_create(64 << 20, false);
	Model m = {malloc((size_t) n * 8), malloc((size_t) n * 8), 0};
	const char *wrong;
	OlcStats stats;

	for (int i = 0; i < n; i++)
	{
		int64_t key = some_key(pattern, i);
		int64_t probe = m.n > 0 && rng_below(&rng, 2) ? m.keys[rng_below(&rng, (uint64_t) m.n)] : some_key(pattern, i);
		uint64_t value = 0;
		int at;
		bool there;

		if (!olc_insert(tree, key, (uint64_t) i))
			fault("insert: no room");
		model_put(&m, key, (uint64_t) i);
		at = model_place(&m, probe);
		there = at < m.n && m.keys[at] == probe;
		if (olc_lookup(tree, probe, &value) != there || (there && value != m.values[at]))
			fault("lookup of %lld differs from the model", (long long) probe);
		if (i % 64 == 0)
			compare_scan(tree, &m, probe, 1 + (int) rng_below(&rng, 600));
	}
	compare_scan(tree, &m, INT64_MIN, 600);
	compare_scan(tree, &m, INT64_MAX, 600);
	wrong = olc_check(tree);
	olc_stats(tree, &stats);
	if (stats.entries != (uint64_t) m.n)
		fault("statistics: %llu entries, the model has %d", (unsigned long long) stats.entries, m.n);
	ok(faults() == 0 && wrong == NULL, "control, pattern %d: %d entries as in the model, height %d%s%s", pattern, m.n,
	   stats.height, wrong ? ": " : "", wrong ? wrong : "");
	olc_destroy(tree);
	free(m.keys);
	free(m.values);
}

static void
test_no_room(void)
{
	OlcTree *tree = olc_create(10 * OLC_NODE_SIZE, false);
	uint64_t value;
	int i = 0;
	bool all = true;

	while (olc_insert(tree, i, (uint64_t) i))
		i++;
	for (int k = 0; k < i; k++)
		all = all && olc_lookup(tree, k, &value) && value == (uint64_t) k;
	ok(i > 500 && all && olc_check(tree) == NULL, "control: a full tree refuses an insert and keeps its %d entries", i);
	olc_destroy(tree);
}

/* ---- threads ---- */

#define THREADS 4

typedef struct Worker
{
	pthread_t thread;
	OlcTree *tree;
	int number;
	int n;
	int *done; /* entries every thread has put in; atomic */
} Worker;

static int64_t
thread_key(int thread, int i)
{
	/* half of them close together, so that threads meet in one leaf */
	return i % 2 ? (int64_t) tb_hash((uint64_t) i * THREADS + (uint64_t) thread) : (int64_t) i * THREADS + thread;
}

static void *
work(void *arg)
{
	Worker *w = arg;
	Rng r = {(uint64_t) w->number * 1000 + 17};
	int64_t keys[100];
	uint64_t values[100];

	for (int i = 0; i < w->n; i++)
	{
		int other = (int) rng_below(&r, THREADS);
		int known = __atomic_load_n(&w->done[other], __ATOMIC_ACQUIRE);
		uint64_t value;

		if (!olc_insert(w->tree, thread_key(w->number, i), (uint64_t) i))
			fault("insert: no room");
		__atomic_store_n(&w->done[w->number], i + 1, __ATOMIC_RELEASE);
		if (known > 0)
		{
			int k = (int) rng_below(&r, (uint64_t) known);

			if (!olc_lookup(w->tree, thread_key(other, k), &value) || value != (uint64_t) k)
				fault("thread %d: entry %d of thread %d is not found", w->number, k, other);
			if (i % 16 == 0)
			{
				int got = olc_scan(w->tree, thread_key(other, k), 100, keys, values);

				if (got < 1 || keys[0] != thread_key(other, k) || values[0] != (uint64_t) k)
					fault("thread %d: a scan does not start at an entry that is there", w->number);
				for (int j = 1; j < got; j++)
				{
					if (keys[j] <= keys[j - 1])
						fault("thread %d: a scan out of order", w->number);
				}
			}
		}
	}
	return NULL;
}

static void
test_threads(void)
{
	OlcTree *tree = olc_create((size_t) 256 << 20, false);
	Worker workers[THREADS];
	int done[THREADS] = {0};
	OlcStats stats;
	const char *wrong;
	int n = scaled(200000);

	for (int t = 0; t < THREADS; t++)
	{
		workers[t] = (Worker){.tree = tree, .number = t, .n = n, .done = done};
		pthread_create(&workers[t].thread, NULL, work, &workers[t]);
	}
	for (int t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	for (int t = 0; t < THREADS; t++)
	{
		for (int i = 0; i < n; i++)
		{
			uint64_t value;

			if (!olc_lookup(tree, thread_key(t, i), &value) || value != (uint64_t) i)
				fault("entry %d of thread %d is lost", i, t);
		}
	}
	olc_stats(tree, &stats);
	wrong = olc_check(tree);
	ok(faults() == 0 && wrong == NULL && stats.entries == (uint64_t) n * THREADS,
	   "control: %d threads insert %d entries each, nothing is lost%s%s", THREADS, n, wrong ? ": " : "", wrong ? wrong : "");
	olc_destroy(tree);
}

/* ---- both contenders ---- */

static void
test_contenders(TbKeys kind)
{
	const Contender *both[2] = {&contender_numa, &contender_olc};
	const int nodes[2] = {0, 1};
	const uint64_t n = (uint64_t) scaled(60000);
	void *trees[2];
	void *s[2];
	TbSize size[2];
	void *pages[4096];

	for (int c = 0; c < 2; c++)
	{
		trees[c] = both[c]->open(n, 1, 2, nodes);
		s[c] = both[c]->begin(trees[c], 0);
		for (uint64_t i = 0; i < n; i++)
		{
			if (!both[c]->insert(s[c], tb_key(kind, i), tb_value(i)))
				fault("insert");
		}
		both[c]->size(s[c], &size[c]);
	}
	for (int i = 0; i < 20000; i++)
	{
		int64_t key = rng_below(&rng, 2) ? tb_key(kind, rng_below(&rng, n)) : (int64_t) (rng_next(&rng) >> (1 + rng_below(&rng, 50)));
		int max = 1 + (int) rng_below(&rng, 100);
		uint64_t value[2] = {0, 0};
		bool found[2];
		int got[2];
		uint64_t sum[2] = {0, 0};

		for (int c = 0; c < 2; c++)
		{
			found[c] = both[c]->get(s[c], key, &value[c]);
			got[c] = both[c]->scan(s[c], key, max, &sum[c]);
		}
		if (found[0] != found[1] || (found[0] && value[0] != value[1]) || got[0] != got[1] || sum[0] != sum[1])
			fault("%lld: found %d %d, entries %d %d", (long long) key, found[0], found[1], got[0], got[1]);
	}
	ok(faults() == 0 && size[0].entries == size[1].entries, "%s keys: both trees find the same",
	   kind == TB_KEYS_HASHED ? "hashed" : "skewed");

	for (int c = 0; c < 2; c++)
	{
		size_t all = both[c]->paths(s[c], INT64_MIN, INT64_MAX, pages, 4096);
		size_t cells = 0;
		bool once = true;

		ok(all == size[c].leaves * (uint64_t) size[c].height, "%s: a list has every leaf and the inner pages above it, once per leaf (%zu)",
		   both[c]->name, all);
		for (size_t i = 0; i + 1 < all; i++)
			once = once && ((i + 1) % (size_t) size[c].height != 0 || pages[i] != pages[i + (size_t) size[c].height]);
		ok(once, "%s: no leaf comes twice", both[c]->name);
		for (int cell = 0; cell < 16; cell++)
			cells += both[c]->paths(s[c], (int64_t) ((uint64_t) cell << 59), (int64_t) (((uint64_t) cell << 59) + (UINT64_C(1) << 59) - 1), pages, 4096);
		/* a leaf across two cells is in both lists */
		ok(cells >= all && cells <= all + 16 * (size_t) size[c].height, "%s: 16 cells' lists make up the whole (%zu)", both[c]->name, cells);
	}

	/* relocate all cells to the other arena and half of them back */
	{
		size_t there = 0;
		size_t back;
		size_t again;
		uint64_t sum[2] = {0, 0};

		for (int cell = 0; cell < 16; cell++)
			there += contender_numa.relocate(s[0], (int64_t) ((uint64_t) cell << 59), (int64_t) (((uint64_t) cell << 59) + (UINT64_C(1) << 59) - 1), 1);
		again = contender_numa.relocate(s[0], INT64_MIN, INT64_MAX, 1);
		back = contender_numa.relocate(s[0], 0, INT64_MAX / 2, 0);
		ok(there == size[0].leaves && again == 0 && back > size[0].leaves / 4 && back <= size[0].leaves,
		   "relocation: %zu leaves there, none twice, %zu back", there, back);
		for (int c = 0; c < 2; c++)
		{
			int64_t from = INT64_MIN;

			for (uint64_t i = 0; i < n; i += 50)
				(void) both[c]->scan(s[c], i == 0 ? from : tb_key(kind, i), 50, &sum[c]);
		}
		ok(sum[0] == sum[1] && contender_numa.check(s[0]) == NULL && contender_olc.check(s[1]) == NULL,
		   "and the tree holds what it held");
	}
	for (int c = 0; c < 2; c++)
	{
		both[c]->end(s[c]);
		both[c]->close(trees[c]);
	}
}

int
main(void)
{
	rng.s = tap_start("test_trees");
	for (int pattern = 0; pattern < 5; pattern++)
		test_model(pattern);
	test_no_room();
	test_threads();
	test_contenders(TB_KEYS_HASHED);
	test_contenders(TB_KEYS_SKEWED);
	return tap_done();
}

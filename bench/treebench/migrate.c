/*-------------------------------------------------------------------------
 *
 * migrate.c
 *	  The experiment of the move_pages2 paper: threads that run YCSB operations
 *	  on a tree and, with a probability, move a cell of it to another node.
 *
 * The key space is cut into cells (256); two configurations say on which node a
 * cell belongs, and each migration takes the next cell to where the other
 * configuration has it; after the last cell the direction turns.  "Migration
 * load" is the probability that an operation is a migration.  The same threads
 * do both, so time that a migration takes is lost to the queries.
 *
 * Every line of CSV is one slice: a method, a workload, a load.  A slice is work,
 * not time: every method gets the same draws of queries and migrations.  Slices
 * of all methods follow each other in every run, in turned order every other run.
 * Pages that moved are counted by the kernel (pgmigrate_success), not by
 * statuses; both are printed.
 *
 * Pages of this program's pools may be moved by the kernel, which those of the
 * extension never are; relocation works on a tree of its own.
 *
 * IDENTIFICATION
 *	  bench/treebench/migrate.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "contender.h"
#include "keys.h"
#include "methods.h"
#include "../lib/counter.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RING		65536 /* drawn operations per thread */
#define MAX_THREADS 32
#define HIST		(64 * 16)

typedef struct Options
{
	const char *trees; /* "numa", "olc" or both */
	const char *workloads;
	uint64_t entries;
	int threads;
	int moves; /* per thread and slice */
	int runs;
	int cells;
	double loads[8];
	int nloads;
	bool sweep; /* modes and batches of move_pages2 */
	int modes;	/* of the sweep: 1 = async only */
} Options;

/* One instance of a tree. */
typedef struct Tree
{
	const Contender *contender;
	void *tree;
	uint64_t moves;	  /* cells moved so far; atomic */
	uint64_t unmoved; /* of the method that moves none */
	bool placed;
} Tree;

/* What a thread counted in a slice. */
typedef struct Counts
{
	uint64_t queries;
	uint64_t migrations; /* cells */
	uint64_t listed;	 /* entries of their lists */
	uint64_t reported;	 /* entries reported as there */
	uint64_t relocated;	 /* pages */
	uint64_t ticks_moving;
	uint32_t hist[HIST]; /* of query times in ticks */
} Counts;

typedef struct Worker
{
	pthread_t thread;
	int number;
	Mover mover;
	TbOp *ring;
	uint64_t inserted;
	Counts c;
} Worker;

/* The current slice. */
static struct
{
	pthread_barrier_t start;
	pthread_barrier_t end;
	bool stop;
	Tree *tree;
	const Method *method;
	double load;
	uint64_t seed;
} slice;

static Options opt;
static NmTopology topo;
static NmMoverCaps caps;
static int nnodes;
static int nodes[NM_MAX_NODES];
static Worker workers[MAX_THREADS];

static void
give_up(const char *what)
{
	fprintf(stderr, "migrate: %s\n", what);
	exit(1);
}

/* A clock that costs no system call where the vDSO has none. */
static inline uint64_t
ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return nm_now_ns();
#endif
}

/* Buckets with four bits after the leading one. */
static int
bucket(uint64_t t)
{
	int high;

	if (t < 16)
		return (int) t;
	high = 63 - __builtin_clzll(t);
	return (high - 3) * 16 + (int) (t >> (high - 4) & 15);
}

static uint64_t
bucket_floor(int b)
{
	if (b < 16)
		return (uint64_t) b;
	return (UINT64_C(16) | (uint64_t) (b & 15)) << (b / 16 - 1);
}

/* Node of a cell before and after a pass over all cells. */
static int
cell_node(int cell, bool future)
{
	int at = cell * nnodes / opt.cells;

	return nodes[future ? (at + 1) % nnodes : at];
}

static void
cell_range(int cell, int64_t *from, int64_t *to)
{
	/* keys are hashes without a sign: 0 .. 2^63 - 1 */
	uint64_t width = (UINT64_C(1) << 63) / (uint64_t) opt.cells;

	*from = (int64_t) (width * (uint64_t) cell);
	*to = cell == opt.cells - 1 ? INT64_MAX : (int64_t) (width * (uint64_t) (cell + 1) - 1);
}

static void
migrate_cell(Worker *w, void *session)
{
	Tree *t = slice.tree;
	bool none = slice.method->kind == MOVE_NONE;
	uint64_t move = __atomic_fetch_add(none ? &t->unmoved : &t->moves, 1, __ATOMIC_RELAXED);
	int cell = (int) (move % (uint64_t) opt.cells);
	/* the trees start out as the first configuration has it */
	int node = cell_node(cell, move / (uint64_t) opt.cells % 2 == 0);
	int64_t from;
	int64_t to;
	size_t n;

	cell_range(cell, &from, &to);
	w->c.migrations++;
	if (slice.method->kind == MOVE_RELOCATE)
	{
		w->c.relocated += t->contender->relocate(session, from, to, node);
		return;
	}
	for (;;)
	{
		n = t->contender->paths(session, from, to, w->mover.pages, w->mover.cap);
		if (n <= w->mover.cap)
			break;
		mover_reserve(&w->mover, n);
	}
	w->c.listed += n;
	w->c.reported += move_list(&w->mover, slice.method, n, node);
}

static void
query(Worker *w, const Contender *c, void *session, const TbOp *op)
{
	uint64_t value = 0;
	uint64_t number;

	switch (op->kind)
	{
		case TB_READ:
			if (!c->get(session, op->key, &value))
				give_up("a read did not find its key");
			break;
		case TB_SCAN:
			(void) c->scan(session, op->key, op->len, &value);
			break;
		default:
			/* the ring comes round, new keys don't */
			number = opt.entries + w->inserted++ * (uint64_t) opt.threads + (uint64_t) w->number;
			if (!c->insert(session, tb_key(TB_KEYS_HASHED, number), tb_value(number)))
				give_up("no memory for an insert");
	}
}

static void
run_slice(Worker *w)
{
	const Contender *c = slice.tree->contender;
	void *session = c->begin(slice.tree->tree, w->number);
	/* the same draws for every method */
	uint64_t random = slice.seed + (uint64_t) w->number;
	uint64_t limit = (uint64_t) (slice.load * 4294967296.0);
	uint64_t now;

	memset(&w->c, 0, sizeof(w->c));
	now = ticks();
	while (w->c.migrations < (uint64_t) opt.moves)
	{
		uint64_t before = now;

		if (next_random(&random) >> 32 < limit)
		{
			migrate_cell(w, session);
			now = ticks();
			w->c.ticks_moving += now - before;
			continue;
		}
		query(w, c, session, &w->ring[next_random(&random) % RING]);
		now = ticks();
		w->c.hist[bucket(now - before)]++;
		w->c.queries++;
	}
	c->end(session);
}

static void *
worker_main(void *arg)
{
	Worker *w = arg;
	cpu_set_t one;

	/* as many threads as CPUs: one on each, so that all nodes have some */
	CPU_ZERO(&one);
	CPU_SET(w->number % (int) sysconf(_SC_NPROCESSORS_ONLN), &one);
	(void) sched_setaffinity(0, sizeof(one), &one);
	for (;;)
	{
		pthread_barrier_wait(&slice.start);
		if (slice.stop)
			return NULL;
		run_slice(w);
		pthread_barrier_wait(&slice.end);
	}
}

static uint64_t
percentile(const uint64_t *hist, uint64_t total, double p)
{
	uint64_t want = (uint64_t) ((double) total * p);
	uint64_t sum = 0;

	for (int b = 0; b < HIST; b++)
	{
		sum += hist[b];
		if (sum > want)
			return bucket_floor(b);
	}
	return 0;
}

/* Draw what the threads do; their inserts go on where they were. */
static void
draw(char workload)
{
	TbMix mix;

	if (!tb_mix(workload, &mix))
		give_up("workloads are C, A and E");
	for (int t = 0; t < opt.threads; t++)
	{
		TbStream stream;

		tb_stream_init(&stream, &mix, TB_KEYS_HASHED, true, opt.entries, opt.entries, t, opt.threads, 0,
					   UINT64_C(31) * (uint64_t) workload + (uint64_t) t);
		for (int i = 0; i < RING; i++)
		{
			tb_stream_next(&stream, &workers[t].ring[i]);
			/* only what was loaded is read: the stream's own inserts may not come */
			stream.inserted = 0;
		}
	}
}

static void
run_method(Tree *t, const Method *method, char workload, double load, int run)
{
	uint64_t hist[HIST] = {0};
	Counts sum = {0};
	uint64_t migrated = pages_migrated();
	uint64_t flushed = tlb_shootdowns();
	uint64_t from;
	uint64_t from_ticks;
	double ns;
	double tick_ns;

	slice.tree = t;
	slice.method = method;
	slice.load = load;
	slice.seed = (uint64_t) workload << 40 | (uint64_t) run << 20 | (uint64_t) (load * 1000);
	from = nm_now_ns();
	from_ticks = ticks();
	pthread_barrier_wait(&slice.start);
	pthread_barrier_wait(&slice.end);
	ns = (double) (nm_now_ns() - from);
	tick_ns = ns / (double) (ticks() - from_ticks);
	migrated = pages_migrated() - migrated;
	flushed = tlb_shootdowns() - flushed;
	for (int i = 0; i < opt.threads; i++)
	{
		const Counts *c = &workers[i].c;

		sum.queries += c->queries;
		sum.migrations += c->migrations;
		sum.listed += c->listed;
		sum.reported += c->reported;
		sum.relocated += c->relocated;
		sum.ticks_moving += c->ticks_moving;
		for (int b = 0; b < HIST; b++)
			hist[b] += c->hist[b];
		unbind(&workers[i].mover);
	}
	printf("%s,%c,%g,%d,%s,%.0f,%llu,%llu,%llu,%llu,%llu,%llu,%.3f,%.0f,%.0f,%.0f\n", t->contender->name, workload, load,
		   run, method->name, ns, (unsigned long long) sum.queries, (unsigned long long) sum.migrations,
		   (unsigned long long) sum.listed, (unsigned long long) sum.reported,
		   (unsigned long long) (method->kind == MOVE_RELOCATE ? sum.relocated : migrated),
		   (unsigned long long) flushed, (double) sum.ticks_moving * tick_ns / ns / opt.threads,
		   (double) percentile(hist, sum.queries, 0.5) * tick_ns,
		   (double) percentile(hist, sum.queries, 0.99) * tick_ns,
		   (double) percentile(hist, sum.queries, 1.0 - 1e-9) * tick_ns);
	fflush(stdout);
}

static void
add(Method *methods, int *n, const char *name, MoveKind kind, NmMode mode, int batch)
{
	Method *m = &methods[(*n)++];

	m->kind = kind;
	m->mode = mode;
	m->batch = batch;
	if (kind == MOVE_PAGES2)
		snprintf(m->name, sizeof(m->name), "move_pages2 %s %d", nm_mode_name(mode), batch);
	else
		snprintf(m->name, sizeof(m->name), "%s", name);
}

static int
choose_methods(Method *methods, const Contender *contender)
{
	int n = 0;

	if (opt.sweep)
	{
		add(methods, &n, "move_pages", MOVE_STOCK, 0, 0);
		for (int mode = 0; mode < opt.modes && caps.move_pages2; mode++)
		{
			for (int batch = 32; batch <= 4096; batch *= 2)
				add(methods, &n, "", MOVE_PAGES2, (NmMode) mode, batch);
		}
		return n;
	}
	add(methods, &n, "no moves", MOVE_NONE, 0, 0);
	add(methods, &n, "move_pages", MOVE_STOCK, 0, 0);
	if (caps.move_pages2)
	{
		for (int mode = 0; mode < 3; mode++)
			add(methods, &n, "", MOVE_PAGES2, (NmMode) mode, 64);
	}
	add(methods, &n, "move_pages each page once", MOVE_STOCK_ONCE, 0, 0);
	add(methods, &n, "move_pages clean list", MOVE_STOCK_CLEAN, NM_MODE_ASYNC, 0);
	if (caps.move_pages2)
		add(methods, &n, "move_pages2 clean list", MOVE_PAGES2_CLEAN, NM_MODE_ASYNC, 64);
	add(methods, &n, "move_pages per page", MOVE_PER_PAGE, 0, 0);
	add(methods, &n, "mbind per page", MOVE_MBIND, 0, 0);
	if (contender->relocate != NULL)
		add(methods, &n, "relocate", MOVE_RELOCATE, 0, 0);
	return n;
}

static void
open_tree(Tree *t, const Contender *contender, bool relocates)
{
	/* inserts of a slice are bounded by what a CPU can do */
	uint64_t room = opt.entries * 3 + 2000000;
	void *session;

	t->contender = contender;
	t->tree = contender->open(room, MAX_THREADS, relocates ? nnodes : 1, nodes);
	t->moves = 0;
	t->unmoved = 0;
	session = contender->begin(t->tree, 0);
	for (uint64_t i = 0; i < opt.entries; i++)
	{
		if (!contender->insert(session, tb_key(TB_KEYS_HASHED, i), tb_value(i)))
			give_up("no memory for the load");
	}
	/* place the cells as the first configuration has it */
	for (int cell = 0; cell < opt.cells; cell++)
	{
		Method place = {.kind = MOVE_STOCK_CLEAN};
		Mover *m = &workers[0].mover;
		int64_t from;
		int64_t to;
		size_t n;

		cell_range(cell, &from, &to);
		if (relocates)
		{
			(void) contender->relocate(session, from, to, cell_node(cell, false));
			continue;
		}
		n = contender->paths(session, from, to, m->pages, m->cap);
		if (n > m->cap)
		{
			mover_reserve(m, n);
			n = contender->paths(session, from, to, m->pages, m->cap);
		}
		(void) move_list(m, &place, n, cell_node(cell, false));
	}
	contender->end(session);
}

static void
close_tree(Tree *t)
{
	void *session = t->contender->begin(t->tree, 0);
	const char *wrong = t->contender->check(session);
	TbSize size;

	if (wrong != NULL)
		give_up(wrong);
	t->contender->size(session, &size);
	fprintf(stderr, "migrate: %s: %llu entries, %llu leaves, %llu inner pages, height %d\n", t->contender->name,
			(unsigned long long) size.entries, (unsigned long long) size.leaves, (unsigned long long) size.inner,
			size.height);
	t->contender->end(session);
	t->contender->close(t->tree);
}

static void
run_tree(const Contender *contender)
{
	Method methods[32];
	int nmethods = choose_methods(methods, contender);
	Tree kernel_tree;
	Tree own_tree;
	bool relocates = methods[nmethods - 1].kind == MOVE_RELOCATE;

	open_tree(&kernel_tree, contender, false);
	if (relocates)
		open_tree(&own_tree, contender, true);
	for (const char *w = opt.workloads; *w; w++)
	{
		draw(*w);
		for (int run = 0; run < opt.runs; run++)
		{
			for (int l = 0; l < opt.nloads; l++)
			{
				for (int i = 0; i < nmethods; i++)
				{
					const Method *m = &methods[run % 2 == 0 ? i : nmethods - 1 - i];

					run_method(m->kind == MOVE_RELOCATE ? &own_tree : &kernel_tree, m, *w, opt.loads[l], run);
				}
			}
		}
	}
	close_tree(&kernel_tree);
	if (relocates)
		close_tree(&own_tree);
}

static void
usage(void)
{
	fputs("usage: migrate [option...]\n"
		  "  --trees numa,olc    (both)\n"
		  "  --workloads CAE\n"
		  "  --loads 0.01,0.25,0.5\n"
		  "  --entries N         loaded entries (500000)\n"
		  "  --threads N         (CPUs)\n"
		  "  --moves N           cells that a thread moves in a slice (50)\n"
		  "  --runs N            slices per cell (5)\n"
		  "  --cells N           (256)\n"
		  "  --sweep MODES       instead of the methods: move_pages2 with batches of 32 to\n"
		  "                      4096 in the first MODES of async, sync_light, sync\n",
		  stderr);
	exit(2);
}

static void
parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"trees", required_argument, NULL, 'T'}, {"workloads", required_argument, NULL, 'w'}, {"loads", required_argument, NULL, 'l'}, {"entries", required_argument, NULL, 'n'}, {"threads", required_argument, NULL, 't'}, {"moves", required_argument, NULL, 'm'}, {"runs", required_argument, NULL, 'r'}, {"cells", required_argument, NULL, 'c'}, {"sweep", required_argument, NULL, 'S'}, {NULL, 0, NULL, 0}};
	int c;

	opt = (Options){.trees = "numa,olc", .workloads = "CAE", .entries = 500000, .threads = (int) sysconf(_SC_NPROCESSORS_ONLN), .moves = 50, .runs = 5, .cells = 256, .loads = {0.01, 0.25, 0.5}, .nloads = 3};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
	{
		switch (c)
		{
			case 'T':
				opt.trees = optarg;
				break;
			case 'w':
				opt.workloads = optarg;
				break;
			case 'l':
				opt.nloads = 0;
				for (char *p = strtok(optarg, ","); p != NULL && opt.nloads < 8; p = strtok(NULL, ","))
					opt.loads[opt.nloads++] = atof(p);
				break;
			case 'n':
				opt.entries = strtoull(optarg, NULL, 10);
				break;
			case 't':
				opt.threads = atoi(optarg);
				break;
			case 'm':
				opt.moves = atoi(optarg);
				break;
			case 'r':
				opt.runs = atoi(optarg);
				break;
			case 'c':
				opt.cells = atoi(optarg);
				break;
			case 'S':
				opt.sweep = true;
				opt.modes = atoi(optarg);
				break;
			default:
				usage();
		}
	}
	for (int i = 0; i < opt.nloads; i++)
	{
		if (!(opt.loads[i] > 0 && opt.loads[i] <= 1))
			usage();
	}
	if (optind < argc || opt.entries < 1000 || opt.entries > 100000000 || opt.threads < 1 || opt.threads > MAX_THREADS ||
		opt.moves < 1 || opt.runs < 1 || opt.cells < 1 || opt.cells > 65536 || opt.nloads < 1 || opt.modes < 0 || opt.modes > 3)
		usage();
}

int
main(int argc, char **argv)
{
	char err[256];

	parse(argc, argv);
	if (!nm_topology_read(&topo, "", err, sizeof(err)))
		give_up(err);
	for (int i = 0; i < topo.nnodes; i++)
	{
		if (topo.nodes[i].allowed)
			nodes[nnodes++] = topo.nodes[i].id;
	}
	nm_mover_probe(&caps, "");
	if (nnodes < 2)
		fprintf(stderr, "migrate: only one memory node: nothing can move\n");
	if (!caps.move_pages2)
		fprintf(stderr, "migrate: no move_pages2 on this kernel\n");

	pthread_barrier_init(&slice.start, NULL, (unsigned) opt.threads + 1);
	pthread_barrier_init(&slice.end, NULL, (unsigned) opt.threads + 1);
	for (int t = 0; t < opt.threads; t++)
	{
		Worker *w = &workers[t];

		w->number = t;
		w->ring = malloc(RING * sizeof(TbOp));
		mover_init(&w->mover, &caps, &topo);
		mover_reserve(&w->mover, 4096);
		if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
			give_up("no thread");
	}

	printf("tree,workload,load,run,method,ns,queries,cells,listed,reported,moved,shootdowns,moving,p50_ns,p99_ns,max_ns\n");
	if (strstr(opt.trees, "numa") != NULL)
		run_tree(&contender_numa);
	if (strstr(opt.trees, "olc") != NULL)
		run_tree(&contender_olc);

	slice.stop = true;
	pthread_barrier_wait(&slice.start);
	for (int t = 0; t < opt.threads; t++)
	{
		pthread_join(workers[t].thread, NULL);
		mover_free(&workers[t].mover);
		free(workers[t].ring);
	}
	return 0;
}

/*-------------------------------------------------------------------------
 *
 * treebench.c
 *	  The tree of src/btree against the control, in one process.
 *
 * Both trees get the same entries in the same order; then, for every cell
 * (workload, distribution, threads), pairs of slices run in ABBA order: both
 * contenders do the same operations of a slice, drawn before the clock starts.
 * One line of CSV per slice goes to standard output; "run" makes tables of it.
 *
 * Time is given twice: by the clock on the wall, and by the clocks of the
 * threads' CPUs, which other programs on the machine disturb less.
 *
 * --count runs one contender and one cell for callgrind, which then counts the
 * slice's instructions alone.
 *
 * IDENTIFICATION
 *	  bench/treebench/treebench.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "contender.h"
#include "keys.h"

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define COUNTING 1
#else
#define COUNTING						0
#define CALLGRIND_START_INSTRUMENTATION ((void) 0)
#define CALLGRIND_STOP_INSTRUMENTATION	((void) 0)
#endif

#define MAX_THREADS 16

static const Contender *const contenders[2] = {&contender_numa, &contender_olc};

typedef struct Options
{
	uint64_t entries;
	uint64_t ops; /* per slice and thread */
	int pairs;
	const char *workloads;
	const char *distributions; /* u, z */
	int threads[8];
	int nthreads;
	TbKeys keys;
	const char *count; /* contender to run under callgrind */
} Options;

/* What all threads of a slice look at. */
typedef struct Slice
{
	const Contender *contender;
	pthread_barrier_t start;
	pthread_barrier_t end;
	bool stop;
	bool count; /* for callgrind */
} Slice;

typedef struct Worker
{
	pthread_t thread;
	int number;
	Slice *slice;
	void *trees[2];
	TbOp *ops;
	uint64_t nops;
	/* of the last slice */
	uint64_t cpu_ns;
	uint64_t sum;	 /* of the values found */
	uint64_t found;	 /* reads and scanned entries */
	uint64_t missed; /* reads without a result */
} Worker;

static void
give_up(const char *what)
{
	fprintf(stderr, "treebench: %s\n", what);
	exit(1);
}

static uint64_t
thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t) ts.tv_sec * UINT64_C(1000000000) + (uint64_t) ts.tv_nsec;
}

static void
pin_to(int number)
{
	cpu_set_t allowed;
	cpu_set_t one;
	int want = number;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	want %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
	{
		if (CPU_ISSET(cpu, &allowed) && want-- == 0)
		{
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			(void) sched_setaffinity(0, sizeof(one), &one);
			return;
		}
	}
}

/* The measured part: nothing but operations. */
static void
run_ops(const Contender *c, void *session, Worker *w)
{
	uint64_t sum = 0;
	uint64_t found = 0;
	uint64_t missed = 0;

	for (uint64_t i = 0; i < w->nops; i++)
	{
		const TbOp *op = &w->ops[i];
		uint64_t value;

		switch (op->kind)
		{
			case TB_READ:
				if (c->get(session, op->key, &value))
				{
					sum += value;
					found++;
				}
				else
					missed++;
				break;
			case TB_SCAN:
				found += (uint64_t) c->scan(session, op->key, op->len, &sum);
				break;
			default:
				if (!c->insert(session, op->key, tb_value(op->number)))
					give_up("no memory for an insert");
		}
	}
	w->sum = sum;
	w->found = found;
	w->missed = missed;
}

static void *
worker_main(void *arg)
{
	Worker *w = arg;
	Slice *slice = w->slice;

	pin_to(w->number);
	for (;;)
	{
		const Contender *c;
		void *session;
		uint64_t from;

		pthread_barrier_wait(&slice->start);
		if (slice->stop)
			return NULL;
		c = slice->contender;
		session = c->begin(w->trees[c == contenders[1]], w->number);
		from = thread_ns();
		if (slice->count)
			CALLGRIND_START_INSTRUMENTATION;
		run_ops(c, session, w);
		if (slice->count)
			CALLGRIND_STOP_INSTRUMENTATION;
		w->cpu_ns = thread_ns() - from;
		c->end(session);
		pthread_barrier_wait(&slice->end);
	}
}

/*
 * Load by inserts in hashed order, as YCSB does; both trees at a time, so that
 * neither has the fresher memory.
 */
static void
load(void *trees[2], const Options *o)
{
	void *sessions[2] = {NULL, NULL};

	for (int t = 0; t < 2; t++)
	{
		if (trees[t] != NULL)
			sessions[t] = contenders[t]->begin(trees[t], 0);
	}
	for (uint64_t i = 0; i < o->entries; i++)
	{
		for (int t = 0; t < 2; t++)
		{
			if (sessions[t] != NULL && !contenders[t]->insert(sessions[t], tb_key(o->keys, i), tb_value(i)))
				give_up("no memory for the load");
		}
	}
	for (int t = 0; t < 2; t++)
	{
		if (sessions[t] != NULL)
			contenders[t]->end(sessions[t]);
	}
}

static void
report_size(const Contender *c, void *tree, const char *when)
{
	void *session = c->begin(tree, 0);
	TbSize size;
	const char *wrong = c->check(session);

	if (wrong != NULL)
	{
		fprintf(stderr, "treebench: %s: %s\n", c->name, wrong);
		exit(1);
	}
	c->size(session, &size);
	c->end(session);
	printf("size,%s,%s,%llu,%llu,%llu,%d,%.3f\n", when, c->name, (unsigned long long) size.entries,
		   (unsigned long long) size.leaves, (unsigned long long) size.inner, size.height,
		   (double) (size.leaves + size.inner) * 4096 / (double) size.entries);
	fflush(stdout);
}

typedef struct Cell
{
	TbMix mix;
	bool zipf;
	int threads;
} Cell;

static void
run_cell(const Options *o, const Cell *cell, void *trees[2], uint64_t *next_number)
{
	Slice slice;
	Worker workers[MAX_THREADS];
	TbStream streams[MAX_THREADS];
	int slices = o->count ? 1 : o->pairs;
	uint64_t expected = o->ops * (uint64_t) slices * (uint64_t) cell->mix.inserts / 100;
	uint64_t inserted = 0;

	memset(&slice, 0, sizeof(slice));
	slice.count = o->count != NULL;
	pthread_barrier_init(&slice.start, NULL, (unsigned) cell->threads + 1);
	pthread_barrier_init(&slice.end, NULL, (unsigned) cell->threads + 1);
	for (int t = 0; t < cell->threads; t++)
	{
		workers[t] = (Worker){.number = t, .slice = &slice, .trees = {trees[0], trees[1]}, .nops = o->ops};
		workers[t].ops = malloc(o->ops * sizeof(TbOp));
		tb_stream_init(&streams[t], &cell->mix, o->keys, cell->zipf, o->entries, *next_number, t, cell->threads,
					   expected, UINT64_C(1000) * (uint64_t) cell->mix.name + (uint64_t) t + 1);
		if (pthread_create(&workers[t].thread, NULL, worker_main, &workers[t]) != 0)
			give_up("no thread");
	}

	for (int pair = 0; pair < slices; pair++)
	{
		uint64_t sums[2] = {0, 0};
		uint64_t founds[2] = {0, 0};

		for (int t = 0; t < cell->threads; t++)
		{
			for (uint64_t i = 0; i < o->ops; i++)
				tb_stream_next(&streams[t], &workers[t].ops[i]);
		}
		for (int half = 0; half < 2; half++)
		{
			int which = half ^ (pair & 1);
			uint64_t wall;
			double rate = 0;

			if (o->count && strcmp(contenders[which]->name, o->count) != 0)
				continue;
			slice.contender = contenders[which];
			wall = nm_now_ns();
			pthread_barrier_wait(&slice.start);
			pthread_barrier_wait(&slice.end);
			wall = nm_now_ns() - wall;
			for (int t = 0; t < cell->threads; t++)
			{
				rate += (double) o->ops * 1e9 / (double) workers[t].cpu_ns;
				sums[which] += workers[t].sum;
				founds[which] += workers[t].found;
				if (workers[t].missed > 0)
					give_up("a read did not find its key");
			}
			printf("slice,%c,%s,%d,%d,%s,%llu,%.0f,%.0f,%llu\n", cell->mix.name, cell->zipf ? "zipf" : "uniform",
				   cell->threads, pair, contenders[which]->name, (unsigned long long) (o->ops * (uint64_t) cell->threads),
				   rate, (double) (o->ops * (uint64_t) cell->threads) * 1e9 / (double) wall,
				   (unsigned long long) sums[which]);
			fflush(stdout);
		}
		/* scans of one thread may or may not see what another inserts */
		if (!o->count && (cell->mix.scans == 0 || cell->mix.inserts == 0 || cell->threads == 1) &&
			(sums[0] != sums[1] || founds[0] != founds[1]))
			give_up("the two trees found different values");
	}

	slice.stop = true;
	pthread_barrier_wait(&slice.start);
	for (int t = 0; t < cell->threads; t++)
	{
		pthread_join(workers[t].thread, NULL);
		free(workers[t].ops);
		if (streams[t].inserted > inserted)
			inserted = streams[t].inserted;
	}
	*next_number += inserted * (uint64_t) cell->threads;
	pthread_barrier_destroy(&slice.start);
	pthread_barrier_destroy(&slice.end);
}

static void
usage(void)
{
	fputs("usage: treebench [option...]\n"
		  "  --entries N         loaded entries (4000000)\n"
		  "  --ops N             operations per slice and thread (200000)\n"
		  "  --pairs N           pairs of slices per cell (11)\n"
		  "  --workloads CEA     in this order; A and E insert\n"
		  "  --distributions uz  uniform, scrambled zipfian\n"
		  "  --threads 1,2\n"
		  "  --keys hashed|skewed\n"
		  "  --huge              both trees on huge pages of 2 MB\n"
		  "  --count numa|olc    one slice of one thread, for callgrind\n",
		  stderr);
	exit(2);
}

static uint64_t
number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*end != 0 || n == 0 || n > UINT32_MAX)
		usage();
	return n;
}

static void
parse(Options *o, int argc, char **argv)
{
	static const struct option known[] = {
		{"entries", required_argument, NULL, 'n'}, {"ops", required_argument, NULL, 'o'}, {"pairs", required_argument, NULL, 'p'}, {"workloads", required_argument, NULL, 'w'}, {"distributions", required_argument, NULL, 'd'}, {"threads", required_argument, NULL, 't'}, {"keys", required_argument, NULL, 'k'}, {"count", required_argument, NULL, 'c'}, {"huge", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int c;

	*o = (Options){.entries = 4000000, .ops = 200000, .pairs = 11, .workloads = "CEA", .distributions = "uz", .threads = {1, 2}, .nthreads = 2};
	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
	{
		switch (c)
		{
			case 'n':
				o->entries = number(optarg);
				break;
			case 'h':
				tb_huge_pages = true;
				break;
			case 'o':
				o->ops = number(optarg);
				break;
			case 'p':
				o->pairs = (int) number(optarg);
				break;
			case 'w':
				o->workloads = optarg;
				break;
			case 'd':
				if (strspn(optarg, "uz") != strlen(optarg))
					usage();
				o->distributions = optarg;
				break;
			case 't':
				o->nthreads = 0;
				for (char *p = strtok(optarg, ","); p != NULL; p = strtok(NULL, ","))
				{
					if (o->nthreads == 8 || number(p) > MAX_THREADS)
						usage();
					o->threads[o->nthreads++] = (int) number(p);
				}
				break;
			case 'k':
				if (strcmp(optarg, "hashed") == 0)
					o->keys = TB_KEYS_HASHED;
				else if (strcmp(optarg, "skewed") == 0)
					o->keys = TB_KEYS_SKEWED;
				else
					usage();
				break;
			case 'c':
				if (strcmp(optarg, "numa") != 0 && strcmp(optarg, "olc") != 0)
					usage();
				o->count = optarg;
				break;
			default:
				usage();
		}
	}
	if (optind < argc)
		usage();
	if (o->count && (!COUNTING || o->nthreads != 1 || o->threads[0] != 1 || strlen(o->workloads) != 1 || strlen(o->distributions) != 1))
		give_up("--count wants one workload, one distribution, --threads 1, and valgrind's header at build time");
}

int
main(int argc, char **argv)
{
	Options o;
	void *trees[2] = {NULL, NULL};
	uint64_t next_number;
	uint64_t room;
	uint64_t cells = 0;
	int no_node = 0;

	parse(&o, argc, argv);
	for (const char *w = o.workloads; *w; w++)
	{
		TbMix mix;

		if (!tb_mix(*w, &mix))
			usage();
		cells += (uint64_t) mix.inserts;
	}
	/* entries after all cells have run */
	room = o.entries;
	for (int i = 0; i < o.nthreads; i++)
		room += cells * 2 * strlen(o.distributions) * o.ops * (uint64_t) o.pairs * (uint64_t) o.threads[i] / 100;
	if (room > UINT32_MAX)
		give_up("more entries than a key number can say");

	for (int i = 0; i < 2; i++)
	{
		if (o.count && strcmp(contenders[i]->name, o.count) != 0)
			continue;
		trees[i] = contenders[i]->open(room, MAX_THREADS, 1, &no_node);
	}
	load(trees, &o);
	for (int i = 0; i < 2; i++)
	{
		if (trees[i] != NULL)
			report_size(contenders[i], trees[i], "loaded");
	}
	next_number = o.entries;
	for (const char *w = o.workloads; *w; w++)
	{
		for (const char *d = o.distributions; *d; d++)
		{
			for (int i = 0; i < o.nthreads; i++)
			{
				Cell cell = {.zipf = *d == 'z', .threads = o.threads[i]};

				(void) tb_mix(*w, &cell.mix);
				run_cell(&o, &cell, trees, &next_number);
			}
		}
	}
	for (int i = 0; i < 2; i++)
	{
		if (trees[i] == NULL)
			continue;
		report_size(contenders[i], trees[i], "end");
		contenders[i]->close(trees[i]);
	}
	return 0;
}

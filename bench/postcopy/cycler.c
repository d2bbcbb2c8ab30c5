/*-------------------------------------------------------------------------
 *
 * cycler.c
 *	  Workers write through memory that is filled when they touch it, as fast
 *	  as they can.
 *
 * A slice is one method with one number of pages per fault, one order and one
 * number of workers; each worker has its own part of the region.  All methods
 * of a cell run in turn, and in the opposite turn in the next run.  Prints CSV.
 *
 * IDENTIFICATION
 *	  bench/postcopy/cycler.c
 *
 *-------------------------------------------------------------------------
 */
#include "method.h"
#include "clock.h"
#include "../lib/random.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORKERS 64
#define MAX_LIST	8

/* A touch of at least that many ns waited for something: a fault. */
#define FAULT_NS 500

typedef struct Options
{
	size_t pages;
	int runs;
	int workers[MAX_LIST],
		nworkers;
	int cells[MAX_LIST],
		ncells;
	int handlers[MAX_LIST],
		nhandlers;
	const char *orders;	 /* letters: s, r */
	const char *fills;	 /* letters: c copy, m map (continue), w write and map */
	const char *methods; /* letters: k kernel, q queue, f faulter */
	bool processes;
	bool realtime;
	long delay_us;
} Options;

typedef struct Worker
{
	uint64_t start,
		end;	  /* ns */
	uint64_t cpu; /* ns, of handler threads too */
	size_t bad;
	PcHist hist;
} Worker;

/* Shared by the processes of a slice. */
typedef struct Slice
{
	pthread_barrier_t ready;
	Worker workers[MAX_WORKERS];
} Slice;

typedef struct Job
{
	const Options *o;
	Slice *slice;
	PcView *view;
	int number;
	int of;
	bool random;
} Job;

/* What the snapshot's page holds in its first and its last word. */
static inline uint64_t
stamp(size_t page)
{
	return (uint64_t) page * 2 + 1;
}

/*
 * Parts are whole cells: queues of several processes don't know of each other, and
 * two that fill one cell by CONTINUE would undo what is written in between.
 */
static size_t
part_start(const Job *j, int number)
{
	size_t per = (size_t) j->view->space->cell_pages;
	size_t cells = (j->o->pages + per - 1) / per;
	size_t page = cells * (size_t) number / (size_t) j->of * per;

	return page < j->o->pages ? page : j->o->pages;
}

static void
cycle(Job *j)
{
	PcView *v = j->view;
	Worker *w = &j->slice->workers[j->number];
	size_t from = part_start(j, j->number);
	size_t n = part_start(j, j->number + 1) - from;
	uint32_t *order = malloc(n * sizeof(uint32_t));
	uint64_t seed = (uint64_t) j->number + 1;
	uint64_t cpu;

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t) (from + i);
	for (size_t i = n; j->random && i-- > 1;)
	{
		size_t k = next_random(&seed) % (i + 1);
		uint32_t x = order[i];

		order[i] = order[k];
		order[k] = x;
	}
	if (j->o->realtime)
		pc_realtime(true);
	(void) pthread_barrier_wait(&j->slice->ready);
	cpu = pc_thread_cpu();
	w->start = nm_now_ns();
	for (size_t i = 0; i < n; i++)
	{
		uint64_t before = pc_ticks();
		uint64_t ns;

		pc_view_before(v, order[i], pc_view_populate);
		*(volatile uint64_t *) (void *) (v->base + (size_t) order[i] * NM_PC_PAGE + 64) = i;
		ns = (uint64_t) ((double) (pc_ticks() - before) * pc_tick_ns);
		if (ns >= FAULT_NS)
			pc_hist_add(&w->hist, ns);
	}
	w->end = nm_now_ns();
	w->cpu = pc_thread_cpu() - cpu;
	if (j->o->realtime)
		pc_realtime(false);
	for (size_t i = 0; i < n; i++)
	{
		const uint64_t *page = (const uint64_t *) (const void *) (v->base + (size_t) order[i] * NM_PC_PAGE);

		if (page[0] != stamp(order[i]) || page[511] != stamp(order[i]) || page[8] != i)
			w->bad++;
	}
	free(order);
}

static void *
cycle_thread(void *arg)
{
	cycle(arg);
	return NULL;
}

static void
run_threads(const Options *o, Slice *slice, PcSpace *space, const PcMethod *method, int workers, bool random)
{
	pthread_t threads[MAX_WORKERS];
	Job jobs[MAX_WORKERS];
	PcView view;

	pc_view_open(&view, space, method, o->realtime);
	for (int i = 0; i < workers; i++)
	{
		jobs[i] = (Job){.o = o, .slice = slice, .view = &view, .number = i, .of = workers, .random = random};
		errno = pthread_create(&threads[i], NULL, cycle_thread, &jobs[i]);
		if (errno != 0)
			pc_give_up("thread");
	}
	(void) pthread_barrier_wait(&slice->ready);
	for (int i = 0; i < workers; i++)
		(void) pthread_join(threads[i], NULL);
	pc_view_close(&view);
	slice->workers[0].cpu += view.handler_cpu;
}

static void
run_processes(const Options *o, Slice *slice, PcSpace *space, const PcMethod *method, int workers, bool random)
{
	pid_t pids[MAX_WORKERS];

	fflush(stdout);
	for (int i = 0; i < workers; i++)
	{
		pids[i] = fork();
		if (pids[i] == 0)
		{
			PcView view;
			Job job = {.o = o, .slice = slice, .view = &view, .number = i, .of = workers, .random = random};

			pc_space_inherit(space);
			pc_view_open(&view, space, method, o->realtime);
			cycle(&job);
			pc_view_close(&view);
			slice->workers[i].cpu += view.handler_cpu;
			_exit(0);
		}
		if (pids[i] < 0)
			pc_give_up("fork");
	}
	(void) pthread_barrier_wait(&slice->ready);
	for (int i = 0; i < workers; i++)
	{
		int status;

		if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
			pc_give_up("a worker process ended early");
	}
}

static const char *const kind_names[] = {"kernel", "queue", "faulter"};

static const char *
fill_name(const PcMethod *m)
{
	if (m->kind == PC_KERNEL)
		return "private";
	return m->fill == NM_PC_COPY ? "copy" : m->fill == NM_PC_CONTINUE ? "continue"
																	  : "write+continue";
}

static void
run_slice(const Options *o, const PcSnapshot *snapshot, const PcMethod *method, int cell_pages, int workers, bool random, int run)
{
	Slice *slice = mmap(NULL, sizeof(Slice), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_t attr;
	PcSpace space;
	PcHist hist = {0};
	uint64_t start = UINT64_MAX,
			 end = 0,
			 cpu = 0;

	if (slice == MAP_FAILED)
		pc_give_up("mmap");
	(void) pthread_barrierattr_init(&attr);
	(void) pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	(void) pthread_barrier_init(&slice->ready, &attr, (unsigned) workers + 1);
	pc_space_make(&space, snapshot, o->pages, cell_pages, method);
	(o->processes ? run_processes : run_threads)(o, slice, &space, method, workers, random);
	pc_space_unmake(&space);
	for (int i = 0; i < workers; i++)
	{
		Worker *w = &slice->workers[i];

		if (w->bad)
		{
			fprintf(stderr, "postcopy: %s %s, %d pages a fault: %zu pages hold something else\n",
					kind_names[method->kind], fill_name(method), cell_pages, w->bad);
			exit(1);
		}
		pc_hist_merge(&hist, &w->hist);
		start = w->start < start ? w->start : start;
		end = w->end > end ? w->end : end;
		cpu += w->cpu;
	}
	printf("%s,%s,%s,%d,%d,%d,%s,%ld,%d,%zu,%llu,%llu,%llu,%llu,%llu,%llu\n",
		   o->processes ? "processes" : "threads", kind_names[method->kind], fill_name(method), method->handlers,
		   cell_pages, workers, random ? "random" : "sequential", o->delay_us, run, o->pages,
		   (unsigned long long) (end - start), (unsigned long long) cpu, (unsigned long long) hist.n,
		   (unsigned long long) pc_hist_percentile(&hist, 0.5), (unsigned long long) pc_hist_percentile(&hist, 0.99),
		   (unsigned long long) hist.max);
	fflush(stdout);
	(void) munmap(slice, sizeof(Slice));
}

static int
list_methods(const Options *o, PcMethod *list)
{
	int n = 0;

	for (const char *m = o->methods; *m; m++)
	{
		if (*m == 'k' && o->delay_us == 0)
			list[n++] = (PcMethod){.kind = PC_KERNEL, .fill = NM_PC_COPY};
		for (const char *f = o->fills; *m != 'k' && *f; f++)
		{
			NmPcFill fill = *f == 'c' ? NM_PC_COPY : *f == 'm' ? NM_PC_CONTINUE
															   : NM_PC_CONTINUE_WRITE;

			if (*m == 'f')
				list[n++] = (PcMethod){.kind = PC_FAULTER, .fill = fill};
			for (int h = 0; *m == 'q' && h < o->nhandlers; h++)
				list[n++] = (PcMethod){.kind = PC_QUEUE, .fill = fill, .handlers = o->handlers[h]};
		}
	}
	return n;
}

static void
run_all(const Options *o)
{
	PcSnapshot snapshot = {.npages = o->pages, .delay_ns = o->delay_us * 1000};
	size_t bytes = o->pages * NM_PC_PAGE;
	PcMethod methods[64];
	int nmethods = list_methods(o, methods);
	char *map;

	snapshot.fd = memfd_create("snapshot", MFD_CLOEXEC);
	if (snapshot.fd < 0 || ftruncate(snapshot.fd, (off_t) bytes) != 0)
		pc_give_up("snapshot");
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, snapshot.fd, 0);
	if (map == MAP_FAILED)
		pc_give_up("mmap");
	for (size_t i = 0; i < o->pages * 512; i++)
		((uint64_t *) (void *) map)[i] = stamp(i / 512);
	snapshot.bytes = map;

	printf("workers_are,kind,fill,handlers,cell_pages,workers,order,delay_us,run,pages,wall_ns,cpu_ns,faults,p50_ns,p99_ns,max_ns\n");
	for (const char *order = o->orders; *order; order++)
		for (int w = 0; w < o->nworkers; w++)
			for (int c = 0; c < o->ncells; c++)
				for (int run = 0; run < o->runs; run++)
					for (int i = 0; i < nmethods; i++)
					{
						const PcMethod *m = &methods[run % 2 ? nmethods - 1 - i : i];

						run_slice(o, &snapshot, m, o->cells[c], o->workers[w], *order == 'r', run);
					}
	(void) munmap(map, bytes);
	(void) close(snapshot.fd);
}

static void
usage(void)
{
	fprintf(stderr, "usage: cycler [--pages N] [--runs N] [--workers LIST] [--cells LIST] [--handlers LIST]\n"
					"              [--orders sr] [--methods kqf] [--fills cmw] [--processes] [--delay US] [--realtime]\n");
	exit(2);
}

static long
number(const char *s, long max)
{
	char *end;
	long n = strtol(s, &end, 10);

	if (end == s || *end != '\0' || n < 0 || n > max)
		usage();
	return n;
}

static int
numbers(char *s, int *list, long max)
{
	int n = 0;

	for (char *p = strtok(s, ","); p != NULL; p = strtok(NULL, ","))
	{
		if (n == MAX_LIST || number(p, max) == 0)
			usage();
		list[n++] = (int) number(p, max);
	}
	return n;
}

static const char *
letters(const char *s, const char *allowed)
{
	if (*s == '\0' || strspn(s, allowed) != strlen(s))
		usage();
	return s;
}

int
main(int argc, char **argv)
{
	static const struct option known[] = {
		{"pages", required_argument, NULL, 'n'}, {"runs", required_argument, NULL, 'r'}, {"workers", required_argument, NULL, 'w'}, {"cells", required_argument, NULL, 'c'}, {"handlers", required_argument, NULL, 'h'}, {"orders", required_argument, NULL, 'o'}, {"methods", required_argument, NULL, 'm'}, {"fills", required_argument, NULL, 'f'}, {"processes", no_argument, NULL, 'p'}, {"delay", required_argument, NULL, 'd'}, {"realtime", no_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
	Options o = {
		.pages = 4096, .runs = 7, .workers = {1, 2, 4, 8}, .nworkers = 4, .cells = {1, 4, 8, 16, 64}, .ncells = 5, .handlers = {1, 2}, .nhandlers = 2, .orders = "sr", .fills = "cmw", .methods = "kqf"};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
	{
		switch (c)
		{
			case 'n':
				o.pages = (size_t) number(optarg, 1 << 24);
				break;
			case 'r':
				o.runs = (int) number(optarg, 1000);
				break;
			case 'w':
				o.nworkers = numbers(optarg, o.workers, MAX_WORKERS);
				break;
			case 'c':
				o.ncells = numbers(optarg, o.cells, NM_PC_MAX_CELL_PAGES);
				break;
			case 'h':
				o.nhandlers = numbers(optarg, o.handlers, 64);
				break;
			case 'o':
				o.orders = letters(optarg, "sr");
				break;
			case 'm':
				o.methods = letters(optarg, "kqf");
				break;
			case 'f':
				o.fills = letters(optarg, "cmw");
				break;
			case 'p':
				o.processes = true;
				break;
			case 'd':
				o.delay_us = number(optarg, 900000);
				break;
			case 't':
				o.realtime = true;
				break;
			default:
				usage();
		}
	}
	if (optind < argc || o.runs == 0 || o.nworkers == 0 || o.ncells == 0 || o.nhandlers == 0)
		usage();
	for (int i = 0; i < o.ncells; i++)
		if ((o.cells[i] & (o.cells[i] - 1)) != 0)
			usage();
	for (int i = 0; i < o.nworkers; i++)
		if (o.pages < (size_t) o.workers[i])
			usage();
	(void) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); /* delays are as long as asked */
	pc_clock_start();
	run_all(&o);
	return 0;
}

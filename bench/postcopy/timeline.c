/*-------------------------------------------------------------------------
 *
 * timeline.c
 *	  Clients of a tree whose pages arrive when they are touched: what they see,
 *	  over time.
 *
 * Clients do gets and sets, ten to one, at a fixed rate, whatever the tree does: a
 * tick every millisecond has so many operations, and an operation's time
 * counts from its tick.  At time 0 all pages of the tree are gone and come
 * back from a snapshot in memory.  Prints CSV, a line for every 20 ms.
 *
 * IDENTIFICATION
 *	  bench/postcopy/timeline.c
 *
 *-------------------------------------------------------------------------
 */
#include "method.h"
#include "clock.h"
#include "../lib/random.h"
#include "btree/btree.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MAX_CLIENTS 16
#define BUCKET_NS	20000000
#define TICK_NS		1000000
#define KEY_STEP	1000

typedef struct Options
{
	uint64_t entries;
	int clients;
	long rate; /* operations/s of all clients */
	double seconds;
	int runs;
	long delay_us; /* of the slow rows */
	bool realtime;
} Options;

typedef enum Way
{
	WAY_PRESENT, /* nothing is taken away */
	WAY_WHOLE,	 /* all of it is copied back before the clients go on */
	WAY_QUEUE,
	WAY_FAULTER,
	WAY_FAULTER_BACKGROUND /* and a thread that fills the rest */
} Way;

static const char *const way_names[] = {"present", "whole first", "queue", "faulter", "faulter+background"};

typedef struct Tree
{
	NmPool *pool;
	NmTreeShared *shared;
	void *book;
	pthread_mutex_t lock;
} Tree;

typedef struct Client
{
	const Options *o;
	Tree *tree;
	pthread_barrier_t *start; /* passed at time 0 */
	const uint64_t *zero;	  /* the clock's time then */
	int number;
	uint64_t bad;
	int nbuckets;
	PcHist *buckets;
} Client;

static void
lock_pool(void *arg)
{
	(void) pthread_mutex_lock(arg);
}

static void
unlock_pool(void *arg)
{
	(void) pthread_mutex_unlock(arg);
}

static void
tree_make(Tree *t, const Options *o)
{
	NmPoolConfig config;
	char err[256];
	NmTree handle;
	void *scratch = calloc(1, nm_tree_scratch_size());
	NmBulk *bulk = malloc(nm_bulk_size());
	size_t bytes = (size_t) o->entries * 40 + (64 << 20);

	memset(t, 0, sizeof(*t));
	memset(&config, 0, sizeof(config));
	(void) pthread_mutex_init(&t->lock, NULL);
	config.narenas = 1;
	config.arena_bytes = bytes / NM_CHUNK_SIZE * NM_CHUNK_SIZE;
	config.memory_limit = config.arena_bytes;
	config.nslots = MAX_CLIENTS + 1;
	config.lock = lock_pool;
	config.unlock = unlock_pool;
	config.lock_arg = &t->lock;
	t->book = aligned_alloc(64, (nm_pool_shared_size(&config) + 63) / 64 * 64);
	memset(t->book, 0, nm_pool_shared_size(&config));
	t->pool = nm_pool_create(&config, t->book, err, sizeof(err));
	if (t->pool == NULL)
	{
		fprintf(stderr, "timeline: %s\n", err);
		exit(1);
	}
	t->shared = aligned_alloc(64, (sizeof(NmTreeShared) + 63) / 64 * 64);
	memset(t->shared, 0, sizeof(*t->shared));
	t->shared->layout = NM_LAYOUT_FIXED;
	t->shared->fillfactor = 90;
	nm_epoch_attach(t->pool, MAX_CLIENTS);
	nm_tree_open(&handle, t->pool, t->shared, scratch);
	nm_bulk_begin(bulk, &handle, 0);
	for (uint64_t i = 0; i < o->entries; i++)
	{
		NmItem item = {.key = (int64_t) (i * KEY_STEP)};

		if (nm_bulk_add(bulk, &item, i << 16 | 1) != NM_OK)
			pc_give_up("bulk load");
	}
	if (nm_bulk_finish(bulk) != NM_OK)
		pc_give_up("bulk load");
	nm_tree_close(&handle);
	nm_epoch_detach(t->pool);
	free(bulk);
	free(scratch);
}

static void
tree_unmake(Tree *t)
{
	nm_pool_destroy(t->pool);
	free(t->book);
	free(t->shared);
}

/* The tree as it must be after all that. */
static void
tree_check(Tree *t)
{
	NmTree handle;
	void *scratch = calloc(1, nm_tree_scratch_size());
	char msg[256];

	nm_epoch_attach(t->pool, MAX_CLIENTS);
	nm_tree_open(&handle, t->pool, t->shared, scratch);
	if (nm_tree_check(&handle, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) != NM_OK)
	{
		fprintf(stderr, "timeline: %s\n", msg);
		exit(1);
	}
	nm_tree_close(&handle);
	nm_epoch_detach(t->pool);
	free(scratch);
}

/* Bytes from the start of the pool that have memory. */
static size_t
committed(const Tree *t)
{
	NmPoolStats stats;
	size_t n = 0;

	nm_pool_stats(t->pool, &stats);
	while (n < t->pool->arena_bytes && nm_pool_backed(t->pool, (NmPageNo) (n / NM_PAGE_SIZE + 1)))
		n += NM_CHUNK_SIZE;
	if (n != stats.committed[0])
	{
		fprintf(stderr, "timeline: the pool has gaps\n");
		exit(1);
	}
	return n;
}

static void *
run_client(void *arg)
{
	Client *c = arg;
	const Options *o = c->o;
	NmTree tree;
	void *scratch = calloc(1, nm_tree_scratch_size());
	NmBatch *batch = calloc(1, sizeof(NmBatch));
	NmScan *scan = calloc(1, sizeof(NmScan));
	uint64_t random = (uint64_t) c->number + 1;
	uint64_t sets = 0;
	uint64_t ticks = (uint64_t) (o->seconds * 1e9) / TICK_NS;
	long per_tick = o->rate * TICK_NS / 1000000000 / o->clients;

	nm_epoch_attach(c->tree->pool, c->number);
	nm_tree_open(&tree, c->tree->pool, c->tree->shared, scratch);
	if (o->realtime)
		pc_realtime(true);
	(void) pthread_barrier_wait(c->start);
	for (uint64_t tick = 0; tick < ticks; tick++)
	{
		uint64_t due = *c->zero + tick * TICK_NS;
		uint64_t now = nm_now_ns();

		if (now < due)
		{
			struct timespec ts = {.tv_sec = (time_t) (due / 1000000000), .tv_nsec = (long) (due % 1000000000)};

			while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
				;
		}
		for (long i = 0; i < per_tick; i++)
		{
			uint64_t number = next_random(&random) % o->entries;
			NmItem item = {.key = (int64_t) (number * KEY_STEP)};
			uint64_t after;

			if (i % 11 == 10)
			{
				uint64_t tid = (o->entries + sets++ * (uint64_t) o->clients + (uint64_t) c->number) << 16 | 1;

				if (nm_tree_insert(&tree, &item, tid, NULL, NULL) != NM_OK)
					c->bad++;
			}
			else
			{
				NmBound lo = {.item = item, .tid = NM_TID_MIN};
				NmBound hi = {.item = item, .tid = NM_TID_MAX};

				nm_scan_init(scan, &tree, NM_FORWARD, &lo, &hi);
				/* the oldest entry of the key is the one loaded */
				if (nm_scan_next(scan, batch) != NM_OK || batch->tids[0] != (number << 16 | 1))
					c->bad++;
			}
			after = nm_now_ns();
			{
				uint64_t bucket = (after - *c->zero) / BUCKET_NS;

				pc_hist_add(&c->buckets[bucket < (uint64_t) c->nbuckets ? bucket : (uint64_t) c->nbuckets - 1], after - due);
			}
		}
	}
	if (o->realtime)
		pc_realtime(false);
	nm_tree_close(&tree);
	nm_epoch_detach(c->tree->pool);
	free(scratch);
	free(batch);
	free(scan);
	return NULL;
}

typedef struct Background
{
	NmPostcopy *pc;
	pthread_barrier_t *start;
	const uint64_t *zero;
	uint64_t done_ns;
} Background;

static void *
fill_rest(void *arg)
{
	Background *b = arg;
	size_t cursor = 0;

	(void) pthread_barrier_wait(b->start);
	while (cursor < nm_postcopy_cells(b->pc))
	{
		int r = nm_postcopy_fill_some(b->pc, &cursor, 1);

		if (r < 0)
		{
			errno = -r;
			pc_give_up("background");
		}
	}
	b->done_ns = nm_now_ns() - *b->zero;
	return NULL;
}

static void
run_way(const Options *o, Way way, int cell_pages, long delay_us, int run)
{
	Tree tree;
	size_t bytes;
	PcSnapshot snapshot = {.fd = -1, .delay_ns = delay_us * 1000};
	PcSpace space = {.snapshot = &snapshot, .cell_pages = cell_pages};
	PcMethod method = {.kind = way == WAY_QUEUE ? PC_QUEUE : PC_FAULTER, .fill = NM_PC_COPY, .handlers = 1};
	bool lazy = way >= WAY_QUEUE;
	PcView view;
	pthread_barrier_t start;
	uint64_t zero = 0;
	pthread_t threads[MAX_CLIENTS],
		filler;
	Client clients[MAX_CLIENTS];
	Background background = {.start = &start, .zero = &zero};
	bool fill = way == WAY_FAULTER_BACKGROUND;
	/* clients may be late: room for it */
	int nbuckets = (int) (o->seconds * 1e9 / BUCKET_NS) * 20 + 1;
	char *copy;

	tree_make(&tree, o);
	bytes = committed(&tree);
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (copy == MAP_FAILED)
		pc_give_up("mmap");
	memcpy(copy, tree.pool->base, bytes);
	snapshot.bytes = copy;
	snapshot.npages = space.npages = bytes / NM_PC_PAGE;
	space.base = tree.pool->base;
	space.memfd = tree.pool->memfd;
	if (way != WAY_PRESENT && madvise(tree.pool->base, bytes, MADV_REMOVE) != 0)
		pc_give_up("MADV_REMOVE");
	if (lazy)
	{
		space.shared = calloc(1, nm_postcopy_shared_size(bytes, cell_pages));
		nm_postcopy_shared_init(space.shared, bytes, cell_pages);
		pc_view_open(&view, &space, &method, o->realtime);
		background.pc = view.pc;
	}
	(void) pthread_barrier_init(&start, NULL, (unsigned) o->clients + 1 + fill);
	for (int i = 0; i < o->clients; i++)
	{
		clients[i] = (Client){.o = o, .tree = &tree, .start = &start, .zero = &zero, .number = i, .nbuckets = nbuckets};
		clients[i].buckets = calloc((size_t) nbuckets, sizeof(PcHist));
		if (pthread_create(&threads[i], NULL, run_client, &clients[i]) != 0)
			pc_give_up("thread");
	}
	if (fill && pthread_create(&filler, NULL, fill_rest, &background) != 0)
		pc_give_up("thread");
	zero = nm_now_ns();
	if (way == WAY_WHOLE)
	{
		/* in the order of the file, 64 pages a fetch; the clients' clock runs */
		if (o->realtime)
			pc_realtime(true);
		for (size_t at = 0; at < bytes; at += 64 * NM_PC_PAGE)
		{
			if (snapshot.delay_ns)
			{
				struct timespec ts = {.tv_nsec = snapshot.delay_ns};

				(void) nanosleep(&ts, NULL);
			}
			memcpy(tree.pool->base + at, copy + at, bytes - at < 64 * NM_PC_PAGE ? bytes - at : 64 * NM_PC_PAGE);
		}
		if (o->realtime)
			pc_realtime(false);
		background.done_ns = nm_now_ns() - zero;
	}
	(void) pthread_barrier_wait(&start);
	for (int i = 0; i < o->clients; i++)
		(void) pthread_join(threads[i], NULL);
	if (fill)
		(void) pthread_join(filler, NULL);
	if (lazy)
	{
		for (size_t p = 0; p < space.npages; p++)
			(void) *(volatile char *) (space.base + p * NM_PC_PAGE);
		pc_view_close(&view);
		free(space.shared);
	}
	for (int i = 0; i < o->clients; i++)
	{
		if (clients[i].bad)
		{
			fprintf(stderr, "timeline: %s: %llu operations went wrong\n", way_names[way], (unsigned long long) clients[i].bad);
			exit(1);
		}
		for (int b = 0; i > 0 && b < nbuckets; b++)
			pc_hist_merge(&clients[0].buckets[b], &clients[i].buckets[b]);
	}
	for (int b = 0; b < nbuckets; b++)
	{
		const PcHist *h = &clients[0].buckets[b];

		if (h->n == 0 && b >= (int) (o->seconds * 1e9 / BUCKET_NS))
			continue;
		printf("%s,%d,%ld,%d,%zu,%llu,%d,%llu,%llu,%llu,%llu\n", way_names[way], lazy ? cell_pages : 0, delay_us, run, space.npages,
			   (unsigned long long) background.done_ns, b * (BUCKET_NS / 1000000), (unsigned long long) h->n,
			   (unsigned long long) pc_hist_percentile(h, 0.5), (unsigned long long) pc_hist_percentile(h, 0.99), (unsigned long long) h->max);
	}
	fflush(stdout);
	for (int i = 0; i < o->clients; i++)
		free(clients[i].buckets);
	(void) munmap(copy, bytes);
	tree_check(&tree);
	tree_unmake(&tree);
}

static void
usage(void)
{
	fprintf(stderr, "usage: timeline [--entries N] [--clients N] [--rate OPS] [--seconds S] [--runs N] [--delay US] [--realtime]\n");
	exit(2);
}

static double
number(const char *s, double least, double max)
{
	char *end;
	double n = strtod(s, &end);

	if (end == s || *end != '\0' || !(n >= least) || n > max)
		usage();
	return n;
}

int
main(int argc, char **argv)
{
	static const struct option known[] = {
		{"entries", required_argument, NULL, 'n'}, {"clients", required_argument, NULL, 'c'}, {"rate", required_argument, NULL, 'r'}, {"seconds", required_argument, NULL, 's'}, {"runs", required_argument, NULL, 'u'}, {"delay", required_argument, NULL, 'd'}, {"realtime", no_argument, NULL, 't'}, {NULL, 0, NULL, 0}};
	static const struct
	{
		Way way;
		int cell_pages;
	} rows[] = {{WAY_PRESENT, 1}, {WAY_WHOLE, 1}, {WAY_QUEUE, 1}, {WAY_QUEUE, 16}, {WAY_FAULTER, 1}, {WAY_FAULTER, 16}, {WAY_FAULTER_BACKGROUND, 16}};
	Options o = {.entries = 4000000, .clients = 4, .rate = 100000, .seconds = 3, .runs = 3, .delay_us = 100};
	int c;

	while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
	{
		switch (c)
		{
			case 'n':
				o.entries = (uint64_t) number(optarg, 1000, 1e9);
				break;
			case 'c':
				o.clients = (int) number(optarg, 1, MAX_CLIENTS);
				break;
			case 'r':
				o.rate = (long) number(optarg, 1000, 1e8);
				break;
			case 's':
				o.seconds = number(optarg, 0.1, 100);
				break;
			case 'u':
				o.runs = (int) number(optarg, 1, 1000);
				break;
			case 'd':
				o.delay_us = (long) number(optarg, 0, 900000);
				break;
			case 't':
				o.realtime = true;
				break;
			default:
				usage();
		}
	}
	if (optind < argc || o.rate * (TICK_NS / 1000) / 1000000 < o.clients)
		usage();
	(void) prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	printf("way,cell_pages,delay_us,run,pages,filled_ns,ms,ops,p50_ns,p99_ns,max_ns\n");
	for (int run = 0; run < o.runs; run++)
		for (int slow = 0; slow < 2; slow++)
			for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
				run_way(&o, rows[i].way, rows[i].cell_pages, slow ? o.delay_us : 0, run);
	return 0;
}

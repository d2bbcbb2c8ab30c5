/*-------------------------------------------------------------------------
 *
 * test_tree_threads.c
 *	  The tree under concurrency: threads, and forked processes.
 *
 * Entries are numbered in the tree's order and carry their number in the TID,
 * so that a scan sees at once whether order, completeness and "exactly once"
 * hold.  Runs of permanent entries alternate with runs of churning ones.  A
 * churning entry belongs to one owner, who knows its state and checks every
 * answer; doomed and killable entries are left to vacuum and to scans that
 * mark them.  Meanwhile pages are relocated and the structure is checked.
 *
 * IDENTIFICATION
 *	  test/unit/test_tree_threads.c
 *
 *-------------------------------------------------------------------------
 */
#include "treelib.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Rng rng;

enum State
{
	ABSENT,
	PRESENT,
	DOOMED,
	KILLABLE
};

/* Entries in a run: churning ones in a row fill some leaves.  Set before workers start. */
static int run_length;

/* Owner 0's operations per phase: enough to fill or empty four runs. */
#define PHASE_OPS	((uint64_t) run_length * 21)
#define MAX_WORKERS 12

typedef struct World
{
	const Universe *u;
	NmPool *pool;
	NmTreeShared *shared;
	bool leave_epoch;
	int nentries;
	int nowners;
	int per_key; /* entries with the same key */
	_Atomic unsigned char *state;
	_Atomic int stop;
	_Atomic uint64_t phase;
	_Atomic uint64_t ops,
		scans,
		vacuums,
		unlinked,
		marked,
		relocated,
		checks;
} World;

static inline bool
permanent(int i)
{
	return (i / run_length) % 4 == 0;
}

static inline int
key_of(const World *w, int i)
{
	return i / w->per_key;
}

static inline uint64_t
tid_of(int i)
{
	return make_tid((uint64_t) i, 1 + (uint64_t) i % 3);
}

static inline enum State
state_of(const World *w, int i)
{
	return (enum State) atomic_load_explicit(&w->state[i], memory_order_acquire);
}

static inline void
set_state(World *w, int i, enum State s)
{
	atomic_store_explicit(&w->state[i], (unsigned char) s, memory_order_release);
}

/* Does the batch's entry j have entry i's key? */
static bool
batch_key_is(const World *w, const NmBatch *b, int j, int i)
{
	return batch_shows(b, j, w->u->layout, &w->u->items[key_of(w, i)]);
}

/* ---- owners ---- */

static bool
lookup(World *w, NmTree *tree, NmBatch *b, int i, Rng *r)
{
	NmBound lo = {.item = w->u->items[key_of(w, i)], .tid = tid_of(i)};
	NmBound hi = lo;
	NmScan scan;
	NmStatus st;

	hi.tid++;
	nm_scan_init(&scan, tree, rng_below(r, 2) ? NM_FORWARD : NM_BACKWARD, &lo, &hi);
	scan.most = rng_below(r, 3) == 0 ? 1 + (int) rng_below(r, 100) : 0;
	st = nm_scan_next(&scan, b);
	if (st != NM_OK && st != NM_END)
		fault("lookup: %s", status_name(st));
	if (st == NM_OK && (b->n != 1 || b->tids[0] != tid_of(i)))
		fault("lookup shows %d entries, tid %llx for %llx", b->n, (unsigned long long) b->tids[0], (unsigned long long) tid_of(i));
	return st == NM_OK;
}

static void
owner_loop(World *w, NmTree *tree, NmBatch *b, int me, Rng *r)
{
	uint64_t n = 0;

	while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
	{
		/* all owners fill a region, then empty it, then go to another */
		uint64_t phase = atomic_load_explicit(&w->phase, memory_order_relaxed);
		Rng where = {phase / 2};
		bool grow = phase % 2 == 0;
		int i = (int) rng_below(r, (uint64_t) w->nentries);
		const NmItem *item = &w->u->items[key_of(w, i)];
		NmStatus st;

		if (permanent(i))
		{
			if (rng_below(r, 8) == 0 && !lookup(w, tree, b, i, r))
				fault("permanent entry %d is not found", i);
			continue;
		}
		if (rng_below(r, 10) > 0)
			i = (int) (rng_below(&where, (uint64_t) w->nentries) / (4 * (uint64_t) run_length) * (4 * (uint64_t) run_length) +
					   rng_below(r, 4 * (uint64_t) run_length));
		/* neighbours belong to different owners */
		i = i / w->nowners * w->nowners + me;
		if (i >= w->nentries || permanent(i))
			continue;
		item = &w->u->items[key_of(w, i)];
		n++;
		if (me == 0 && n % PHASE_OPS == 0)
			atomic_fetch_add_explicit(&w->phase, 1, memory_order_relaxed);
		tree->arena = (int) rng_below(r, 2);
		switch (state_of(w, i))
		{
			case ABSENT:
				if (rng_below(r, 8) == 0)
				{
					if (lookup(w, tree, b, i, r))
						fault("entry %d is found although absent", i);
					st = nm_tree_delete(tree, item, tid_of(i));
					if (st != NM_NOT_FOUND)
						fault("delete of an absent entry: %s", status_name(st));
				}
				else if (grow)
				{
					st = nm_tree_insert(tree, item, tid_of(i), NULL, NULL);
					if (st != NM_OK)
						fault("insert of entry %d: %s", i, status_name(st));
					set_state(w, i, PRESENT);
				}
				break;
			case PRESENT:
				if (rng_below(r, 4) == 0)
				{
					if (!lookup(w, tree, b, i, r))
						fault("entry %d is not found although present", i);
					st = nm_tree_insert(tree, item, tid_of(i), NULL, NULL);
					if (st != NM_EXISTS)
						fault("insert of a present entry: %s", status_name(st));
				}
				else if (!grow)
				{
					switch (rng_below(r, 3))
					{
						case 0:
							st = nm_tree_delete(tree, item, tid_of(i));
							if (st != NM_OK)
								fault("delete of a present entry: %s", status_name(st));
							set_state(w, i, ABSENT);
							break;
						case 1:
							set_state(w, i, DOOMED);
							break;
						default:
							set_state(w, i, KILLABLE);
					}
				}
				break;
			default:
				break; /* vacuum's */
		}
	}
	atomic_fetch_add(&w->ops, n);
}

/* ---- scanners ---- */

static void
scanner_loop(World *w, NmTree *tree, NmBatch *b, Rng *r)
{
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
	{
		NmDirection dir = rng_below(r, 2) ? NM_FORWARD : NM_BACKWARD;
		int from = rng_below(r, 2) ? 0 : (int) rng_below(r, (uint64_t) w->nentries);
		int to = rng_below(r, 2) ? w->nentries : from + (int) rng_below(r, (uint64_t) (w->nentries - from));
		NmBound lo = {.item = w->u->items[key_of(w, from)], .tid = tid_of(from)};
		NmBound hi = bound_high;
		NmScan scan;
		NmStatus st;
		int last = dir == NM_FORWARD ? from - 1 : to;
		int nbatches = 0;
		bool kills = rng_below(r, 2);

		if (to < w->nentries)
		{
			memset(&hi, 0, sizeof(hi));
			hi.item = w->u->items[key_of(w, to)];
			hi.tid = tid_of(to);
		}
		nm_scan_init(&scan, tree, dir, &lo, &hi);
		scan.most = rng_below(r, 3) == 0 ? 1 + (int) rng_below(r, 100) : 0;
		scan.with_killed = rng_below(r, 4) == 0;
		while ((st = nm_scan_next(&scan, b)) == NM_OK)
		{
			int idx[NM_LEAF_MAX_ENTRIES];
			int nidx = 0;

			for (int j = 0; j < b->n; j++)
			{
				int i = (int) (b->tids[j] >> 16);

				if (i < from || i >= to || b->tids[j] != tid_of(i) || !batch_key_is(w, b, j, i))
				{
					fault("%s scan shows what is not its: entry %d of [%d, %d)",
						  dir == NM_FORWARD ? "forward" : "backward", i, from, to);
					return;
				}
				if (dir == NM_FORWARD ? i <= last : i >= last)
				{
					fault("%s scan shows entry %d after %d", dir == NM_FORWARD ? "forward" : "backward", i, last);
					return;
				}
				for (int k = last + dir; k != i; k += dir)
				{
					if (permanent(k))
					{
						fault("%s scan misses permanent entry %d between %d and %d",
							  dir == NM_FORWARD ? "forward" : "backward", k, last, i);
						return;
					}
				}
				last = i;
				if (kills && state_of(w, i) == KILLABLE)
					idx[nidx++] = j;
			}
			if (rng_below(r, 16) == 0)
				sched_yield();
			if (rng_below(r, 4) == 0)
				scan_hop(&scan);
			(void) nm_batch_unremoved(tree, b);
			if (nidx > 0)
				atomic_fetch_add(&w->marked, (uint64_t) nm_tree_kill(tree, b, idx, nidx));
			/* turn round at times: the next one the other way */
			if (++nbatches % 7 == 0 && rng_below(r, 4) == 0)
			{
				dir = dir == NM_FORWARD ? NM_BACKWARD : NM_FORWARD;
				nm_scan_reposition(&scan, dir, &w->u->items[key_of(w, last)], tid_of(last));
			}
			if (atomic_load_explicit(&w->stop, memory_order_relaxed))
				break;
		}
		if (st == NM_END)
		{
			for (int k = last + dir; k >= from && k < to; k += dir)
			{
				if (permanent(k))
				{
					fault("%s scan of [%d, %d) ends after %d, misses permanent entry %d",
						  dir == NM_FORWARD ? "forward" : "backward", from, to, last, k);
					break;
				}
			}
			atomic_fetch_add(&w->scans, 1);
		}
		else if (st != NM_OK)
			fault("scan: %s", status_name(st));
	}
}

/* ---- vacuum ---- */

typedef struct VacuumArg
{
	World *w;
	int last;
	unsigned char *asked; /* was DOOMED or KILLABLE at the start */
} VacuumArg;

static bool
vacuum_dead(void *arg, uint64_t tid)
{
	VacuumArg *va = arg;
	int i = (int) (tid >> 16);
	enum State s;

	if (i <= va->last || i >= va->w->nentries || tid != tid_of(i))
		fault("vacuum visits entry %d after %d", i, va->last);
	for (int k = va->last + 1; k < i; k++)
		if (permanent(k))
		{
			fault("vacuum misses permanent entry %d between %d and %d", k, va->last, i);
			break;
		}
	va->last = i;
	s = state_of(va->w, i);
	return s == DOOMED || s == KILLABLE;
}

static void
vacuum_loop(World *w, NmTree *tree, NmBatch *b, Rng *r)
{
	VacuumArg va = {.w = w, .asked = calloc((size_t) w->nentries, 1)};

	while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
	{
		NmVacuum vac = {.dead = vacuum_dead, .arg = &va};
		NmStatus st;

		for (int i = 0; i < w->nentries; i++)
			va.asked[i] = state_of(w, i) >= DOOMED;
		va.last = -1;
		st = nm_tree_vacuum(tree, &vac);
		if (st != NM_OK)
			fault("vacuum: %s", status_name(st));
		for (int k = va.last + 1; k < w->nentries; k++)
			if (permanent(k))
			{
				fault("vacuum ends after entry %d, misses permanent %d", va.last, k);
				break;
			}
		/* what it was to remove is gone; nobody else may have put it back */
		for (int i = 0; i < w->nentries; i++)
			if (va.asked[i])
			{
				if (i % 8 == 0 && lookup(w, tree, b, i, r))
					fault("entry %d is still found after vacuum", i);
				set_state(w, i, ABSENT);
			}
		atomic_fetch_add(&w->vacuums, 1);
		atomic_fetch_add(&w->unlinked, (uint64_t) vac.pages_deleted);
	}
	free(va.asked);
}

/* ---- relocation and checks ---- */

static int
want_random(void *arg, NmPageNo page, uint64_t lid)
{
	(void) page;
	(void) lid;
	return (int) rng_below(arg, 3) - 1;
}

static void
relocate_loop(World *w, NmTree *tree, Rng *r)
{
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
	{
		NmRelocate job = {.level = rng_below(r, 4) ? 0 : 1 + (int) rng_below(r, 2), .want = want_random, .arg = r};
		char msg[300];
		NmStatus st;

		job.max_pages = 1 + (int) rng_below(r, 20);
		for (int calls = 0; !job.done && calls < 100; calls++)
		{
			st = nm_tree_relocate(tree, &job);
			if (st != NM_OK)
			{
				fault("relocate: %s", status_name(st));
				break;
			}
			nm_pool_reclaim(w->pool);
		}
		atomic_fetch_add(&w->relocated, (uint64_t) job.moved);
		if (rng_below(r, 4) == 0)
		{
			st = nm_tree_check(tree, NM_CHECK_ANY_TIME, msg, sizeof(msg), NULL, NULL);
			if (st != NM_OK && st != NM_STALE)
				fault("check beside writers: %s: %s", status_name(st), msg);
			atomic_fetch_add(&w->checks, 1);
		}
	}
}

typedef struct Worker
{
	World *w;
	int number;
	uint64_t seed;
} Worker;

static void *
worker_main(void *arg)
{
	Worker *wk = arg;
	World *w = wk->w;
	Rng r = {wk->seed};
	NmBatch *b = malloc(sizeof(NmBatch));
	NmTree *tree;

	nm_epoch_attach(w->pool, wk->number + 1);
	tree = handle_open(w->pool, w->shared, w->u, w->leave_epoch);
	if (wk->number < w->nowners)
		owner_loop(w, tree, b, wk->number, &r);
	else if (wk->number == w->nowners)
		vacuum_loop(w, tree, b, &r);
	else if (wk->number == w->nowners + 1)
		relocate_loop(w, tree, &r);
	else
		scanner_loop(w, tree, b, &r);
	if (nm_epoch_inside(w->pool) || nm_version_locks_held())
		fault("worker %d ends with a section or a lock", wk->number);
	handle_close(tree);
	nm_epoch_detach(w->pool);
	free(b);
	return NULL;
}

/* A worker that every test has has not come to anything yet. */
static bool
somebody_idle(World *w)
{
	return atomic_load(&w->scans) == 0 || atomic_load(&w->vacuums) == 0 || atomic_load(&w->relocated) == 0;
}

/*
 * Run the workers for a while, as threads or processes; longer if the machine
 * has no time for one of them.
 */
static void
run_workers(World *w, int nworkers, bool processes, int ms)
{
	static Worker wk[MAX_WORKERS];
	pthread_t th[MAX_WORKERS];
	pid_t pid[MAX_WORKERS];

	for (int i = 0; i < nworkers; i++)
	{
		wk[i] = (Worker){
			w, i, rng_next(&rng)};
		if (processes)
		{
			fflush(stdout);
			pid[i] = fork();
			if (pid[i] == 0)
			{
				worker_main(&wk[i]);
				_exit(0);
			}
		}
		else
			pthread_create(&th[i], NULL, worker_main, &wk[i]);
	}
	for (int t = 0; (t < ms || (somebody_idle(w) && t < 60000)) && faults_so_far() == 0; t += 20)
		usleep(20000);
	atomic_store(&w->stop, 1);
	for (int i = 0; i < nworkers; i++)
	{
		int status = 0;

		if (!processes)
			pthread_join(th[i], NULL);
		else if (waitpid(pid[i], &status, 0) < 0 || status != 0)
			fault("worker %d: status %x", i, (unsigned) status);
	}
}

static void
test_churn(const char *name, Universe *u, int per_key, int run, bool leave_epoch, bool processes, int ms)
{
	World *w = shared_mem(sizeof(World));
	NmTree *tree;
	Model m;
	uint64_t root;
	uint64_t before;

	run_length = run;
	w->u = u;
	w->per_key = per_key;
	w->nentries = u->n * per_key;
	w->nowners = 2;
	w->leave_epoch = leave_epoch;
	w->pool = pool_make(2, 16, 32, 16);
	nm_pool_free(w->pool, nm_pool_alloc(w->pool, 0, false, NULL, NULL));
	before = pool_live_pages(w->pool);
	w->shared = shared_make(u, 90);
	w->state = shared_mem((size_t) w->nentries);
	tree = handle_open(w->pool, w->shared, u, leave_epoch);
	if (nm_tree_create(tree) != NM_OK)
		fault("create");
	for (int i = 0; i < w->nentries; i++)
		if (permanent(i) && nm_tree_insert(tree, &u->items[key_of(w, i)], tid_of(i), NULL, NULL) != NM_OK)
			fault("insert at first");

	run_workers(w, 6, processes, ms);

	/* quiet again: the whole truth */
	model_init(&m, u);
	for (int i = 0; i < w->nentries; i++)
	{
		/* what is vacuum's may be there or not: remove it first */
		if (state_of(w, i) >= DOOMED)
			(void) nm_tree_delete(tree, &u->items[key_of(w, i)], tid_of(i));
		else if (permanent(i) || state_of(w, i) == PRESENT)
			model_add(&m, key_of(w, i), tid_of(i));
	}
	if (faults_so_far() == 0)
		verify_tree(tree, &m, "after the storm");
	diag("%s: %llu owner operations, %llu scans, %llu vacuums, %llu leaves unlinked, %llu marked, %llu relocated, %llu checks, %llu splits, %llu restarts",
		 name, (unsigned long long) w->ops, (unsigned long long) w->scans, (unsigned long long) w->vacuums,
		 (unsigned long long) w->unlinked, (unsigned long long) w->marked, (unsigned long long) w->relocated,
		 (unsigned long long) w->checks, (unsigned long long) w->shared->splits, (unsigned long long) w->shared->restarts);
	ok(w->ops > 0 && w->scans > 0 && w->vacuums > 0 && w->relocated > 0, "%s: everybody got to work", name);
	root = nm_tree_detach(w->shared);
	handle_close(tree);
	if (faults_so_far() == 0)
	{
		nm_tree_free_pages(w->pool, u->layout, root);
		nm_pool_reclaim(w->pool);
		if (pool_live_pages(w->pool) != before)
			fault("%lld pages are lost", (long long) (pool_live_pages(w->pool) - before));
	}
	ok(faults() == 0, "%s", name);
	model_free(&m);
	pool_unmake(w->pool);
	universe_free(u);
}

/* ---- unique guard ---- */

#define STRIPES	   16
#define RACERS	   4
#define MAX_UNIQUE 4000

typedef struct Race
{
	NmPool *pool;
	NmTreeShared *shared;
	const Universe *u;
	int nkeys; /* even keys of the universe are raced for */
	int ndead; /* old entries per key, not counting */
	pthread_mutex_t stripe[STRIPES];
	_Atomic int wins[MAX_UNIQUE];
	_Atomic int running;
	_Atomic uint64_t stale,
		lost;
} Race;

#define DEAD_OFFSET 1000

static void
racer_loop(Race *race, NmTree *tree, NmBatch *b, int me, Rng *r)
{
	int order[8];

	for (int base = 0; base < race->nkeys; base += 8)
	{
		int n = race->nkeys - base < 8 ? race->nkeys - base : 8;

		for (int j = 0; j < n; j++)
		{
			int k = (int) rng_below(r, (uint64_t) j + 1);

			order[j] = order[k];
			order[k] = base + j;
		}
		for (int j = 0; j < n; j++)
		{
			int key = order[j];
			const NmItem *item = &race->u->items[key * 2];
			NmBound lo = {.item = *item, .tid = NM_TID_MIN};
			NmBound hi = {.item = *item, .tid = NM_TID_MAX};
			uint64_t tid = make_tid(rng_below(r, 1000000), 1 + (uint64_t) me);

			for (;;)
			{
				NmGuard guard = {0};
				NmStatus st = nm_tree_first_leaf(tree, &lo, &guard);
				pthread_mutex_t *stripe = &race->stripe[guard.lid % STRIPES];
				NmScan scan;
				bool there = false;

				if (st != NM_OK)
				{
					fault("first_leaf: %s", status_name(st));
					return;
				}
				pthread_mutex_lock(stripe);
				nm_scan_init(&scan, tree, NM_FORWARD, &lo, &hi);
				if (key % 4 != 0)
					nm_scan_guard(&scan, &guard);
				while (!there && (st = nm_scan_next(&scan, b)) == NM_OK)
					for (int x = 0; x < b->n; x++)
						if ((b->tids[x] & 0xFFFF) < DEAD_OFFSET)
							there = true;
				if (there)
				{
					pthread_mutex_unlock(stripe);
					atomic_fetch_add(&race->lost, 1);
					break;
				}
				if (rng_below(r, 4) == 0)
					sched_yield();
				st = nm_tree_insert(tree, item, tid, &guard, NULL);
				pthread_mutex_unlock(stripe);
				if (st == NM_OK)
				{
					atomic_fetch_add(&race->wins[key], 1);
					break;
				}
				if (st != NM_STALE)
				{
					fault("guarded insert: %s", status_name(st));
					return;
				}
				atomic_fetch_add(&race->stale, 1);
			}
		}
	}
	atomic_fetch_sub(&race->running, 1);
}

static bool
odd_dead(void *arg, uint64_t tid)
{
	(void) arg;
	return (tid & 0xFFFF) == 500;
}

/* Fills the gaps between the raced keys and empties them again. */
static void
noise_loop(Race *race, NmTree *tree, Rng *r)
{
	uint64_t n = 0;

	while (atomic_load(&race->running) > 0)
	{
		int at = (int) rng_below(r, (uint64_t) race->nkeys);

		for (int j = 0; j < 300 && at + j < race->nkeys; j++)
			if (nm_tree_insert(tree, &race->u->items[(at + j) * 2 + 1], make_tid(n++, 500), NULL, NULL) != NM_OK)
				fault("insert of noise");
		if (rng_below(r, 3) == 0)
		{
			NmVacuum vac = {.dead = odd_dead};

			nm_tree_vacuum(tree, &vac);
		}
		if (rng_below(r, 3) == 0)
		{
			NmRelocate job = {.want = want_random, .arg = r, .max_pages = 10};

			while (!job.done && nm_tree_relocate(tree, &job) == NM_OK)
				;
		}
	}
}

typedef struct Racer
{
	Race *race;
	int number;
	uint64_t seed;
} Racer;

static void *
racer_main(void *arg)
{
	Racer *rc = arg;
	Race *race = rc->race;
	Rng r = {rc->seed};
	NmBatch *b = malloc(sizeof(NmBatch));
	NmTree *tree;

	nm_epoch_attach(race->pool, rc->number + 1);
	tree = handle_open(race->pool, race->shared, race->u, false);
	if (rc->number < RACERS)
		racer_loop(race, tree, b, rc->number, &r);
	else
		noise_loop(race, tree, &r);
	handle_close(tree);
	nm_epoch_detach(race->pool);
	free(b);
	return NULL;
}

static void
test_unique(const char *name, Universe *u, int ndead)
{
	Race *race = shared_mem(sizeof(Race));
	NmTree *tree;
	Racer rc[RACERS + 1];
	pthread_t th[RACERS + 1];
	NmBound lo = {.tid = NM_TID_MIN};
	NmBound hi = {.tid = NM_TID_MAX};
	static NmBatch b;
	int wrong = 0;
	char msg[300];

	race->u = u;
	race->nkeys = u->n / 2 < MAX_UNIQUE ? u->n / 2 : MAX_UNIQUE;
	race->ndead = ndead;
	race->pool = pool_make(2, 32, 64, 16);
	race->shared = shared_make(u, 90);
	for (int i = 0; i < STRIPES; i++)
		pthread_mutex_init(&race->stripe[i], NULL);
	tree = handle_open(race->pool, race->shared, u, false);
	if (ndead > 0)
	{
		NmBulk *bulk = aligned_alloc(64, (nm_bulk_size() + 63) / 64 * 64);

		nm_bulk_begin(bulk, tree, 0);
		for (int k = 0; k < race->nkeys; k++)
			for (int d = 0; d < ndead; d++)
				if (nm_bulk_add(bulk, &u->items[k * 2], make_tid((uint64_t) d * 3000, DEAD_OFFSET)) != NM_OK)
					fault("bulk_add");
		if (nm_bulk_finish(bulk) != NM_OK)
			fault("bulk_finish");
		free(bulk);
	}
	else if (nm_tree_create(tree) != NM_OK)
		fault("create");
	atomic_store(&race->running, RACERS);
	for (int i = 0; i <= RACERS; i++)
	{
		rc[i] = (Racer){
			race, i, rng_next(&rng)};
		pthread_create(&th[i], NULL, racer_main, &rc[i]);
	}
	for (int i = 0; i <= RACERS; i++)
		pthread_join(th[i], NULL);

	for (int k = 0; k < race->nkeys; k++)
	{
		NmScan scan;
		int live = 0;

		lo.item = hi.item = u->items[k * 2];
		nm_scan_init(&scan, tree, NM_FORWARD, &lo, &hi);
		while (nm_scan_next(&scan, &b) == NM_OK)
			for (int x = 0; x < b.n; x++)
				live += (b.tids[x] & 0xFFFF) < DEAD_OFFSET;
		if (live != 1 || race->wins[k] != 1)
		{
			if (wrong++ == 0)
				diag("key %d: %d winners, %d entries", k, race->wins[k], live);
		}
	}
	if (nm_tree_check(tree, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) != NM_OK)
		fault("check: %s", msg);
	ok(wrong == 0 && faults() == 0, "unique: one winner for each of %d keys, %s (%llu stale, %llu lost, %llu splits, %llu unlinked)",
	   race->nkeys, name, (unsigned long long) race->stale, (unsigned long long) race->lost,
	   (unsigned long long) race->shared->splits, (unsigned long long) race->shared->deletes);
	handle_close(tree);
	pool_unmake(race->pool);
	universe_free(u);
}

static Universe *
merged(Universe *u)
{
	u->merge = true;
	return u;
}

int
main(void)
{
	int ms;
	int n;

	rng.s = tap_start("test_tree_threads");
#if defined(NM_TSAN)
	ms = 3000;
	n = 1000; /* a small tree: much happens to each page */
#else
	ms = 2500;
	n = 2000;
#endif
	/* processes first: no threads have run when they fork */
	test_churn("processes, general, leaves the section", universe_general(&rng, n / 2, true, false, 60), 2, 60, true, true, ms);
	test_churn("processes, fixed", universe_fixed(&rng, 2 * n, true, false), 1, 160, false, true, ms);
	test_churn("threads, fixed", universe_fixed(&rng, 2 * n, true, false), 1, 160, false, false, ms);
	test_churn("threads, fixed, duplicates", universe_fixed(&rng, 20, true, true), n / 10, 160, false, false, ms);
	test_churn("threads, general", universe_general(&rng, n, true, false, 40), 1, 60, false, false, ms);
	test_churn("threads, general, no heads, long keys, leaves the section", universe_general(&rng, n / 4, false, false, NM_MAX_KEY_SIZE), 3, 20, true, false, ms);
	/* equal keys stored once */
	test_churn("processes, general, duplicates merged", merged(universe_general(&rng, 40, true, false, 60)), n / 3, 1600, true, true, ms / 2);
	test_churn("threads, fixed, duplicates merged", merged(universe_fixed(&rng, 40, true, true)), n / 2, 2500, false, false, ms);
	test_churn("threads, general, duplicates merged", merged(universe_general(&rng, 40, true, false, 40)), n / 3, 1600, false, false, ms);
	test_churn("threads, general, some duplicates merged, long keys, no heads", merged(universe_general(&rng, n / 16, false, false, 900)), 100, 300, true, false, ms / 2);
	test_unique("fixed", universe_fixed(&rng, 8000, false, false), 0);
	test_unique("fixed, many dead ones", universe_fixed(&rng, scaled(400) + 40, false, false), 500);
	test_unique("general", universe_distinct(universe_general(&rng, 4000, true, false, 100)), 0);
	test_unique("general, many dead ones", universe_distinct(universe_general(&rng, scaled(200) + 20, true, false, 20)), 300);
	test_unique("fixed, many dead ones merged", merged(universe_fixed(&rng, scaled(400) + 40, false, false)), 500);
	test_unique("general, many dead ones merged", merged(universe_distinct(universe_general(&rng, scaled(200) + 20, true, false, 20))), 300);
	return tap_done();
}

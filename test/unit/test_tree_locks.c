/*-------------------------------------------------------------------------
 *
 * test_tree_locks.c
 *	  Locks on logical leaves, as a user's predicate locks take them.
 *
 * Rounds of readers and writers in threads, beside vacuum and relocation.  A
 * reader locks each leaf before it reads it; a writer inserts and then looks
 * for locks on the leaf its entry went to.  Of each pair of a reader's range
 * and an entry in it, one must have seen the other: the reader the entry, or
 * the writer the lock.  Locks are passed on late, and sometimes an error comes
 * in between.
 *
 * The moments between a split or an unlink and the passing on of locks are also
 * looked at one by one, in one thread: the leaf must name the one its range
 * came from.
 *
 * That with leaves of runs, too, which split without the entry that they are
 * split for. They hold so much that threads would seldom see one split.
 *
 * IDENTIFICATION
 *	  test/unit/test_tree_locks.c
 *
 *-------------------------------------------------------------------------
 */
#include "treelib.h"

#include "btree/page.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READERS	 3	 /* threads */
#define WRITERS	 3	 /* threads */
#define RANGES	 16	 /* per reader and round: one bit each */
#define WRITES	 200 /* per writer and round */
#define MAX_LIDS (1 << 18)
#define NTHREADS (READERS + WRITERS + 1)

static Rng rng;

/* Leaves that store equal keys once; nobody else is at work. */
static int
count_leaves_of_runs(NmTree *tree)
{
	NmPageNo no;
	int count = 0;

	if (nm_leftmost(tree, 0, &no) != NM_OK)
		fault("no leftmost leaf");
	for (; no != NM_NO_PAGE; no = nm_page(tree, no)->right)
		count += (nm_page(tree, no)->flags & NM_PF_RUNS) != 0;
	return count;
}

/* Trees over the universe store equal keys once. */
static Universe *
merged(Universe *u)
{
	u->merge = true;
	return u;
}

typedef struct Written
{
	int k;
	uint64_t tid;
	uint64_t conflicts; /* ranges whose lock was found */
} Written;

typedef struct Read
{
	int from,
		to; /* keys of the universe, both included */
	bool saw[WRITERS * WRITES];
} Read;

typedef struct Locks
{
	NmPool *pool;
	NmTreeShared *shared;
	const Universe *u;
	pthread_mutex_t mutex;
	uint64_t *mask; /* by logical id: ranges that hold a lock */
	pthread_barrier_t barrier;
	_Atomic int writing;
	int round;
	bool over;
	bool errors;
	Written written[WRITERS * WRITES];
	Read read[READERS * RANGES];
	/* what happened */
	_Atomic uint64_t passed,
		broken,
		origins,
		found,
		seen;
} Locks;

typedef struct Worker
{
	Locks *locks;
	int number;
	Rng r;
	NmTree *tree;
	int range; /* the reader's, now */
	jmp_buf jump;
	bool may_jump;
} Worker;

static void
lock_leaf(void *arg, uint32_t lid)
{
	Worker *w = arg;

	if (lid == 0 || lid >= MAX_LIDS)
	{
		fault("logical id %llu", (unsigned long long) lid);
		return;
	}
	pthread_mutex_lock(&w->locks->mutex);
	w->locks->mask[lid] |= UINT64_C(1) << w->range;
	pthread_mutex_unlock(&w->locks->mutex);
	if (rng_below(&w->r, 4) == 0)
		sched_yield();
}

static void
pass_locks(void *arg, uint32_t from, uint32_t to)
{
	Worker *w = arg;

	if (nm_epoch_inside(w->locks->pool) || nm_version_locks_held())
		fault("locks are passed on with something held");
	if (from == to || from == 0 || to == 0 || from >= MAX_LIDS || to >= MAX_LIDS)
	{
		fault("locks passed from %llu to %llu", (unsigned long long) from, (unsigned long long) to);
		return;
	}
	if (rng_below(&w->r, 2) == 0)
		usleep(300);
	if (w->locks->errors && w->may_jump && rng_below(&w->r, 2) == 0)
	{
		atomic_fetch_add(&w->locks->broken, 1);
		longjmp(w->jump, 1);
	}
	pthread_mutex_lock(&w->locks->mutex);
	w->locks->mask[to] |= w->locks->mask[from];
	pthread_mutex_unlock(&w->locks->mutex);
	atomic_fetch_add(&w->locks->passed, 1);
}

static uint64_t
locks_on(Locks *locks, uint64_t lid)
{
	uint64_t mask;

	pthread_mutex_lock(&locks->mutex);
	mask = locks->mask[lid];
	pthread_mutex_unlock(&locks->mutex);
	return mask;
}

static NmStatus
insert_or_jump(Worker *w, const NmItem *item, uint64_t tid)
{
	w->tree->leaf_id = 0;
	w->may_jump = true;
	if (setjmp(w->jump) == 0)
	{
		NmStatus st = nm_tree_insert(w->tree, item, tid, NULL, NULL);

		w->may_jump = false;
		return st;
	}
	w->may_jump = false;
	/* broken off before it was in: again, or it is not there to be seen */
	if (w->tree->leaf_id == 0)
		return nm_tree_insert(w->tree, item, tid, NULL, NULL);
	return NM_OK;
}

static void
write_some(Worker *w)
{
	Locks *locks = w->locks;
	int me = w->number - READERS;
	/* near each other, so that leaves split, and not always the same ones */
	int base = (int) rng_below(&w->r, (uint64_t) locks->u->n);

	for (int i = 0; i < WRITES; i++)
	{
		Written *wr = &locks->written[me * WRITES + i];
		NmStatus st;

		wr->k = (base + (int) rng_below(&w->r, 3)) % locks->u->n;
		wr->tid = make_tid((uint64_t) locks->round, 1 + (uint64_t) (me * WRITES + i));
		st = insert_or_jump(w, &locks->u->items[wr->k], wr->tid);
		if (st != NM_OK)
			fault("insert: %s", status_name(st));
		if (rng_below(&w->r, 4) == 0)
			sched_yield();
		wr->conflicts = locks_on(locks, w->tree->leaf_id);
		if (w->tree->leaf_origin != 0)
		{
			atomic_fetch_add(&locks->origins, 1);
			wr->conflicts |= locks_on(locks, w->tree->leaf_origin);
		}
	}
	atomic_fetch_sub(&locks->writing, 1);
}

static void
read_some(Worker *w, NmBatch *b)
{
	Locks *locks = w->locks;

	for (int i = 0; i < RANGES; i++)
	{
		Read *rd = &locks->read[w->number * RANGES + i];
		NmBound lo = {.tid = NM_TID_MIN};
		NmBound hi = {.tid = NM_TID_MAX};
		NmScan scan;
		NmStatus st;
		bool backward = rng_below(&w->r, 2) == 0;

		w->range = w->number * RANGES + i;
		rd->from = (int) rng_below(&w->r, (uint64_t) locks->u->n);
		rd->to = rd->from + (int) rng_below(&w->r, rng_below(&w->r, 2) ? 400 : 3);
		if (rd->to >= locks->u->n)
			rd->to = locks->u->n - 1;
		memset(rd->saw, 0, sizeof(rd->saw));
		lo.item = locks->u->items[rd->from];
		hi.item = locks->u->items[rd->to];
		nm_scan_init(&scan, w->tree, backward ? NM_BACKWARD : NM_FORWARD, &lo, &hi);
		scan.lock_leaf = lock_leaf;
		scan.lock_leaf_arg = w;
		while ((st = nm_scan_next(&scan, b)) == NM_OK)
			for (int x = 0; x < b->n; x++)
				if (b->tids[x] >> 16 == (uint64_t) locks->round)
					rd->saw[(b->tids[x] & 0x7FFF) - 1] = true;
		if (st != NM_END)
			fault("scan: %s", status_name(st));
	}
}

/* Entries of earlier rounds go, but for a few that keep the tree standing. */
static bool
old_round(void *arg, uint64_t tid)
{
	Locks *locks = arg;

	return tid >> 16 != 0 && tid >> 16 != (uint64_t) locks->round;
}

static int
want_random(void *arg, NmPageNo page, uint64_t lid)
{
	(void) page;
	(void) lid;
	return (int) rng_below(arg, 2);
}

static void
disturb(Worker *w)
{
	Locks *locks = w->locks;

	while (atomic_load(&locks->writing) > 0)
	{
		NmVacuum vac = {.dead = old_round, .arg = locks};
		NmRelocate job = {.want = want_random, .arg = &w->r, .max_pages = 10};

		w->may_jump = true;
		if (setjmp(w->jump) == 0 && nm_tree_vacuum(w->tree, &vac) != NM_OK)
			fault("vacuum");
		w->may_jump = false;
		while (!job.done && nm_tree_relocate(w->tree, &job) == NM_OK)
			;
	}
}

static void
judge(Locks *locks)
{
	for (int r = 0; r < READERS * RANGES; r++)
	{
		const Read *rd = &locks->read[r];

		for (int i = 0; i < WRITERS * WRITES; i++)
		{
			const Written *wr = &locks->written[i];
			int klass = locks->u->klass[wr->k];

			if (klass < locks->u->klass[rd->from] || klass > locks->u->klass[rd->to])
				continue;
			if (rd->saw[i])
				atomic_fetch_add(&locks->seen, 1);
			else if (wr->conflicts & UINT64_C(1) << r)
				atomic_fetch_add(&locks->found, 1);
			else
				fault("round %d: range %d read without entry %d, which was written without its lock",
					  locks->round, r, i);
		}
	}
	memset(locks->mask, 0, MAX_LIDS * sizeof(locks->mask[0]));
}

static void *
worker_main(void *arg)
{
	Worker *w = arg;
	Locks *locks = w->locks;
	NmBatch *b = malloc(sizeof(NmBatch));

	nm_epoch_attach(locks->pool, w->number + 1);
	w->tree = handle_open(locks->pool, locks->shared, locks->u, false);
	w->tree->pass_locks = pass_locks;
	w->tree->pass_locks_arg = w;
	for (;;)
	{
		pthread_barrier_wait(&locks->barrier); /* the round is set */
		if (locks->over)
			break;
		if (w->number < READERS)
			read_some(w, b);
		else if (w->number < READERS + WRITERS)
			write_some(w);
		else
			disturb(w);
		pthread_barrier_wait(&locks->barrier);
	}
	handle_close(w->tree);
	nm_epoch_detach(locks->pool);
	free(b);
	return NULL;
}

static bool
everything_happened(Locks *locks)
{
	return locks->seen > 0 && locks->found > 0 && locks->passed > 0 && locks->origins > 0 &&
		   locks->shared->deletes > 0 && (!locks->errors || locks->broken > 0);
}

static void
test_locks(const char *name, Universe *u, bool errors)
{
	static Locks locks;
	static Worker w[NTHREADS];
	pthread_t th[NTHREADS];
	NmTree *tree;
	char msg[300];

	memset(&locks, 0, sizeof(locks));
	locks.u = u;
	locks.errors = errors;
	locks.pool = pool_make(2, 32, 64, 16);
	locks.shared = shared_make(u, 90);
	locks.mask = calloc(MAX_LIDS, sizeof(locks.mask[0]));
	pthread_mutex_init(&locks.mutex, NULL);
	pthread_barrier_init(&locks.barrier, NULL, NTHREADS + 1);
	tree = handle_open(locks.pool, locks.shared, u, false);
	if (nm_tree_create(tree) != NM_OK)
		fault("create");
	/* few stay, so that whole leaves become empty */
	for (int k = 0; k < u->n; k += 300)
		if (nm_tree_insert(tree, &u->items[k], make_tid(0, 1 + (uint64_t) k), NULL, NULL) != NM_OK)
			fault("insert at first");

	for (int i = 0; i < NTHREADS; i++)
	{
		memset(&w[i], 0, sizeof(w[i]));
		w[i].locks = &locks;
		w[i].number = i;
		w[i].r.s = rng_next(&rng);
		pthread_create(&th[i], NULL, worker_main, &w[i]);
	}
	for (int round = 1; !locks.over; round++)
	{
		locks.round = round;
		locks.over = round > scaled(30) && (round > 1000 || everything_happened(&locks));
		atomic_store(&locks.writing, WRITERS);
		pthread_barrier_wait(&locks.barrier);
		if (locks.over)
			break;
		pthread_barrier_wait(&locks.barrier);
		if (faults_so_far() == 0)
			judge(&locks);
	}
	for (int i = 0; i < NTHREADS; i++)
		pthread_join(th[i], NULL);
	if (nm_tree_check(tree, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) != NM_OK)
		fault("check: %s", msg);
	ok(everything_happened(&locks), "%s: everything happened", name);
	ok(faults() == 0,
	   "%s: %llu entries seen, %llu locks found, %llu passed on, %llu times not, origin looked at %llu times, %llu splits, %llu unlinked",
	   name, (unsigned long long) locks.seen, (unsigned long long) locks.found, (unsigned long long) locks.passed,
	   (unsigned long long) locks.broken, (unsigned long long) locks.origins,
	   (unsigned long long) locks.shared->splits, (unsigned long long) locks.shared->deletes);
	handle_close(tree);
	pool_unmake(locks.pool);
	free(locks.mask);
	universe_free(u);
}

/* ---- one thread ---- */

#define PER_KEY 10 /* entries, and places at them */

/* The place of entry i % PER_KEY of key i / PER_KEY; a few stay when all go. */
static uint64_t
place_tid(int i)
{
	return make_tid(i % (200 * PER_KEY) == 0 ? 1 : 10 + i % PER_KEY, 1 + i / PER_KEY);
}

typedef struct Window
{
	NmTree *other; /* a second handle */
	const Universe *u;
	uint64_t *lid; /* by place: of the leaf it belongs to, as locked */
	uint64_t windows;
} Window;

static void
look_around(void *arg, uint32_t from, uint32_t to)
{
	Window *win = arg;
	int moved = 0;

	for (int k = 0; k < win->u->n * PER_KEY; k++)
	{
		NmBound at = {.item = win->u->items[k / PER_KEY], .tid = place_tid(k)};
		NmGuard leaf;
		uint64_t lid;

		if (nm_tree_first_leaf(win->other, &at, &leaf) != NM_OK)
			fault("first_leaf");
		lid = leaf.lid;
		if (lid == win->lid[k])
			continue;
		if (lid != to || win->lid[k] != from || win->other->leaf_origin != from)
			fault("place %d: leaf %llu became %llu with origin %llu when %llu was passed on to %llu", k,
				  (unsigned long long) win->lid[k], (unsigned long long) lid, (unsigned long long) win->other->leaf_origin,
				  (unsigned long long) from, (unsigned long long) to);
		win->lid[k] = lid;
		moved++;
	}
	if (moved == 0)
		fault("locks were passed on from %llu to %llu for nothing", (unsigned long long) from, (unsigned long long) to);
	win->windows++;
}

static bool
all_but_few(void *arg, uint64_t tid)
{
	(void) arg;
	return tid >> 16 > 1;
}

static void
test_window(const char *name, Universe *u)
{
	NmPool *pool = pool_make(1, 32, 32, 8);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *tree = handle_open(pool, shared, u, false);
	Window win = {.u = u};
	uint64_t splits;
	int runs = 0;
	int *order = malloc(u->n * sizeof(int));
	char msg[300];

	nm_epoch_attach(pool, 1);
	if (nm_tree_create(tree) != NM_OK)
		fault("create");
	win.other = handle_open(pool, shared, u, false);
	win.lid = malloc(u->n * PER_KEY * sizeof(uint64_t));
	for (int k = 0; k < u->n * PER_KEY; k++)
		win.lid[k] = 1;
	tree->pass_locks = win.other->pass_locks = look_around;
	tree->pass_locks_arg = win.other->pass_locks_arg = &win;
	for (int round = 0; round < 3; round++)
	{
		NmVacuum vac = {.dead = all_but_few};

		for (int k = 0; k < u->n; k++)
		{
			int j = (int) rng_below(&rng, (uint64_t) k + 1);

			order[k] = order[j];
			order[j] = k;
		}
		for (int i = 0; i < u->n; i++)
			for (int n = 0; n < PER_KEY; n++)
			{
				NmStatus st = nm_tree_insert(tree, &u->items[order[i]], place_tid(order[i] * PER_KEY + n), NULL, NULL);

				if (st != NM_OK && st != NM_EXISTS)
					fault("insert: %s", status_name(st));
			}
		runs += count_leaves_of_runs(tree);
		for (int i = 0; i < 2; i++)
			if (nm_tree_vacuum(tree, &vac) != NM_OK)
				fault("vacuum");
	}
	/* every id that a key ever had was passed on to the one it has now */
	for (int k = 0; k < u->n * PER_KEY; k++)
	{
		NmBound at = {.item = u->items[k / PER_KEY], .tid = place_tid(k)};
		NmGuard leaf;

		if (nm_tree_first_leaf(tree, &at, &leaf) != NM_OK || leaf.lid != win.lid[k] || tree->leaf_origin != 0)
			fault("place %d: leaf %llu, origin %llu in the end", k, (unsigned long long) leaf.lid, (unsigned long long) tree->leaf_origin);
	}
	if (nm_tree_check(tree, NM_CHECK_QUIET, msg, sizeof(msg), NULL, NULL) != NM_OK)
		fault("check: %s", msg);
	splits = (uint64_t) (shared->nleaves - 1) + shared->deletes; /* of leaves */
	ok(faults() == 0 && win.windows == splits + shared->deletes && shared->deletes > 0 && (runs > 0) == u->merge,
	   "%s: every split and unlink names where the range came from (%llu windows, %llu unlinked, %d leaves of runs)", name,
	   (unsigned long long) win.windows, (unsigned long long) shared->deletes, runs);
	handle_close(win.other);
	handle_close(tree);
	free(win.lid);
	free(order);
	nm_epoch_detach(pool);
	pool_unmake(pool);
	universe_free(u);
}

int
main(void)
{
	rng.s = tap_start("test_tree_locks");
	test_window("fixed", universe_fixed(&rng, scaled(1000) + 100, false, false));
	test_window("general", universe_general(&rng, scaled(500) + 50, true, false, 100));
	test_window("general, long keys", universe_general(&rng, scaled(80) + 20, false, false, NM_MAX_KEY_SIZE));
	test_window("merged: fixed", merged(universe_fixed(&rng, scaled(1000) + 100, false, false)));
	test_window("merged: general", merged(universe_split(universe_general(&rng, scaled(500) + 50, true, false, 60))));
	test_window("merged: general, no heads", merged(universe_general(&rng, scaled(300) + 50, false, false, 200)));
	test_locks("fixed", universe_fixed(&rng, 3000, false, false), false);
	test_locks("fixed, errors", universe_fixed(&rng, 3000, true, false), true);
	test_locks("general, errors", universe_general(&rng, 1500, true, false, 200), true);
	test_locks("general, long keys", universe_general(&rng, 300, false, false, NM_MAX_KEY_SIZE), false);
	return tap_done();
}

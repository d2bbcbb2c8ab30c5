/*-------------------------------------------------------------------------
 *
 * test_epoch.c
 *	  Epoch sections, retired pages and grace tokens: one process, several
 *	  processes, many threads.
 *
 * IDENTIFICATION
 *	  test/unit/test_epoch.c
 *
 *-------------------------------------------------------------------------
 */
#include "tap.h"
#include "pool/pool_int.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static Rng rng;

static NmPageNo
take(NmPool *pool)
{
	return nm_pool_alloc(pool, 0, false, NULL, NULL);
}

static uint64_t
retired_pages(NmPool *pool)
{
	NmPoolStats s;

	nm_pool_stats(pool, &s);
	return s.retired / NM_PAGE_SIZE;
}

static void
test_single(void)
{
	NmPool *pool = pool_make(1, 8, 8, 4);
	NmPageNo pages[1000];
	uint64_t token;
	uint64_t later;

	ok(!nm_epoch_inside(pool), "outside at first");
	nm_epoch_enter(pool);
	ok(nm_epoch_inside(pool), "inside");
	nm_epoch_exit(pool);
	ok(!nm_epoch_inside(pool), "outside again");
	nm_epoch_enter(pool);
	nm_epoch_reset(pool);
	nm_epoch_reset(pool);
	ok(!nm_epoch_inside(pool), "reset leaves, twice is no harm");

	nm_pool_retire(pool, take(pool));
	ok(nm_pool_reclaim(pool) == 1 && retired_pages(pool) == 0, "no section: reclaimed at once");

	pages[0] = take(pool);
	nm_epoch_enter(pool);
	nm_pool_retire(pool, pages[0]);
	ok(nm_pool_reclaim(pool) == 0 && nm_pool_reclaim(pool) == 0, "a section that was open holds it");
	nm_epoch_exit(pool);
	nm_epoch_enter(pool);
	ok(nm_pool_reclaim(pool) == 1, "a section opened later does not");
	nm_epoch_exit(pool);

	/* a long chain of sections delays nothing for ever */
	for (int i = 0; i < 1000; i++)
		pages[i] = take(pool);
	nm_epoch_enter(pool);
	for (int i = 0; i < 1000; i++)
	{
		nm_pool_retire(pool, pages[i]);
		nm_epoch_exit(pool);
		nm_epoch_enter(pool);
	}
	ok(retired_pages(pool) < 200, "retiring frees now and then (%llu wait)", (unsigned long long) retired_pages(pool));
	nm_epoch_exit(pool);
	ok(nm_pool_reclaim(pool) < 200 && retired_pages(pool) == 0 && pool_live_pages(pool) == 0, "the rest by reclaim");

	token = nm_pool_grace_token(pool);
	ok(nm_pool_grace_passed(pool, token), "grace: nobody inside");
	nm_epoch_enter(pool);
	token = nm_pool_grace_token(pool);
	later = nm_pool_grace_token(pool);
	ok(!nm_pool_grace_passed(pool, token) && !nm_pool_grace_passed(pool, later), "grace: an open section holds it");
	nm_epoch_exit(pool);
	nm_epoch_enter(pool);
	ok(nm_pool_grace_passed(pool, token) && nm_pool_grace_passed(pool, later), "grace: a later section does not");
	later = nm_pool_grace_token(pool);
	ok(nm_pool_grace_passed(pool, token) && !nm_pool_grace_passed(pool, later), "grace: tokens are told apart");
	nm_epoch_exit(pool);
	nm_epoch_detach(pool);
	nm_epoch_detach(pool);
	ok(!nm_epoch_inside(pool), "detach, twice is no harm");
	nm_epoch_attach(pool, 3);
	nm_epoch_enter(pool);
	token = nm_pool_grace_token(pool);
	ok(!nm_pool_grace_passed(pool, token), "the last slot counts");
	nm_epoch_exit(pool);
	pool_unmake(pool);
}

/* A child that does what single letters on a pipe tell it, and echoes them. */
typedef struct Child
{
	pid_t pid;
	int to;
	int from;
} Child;

static Child
child_start(NmPool *pool, int slot)
{
	Child c;
	int down[2];
	int up[2];

	if (pipe(down) != 0 || pipe(up) != 0)
		_exit(2);
	fflush(stdout);
	c.pid = fork();
	if (c.pid == 0)
	{
		char ch;

		close(down[1]);
		close(up[0]);
		nm_epoch_attach(pool, slot);
		while (read(down[0], &ch, 1) == 1)
		{
			if (ch == 'e')
				nm_epoch_enter(pool);
			else if (ch == 'x')
				nm_epoch_exit(pool);
			else if (ch == 'r')
				for (int i = 0; i < 10; i++)
					nm_pool_retire(pool, take(pool));
			else if (ch == 'q')
				_exit(0);
			if (write(up[1], &ch, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	c.to = down[1];
	c.from = up[0];
	return c;
}

static void
child_tell(Child *c, char ch)
{
	char back = 0;

	if (write(c->to, &ch, 1) != 1 || (ch != 'q' && (read(c->from, &back, 1) != 1 || back != ch)))
		fault("child does not answer to %c", ch);
}

static void
child_end(Child *c, bool killed)
{
	int status;

	if (killed)
		kill(c->pid, SIGKILL);
	else
		child_tell(c, 'q');
	waitpid(c->pid, &status, 0);
	close(c->to);
	close(c->from);
	if (!killed && status != 0)
		fault("child ended with status %d", status);
}

static void
test_processes(void)
{
	NmPool *pool = pool_make(1, 8, 8, 8);
	Child c = child_start(pool, 1);
	Child d = child_start(pool, 2);
	uint64_t token;

	child_tell(&c, 'e');
	for (int i = 0; i < 10; i++)
		nm_pool_retire(pool, take(pool));
	ok(nm_pool_reclaim(pool) == 0 && retired_pages(pool) == 10, "a section in another process blocks reclamation");
	child_tell(&d, 'e');
	ok(nm_pool_reclaim(pool) == 0, "still, with a second reader");
	child_tell(&c, 'x');
	ok(nm_pool_reclaim(pool) == 10, "its end frees the pages, although a later section is open");
	child_tell(&d, 'x');

	child_tell(&c, 'e');
	child_tell(&d, 'r');
	child_end(&d, false);
	ok(retired_pages(pool) == 10 && nm_pool_reclaim(pool) == 0, "the queue outlives the process that retired");
	child_tell(&c, 'x');
	ok(nm_pool_reclaim(pool) == 10 && pool_live_pages(pool) == 0, "and is freed by another");

	child_tell(&c, 'e');
	token = nm_pool_grace_token(pool);
	child_tell(&c, 'x');
	child_tell(&c, 'e');
	ok(nm_pool_grace_passed(pool, token), "grace over processes");
	nm_pool_retire(pool, take(pool));
	token = nm_pool_grace_token(pool);
	child_end(&c, true);
	ok(nm_pool_reclaim(pool) == 0 && !nm_pool_grace_passed(pool, token), "a killed reader still counts");
	nm_epoch_detach(pool);
	nm_epoch_attach(pool, 1);
	nm_epoch_detach(pool);
	nm_epoch_attach(pool, 0);
	ok(nm_pool_grace_passed(pool, token) && nm_pool_reclaim(pool) == 1, "until its slot is cleared");
	ok(faults() == 0, "children did as told");
	pool_unmake(pool);
}

/*
 * Readers look up a page number in a shared table inside a section and check
 * that all of the page stays what it was when they found it.  Writers replace
 * pages and retire the old ones; a page freed too early is refilled by someone
 * else under the reader's eyes.
 */
#define NTABLE 8
#define NWORDS 64 /* words checked of a page */

typedef struct Stress
{
	NmPool *pool;
	_Atomic uint32_t table[NTABLE];
	_Atomic int stop;
	_Atomic uint64_t reads;
	_Atomic uint64_t writes;
	int rounds;
} Stress;

static void
fill(NmPool *pool, NmPageNo page, uint64_t what)
{
	uint64_t *w = nm_pool_page(pool, page);

	for (int i = 1; i <= NWORDS; i++)
		w[i] = what;
}

static void
reader_loop(Stress *s, Rng *r)
{
	uint64_t n = 0;

	while (!atomic_load(&s->stop))
	{
		nm_epoch_enter(s->pool);
		for (int k = 0; k < 4; k++)
		{
			int t = (int) rng_below(r, NTABLE);
			NmPageNo page = atomic_load_explicit(&s->table[t], memory_order_acquire);
			uint64_t *w = nm_pool_page(s->pool, page);
			uint64_t first = w[1];

			if (first % NTABLE != (uint64_t) t)
				fault("page %u of entry %d holds %llu", page, t, (unsigned long long) first);
			if (rng_below(r, 200) == 0)
				sched_yield();
			for (int i = 2; i <= NWORDS; i++)
				if (w[i] != first)
					fault("page %u changed under a section", page);
		}
		nm_epoch_exit(s->pool);
		n++;
	}
	atomic_fetch_add(&s->reads, n);
}

static void
writer_loop(Stress *s, Rng *r)
{
	for (int i = 0; i < s->rounds; i++)
	{
		int t = (int) rng_below(r, NTABLE);
		NmPageNo page = nm_pool_alloc(s->pool, (int) rng_below(r, 2), false, NULL, NULL);
		NmPageNo old;

		if (page == NM_NO_PAGE)
		{
			sched_yield();
			continue;
		}
		fill(s->pool, page, rng_below(r, 1000000) * NTABLE + (uint64_t) t);
		old = atomic_exchange(&s->table[t], page);
		nm_pool_retire(s->pool, old);
		if (rng_below(r, 10) == 0)
		{
			/* a page nobody else sees: freed at once */
			NmPageNo own = nm_pool_alloc(s->pool, 0, false, NULL, NULL);

			if (own != NM_NO_PAGE)
			{
				fill(s->pool, own, 7 * NTABLE + 5);
				nm_pool_free(s->pool, own);
			}
		}
		atomic_fetch_add(&s->writes, 1);
	}
}

typedef struct Worker
{
	Stress *s;
	int slot;
	uint64_t seed;
	bool writer;
} Worker;

static void *
worker_main(void *arg)
{
	Worker *w = arg;
	Rng r = {w->seed};

	nm_epoch_attach(w->s->pool, w->slot);
	if (w->writer)
		writer_loop(w->s, &r);
	else
		reader_loop(w->s, &r);
	nm_epoch_detach(w->s->pool);
	return NULL;
}

static void
test_stress(bool processes)
{
	Stress *s = shared_mem(sizeof(Stress));
	Worker w[6];
	pthread_t th[6];
	pid_t pid[6];

	s->pool = pool_make(2, 4, 8, 8);
	s->rounds = scaled(400000);
	for (int t = 0; t < NTABLE; t++)
	{
		NmPageNo page = take(s->pool);

		fill(s->pool, page, (uint64_t) t);
		atomic_store(&s->table[t], page);
	}
	for (int i = 0; i < 6; i++)
	{
		w[i] = (Worker){
			s, i + 1, rng_next(&rng), i < 2};
		if (processes)
		{
			fflush(stdout);
			pid[i] = fork();
			if (pid[i] == 0)
			{
				worker_main(&w[i]);
				_exit(0);
			}
		}
		else
			pthread_create(&th[i], NULL, worker_main, &w[i]);
	}
	for (int i = 0; i < 6; i++)
	{
		int status = 0;

		if (i == 2)
			atomic_store(&s->stop, 1);
		if (!processes)
			pthread_join(th[i], NULL);
		else if (waitpid(pid[i], &status, 0) < 0 || status != 0)
			fault("process %d: status %d", i, status);
	}
	nm_pool_reclaim(s->pool);
	ok(faults() == 0 && atomic_load(&s->writes) > 0, "%s: pages stay while a section sees them (%llu sections, %llu retired)",
	   processes ? "processes" : "threads", (unsigned long long) atomic_load(&s->reads),
	   (unsigned long long) atomic_load(&s->writes));
	ok(retired_pages(s->pool) == 0 && pool_live_pages(s->pool) == NTABLE, "and none is lost");
	pool_unmake(s->pool);
}

int
main(void)
{
	rng.s = tap_start("test_epoch");
	test_single();
	test_processes();
	test_stress(true);
	test_stress(false);
	return tap_done();
}

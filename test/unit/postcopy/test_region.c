/*-------------------------------------------------------------------------
 *
 * test_region.c
 *	  Regions of post-copy on the real kernel: who fills what, when, once.
 *
 * IDENTIFICATION
 *	  test/unit/postcopy/test_region.c
 *
 *-------------------------------------------------------------------------
 */
#include "memory.h"
#include "../../../bench/lib/random.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

/* Every way to fill, every size of cell; the last cell is short. */
static void
every_page_comes_once(void)
{
	static const int sizes[] = {1, 4, 16, 64, 512};

	for (int f = 0; f < NFILLS; f++)
	{
		for (int s = 0; s < 5; s++)
		{
			Memory *m = memory_make(fills[f], 3 * 64 + 5, sizes[s]);
			NmPostcopy *pc = memory_attach(m);
			size_t ncells = (m->npages + (size_t) sizes[s] - 1) / (size_t) sizes[s];
			NmPcStats st;

			CHECK_INT(nm_postcopy_cells(pc), ncells);
			/* the last page first: nothing behind the region may come */
			errno = 4711;
			(void) touch(m, m->npages - 1);
			CHECK_INT(errno, 4711);
			CHECK(!page_exists(m, m->npages));
			CHECK_INT(m->calls, 1);
			for (size_t p = 0; p < m->npages; p++)
				CHECK(page_good(m, p));
			nm_postcopy_stats(pc, &st);
			CHECK_INT(m->calls, ncells);
			CHECK_INT(st.faults, ncells);
			CHECK_INT(st.cells, ncells);
			CHECK_INT(st.pages, m->npages);
			CHECK_INT(st.exists + st.foreign + st.holes + st.failures + st.waits, 0);
			CHECK(nm_postcopy_complete(pc));
			CHECK_INT(nm_postcopy_detach(pc), 0);
			memory_unmake(m);
		}
	}
}

static void
addresses_need_no_alignment(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	NmPostcopy *pc = memory_attach(m);
	NmPcStats st;
	uint64_t word;

	/* the last byte of a page, then a word that lies in two cells */
	CHECK_INT((unsigned char) *(volatile char *) (m->base + 10 * NM_PC_PAGE - 1), (unsigned char) m->snapshot[10 * NM_PC_PAGE - 1]);
	memcpy(&word, m->base + 20 * NM_PC_PAGE - 3, sizeof(word));
	CHECK(memcmp(&word, m->snapshot + 20 * NM_PC_PAGE - 3, sizeof(word)) == 0);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.faults, 3);
	CHECK_INT(st.pages, 12);
	/* a write is as good as a read */
	m->base[40 * NM_PC_PAGE + 100] = 1;
	CHECK_INT(memcmp(m->base + 40 * NM_PC_PAGE, m->snapshot + 40 * NM_PC_PAGE, 100), 0);
	CHECK_INT(m->base[40 * NM_PC_PAGE + 100], 1);
}

typedef struct Toucher
{
	Memory *m;
	uint64_t seed;
	int bad;
} Toucher;

/*
 * Every page in an order of one's own: its content, and one more on a counter
 * in it, which a page filled twice would lose.
 */
static void *
touch_all(void *arg)
{
	Toucher *t = arg;
	Memory *m = t->m;
	size_t *order = malloc(m->npages * sizeof(size_t));

	for (size_t i = 0; i < m->npages; i++)
		order[i] = i;
	for (size_t i = m->npages - 1; i > 0; i--)
	{
		size_t j = next_random(&t->seed) % (i + 1);
		size_t x = order[i];

		order[i] = order[j];
		order[j] = x;
	}
	for (size_t i = 0; i < m->npages; i++)
	{
		char *page = m->base + order[i] * NM_PC_PAGE;

		(void) __atomic_fetch_add((uint64_t *) (void *) (page + NM_PC_PAGE - 8), 1, __ATOMIC_RELAXED);
		if (memcmp(page, m->snapshot + order[i] * NM_PC_PAGE, NM_PC_PAGE - 8) != 0)
			t->bad++;
	}
	free(order);
	return NULL;
}

static void
check_counters(Memory *m, uint64_t touchers)
{
	for (size_t p = 0; p < m->npages; p++)
	{
		uint64_t was;
		uint64_t is;

		memcpy(&was, m->snapshot + (p + 1) * NM_PC_PAGE - 8, 8);
		memcpy(&is, m->base + (p + 1) * NM_PC_PAGE - 8, 8);
		CHECK_INT(is - was, touchers);
	}
}

#define NTHREADS 4

static void
threads_race(void)
{
	for (int f = 0; f < NFILLS; f++)
	{
		for (int cell = 1; cell <= 16; cell *= 16)
		{
			Memory *m = memory_make(fills[f], 1000, cell);
			NmPostcopy *pc;
			pthread_t threads[NTHREADS];
			Toucher touchers[NTHREADS];
			NmPcStats st;

			m->config.buffers = 2; /* fewer than threads */
			pc = memory_attach(m);
			for (int i = 0; i < NTHREADS; i++)
			{
				touchers[i] = (Toucher){.m = m, .seed = (uint64_t) i};
				CHECK_INT(pthread_create(&threads[i], NULL, touch_all, &touchers[i]), 0);
			}
			for (int i = 0; i < NTHREADS; i++)
			{
				(void) pthread_join(threads[i], NULL);
				CHECK_INT(touchers[i].bad, 0);
			}
			check_counters(m, NTHREADS);
			nm_postcopy_stats(pc, &st);
			CHECK_INT(st.pages, m->npages);
			CHECK_INT(m->calls, nm_postcopy_cells(pc));
			CHECK_INT(st.exists + st.foreign + st.holes + st.failures + st.stolen, 0);
			CHECK(nm_postcopy_complete(pc));
			CHECK_INT(nm_postcopy_detach(pc), 0);
			memory_unmake(m);
		}
	}
}

static void
child_touches_all(void *arg)
{
	Toucher *t = arg;
	(void) memory_attach(t->m);
	t->seed = (uint64_t) getpid();
	(void) touch_all(t);
	CHECK_INT(t->bad, 0);
	/* not complete, perhaps: the last pages may be there and another's cell not done */
}

static void
processes_race(void)
{
	for (int f = 0; f < NFILLS; f++)
	{
		Memory *m = memory_make(fills[f], 1000, 4);
		Toucher t = {.m = m};
		NmPostcopy *pc = memory_attach(m); /* children find it when they attach */
		pid_t pids[3];

		fflush(stdout);
		for (int i = 0; i < 3; i++)
		{
			pids[i] = fork();
			if (pids[i] == 0)
			{
				child_touches_all(&t);
				fflush(stdout);
				_exit(check_bad > 0);
			}
		}
		(void) touch_all(&t);
		CHECK_INT(t.bad, 0);
		for (int i = 0; i < 3; i++)
		{
			int status = -1;

			CHECK_INT(waitpid(pids[i], &status, 0), pids[i]);
			CHECK_INT(status, 0);
		}
		CHECK(nm_postcopy_complete(pc));
		check_counters(m, 4);
		for (size_t cell = 0; cell < nm_postcopy_cells(pc); cell++)
			CHECK_INT(m->shared_calls[cell * 4], 1);
		CHECK_INT(nm_postcopy_detach(pc), 0);
		memory_unmake(m);
	}
}

/* Many touch one cell while its source is slow: they wait, one fills. */
static void *
touch_one(void *arg)
{
	Toucher *t = arg;

	t->bad = !page_good(t->m, (size_t) t->seed);
	return NULL;
}

static void
waiters_wait(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 16);
	NmPostcopy *pc = memory_attach(m);
	pthread_t threads[8];
	Toucher touchers[8];
	NmPcStats st;

	m->delay_ns = 300000000; /* longer than a waiter's patience */
	for (int i = 0; i < 8; i++)
	{
		touchers[i] = (Toucher){.m = m, .seed = 16 + (uint64_t) i};
		CHECK_INT(pthread_create(&threads[i], NULL, touch_one, &touchers[i]), 0);
	}
	for (int i = 0; i < 8; i++)
	{
		(void) pthread_join(threads[i], NULL);
		CHECK_INT(touchers[i].bad, 0);
	}
	CHECK_INT(m->calls, 1);
	nm_postcopy_stats(pc, &st);
	CHECK(st.waits > 0);
	CHECK_INT(st.stolen, 0);
	CHECK_INT(st.pages, 16);
}

/* A process that did not attach reads holes: zeros for everyone. */
static void
child_reads(void *arg)
{
	Memory *m = arg;

	CHECK_INT(touch(m, 5), 0);
	CHECK_INT(touch(m, 17), 0);
}

static void
foreign_zero_pages_are_filled(void)
{
	for (int f = 0; f < 2; f++) /* CONTINUE_WRITE excludes such readers */
	{
		Memory *m = memory_make(fills[f], 64, 8);
		NmPostcopy *pc = memory_attach(m);
		NmPcStats st;

		CHECK_INT(in_child(child_reads, m), 0);
		CHECK(page_exists(m, 5));
		CHECK(!page_exists(m, 4));

		/* a neighbour's touch fills the cell, the page with zeros as well */
		(void) touch(m, 4);
		for (size_t p = 0; p < 8; p++)
			CHECK(page_good(m, p));

		if (fills[f] == NM_PC_COPY)
		{
			/* nothing faults here: the user sees a header of zeros, and asks */
			CHECK_INT(touch(m, 17), 0);
			CHECK_INT(nm_postcopy_ensure(pc, m->base + 17 * NM_PC_PAGE, 1), 0);
		}
		CHECK(page_good(m, 17));
		nm_postcopy_stats(pc, &st);
		if (fills[f] == NM_PC_COPY)
			CHECK_INT(st.foreign, 2);
		CHECK_INT(st.pages + st.foreign, 16);
	}
}

/* What has a header already is nobody's to overwrite. */
static void
pages_with_headers_stay(void)
{
	for (int f = 0; f < 2; f++)
	{
		Memory *m = memory_make(fills[f], 64, 8);
		NmPostcopy *pc = memory_attach(m);
		NmPcStats st;

		memset(m->alias + 3 * NM_PC_PAGE, 'x', NM_PC_PAGE);
		(void) touch(m, 0);
		CHECK_INT(touch(m, 3), 'x');
		CHECK_INT(m->base[3 * NM_PC_PAGE + 4095], 'x');
		for (size_t p = 0; p < 8; p++)
			CHECK_INT(page_good(m, p), p != 3);
		nm_postcopy_stats(pc, &st);
		CHECK_INT(st.exists, 1);
		CHECK_INT(st.pages, 7);
	}
}

static bool
odd_header(void *arg, const void *header, size_t page)
{
	const uint64_t *words = header;

	/* a sample of what a user may ask: any word, the page's own number */
	(void) arg;
	return words[3] == page + 1000;
}

static void
header_is_the_users_business(void)
{
	Memory *m = memory_make(NM_PC_COPY, 16, 16);
	NmPostcopy *pc;
	NmPcStats st;

	m->config.header_bytes = 64;
	m->config.present = odd_header;
	pc = memory_attach(m);
	((uint64_t *) (void *) (m->alias + 2 * NM_PC_PAGE))[3] = 1002; /* there */
	((uint64_t *) (void *) (m->alias + 3 * NM_PC_PAGE))[3] = 1002; /* another page's */
	(void) touch(m, 0);
	CHECK(!page_good(m, 2));
	CHECK(page_good(m, 3));
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.exists, 1);
	CHECK_INT(st.foreign, 1);
}

/* Memory given back after it was filled: zeros, never the old content. */
static void
holes_read_as_zeros(void)
{
	for (int f = 0; f < NFILLS; f++)
	{
		Memory *m = memory_make(fills[f], 64, 8);
		NmPostcopy *pc = memory_attach(m);
		NmPcStats st;

		CHECK(page_good(m, 9));
		CHECK_INT(madvise(m->base + 8 * NM_PC_PAGE, 2 * NM_PC_PAGE, MADV_REMOVE), 0);
		CHECK(!page_exists(m, 9));
		CHECK_INT(touch(m, 9), 0);
		CHECK_INT(m->base[10 * NM_PC_PAGE - 1], 0);
		CHECK(page_good(m, 10));
		nm_postcopy_stats(pc, &st);
		CHECK_INT(st.holes, 1);
		CHECK_INT(m->calls, 1);
		/* 8 is a hole still */
		CHECK_INT(nm_postcopy_ensure(pc, m->base + 8 * NM_PC_PAGE, 3 * NM_PC_PAGE), -ENODATA);
		CHECK_INT(nm_postcopy_ensure(pc, m->base + 10 * NM_PC_PAGE, NM_PC_PAGE), 0);
	}
}

static void
forgotten_pages_do_not_come_back(void)
{
	Memory *m = memory_make(NM_PC_COPY, 60, 8); /* the last cell has 4 */
	NmPostcopy *pc = memory_attach(m);

	CHECK(page_good(m, 16));
	CHECK_INT(nm_postcopy_forget(pc, 4, 8), -EINVAL);
	CHECK_INT(nm_postcopy_forget(pc, 8, 4), -EINVAL);
	CHECK_INT(nm_postcopy_forget(pc, 56, 8), -EINVAL);
	CHECK_INT(nm_postcopy_forget(pc, 8, SIZE_MAX), -EINVAL);
	CHECK_INT(nm_postcopy_forget(pc, 8, 16), 0);
	CHECK_INT(nm_postcopy_forget(pc, 56, 4), 0);
	CHECK_INT(madvise(m->base + 8 * NM_PC_PAGE, 16 * NM_PC_PAGE, MADV_REMOVE), 0);
	CHECK_INT(touch(m, 8), 0);	/* never filled */
	CHECK_INT(touch(m, 16), 0); /* filled, forgotten, given back */
	CHECK_INT(touch(m, 57), 0);
	CHECK(page_good(m, 24));
	CHECK_INT(m->calls, 2);
}

/* The kernel's own accesses raise no signal; ensure comes first. */
static void
system_calls_need_ensure(void)
{
	for (int f = 0; f < NFILLS; f++)
	{
		Memory *m = memory_make(fills[f], 64, 4);
		NmPostcopy *pc = memory_attach(m);
		int zero = memfd_create("zeros", MFD_CLOEXEC);

		CHECK_INT(ftruncate(zero, 65536), 0);
		CHECK_INT(read(zero, m->base + 8 * NM_PC_PAGE, 100), -1);
		CHECK_INT(errno, EFAULT);
		CHECK_INT(write(zero, m->base + 8 * NM_PC_PAGE, 100), -1);
		CHECK_INT(errno, EFAULT);
		CHECK_INT(nm_postcopy_ensure(pc, m->base + 9 * NM_PC_PAGE - 1, 4 * NM_PC_PAGE), 0);
		CHECK_INT(m->calls, 2);
		CHECK_INT(write(zero, m->base + 9 * NM_PC_PAGE - 1, 3 * NM_PC_PAGE), 3 * NM_PC_PAGE);
		CHECK_INT(read(zero, m->base + 12 * NM_PC_PAGE, 100), 100);
		/* again, on what is mapped; and arguments */
		CHECK_INT(nm_postcopy_ensure(pc, m->base + 9 * NM_PC_PAGE, NM_PC_PAGE), 0);
		CHECK_INT(nm_postcopy_ensure(pc, m->base, 0), 0);
		CHECK_INT(nm_postcopy_ensure(pc, m->base - 1, 1), -EFAULT);
		CHECK_INT(nm_postcopy_ensure(pc, m->base + 63 * NM_PC_PAGE, NM_PC_PAGE + 1), -EFAULT);
		CHECK_INT(nm_postcopy_ensure(pc, m->base, SIZE_MAX), -EFAULT);
		m->fail_errno = ENXIO;
		CHECK_INT(nm_postcopy_ensure(pc, m->base, 1), -ENXIO);
		CHECK_INT(m->failed_errno, 0); /* an error is an error, not a signal */
		CHECK_INT(nm_postcopy_ensure(pc, m->base, 1), 0);
		(void) close(zero);
	}
}

static void
child_fills_and_detaches(void *arg)
{
	Memory *m = arg;
	NmPostcopy *pc;

	/* inherited, but the parent's: a hole reads as zeros and fills nothing */
	CHECK_INT(touch(m, 60), 0);
	pc = memory_attach(m);
	CHECK(page_good(m, 20));
	CHECK_INT(nm_postcopy_ensure(pc, m->base + 60 * NM_PC_PAGE, 1), 0);
	CHECK(page_good(m, 60));
	CHECK_INT(m->calls, 3); /* one before the fork */
	CHECK_INT(nm_postcopy_detach(pc), 0);
}

static void
fork_needs_its_own(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	NmPostcopy *pc = memory_attach(m);
	NmPcStats st;

	CHECK(page_good(m, 0));
	CHECK_INT(in_child(child_fills_and_detaches, m), 0);
	CHECK(page_exists(m, 20));
	CHECK(page_good(m, 20)); /* there, so no fault */
	CHECK(page_good(m, 40));
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.faults, 2);
	CHECK_INT(m->calls, 2);
}

static void
many_regions(void)
{
	Memory *m[NM_PC_MAX_REGIONS + 1];
	NmPostcopy *pc[NM_PC_MAX_REGIONS];
	int err = 0;

	for (int i = 0; i <= NM_PC_MAX_REGIONS; i++)
	{
		m[i] = memory_make(fills[i % NFILLS], 32, 1 << (i % 4));
		if (i < NM_PC_MAX_REGIONS)
			pc[i] = memory_attach(m[i]);
	}
	CHECK(nm_postcopy_attach(&m[NM_PC_MAX_REGIONS]->config, m[NM_PC_MAX_REGIONS]->shared, &err) == NULL);
	CHECK_INT(err, ENOSPC);
	for (size_t p = 0; p < 32; p++)
		for (int i = 0; i < NM_PC_MAX_REGIONS; i++)
			CHECK(page_good(m[i], p));
	/* a place that became free is used again, the others don't notice */
	CHECK_INT(nm_postcopy_detach(pc[7]), 0);
	pc[7] = memory_attach(m[NM_PC_MAX_REGIONS]);
	CHECK(page_good(m[NM_PC_MAX_REGIONS], 31));
	for (int i = 0; i < NM_PC_MAX_REGIONS; i++)
		CHECK_INT(nm_postcopy_detach(pc[i]), 0);
}

static void
detached_memory_is_ordinary(void)
{
	Memory *m = memory_make(NM_PC_CONTINUE, 64, 4);
	NmPostcopy *pc = memory_attach(m);

	CHECK(page_good(m, 0));
	CHECK(!nm_postcopy_complete(pc));
	CHECK_INT(nm_postcopy_detach(pc), 0);
	CHECK(page_good(m, 3));
	CHECK_INT(touch(m, 4), 0); /* the kernel's zeros */
	CHECK_INT(m->calls, 1);
	/* again: the shared state knows what is there */
	pc = memory_attach(m);
	CHECK(page_good(m, 3));
	CHECK_INT(touch(m, 4), 0); /* mapped since: no fault, so ask */
	CHECK_INT(nm_postcopy_ensure(pc, m->base + 4 * NM_PC_PAGE, 1), 0);
	CHECK(page_good(m, 4));
	CHECK(page_good(m, 5));
	CHECK_INT(m->calls, 2);
}

typedef struct Background
{
	NmPostcopy *pc;
	int filled;
	int bad;
} Background;

static void *
fill_in_background(void *arg)
{
	Background *b = arg;
	size_t cursor = 0;

	while (cursor < nm_postcopy_cells(b->pc))
	{
		int r = nm_postcopy_fill_some(b->pc, &cursor, 3);

		if (r < 0 || r > 3)
			b->bad++;
		else
			b->filled += r;
	}
	return NULL;
}

static void
background_fills_the_rest(void)
{
	for (int f = 0; f < NFILLS; f++)
	{
		Memory *m = memory_make(fills[f], 998, 4);
		NmPostcopy *pc = memory_attach(m);
		Background b = {.pc = pc};
		Toucher t = {.m = m, .seed = 1};
		pthread_t filler,
			toucher;
		NmPcStats st;

		CHECK_INT(pthread_create(&toucher, NULL, touch_all, &t), 0);
		CHECK_INT(pthread_create(&filler, NULL, fill_in_background, &b), 0);
		(void) pthread_join(toucher, NULL);
		(void) pthread_join(filler, NULL);
		CHECK_INT(b.bad + t.bad, 0);
		CHECK(nm_postcopy_complete(pc));
		CHECK_INT(m->calls, 250);
		check_counters(m, 1);
		nm_postcopy_stats(pc, &st);
		CHECK_INT(st.cells, 250);
		CHECK_INT(nm_postcopy_detach(pc), 0);
		memory_unmake(m);
	}
	/* without anybody else it fills everything, and an error stops it there */
	{
		Memory *m = memory_make(NM_PC_COPY, 64, 4);
		NmPostcopy *pc = memory_attach(m);
		size_t cursor = 0;

		CHECK_INT(nm_postcopy_fill_some(pc, &cursor, 5), 5);
		CHECK_INT(cursor, 5);
		m->fail_errno = EIO;
		CHECK_INT(nm_postcopy_fill_some(pc, &cursor, 5), -EIO);
		CHECK_INT(cursor, 5);
		CHECK(!nm_postcopy_complete(pc));
		CHECK_INT(nm_postcopy_fill_some(pc, &cursor, 100), 11);
		CHECK(nm_postcopy_complete(pc));
		CHECK_INT(m->failed_errno, 0);
	}
}

static void
child_dies_filling(void *arg)
{
	Memory *m = arg;

	(void) memory_attach(m);
	m->die = 1;
	(void) touch(m, 8);
	CHECK(!"the source returned");
}

static void
the_dead_are_replaced(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	NmPostcopy *pc = memory_attach(m);
	NmPcStats st;

	CHECK_INT(in_child(child_dies_filling, m), 0);
	CHECK_INT(m->shared_calls[8], 1);
	CHECK(page_good(m, 9));
	CHECK_INT(m->shared_calls[8], 2);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.stolen, 1);
	CHECK_INT(st.waits, 1);
	for (size_t p = 0; p < 64; p++)
		CHECK(page_good(m, p));
	CHECK(nm_postcopy_complete(pc));
}

static void
bad_configs_are_refused(void)
{
	Memory *m = memory_make(NM_PC_CONTINUE, 64, 4);

#define REFUSED(change)                                         \
	do                                                          \
	{                                                           \
		NmPcConfig c = m->config;                               \
		int err = 0;                                            \
                                                                \
		change;                                                 \
		CHECK(nm_postcopy_attach(&c, m->shared, &err) == NULL); \
		CHECK_INT(err, EINVAL);                                 \
	} while (0)

	REFUSED(c.base = m->base + 8);
	REFUSED(c.base = NULL);
	REFUSED(c.bytes = 0);
	REFUSED(c.bytes += 1);
	REFUSED(c.bytes += NM_PC_PAGE); /* the shared part is for another */
	REFUSED(c.cell_pages = 0);
	REFUSED(c.cell_pages = 3);
	REFUSED(c.cell_pages = 8);
	REFUSED(c.cell_pages = 1024);
	REFUSED(c.header_bytes = 0);
	REFUSED(c.header_bytes = 12);
	REFUSED(c.header_bytes = 264);
	REFUSED(c.source = NULL);
	REFUSED(c.buffers = -1);
	REFUSED(c.alias = NULL);
	REFUSED(c.alias = m->alias + 1);
	REFUSED(c.fill = (NmPcFill) 0);
	REFUSED(c.fill = (NmPcFill) 9);
	REFUSED((c.fill = NM_PC_CONTINUE_WRITE, c.memfd = -1));
	REFUSED((c.fill = NM_PC_CONTINUE_WRITE, c.offset = 100));
}

int
main(void)
{
	RUN_APART(every_page_comes_once);
	RUN_APART(addresses_need_no_alignment);
	RUN_APART(threads_race);
	RUN_APART(processes_race);
	RUN_APART(waiters_wait);
	RUN_APART(foreign_zero_pages_are_filled);
	RUN_APART(pages_with_headers_stay);
	RUN_APART(header_is_the_users_business);
	RUN_APART(holes_read_as_zeros);
	RUN_APART(forgotten_pages_do_not_come_back);
	RUN_APART(system_calls_need_ensure);
	RUN_APART(fork_needs_its_own);
	RUN_APART(many_regions);
	RUN_APART(detached_memory_is_ordinary);
	RUN_APART(background_fills_the_rest);
	RUN_APART(the_dead_are_replaced);
	RUN_APART(bad_configs_are_refused);
	return finish();
}

/*-------------------------------------------------------------------------
 *
 * version.c
 *	  Version lock of a page: optimistic readers, short exclusive sections.
 *
 * The word is even when free.  A writer sets bit 0, changes the page, and
 * stores the next even value.  The value never goes down, page reuse included
 * (pool.h), so equality of two readings means that nothing changed between.
 *
 * IDENTIFICATION
 *	  src/btree/version.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"

/* Version locks this process (thread) holds; at most four at once. */
#define NM_MAX_HELD 4
static __thread NmPage *held[NM_MAX_HELD];
static __thread int nheld = 0;

/* Spin a little, then sleep, longer each time up to a millisecond. */
static void
wait_a_little(int *round)
{
	if (++*round < 200)
		nm_cpu_pause();
	else
	{
		struct timespec ts = {0, 20000};

		if (*round > 220)
			ts.tv_nsec = 200000;
		if (*round > 260)
			ts.tv_nsec = 1000000;
		nanosleep(&ts, NULL);
	}
}

/* The rest of nm_page_read_begin: the page was locked a moment ago. */
uint64_t
nm_page_wait(const NmPage *p)
{
	int round = 0;

	for (;;)
	{
		uint64_t v = __atomic_load_n(&p->version, __ATOMIC_ACQUIRE);

		if ((v & NM_LOCKED) == 0)
			return v;
		wait_a_little(&round);
	}
}

static void
note_held(NmPage *p)
{
	NM_ASSERT(nheld < NM_MAX_HELD);
	held[nheld++] = p;
}

/*
 * Lock the page if it is still at this version: what was read at it stays
 * true.  Holds interrupts until unlock.
 */
bool
nm_page_upgrade(NmPage *p, uint64_t version)
{
	NM_ASSERT((version & NM_LOCKED) == 0);
	NM_HOLD_INTERRUPTS();
	if (!__atomic_compare_exchange_n(&p->version, &version, version | NM_LOCKED,
									 false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
	{
		NM_RESUME_INTERRUPTS();
		return false;
	}
	/* the lock bit must be seen before any change of the page */
	NM_FENCE_RELEASE();
	note_held(p);
	return true;
}

/* Lock, waiting.  Only with no other version lock held, or on a private page. */
void
nm_page_lock(NmPage *p)
{
	for (;;)
	{
		uint64_t v = nm_page_read_begin(p);

		if (nm_page_upgrade(p, v))
			return;
	}
}

void
nm_page_unlock(NmPage *p)
{
	uint64_t v = __atomic_load_n(&p->version, __ATOMIC_RELAXED);
	int i;

	NM_ASSERT(v & NM_LOCKED);
	for (i = nheld - 1; i >= 0; i--)
	{
		if (held[i] == p)
		{
			held[i] = held[--nheld];
			break;
		}
	}
	NM_ASSERT(i >= 0);
	__atomic_store_n(&p->version, (v & ~NM_LOCKED) + 2, __ATOMIC_RELEASE);
	NM_RESUME_INTERRUPTS();
}

bool
nm_version_locks_held(void)
{
	return nheld > 0;
}

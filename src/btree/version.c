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

/* ThreadSanitizer knows no fences; on its platforms loads are ordered anyway. */
#ifdef NM_TSAN
#define NM_FENCE_ACQUIRE() __asm__ __volatile__("" :: \
													: "memory")
#define NM_FENCE_RELEASE() __asm__ __volatile__("" :: \
													: "memory")
#else
#define NM_FENCE_ACQUIRE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define NM_FENCE_RELEASE() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif

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

/* Version of a page that is not locked; waits while it is. */
uint64_t
nm_page_read_begin(const NmPage *p)
{
	uint64_t v = __atomic_load_n(&p->version, __ATOMIC_ACQUIRE);
	int round = 0;

	while (nm_unlikely(v & NM_LOCKED))
	{
		wait_a_little(&round);
		v = __atomic_load_n(&p->version, __ATOMIC_ACQUIRE);
	}
	return v;
}

/* Has nothing changed since that version was read? */
bool
nm_page_validate(const NmPage *p, uint64_t version)
{
	NM_FENCE_ACQUIRE();
	return __atomic_load_n(&p->version, __ATOMIC_ACQUIRE) == version;
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

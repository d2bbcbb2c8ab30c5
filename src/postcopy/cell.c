/*-------------------------------------------------------------------------
 *
 * cell.c
 *	  Who fills a cell: one word per cell in shared memory.
 *
 * IDENTIFICATION
 *	  src/postcopy/cell.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <sys/syscall.h>
#include <unistd.h>

/*
 * The thread's id and the process it was asked in.  Static thread-local storage:
 * a signal handler may use it.
 */
static __thread struct
{
	pid_t process;
	uint32_t thread;
} self __attribute__((tls_model("initial-exec")));

uint32_t
nm_pc_thread(void)
{
	if (*nm_pc_process == 0 || self.process != *nm_pc_process)
	{
		self.thread = (uint32_t) syscall(SYS_gettid);
		self.process = *nm_pc_process;
	}
	return self.thread;
}

/* How often a waiter looks whether the filler still lives. */
#define LOOK_NS 50000000

/*
 * Take a cell.  The acquire on the word pairs with the release of
 * nm_pc_release: who sees DONE sees the bytes.
 */
NmPcClaim
nm_pc_claim(NmPostcopy *pc, size_t cell, bool wait)
{
	uint32_t *word = &pc->shared->cells[cell];
	uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	uint32_t mine;
	bool waited = false;

	if (seen == NM_CELL_DONE)
		return NM_CLAIM_DONE;
	mine = nm_pc_thread() << 2 | NM_CELL_OWNED;
	for (;;)
	{
		if (seen == NM_CELL_DONE)
			return NM_CLAIM_DONE;
		if (seen == NM_CELL_EMPTY)
		{
			/* after a wait others may be waiting still: their mark stays */
			if (__atomic_compare_exchange_n(word, &seen, mine | (waited ? NM_CELL_WAITERS : 0), false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
				return NM_CLAIM_MINE;
			continue;
		}
		if ((seen & ~NM_CELL_WAITERS) == mine)
			return NM_CLAIM_SELF;
		if (!wait)
			return NM_CLAIM_BUSY;
		if ((seen & NM_CELL_WAITERS) == 0)
		{
			if (!__atomic_compare_exchange_n(word, &seen, seen | NM_CELL_WAITERS, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
				continue;
			seen |= NM_CELL_WAITERS;
		}
		if (!waited)
			nm_pc_count(pc, waits, 1);
		waited = true;
		nm_pc_sys->wait(word, seen, LOOK_NS);
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen && !nm_pc_sys->alive((int) (seen >> 2)))
		{
			uint32_t dead = seen;

			if (__atomic_compare_exchange_n(word, &dead, mine | NM_CELL_WAITERS, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
			{
				nm_pc_count(pc, stolen, 1);
				return NM_CLAIM_MINE;
			}
		}
		seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	}
}

/*
 * Done with a cell.  Not filled: the next one who touches it tries again.
 */
void
nm_pc_release(NmPostcopy *pc, size_t cell, bool filled)
{
	uint32_t *word = &pc->shared->cells[cell];
	uint32_t old;

	old = __atomic_exchange_n(word, filled ? NM_CELL_DONE : NM_CELL_EMPTY, __ATOMIC_RELEASE);
	NM_ASSERT((old & NM_CELL_OWNED) != 0);
	if (old & NM_CELL_WAITERS)
		nm_pc_sys->wake(word);
}

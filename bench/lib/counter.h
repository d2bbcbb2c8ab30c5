/*-------------------------------------------------------------------------
 *
 * counter.h
 *	  The kernel's counters.
 *
 * IDENTIFICATION
 *	  bench/lib/counter.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_COUNTER_H
#define BENCH_COUNTER_H

#include <stdint.h>

/* Pages migrated since the machine was started. */
extern uint64_t pages_migrated(void);

/* Requests to other CPUs to flush their TLBs, all CPUs together. */
extern uint64_t tlb_shootdowns(void);

#endif /* BENCH_COUNTER_H */

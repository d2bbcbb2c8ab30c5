/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  Times of single touches, and their distribution.
 *
 * IDENTIFICATION
 *	  bench/postcopy/clock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PC_CLOCK_H
#define PC_CLOCK_H

#include "port.h"

#include <string.h>

/* Nanoseconds of the cheapest clock there is. */
extern double pc_tick_ns; /* set by pc_clock_start */
extern void pc_clock_start(void);

static inline uint64_t
pc_ticks(void)
{
#if defined(__x86_64__)
	uint32_t low,
		high;

	__asm__ __volatile__("rdtscp"
						 : "=a"(low), "=d"(high)
						 :
						 : "rcx", "memory");
	return (uint64_t) high << 32 | low;
#else
	return nm_now_ns();
#endif
}

/*
 * Logarithmic histogram of nanoseconds, 16 steps per doubling: figures are
 * at most 6 % too low.
 */
#define PC_BUCKETS (16 * 48)
typedef struct PcHist
{
	uint64_t n;
	uint64_t max;
	uint32_t count[PC_BUCKETS];
} PcHist;

static inline void
pc_hist_add(PcHist *h, uint64_t ns)
{
	int top = ns < 16 ? 4 : 63 - __builtin_clzll(ns);
	uint64_t bucket = ns < 16 ? ns : (uint64_t) (top - 3) * 16 + ((ns >> (top - 4)) & 15);

	h->count[bucket < PC_BUCKETS ? bucket : PC_BUCKETS - 1]++;
	h->n++;
	if (ns > h->max)
		h->max = ns;
}

extern void pc_hist_merge(PcHist *to, const PcHist *from);
/* The least time that a share (0..1) of all don't exceed; 0 if there is none. */
extern uint64_t pc_hist_percentile(const PcHist *h, double share);

#endif /* PC_CLOCK_H */

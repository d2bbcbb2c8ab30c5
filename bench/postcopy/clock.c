/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  See clock.h.
 *
 * IDENTIFICATION
 *	  bench/postcopy/clock.c
 *
 *-------------------------------------------------------------------------
 */
#include "clock.h"

double pc_tick_ns = 1.0;

void
pc_clock_start(void)
{
	uint64_t ns = nm_now_ns();
	uint64_t ticks = pc_ticks();

	while (nm_now_ns() - ns < 20000000)
		;
	pc_tick_ns = (double) (nm_now_ns() - ns) / (double) (pc_ticks() - ticks);
}

void
pc_hist_merge(PcHist *to, const PcHist *from)
{
	to->n += from->n;
	if (from->max > to->max)
		to->max = from->max;
	for (int i = 0; i < PC_BUCKETS; i++)
		to->count[i] += from->count[i];
}

uint64_t
pc_hist_percentile(const PcHist *h, double share)
{
	uint64_t want = (uint64_t) (share * (double) h->n);
	uint64_t seen = 0;

	if (h->n == 0)
		return 0;
	if (want == 0)
		want = 1;
	for (int i = 0; i < PC_BUCKETS; i++)
	{
		seen += h->count[i];
		if (seen >= want)
			return i < 16 ? (uint64_t) i : (UINT64_C(16) + (uint64_t) (i & 15)) << (i / 16 - 1);
	}
	return h->max;
}

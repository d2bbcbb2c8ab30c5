/*-------------------------------------------------------------------------
 *
 * tuner.h
 *	  Mode and batch of background moves, by feedback, within max_latency.
 *
 * Batch is the number of pages the kernel makes unreachable at once, so it is
 * the longest time a query can be stopped by a move.  Throughput hardly gains
 * above 32 while pauses grow in proportion: start at 32, halve when a pause
 * was too long, grow slowly while pauses are cheap, stay within 8..128: below
 * 8 the cost of a call dominates and pauses don't get shorter.  If they are
 * too long even so, "over" tells the caller to move less at a time.
 *
 * Mode starts at async; sync_light is tried when many pages stay busy, because
 * only then can waiting for a page pay.  Pure C.
 *
 * IDENTIFICATION
 *	  src/migrator/tuner.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TUNER_H
#define NM_TUNER_H

#include "mover/mover.h"

#define NM_TUNER_BATCH_MIN 8
#define NM_TUNER_BATCH_MAX 128

typedef struct NmTuner
{
	int batch;		   /* now in use */
	NmMode mode;	   /* ASYNC or SYNC_LIGHT */
	int calm;		   /* calls in a row with cheap pauses */
	double busy_share; /* moving average, 0..1 */
	double pause_ms;   /* estimate from the last call */
	double worst_ms;   /* worst estimate since start */
	bool over;		   /* the last pause was too long and the batch can't shrink */
	uint64_t shrinks,
		grows;
} NmTuner;

extern void nm_tuner_init(NmTuner *tuner);

/*
 * After one call of nm_move: what it did, with which batch, and how long it
 * took.  Returns the estimated longest pause in ms (0 if nothing was moved).
 */
extern double nm_tuner_feedback(NmTuner *tuner, const NmMoveStats *delta, int batch_used, double max_latency_ms);

#endif /* NM_TUNER_H */

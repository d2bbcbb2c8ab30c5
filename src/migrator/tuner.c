/*-------------------------------------------------------------------------
 *
 * tuner.c
 *	  Feedback for mode and batch.
 *
 * IDENTIFICATION
 *	  src/migrator/tuner.c
 *
 *-------------------------------------------------------------------------
 */
#include "migrator/tuner.h"

#include <string.h>

#define CALM_CALLS	8	 /* cheap calls before the batch grows */
#define CHEAP_SHARE 0.25 /* of max_latency: a pause below is cheap */
#define BUSY_SMOOTH 0.1	 /* weight of the newest call */
#define BUSY_HIGH	0.2	 /* share of busy pages that asks for sync_light */
#define BUSY_LOW	0.05 /* ... and that goes back to async */

void
nm_tuner_init(NmTuner *tuner)
{
	memset(tuner, 0, sizeof(*tuner));
	tuner->batch = NM_BATCH_DEFAULT;
	tuner->mode = NM_MODE_ASYNC;
}

/*
 * The kernel tells nobody how long a batch was unreachable.  A call works
 * through its pages batch by batch, so one batch takes about its share of the
 * call: elapsed * batch / pages handled.  Pages already there cost next to
 * nothing and are left out, which errs on the long side.
 */
double
nm_tuner_feedback(NmTuner *tuner, const NmMoveStats *delta, int batch_used, double max_latency_ms)
{
	int64_t worked = delta->moved + delta->busy;
	double pause;

	tuner->pause_ms = 0;
	tuner->over = false;
	if (worked <= 0 || batch_used <= 0)
		return 0;

	pause = delta->elapsed_ms;
	if (worked > batch_used)
		pause = pause * batch_used / worked;
	tuner->pause_ms = pause;
	if (pause > tuner->worst_ms)
		tuner->worst_ms = pause;

	tuner->busy_share += BUSY_SMOOTH * ((double) delta->busy / worked - tuner->busy_share);

	if (pause > max_latency_ms)
	{
		/* Waiting for busy pages may be what took so long: stop that first. */
		if (tuner->mode == NM_MODE_SYNC_LIGHT)
		{
			tuner->mode = NM_MODE_ASYNC;
			tuner->busy_share = 0;
		}
		if (tuner->batch > NM_TUNER_BATCH_MIN)
		{
			tuner->batch /= 2;
			if (tuner->batch < NM_TUNER_BATCH_MIN)
				tuner->batch = NM_TUNER_BATCH_MIN;
			tuner->shrinks++;
		}
		else
			tuner->over = true;
		tuner->calm = 0;
		return pause;
	}

	if (pause < max_latency_ms * CHEAP_SHARE)
	{
		/*
		 * A call with fewer pages than a batch says nothing about a larger
		 * batch.
		 */
		if (worked >= tuner->batch && ++tuner->calm >= CALM_CALLS)
		{
			tuner->calm = 0;
			if (tuner->batch < NM_TUNER_BATCH_MAX)
			{
				tuner->batch += tuner->batch / 4 > 0 ? tuner->batch / 4 : 1;
				if (tuner->batch > NM_TUNER_BATCH_MAX)
					tuner->batch = NM_TUNER_BATCH_MAX;
				tuner->grows++;
			}
		}
		if (tuner->mode == NM_MODE_ASYNC && tuner->busy_share > BUSY_HIGH)
			tuner->mode = NM_MODE_SYNC_LIGHT;
	}
	else
		tuner->calm = 0;

	if (tuner->mode == NM_MODE_SYNC_LIGHT && tuner->busy_share < BUSY_LOW)
		tuner->mode = NM_MODE_ASYNC;
	return pause;
}

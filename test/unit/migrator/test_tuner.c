/*-------------------------------------------------------------------------
 *
 * test_tuner.c
 *	  Mode and batch by feedback.
 *
 * IDENTIFICATION
 *	  test/unit/migrator/test_tuner.c
 *
 *-------------------------------------------------------------------------
 */
#include "check.h"
#include "migrator/tuner.h"

static NmMoveStats
call_of(int64_t moved, int64_t busy, double ms)
{
	NmMoveStats s = {0};

	s.moved = moved;
	s.busy = busy;
	s.asked = moved + busy;
	s.calls = 1;
	s.elapsed_ms = ms;
	return s;
}

int
main(void)
{
	NmTuner t;
	NmMoveStats s;
	double pause;
	int before;
	int calls;

	nm_tuner_init(&t);
	ok(t.batch == 32 && t.mode == NM_MODE_ASYNC, "starts with async and 32");

	s = call_of(256, 0, 80);
	pause = nm_tuner_feedback(&t, &s, 32, 10);
	ok(pause > 9.99 && pause < 10.01, "a batch takes its share of the call: %.2f ms", pause);
	ok(t.batch == 32, "just in time is kept");

	s = call_of(256, 0, 200);
	pause = nm_tuner_feedback(&t, &s, 32, 10);
	ok(t.batch == 16 && t.shrinks == 1, "a pause of %.0f ms halves the batch", pause);
	for (int i = 0; i < 20; i++)
		nm_tuner_feedback(&t, &s, t.batch, 0.001);
	ok(t.batch == NM_TUNER_BATCH_MIN, "never below %d", NM_TUNER_BATCH_MIN);
	ok(t.over, "but says that it is too long even so");
	s = call_of(256, 0, 1);
	nm_tuner_feedback(&t, &s, t.batch, 10);
	ok(!t.over, "until a call was short enough");

	nm_tuner_init(&t);
	s = call_of(256, 0, 1);
	calls = 0;
	while (t.batch == 32 && calls < 1000)
	{
		nm_tuner_feedback(&t, &s, t.batch, 10);
		calls++;
	}
	ok(t.batch == 40 && calls >= 8, "grows slowly while cheap: after %d calls to %d", calls, t.batch);
	for (int i = 0; i < 10000; i++)
		nm_tuner_feedback(&t, &s, t.batch, 10);
	ok(t.batch == NM_TUNER_BATCH_MAX, "not above %d", NM_TUNER_BATCH_MAX);

	nm_tuner_init(&t);
	s = call_of(4, 0, 0.1);
	for (int i = 0; i < 1000; i++)
		nm_tuner_feedback(&t, &s, t.batch, 10);
	ok(t.batch == 32, "small calls prove nothing about larger batches");

	s = call_of(0, 0, 1000);
	before = t.batch;
	ok(nm_tuner_feedback(&t, &s, t.batch, 10) == 0 && t.batch == before, "a call that moved nothing made no pause");

	nm_tuner_init(&t);
	s = call_of(128, 128, 1);
	calls = 0;
	while (t.mode == NM_MODE_ASYNC && calls < 1000)
	{
		nm_tuner_feedback(&t, &s, t.batch, 10);
		calls++;
	}
	ok(t.mode == NM_MODE_SYNC_LIGHT && calls > 1, "many busy pages: sync_light after %d calls", calls);
	s = call_of(256, 0, 1);
	for (int i = 0; i < 100; i++)
		nm_tuner_feedback(&t, &s, t.batch, 10);
	ok(t.mode == NM_MODE_ASYNC, "back to async when they are gone");

	t.mode = NM_MODE_SYNC_LIGHT;
	t.busy_share = 0.5;
	s = call_of(128, 128, 1000);
	nm_tuner_feedback(&t, &s, t.batch, 10);
	ok(t.mode == NM_MODE_ASYNC, "waiting that takes too long is stopped");

	/* alternate: must settle, not run away to one end for ever */
	nm_tuner_init(&t);
	for (int i = 0; i < 2000; i++)
	{
		/* cost per page 0.2 ms: the largest batch within 10 ms is 50 */
		s = call_of(256, 0, 256 * 0.2);
		nm_tuner_feedback(&t, &s, t.batch, 10);
	}
	ok(t.batch >= 8 && t.batch <= 50, "settles within the limit: %d", t.batch);
	return check_done();
}

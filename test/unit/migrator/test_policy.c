/*-------------------------------------------------------------------------
 *
 * test_policy.c
 *	  Proposals: gain, hysteresis, room, rest, followers.
 *
 * Time is simulated: one round per second, places with a given rate of
 * sampled accesses from given nodes, memory that moves when the test obeys a
 * proposal.
 *
 * IDENTIFICATION
 *	  test/unit/migrator/test_policy.c
 *
 *-------------------------------------------------------------------------
 */
#include "check.h"
#include "migrator/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT 1000
#define MAXP   256

static NmSketch sketch;
static NmPolicyParams params;
static NmProposal out[MAXP];

static void
fresh(int nnodes)
{
	free(sketch.entries);
	nm_sketch_init(&sketch, malloc(nm_sketch_size(4096, nnodes)), 4096, nnodes);
	nm_policy_defaults(&params, nnodes);
	params.now = 1000;
	for (int i = 0; i < nnodes; i++)
	{
		params.target_ok[i] = true;
		params.headroom[i] = 1e12;
	}
	params.bytes[NM_PLACE_RANGE] = 1 << 20;
	params.bytes[NM_PLACE_CHUNK] = 2 << 20;
	params.cost[NM_PLACE_RANGE] = 22.0 * 256;
	params.cost[NM_PLACE_CHUNK] = 11.0 * 512;
}

static NmPlaceKey
place(uint32_t rel, uint32_t no)
{
	NmPlaceKey key = {.kind = NM_PLACE_RANGE, .spc = 1663, .db = 5, .rel = rel, .no = no};

	return key;
}

static void
samples(const NmPlaceKey *key, int from, int at, int n)
{
	NmPlaceKey group = nm_place_group(key);

	for (int i = 0; i < n; i++)
	{
		nm_sketch_add(&sketch, key, from, at, WEIGHT);
		nm_sketch_add(&sketch, &group, from, at, WEIGHT);
	}
}

static void
tick(double seconds)
{
	nm_sketch_decay(&sketch, (float) exp2(-seconds / params.half_life));
	params.now += seconds;
}

static int
decide(void)
{
	return nm_policy_affinity(&sketch, &params, out, MAXP);
}

static NmMoveStats
result(int64_t moved, int64_t busy, int64_t denied)
{
	NmMoveStats s = {0};

	s.moved = moved;
	s.busy = busy;
	s.denied = denied;
	s.asked = moved + busy + denied;
	return s;
}

static void
test_basic(void)
{
	NmPlaceKey a = place(1, 0);
	NmMoveStats done = result(256, 0, 0);
	int n;

	fresh(2);
	samples(&a, 1, 0, 20);
	ok(decide() == 0, "one round decides nothing");
	tick(1);
	ok(decide() == 0, "nor do two without news");
	samples(&a, 1, 0, 20);
	n = decide();
	ok(n == 1 && nm_place_key_equal(&out[0].key, &a) && out[0].to == 1, "remote place goes where it is used");
	ok(n == 1 && out[0].key.no != NM_PLACE_ALL, "a group is never proposed");

	nm_policy_outcome(&sketch, &params, &a, 1, &done);
	tick(1);
	samples(&a, 1, 1, 20);
	ok(decide() == 0, "once moved it stays");
	for (int i = 0; i < 100; i++)
	{
		tick(1);
		samples(&a, 1, 1, 20);
		if (decide() != 0)
			break;
	}
	ok(decide() == 0, "for ever");
}

static void
test_not_worth(void)
{
	NmPlaceKey a = place(1, 0);
	int n = 0;

	/* local already */
	fresh(2);
	for (int i = 0; i < 10; i++)
	{
		samples(&a, 1, 1, 20);
		n += decide();
		tick(1);
	}
	ok(n == 0, "a local place is left alone");

	/* too few samples */
	fresh(2);
	for (int i = 0; i < 100; i++)
	{
		if (i % 10 == 0)
			samples(&a, 1, 0, 1);
		n += decide();
		tick(1);
	}
	ok(n == 0, "little evidence decides nothing");

	/* no majority */
	fresh(2);
	for (int i = 0; i < 30; i++)
	{
		samples(&a, 1, 0, 11);
		samples(&a, 0, 0, 9);
		n += decide();
		tick(1);
	}
	ok(n == 0, "55 to 45 is no clear majority");

	/* clear majority, but the accesses can't pay for the move */
	fresh(2);
	params.cost[NM_PLACE_RANGE] = 1e12;
	for (int i = 0; i < 10; i++)
	{
		samples(&a, 1, 0, 20);
		n += decide();
		tick(1);
	}
	ok(n == 0, "a move that doesn't pay is not proposed");

	/* the same accesses stand for more when the sample rate is lower */
	fresh(2);
	params.cost[NM_PLACE_RANGE] = 4e6;
	for (int i = 0; i < 4; i++)
	{
		for (int k = 0; k < 5; k++)
			nm_sketch_add(&sketch, &a, 1, 0, 10);
		n += decide();
		tick(1);
	}
	ok(n == 0, "20 samples of 10 accesses do not pay");
	for (int i = 0; i < 4; i++)
	{
		for (int k = 0; k < 5; k++)
			nm_sketch_add(&sketch, &a, 1, 0, 10000);
		n += decide();
		tick(1);
	}
	ok(n > 0, "20 samples of 10000 accesses do");

	/* memory's node unknown: no gain can be shown */
	fresh(2);
	n = 0;
	for (int i = 0; i < 10; i++)
	{
		samples(&a, 1, -1, 20);
		n += decide();
		tick(1);
	}
	ok(n == 0, "without knowing where it is nothing is proposed");

	/* a majority whose gain is undone by what becomes remote */
	fresh(3);
	for (int i = 0; i < 10; i++)
	{
		samples(&a, 1, 0, 65);
		samples(&a, 0, 0, 35);
		n += decide();
		tick(1);
	}
	ok(n > 0, "65 to 35 pays");
	ok(out[0].to == 1, "and goes to the majority");
}

static void
test_targets(void)
{
	NmPlaceKey key;
	int n = 0;

	fresh(2);
	params.target_ok[1] = false;
	key = place(1, 0);
	for (int i = 0; i < 5; i++)
	{
		samples(&key, 1, 0, 20);
		n += decide();
		tick(1);
	}
	ok(n == 0, "a node outside the list is no target");

	/* room for three places of ten */
	fresh(2);
	params.headroom[1] = 3.5 * (1 << 20);
	for (int round = 0; round < 2; round++)
	{
		for (uint32_t i = 0; i < 10; i++)
		{
			key = place(1, i);
			samples(&key, 1, 0, 10 + (int) i);
		}
		params.headroom[1] = 3.5 * (1 << 20);
		n = decide();
		tick(1);
	}
	ok(n == 3, "no more than fits: %d", n);
	ok(n == 3 && out[0].key.no == 9 && out[1].key.no == 8 && out[2].key.no == 7, "the hottest first");

	/* only max proposals, the best ones */
	fresh(2);
	for (int round = 0; round < 2; round++)
	{
		for (uint32_t i = 0; i < 100; i++)
		{
			key = place(1, i);
			samples(&key, 1, 0, 5 + (int) ((i * 37) % 100));
		}
		n = nm_policy_affinity(&sketch, &params, out, 8);
		tick(1);
	}
	ok(n == 8, "at most max proposals");
	for (int i = 0; i < n; i++)
		if ((out[i].key.no * 37) % 100 != 99 - i)
			n = -1;
	ok(n == 8, "which are the best ones in order");
}

static void
test_hysteresis(void)
{
	NmPlaceKey a = place(1, 0);
	NmMoveStats done = result(256, 0, 0);
	int at = 0;
	int moves = 0;
	double first = 0,
		   last = 0;

	/* used from two nodes in turn, 20 seconds each */
	fresh(2);
	for (int i = 0; i < 2400; i++)
	{
		samples(&a, (i / 20) % 2 == 0 ? 1 : 0, at, 20);
		if (decide() > 0)
		{
			at = out[0].to;
			nm_policy_outcome(&sketch, &params, &a, at, &done);
			moves++;
			if (moves == 1)
				first = params.now;
			last = params.now;
		}
		tick(1);
	}
	ok(moves >= 1 && moves <= 12, "a place pulled from both sides moves %d times in 120 turns", moves);
	ok(moves < 2 || last > first, "first at %.0f, last at %.0f s", first, last);

	/* a real change is followed within a minute */
	fresh(2);
	at = 0;
	for (int i = 0; i < 300; i++)
	{
		samples(&a, 0, 0, 20);
		if (decide() > 0)
			break;
		tick(1);
	}
	moves = 0;
	for (int i = 0; i < 60 && moves == 0; i++)
	{
		samples(&a, 1, at, 20);
		if (decide() > 0)
			moves = i;
		tick(1);
	}
	ok(moves > 2 && moves < 40, "a change of clients is followed after %d s", moves);
}

static void
test_refused(void)
{
	NmPlaceKey a = place(1, 0);
	NmMoveStats busy = result(10, 246, 0);
	NmMoveStats none = result(0, 0, 0);
	NmMoveStats done = result(256, 0, 0);
	int tries = 0;

	fresh(2);
	for (int i = 0; i < 600; i++)
	{
		samples(&a, 1, 0, 20);
		if (decide() > 0)
		{
			nm_policy_outcome(&sketch, &params, &a, 1, &busy);
			tries++;
		}
		tick(1);
	}
	ok(tries >= 3 && tries <= 10, "a busy place is tried ever more rarely: %d times in 600 s", tries);

	fresh(2);
	samples(&a, 1, 0, 20);
	decide();
	samples(&a, 1, 0, 20);
	decide();
	nm_policy_outcome(&sketch, &params, &a, 1, &none);
	samples(&a, 1, 0, 20);
	ok(decide() == 0, "nor is one of which nothing was there at once");

	/* somebody moves it back at once, always */
	fresh(2);
	tries = 0;
	for (int i = 0; i < 1800; i++)
	{
		samples(&a, 1, 0, 20);
		if (decide() > 0)
		{
			nm_policy_outcome(&sketch, &params, &a, 1, &done);
			tries++;
		}
		tick(1);
	}
	ok(tries >= 2 && tries <= 20, "a place others move back is fought for %d times in 1800 s", tries);
}

static void
test_follow(void)
{
	NmPlaceKey key,
		group = place(1, NM_PLACE_ALL),
		cold = place(1, 500),
		mine = place(1, 3),
		theirs = place(1, 77);
	int node;

	fresh(2);
	for (int round = 0; round < 3; round++)
	{
		for (uint32_t i = 0; i < 10; i++)
		{
			key = place(1, i);
			samples(&key, 1, 0, 10);
		}
		samples(&theirs, 0, 0, 10);
		decide();
		tick(1);
	}
	ok(nm_policy_leader(&sketch, &params, &group, &node) == 10 && node == 1, "ten places are decided");
	ok(nm_policy_follow(&sketch, &params, &group, 20) == 1, "the other half follows");
	ok(nm_policy_follow(&sketch, &params, &group, 21) == -1, "but not when most are undecided");
	ok(!nm_policy_decided_elsewhere(&sketch, &params, &cold, 1), "a cold place follows");
	ok(!nm_policy_decided_elsewhere(&sketch, &params, &mine, 1), "a decided one may");
	ok(nm_policy_decided_elsewhere(&sketch, &params, &theirs, 1), "one with other evidence doesn't");
	params.target_ok[1] = false;
	ok(nm_policy_follow(&sketch, &params, &group, 20) == -1, "not to a node outside the list");
	group = place(2, NM_PLACE_ALL);
	ok(nm_policy_follow(&sketch, &params, &group, 1) == -1, "an unknown relation has no leader");
}

static void
test_balance(void)
{
	NmPlaceKey key;
	NmMoveStats done = result(256, 0, 0);
	int at[40];
	int n = 0;
	int moved = 0;
	int on1;

	/* all on node 0, used evenly from both */
	fresh(2);
	memset(at, 0, sizeof(at));
	for (int round = 0; round < 60; round++)
	{
		for (uint32_t i = 0; i < 40; i++)
		{
			key = place(1, i);
			samples(&key, 0, at[i], 5);
			samples(&key, 1, at[i], 5);
		}
		n = nm_policy_balance(&sketch, &params, out, MAXP);
		for (int i = 0; i < n; i++)
		{
			at[out[i].key.no] = out[i].to;
			nm_policy_outcome(&sketch, &params, &out[i].key, out[i].to, &done);
			moved++;
		}
		tick(1);
	}
	on1 = 0;
	for (int i = 0; i < 40; i++)
		on1 += at[i];
	ok(on1 >= 17 && on1 <= 23, "places are shared out: %d of 40 on the other node", on1);
	ok(moved <= 30, "with %d moves", moved);
	ok(n == 0, "and then it is quiet");

	fresh(1);
	key = place(1, 0);
	samples(&key, 0, 0, 50);
	ok(nm_policy_balance(&sketch, &params, out, MAXP) == 0, "one node has nothing to balance");
}

int
main(void)
{
	test_basic();
	test_not_worth();
	test_targets();
	test_hysteresis();
	test_refused();
	test_follow();
	test_balance();
	free(sketch.entries);
	return check_done();
}

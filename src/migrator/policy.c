/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  Affinity and balance: proposals with proof of gain and hysteresis.
 *
 * IDENTIFICATION
 *	  src/migrator/policy.c
 *
 *-------------------------------------------------------------------------
 */
#include "migrator/policy.h"

#include <math.h>
#include <string.h>

/* A move that leaves fewer pages than this behind has succeeded. */
#define DONE_SHARE 0.9

/*
 * Earlier moves are forgotten when a place was quiet, after its rest, for as
 * long as the rest was and this many first rests more.
 */
#define FORGET_RESTS 20

/* Places with less than this share away from the winner are in place. */
#define IN_PLACE_SHARE 0.05

/* A place moved this recently and found elsewhere was moved by others. */
#define CONTESTED_SECONDS 600

void
nm_policy_defaults(NmPolicyParams *params, int nnodes)
{
	memset(params, 0, sizeof(*params));
	params->nnodes = nnodes;
	params->half_life = 20;
	params->min_samples = 4;
	params->majority = 0.6;
	params->rounds = 2;
	params->horizon = 1800;
	params->misses = 2;
	params->imbalance = 0.1;
	params->rest = 10;
	params->rest_max = 3600;
	params->retry = 5;
	params->retry_max = 600;
}

static double
doubling(double first, int times, double most)
{
	double t = first;

	while (times-- > 0 && t < most)
		t *= 2;
	return t < most ? t : most;
}

static int
winner(const float *count, int nnodes)
{
	int best = 0;

	for (int n = 1; n < nnodes; n++)
		if (count[n] > count[best])
			best = n;
	return best;
}

/*
 * Update the streak of the node a place seems to belong to; true once it is
 * sure.  A round without new samples neither lengthens nor breaks it: the
 * counts are the same ones, only smaller.
 */
static bool
sure(NmPlace *place, int node, bool clear, const NmPolicyParams *params)
{
	if (!place->fresh)
		return clear && place->candidate == node && place->streak >= params->rounds;
	place->fresh = false;

	if (!clear)
	{
		place->candidate = -1;
		place->streak = 0;
		return false;
	}
	if (place->candidate != node)
	{
		place->candidate = (int8_t) node;
		place->streak = 1;
	}
	else if (place->streak < UINT8_MAX)
		place->streak++;
	return place->streak >= params->rounds;
}

static bool
clear_majority(const NmPlace *place, const float *count, int node, const NmPolicyParams *params)
{
	return place->samples >= params->min_samples &&
		   count[node] >= params->majority * place->total;
}

/* Keep the max best proposals in out[] as a heap with the worst on top. */
static int
keep(NmProposal *out, int n, int max, const NmProposal *add)
{
	int i;

	if (n < max)
	{
		i = n++;
		while (i > 0 && out[(i - 1) / 2].score > add->score)
		{
			out[i] = out[(i - 1) / 2];
			i = (i - 1) / 2;
		}
		out[i] = *add;
		return n;
	}
	if (max == 0 || out[0].score >= add->score)
		return n;
	i = 0;
	for (;;)
	{
		int child = 2 * i + 1;

		if (child >= n)
			break;
		if (child + 1 < n && out[child + 1].score < out[child].score)
			child++;
		if (out[child].score >= add->score)
			break;
		out[i] = out[child];
		i = child;
	}
	out[i] = *add;
	return n;
}

static int
by_score(const void *a, const void *b)
{
	double x = ((const NmProposal *) a)->score;
	double y = ((const NmProposal *) b)->score;

	return (x < y) - (x > y);
}

/* Best first, dropping what no longer fits on its target. */
static int
order_and_fit(NmProposal *out, int n, NmPolicyParams *params)
{
	int kept = 0;

	qsort(out, n, sizeof(*out), by_score);
	for (int i = 0; i < n; i++)
	{
		double bytes = params->bytes[out[i].key.kind];

		if (params->headroom[out[i].to] < bytes)
			continue;
		params->headroom[out[i].to] -= bytes;
		out[kept++] = out[i];
	}
	return kept;
}

/* Accesses within the horizon, from a decayed sum of accesses. */
static double
within_horizon(double sum, const NmPolicyParams *params)
{
	return sum * (M_LN2 / params->half_life) * params->horizon * params->misses;
}

/*
 * Somebody else moved this place away after we had moved it: its memory is
 * mostly elsewhere although we put it where its accesses still come from.
 * Moving it again at once would be a fight, so it rests.
 */
static bool
contested(NmSketch *sketch, NmPlace *place, int node, const NmPolicyParams *params)
{
	if (place->target != node || place->moved_at == 0 ||
		params->now - place->moved_at > CONTESTED_SECONDS)
		return false;
	if (nm_place_at(sketch, place)[node] >= 0.5f * place->located)
		return false;
	place->target = -1;
	if (place->failures < UINT8_MAX)
		place->failures++;
	place->until = params->now + doubling(params->rest, place->failures, params->retry_max);
	return true;
}

static bool
at_rest(NmPlace *place, const NmPolicyParams *params)
{
	if (place->moves > 0 &&
		params->now > place->until + (place->until - place->moved_at) + FORGET_RESTS * params->rest)
		place->moves = 0;
	return params->now < place->until;
}

int
nm_policy_affinity(NmSketch *sketch, NmPolicyParams *params, NmProposal *out, int max)
{
	uint32_t capacity = nm_sketch_capacity(sketch);
	int n = 0;

	for (uint32_t i = 0; i < capacity; i++)
	{
		NmPlace *place = nm_sketch_entry(sketch, i);
		float *from;
		double away,
			gain;
		NmProposal add;
		int w;

		if (place == NULL)
			continue;
		from = nm_place_from(sketch, place);
		w = winner(from, params->nnodes);
		if (!sure(place, w, clear_majority(place, from, w, params), params))
			continue;
		if (place->key.no == NM_PLACE_ALL || !params->target_ok[w])
			continue;
		if (place->located <= 0 || at_rest(place, params))
			continue;

		away = 1 - nm_place_at(sketch, place)[w] / place->located;
		if (away < IN_PLACE_SHARE || contested(sketch, place, w, params))
			continue;

		/* What becomes local, less what is local now and would not be. */
		gain = from[w] - place->local / place->located * place->total;
		add.score = within_horizon(gain, params) / (params->cost[place->key.kind] * away);
		if (add.score < 1)
			continue;
		add.key = place->key;
		add.to = w;
		n = keep(out, n, max, &add);
	}
	return order_and_fit(out, n, params);
}

/*
 * Where a place should go to even out the load, or -1: the least loaded
 * target, or, among targets clearly below the mean, the one that most of the
 * place's accesses come from.
 */
static int
balance_target(const float *from, const double *load, double mean, double amount, const NmPolicyParams *params)
{
	int best = -1;

	for (int n = 0; n < params->nnodes; n++)
	{
		if (!params->target_ok[n] || load[n] + amount > mean * (1 + params->imbalance))
			continue;
		if (best < 0 || from[n] > from[best] ||
			(from[n] == from[best] && load[n] < load[best]))
			best = n;
	}
	return best;
}

int
nm_policy_balance(NmSketch *sketch, NmPolicyParams *params, NmProposal *out, int max)
{
	uint32_t capacity = nm_sketch_capacity(sketch);
	double load[NM_MAX_NODES] = {0};
	double sum = 0,
		   mean;
	int targets = 0;
	int n = 0;

	for (uint32_t i = 0; i < capacity; i++)
	{
		NmPlace *place = nm_sketch_entry(sketch, i);

		if (place == NULL || place->key.no == NM_PLACE_ALL)
			continue;
		for (int node = 0; node < params->nnodes; node++)
			load[node] += nm_place_at(sketch, place)[node];
	}
	for (int node = 0; node < params->nnodes; node++)
	{
		sum += load[node];
		targets += params->target_ok[node] ? 1 : 0;
	}
	if (targets < 2 || sum <= 0)
		return 0;
	mean = sum / targets;

	for (uint32_t i = 0; i < capacity; i++)
	{
		NmPlace *place = nm_sketch_entry(sketch, i);
		float *at;
		double amount;
		NmProposal add;
		int home,
			to;

		if (place == NULL || place->key.no == NM_PLACE_ALL || place->located <= 0)
			continue;
		at = nm_place_at(sketch, place);
		home = winner(at, params->nnodes);
		amount = at[home];

		/* The streak is of the place being home on an overloaded node. */
		if (!sure(place, home,
				  load[home] > mean * (1 + params->imbalance) &&
					  place->samples >= params->min_samples &&
					  amount >= params->majority * place->located,
				  params))
			continue;
		if (at_rest(place, params))
			continue;
		to = balance_target(nm_place_from(sketch, place), load, mean, amount, params);
		if (to < 0 || to == home || load[home] - amount < mean * (1 - params->imbalance))
			continue;
		add.score = within_horizon(amount, params) / params->cost[place->key.kind];
		if (add.score < 1)
			continue;
		add.key = place->key;
		add.to = to;
		if (n == max)
			break;
		load[home] -= amount;
		load[to] += amount;
		n = keep(out, n, max, &add);
	}
	return order_and_fit(out, n, params);
}

static bool
decided(NmSketch *sketch, NmPlace *place, int node, const NmPolicyParams *params)
{
	return place->candidate == node && place->streak >= params->rounds &&
		   clear_majority(place, nm_place_from(sketch, place), node, params);
}

double
nm_policy_leader(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *group, int *node)
{
	NmPlace *all = nm_sketch_find(sketch, group);
	uint32_t capacity = nm_sketch_capacity(sketch);
	double n = 0;
	int w;

	*node = -1;
	if (all == NULL || params->now < all->until)
		return 0;
	w = all->candidate;
	if (w < 0 || !params->target_ok[w] || !decided(sketch, all, w, params))
		return 0;
	for (uint32_t i = 0; i < capacity; i++)
	{
		NmPlace *place = nm_sketch_entry(sketch, i);
		NmPlaceKey of;

		if (place == NULL || place->key.no == NM_PLACE_ALL)
			continue;
		of = nm_place_group(&place->key);
		if (nm_place_key_equal(&of, group) && decided(sketch, place, w, params))
			n++;
	}
	*node = w;
	return n;
}

int
nm_policy_follow(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *group, double places_total)
{
	int node;
	double n = nm_policy_leader(sketch, params, group, &node);

	return n > 0 && n * 2 >= places_total ? node : -1;
}

bool
nm_policy_decided_elsewhere(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *key, int node)
{
	NmPlace *place = nm_sketch_find(sketch, key);

	if (place == NULL)
		return false;
	/* Anything with evidence speaks for itself; only cold places follow. */
	return place->samples >= params->min_samples && !decided(sketch, place, node, params);
}

void
nm_policy_outcome(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *key, int to, const NmMoveStats *delta)
{
	NmPlace *place = nm_sketch_find(sketch, key);
	int64_t present = delta->asked - delta->absent;
	float *at;

	if (place == NULL)
		return; /* pushed out meanwhile */
	at = nm_place_at(sketch, place);

	/* What we knew about where its memory is no longer holds. */
	memset(at, 0, sketch->nnodes * sizeof(float));
	place->local = 0;
	place->located = 0;

	if (present > 0 && delta->moved + delta->already >= DONE_SHARE * present)
	{
		at[to] = place->total;
		place->located = place->total;
		place->local = nm_place_from(sketch, place)[to];
		place->target = (int8_t) to;
		place->failures = 0;
		place->until = params->now + doubling(params->rest, place->moves, params->rest_max);
		place->moved_at = params->now;
		if (place->moves < UINT8_MAX)
			place->moves++;
	}
	else
	{
		place->until = params->now + doubling(params->retry, place->failures, params->retry_max);
		if (place->failures < UINT8_MAX)
			place->failures++;
	}
}

/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  From the sketch to proposals: which place should move where, and why.
 *
 * affinity	a place goes to the node that most of its accesses come from;
 * balance	places go from nodes whose memory is accessed most to nodes whose
 *			memory is accessed least, for bandwidth rather than latency.
 *
 * A proposal must pay: the accesses it would make local within horizon
 * seconds must be worth more than the move (cost[] is in accesses).  It must
 * be sure: enough samples, a clear majority, over several rounds with new
 * samples in each.  And the target must be allowed and have room.  A place
 * that was moved rests, longer after each move, so that one used from two
 * nodes in turn doesn't travel for ever; a place whose pages stay busy, or
 * that somebody else moves back, is left alone for a growing time.
 *
 * Nodes are positions 0..nnodes-1.  Times are seconds of any steady clock.
 * Pure C, no allocation; argued in README.md, "Policy".
 *
 * IDENTIFICATION
 *	  src/migrator/policy.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_POLICY_H
#define NM_POLICY_H

#include "migrator/sketch.h"
#include "mover/mover.h"

#define NM_PLACE_KINDS 4 /* NM_PLACE_OSPAGE + 1 */

typedef struct NmPolicyParams
{
	int nnodes;
	double now;		  /* seconds */
	double half_life; /* of the sketch's counts, seconds */

	bool target_ok[NM_MAX_NODES];  /* may memory be moved there */
	double headroom[NM_MAX_NODES]; /* bytes it can still take; reduced by
										 * each proposal */

	double min_samples; /* evidence below this decides nothing */
	double majority;	/* share of accesses the winner needs */
	int rounds;			/* ... over this many rounds with news */
	double horizon;		/* seconds in which a move must pay */
	double misses;		/* cache-missing loads per sampled access */
	double imbalance;	/* balance: accepted excess over the mean */

	double cost[NM_PLACE_KINDS];  /* accesses that pay for a whole place */
	double bytes[NM_PLACE_KINDS]; /* size of a whole place */

	double rest; /* seconds after the first move */
	double rest_max;
	double retry; /* seconds after the first failure */
	double retry_max;
} NmPolicyParams;

typedef struct NmProposal
{
	NmPlaceKey key;
	int to;
	double score; /* expected worth / cost, >= 1 */
} NmProposal;

/* Constants as argued in README.md; the caller sets nodes, time and sizes. */
extern void nm_policy_defaults(NmPolicyParams *params, int nnodes);

/*
 * Look at every place and return up to max proposals, best first.  Updates
 * the places' memory (streaks); call once per round.
 */
extern int nm_policy_affinity(NmSketch *sketch, NmPolicyParams *params, NmProposal *out, int max);
extern int nm_policy_balance(NmSketch *sketch, NmPolicyParams *params, NmProposal *out, int max);

/*
 * May the cold places of a group follow the decided ones?  Yes if at least
 * half of its places are decided for the node that wins the group as a whole.
 * nm_policy_leader returns how many are (0: no clear winner, or the group
 * rests) and the node; nm_policy_follow the node or -1, given how many places
 * of the group are in memory.
 */
extern double nm_policy_leader(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *group, int *node);
extern int nm_policy_follow(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *group, double places_total);

/* Is this place sure to belong to another node than `node`? */
extern bool nm_policy_decided_elsewhere(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *key, int node);

/* What came of moving a place (or of a group's following). */
extern void nm_policy_outcome(NmSketch *sketch, const NmPolicyParams *params, const NmPlaceKey *key, int to, const NmMoveStats *delta);

#endif /* NM_POLICY_H */

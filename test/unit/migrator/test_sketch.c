/*-------------------------------------------------------------------------
 *
 * test_sketch.c
 *	  Decaying counts: sums, memory bound, what is kept.
 *
 * IDENTIFICATION
 *	  test/unit/migrator/test_sketch.c
 *
 *-------------------------------------------------------------------------
 */
#include "check.h"
#include "migrator/sketch.h"

#include <math.h>
#include <stdlib.h>

static NmSketch
make(uint32_t places, int nnodes)
{
	NmSketch s;

	nm_sketch_init(&s, malloc(nm_sketch_size(places, nnodes)), places, nnodes);
	return s;
}

static NmPlaceKey
range_key(uint32_t rel, uint32_t no)
{
	NmPlaceKey key = {.kind = NM_PLACE_RANGE, .spc = 1663, .db = 5, .rel = rel, .no = no};

	return key;
}

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-3 * fmax(1.0, fabs(b));
}

int
main(void)
{
	NmSketch s = make(1000, 3);
	NmPlaceKey key = range_key(100, 7);
	NmPlaceKey other = range_key(100, 8);
	NmPlaceKey group;
	NmPlace *p;
	int kept;
	uint64_t seed = 7;

	ok(nm_sketch_capacity(&s) >= 1000, "capacity %u is at least what was asked", nm_sketch_capacity(&s));
	ok(nm_sketch_find(&s, &key) == NULL, "empty at first");

	nm_sketch_add(&s, &key, 0, 0, 100);
	nm_sketch_add(&s, &key, 2, 0, 50);
	nm_sketch_add(&s, &key, 2, -1, 25);
	p = nm_sketch_find(&s, &key);
	ok(p && near(p->total, 175) && near(p->samples, 3) && near(p->local, 100) && near(p->located, 150),
	   "sums of one place");
	ok(p && near(nm_place_from(&s, p)[0], 100) && near(nm_place_from(&s, p)[1], 0) &&
		   near(nm_place_from(&s, p)[2], 75) && near(nm_place_at(&s, p)[0], 150) &&
		   near(nm_place_at(&s, p)[2], 0),
	   "by node they came from and node of the memory");
	ok(p && p->candidate == -1 && p->target == -1 && p->fresh, "a new place remembers nothing");
	ok(nm_sketch_find(&s, &other) == NULL, "its neighbour is another place");

	nm_sketch_decay(&s, 0.5f);
	p = nm_sketch_find(&s, &key);
	ok(p && near(p->total, 87.5) && near(nm_place_from(&s, p)[2], 37.5) && near(p->samples, 1.5),
	   "decay halves every count");
	for (int i = 0; i < 12; i++)
		nm_sketch_decay(&s, 0.5f);
	ok(nm_sketch_find(&s, &key) == NULL && s.used == 0, "a faded place is freed");

	/* steady rate r with half-life h settles at r * h / ln 2 */
	for (int i = 0; i < 200; i++)
	{
		for (int k = 0; k < 10; k++)
			nm_sketch_add(&s, &key, 1, 1, 3);
		nm_sketch_decay(&s, (float) exp2(-1.0 / 10));
	}
	p = nm_sketch_find(&s, &key);
	ok(p && fabs(p->total / (30 * 10 / M_LN2) - 1) < 0.05, "a steady rate settles: %.1f", p ? p->total : 0);
	free(s.entries);

	/* hot places survive a flood of cold ones */
	s = make(1024, 2);
	for (uint32_t i = 0; i < 100; i++)
	{
		NmPlaceKey hot = range_key(1, i);

		for (int k = 0; k < 20; k++)
			nm_sketch_add(&s, &hot, 0, 0, 1);
	}
	group = range_key(1, NM_PLACE_ALL);
	nm_sketch_add(&s, &group, 0, 0, 1);
	for (uint32_t i = 0; i < 100000; i++)
	{
		NmPlaceKey cold = range_key(2, (uint32_t) next_random(&seed));

		if (cold.no != NM_PLACE_ALL)
			nm_sketch_add(&s, &cold, 1, 1, 1);
	}
	kept = 0;
	for (uint32_t i = 0; i < 100; i++)
	{
		NmPlaceKey hot = range_key(1, i);

		kept += nm_sketch_find(&s, &hot) != NULL;
	}
	ok(kept == 100, "hot places stay: %d of 100", kept);
	ok(nm_sketch_find(&s, &group) != NULL, "a group stays although it is cold");
	ok(s.used <= nm_sketch_capacity(&s), "used %llu of %u entries", (unsigned long long) s.used, nm_sketch_capacity(&s));
	ok(s.evictions >= 100000 - nm_sketch_capacity(&s), "pushed out ones are counted: %llu", (unsigned long long) s.evictions);
	kept = 0;
	for (uint32_t i = 0; i < nm_sketch_capacity(&s); i++)
		kept += nm_sketch_entry(&s, i) != NULL;
	ok(kept == (int) s.used, "the count of used entries is right");
	free(s.entries);

	/* neighbouring ranges of one relation must not crowd a few sets */
	s = make(16384, 2);
	for (uint32_t i = 0; i < 8192; i++)
	{
		NmPlaceKey k = range_key(3, i);

		nm_sketch_add(&s, &k, 0, 0, 1);
	}
	ok(s.evictions < 82, "half full with neighbours: %llu pushed out", (unsigned long long) s.evictions);
	free(s.entries);

	s = make(1, 64);
	nm_sketch_add(&s, &key, 63, 63, 1);
	p = nm_sketch_find(&s, &key);
	ok(p && near(nm_place_at(&s, p)[63], 1) && near(p->local, 1), "64 nodes");
	free(s.entries);
	return check_done();
}

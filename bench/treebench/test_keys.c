/*-------------------------------------------------------------------------
 *
 * test_keys.c
 *	  Keys and operations against values that others computed.
 *
 * IDENTIFICATION
 *	  bench/treebench/test_keys.c
 *
 *-------------------------------------------------------------------------
 */
#include "tap.h"
#include "keys.h"

#include <math.h>

/* Printed by YCSB's own Utils.fnvhash64. */
static void
test_hash(void)
{
	static const uint64_t known[][2] = {
		{0, UINT64_C(6284781860667377211)},
		{1, UINT64_C(8517097267634966620)},
		{2, UINT64_C(1820151046732198393)},
		{12345, UINT64_C(1792800413050876852)},
		{999999, UINT64_C(2744965632448235251)},
		{UINT64_C(10000000000), UINT64_C(1201321332300452516)},
		{UINT64_C(8604511268246153315), UINT64_C(513353458133749454)}};
	/* the FNV authors' vector for "chongo w" */
	const uint64_t published = UINT64_C(0xD1EDD10B507344D0);
	uint64_t octets = 0;

	for (int i = 7; i >= 0; i--)
		octets = octets << 8 | (unsigned char) "chongo w"[i];
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		ok(tb_hash(known[i][0]) == known[i][1], "hash of %llu is YCSB's", (unsigned long long) known[i][0]);
	ok(tb_hash(octets) == UINT64_C(0) - published, "hash of a published FNV-1a vector");
}

/* The generator's formula in extended precision, its constants summed up anew. */
static long double
exact_rank(uint64_t r)
{
	const long double items = 10000000001.0L;
	const long double zeta = 26.46902820178302L;
	long double u = (long double) r / 9007199254740992.0L;
	long double eta = (1 - powl(2 / items, 0.01L)) / (1 - (1 + powl(0.5L, 0.99L)) / zeta);

	if (u * zeta < 1)
		return 0;
	if (u * zeta < 1 + powl(0.5L, 0.99L))
		return 1;
	return floorl(items * powl(eta * u - eta + 1, 100.0L));
}

static void
test_zipf(void)
{
	/* printed by YCSB's ScrambledZipfianGenerator: draw, rank, number of 1,001 */
	static const uint64_t known[][3] = {
		{0, 0, 144}, {1, 0, 144}, {UINT64_C(1) << 52, 134552, 367}, {(UINT64_C(1) << 53) - 1, UINT64_C(10000000001), 55}, {UINT64_C(340000000000000), 0, 144}, {UINT64_C(511000000000000), 1, 610}};
	uint64_t random = 20100610;
	long double worst = 0;
	int hottest = 0;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
	{
		uint64_t rank = tb_zipf_rank(known[i][0]);

		ok(rank == known[i][1] && tb_hash(rank) % 1001 == known[i][2], "rank and number for draw %llu are YCSB's",
		   (unsigned long long) known[i][0]);
	}
	for (int i = 0; i < 100000; i++)
	{
		uint64_t r = next_random(&random) >> 11;
		uint64_t rank = tb_zipf_rank(r);
		long double exact = exact_rank(r);
		long double off = fabsl((long double) rank - exact) - 1e-12L * exact;

		if (off > worst)
			worst = off;
		hottest += rank == 0;
	}
	ok(worst <= 1, "100,000 ranks are at most one from the formula in extended precision (%Lg)", worst);
	/* 1 / zeta = 3.778 %; four standard deviations are 0.24 % */
	ok(fabs(hottest / 1000.0 - 3.778) < 0.24, "the hottest item has %.2f %% of the draws", hottest / 1000.0);
}

static void
test_skewed(void)
{
	int below[3] = {0, 0, 0};

	/* inside a cluster half, a quarter, ... of its width have as many keys each */
	for (uint64_t i = 0; i < 100000; i++)
	{
		uint64_t low = (uint64_t) tb_key(TB_KEYS_SKEWED, i) & ((UINT64_C(1) << 53) - 1);

		for (int b = 0; b < 3; b++)
			below[b] += low < UINT64_C(1) << (37 + 4 * b);
	}
	ok(below[0] < below[1] && below[1] < below[2] && below[0] > 20000, "skewed keys: %d, %d, %d of 100,000 are in the first 2^-16, 2^-12, 2^-8 of a cluster",
	   below[0], below[1], below[2]);
}

static void
test_mix(char name, bool zipf)
{
	TbMix mix;
	TbStream streams[3];
	const int n = 30000;
	int kinds[3] = {0, 0, 0};
	uint64_t lengths = 0;
	int shortest = 255;
	int longest = 0;
	bool all_known = true;
	bool own = true;
	bool keys = true;
	bool inserted_read = false;

	if (!tb_mix(name, &mix))
		abort();
	for (int c = 0; c < 3; c++)
	{
		uint64_t next = 0;

		tb_stream_init(&streams[c], &mix, TB_KEYS_HASHED, zipf, 1000, 5000, c, 3,
					   (uint64_t) (n * mix.inserts / 100), 77 + (uint64_t) c);
		for (int i = 0; i < n; i++)
		{
			TbOp op;

			tb_stream_next(&streams[c], &op);
			kinds[op.kind]++;
			keys = keys && op.key == (int64_t) tb_hash(op.number);
			if (op.kind == TB_INSERT)
			{
				own = own && op.number == 5000 + next * 3 + (uint64_t) c;
				next++;
				continue;
			}
			if (op.number >= 1000)
			{
				all_known = all_known && op.number >= 5000 && (op.number - 5000) % 3 == (uint64_t) c && (op.number - 5000) / 3 < next;
				inserted_read = true;
			}
			if (op.kind == TB_SCAN)
			{
				lengths += op.len;
				shortest = op.len < shortest ? op.len : shortest;
				longest = op.len > longest ? op.len : longest;
			}
		}
	}
	ok(abs(kinds[TB_INSERT] - 3 * n * mix.inserts / 100) < 900 && abs(kinds[TB_SCAN] - 3 * n * mix.scans / 100) < 900,
	   "%c %s: %d reads, %d inserts, %d scans of %d", name, zipf ? "zipf" : "uniform", kinds[0], kinds[1], kinds[2], 3 * n);
	ok(all_known && own && keys, "%c: what is read is there; every client inserts its own numbers", name);
	if (mix.inserts > 0)
		ok(inserted_read, "%c: inserted records are read", name);
	if (mix.scans > 0)
		ok(shortest == 1 && longest == 100 && fabs((double) lengths / kinds[TB_SCAN] - 50.5) < 1,
		   "%c: scan lengths are even from %d to %d", name, shortest, longest);
}

int
main(void)
{
	(void) tap_start("test_keys");
	test_hash();
	test_zipf();
	test_skewed();
	for (const char *w = "CAE"; *w; w++)
	{
		test_mix(*w, false);
		test_mix(*w, true);
	}
	return tap_done();
}

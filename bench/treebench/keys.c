/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  Key numbers, keys and operations as YCSB draws them.
 *
 * IDENTIFICATION
 *	  bench/treebench/keys.c
 *
 *-------------------------------------------------------------------------
 */
#include "keys.h"

#include <math.h>
#include <string.h>

uint64_t
tb_hash(uint64_t value)
{
	uint64_t h = UINT64_C(0xCBF29CE484222325);

	for (int i = 0; i < 8; i++)
	{
		h ^= value & 0xFF;
		h *= UINT64_C(0x100000001B3);
		value >>= 8;
	}
	return (h >> 63) ? UINT64_C(0) - h : h;
}

/*
 * Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (1994),
 * with the constants of YCSB's ScrambledZipfianGenerator: it always draws from
 * 10^10 + 1 items with zeta 26.46902820178302.
 */
uint64_t
tb_zipf_rank(uint64_t r)
{
	const double items = 10000000001.0;
	const double zeta = 26.46902820178302;
	const double alpha = 99.99999999999991; /* 1 / (1 - 0.99) */
	const double eta = 0.21220003380967406; /* (1 - (2 / items)^0.01) / (1 - zeta(2) / zeta) */
	double u = (double) r / 9007199254740992.0;

	if (u * zeta < 1)
		return 0;
	if (u * zeta < 1 + pow(0.5, 0.99))
		return 1;
	return (uint64_t) (items * pow(eta * u - eta + 1, alpha));
}

int64_t
tb_key(TbKeys kind, uint64_t number)
{
	uint64_t h = tb_hash(number);
	uint64_t low;

	if (kind == TB_KEYS_HASHED)
		return (int64_t) h;

	/*
	 * 1,024 clusters; inside one, each power of two of distance from its start
	 * holds as many keys as the next, so density halves again and again.  The
	 * number at the end keeps keys apart, since only one tree allows equal ones.
	 */
	low = (h & ((UINT64_C(1) << 29) - 1)) >> (h >> 32 & 1023) % 20;
	return (int64_t) ((h >> 52 & 1023) << 53 | low << 24 | (number & 0xFFFFFF));
}

bool
tb_mix(char name, TbMix *mix)
{
	static const TbMix mixes[] = {{'C', 0, 0}, {'A', 50, 0}, {'E', 5, 95}};

	for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
	{
		if (mixes[i].name == name)
		{
			*mix = mixes[i];
			return true;
		}
	}
	return false;
}

void
tb_stream_init(TbStream *stream, const TbMix *mix, TbKeys keys, bool zipf,
			   uint64_t loaded, uint64_t first_new, int client, int clients,
			   uint64_t expected_inserts, uint64_t seed)
{
	memset(stream, 0, sizeof(*stream));
	stream->mix = *mix;
	stream->keys = keys;
	stream->zipf = zipf;
	stream->loaded = loaded;
	stream->first_new = first_new;
	stream->client = client;
	stream->clients = clients;
	/* CoreWorkload: twice the inserts it expects, and an inclusive range */
	stream->items = loaded + 2 * expected_inserts + 1;
	stream->random = seed;
}

/* Key number of the n-th record this client knows of. */
static uint64_t
record_number(const TbStream *stream, uint64_t n)
{
	if (n < stream->loaded)
		return n;
	return stream->first_new + (n - stream->loaded) * (uint64_t) stream->clients + (uint64_t) stream->client;
}

static uint64_t
choose(TbStream *stream)
{
	uint64_t known = stream->loaded + stream->inserted;

	if (!stream->zipf)
		return record_number(stream, next_random(&stream->random) % known);
	for (;;)
	{
		uint64_t n = tb_hash(tb_zipf_rank(next_random(&stream->random) >> 11)) % stream->items;

		if (n < known)
			return record_number(stream, n);
	}
}

void
tb_stream_next(TbStream *stream, TbOp *op)
{
	int percent = (int) (next_random(&stream->random) % 100);
	uint64_t number;

	op->len = 0;
	if (percent < stream->mix.inserts)
	{
		op->kind = TB_INSERT;
		number = record_number(stream, stream->loaded + stream->inserted++);
	}
	else
	{
		op->kind = percent < stream->mix.inserts + stream->mix.scans ? TB_SCAN : TB_READ;
		if (op->kind == TB_SCAN)
			op->len = (uint8_t) (1 + next_random(&stream->random) % 100);
		number = choose(stream);
	}
	op->number = (uint32_t) number;
	op->key = tb_key(stream->keys, number);
}

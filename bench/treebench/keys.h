/*-------------------------------------------------------------------------
 *
 * keys.h
 *	  Key numbers, keys and operations as YCSB draws them.
 *
 * The scrambled zipfian generator and the hash are YCSB's, the same as in
 * bench/ycsb/scripts, which test_keys checks them against.  Operations are
 * drawn before the clock starts.
 *
 * IDENTIFICATION
 *	  bench/treebench/keys.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef TB_KEYS_H
#define TB_KEYS_H

#include "port.h"
#include "../lib/random.h"

/* site.ycsb.Utils.fnvhash64: FNV-1a of the eight octets, then abs(). */
extern uint64_t tb_hash(uint64_t value);

/*
 * Rank in [0, 10^10] of ScrambledZipfianGenerator's zipfian (theta 0.99) for a
 * draw r in [0, 2^53); rank 0 is the most popular.
 */
extern uint64_t tb_zipf_rank(uint64_t r);

typedef enum TbKeys
{
	TB_KEYS_HASHED, /* tb_hash(number): spread evenly, as YCSB's */
	TB_KEYS_SKEWED	/* clusters, dense on one side: hard to guess places in */
} TbKeys;

extern int64_t tb_key(TbKeys kind, uint64_t number);

/*
 * What is stored with a key: its number, in the form of a row address (block
 * and offset 1), which every contender can hold.
 */
static inline uint64_t
tb_value(uint64_t number)
{
	return (number & 0xFFFFFFFF) << 16 | 1;
}

typedef enum TbKind
{
	TB_READ,
	TB_INSERT,
	TB_SCAN,
	TB_MIGRATE /* of bench/treebench/migrate only */
} TbKind;

typedef struct TbOp
{
	int64_t key;
	uint32_t number;
	uint8_t kind; /* TbKind */
	uint8_t len;  /* scan: entries wanted, 1..100 */
} TbOp;

typedef struct TbMix
{
	char name; /* C, A, E */
	int inserts,
		scans; /* percent; the rest reads */
} TbMix;

/* By name; false if there is none of that name. */
extern bool tb_mix(char name, TbMix *mix);

/*
 * One client's stream of operations.  Key numbers below "loaded" are there from
 * the start; the client's i-th insert has the number
 * first_new + i * clients + client, and is drawn by its own reads and scans from
 * then on, as in bench/ycsb.
 */
typedef struct TbStream
{
	TbMix mix;
	TbKeys keys;
	bool zipf;
	uint64_t loaded;
	uint64_t first_new;
	int client,
		clients;
	uint64_t items;	   /* range the generator draws from, redrawn if not there */
	uint64_t inserted; /* by this client so far */
	uint64_t random;   /* state */
} TbStream;

extern void tb_stream_init(TbStream *stream, const TbMix *mix, TbKeys keys, bool zipf,
						   uint64_t loaded, uint64_t first_new, int client, int clients,
						   uint64_t expected_inserts, uint64_t seed);
extern void tb_stream_next(TbStream *stream, TbOp *op);

#endif /* TB_KEYS_H */

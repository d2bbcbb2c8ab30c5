/*-------------------------------------------------------------------------
 *
 * ring.h
 *	  A ring of samples with one writer and one reader, without locks.
 *
 * Lives in zeroed shared memory.  The writer is the process that owns the
 * slot, the reader is the migrator.  head is written by the writer only, tail
 * by the reader only; both count samples since the memory was zeroed and
 * never go back, so "full" and "empty" need no third state and the counters
 * may wrap.  A full ring drops the new sample and counts it: the writer never
 * waits and never overwrites what the reader may be copying.
 *
 * Pure C; argued in README.md, "Rings".
 *
 * IDENTIFICATION
 *	  src/migrator/ring.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_RING_H
#define NM_RING_H

#include "port.h"

#define NM_RING_SIZE  512 /* samples; a power of two; 12 kB per process */
#define NM_CACHE_LINE 64

/*
 * One sampled access.  weight is how many accesses it stands for (the
 * sample_rate in force when it was taken), so that a changed setting does not
 * distort the sums.
 */
typedef struct NmRingSample
{
	uint8_t kind; /* NmSampleKind */
	uint8_t pad;
	int16_t node; /* kernel node id the process ran on */
	uint32_t weight;
	uint32_t spc, /* BLOCK: storage of the relation, main fork */
		db,
		rel;
	uint32_t block; /* BLOCK: block number; LEAF: page number */
} NmRingSample;

typedef struct NmRing
{
	/* writer's cache line */
	uint32_t head;	  /* samples ever written */
	uint32_t dropped; /* samples that found the ring full */
	char pad1[NM_CACHE_LINE - 8];

	/* reader's cache line */
	uint32_t tail;		   /* samples ever read */
	uint32_t dropped_read; /* value of dropped already accounted */
	char pad2[NM_CACHE_LINE - 8];

	NmRingSample samples[NM_RING_SIZE];
} NmRing;

/* Writer: append, or count a drop.  Returns false if dropped. */
static inline bool
nm_ring_push(NmRing *ring, const NmRingSample *sample)
{
	uint32_t head = ring->head; /* ours: no other writer */
	uint32_t tail = __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE);

	if (head - tail >= NM_RING_SIZE)
	{
		__atomic_store_n(&ring->dropped, ring->dropped + 1, __ATOMIC_RELAXED);
		return false;
	}
	ring->samples[head % NM_RING_SIZE] = *sample;
	__atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
	return true;
}

/*
 * Reader: copy out up to max samples, oldest first.  Returns how many; *lost
 * gets the drops since the last call (may be NULL: left for the next call).
 */
static inline int
nm_ring_drain(NmRing *ring, NmRingSample *out, int max, uint32_t *lost)
{
	uint32_t tail = ring->tail; /* ours: no other reader */
	uint32_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	int n = 0;

	while (tail != head && n < max)
		out[n++] = ring->samples[tail++ % NM_RING_SIZE];
	__atomic_store_n(&ring->tail, tail, __ATOMIC_RELEASE);

	if (lost)
	{
		uint32_t dropped = __atomic_load_n(&ring->dropped, __ATOMIC_RELAXED);

		*lost = dropped - ring->dropped_read;
		ring->dropped_read = dropped;
	}
	return n;
}

#endif /* NM_RING_H */

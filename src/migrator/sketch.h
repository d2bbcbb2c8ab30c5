/*-------------------------------------------------------------------------
 *
 * sketch.h
 *	  Who uses which place, from which node: decaying counts, bounded memory.
 *
 * A place is what the policy decides about as a whole: a range of blocks of a
 * relation, a chunk of tree pages, or one huge page of shared buffers.  A
 * group (a place with number NM_PLACE_ALL) sums up a whole relation or tree.
 *
 * The table is set-associative: a place may live in one of NM_SKETCH_WAYS
 * entries of its set.  A newcomer to a full set takes the entry with the
 * smallest count, so the memory is bounded and the hot places stay; what was
 * pushed out is counted.
 *
 * Counts are accesses (samples times weight) and decay exponentially: with
 * half-life h a place that gets r accesses per second settles at r * h / ln 2.
 *
 * Nodes are positions 0..nnodes-1, not kernel ids.  Pure C, no allocation.
 *
 * IDENTIFICATION
 *	  src/migrator/sketch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_SKETCH_H
#define NM_SKETCH_H

#include "port.h"

#define NM_SKETCH_WAYS 8
#define NM_PLACE_ALL   UINT32_MAX

typedef enum NmPlaceKind
{
	NM_PLACE_NONE = 0,
	NM_PLACE_RANGE, /* NM_RANGE_BLOCKS blocks of a relation */
	NM_PLACE_CHUNK, /* NM_CHUNK_PAGES tree pages */
	NM_PLACE_OSPAGE /* a huge page of shared buffers */
} NmPlaceKind;

typedef struct NmPlaceKey
{
	uint32_t kind; /* NmPlaceKind */
	uint32_t spc,  /* storage of relation or index; 0 unknown */
		db,
		rel;
	uint32_t no; /* range, chunk or page; NM_PLACE_ALL = group */
} NmPlaceKey;

/*
 * One place.  count[] holds nnodes sums of accesses by the node they came
 * from, then nnodes sums by the node the memory was on at the time.
 */
typedef struct NmPlace
{
	NmPlaceKey key;
	float samples; /* decayed number of samples: confidence */
	float total;   /* decayed accesses */
	float local;   /* of these, where both nodes were the same */
	float located; /* of these, where the memory's node was known */
	bool fresh;	   /* new samples since the policy last looked */

	/* the policy's memory of this place (policy.c) */
	int8_t candidate; /* node that has been winning, -1 none */
	uint8_t streak;	  /* rounds it has been winning */
	uint8_t moves;	  /* moves lately: doubles the rest after each */
	uint8_t failures; /* attempts in a row that moved little */
	int8_t target;	  /* node it was last moved to, -1 none */
	double until;	  /* leave alone before this time, seconds */
	double moved_at;  /* time of the last move, 0 none */
	float count[];
} NmPlace;

typedef struct NmSketch
{
	int nnodes;
	uint32_t nsets; /* power of two */
	size_t stride;	/* bytes per entry */
	uint64_t evictions;
	uint64_t used; /* entries in use */
	char *entries;
} NmSketch;

/* Bytes for at least nplaces entries; nm_sketch_init fills that memory. */
extern size_t nm_sketch_size(uint32_t nplaces, int nnodes);
extern void nm_sketch_init(NmSketch *sketch, void *mem, uint32_t nplaces, int nnodes);

/*
 * Count one sample of weight accesses from node `from` on memory that was on
 * node `at` (-1 unknown).  Returns the entry, valid until the next add.
 */
extern NmPlace *nm_sketch_add(NmSketch *sketch, const NmPlaceKey *key, int from, int at, float weight);

extern NmPlace *nm_sketch_find(NmSketch *sketch, const NmPlaceKey *key);

/* Multiply all counts by factor (0..1); entries that fade out are freed. */
extern void nm_sketch_decay(NmSketch *sketch, float factor);

/* Entry i of nm_sketch_capacity(), NULL if unused. */
extern NmPlace *nm_sketch_entry(NmSketch *sketch, uint32_t i);

static inline uint32_t
nm_sketch_capacity(const NmSketch *sketch)
{
	return sketch->nsets * NM_SKETCH_WAYS;
}

static inline float *
nm_place_from(const NmSketch *sketch, NmPlace *place)
{
	return place->count;
}

static inline float *
nm_place_at(const NmSketch *sketch, NmPlace *place)
{
	return place->count + sketch->nnodes;
}

static inline bool
nm_place_key_equal(const NmPlaceKey *a, const NmPlaceKey *b)
{
	return a->kind == b->kind && a->spc == b->spc && a->db == b->db &&
		   a->rel == b->rel && a->no == b->no;
}

static inline NmPlaceKey
nm_place_group(const NmPlaceKey *key)
{
	NmPlaceKey group = *key;

	group.no = NM_PLACE_ALL;
	return group;
}

#endif /* NM_SKETCH_H */

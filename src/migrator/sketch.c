/*-------------------------------------------------------------------------
 *
 * sketch.c
 *	  Decaying counts by place and node in a set-associative table.
 *
 * IDENTIFICATION
 *	  src/migrator/sketch.c
 *
 *-------------------------------------------------------------------------
 */
#include "migrator/sketch.h"

#include <string.h>

/*
 * An entry whose decayed number of samples is below this says nothing any
 * more: one sample is worth that little after ten half-lives.  Its place is
 * freed unless the policy still has to remember something about it.
 */
#define FADED_SAMPLES 0.001f

static size_t
entry_stride(int nnodes)
{
	size_t size = offsetof(NmPlace, count) + (size_t) 2 * nnodes * sizeof(float);

	return (size + 7) & ~(size_t) 7;
}

static uint32_t
set_count(uint32_t nplaces)
{
	uint32_t nsets = 1;

	while (nsets * NM_SKETCH_WAYS < nplaces && nsets < (UINT32_C(1) << 27))
		nsets <<= 1;
	return nsets;
}

size_t
nm_sketch_size(uint32_t nplaces, int nnodes)
{
	return (size_t) set_count(nplaces) * NM_SKETCH_WAYS * entry_stride(nnodes);
}

void
nm_sketch_init(NmSketch *sketch, void *mem, uint32_t nplaces, int nnodes)
{
	memset(sketch, 0, sizeof(*sketch));
	sketch->nnodes = nnodes;
	sketch->nsets = set_count(nplaces);
	sketch->stride = entry_stride(nnodes);
	sketch->entries = mem;
	memset(mem, 0, nm_sketch_size(nplaces, nnodes));
}

static NmPlace *
entry_at(NmSketch *sketch, uint32_t i)
{
	return (NmPlace *) (sketch->entries + (size_t) i * sketch->stride);
}

NmPlace *
nm_sketch_entry(NmSketch *sketch, uint32_t i)
{
	NmPlace *place = entry_at(sketch, i);

	return place->key.kind == NM_PLACE_NONE ? NULL : place;
}

/* Mix the key so that neighbouring ranges of one relation spread over sets. */
static uint32_t
key_set(const NmSketch *sketch, const NmPlaceKey *key)
{
	uint64_t h = key->kind;

	h = h * UINT64_C(0x9E3779B97F4A7C15) + key->spc;
	h = h * UINT64_C(0x9E3779B97F4A7C15) + key->db;
	h = h * UINT64_C(0x9E3779B97F4A7C15) + key->rel;
	h = h * UINT64_C(0x9E3779B97F4A7C15) + key->no;
	h ^= h >> 32;
	h *= UINT64_C(0xD6E8FEB86659FD93);
	h ^= h >> 32;
	return (uint32_t) h & (sketch->nsets - 1);
}

NmPlace *
nm_sketch_find(NmSketch *sketch, const NmPlaceKey *key)
{
	uint32_t first = key_set(sketch, key) * NM_SKETCH_WAYS;

	for (uint32_t i = first; i < first + NM_SKETCH_WAYS; i++)
	{
		NmPlace *place = entry_at(sketch, i);

		if (nm_place_key_equal(&place->key, key))
			return place;
	}
	return NULL;
}

/*
 * The entry a newcomer takes: a free one, else the one with fewest samples.
 * Groups are few, and the choice to let cold places follow hangs on them, so
 * a place only pushes a group out if the set holds nothing else.
 */
static NmPlace *
victim(NmSketch *sketch, const NmPlaceKey *key)
{
	uint32_t first = key_set(sketch, key) * NM_SKETCH_WAYS;
	NmPlace *best = NULL;
	bool best_group = false;

	for (uint32_t i = first; i < first + NM_SKETCH_WAYS; i++)
	{
		NmPlace *place = entry_at(sketch, i);
		bool group = place->key.no == NM_PLACE_ALL;

		if (place->key.kind == NM_PLACE_NONE)
			return place;
		if (best == NULL || (best_group && !group) ||
			(best_group == group && place->samples < best->samples))
		{
			best = place;
			best_group = group;
		}
	}
	return best;
}

static NmPlace *
insert(NmSketch *sketch, const NmPlaceKey *key)
{
	NmPlace *place = victim(sketch, key);

	if (place->key.kind == NM_PLACE_NONE)
		sketch->used++;
	else
		sketch->evictions++;
	memset(place, 0, sketch->stride);
	place->key = *key;
	place->candidate = -1;
	place->target = -1;
	return place;
}

NmPlace *
nm_sketch_add(NmSketch *sketch, const NmPlaceKey *key, int from, int at, float weight)
{
	NmPlace *place = nm_sketch_find(sketch, key);

	if (place == NULL)
		place = insert(sketch, key);

	place->samples += 1;
	place->total += weight;
	place->fresh = true;
	nm_place_from(sketch, place)[from] += weight;
	if (at >= 0)
	{
		place->located += weight;
		nm_place_at(sketch, place)[at] += weight;
		if (at == from)
			place->local += weight;
	}
	return place;
}

void
nm_sketch_decay(NmSketch *sketch, float factor)
{
	uint32_t capacity = nm_sketch_capacity(sketch);

	for (uint32_t i = 0; i < capacity; i++)
	{
		NmPlace *place = entry_at(sketch, i);

		if (place->key.kind == NM_PLACE_NONE)
			continue;
		place->samples *= factor;
		place->total *= factor;
		place->local *= factor;
		place->located *= factor;
		for (int n = 0; n < 2 * sketch->nnodes; n++)
			place->count[n] *= factor;
		if (place->samples < FADED_SAMPLES)
		{
			place->key.kind = NM_PLACE_NONE;
			sketch->used--;
		}
	}
}

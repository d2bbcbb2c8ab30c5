/*-------------------------------------------------------------------------
 *
 * runs.h
 *	  Leaves that store the equal keys of adjacent entries once.
 *
 * A run is a sequence of entries, adjacent in the order (key, TID), whose key
 * bytes are the same.  Entries are numbered as in a plain leaf.
 *
 *	80	FIXED	int64 keys[nruns], uint16 ends[nruns], TIDs[n]
 *		GENERAL	uint64 heads[nruns] (only with NM_PF_HEADS), uint16 slots[nruns],
 *				uint16 ends[nruns], TIDs[n], free space, items
 *
 * ends[r] is the number of entries in runs 0..r.  A TID is 4 bytes, its block
 * above the page's tid_base (16 bits) << 16 | offset with the kill mark; with
 * NM_PF_WIDE 6 bytes, the block (32 bits) and the offset.  The block and offset
 * in an item are not used.
 *
 * Why this is right: README.md, section 14.
 *
 * IDENTIFICATION
 *	  src/btree/runs.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_BTREE_RUNS_H
#define NM_BTREE_RUNS_H

#include "btree/item.h"

/* Where the arrays of a leaf of runs lie; all counts clamped to the page. */
typedef struct NmRuns
{
	int n;
	int nruns;
	int width;
	uint32_t base;	 /* 0 if wide */
	int64_t *keys;	 /* FIXED */
	uint64_t *heads; /* GENERAL, NULL without */
	uint16_t *slots; /* GENERAL */
	uint16_t *ends;
	char *tids;
} NmRuns;

NM_RACY static inline void
nm_runs_view(const NmPage *p, NmRuns *v)
{
	uint16_t flags = nm_page_flags(p);
	int slot = nm_run_slot(flags);
	char *at = (char *) p->body;

	v->width = nm_run_width(flags);
	v->nruns = nm_clamp(p->nruns, NM_BODY_SIZE / slot);
	v->n = nm_clamp(p->n, (NM_BODY_SIZE - v->nruns * slot) / v->width);
	v->base = (flags & NM_PF_WIDE) ? 0 : p->tid_base;
	v->keys = (int64_t *) at;
	v->heads = (flags & NM_PF_HEADS) ? (uint64_t *) at : NULL;
	if (slot > 4)
		at += 8 * v->nruns;
	v->slots = (uint16_t *) at;
	if (flags & NM_PF_GENERAL)
		at += 2 * v->nruns;
	v->ends = (uint16_t *) at;
	v->tids = at + 2 * v->nruns;
}

/* TID of entry i, block absolute, kill mark included. */
NM_RACY static inline uint64_t
nm_run_raw(const NmRuns *v, int i)
{
	const char *at = v->tids + i * v->width;
	uint32_t x;
	uint16_t off;

	memcpy(&x, at, sizeof(x));
	if (v->width == 4)
		return ((uint64_t) v->base << 16) + x;
	memcpy(&off, at + 4, sizeof(off));
	return (uint64_t) x << 16 | off;
}

NM_RACY static inline uint64_t
nm_run_tid(const NmRuns *v, int i)
{
	return nm_run_raw(v, i) & NM_TID_MAX & ~(uint64_t) NM_KILLED_BIT;
}

/* Entries in runs 0..r, and those before run r; r may be nruns. */
NM_RACY static inline int
nm_run_end(const NmRuns *v, int r)
{
	return r >= v->nruns ? v->n : nm_clamp(v->ends[r], v->n);
}

NM_RACY static inline int
nm_run_start(const NmRuns *v, int r)
{
	return r <= 0 ? 0 : nm_run_end(v, r - 1);
}

/* The run that entry pos is in; nruns if there is no such entry. */
NM_RACY static inline int
nm_run_of(const NmRuns *v, int pos)
{
	int lo = 0;
	int hi = v->nruns;

	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (v->ends[mid] > pos)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Of entries [lo, hi), whose keys are equal: the first at or after (upper: after) the TID. */
NM_RACY static inline int
nm_run_search(const NmRuns *v, int lo, int hi, uint64_t tid, bool upper)
{
	while (lo < hi)
	{
		int mid = (lo + hi) / 2;
		uint64_t t = nm_run_tid(v, mid);

		if (upper ? t <= tid : t < tid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* How the TIDs of a leaf are written. */
typedef struct NmTidForm
{
	bool wide;
	uint32_t base;
} NmTidForm;

#define NM_NARROW_BLOCKS 0xFFFF /* highest block above tid_base */

static inline NmTidForm
nm_tid_form(uint32_t min_block, uint32_t max_block)
{
	NmTidForm form = {.wide = max_block - min_block > NM_NARROW_BLOCKS};

	/* the start of the heap serves small tables for ever */
	form.base = form.wide || max_block <= NM_NARROW_BLOCKS ? 0 : min_block;
	return form;
}

/* Write entry i, kill mark included; its block must be in reach. */
extern void nm_run_put(const NmRuns *v, int i, uint64_t raw);
/* Is this, bytes and all, the key of the run? */
extern bool nm_run_is(const NmPage *p, const NmRuns *v, int run, const NmItem *item);

/* ---- single entries, as in entry.c ---- */
extern uint64_t nm_runs_tid(const NmPage *p, int pos);
extern bool nm_runs_killed(const NmPage *p, int pos);
extern void nm_runs_set_killed(NmPage *p, int pos, bool killed);
extern bool nm_runs_copy(const NmTree *tree, const NmPage *p, int pos, NmKeyCopy *out);
extern NmPageNo nm_runs_overflow(const NmPage *p, int pos);
extern bool nm_runs_fits(const NmPage *p, int pos, const NmItem *item, uint64_t tid);
extern void nm_runs_insert(NmPage *p, int pos, const NmEntry *e);
extern NmPageNo nm_runs_remove(NmPage *p, int pos);
extern int nm_runs_drop(NmPage *p, const uint8_t *drop, NmRetired *retired);
/* Bytes that inserting the entry takes. */
extern int nm_runs_need(const NmPage *p, int pos, const NmItem *item, uint64_t tid);

/* ---- searching ---- */
extern int nm_runs_fixed_search(const NmPage *p, const NmBound *bound, bool upper);
/* Copy the last entry of a run. */
extern bool nm_runs_copy_last(const NmTree *tree, const NmPage *p, int run, NmKeyCopy *out);
/* Racy forms of the above on a page: run of an entry, first entry, place inside. */
extern int nm_runs_at(const NmPage *p, int pos);
extern int nm_runs_first(const NmPage *p, int run);
extern int nm_runs_place(const NmPage *p, int run, uint64_t tid, bool upper);

/* ---- whole leaves (merge.c; pages locked or private) ---- */

/* Fill an empty leaf with entries [from, to) of another, in the smaller form. */
extern void nm_leaf_fill(NmPage *dst, const NmPage *src, int from, int to);
/* Turn a plain leaf to runs if that makes enough room; says whether it did. */
extern bool nm_leaf_merge(NmPage *p);
/* Entries that stay left when a leaf of runs is split to make room for e at pos. */
extern int nm_runs_split_point(const NmTree *tree, const NmPage *p, int pos, const NmItem *item);

#endif /* NM_BTREE_RUNS_H */

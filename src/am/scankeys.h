/*-------------------------------------------------------------------------
 *
 * scankeys.h
 *	  From the executor's scan keys to bounds in the tree and filters.
 *
 * Keys on the leading columns become two bounds: equality (or IS NULL) on a
 * prefix, then at most one range.  Every other key is a filter on the copied
 * entries, so nothing depends on finding the cleverest bounds.  Equality with
 * an array on a prefix column makes the scan a series of range scans, one per
 * combination of elements, in index order.
 *
 * IDENTIFICATION
 *	  src/am/scankeys.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_SCANKEYS_H
#define NM_SCANKEYS_H

#include "am/am.h"

#include "access/skey.h"

/* How a column value is compared with a key's argument. */
typedef enum NmArgOrder
{
	NM_ARG_NONE,	/* the family has no order function for the pair */
	NM_ARG_SAME,	/* the column's own order */
	NM_ARG_INTEGER, /* integers of different width */
	NM_ARG_CALL		/* the family's cross-type order function */
} NmArgOrder;

/* One scan key. */
typedef struct NmKeyInfo
{
	/* what the rest was worked out for */
	AttrNumber attno;
	StrategyNumber strategy;
	Oid subtype;
	int flags; /* without SK_ISNULL */

	bool isnull_test; /* IS NULL or IS NOT NULL */
	NmArgOrder arg_order;
	NmFixedKind arg_kind; /* NM_ARG_INTEGER */
	FmgrInfo order;		  /* NM_ARG_CALL */
	bool elem_order_known;
	FmgrInfo elem_order;   /* arrays: order among elements; fn_oid 0 = none */
	NmFixedKind elem_kind; /* the same without a call */
	bool elem_as_column;   /* the same is the column's own order */

	/* per rescan */
	Datum arg;	  /* scalar, or current element */
	int nelems;	  /* array that was not reduced to a scalar */
	Datum *elems; /* sorted in index order if elem_order is there */
	bool sorted;
	int cur; /* element the bounds are at */
	bool is_array;
	bool bound; /* expressed by the bounds: no filter */
} NmKeyInfo;

typedef struct NmBoundColumn
{
	bool isnull; /* bound is at NULL */
	Datum value;
	const NmKeyInfo *key; /* how to compare; NULL with isnull */
} NmBoundColumn;

typedef struct NmBoundKeys
{
	const NmKeyDesc *desc;
	int ncols;
	bool have_tail;
	uint64 head;
	NmTail tail;		 /* of column 1, a string that has this head */
	NmBoundColumn *cols; /* columns 1 .. ncols */
} NmBoundKeys;

typedef struct NmScanKeys
{
	Relation index;
	const NmKeyDesc *desc;
	MemoryContext cxt;		 /* of this structure */
	MemoryContext array_cxt; /* reset by every rescan with arrays */
	ScanKey keys;
	int nkeys;
	NmKeyInfo *info;

	bool satisfiable;
	bool point; /* FIXED: one "=" and nothing else */

	/* roles, by position in keys; -1 = none */
	int nprefix;
	int prefix[INDEX_MAX_KEYS];
	int lower;
	int upper;
	bool lower_null; /* begins after the NULLs */
	bool upper_null; /* ends before the NULLs */
	int narrays;	 /* prefix columns to iterate over */
	int arrays[INDEX_MAX_KEYS];
	int nfilters;
	int *filters;

	NmBound lo;
	NmBound hi;
	NmBoundKeys lo_keys;
	NmBoundKeys hi_keys;
} NmScanKeys;

extern void nm_keys_init(NmScanKeys *sk, Relation index, const NmKeyDesc *desc, int nkeys);
extern void nm_keys_end(NmScanKeys *sk);
/* New values of the scan keys (or the same ones again). */
extern void nm_keys_set(NmScanKeys *sk, ScanKey keys, int nkeys);
/* First combination of array elements in a direction. */
extern void nm_keys_start(NmScanKeys *sk, NmDirection dir);
/* Next one; false at the end. */
extern bool nm_keys_advance(NmScanKeys *sk, NmDirection dir);
/* Save and restore the combination: cur[narrays]. */
extern void nm_keys_save(const NmScanKeys *sk, int *cur);
extern void nm_keys_restore(NmScanKeys *sk, const int *cur);
/* Does entry i of the batch pass the filters? */
extern bool nm_keys_match(NmScanKeys *sk, const NmBatch *batch, int i);

/*
 * The same single "=" with another value: all a nested loop's rescan is.
 * False if it is anything else.
 */
static inline bool
nm_keys_set_point(NmScanKeys *sk, ScanKey key)
{
	int64 v;

	if (!sk->point || (key->sk_flags & SK_ISNULL) || key->sk_flags != sk->info[0].flags ||
		key->sk_subtype != sk->info[0].subtype || key->sk_strategy != sk->info[0].strategy)
		return false;
	v = nm_fixed_value(sk->info[0].arg_kind, key->sk_argument);
	if (sk->desc->desc_first)
		v = ~v;
	sk->lo.item.key = v;
	sk->hi.item.key = v;
	sk->satisfiable = true;
	return true;
}

#endif /* NM_SCANKEYS_H */

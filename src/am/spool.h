/*-------------------------------------------------------------------------
 *
 * spool.h
 *	  Inside of the spool: what spool.c, spool_fixed.c, spool_general.c and
 *	  spool_runs.c share; phases of an index build.
 *
 * IDENTIFICATION
 *	  src/am/spool.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_SPOOL_H
#define NM_SPOOL_H

#include "am/am.h"

#include "access/itup.h"
#include "storage/buffile.h"
#include "storage/sharedfileset.h"
#include "utils/sortsupport.h"

/* PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE is 1 */
#define NM_PHASE_SCAN 2
#define NM_PHASE_SORT 3
#define NM_PHASE_LOAD 4

/*
 * What an entry carries beside its key: TID << 1 | dead, and in bit 62 what
 * its layout likes to keep there.
 */
#define NM_WHAT_FLAG	   (UINT64CONST(1) << 62)
#define NM_WHAT_TID(what)  (((what) & (NM_WHAT_FLAG - 1)) >> 1)
#define NM_WHAT_DEAD(what) (((what) &1) != 0)

/*
 * An entry as it is sorted and written to a run.
 * FIXED: key is the key, flag = rank, which puts NULLs at their end; so the
 * order is (rank, key, what).
 * GENERAL: key is a head or an abbreviated key (see spool_general.c), flag =
 * the first column is NULL; an index tuple follows.
 */
typedef struct NmSpoolEntry
{
	uint64 key;
	uint64 what;
} NmSpoolEntry;

/* GENERAL, in memory. */
typedef struct NmSpoolTuple
{
	NmSpoolEntry entry;
	IndexTuple itup;
} NmSpoolTuple;

/*
 * The beginning of a collation's sort key of the first column (spool_sortkey.c);
 * it follows the index tuple, in memory and in runs.  NULL has none: len is 0.
 */
typedef struct NmSortKey
{
	uint8 len;
	bool cut; /* there may be more of it */
	char data[FLEXIBLE_ARRAY_MEMBER];
} NmSortKey;

/* Bytes of a sort key that are kept at most. */
#define NM_SORT_KEY_MAX 64

/* Room for the name of a run in a shared set of files. */
#define NM_RUN_NAME 32

/* Bytes of a run kept in memory; a record has at most 16 + 2,704 + 72. */
#define NM_RUN_BUFFER 16384

/* A sorted run on disk.  At most one record, at buf + pos, is looked at. */
typedef struct NmRun
{
	BufFile *file;
	int64 left; /* bytes not yet read into the buffer */
	int pos;
	int n;
	union
	{
		char data[NM_RUN_BUFFER];
		NmSpoolEntry align;
	} buf;
} NmRun;

struct NmSpool
{
	NmIndex *idx;
	Relation heap;
	Relation index;
	bool fixed; /* layout */
	bool unique_check;
	bool nulls_distinct;
	bool equal_is_same; /* keys of other bytes are not equal, if plain strings */
	bool progress;
	int64 nadded;  /* rows */
	int64 nloaded; /* of them handed to the tree so far */
	Size workmem;  /* bytes */
	MemoryContext cxt;

	/* entries in memory: one of the arrays */
	NmSpoolEntry *entries; /* FIXED */
	NmSpoolTuple *tuples;  /* GENERAL */
	int64 nentries;
	int64 maxentries; /* allocated */

	/* GENERAL */
	MemoryContext tuple_cxt;		 /* the index tuples in memory, nothing else */
	bool heads;						 /* entry.key is a head of the tree's kind, or of sort keys */
	struct pg_locale_struct *locale; /* sort keys are made by it; else NULL */
	int sort_key_step;				 /* how long they are from now on */
	int64 ntotal;					 /* tuples ever added, and when to look again ... */
	int64 review_next;				 /* ... whether abbreviating, or long sort keys, pay */
	SortSupportData support[INDEX_MAX_KEYS];
	NmTupleBuffer image; /* of the entry that is handed to the tree */

	NmRun **runs; /* NULLs where another process will read them */
	int nruns;
	int maxruns;

	/* several processes (team.c) */
	SharedFileSet *shared; /* a worker's: where its runs go */
	int worker;			   /* its number */
	bool adopted;		   /* the leader's: some runs are others' */
	dsm_segment *files;	   /* the leader's: holds them */

	/* while loading */
	NmTree *tree;
	NmBulk *bulk;
	bool bulk_open;
	NmItem last_item; /* last alive entry, for the unique check */
	char *last_data;  /* GENERAL: its bytes, in a buffer */
	bool last_valid;
};

/* spool.c */
extern void nm_spool_show_progress(NmSpool *spool);
extern void nm_spool_set_phase(NmSpool *spool, int phase);
/* In kB.  Less than what is in use now counts from the next run on. */
extern void nm_spool_set_workmem(NmSpool *spool, int workmem);
/* Before the first entry: runs go where another process can take them over. */
extern void nm_spool_share(NmSpool *spool, SharedFileSet *files, int worker);
/* Write what is in memory as the last run. */
extern void nm_spool_flush(NmSpool *spool);
extern void nm_spool_emit(NmSpool *spool, const NmItem *item, uint64 what);

/* spool_fixed.c */
extern void nm_spool_fixed_begin(NmSpool *spool);
extern void nm_spool_fixed_add(NmSpool *spool, Datum value, bool isnull, uint64 what);
extern int nm_spool_fixed_compare(const NmSpoolEntry *a, const NmSpoolEntry *b);
extern void nm_spool_fixed_emit(NmSpool *spool, const NmSpoolEntry *e);
extern void nm_spool_fixed_flush(NmSpool *spool);
extern void nm_spool_fixed_load(NmSpool *spool);

/* spool_general.c */
extern void nm_spool_general_begin(NmSpool *spool);
extern void nm_spool_general_add(NmSpool *spool, Datum *values, bool *isnull,
								 ItemPointer tid, uint64 what);
extern int nm_spool_general_compare(NmSpool *spool, const NmSpoolEntry *a, IndexTuple ta,
									const NmSpoolEntry *b, IndexTuple tb);
extern void nm_spool_general_flush(NmSpool *spool);
/* Compare by columns from now on, not by what the type abbreviates. */
extern void nm_spool_general_stop_abbreviating(NmSpool *spool);
extern void nm_spool_general_load(NmSpool *spool);

/* spool_sortkey.c */
extern void nm_sort_keys_begin(NmSpool *spool);
extern IndexTuple nm_sort_key_attach(NmSpool *spool, IndexTuple itup);
extern int nm_sort_keys_compare(const NmSpool *spool, IndexTuple a, IndexTuple b);
extern void nm_sort_keys_review(NmSpool *spool);

/* spool_runs.c */
extern NmRun *nm_run_begin(NmSpool *spool);
extern void nm_run_write(NmRun *run, const void *data, Size len);
extern void nm_run_end(NmSpool *spool, NmRun *run);
/* Take over the runs of another process. */
extern void nm_runs_adopt(NmSpool *spool, SharedFileSet *files, int worker, int nruns);
extern void nm_runs_load(NmSpool *spool);
extern void nm_runs_close(NmSpool *spool);
/* Whole records of a file; a short read is an error. */
extern void nm_run_append(BufFile *file, const void *data, Size len);
extern void nm_run_read(BufFile *file, void *data, Size len);

/* The tuple of a GENERAL record. */
static inline IndexTuple
nm_record_tuple(const NmSpoolEntry *e)
{
	return (IndexTuple) (e + 1);
}

static inline NmSortKey *
nm_sort_key(IndexTuple itup)
{
	return (NmSortKey *) ((char *) itup + MAXALIGN(IndexTupleSize(itup)));
}

/* Bytes of a tuple with its sort key, if it has one. */
static inline Size
nm_spool_tuple_size(const NmSpool *spool, IndexTuple itup)
{
	Size size = MAXALIGN(IndexTupleSize(itup));

	if (spool->locale)
		size += MAXALIGN(offsetof(NmSortKey, data) + nm_sort_key(itup)->len);
	return size;
}

#endif /* NM_SPOOL_H */

/*-------------------------------------------------------------------------
 *
 * spool_runs.c
 *	  Sorted runs on temporary files, and their merge into the tree.
 *
 * A run is a sequence of records: an NmSpoolEntry and, GENERAL, its index
 * tuple, padded to MAXALIGN, and where there are sort keys the tuple's, padded
 * likewise.
 *
 * IDENTIFICATION
 *	  src/am/spool_runs.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "am/spool.h"

#include "miscadmin.h"
#include "utils/memutils.h"

StaticAssertDecl(sizeof(NmSpoolEntry) + MAXALIGN(NM_MAX_KEY_SIZE) +
						 MAXALIGN(sizeof(NmSortKey) + NM_SORT_KEY_MAX) <=
					 NM_RUN_BUFFER / 2,
				 "a run's buffer holds some records");

static void
run_name(char *name, int worker, int run)
{
	snprintf(name, NM_RUN_NAME, "run.%d.%d", worker, run);
}

static NmRun *
add_run(NmSpool *spool)
{
	NmRun *run = palloc(sizeof(NmRun));

	run->file = NULL;
	run->left = 0;
	run->pos = run->n = 0;
	if (spool->nruns >= spool->maxruns)
	{
		int most = Max(16, spool->maxruns * 2);

		if (spool->runs == NULL)
			spool->runs = palloc(most * sizeof(NmRun *));
		else
			spool->runs = repalloc(spool->runs, most * sizeof(NmRun *));
		spool->maxruns = most;
	}
	spool->runs[spool->nruns++] = run;
	return run;
}

/* A new run, the last in the list, to be written by nm_run_write. */
NmRun *
nm_run_begin(NmSpool *spool)
{
	MemoryContext old = MemoryContextSwitchTo(spool->cxt);
	NmRun *run = add_run(spool);

	if (spool->shared)
	{
		char name[NM_RUN_NAME];

		run_name(name, spool->worker, spool->nruns - 1);
		run->file = BufFileCreateFileSet(&spool->shared->fs, name);
	}
	else
		run->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	return run;
}

void
nm_run_append(BufFile *file, const void *data, Size len)
{
#if PG_VERSION_NUM >= 160000
	BufFileWrite(file, data, len);
#else
	BufFileWrite(file, unconstify(void *, data), len);
#endif
}

void
nm_run_read(BufFile *file, void *data, Size len)
{
#if PG_VERSION_NUM >= 160000
	BufFileReadExact(file, data, len);
#else
	if (BufFileRead(file, data, len) != len)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file of an index sort")));
#endif
}

void
nm_run_write(NmRun *run, const void *data, Size len)
{
	nm_run_append(run->file, data, len);
	run->left += len;
}

/* All is written: to be read from the beginning, here or by the leader. */
void
nm_run_end(NmSpool *spool, NmRun *run)
{
	if (spool->shared)
	{
		BufFileExportFileSet(run->file);
		BufFileClose(run->file);
		spool->runs[spool->nruns - 1] = NULL;
		pfree(run);
		return;
	}
	if (BufFileSeek(run->file, 0, 0L, SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not rewind a temporary file of an index sort")));
}

void
nm_runs_adopt(NmSpool *spool, SharedFileSet *files, int worker, int nruns)
{
	MemoryContext old = MemoryContextSwitchTo(spool->cxt);

	for (int i = 0; i < nruns; i++)
	{
		NmRun *run = add_run(spool);
		char name[NM_RUN_NAME];

		run_name(name, worker, i);
		run->file = BufFileOpenFileSet(&files->fs, name, O_RDONLY, false);
		run->left = BufFileSize(run->file);
	}
	spool->adopted = spool->adopted || nruns > 0;
	MemoryContextSwitchTo(old);
}

/* Have at least len bytes at buf + pos; false at the run's end. */
static bool
have_bytes(NmRun *run, int len)
{
	int want;

	if (likely(run->n - run->pos >= len))
		return true;
	if (run->left == 0)
	{
		if (run->n != run->pos)
			elog(ERROR, "a temporary file of an index sort ends within an entry");
		return false;
	}
	memmove(run->buf.data, run->buf.data + run->pos, run->n - run->pos);
	run->n -= run->pos;
	run->pos = 0;
	want = (int) Min(run->left, NM_RUN_BUFFER - run->n);
	nm_run_read(run->file, run->buf.data + run->n, want);
	run->left -= want;
	run->n += want;
	return have_bytes(run, len);
}

static inline NmSpoolEntry *
current_record(NmRun *run)
{
	return (NmSpoolEntry *) (run->buf.data + run->pos);
}

static inline int
record_size(const NmSpool *spool, const NmSpoolEntry *e)
{
	if (spool->fixed)
		return sizeof(NmSpoolEntry);
	return sizeof(NmSpoolEntry) + nm_spool_tuple_size(spool, nm_record_tuple(e));
}

/* Have a whole record at buf + pos; false at the run's end. */
static bool
have_record(const NmSpool *spool, NmRun *run)
{
	Size size = sizeof(NmSpoolEntry);

	if (spool->fixed)
		return have_bytes(run, size);
	if (!have_bytes(run, size + sizeof(IndexTupleData)))
		return false;
	size += MAXALIGN(IndexTupleSize(nm_record_tuple(current_record(run))));
	if (spool->locale && !have_bytes(run, size + sizeof(NmSortKey)))
		return false;
	return have_bytes(run, record_size(spool, current_record(run)));
}

/*
 * A tournament of runs.  Runs are the leaves of a tree whose inner nodes, 1 to
 * n - 1, keep the loser of the match played there; leaf i is node n + i.  After
 * the winner has moved on it plays against the losers on its way up: one
 * comparison a level, where a heap needs two, and comparing strings by a
 * collation is most of what a merge costs.
 */
typedef struct Tournament
{
	NmSpool *spool;
	int n;
	bool *over; /* runs that have come to their end */
	int *loser;
} Tournament;

/* Does the current record of run a come before that of run b? */
static inline bool
comes_before(const Tournament *t, int a, int b)
{
	NmSpool *spool = t->spool;
	NmSpoolEntry *ea;
	NmSpoolEntry *eb;

	if (t->over[a] || t->over[b])
		return !t->over[a];
	ea = current_record(spool->runs[a]);
	eb = current_record(spool->runs[b]);
	if (spool->fixed)
		return nm_spool_fixed_compare(ea, eb) <= 0;
	return nm_spool_general_compare(spool, ea, nm_record_tuple(ea), eb, nm_record_tuple(eb)) <= 0;
}

/* Play all matches below a node; returns the winner. */
static int
play(Tournament *t, int node)
{
	int a;
	int b;

	if (node >= t->n)
		return node - t->n;
	a = play(t, 2 * node);
	b = play(t, 2 * node + 1);
	if (comes_before(t, a, b))
	{
		t->loser[node] = b;
		return a;
	}
	t->loser[node] = a;
	return b;
}

/* The winner has moved on: who is the next one? */
static int
play_again(Tournament *t, int winner)
{
	for (int node = (t->n + winner) / 2; node >= 1; node /= 2)
	{
		int other = t->loser[node];

		if (!comes_before(t, winner, other))
		{
			t->loser[node] = winner;
			winner = other;
		}
	}
	return winner;
}

static void
emit_record(NmSpool *spool, const NmSpoolEntry *e)
{
	NmItem item;

	if (spool->fixed)
	{
		nm_spool_fixed_emit(spool, e);
		return;
	}
	nm_item_from_tuple(&spool->idx->desc, nm_record_tuple(e), &item, &spool->image);
	nm_spool_emit(spool, &item, e->what);
}

/* Merge the first n runs into the tree, or into a new run, the last. */
static void
merge_runs(NmSpool *spool, int n, bool to_tree)
{
	Tournament t = {.spool = spool, .n = n};
	NmRun *out = to_tree ? NULL : nm_run_begin(spool);
	int64 count = 0;
	int winner;

	t.over = palloc(n * sizeof(bool));
	t.loser = palloc(n * sizeof(int));
	for (int i = 0; i < n; i++)
		t.over[i] = !have_record(spool, spool->runs[i]);

	for (winner = play(&t, 1); !t.over[winner]; winner = play_again(&t, winner))
	{
		NmRun *run = spool->runs[winner];
		NmSpoolEntry *e = current_record(run);
		int size = record_size(spool, e);

		if ((count++ & 255) == 0)
			CHECK_FOR_INTERRUPTS();
		if (to_tree)
			emit_record(spool, e);
		else
			nm_run_write(out, e, size);
		run->pos += size;
		t.over[winner] = !have_record(spool, run);
	}
	pfree(t.over);
	pfree(t.loser);
	if (out)
		nm_run_end(spool, out);

	for (int i = 0; i < n; i++)
	{
		BufFileClose(spool->runs[i]->file);
		pfree(spool->runs[i]);
	}
	memmove(&spool->runs[0], &spool->runs[n], (spool->nruns - n) * sizeof(NmRun *));
	spool->nruns -= n;
}

/* Merge all runs into the tree, in several passes if memory wants it so. */
void
nm_runs_load(NmSpool *spool)
{
	/* a BufFile has a buffer of BLCKSZ besides */
	int fanin = (int) Min(Max(6, spool->workmem / (sizeof(NmRun) + BLCKSZ)), 1024);

	/*
	 * What a type abbreviates is made for one sort: another process may have
	 * done it otherwise, or have stopped doing it.
	 */
	if (spool->adopted && !spool->fixed)
		nm_spool_general_stop_abbreviating(spool);
	while (spool->nruns > fanin)
		merge_runs(spool, fanin, false);
	nm_spool_set_phase(spool, NM_PHASE_LOAD);
	merge_runs(spool, spool->nruns, true);
}

void
nm_runs_close(NmSpool *spool)
{
	for (int i = 0; i < spool->nruns; i++)
	{
		if (spool->runs[i] != NULL && spool->runs[i]->file)
			BufFileClose(spool->runs[i]->file);
	}
	spool->nruns = 0;
}

/*-------------------------------------------------------------------------
 *
 * parallel.c
 *	  What the participants of a parallel index scan share.
 *
 * A parallel scan is one scan whose place is in shared memory: the fence in key
 * space, the current array elements.  Whoever wants a batch takes the scan,
 * goes on with it by one leaf, puts the new place back, and works on the
 * entries that it copied.  So what README.md of the tree argues for one scan
 * that is interrupted between leaves holds for all participants together: every
 * entry of the range goes to exactly one of them, whatever splits, is unlinked,
 * moves, or is unloaded and loaded meanwhile.
 *
 * Comparators run while the scan is taken.  If one raises, the query ends: the
 * others wait on a condition variable, which serves interrupts.
 *
 * IDENTIFICATION
 *	  src/am/parallel.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"
#include "am/parallel.h"

#include "access/relscan.h"
#include "storage/condition_variable.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

typedef enum NmTurn
{
	NM_TURN_FIRST, /* nobody has begun */
	NM_TURN_FREE,  /* place and elements may be taken */
	NM_TURN_TAKEN, /* by one participant, who alone looks at them */
	NM_TURN_OVER   /* nothing is left */
} NmTurn;

struct NmParallelScan
{
	slock_t mutex; /* of turn */
	NmTurn turn;
	ConditionVariable cv; /* turn has become FREE or OVER */
	int elems[INDEX_MAX_KEYS];
	NmScanPosition position;
};

/*
 * amestimateparallelscan.  The longest key there may be is counted in, so the
 * size depends on nothing.
 */
#if PG_VERSION_NUM >= 180000
Size
nm_estimateparallelscan(Relation index, int nkeys, int norderbys)
#elif PG_VERSION_NUM >= 170000
Size
nm_estimateparallelscan(int nkeys, int norderbys)
#else
Size
nm_estimateparallelscan(void)
#endif
{
	return sizeof(NmParallelScan);
}

void
nm_initparallelscan(void *target)
{
	NmParallelScan *shared = (NmParallelScan *) target;

	SpinLockInit(&shared->mutex);
	ConditionVariableInit(&shared->cv);
	shared->turn = NM_TURN_FIRST;
}

/* amparallelrescan: no worker is at it now. */
void
nm_parallelrescan(IndexScanDesc scan)
{
	NmParallelScan *shared = nm_parallel_of(scan);

	SpinLockAcquire(&shared->mutex);
	shared->turn = NM_TURN_FIRST;
	SpinLockRelease(&shared->mutex);
}

/* The shared part of a scan, or NULL. */
NmParallelScan *
nm_parallel_of(IndexScanDesc scan)
{
	ParallelIndexScanDesc pscan = scan->parallel_scan;

	if (pscan == NULL)
		return NULL;
#if PG_VERSION_NUM >= 180000
	return (NmParallelScan *) OffsetToPointer((void *) pscan, pscan->ps_offset_am);
#else
	return (NmParallelScan *) OffsetToPointer((void *) pscan, pscan->ps_offset);
#endif
}

/*
 * Wait for the scan and take it; false if nothing is left.  *first: nobody has
 * begun, there is no place yet; else the place goes into scan and keys.
 */
bool
nm_parallel_take(NmParallelScan *shared, NmScan *scan, NmScanKeys *keys, bool *first)
{
	NmTurn turn;

	for (;;)
	{
		SpinLockAcquire(&shared->mutex);
		turn = shared->turn;
		if (turn == NM_TURN_FIRST || turn == NM_TURN_FREE)
			shared->turn = NM_TURN_TAKEN;
		SpinLockRelease(&shared->mutex);
		if (turn != NM_TURN_TAKEN)
			break;
		ConditionVariableSleep(&shared->cv, WAIT_EVENT_BTREE_PAGE);
	}
	ConditionVariableCancelSleep();
	if (turn != NM_TURN_OVER)
		NM_STOP("parallel-taken");

	*first = turn == NM_TURN_FIRST;
	if (turn == NM_TURN_FREE)
	{
		nm_keys_restore(keys, shared->elems);
		nm_scan_import(scan, &shared->position);
	}
	return turn != NM_TURN_OVER;
}

/* Put the place back for the next participant; or say that it is the end. */
void
nm_parallel_give(NmParallelScan *shared, const NmScan *scan, const NmScanKeys *keys, bool over)
{
	if (!over)
	{
		nm_keys_save(keys, shared->elems);
		nm_scan_export(scan, &shared->position);
	}
	SpinLockAcquire(&shared->mutex);
	shared->turn = over ? NM_TURN_OVER : NM_TURN_FREE;
	SpinLockRelease(&shared->mutex);
	if (over)
		ConditionVariableBroadcast(&shared->cv);
	else
		ConditionVariableSignal(&shared->cv);
	NM_STOP("parallel-given");
}

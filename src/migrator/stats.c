/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Counters of the migrator in shared memory.
 *
 * The worker adds up a round privately and publishes it under
 * NM_LOCK_MIGRATOR; readers and stat_reset take the same lock for a moment.
 * Counters of moves are atomics, since backends move pages too and must not
 * wait for anyone.
 *
 * IDENTIFICATION
 *	  src/migrator/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

static void
init_moves(NmMoveCounters *c)
{
	pg_atomic_init_u64(&c->asked, 0);
	pg_atomic_init_u64(&c->moved, 0);
	pg_atomic_init_u64(&c->already, 0);
	pg_atomic_init_u64(&c->busy, 0);
	pg_atomic_init_u64(&c->denied, 0);
	pg_atomic_init_u64(&c->absent, 0);
	pg_atomic_init_u64(&c->failed, 0);
	pg_atomic_init_u64(&c->calls, 0);
	pg_atomic_init_u64(&c->elapsed_us, 0);
}

void
nm_stat_init(NmMigratorShared *shared)
{
	for (int kind = 0; kind < NM_MOVE_KINDS; kind++)
		for (int who = 0; who < 2; who++)
			init_moves(&shared->moves[kind][who]);
	shared->since = GetCurrentTimestamp();
	shared->mode = NM_MODE_ASYNC;
	shared->batch = NM_BATCH_DEFAULT;
}

void
nm_stat_add_moves(NmMoveKind kind, bool by_worker, const NmMoveStats *stats)
{
	NmMoveCounters *c;

	if (nm_migrator == NULL)
		return; /* moved by hand without preload */
	c = &nm_migrator->moves[kind][by_worker ? 1 : 0];
	pg_atomic_fetch_add_u64(&c->asked, stats->asked);
	pg_atomic_fetch_add_u64(&c->moved, stats->moved);
	pg_atomic_fetch_add_u64(&c->already, stats->already);
	pg_atomic_fetch_add_u64(&c->busy, stats->busy);
	pg_atomic_fetch_add_u64(&c->denied, stats->denied);
	pg_atomic_fetch_add_u64(&c->absent, stats->absent);
	pg_atomic_fetch_add_u64(&c->failed, stats->failed);
	pg_atomic_fetch_add_u64(&c->calls, stats->calls);
	pg_atomic_fetch_add_u64(&c->elapsed_us, (int64) (stats->elapsed_ms * 1000));
}

/* Add one round's counters. */
void
nm_stat_publish(const NmWorkerCounters *delta)
{
	NmWorkerCounters *c = &nm_migrator->counters;
	NmTuner *tuner = nm_bufmove_tuner();

	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_EXCLUSIVE);
	c->rounds += delta->rounds;
	c->samples += delta->samples;
	c->dropped += delta->dropped;
	c->forgotten += delta->forgotten;
	c->local += delta->local;
	c->remote += delta->remote;
	c->unknown += delta->unknown;
	c->moves += delta->moves;
	c->drifted += delta->drifted;
	nm_migrator->mode = nm_effective_mode(true);
	nm_migrator->batch = nm_effective_batch();
	nm_migrator->engine = nm_effective_engine();
	if (tuner)
		nm_migrator->pause_ms = tuner->worst_ms;
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));
}

static bool
same_object(const NmAccessStat *a, uint32 kind, Oid spc, Oid db, Oid rel)
{
	return a->kind == kind && a->rel == rel && a->db == db && a->spc == spc;
}

/*
 * Entry of one relation or tree.  Accesses without a known owner share one
 * entry per kind.  When the table is full the entry that was used longest ago
 * (a dropped relation, likely) is added to that one and makes room, so no
 * access is lost from the sums.
 */
static NmAccessStat *
access_entry(uint32 kind, Oid spc, Oid db, Oid rel)
{
	static int last[NM_SAMPLE_BLOCK + 1] = {0};
	NmAccessStat *entry = nm_access_stat(last[kind]);
	NmAccessStat *oldest = NULL;
	NmAccessStat *rest;
	int named = 0;
	int free = -1;
	int oldest_at = -1;

	if (same_object(entry, kind, spc, db, rel))
		return entry;
	for (int i = 0; i < NM_ACCESS_STATS; i++)
	{
		entry = nm_access_stat(i);
		if (entry->kind == 0)
		{
			if (free < 0)
				free = i;
			continue;
		}
		if (same_object(entry, kind, spc, db, rel))
		{
			last[kind] = i;
			return entry;
		}
		if (entry->rel == InvalidOid)
			continue;
		named++;
		if (oldest == NULL || entry->used < oldest->used)
		{
			oldest = entry;
			oldest_at = i;
		}
	}

	/* Two entries are kept for what has no name. */
	if (rel != InvalidOid && named >= NM_ACCESS_STATS - 2)
	{
		int ncells = nm_migrator->nnodes * (nm_migrator->nnodes + 1);

		rest = access_entry(oldest->kind, InvalidOid, InvalidOid, InvalidOid);
		for (int c = 0; c < ncells; c++)
		{
			rest->cell[c].samples += oldest->cell[c].samples;
			rest->cell[c].accesses += oldest->cell[c].accesses;
		}
		free = oldest_at;
	}
	entry = nm_access_stat(free);
	memset(entry, 0, nm_migrator->access_stride);
	entry->kind = kind;
	entry->spc = spc;
	entry->db = db;
	entry->rel = rel;
	last[kind] = free;
	return entry;
}

/* Add resolved samples to the table behind numa.stat_access. */
void
nm_stat_access(const NmResolved *samples, int n)
{
	static uint64 use = 0;
	int nnodes = nm_migrator->nnodes;

	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		const NmResolved *s = &samples[i];
		NmAccessStat *entry = access_entry(s->kind, s->spc, s->db, s->rel);
		NmAccessCell *cell = &entry->cell[s->from * (nnodes + 1) + (s->at < 0 ? nnodes : s->at)];

		entry->used = ++use;
		cell->samples++;
		cell->accesses += s->weight;
	}
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));
}

int
nm_migrator_pid(void)
{
	return nm_migrator == NULL ? -1 : nm_migrator->pid;
}

void
nm_stat_worker_state(NmWorkerState state, int pid)
{
	if (nm_migrator->state == state && nm_migrator->pid == pid)
		return; /* only we write these */
	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_EXCLUSIVE);
	if (nm_migrator->pid != pid && pid != 0)
		nm_migrator->started = GetCurrentTimestamp();
	nm_migrator->state = state;
	nm_migrator->pid = pid;
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));
}

void
nm_stat_error(const char *text)
{
	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_EXCLUSIVE);
	nm_migrator->counters.errors++;
	nm_migrator->error_time = GetCurrentTimestamp();
	strlcpy(nm_migrator->error_text, text, sizeof(nm_migrator->error_text));
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));
}

void
nm_stat_reset(void)
{
	LWLockAcquire(NmLock(NM_LOCK_MIGRATOR), LW_EXCLUSIVE);
	memset(&nm_migrator->counters, 0, sizeof(nm_migrator->counters));
	for (int i = 0; i < NM_ACCESS_STATS; i++)
		memset(nm_access_stat(i), 0, nm_migrator->access_stride);
	nm_migrator->error_text[0] = '\0';
	nm_migrator->error_time = 0;
	nm_migrator->pause_ms = 0;
	nm_migrator->since = GetCurrentTimestamp();
	LWLockRelease(NmLock(NM_LOCK_MIGRATOR));

	/* A move counted while we are at it may be lost or kept: both are fine. */
	for (int kind = 0; kind < NM_MOVE_KINDS; kind++)
		for (int who = 0; who < 2; who++)
		{
			NmMoveCounters *c = &nm_migrator->moves[kind][who];

			pg_atomic_write_u64(&c->asked, 0);
			pg_atomic_write_u64(&c->moved, 0);
			pg_atomic_write_u64(&c->already, 0);
			pg_atomic_write_u64(&c->busy, 0);
			pg_atomic_write_u64(&c->denied, 0);
			pg_atomic_write_u64(&c->absent, 0);
			pg_atomic_write_u64(&c->failed, 0);
			pg_atomic_write_u64(&c->calls, 0);
			pg_atomic_write_u64(&c->elapsed_us, 0);
		}
}

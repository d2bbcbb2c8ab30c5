/*-------------------------------------------------------------------------
 *
 * locktags.c
 *	  Heavyweight locks of our own, so that the deadlock detector sees who waits
 *	  for a load and for scans that VACUUM must not overtake.
 *
 * The tag is of type USERLOCK in the default lock method: pg_advisory locks
 * live in another method, so no user can take or hold ours.  The fields are
 * laid out as pg_locks shows them: database, classid = pg_class, objid = the
 * index, objsubid = what for.
 *
 * Members of one lock group (a parallel query) never block each other here, so
 * whoever holds the load lock still looks at the slot's state (load.c).
 *
 * IDENTIFICATION
 *	  src/am/locktags.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/life.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"

#define NM_LOCK_FOR_LOAD 1
#define NM_LOCK_FOR_SCAN 2
#define NM_LOCK_STRIPES	 16 /* and the next NM_NUM_STRIPES */

static void
set_tag(LOCKTAG *tag, Oid indexoid, uint16 what)
{
	tag->locktag_field1 = MyDatabaseId;
	tag->locktag_field2 = RelationRelationId;
	tag->locktag_field3 = indexoid;
	tag->locktag_field4 = what;
	tag->locktag_type = LOCKTAG_USERLOCK;
	tag->locktag_lockmethodid = DEFAULT_LOCKMETHOD;
}

/*
 * A non-MVCC scan holds this in share mode for as long as it may still visit
 * heap rows by TIDs it read before.
 */
void
nm_lock_scan_interlock(Relation index)
{
	LOCKTAG tag;

	set_tag(&tag, RelationGetRelid(index), NM_LOCK_FOR_SCAN);
	(void) LockAcquire(&tag, ShareLock, false, false);
}

void
nm_unlock_scan_interlock(Relation index)
{
	LOCKTAG tag;

	set_tag(&tag, RelationGetRelid(index), NM_LOCK_FOR_SCAN);
	(void) LockRelease(&tag, ShareLock, false);
}

/* Bulkdelete: all scans that held the interlock when this began are over. */
void
nm_wait_scan_interlock(Relation index)
{
	LOCKTAG tag;

	set_tag(&tag, RelationGetRelid(index), NM_LOCK_FOR_SCAN);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

/*
 * A unique insert's stripe, where comparisons are a user's code: that may take
 * long, wait, raise, or use this very index, and a wait for it must be seen by
 * the deadlock detector and be interruptible.
 */
void
nm_lock_stripe(Relation index, int stripe)
{
	LOCKTAG tag;

	set_tag(&tag, RelationGetRelid(index), (uint16) (NM_LOCK_STRIPES + stripe));
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

void
nm_unlock_stripe(Relation index, int stripe)
{
	LOCKTAG tag;

	set_tag(&tag, RelationGetRelid(index), (uint16) (NM_LOCK_STRIPES + stripe));
	(void) LockRelease(&tag, ExclusiveLock, false);
}

void
nm_lock_load_oid(Oid indexoid)
{
	LOCKTAG tag;

	set_tag(&tag, indexoid, NM_LOCK_FOR_LOAD);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

void
nm_unlock_load_oid(Oid indexoid)
{
	LOCKTAG tag;

	set_tag(&tag, indexoid, NM_LOCK_FOR_LOAD);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

void
nm_lock_load(Relation index)
{
	nm_lock_load_oid(RelationGetRelid(index));
}

bool
nm_try_lock_load(Relation index)
{
	LOCKTAG tag;

	set_tag(&tag, RelationGetRelid(index), NM_LOCK_FOR_LOAD);
	return LockAcquire(&tag, ExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

void
nm_unlock_load(Relation index)
{
	nm_unlock_load_oid(RelationGetRelid(index));
}

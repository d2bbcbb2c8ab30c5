/*-------------------------------------------------------------------------
 *
 * stop.c
 *	  Setting numa_migrate.debug_stop: stand still at a named point.
 *
 * For tests of concurrency.  "name" makes the process wait each time it comes
 * to that point, "name:3" from the third time on.  What it waits for is the
 * advisory lock (hashtext(name), 0): whoever holds that decides when it goes
 * on.  While it stands there it holds (hashtext(name), 1), so that others can
 * see it in pg_locks.  Both are heavyweight locks, so that isolationtester
 * sees a session that stands as blocked.
 *
 * "name@10" stands there for ten seconds instead, or until it is interrupted:
 * for a background process in a database that nobody else may be in.
 *
 * Some points lie inside a version-lock section or under an LWLock.  There the
 * wait is not interruptible, and breaks the rule that such sections are short;
 * sessions that need the page wait by turns of sleep until it is over.
 *
 * IDENTIFICATION
 *	  src/stop.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "numa_migrate.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/guc.h"

static char *debug_stop = NULL;
static char stop_point[64];
static int stop_skip = 0;	 /* times to pass before */
static int stop_seconds = 0; /* 0: until the lock is free */

static void
stop_here(const char *point)
{
	LOCKTAG here;
	LOCKTAG gate;
	uint32 key;

	if (strcmp(point, stop_point) != 0 || !IsTransactionState())
		return;
	if (stop_skip > 0)
	{
		stop_skip--;
		return;
	}
	key = (uint32) DatumGetInt32(hash_any((const unsigned char *) point, (int) strlen(point)));
	SET_LOCKTAG_ADVISORY(here, MyDatabaseId, key, 1, 2);
	SET_LOCKTAG_ADVISORY(gate, MyDatabaseId, key, 0, 2);
	(void) LockAcquire(&here, ShareLock, false, false);
	if (stop_seconds > 0)
	{
		for (int i = 0; i < stop_seconds * 100; i++)
		{
			CHECK_FOR_INTERRUPTS();
			pg_usleep(10000L);
		}
	}
	else
	{
		(void) LockAcquire(&gate, ShareLock, false, false);
		(void) LockRelease(&gate, ShareLock, false);
	}
	(void) LockRelease(&here, ShareLock, false);
}

static bool
check_stop(char **newval, void **extra, GucSource source)
{
	size_t len = *newval ? strcspn(*newval, ":@") : 0;

	if (len >= sizeof(stop_point) || (len > 0 && (*newval)[len] != '\0' && atoi(*newval + len + 1) < 1))
	{
		GUC_check_errdetail("The value must look like \"name\", \"name:3\" or \"name@10\".");
		return false;
	}
	return true;
}

static void
assign_stop(const char *newval, void *extra)
{
	size_t len = newval ? strcspn(newval, ":@") : 0;

	if (len > 0)
		memcpy(stop_point, newval, len);
	stop_point[len] = '\0';
	stop_skip = len > 0 && newval[len] == ':' ? atoi(newval + len + 1) - 1 : 0;
	stop_seconds = len > 0 && newval[len] == '@' ? atoi(newval + len + 1) : 0;
	nm_stop_hook = stop_point[0] != '\0' ? stop_here : NULL;
}

void
nm_define_stop(void)
{
	DefineCustomStringVariable("numa_migrate.debug_stop",
							   "Named point at which this session stands still, for tests.",
							   "It goes on when nobody else holds the advisory lock (hashtext(name), 0).",
							   &debug_stop, "",
							   PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE,
							   check_stop, assign_stop, NULL);
}

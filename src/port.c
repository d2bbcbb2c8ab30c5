/*-------------------------------------------------------------------------
 *
 * port.c
 *	  What of port.h needs a body.
 *
 * IDENTIFICATION
 *	  src/port.c
 *
 *-------------------------------------------------------------------------
 */
#include "port.h"

#include <stdio.h>

void (*nm_stop_hook)(const char *point) = NULL;

#ifdef NM_DEBUG
void
nm_assert_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "numa_migrate: assertion failed: %s, file %s, line %d\n",
			cond, file, line);
	fflush(stderr);
	abort();
}
#endif

/*-------------------------------------------------------------------------
 *
 * check.h
 *	  Test lines and a counter for the migrator's unit tests.
 *
 * IDENTIFICATION
 *	  test/unit/migrator/check.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../../bench/lib/random.h"

static int check_run = 0;
static int check_failed = 0;

__attribute__((format(printf, 2, 3))) static inline bool
ok(bool cond, const char *fmt, ...)
{
	va_list ap;

	check_run++;
	if (!cond)
		check_failed++;
	printf("%sok %d - ", cond ? "" : "not ", check_run);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	return cond;
}

static inline int
check_done(void)
{
	printf("1..%d\n", check_run);
	return check_failed == 0 ? 0 : 1;
}

#endif /* CHECK_H */

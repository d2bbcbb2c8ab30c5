/*-------------------------------------------------------------------------
 *
 * check.h
 *	  Assertions and counting for the unit tests of topology and movers.
 *
 * A test is a function run by RUN(); it fails if one of its CHECKs does.
 *
 * IDENTIFICATION
 *	  test/unit/mover/check.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TEST_CHECK_H
#define NM_TEST_CHECK_H

#include "../asserts.h"

static int check_passed,
	check_failed,
	check_skipped;
static int check_bad;		   /* failed CHECKs of the current test */
static const char *check_skip; /* why the current test was skipped */

#define SKIP(why)           \
	do                      \
	{                       \
		check_skip = (why); \
		return;             \
	} while (0)

#define RUN(test)                                           \
	do                                                      \
	{                                                       \
		check_bad = 0;                                      \
		check_skip = NULL;                                  \
		test();                                             \
		if (check_bad > 0)                                  \
		{                                                   \
			check_failed++;                                 \
			printf("not ok - %s\n", #test);                 \
		}                                                   \
		else if (check_skip)                                \
		{                                                   \
			check_skipped++;                                \
			printf("skip   - %s: %s\n", #test, check_skip); \
		}                                                   \
		else                                                \
		{                                                   \
			check_passed++;                                 \
			printf("ok     - %s\n", #test);                 \
		}                                                   \
		fflush(stdout);                                     \
	} while (0)

#define FINISH()                                                                              \
	(printf("%d passed, %d failed, %d skipped\n", check_passed, check_failed, check_skipped), \
	 check_failed > 0)

#endif /* NM_TEST_CHECK_H */

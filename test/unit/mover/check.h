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

#include <stdio.h>
#include <string.h>

static int check_passed,
	check_failed,
	check_skipped;
static int check_bad;		   /* failed CHECKs of the current test */
static const char *check_skip; /* why the current test was skipped */

#define CHECK(cond)                                               \
	do                                                            \
	{                                                             \
		if (!(cond))                                              \
		{                                                         \
			check_bad++;                                          \
			printf("#   %s:%d: %s\n", __FILE__, __LINE__, #cond); \
		}                                                         \
	} while (0)

#define CHECK_INT(a, b)                                                                           \
	do                                                                                            \
	{                                                                                             \
		long long a_ = (long long) (a),                                                           \
				  b_ = (long long) (b);                                                           \
		if (a_ != b_)                                                                             \
		{                                                                                         \
			check_bad++;                                                                          \
			printf("#   %s:%d: %s is %lld, not %s = %lld\n", __FILE__, __LINE__, #a, a_, #b, b_); \
		}                                                                                         \
	} while (0)

#define CHECK_STR(a, b)                                                                        \
	do                                                                                         \
	{                                                                                          \
		if (strcmp((a), (b)) != 0)                                                             \
		{                                                                                      \
			check_bad++;                                                                       \
			printf("#   %s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, #a, (a), (b)); \
		}                                                                                      \
	} while (0)

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

/*-------------------------------------------------------------------------
 *
 * asserts.h
 *	  Assertions of the unit tests that go on after a failure.
 *
 * Who includes it has an int check_bad, the number of those that failed.
 *
 * IDENTIFICATION
 *	  test/unit/asserts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TEST_ASSERTS_H
#define NM_TEST_ASSERTS_H

#include <stdio.h>
#include <string.h>

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

#endif /* NM_TEST_ASSERTS_H */

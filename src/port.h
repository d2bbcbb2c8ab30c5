/*-------------------------------------------------------------------------
 *
 * port.h
 *	  What topology, pool, movers and tree need from the program around them.
 *
 * These rooms compile into the PostgreSQL extension and into plain C programs
 * (unit tests under sanitizers, benchmarks).  They include no PostgreSQL
 * header and never report an error themselves: functions return a status and
 * the caller decides.  The macro NM_IN_POSTGRES, set by the extension's
 * Makefile, selects the server's interrupt counter.
 *
 * IDENTIFICATION
 *	  src/port.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_PORT_H
#define NM_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/*
 * A version lock may only be held while no signal handler can throw the
 * process out of the section (cancel, terminate, barrier).
 */
#ifdef NM_IN_POSTGRES
extern volatile uint32_t InterruptHoldoffCount;
#define NM_HOLD_INTERRUPTS()   (InterruptHoldoffCount++)
#define NM_RESUME_INTERRUPTS() (InterruptHoldoffCount--)
#else
#define NM_HOLD_INTERRUPTS()   ((void) 0)
#define NM_RESUME_INTERRUPTS() ((void) 0)
#endif

#define nm_likely(x)   __builtin_expect(!!(x), 1)
#define nm_unlikely(x) __builtin_expect(!!(x), 0)

/* NM_ASSERT: on in unit tests and assertion-enabled servers. */
#ifdef NM_DEBUG
#define NM_ASSERT(cond)                                  \
	do                                                   \
	{                                                    \
		if (nm_unlikely(!(cond)))                        \
			nm_assert_failed(#cond, __FILE__, __LINE__); \
	} while (0)
extern void nm_assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn));
#else
#define NM_ASSERT(cond) ((void) 0)
#endif

/*
 * Optimistic readers read bytes that a writer may be changing and validate a
 * version afterwards.  Functions that do so carry this attribute, so that
 * ThreadSanitizer reports every other race.
 */
#if defined(__SANITIZE_THREAD__)
#define NM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NM_TSAN 1
#endif
#endif

#ifdef NM_TSAN
#define NM_RACY __attribute__((no_sanitize("thread")))
#else
#define NM_RACY
#endif

static inline void
nm_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("isb" ::
							 : "memory");
#endif
}

/*
 * A named point where a test can make this process stand still and let others
 * go on: test/server/README.md lists them.  Costs a load and a branch while no
 * hook is set.  Some points lie inside a version-lock section, where nothing
 * else may wait; that is what they are for.
 */
extern void (*nm_stop_hook)(const char *point);
#define NM_STOP(point)                         \
	do                                         \
	{                                          \
		if (nm_unlikely(nm_stop_hook != NULL)) \
			nm_stop_hook(point);               \
	} while (0)

/* Monotonic clock, nanoseconds. */
static inline uint64_t
nm_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t) ts.tv_sec * UINT64_C(1000000000) + (uint64_t) ts.tv_nsec;
}

#endif /* NM_PORT_H */

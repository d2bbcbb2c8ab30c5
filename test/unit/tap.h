/*-------------------------------------------------------------------------
 *
 * tap.h
 *	  What the unit tests share: TAP lines, random numbers, pools.
 *
 * IDENTIFICATION
 *	  test/unit/tap.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TAP_H
#define NM_TAP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool/pool.h"
#include "../../bench/lib/random.h"

#include <pthread.h>

/* One TAP line; ok is called by the main thread only. */
extern bool ok(bool cond, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
extern void skip(const char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
extern void diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "1..N", and the exit status */
extern int tap_done(void);

/*
 * A fault found inside a thread, a callback or a child process.  Counted in
 * shared memory; the first few are printed.  faults() gives the count since the
 * last call.
 */
extern void fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
extern int faults(void);
extern int faults_so_far(void);

/* Seed from NM_SEED or the clock; printed. */
extern uint64_t tap_start(const char *program);

typedef struct Rng
{
	uint64_t s;
} Rng;

static inline uint64_t
rng_next(Rng *r)
{
	return next_random(&r->s);
}

/* 0 .. n-1 */
static inline uint64_t
rng_below(Rng *r, uint64_t n)
{
	return rng_next(r) % n;
}

/* Work for the build: less under sanitizers.  NM_TEST_WORK multiplies. */
extern int scaled(int n);

/* Shared, zeroed, inherited memory. */
extern void *shared_mem(size_t size);

/* A pool whose lock and book-keeping are shared with forked children. */
extern NmPool *pool_make(int narenas, size_t arena_mb, size_t limit_mb, int nslots);
extern void pool_unmake(NmPool *pool);
extern void pool_remake(NmPool *pool); /* nm_pool_reset on new shared memory */

/* Used pages over all arenas, retired ones not included. */
extern uint64_t pool_live_pages(NmPool *pool);

#endif /* NM_TAP_H */

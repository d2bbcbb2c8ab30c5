/*-------------------------------------------------------------------------
 *
 * tap.c
 *	  What the unit tests share.
 *
 * IDENTIFICATION
 *	  test/unit/tap.c
 *
 *-------------------------------------------------------------------------
 */
#include "tap.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct Common
{
	_Atomic int faults;
} Common;

static Common *common;
static int ntests = 0;
static int nfailed = 0;

static void
vline(const char *head, const char *fmt, va_list ap)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	printf("%s%s\n", head, text);
	fflush(stdout);
}

bool
ok(bool cond, const char *fmt, ...)
{
	char head[64];
	va_list ap;

	ntests++;
	if (!cond)
		nfailed++;
	snprintf(head, sizeof(head), "%sok %d - ", cond ? "" : "not ", ntests);
	va_start(ap, fmt);
	vline(head, fmt, ap);
	va_end(ap);
	return cond;
}

void
skip(const char *why, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	ntests++;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printf("ok %d - %s # SKIP %s\n", ntests, text, why);
	fflush(stdout);
}

void
diag(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vline("# ", fmt, ap);
	va_end(ap);
}

int
tap_done(void)
{
	if (faults() > 0)
		ok(false, "faults nobody asked for");
	printf("1..%d\n", ntests);
	fflush(stdout);
	return nfailed == 0 ? 0 : 1;
}

void
fault(const char *fmt, ...)
{
	if (atomic_fetch_add(&common->faults, 1) < 8)
	{
		va_list ap;

		va_start(ap, fmt);
		vline("# fault: ", fmt, ap);
		va_end(ap);
	}
}

int
faults(void)
{
	return atomic_exchange(&common->faults, 0);
}

int
faults_so_far(void)
{
	return atomic_load(&common->faults);
}

uint64_t
tap_start(const char *program)
{
	const char *env = getenv("NM_SEED");
	uint64_t seed = env && *env ? strtoull(env, NULL, 0) : (nm_now_ns() ^ (uint64_t) getpid()) & 0xFFFFFFFF;

	common = shared_mem(sizeof(Common));
	diag("%s: NM_SEED=%llu", program, (unsigned long long) seed);
	return seed;
}

int
scaled(int n)
{
	static double work = 0;

	if (work == 0)
	{
		const char *env = getenv("NM_TEST_WORK");

		work = env && *env ? atof(env) : 1.0;
		if (work <= 0)
			work = 1.0;
#if defined(NM_TSAN)
		work /= 8;
#elif defined(__SANITIZE_ADDRESS__)
		work /= 4;
#endif
	}
	return n * work < 1 ? 1 : (int) (n * work);
}

void *
shared_mem(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
	{
		perror("mmap");
		exit(2);
	}
	return p;
}

static void
lock_mutex(void *arg)
{
	if (pthread_mutex_lock(arg) != 0)
		abort();
}

static void
unlock_mutex(void *arg)
{
	if (pthread_mutex_unlock(arg) != 0)
		abort();
}

NmPool *
pool_make(int narenas, size_t arena_mb, size_t limit_mb, int nslots)
{
	NmPoolConfig config;
	pthread_mutexattr_t attr;
	pthread_mutex_t *mutex = shared_mem(sizeof(*mutex));
	char err[256];
	NmPool *pool;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(mutex, &attr);
	memset(&config, 0, sizeof(config));
	config.narenas = narenas;
	config.arena_bytes = arena_mb << 20;
	config.memory_limit = limit_mb << 20;
	config.nslots = nslots;
	config.dontdump = true;
	config.lock = lock_mutex;
	config.unlock = unlock_mutex;
	config.lock_arg = mutex;
	pool = nm_pool_create(&config, shared_mem(nm_pool_shared_size(&config)), err, sizeof(err));
	if (pool == NULL)
	{
		fprintf(stderr, "nm_pool_create: %s\n", err);
		exit(2);
	}
	nm_epoch_attach(pool, 0);
	return pool;
}

/* The small shared parts stay mapped: a late reader is a fault to be seen. */
void
pool_unmake(NmPool *pool)
{
	nm_epoch_detach(pool);
	nm_pool_destroy(pool);
}

void
pool_remake(NmPool *pool)
{
	nm_epoch_detach(pool);
	nm_pool_reset(pool, shared_mem(nm_pool_shared_size(&pool->config)));
	nm_epoch_attach(pool, 0);
}

uint64_t
pool_live_pages(NmPool *pool)
{
	NmPoolStats stats;
	uint64_t used = 0;

	nm_pool_stats(pool, &stats);
	for (int i = 0; i < stats.narenas; i++)
		used += stats.used[i];
	return (used - stats.retired) / NM_PAGE_SIZE;
}

/*-------------------------------------------------------------------------
 *
 * test_ring.c
 *	  The sample ring: order, loss accounting, one writer against one reader.
 *
 * IDENTIFICATION
 *	  test/unit/migrator/test_ring.c
 *
 *-------------------------------------------------------------------------
 */
#include "check.h"
#include "migrator/ring.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* A sample whose every field follows from its number: a torn copy shows. */
static NmRingSample
numbered(uint32_t i)
{
	NmRingSample s = {0};

	s.kind = (uint8_t) (i % 2 + 1);
	s.node = (int16_t) (i % 7);
	s.weight = i ^ 0x5A5A5A5A;
	s.spc = i * 3;
	s.db = i * 5;
	s.rel = i * 7;
	s.block = i;
	return s;
}

static bool
is_numbered(const NmRingSample *s)
{
	NmRingSample want = numbered(s->block);

	return memcmp(s, &want, sizeof(want)) == 0;
}

static void
test_serial(void)
{
	NmRing *ring = calloc(1, sizeof(NmRing));
	NmRingSample out[NM_RING_SIZE];
	NmRingSample s;
	uint32_t lost;
	int n;
	bool good = true;

	ok(nm_ring_drain(ring, out, NM_RING_SIZE, &lost) == 0 && lost == 0, "a zeroed ring is empty");
	for (uint32_t i = 0; i < NM_RING_SIZE; i++)
	{
		s = numbered(i);
		good &= nm_ring_push(ring, &s);
	}
	ok(good, "%d samples fit", NM_RING_SIZE);
	s = numbered(99999);
	good = !nm_ring_push(ring, &s) && !nm_ring_push(ring, &s) && !nm_ring_push(ring, &s);
	ok(good, "a full ring takes no more");
	n = nm_ring_drain(ring, out, 10, NULL);
	good = n == 10;
	for (int i = 0; i < n; i++)
		good &= out[i].block == i && is_numbered(&out[i]);
	ok(good, "drain gives the oldest first and stops at max");
	ok(nm_ring_push(ring, &s), "there is room again");
	n = nm_ring_drain(ring, out, NM_RING_SIZE, &lost);
	ok(n == NM_RING_SIZE - 9 && lost == 3, "the rest and the loss: %d, %u", n, lost);
	ok(out[0].block == 10 && out[n - 1].block == 99999, "nothing was overwritten");
	ok(nm_ring_drain(ring, out, NM_RING_SIZE, &lost) == 0 && lost == 0, "a loss is told once");

	/* the counters wrap at 2^32 */
	ring->head = ring->tail = UINT32_MAX - 3;
	ring->dropped = ring->dropped_read = UINT32_MAX;
	good = true;
	for (uint32_t i = 0; i < NM_RING_SIZE; i++)
	{
		s = numbered(i);
		good &= nm_ring_push(ring, &s);
	}
	good &= !nm_ring_push(ring, &s);
	n = nm_ring_drain(ring, out, NM_RING_SIZE, &lost);
	for (int i = 0; i < n; i++)
		good &= out[i].block == i;
	ok(good && n == NM_RING_SIZE && lost == 1, "counters may wrap");
	free(ring);
}

#define THREAD_SAMPLES 1000000

typedef struct Race
{
	NmRing ring;
	uint32_t written,
		dropped;
	int stop;
} Race;

static void *
writer(void *arg)
{
	Race *race = arg;

	for (uint32_t i = 0; i < THREAD_SAMPLES; i++)
	{
		NmRingSample s = numbered(i);

		if (nm_ring_push(&race->ring, &s))
			race->written++;
		else
			race->dropped++;
		/* let the reader in now and then, so that both outcomes happen */
		if (i % 1024 == 0)
			sched_yield();
	}
	__atomic_store_n(&race->stop, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void
test_threads(void)
{
	Race *race = calloc(1, sizeof(Race));
	NmRingSample *out = calloc(NM_RING_SIZE, sizeof(NmRingSample));
	uint64_t seed = 42;
	uint64_t read = 0,
			 lost_total = 0,
			 torn = 0,
			 disorder = 0;
	int64_t last = -1;
	pthread_t thread;
	bool stop = false;

	pthread_create(&thread, NULL, writer, race);
	for (;;)
	{
		uint32_t lost;
		int max = 1 + (int) (next_random(&seed) % NM_RING_SIZE);
		int n;

		/* stop must be read before the drain that is to be the last */
		if (!stop)
			stop = __atomic_load_n(&race->stop, __ATOMIC_ACQUIRE);
		n = nm_ring_drain(&race->ring, out, max, &lost);
		lost_total += lost;
		for (int i = 0; i < n; i++)
		{
			torn += !is_numbered(&out[i]);
			disorder += (int64_t) out[i].block <= last;
			last = out[i].block;
		}
		read += n;
		if (stop && n == 0)
			break;
	}
	pthread_join(thread, NULL);
	ok(torn == 0, "no torn sample among %llu", (unsigned long long) read);
	ok(disorder == 0, "in order, none twice");
	ok(read == race->written, "every sample written is read: %llu of %u",
	   (unsigned long long) read, race->written);
	ok(lost_total == race->dropped, "every drop is told: %llu of %u",
	   (unsigned long long) lost_total, race->dropped);
	ok(read + lost_total == THREAD_SAMPLES, "together they are all accesses sampled");
	free(out);
	free(race);
}

int
main(void)
{
	test_serial();
	test_threads();
	return check_done();
}

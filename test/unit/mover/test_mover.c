/*-------------------------------------------------------------------------
 *
 * test_mover.c
 *	  nm_move() and nm_query_nodes() against a model of the kernel.
 *
 * IDENTIFICATION
 *	  test/unit/mover/test_mover.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "check.h"
#include "fake_kernel.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>

static NmTopology topo;
static NmMoverCaps caps;
static NmMoveOptions opt;
static NmMoveStats stats;
static NmMoveItem items[FAKE_PAGES * 2];
static void *scratch;

/* Scratch of exactly the promised size, so that ASan sees an overrun. */
static void
scratch_for(size_t n)
{
	free(scratch);
	scratch = malloc(nm_move_scratch_size(n));
}

static void
set_up(NmEngine engine)
{
	fake_reset();
	fake_topology(&topo);
	fake_caps(&caps, engine == NM_ENGINE_MOVE_PAGES2);
	memset(&opt, 0, sizeof(opt));
	memset(&stats, 0, sizeof(stats));
	opt.engine = engine;
	opt.mode = NM_MODE_SYNC;
	opt.all_mappers = true;
	opt.page_size = 4096;
}

static bool
move(size_t n)
{
	fake_topology(&topo);
	caps.cap_sys_nice = fake.cap_sys_nice;
	caps.owner_rule = fake.owner_rule;
	scratch_for(n);
	return nm_move(&caps, &topo, items, n, &opt, &stats, scratch);
}

static void
item(size_t i, int page, int node)
{
	items[i].addr = fake_addr(page);
	items[i].node = node;
	items[i].status = 12345;
}

static int64_t
sum(void)
{
	return stats.moved + stats.already + stats.busy + stats.denied + stats.absent + stats.failed;
}

#define BOTH(test)                       \
	static void test##_move_pages(void)  \
	{                                    \
		set_up(NM_ENGINE_MOVE_PAGES);    \
		test();                          \
	}                                    \
	static void test##_move_pages2(void) \
	{                                    \
		set_up(NM_ENGINE_MOVE_PAGES2);   \
		test();                          \
	}

/* ---- clean list ---- */

static void
moves_all(void)
{
	for (int i = 0; i < 1000; i++)
		item(i, i, 1);
	CHECK(move(1000));
	CHECK_INT(stats.asked, 1000);
	CHECK_INT(stats.moved, 1000);
	CHECK_INT(sum(), stats.asked);
	for (int i = 0; i < 1000; i++)
	{
		CHECK_INT(fake.page[i].node, 1);
		CHECK_INT(items[i].status, 1);
	}
	CHECK_INT(stats.calls, fake.move_calls);
	CHECK(stats.elapsed_ms > 0);
}
BOTH(moves_all)

static void
sorted_and_grouped(void)
{
	/* alternating targets, descending addresses */
	for (int i = 0; i < 600; i++)
		item(i, 599 - i, 1 + i % 3);
	CHECK(move(600));
	CHECK_INT(stats.moved, 600);
	CHECK_INT(fake.mixed_targets, 0);
	CHECK_INT(fake.unsorted, 0);
	/* answers belong to their addresses */
	for (int i = 0; i < 600; i++)
	{
		CHECK_INT(fake_page(items[i].addr)->node, items[i].node);
		CHECK_INT(items[i].status, items[i].node);
	}
}
BOTH(sorted_and_grouped)

static void
duplicates(void)
{
	/* 100 pages three times each, at different offsets in the page */
	for (int i = 0; i < 300; i++)
	{
		item(i, i % 100, 1);
		items[i].addr = (char *) items[i].addr + (i / 100) * 1000;
	}
	CHECK(move(300));
	CHECK_INT(stats.asked, 100);
	CHECK_INT(stats.moved, 100);
	CHECK_INT(fake.repeated, 0);
	for (int i = 0; i < 300; i++)
		CHECK_INT(items[i].status, 1);
}
BOTH(duplicates)

/* Two wishes for one page: the first counts. */
static void
first_wish(void)
{
	item(0, 7, 2);
	item(1, 5, 1);
	item(2, 7, 1);
	item(3, 5, 3);
	CHECK(move(4));
	CHECK_INT(stats.asked, 2);
	CHECK_INT(fake.page[7].node, 2);
	CHECK_INT(fake.page[5].node, 1);
	for (int i = 0; i < 4; i++)
		CHECK_INT(items[i].status, fake_page(items[i].addr)->node);
}
BOTH(first_wish)

static void
already_there(void)
{
	opt.query_first = true;
	for (int i = 0; i < 400; i++)
	{
		fake.page[i].node = i % 2;
		item(i, i, 1);
	}
	CHECK(move(400));
	CHECK_INT(stats.moved, 200);
	CHECK_INT(stats.already, 200);
	CHECK_INT(fake.useless, 0);
}
BOTH(already_there)

/* Without query_first move_pages2's own counters tell moved from already. */
static void
already_there_counters(void)
{
	set_up(NM_ENGINE_MOVE_PAGES2);
	for (int i = 0; i < 400; i++)
	{
		fake.page[i].node = i % 4 == 0 ? 1 : 0;
		item(i, i, 1);
	}
	CHECK(move(400));
	CHECK_INT(stats.moved, 300);
	CHECK_INT(stats.already, 100);
	CHECK_INT(fake.query_calls, 0);
}

static void
absent_left_alone(void)
{
	for (int i = 0; i < 300; i++)
	{
		fake.page[i].resident = i % 3 != 0;
		fake.page[i].mine = i % 3 == 1;
		item(i, i, 1);
	}
	fake.page[299].mapped = false;
	CHECK(move(300));
	CHECK_INT(stats.absent, 101);
	CHECK_INT(stats.moved, 199);
	CHECK_INT(fake.allocated, 0);
	CHECK_INT(sum(), stats.asked);
	for (int i = 0; i < 300; i += 3)
	{
		CHECK(!fake.page[i].resident);
		CHECK_INT(items[i].status, -ENOENT);
	}
	if (opt.engine == NM_ENGINE_MOVE_PAGES2)
		CHECK_INT(fake.touches, 0);
	else
		CHECK_INT(fake.absent_asked, 0);
}
BOTH(absent_left_alone)

/* Linux 4.3 .. 6.11 say EFAULT for what is not mapped. */
static void
efault_is_absent(void)
{
	set_up(NM_ENGINE_MOVE_PAGES);
	fake.old_efault = true;
	fake.mincore_errno = EPERM; /* so that the call itself is asked */
	for (int i = 0; i < 100; i++)
	{
		fake.page[i].resident = fake.page[i].mine = i < 50;
		item(i, i, 1);
	}
	CHECK(move(100));
	CHECK_INT(stats.moved, 50);
	CHECK_INT(stats.absent, 50);
	CHECK_INT(fake.allocated, 0);
}

static void
refused_targets(void)
{
	fake.in_cpuset[2] = false; /* not allowed */
	for (int i = 0; i < 100; i++)
		item(i, i, i % 5); /* 4 does not exist */
	items[99].node = -7;
	CHECK(move(100));
	CHECK_INT(stats.denied, 40);
	CHECK_INT(stats.already, 20);
	CHECK_INT(stats.moved, 40);
	for (int i = 0; i < 100; i++)
	{
		if (items[i].node == 2 || items[i].node == 4 || items[i].node == -7)
			CHECK_INT(items[i].status, -ENODEV);
	}
}
BOTH(refused_targets)

/* The cpuset shrank after the topology was read. */
static void
cpuset_changed(void)
{
	for (int i = 0; i < 100; i++)
		item(i, i, 1 + i % 2);
	fake_topology(&topo);
	fake.in_cpuset[1] = false;
	scratch_for(100);
	CHECK(nm_move(&caps, &topo, items, 100, &opt, &stats, scratch));
	CHECK_INT(stats.denied, 50);
	CHECK_INT(stats.moved, 50);
}
BOTH(cpuset_changed)

/* ---- failing pages ---- */

static void
pinned_pages(void)
{
	opt.batch = 512;
	for (int i = 0; i < 1000; i++)
	{
		fake.page[i].pinned = i % 100 == 17;
		item(i, i, 1);
	}
	CHECK(move(1000));
	CHECK_INT(stats.busy, 10);
	CHECK_INT(stats.moved, 990);
	for (int i = 0; i < 1000; i++)
	{
		CHECK_INT(fake.page[i].node, fake.page[i].pinned ? 0 : 1);
		if (fake.page[i].pinned)
			CHECK_INT(items[i].status, -EBUSY);
		/* no page is tried over and over */
		CHECK(fake.page[i].tries <= 3);
	}
}
BOTH(pinned_pages)

/*
 * The list on which stock move_pages breaks down: 1 % pinned and every second
 * page there already (25 of 1,004 moved).  All movable ones must move.
 */
static void
unfriendly_list(void)
{
	int movable = 0;

	opt.batch = 4096;
	for (int i = 0; i < 2008; i++)
	{
		fake.page[i].node = i % 2;
		fake.page[i].pinned = i % 100 == 50;
		fake.page[i].stuck = i % 200 == 70;
		movable += fake.page[i].node == 0 && !fake.page[i].pinned && !fake.page[i].stuck;
		item(i, i, 1);
	}
	CHECK(move(2008));
	CHECK_INT(stats.moved, movable);
	CHECK_INT(stats.already, 1004);
	CHECK_INT(stats.busy, 1004 - movable);
	CHECK_INT(sum(), 2008);
}
BOTH(unfriendly_list)

static void
all_pinned(void)
{
	for (int i = 0; i < 200; i++)
	{
		fake.page[i].pinned = true;
		item(i, i, 1);
	}
	CHECK(move(200));
	CHECK_INT(stats.busy, 200);
	CHECK(stats.calls <= 2 * 200);
}
BOTH(all_pinned)

static void
shared_without_capability(void)
{
	fake.cap_sys_nice = false;
	for (int i = 0; i < 300; i++)
	{
		fake.page[i].shared = i % 3 == 0;
		item(i, i, 1);
	}
	CHECK(move(300));
	CHECK_INT(stats.denied, 100);
	CHECK_INT(stats.moved, 200);
	for (int i = 0; i < 300; i += 3)
		CHECK_INT(items[i].status, -EACCES);
}
BOTH(shared_without_capability)

/* Without the capability, the owner's rule moves the pages of own files. */
static void
shared_by_owner_rule(void)
{
	fake.cap_sys_nice = false;
	fake.owner_rule = true;
	for (int i = 0; i < 300; i++)
	{
		fake.page[i].shared = true;
		fake.page[i].own = i % 3 != 0;
		item(i, i, 1);
	}
	CHECK(move(300));
	if (opt.engine == NM_ENGINE_MOVE_PAGES2)
	{
		CHECK_INT(stats.moved, 200);
		CHECK_INT(stats.denied, 100);
	}
	else
		CHECK_INT(stats.denied, 300);
}
BOTH(shared_by_owner_rule)

/* It may be switched off at any time: then what needs no rule still moves. */
static void
owner_rule_switched_off(void)
{
	fake.cap_sys_nice = false;
	fake.owner_rule = fake.owner_off = true;
	for (int i = 0; i < 300; i++)
	{
		fake.page[i].shared = fake.page[i].own = i % 3 == 0;
		item(i, i, 1);
	}
	CHECK(move(300));
	CHECK_INT(stats.moved, 200);
	CHECK_INT(stats.denied, 100);
}
BOTH(owner_rule_switched_off)

static void
shared_with_capability(void)
{
	for (int i = 0; i < 300; i++)
	{
		fake.page[i].shared = true;
		item(i, i, 1);
	}
	CHECK(move(300));
	CHECK_INT(stats.moved, 300);
}
BOTH(shared_with_capability)

/* all_mappers = false must not use the capability. */
static void
all_mappers_off(void)
{
	opt.all_mappers = false;
	fake.page[1].shared = true;
	item(0, 0, 1);
	item(1, 1, 1);
	CHECK(move(2));
	CHECK_INT(stats.denied, 1);
	CHECK_INT(stats.moved, 1);
}
BOTH(all_mappers_off)

static void
target_full(void)
{
	fake.free_pages[1] = 100;
	for (int i = 0; i < 5000; i++)
		item(i, i, 1 + i % 2);
	CHECK(move(5000));
	CHECK_INT(stats.failed, 2400);
	CHECK_INT(stats.moved, 2600);
	CHECK_INT(sum(), 5000);
	/* a full node is not asked again and again */
	if (opt.engine == NM_ENGINE_MOVE_PAGES)
		CHECK(stats.calls <= 100 / 32 + 1 + 2500 / 32 + 1);
	else
		CHECK_INT(stats.calls, 1 + 3);
	for (int i = 0; i < 5000; i++)
	{
		if (items[i].status != items[i].node)
			CHECK_INT(items[i].status, -ENOMEM);
	}
}
BOTH(target_full)

/*
 * A kernel that refuses lists and forgets what was touched, but moves a single
 * page that was touched just before: each page must get its own try.
 */
static void *touched_last;

static void
stubborn_touch(void *addr)
{
	fake_sys.touch(addr);
	touched_last = addr;
}

static long
stubborn_move_pages(unsigned long n, void **pages, const int *nodes, int *st, int flags)
{
	if (nodes == NULL)
		return fake_sys.move_pages(n, pages, nodes, st, flags);
	if (n > 1)
	{
		st[0] = -ENOENT;
		return (long) n;
	}
	if (touched_last != pages[0])
	{
		st[0] = -ENOENT;
		return 0;
	}
	return fake_sys.move_pages(n, pages, nodes, st, flags);
}

static void
one_by_one(void)
{
	NmSys stubborn = fake_sys;

	set_up(NM_ENGINE_MOVE_PAGES);
	stubborn.move_pages = stubborn_move_pages;
	stubborn.touch = stubborn_touch;
	nm_sys = &stubborn;
	for (int i = 0; i < 50; i++)
	{
		fake.page[i].pinned = i % 10 == 3;
		item(i, i, 1);
	}
	CHECK(move(50));
	nm_sys = &fake_sys;
	CHECK_INT(stats.moved, 45);
	CHECK_INT(stats.busy, 5);
	for (int i = 0; i < 50; i++)
		CHECK_INT(fake.page[i].node, i % 10 == 3 ? 0 : 1);
}

/* seccomp: EPERM for everything, once. */
static void
call_refused(void)
{
	fake.move_pages_errno = fake.move_pages2_errno = EPERM;
	for (int i = 0; i < 5000; i++)
		item(i, i, 1);
	CHECK(move(5000));
	CHECK_INT(stats.denied, 5000);
	CHECK(stats.calls <= 1);
	CHECK_INT(items[4999].status, -EPERM);
}
BOTH(call_refused)

static void
engine_off(void)
{
	set_up(NM_ENGINE_OFF);
	item(0, 0, 1);
	CHECK(move(1));
	CHECK_INT(stats.failed, 1);
	CHECK_INT(items[0].status, -ENOSYS);
	CHECK_INT(fake.page[0].node, 0);
}

/* ---- move_pages2 only ---- */

static void
short_counts(void)
{
	set_up(NM_ENGINE_MOVE_PAGES2);
	fake.short_every = 7;
	fake.eintr_left = 3;
	fake.zero_left = 2;
	opt.query_first = true;
	for (int i = 0; i < 500; i++)
	{
		fake.page[i].pinned = i % 50 == 0;
		item(i, i, 1);
	}
	CHECK(move(500));
	CHECK_INT(stats.moved, 490);
	CHECK_INT(stats.busy, 10);
}

/* A call that never gets anywhere ends. */
static void
endless_eintr(void)
{
	set_up(NM_ENGINE_MOVE_PAGES2);
	fake.eintr_left = 1000000;
	for (int i = 0; i < 100; i++)
		item(i, i, 1);
	CHECK(move(100));
	CHECK_INT(stats.busy, 100);
	CHECK(stats.calls < 100);
}

static void
again_is_tried_again(void)
{
	set_up(NM_ENGINE_MOVE_PAGES2);
	for (int i = 0; i < 100; i++)
	{
		fake.page[i].again = i < 10 ? 1 : i < 20 ? 5
												 : 0;
		item(i, i, 1);
	}
	CHECK(move(100));
	CHECK_INT(stats.moved, 90);
	CHECK_INT(stats.busy, 10);

	/* but not in the background: it comes back by itself */
	set_up(NM_ENGINE_MOVE_PAGES2);
	opt.mode = NM_MODE_ASYNC;
	fake.page[0].again = 1;
	item(0, 0, 1);
	CHECK(move(1));
	CHECK_INT(stats.busy, 1);
	CHECK_INT(stats.calls, 1);
}

static void
knobs_are_passed(void)
{
	set_up(NM_ENGINE_MOVE_PAGES2);
	opt.mode = NM_MODE_SYNC_LIGHT;
	opt.batch = 77;
	item(0, 0, 1);
	CHECK(move(1));
	CHECK_INT(fake.last_args.mode, 1);
	CHECK_INT(fake.last_args.nr_max_batched_migration, 77);
	CHECK_INT(fake.last_flags, NM_MP2_MOVE_ALL | NM_MP2_PAGE_CACHE);

	opt.mode = NM_MODE_ASYNC;
	opt.batch = 0;
	opt.all_mappers = false;
	item(0, 0, 2);
	CHECK(move(1));
	CHECK_INT(fake.last_args.mode, 0);
	CHECK_INT(fake.last_args.nr_max_batched_migration, 0);
	CHECK_INT(fake.last_flags, NM_MP2_PAGE_CACHE | NM_MP2_NO_DRAIN);

	opt.mode = NM_MODE_AUTO;
	item(0, 0, 3);
	CHECK(move(1));
	CHECK_INT(fake.last_args.mode, 2);

	/* a batch above the usual chunk is not cut */
	opt.batch = 4096;
	for (int i = 0; i < 8000; i++)
		item(i, i, 1);
	CHECK(move(8000));
	CHECK_INT(fake.longest, 4096);
}

static void
batch_is_pages_per_call(void)
{
	set_up(NM_ENGINE_MOVE_PAGES);
	for (int i = 0; i < 100; i++)
		item(i, i, 1);
	CHECK(move(100));
	CHECK_INT(fake.longest, NM_BATCH_DEFAULT);
	set_up(NM_ENGINE_MOVE_PAGES);
	opt.batch = 8;
	for (int i = 0; i < 100; i++)
		item(i, i, 1);
	CHECK(move(100));
	CHECK_INT(fake.longest, 8);
	CHECK_INT(stats.calls, 13);
}

/* ---- huge pages ---- */

static void
huge_pages(void)
{
	fake.page_size = opt.page_size = 2 * 1024 * 1024;
	fake.hugetlb = opt.hugetlb = true;
	/* 64 huge pages, four addresses in each, alternating targets */
	for (int i = 0; i < 256; i++)
	{
		item(i, i / 4, 1 + (i / 4) % 2);
		items[i].addr = (char *) items[i].addr + (i % 4) * 8192;
	}
	CHECK(move(256));
	CHECK_INT(stats.asked, 64);
	CHECK_INT(stats.moved, 64);
	CHECK_INT(fake.mixed_targets, 0);
	CHECK_INT(fake.repeated, 0);
	CHECK(fake.longest <= 16);
	for (int i = 0; i < 64; i++)
		CHECK_INT(fake.page[i].node, 1 + i % 2);
}
BOTH(huge_pages)

/* ---- stopping ---- */

static int ticks_left;
static jmp_buf out;

static bool
tick_stop(void *arg)
{
	(void) arg;
	return --ticks_left > 0;
}

static bool
tick_throw(void *arg)
{
	(void) arg;
	if (--ticks_left <= 0)
		longjmp(out, 1);
	return true;
}

static void
stopped(void)
{
	int cancelled = 0;

	ticks_left = 3;
	opt.tick = tick_stop;
	for (int i = 0; i < 8000; i++)
		item(i, i, 1);
	CHECK(!move(8000));
	CHECK_INT(sum(), stats.asked);
	CHECK(stats.asked > 0 && stats.asked < 8000);
	for (int i = 0; i < 8000; i++)
	{
		cancelled += items[i].status == -ECANCELED;
		CHECK(items[i].status == -ECANCELED || items[i].status == 1);
		CHECK_INT(fake.page[i].node, items[i].status == 1 ? 1 : 0);
	}
	CHECK_INT(cancelled, 8000 - stats.asked);
}
BOTH(stopped)

/* As a cancel in the server: what was moved until then is counted. */
static void
thrown_out(void)
{
	volatile int moved = 0;

	ticks_left = 4;
	opt.tick = tick_throw;
	for (int i = 0; i < 8000; i++)
	{
		fake.page[i].pinned = i % 64 == 0;
		item(i, i, 1);
	}
	if (setjmp(out) == 0)
	{
		move(8000);
		CHECK(!"reached");
	}
	for (int i = 0; i < 8000; i++)
		moved += fake.page[i].node == 1;
	CHECK(moved > 0 && moved < 8000);
	CHECK_INT(stats.moved, moved);
	CHECK_INT(sum(), stats.asked);
	CHECK(stats.elapsed_ms > 0);
}
BOTH(thrown_out)

/* ---- queries ---- */

static void
query(void)
{
	static void *addrs[3000];
	static int32_t status[3000];

	for (int i = 0; i < 3000; i++)
	{
		fake.page[i].node = i % 4;
		fake.page[i].resident = i % 5 != 0;
		fake.page[i].mine = i % 5 == 1;
		addrs[i] = (char *) fake_addr((i * 7) % 3000) + 5;
	}
	fake.page[13].mapped = false;
	scratch_for(3000);
	CHECK(nm_query_nodes(&caps, addrs, 3000, status, &opt, scratch));
	CHECK_INT(fake.allocated, 0);
	for (int i = 0; i < 3000; i++)
	{
		FakePage *page = fake_page(addrs[i]);

		if (page == NULL || !page->resident)
			CHECK(status[i] == -ENOENT || status[i] == -EFAULT);
		else
			CHECK_INT(status[i], page->node);
	}
	CHECK_INT(fake.move_calls, 0);
}
BOTH(query)

/* move_pages refused, get_mempolicy not: still an answer, still no holes filled. */
static void
query_by_mempolicy(void)
{
	void *addrs[2] = {fake_addr(0), fake_addr(1)};
	int32_t status[2];

	set_up(NM_ENGINE_MOVE_PAGES);
	caps.move_pages = false;
	caps.move_pages_errno = EPERM;
	fake.page[0].node = 3;
	fake.page[0].mine = false;
	fake.page[1].resident = fake.page[1].mine = false;
	scratch_for(2);
	opt.engine = NM_ENGINE_OFF;
	CHECK(nm_query_nodes(&caps, addrs, 2, status, &opt, scratch));
	CHECK_INT(status[0], 3);
	CHECK_INT(status[1], -ENOENT);
	CHECK_INT(fake.allocated, 0);

	caps.get_mempolicy = false;
	CHECK(nm_query_nodes(&caps, addrs, 2, status, &opt, scratch));
	CHECK_INT(status[0], -EPERM);
}

static void
query_stopped(void)
{
	static void *addrs[4000];
	static int32_t status[4000];

	ticks_left = 2;
	opt.tick = tick_stop;
	for (int i = 0; i < 4000; i++)
		addrs[i] = fake_addr(i);
	scratch_for(4000);
	CHECK(!nm_query_nodes(&caps, addrs, 4000, status, &opt, scratch));
	CHECK_INT(status[0], 0);
	CHECK_INT(status[3999], -ECANCELED);
}
BOTH(query_stopped)

/* ---- anything goes ---- */

static uint64_t seed = 1;

static uint32_t
rnd(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t) (seed >> 33) % n;
}

/*
 * Random pages, lists and options.  Whatever they are: the counters add up to
 * the pages named, every status is the truth, every page that could move is on
 * the node first asked for, no hole was filled.
 */
static void
random_lists(void)
{
	static int wanted[FAKE_PAGES];
	NmEngine engine = opt.engine;

	for (int round = 0; round < 600 && check_bad == 0; round++)
	{
		size_t n = 1 + rnd(round % 10 == 0 ? 9000 : 300);
		uint32_t span = 1 + rnd(FAKE_PAGES);
		int bad = (int) rnd(3) * 10; /* percent */
		int64_t unique = 0;

		set_up(engine);
		opt.query_first = rnd(2);
		opt.batch = rnd(2) ? 0 : (int) (1 + rnd(4096));
		opt.mode = (NmMode) rnd(4);
		opt.all_mappers = rnd(2);
		fake.cap_sys_nice = rnd(2);
		fake.old_efault = rnd(2);
		fake.short_every = rnd(2) ? (int) rnd(50) : 0;
		fake.toucher_node = (int) rnd(4);
		if (rnd(4) == 0)
			fake.mincore_errno = EPERM;
		for (int i = 0; i < FAKE_PAGES; i++)
		{
			FakePage *p = &fake.page[i];

			p->node = (int) rnd(4);
			p->pinned = (int) rnd(100) < bad;
			p->stuck = (int) rnd(100) < bad;
			p->shared = (int) rnd(100) < bad;
			p->resident = (int) rnd(100) >= bad;
			p->mapped = (int) rnd(100) >= bad;
			p->mine = p->resident && (fake.mincore_errno || rnd(2));
			wanted[i] = -1;
		}
		for (size_t i = 0; i < n; i++)
		{
			int page = (int) rnd(span);
			int node = (int) rnd(5);

			item(i, page, node);
			if (rnd(2))
				items[i].addr = (char *) items[i].addr + rnd(4096);
			if (wanted[page] < 0)
			{
				wanted[page] = node;
				unique++;
			}
		}
		CHECK(move(n));
		CHECK_INT(stats.asked, unique);
		CHECK_INT(sum(), unique);
		CHECK_INT(fake.allocated, 0);
		CHECK_INT(fake.repeated, 0);
		CHECK_INT(fake.mixed_targets, 0);
		CHECK_INT(fake.unsorted, 0);
		for (size_t i = 0; i < n; i++)
		{
			int no = (int) (((char *) items[i].addr - FAKE_BASE) / 4096);
			FakePage *p = &fake.page[no];
			int want = wanted[no];
			bool there = p->mapped && p->resident;
			bool may = !p->shared || (opt.all_mappers && fake.cap_sys_nice);

			if (i > 0)
				CHECK((uintptr_t) items[i].addr / 4096 >= (uintptr_t) items[i - 1].addr / 4096);
			if (want == 4)
				CHECK_INT(items[i].status, -ENODEV);
			else if (!there)
				CHECK(items[i].status == -ENOENT || items[i].status == -EFAULT);
			else if (items[i].status >= 0)
			{
				CHECK_INT(items[i].status, p->node);
				CHECK_INT(p->node, want);
			}
			else
			{
				CHECK(p->node != want);
				CHECK(p->pinned || p->stuck || !may);
			}
			if (there && want < 4 && may && !p->pinned && !p->stuck)
				CHECK_INT(p->node, want);
		}
		if (check_bad > 0)
			printf("#   round %d\n", round);
	}
}
BOTH(random_lists)

static void
empty_list(void)
{
	CHECK(nm_move(&caps, &topo, items, 0, &opt, &stats, NULL));
	CHECK_INT(stats.asked, 0);
	CHECK_INT(stats.calls, 0);
}
BOTH(empty_list)

#define RUN_BOTH(test)           \
	do                           \
	{                            \
		RUN(test##_move_pages);  \
		RUN(test##_move_pages2); \
	} while (0)

int
main(void)
{
	nm_sys = &fake_sys;

	RUN_BOTH(empty_list);
	RUN_BOTH(moves_all);
	RUN_BOTH(sorted_and_grouped);
	RUN_BOTH(duplicates);
	RUN_BOTH(first_wish);
	RUN_BOTH(already_there);
	RUN(already_there_counters);
	RUN_BOTH(absent_left_alone);
	RUN(efault_is_absent);
	RUN_BOTH(refused_targets);
	RUN_BOTH(cpuset_changed);
	RUN_BOTH(pinned_pages);
	RUN_BOTH(unfriendly_list);
	RUN_BOTH(all_pinned);
	RUN_BOTH(shared_without_capability);
	RUN_BOTH(shared_by_owner_rule);
	RUN_BOTH(owner_rule_switched_off);
	RUN_BOTH(shared_with_capability);
	RUN_BOTH(all_mappers_off);
	RUN_BOTH(target_full);
	RUN(one_by_one);
	RUN_BOTH(call_refused);
	RUN(engine_off);
	RUN(short_counts);
	RUN(endless_eintr);
	RUN(again_is_tried_again);
	RUN(knobs_are_passed);
	RUN(batch_is_pages_per_call);
	RUN_BOTH(huge_pages);
	RUN_BOTH(stopped);
	RUN_BOTH(thrown_out);
	RUN_BOTH(query);
	RUN(query_by_mempolicy);
	RUN_BOTH(query_stopped);
	RUN_BOTH(random_lists);
	free(scratch);
	return FINISH();
}

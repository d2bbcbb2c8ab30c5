/*-------------------------------------------------------------------------
 *
 * test_sys.c
 *	  Post-copy with system calls that do less than asked, or fail.
 *
 * IDENTIFICATION
 *	  test/unit/postcopy/test_sys.c
 *
 *-------------------------------------------------------------------------
 */
#include "memory.h"

#include <setjmp.h>

/* What the next calls give: an error, or at most so many bytes; then the real. */
typedef struct Script
{
	const long *steps; /* < 0: error; > 0: bytes; 0: end */
	int calls;
} Script;

static NmPcSys fake;
static Script copy_script,
	map_script,
	zero_script,
	write_script;

/* The bytes to do, or an error to give. */
static long
next_step(Script *s, size_t bytes)
{
	s->calls++;
	if (s->steps == NULL || *s->steps == 0)
		return (long) bytes;
	return *s->steps < (long) bytes ? *s->steps++ : (s->steps++, (long) bytes);
}

static long
fake_copy(int fd, void *to, const void *from, size_t bytes)
{
	long n = next_step(&copy_script, bytes);

	return n < 0 ? n : nm_pc_sys_kernel.copy(fd, to, from, (size_t) n);
}

static long
fake_map(int fd, void *addr, size_t bytes)
{
	long n = next_step(&map_script, bytes);

	return n < 0 ? n : nm_pc_sys_kernel.map(fd, addr, (size_t) n);
}

static long
fake_zero(int fd, void *addr, size_t bytes)
{
	long n = next_step(&zero_script, bytes);

	return n < 0 ? n : nm_pc_sys_kernel.zero(fd, addr, (size_t) n);
}

static long
fake_write(int fd, const void *from, size_t bytes, off_t at)
{
	long n = next_step(&write_script, bytes);

	return n < 0 ? n : nm_pc_sys_kernel.write(fd, from, (size_t) n, at);
}

static void
use_fake(void)
{
	fake = nm_pc_sys_kernel;
	fake.copy = fake_copy;
	fake.map = fake_map;
	fake.zero = fake_zero;
	fake.write = fake_write;
	nm_pc_sys = &fake;
}

static NmPostcopy *
attach_faked(Memory *m)
{
	use_fake();
	return memory_attach(m);
}

static void
all_good(Memory *m, size_t from, size_t to)
{
	for (size_t p = from; p < to; p++)
		CHECK(page_good(m, p));
}

static void
copies_go_on_where_they_stopped(void)
{
	static const long steps[] = {NM_PC_PAGE, -EAGAIN, -EAGAIN, 3 * NM_PC_PAGE, -EAGAIN, NM_PC_PAGE, 0};
	Memory *m = memory_make(NM_PC_COPY, 64, 16);
	NmPostcopy *pc = attach_faked(m);
	NmPcStats st;

	copy_script.steps = steps;
	(void) touch(m, 20);
	all_good(m, 16, 32);
	CHECK_INT(copy_script.calls, 7);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.retries, 3);
	CHECK_INT(st.pages, 16);
	CHECK_INT(st.faults, 1);
	CHECK_INT(st.failures, 0);
}

/* The kernel says EEXIST for a page that another process brings at that moment. */
static void
existing_pages_are_passed_over(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 16);
	NmPostcopy *pc = attach_faked(m);
	NmPcStats st;

	memcpy(m->alias + 3 * NM_PC_PAGE, m->snapshot + 3 * NM_PC_PAGE, NM_PC_PAGE);
	memcpy(m->alias + 4 * NM_PC_PAGE, m->snapshot + 4 * NM_PC_PAGE, NM_PC_PAGE);
	memcpy(m->alias + 15 * NM_PC_PAGE, m->snapshot + 15 * NM_PC_PAGE, NM_PC_PAGE);
	(void) touch(m, 7);
	all_good(m, 0, 16);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.exists, 3);
	CHECK_INT(st.pages, 13);
	CHECK_INT(st.foreign, 0);
	/* 0-2, EEXIST, EEXIST, 5-14, EEXIST; a part costs one call more */
	CHECK_INT(copy_script.calls, 5);
}

static void
no_memory_midway(void)
{
	static const long steps[] = {5 * NM_PC_PAGE, -ENOMEM, 0};
	Memory *m = memory_make(NM_PC_COPY, 64, 16);
	NmPostcopy *pc;
	NmPcStats st;
	sigjmp_buf jump;

	use_fake();
	m->jump = &jump;
	pc = memory_attach(m);
	copy_script.steps = steps;
	if (sigsetjmp(jump, 1) == 0)
	{
		(void) touch(m, 10);
		CHECK(!"no error");
	}
	CHECK_INT(m->failed_errno, ENOMEM);
	CHECK(m->failed_addr == m->base + 10 * NM_PC_PAGE);
	CHECK(!nm_postcopy_complete(pc));
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.cells, 0);
	CHECK_INT(st.pages, 5);
	/* written in between: the second try must not undo it */
	m->base[2 * NM_PC_PAGE + 4000] = 'w';
	(void) touch(m, 10);
	CHECK_INT(m->base[2 * NM_PC_PAGE + 4000], 'w');
	all_good(m, 3, 16);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.exists, 5);
	CHECK_INT(st.pages, 16);
	CHECK_INT(st.cells, 1);
}

static long
always_again(int fd, void *to, const void *from, size_t bytes)
{
	(void) fd;
	(void) to;
	(void) from;
	(void) bytes;
	return -EAGAIN;
}

static void
patience_ends(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 16);
	NmPostcopy *pc;

	use_fake();
	fake.copy = always_again;
	pc = memory_attach(m);
	CHECK_INT(nm_postcopy_ensure(pc, m->base, 1), -EAGAIN);
	fake.copy = fake_copy;
	CHECK_INT(nm_postcopy_ensure(pc, m->base, 1), 0);
	all_good(m, 0, 16);
}

static void
mapping_goes_on_too(void)
{
	static const long parts[] = {2 * NM_PC_PAGE, -EAGAIN, NM_PC_PAGE, -EAGAIN, 0};

	for (int f = 1; f < NFILLS; f++)
	{
		Memory *m = memory_make(fills[f], 64, 16);
		NmPostcopy *pc = attach_faked(m);
		NmPcStats st;

		map_script = (Script){.steps = parts};
		(void) touch(m, 33);
		all_good(m, 32, 48);
		CHECK_INT(map_script.calls, 5);
		nm_postcopy_stats(pc, &st);
		CHECK_INT(st.faults, 1);
		CHECK_INT(st.retries, 2);
		CHECK_INT(nm_postcopy_detach(pc), 0);
	}
}

/* Mapped already: one page at a time. */
static void
mapped_pages_are_passed_over(void)
{
	static const long steps[] = {4 * NM_PC_PAGE, -EEXIST, 2 * NM_PC_PAGE, -EEXIST, 0};
	Memory *m = memory_make(NM_PC_CONTINUE, 64, 16);
	NmPostcopy *pc = attach_faked(m);
	NmPcStats st;

	map_script.steps = steps;
	(void) touch(m, 0);
	CHECK_INT(map_script.calls, 5);
	/* pages 4 and 7 were said to be mapped and aren't: one more fault maps both */
	all_good(m, 0, 16);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.faults, 2);
	CHECK_INT(st.cells, 1);
	CHECK_INT(st.holes, 0);
	CHECK_INT(m->calls, 1);
}

static void
writes_go_on_too(void)
{
	static const long steps[] = {100, -EINTR, NM_PC_PAGE, -EAGAIN, 1, 0};
	static const long full[] = {NM_PC_PAGE, -ENOSPC, 0};
	Memory *m = memory_make(NM_PC_CONTINUE_WRITE, 64, 8);
	NmPostcopy *pc = attach_faked(m);
	NmPcStats st;

	write_script.steps = steps;
	(void) touch(m, 9);
	all_good(m, 8, 16);
	CHECK_INT(write_script.calls, 6);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.pages, 8);
	CHECK_INT(st.retries, 2);
	write_script.steps = full;
	CHECK_INT(nm_postcopy_ensure(pc, m->base + 16 * NM_PC_PAGE, 1), -ENOSPC);
	CHECK_INT(nm_postcopy_ensure(pc, m->base + 16 * NM_PC_PAGE, 1), 0);
	all_good(m, 16, 24);
}

/* A hole filled with zeros by another process at that moment, and again. */
static void
holes_race_too(void)
{
	static const long steps[] = {-EAGAIN, -EEXIST, -EAGAIN, 0};
	Memory *m = memory_make(NM_PC_COPY, 64, 8);
	NmPostcopy *pc = attach_faked(m);
	NmPcStats st;

	CHECK(page_good(m, 0));
	CHECK_INT(madvise(m->base, NM_PC_PAGE, MADV_REMOVE), 0);
	zero_script.steps = steps;
	CHECK_INT(touch(m, 0), 0);
	/* EEXIST sent the touch back; it faulted again */
	CHECK_INT(zero_script.calls, 4);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.holes, 1);
	CHECK_INT(st.faults, 3);
	CHECK_INT(st.retries, 2);
}

static int open_error,
	enroll_error;

static int
failing_open(bool minor)
{
	return open_error ? open_error : nm_pc_sys_kernel.open(minor);
}

static int
failing_enroll(int fd, void *addr, size_t bytes, bool minor)
{
	return enroll_error ? enroll_error : nm_pc_sys_kernel.enroll(fd, addr, bytes, minor);
}

static void
attach_fails_cleanly(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 8);
	NmPostcopy *pc;
	int before = dup(0);
	int err = 0;

	(void) close(before);
	use_fake();
	fake.open = failing_open;
	fake.enroll = failing_enroll;
	m->config.buffers = 3;
	for (int i = 0; i < 3 * NM_PC_MAX_REGIONS; i++)
	{
		open_error = i % 2 ? -EPERM : 0;
		enroll_error = i % 2 ? 0 : -EINVAL;
		CHECK(nm_postcopy_attach(&m->config, m->shared, &err) == NULL);
		CHECK_INT(err, i % 2 ? EPERM : EINVAL);
	}
	open_error = -ENOSYS;
	CHECK_INT(nm_postcopy_probe(NM_PC_COPY), ENOSYS);
	open_error = enroll_error = 0;
	CHECK_INT(nm_postcopy_probe(NM_PC_COPY), 0);
	CHECK_INT(nm_postcopy_probe(NM_PC_CONTINUE), 0);
	/* no descriptor was left open */
	CHECK_INT(dup(0), before);
	(void) close(before);
	pc = memory_attach(m);
	all_good(m, 0, 64);
	CHECK_INT(nm_postcopy_detach(pc), 0);
	CHECK_INT(dup(0), before);
}

/* The filler is said to be dead just when it finishes. */
static bool
nobody_lives(int tid)
{
	(void) tid;
	return false;
}

static void
stealing_keeps_one_owner(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 8);
	NmPostcopy *pc;
	NmPcShared *s = m->shared;
	NmPcStats st;

	use_fake();
	fake.alive = nobody_lives;
	pc = memory_attach(m);
	s->cells[2] = 12345 << 2 | NM_CELL_OWNED;
	CHECK_INT(nm_pc_claim(pc, 2, false), NM_CLAIM_BUSY);
	CHECK_INT(nm_pc_claim(pc, 2, true), NM_CLAIM_MINE);
	CHECK_INT(nm_pc_claim(pc, 2, true), NM_CLAIM_SELF);
	CHECK((s->cells[2] & NM_CELL_WAITERS) != 0);
	nm_pc_release(pc, 2, false);
	CHECK_INT(s->cells[2], NM_CELL_EMPTY);
	CHECK_INT(nm_pc_claim(pc, 2, true), NM_CLAIM_MINE);
	nm_pc_release(pc, 2, true);
	CHECK_INT(nm_pc_claim(pc, 2, true), NM_CLAIM_DONE);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.stolen, 1);
}

int
main(void)
{
	RUN_APART(copies_go_on_where_they_stopped);
	RUN_APART(existing_pages_are_passed_over);
	RUN_APART(no_memory_midway);
	RUN_APART(patience_ends);
	RUN_APART(mapping_goes_on_too);
	RUN_APART(mapped_pages_are_passed_over);
	RUN_APART(writes_go_on_too);
	RUN_APART(holes_race_too);
	RUN_APART(attach_fails_cleanly);
	RUN_APART(stealing_keeps_one_owner);
	return finish();
}

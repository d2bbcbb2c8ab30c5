/*-------------------------------------------------------------------------
 *
 * test_chain.c
 *	  SIGBUS that is not ours goes to who had it before, as if we were not
 *	  there; touches that can't be served.
 *
 * IDENTIFICATION
 *	  test/unit/postcopy/test_chain.c
 *
 *-------------------------------------------------------------------------
 */
#include "memory.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile sig_atomic_t seen; /* times the earlier handler ran */
static void *volatile seen_addr;
static volatile int seen_code;
static sigset_t seen_mask;
static void *volatile seen_stack;

static void
note(int sig)
{
	(void) sig;
	seen++;
	(void) pthread_sigmask(SIG_BLOCK, NULL, &seen_mask);
	seen_stack = __builtin_frame_address(0);
}

static void
earlier(int sig, siginfo_t *info, void *context)
{
	note(sig);
	seen_addr = info->si_addr;
	seen_code = info->si_code;
	(void) context;
	if (info->si_code > 0)
		siglongjmp(back, 1);
}

static void
earlier_plain(int sig)
{
	note(sig);
	siglongjmp(back, 1);
}

static void
set_earlier(int flags, void (*plain)(int), int blocks)
{
	struct sigaction act = {.sa_flags = flags};

	if (plain)
		act.sa_handler = plain;
	else
		act.sa_sigaction = earlier;
	(void) sigemptyset(&act.sa_mask);
	if (blocks)
		(void) sigaddset(&act.sa_mask, blocks);
	CHECK_INT(sigaction(SIGBUS, &act, NULL), 0);
}

/* A mapping that reaches beyond its file: a bus error of nobody's making. */
static char *
beyond_the_end(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	char *p = mmap(NULL, 2 * NM_PC_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || p == MAP_FAILED || ftruncate(fd, NM_PC_PAGE) != 0)
		abort();
	return p + NM_PC_PAGE + 123;
}

static void
bus_errors_go_to_the_earlier_handler(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	char *bad = beyond_the_end();
	NmPostcopy *pc;
	NmPcStats st;

	set_earlier(SA_SIGINFO, NULL, SIGUSR2);
	pc = memory_attach(m);
	CHECK(nm_postcopy_handler_in_place());
	CHECK(page_good(m, 0));
	CHECK_INT(seen, 0);
	for (int round = 1; round <= 3; round++)
	{
		if (sigsetjmp(back, 1) == 0)
		{
			*(volatile char *) bad = 1;
			CHECK(!"no bus error");
		}
		CHECK_INT(seen, round);
		CHECK(seen_addr == bad);
		CHECK_INT(seen_code, BUS_ADRERR);
		/* the mask it asked for, its own signal, and not ours */
		CHECK_INT(sigismember(&seen_mask, SIGUSR2), 1);
		CHECK_INT(sigismember(&seen_mask, SIGBUS), 1);
		CHECK_INT(sigismember(&seen_mask, SIGUSR1), 0);
		CHECK_INT(sigismember(&seen_mask, SIGTERM), 0);
	}
	CHECK(page_good(m, 8));
	/* one that was sent, not met */
	CHECK_INT(raise(SIGBUS), 0);
	CHECK_INT(seen, 4);
	CHECK(seen_code <= 0);
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.failures, 0);
	CHECK_INT(nm_postcopy_detach(pc), 0);
	/* the chain outlives the regions */
	if (sigsetjmp(back, 1) == 0)
		*(volatile char *) bad = 1;
	CHECK_INT(seen, 5);
}

static void
plain_handlers_too(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	char *bad = beyond_the_end();

	set_earlier(SA_NODEFER, earlier_plain, 0);
	(void) memory_attach(m);
	if (sigsetjmp(back, 1) == 0)
		*(volatile char *) bad = 1;
	CHECK_INT(seen, 1);
	CHECK_INT(sigismember(&seen_mask, SIGBUS), 0); /* SA_NODEFER */
	CHECK(page_good(m, 0));
}

static void
alternate_stacks_too(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	char *bad = beyond_the_end();
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};

	CHECK_INT(sigaltstack(&stack, NULL), 0);
	set_earlier(SA_SIGINFO | SA_ONSTACK, NULL, 0);
	(void) memory_attach(m);
	if (sigsetjmp(back, 1) == 0)
		*(volatile char *) bad = 1;
	CHECK_INT(seen, 1);
	CHECK((char *) seen_stack > (char *) stack.ss_sp && (char *) seen_stack < (char *) stack.ss_sp + stack.ss_size);
	CHECK(page_good(m, 0));
}

typedef struct Fate
{
	void (*before)(int); /* SIG_DFL or SIG_IGN */
	bool sent;			 /* by raise(), not by a touch */
} Fate;

static void
meet_it(void *arg)
{
	Fate *f = arg;
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	struct sigaction act = {.sa_handler = f->before};

	CHECK_INT(sigaction(SIGBUS, &act, NULL), 0);
	(void) memory_attach(m);
	CHECK(page_good(m, 0));
	if (f->sent)
		(void) raise(SIGBUS);
	else
		*(volatile char *) beyond_the_end() = 1;
	CHECK(page_good(m, 20));
}

static void
default_and_ignored(void)
{
	Fate met = {.before = SIG_DFL};
	Fate sent = {.before = SIG_DFL, .sent = true};
	Fate met_ignored = {.before = SIG_IGN};
	Fate sent_ignored = {.before = SIG_IGN, .sent = true};
	int status = in_child(meet_it, &met);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = in_child(meet_it, &sent);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = in_child(meet_it, &met_ignored);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	CHECK_INT(in_child(meet_it, &sent_ignored), 0);
}

static void
reset_hand_resets(void *arg)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	char *bad = beyond_the_end();

	(void) arg;
	set_earlier(SA_SIGINFO | SA_RESETHAND, NULL, 0);
	(void) memory_attach(m);
	if (sigsetjmp(back, 1) == 0)
		*(volatile char *) bad = 1;
	CHECK_INT(seen, 1);
	CHECK(page_good(m, 0));
	*(volatile char *) bad = 1;
	CHECK(!"survived");
}

static void
one_shot_handlers(void)
{
	int status = in_child(reset_hand_resets, NULL);

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void
others_may_take_the_signal(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);

	(void) memory_attach(m);
	CHECK(nm_postcopy_handler_in_place());
	set_earlier(SA_SIGINFO, NULL, 0);
	CHECK(!nm_postcopy_handler_in_place());
}

/* The source fails: told, then the earlier handler; tried again at the next touch. */
static void
fail_and_try_again(void *arg)
{
	Memory *m = memory_make(*(const NmPcFill *) arg, 64, 4);
	NmPostcopy *pc;
	NmPcStats st;

	set_earlier(SA_SIGINFO, NULL, 0);
	pc = memory_attach(m);
	m->fail_errno = ENOENT;
	if (sigsetjmp(back, 1) == 0)
	{
		(void) touch(m, 10);
		CHECK(!"no error");
	}
	CHECK_INT(seen, 1);
	CHECK(seen_addr == m->base + 10 * NM_PC_PAGE);
	CHECK_INT(m->failed_errno, ENOENT);
	CHECK(m->failed_addr == m->base + 10 * NM_PC_PAGE);
	CHECK(page_good(m, 10));
	nm_postcopy_stats(pc, &st);
	CHECK_INT(st.failures, 1);
	CHECK_INT(st.cells, 1);
	CHECK_INT(seen, 1);
}

static void
failures_are_told(void)
{
	for (int f = 0; f < NFILLS; f++)
		CHECK_INT(in_child(fail_and_try_again, (void *) &fills[f]), 0);
}

/* "failed" may leave by siglongjmp; nothing is held then. */
static void
fail_and_jump(void *arg)
{
	Memory *m = memory_make(*(const NmPcFill *) arg, 64, 4);
	sigset_t now;

	(void) memory_attach(m);
	m->jump = &back;
	m->fail_errno = EIO;
	if (sigsetjmp(back, 1) == 0)
	{
		(void) touch(m, 10);
		CHECK(!"no error");
	}
	CHECK_INT(m->failed_errno, EIO);
	CHECK_INT(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK_INT(sigismember(&now, SIGUSR1), 0);
	CHECK(page_good(m, 10));
}

/* The file has become shorter than the region: a bus error inside it. */
static void
shortened_file(void *arg)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);

	(void) arg;
	(void) memory_attach(m);
	m->jump = &back;
	CHECK_INT(ftruncate(m->fd, 32 * NM_PC_PAGE), 0);
	if (sigsetjmp(back, 1) == 0)
	{
		(void) touch(m, 40);
		CHECK(!"no error");
	}
	CHECK_INT(m->failed_errno, EFAULT);
	CHECK(page_good(m, 20));
}

static void
failures_may_jump(void)
{
	for (int f = 0; f < NFILLS; f++)
		CHECK_INT(in_child(fail_and_jump, (void *) &fills[f]), 0);
	CHECK_INT(in_child(shortened_file, NULL), 0);
}

/*
 * A source that reads what it is asked to fill would wait for itself.  That
 * touch fails, and "failed", which might jump over the held cell, isn't asked.
 */
static void
touch_what_reads_itself(void *arg)
{
	Memory *m = arg;

	set_earlier(SA_SIGINFO, NULL, 0);
	(void) memory_attach(m);
	m->read_first = m->base + 9 * NM_PC_PAGE;
	if (sigsetjmp(back, 1) == 0)
		(void) touch(m, 8);
	CHECK_INT(seen, 1);
	CHECK(seen_addr == m->base + 9 * NM_PC_PAGE);
	CHECK_INT(m->failed_errno, 0);
}

static void
sources_must_not_touch_their_cell(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	Memory *other = memory_make(NM_PC_COPY, 64, 4);

	CHECK_INT(in_child(touch_what_reads_itself, m), 0);

	/* another region's page is allowed, and comes first */
	(void) memory_attach(m);
	(void) memory_attach(other);
	other->read_first = m->base + 40 * NM_PC_PAGE;
	CHECK(page_good(other, 0));
	CHECK(page_exists(m, 40));
}

static sigset_t mask_in_source;

static const void *
look_at_mask(void *arg, size_t first, int npages, void *buffer, int *err)
{
	Memory *m = arg;

	(void) npages;
	(void) buffer;
	(void) err;
	(void) pthread_sigmask(SIG_BLOCK, NULL, &mask_in_source);
	return m->snapshot + first * NM_PC_PAGE;
}

static void
other_signals_wait(void)
{
	Memory *m = memory_make(NM_PC_COPY, 64, 4);
	sigset_t now;

	m->config.source = look_at_mask;
	(void) memory_attach(m);
	CHECK(page_good(m, 0));
	CHECK_INT(sigismember(&mask_in_source, SIGUSR1), 1);
	CHECK_INT(sigismember(&mask_in_source, SIGTERM), 1);
	CHECK_INT(sigismember(&mask_in_source, SIGALRM), 1);
	CHECK_INT(sigismember(&mask_in_source, SIGQUIT), 0);
	CHECK_INT(sigismember(&mask_in_source, SIGSEGV), 0);
	CHECK_INT(sigismember(&mask_in_source, SIGBUS), 0);
	CHECK_INT(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	CHECK_INT(sigismember(&now, SIGUSR1), 0);
}

int
main(void)
{
	RUN_APART(bus_errors_go_to_the_earlier_handler);
	RUN_APART(plain_handlers_too);
	RUN_APART(alternate_stacks_too);
	RUN_APART(default_and_ignored);
	RUN_APART(one_shot_handlers);
	RUN_APART(others_may_take_the_signal);
	RUN_APART(failures_are_told);
	RUN_APART(failures_may_jump);
#ifdef NM_TSAN
	skip_test("sources_must_not_touch_their_cell", "ThreadSanitizer blocks all signals in every handler");
	skip_test("other_signals_wait", "ThreadSanitizer blocks all signals in every handler");
	(void) sources_must_not_touch_their_cell;
	(void) other_signals_wait;
#else
	RUN_APART(sources_must_not_touch_their_cell);
	RUN_APART(other_signals_wait);
#endif
	return finish();
}

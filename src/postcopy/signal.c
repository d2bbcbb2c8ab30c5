/*-------------------------------------------------------------------------
 *
 * signal.c
 *	  The SIGBUS handler, in front of the one that was there.
 *
 * IDENTIFICATION
 *	  src/postcopy/signal.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

static struct sigaction before; /* who handled SIGBUS before us */
static bool installed;

/*
 * Hand the signal on, as if we were not there: with the mask that the earlier
 * handler asked for on top of the interrupted one.
 */
static void
hand_on(int sig, siginfo_t *info, void *context)
{
	if ((before.sa_flags & SA_SIGINFO) == 0 && before.sa_handler == SIG_IGN && info->si_code <= 0)
		return; /* sent by somebody, and ignored */
	if ((before.sa_flags & SA_SIGINFO) == 0 && (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN))
	{
		/*
		 * The default: end the process.  A faulting instruction is repeated after
		 * return and dies with its own address in the core file; a signal
		 * that was sent must be sent again.  The kernel lets nobody ignore a fault.
		 */
		struct sigaction act = {.sa_handler = SIG_DFL};

		(void) sigemptyset(&act.sa_mask);
		(void) sigaction(SIGBUS, &act, NULL);
		if (info->si_code <= 0)
			(void) raise(SIGBUS);
		return;
	}

	{
		sigset_t mask = ((ucontext_t *) context)->uc_sigmask;
		struct sigaction old = before;

		for (int s = 1; s < NSIG; s++)
			if (sigismember(&old.sa_mask, s) == 1)
				(void) sigaddset(&mask, s);
		if ((old.sa_flags & SA_NODEFER) == 0)
			(void) sigaddset(&mask, sig);
		if (old.sa_flags & SA_RESETHAND)
		{
			before.sa_flags &= ~(SA_SIGINFO | SA_RESETHAND);
			before.sa_handler = SIG_DFL;
		}
		(void) pthread_sigmask(SIG_SETMASK, &mask, NULL);
		if (old.sa_flags & SA_SIGINFO)
			old.sa_sigaction(sig, info, context);
		else
			old.sa_handler(sig);
		/* the return from the signal restores the interrupted mask */
	}
}

/* Is it ours, and did we serve it? */
static bool
serve(void *addr)
{
	for (int i = 0; i < NM_PC_MAX_REGIONS; i++)
	{
		NmPostcopy *pc = &nm_pc_regions[i];
		size_t at;
		int err;

		if (!__atomic_load_n(&pc->attached, __ATOMIC_ACQUIRE))
			continue;
		if ((char *) addr < (char *) pc->config.base)
			continue;
		at = (size_t) ((char *) addr - (char *) pc->config.base);
		if (at >= pc->config.bytes)
			continue;
		/* inherited by fork: the descriptor would fill the parent's memory */
		if (pc->pid != *nm_pc_process)
			continue;
		err = nm_pc_touch(pc, at / NM_PC_PAGE);
		if (err == 0)
			return true;
		nm_pc_count(pc, failures, 1);
		/* inside a source nobody may jump: the cell would stay held */
		if (pc->config.failed && nm_pc_filling == 0)
			pc->config.failed(pc->config.arg, addr, -err);
		return false;
	}
	return false;
}

static void
on_sigbus(int sig, siginfo_t *info, void *context)
{
	int saved = errno;

	/* not: sent by a process, or broken memory (BUS_MCEERR_AR) */
	if (info->si_code != BUS_ADRERR || !serve(info->si_addr))
		hand_on(sig, info, context);
	errno = saved;
}

int
nm_pc_handler_install(void)
{
	struct sigaction act;

	if (installed)
		return 0;
	if (sigaction(SIGBUS, NULL, &before) != 0)
		return -errno;

	/*
	 * While a cell is held no other handler may run: it could leave by longjmp,
	 * or run long.  Faults stay open, since the earlier handler wants its bus errors
	 * even from inside a source; so does SIGQUIT, PostgreSQL's emergency exit,
	 * which never returns.
	 */
	act.sa_sigaction = on_sigbus;
	act.sa_flags = SA_SIGINFO | SA_NODEFER | (before.sa_flags & (SA_ONSTACK | SA_RESTART));
	(void) sigfillset(&act.sa_mask);
	{
		static const int open_signals[] = {SIGQUIT, SIGTRAP, SIGABRT, SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGSYS, SIGCONT};

		for (size_t i = 0; i < sizeof(open_signals) / sizeof(open_signals[0]); i++)
			(void) sigdelset(&act.sa_mask, open_signals[i]);
	}
	/* the handler may run before sigaction() returns: "before" is complete */
	if (sigaction(SIGBUS, &act, NULL) != 0)
		return -errno;
	installed = true;
	return 0;
}

bool
nm_postcopy_handler_in_place(void)
{
	struct sigaction now;

	return sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_sigbus;
}

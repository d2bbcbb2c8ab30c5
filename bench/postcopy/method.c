/*-------------------------------------------------------------------------
 *
 * method.c
 *	  See method.h.  The queue is given its best: a blocking read per fault and
 *	  no poll, one call that fills a whole cell and wakes who waits.
 *
 * IDENTIFICATION
 *	  bench/postcopy/method.c
 *
 *-------------------------------------------------------------------------
 */
#include "method.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void
pc_give_up(const char *what)
{
	fprintf(stderr, "postcopy: %s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t
pc_thread_cpu(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) != 0)
		pc_give_up("clock");
	return (uint64_t) ts.tv_sec * UINT64_C(1000000000) + (uint64_t) ts.tv_nsec;
}

void
pc_realtime(bool on)
{
	struct sched_param p = {.sched_priority = on ? 1 : 0};

	if (sched_setscheduler(0, on ? SCHED_RR : SCHED_OTHER, &p) != 0)
		pc_give_up("real-time scheduling");
}

/* The source of all methods: bytes in the page cache, perhaps after a while. */
static const void *
fetch(void *arg, size_t first, int npages, void *buffer, int *err)
{
	const PcSnapshot *s = arg;

	(void) npages;
	(void) buffer;
	(void) err;
	if (s->delay_ns)
	{
		struct timespec ts = {.tv_nsec = s->delay_ns};

		(void) nanosleep(&ts, NULL);
	}
	return s->bytes + first * NM_PC_PAGE;
}

void
pc_space_make(PcSpace *s, const PcSnapshot *snapshot, size_t npages, int cell_pages, const PcMethod *method)
{
	size_t bytes = npages * NM_PC_PAGE;

	memset(s, 0, sizeof(*s));
	s->snapshot = snapshot;
	s->npages = npages;
	s->cell_pages = cell_pages;
	s->memfd = -1;
	if (method->kind == PC_KERNEL)
		return;
	s->memfd = memfd_create("postcopy", MFD_CLOEXEC);
	if (s->memfd < 0 || ftruncate(s->memfd, (off_t) bytes) != 0)
		pc_give_up("memfd");
	s->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->memfd, 0);
	if (s->base == MAP_FAILED)
		pc_give_up("mmap");
	if (method->fill == NM_PC_CONTINUE)
	{
		/* the memory is there beforehand, as the page pool's is */
		s->alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, s->memfd, 0);
		if (s->alias == MAP_FAILED)
			pc_give_up("mmap");
	}
	bytes = nm_postcopy_shared_size(bytes, cell_pages);
	s->shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->shared == MAP_FAILED)
		pc_give_up("mmap");
	nm_postcopy_shared_init(s->shared, npages * NM_PC_PAGE, cell_pages);
}

void
pc_space_inherit(PcSpace *s)
{
	size_t bytes = s->npages * NM_PC_PAGE;

	if (madvise((void *) s->snapshot->bytes, bytes, MADV_POPULATE_READ) != 0)
		pc_give_up("MADV_POPULATE_READ");
	if (s->alias && madvise(s->alias, bytes, MADV_POPULATE_WRITE) != 0)
		pc_give_up("MADV_POPULATE_WRITE");
}

void
pc_space_unmake(PcSpace *s)
{
	size_t bytes = s->npages * NM_PC_PAGE;

	if (s->base)
		(void) munmap(s->base, bytes);
	if (s->alias)
		(void) munmap(s->alias, bytes);
	if (s->shared)
		(void) munmap(s->shared, nm_postcopy_shared_size(bytes, s->cell_pages));
	if (s->memfd >= 0)
		(void) close(s->memfd);
}

/* One call after another until all of [at, at + bytes) is there. */
static void
resolve(PcView *v, size_t at, size_t bytes)
{
	size_t done = 0;
	bool existed = false;

	while (done < bytes)
	{
		int64_t part;
		int r;

		if (v->method.fill == NM_PC_COPY)
		{
			struct uffdio_copy c = {
				.dst = (uintptr_t) v->base + at + done, .src = (uintptr_t) v->space->snapshot->bytes + at + done, .len = bytes - done};

			r = ioctl(v->uffd, UFFDIO_COPY, &c);
			part = c.copy;
		}
		else
		{
			struct uffdio_continue c = {.range = {.start = (uintptr_t) v->base + at + done, .len = bytes - done}};

			r = ioctl(v->uffd, UFFDIO_CONTINUE, &c);
			part = c.mapped;
		}
		if (r == 0)
			break;
		if (errno == EEXIST)
		{
			existed = true;
			done += NM_PC_PAGE;
		}
		else if (errno == EAGAIN)
			done += part > 0 ? (size_t) part : 0;
		else
			pc_give_up("userfaultfd");
	}
	if (existed)
	{
		struct uffdio_range range = {.start = (uintptr_t) v->base + at, .len = bytes};

		if (ioctl(v->uffd, UFFDIO_WAKE, &range) != 0)
			pc_give_up("UFFDIO_WAKE");
	}
}

static void
serve_one(PcView *v, size_t page)
{
	size_t cell = (size_t) v->space->cell_pages;
	size_t first = page / cell * cell;
	size_t n = v->space->npages - first < cell ? v->space->npages - first : cell;
	size_t at = first * NM_PC_PAGE;
	size_t bytes = n * NM_PC_PAGE;
	int err;
	const char *from = fetch((void *) v->space->snapshot, first, (int) n, NULL, &err);

	if (v->method.fill == NM_PC_CONTINUE)
		memcpy(v->space->alias + at, from, bytes);
	else if (v->method.fill == NM_PC_CONTINUE_WRITE && pwrite(v->space->memfd, from, bytes, (off_t) at) != (ssize_t) bytes)
		pc_give_up("pwrite");
	resolve(v, at, bytes);
}

static volatile sig_atomic_t stopping;

static void
on_stop(int sig)
{
	(void) sig;
}

typedef struct HandlerStart
{
	PcView *view;
	bool realtime;
} HandlerStart;

static void *
serve_queue(void *arg)
{
	HandlerStart start = *(HandlerStart *) arg;
	PcView *v = start.view;
	struct uffd_msg msg;

	free(arg);
	if (start.realtime)
		pc_realtime(true);
	while (!stopping)
	{
		ssize_t r = read(v->uffd, &msg, sizeof(msg));

		if (r < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (r != (ssize_t) sizeof(msg) || msg.event != UFFD_EVENT_PAGEFAULT)
			pc_give_up("userfaultfd's queue");
		serve_one(v, (msg.arg.pagefault.address - (uintptr_t) v->base) / NM_PC_PAGE);
	}
	(void) __atomic_fetch_add(&v->handler_cpu, pc_thread_cpu(), __ATOMIC_RELAXED);
	return NULL;
}

static void
queue_open(PcView *v, bool realtime)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_MISSING_SHMEM | UFFD_FEATURE_MINOR_SHMEM};
	struct uffdio_register reg = {
		.range = {.start = (uintptr_t) v->base, .len = v->space->npages * NM_PC_PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	struct sigaction act = {.sa_handler = on_stop}; /* no SA_RESTART: ends a read */

	if (v->method.fill != NM_PC_COPY)
		reg.mode |= UFFDIO_REGISTER_MODE_MINOR;
	v->uffd = (int) syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (v->uffd < 0 || ioctl(v->uffd, UFFDIO_API, &api) != 0 || ioctl(v->uffd, UFFDIO_REGISTER, &reg) != 0)
		pc_give_up("userfaultfd");
	(void) sigemptyset(&act.sa_mask);
	(void) sigaction(SIGUSR1, &act, NULL);
	stopping = 0;
	for (int i = 0; i < v->method.handlers; i++)
	{
		HandlerStart *start = malloc(sizeof(*start));

		*start = (HandlerStart){.view = v, .realtime = realtime};
		if (pthread_create(&v->threads[i], NULL, serve_queue, start) != 0)
			pc_give_up("thread");
	}
}

static void
queue_close(PcView *v)
{
	stopping = 1;
	for (int i = 0; i < v->method.handlers; i++)
	{
		struct timespec patience;

		/* the signal may come before the read: again until it is gone */
		do
		{
			(void) pthread_kill(v->threads[i], SIGUSR1);
			(void) clock_gettime(CLOCK_REALTIME, &patience);
			patience.tv_nsec += 2000000;
			if (patience.tv_nsec >= 1000000000)
			{
				patience.tv_nsec -= 1000000000;
				patience.tv_sec++;
			}
		} while (pthread_timedjoin_np(v->threads[i], NULL, &patience) != 0);
	}
	(void) close(v->uffd);
}

void
pc_view_open(PcView *v, PcSpace *s, const PcMethod *method, bool realtime)
{
	size_t bytes = s->npages * NM_PC_PAGE;
	int err = 0;

	memset(v, 0, sizeof(*v));
	v->space = s;
	v->method = *method;
	v->base = s->base;
	switch (method->kind)
	{
		case PC_KERNEL:
			v->base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->snapshot->fd, 0);
			if (v->base == MAP_FAILED)
				pc_give_up("mmap");
			(void) madvise(v->base, bytes, MADV_NOHUGEPAGE);
			if (s->cell_pages > 1)
				v->asked = calloc(s->npages / (size_t) s->cell_pages + 1, 1);
			break;
		case PC_QUEUE:
			queue_open(v, realtime);
			break;
		case PC_FAULTER:
		{
			NmPcConfig config = {
				.fill = method->fill,
				.base = s->base,
				.bytes = bytes,
				.alias = s->alias,
				.memfd = s->memfd,
				.cell_pages = s->cell_pages,
				.header_bytes = 8,
				.source = fetch,
				.arg = (void *) s->snapshot};

			v->pc = nm_postcopy_attach(&config, s->shared, &err);
			errno = err;
			if (v->pc == NULL)
				pc_give_up("attach");
			break;
		}
	}
}

void
pc_view_close(PcView *v)
{
	switch (v->method.kind)
	{
		case PC_KERNEL:
			(void) munmap(v->base, v->space->npages * NM_PC_PAGE);
			free(v->asked);
			break;
		case PC_QUEUE:
			queue_close(v);
			break;
		case PC_FAULTER:
			if (nm_postcopy_detach(v->pc) != 0)
				pc_give_up("detach");
			break;
	}
}

void
pc_view_populate(PcView *v, size_t cell)
{
	size_t first = cell * (size_t) v->space->cell_pages;
	size_t n = v->space->npages - first;

	if (n > (size_t) v->space->cell_pages)
		n = (size_t) v->space->cell_pages;
	v->asked[cell] = 1;
	if (madvise(v->base + first * NM_PC_PAGE, n * NM_PC_PAGE, MADV_POPULATE_WRITE) != 0)
		pc_give_up("MADV_POPULATE_WRITE");
}

/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  See memory.h.
 *
 * IDENTIFICATION
 *	  test/unit/postcopy/memory.c
 *
 *-------------------------------------------------------------------------
 */
#include "memory.h"

#include <setjmp.h>
#include <signal.h>
#include <time.h>

const NmPcFill fills[NFILLS] = {NM_PC_COPY, NM_PC_CONTINUE, NM_PC_CONTINUE_WRITE};

int check_bad;
static int passed,
	failed,
	skipped;

static void *
shared_memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static const void *
from_snapshot(void *arg, size_t first, int npages, void *buffer, int *err)
{
	Memory *m = arg;

	(void) __atomic_fetch_add(&m->calls, 1, __ATOMIC_RELAXED);
	(void) __atomic_fetch_add(&m->shared_calls[first], 1, __ATOMIC_RELAXED);
	if (m->delay_ns)
	{
		struct timespec ts = {.tv_nsec = m->delay_ns};

		(void) nanosleep(&ts, NULL);
	}
	if (m->die)
		_exit(0);
	if (m->read_first)
		(void) *(volatile char *) m->read_first;
	*err = __atomic_exchange_n(&m->fail_errno, 0, __ATOMIC_RELAXED);
	if (*err)
		return NULL;
	if (buffer)
		return memcpy(buffer, m->snapshot + first * NM_PC_PAGE, (size_t) npages * NM_PC_PAGE);
	return m->snapshot + first * NM_PC_PAGE;
}

static void
note_failure(void *arg, void *addr, int err)
{
	Memory *m = arg;

	m->failed_errno = err;
	m->failed_addr = addr;
	if (m->jump)
		siglongjmp(*(sigjmp_buf *) m->jump, 1);
}

Memory *
memory_make(NmPcFill fill, size_t npages, int cell_pages)
{
	Memory *m = calloc(1, sizeof(Memory));
	size_t bytes = npages * NM_PC_PAGE;
	size_t whole = bytes + EXTRA_PAGES * NM_PC_PAGE;

	m->npages = npages;
	m->fd = memfd_create("postcopy test", MFD_CLOEXEC);
	if (m->fd < 0 || ftruncate(m->fd, (off_t) whole) != 0)
		abort();
	m->base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	m->alias = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
	m->snapshot = shared_memory(whole);
	m->shared_calls = shared_memory(npages * sizeof(uint32_t));
	for (size_t i = 0; i < bytes / 8; i++)
		((uint64_t *) m->snapshot)[i] = (i + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
	m->shared = shared_memory(nm_postcopy_shared_size(bytes, cell_pages));
	nm_postcopy_shared_init(m->shared, bytes, cell_pages);
	m->config = (NmPcConfig){
		.fill = fill,
		.base = m->base,
		.bytes = bytes,
		.alias = m->alias,
		.memfd = m->fd,
		.cell_pages = cell_pages,
		.header_bytes = 8,
		.source = from_snapshot,
		.failed = note_failure,
		.arg = m};
	return m;
}

void
memory_unmake(Memory *m)
{
	size_t bytes = m->npages * NM_PC_PAGE;
	size_t whole = bytes + EXTRA_PAGES * NM_PC_PAGE;

	(void) munmap(m->base, whole);
	(void) munmap(m->alias, whole);
	(void) munmap(m->snapshot, whole);
	(void) munmap(m->shared_calls, m->npages * sizeof(uint32_t));
	(void) munmap(m->shared, nm_postcopy_shared_size(bytes, m->config.cell_pages));
	(void) close(m->fd);
	free(m);
}

NmPostcopy *
memory_attach(Memory *m)
{
	int err = 0;
	NmPostcopy *pc = nm_postcopy_attach(&m->config, m->shared, &err);

	CHECK_INT(err, 0);
	if (pc == NULL)
	{
		printf("#   attach: %s\n", strerror(err));
		fflush(stdout);
		_exit(1);
	}
	return pc;
}

bool
page_good(Memory *m, size_t page)
{
	return memcmp(m->base + page * NM_PC_PAGE, m->snapshot + page * NM_PC_PAGE, NM_PC_PAGE) == 0;
}

bool
page_exists(Memory *m, size_t page)
{
	unsigned char vec = 0;

	if (mincore(m->alias + page * NM_PC_PAGE, NM_PC_PAGE, &vec) != 0)
		abort();
	return (vec & 1) != 0;
}

int
touch(Memory *m, size_t page)
{
	return *(volatile unsigned char *) (m->base + page * NM_PC_PAGE);
}

int
in_child(void (*fn)(void *), void *arg)
{
	pid_t pid;
	int status = -1;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
	{
		check_bad = 0;
		fn(arg);
		fflush(stdout);
		_exit(check_bad > 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	return status;
}

static void
call(void *arg)
{
	void (*test)(void) = *(void (**)(void)) arg;

	(void) alarm(120);
	test();
}

void
run_apart(void (*test)(void), const char *name)
{
	int status = in_child(call, &test);

	if (status == 0)
		passed++;
	else
		failed++;
	if (WIFSIGNALED(status))
		printf("#   %s: ended by signal %d\n", name, WTERMSIG(status));
	printf("%s - %s\n", status == 0 ? "ok    " : "not ok", name);
	fflush(stdout);
}

void
skip_test(const char *name, const char *why)
{
	skipped++;
	printf("skip   - %s: %s\n", name, why);
}

int
finish(void)
{
	printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
	return failed > 0;
}

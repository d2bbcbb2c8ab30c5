// SPDX-License-Identifier: GPL-2.0
/* Memory made of folios of one size. */
#define _GNU_SOURCE
#include "folios.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"

#define HUGE_SIZE ((size_t) 2 << 20)

/* Documentation/admin-guide/mm/pagemap.rst */
#define PFN_MASK	((1ull << 55) - 1)
#define PRESENT		(1ull << 63)
#define KPF_HEAD	(1ull << 15)
#define KPF_TAIL	(1ull << 16)
#define KPF_HUGETLB (1ull << 17)

const char *const folio_name[] = {"4k", "64k", "2M", "hugetlb"};
const unsigned int folio_pages[] = {1, 16, 512, 512};

/* Settings, and what they were before */
#define THP_DIR	 "/sys/kernel/mm/transparent_hugepage/"
#define NODE_DIR "/sys/devices/system/node/"
static struct setting
{
	const char *path;
	char before[32];
} settings[] = {
	{THP_DIR "hugepages-64kB/enabled"},
	{THP_DIR "hugepages-64kB/shmem_enabled"},
	{THP_DIR "hugepages-2048kB/enabled"},
	{THP_DIR "hugepages-2048kB/shmem_enabled"},
	{NODE_DIR "node0/hugepages/hugepages-2048kB/nr_hugepages"},
	{NODE_DIR "node1/hugepages/hugepages-2048kB/nr_hugepages"},
};
enum
{
	ENABLED_64K,
	SHMEM_64K,
	ENABLED_2M,
	SHMEM_2M,
	POOL_0,
	POOL_1,
	SETTINGS
};

static bool
write_setting(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t) strlen(value);

	if (fd >= 0)
		close(fd);
	return done;
}

/* The value, of several the one in brackets; remembered the first time. */
static bool
set(int which, const char *value)
{
	struct setting *s = &settings[which];
	char line[128];
	FILE *f = fopen(s->path, "r");
	char *from;

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	from = strchr(line, '[');
	if (!s->before[0])
		snprintf(s->before, sizeof(s->before), "%.31s", strtok(from ? from + 1 : line, "]\n"));
	return write_setting(s->path, value);
}

static void
restore_settings(void)
{
	int i;

	for (i = 0; i < SETTINGS; i++)
	{
		if (settings[i].before[0])
			write_setting(settings[i].path, settings[i].before);
		settings[i].before[0] = 0;
	}
}

static bool
prepare(enum folio folio, size_t pages)
{
	char pool[16];

	switch (folio)
	{
		case BASE:
			return true;
		case MTHP:
			return set(ENABLED_64K, "madvise") && set(SHMEM_64K, "advise") &&
				   set(ENABLED_2M, "never") && set(SHMEM_2M, "never");
		case THP:
			return set(ENABLED_2M, "madvise") && set(SHMEM_2M, "advise");
		case HUGETLB:
			/* A node holds all of them after a move */
			snprintf(pool, sizeof(pool), "%zu", pages * PAGE / HUGE_SIZE);
			return set(POOL_0, pool) && set(POOL_1, pool);
	}
	return false;
}

char *
map_folios(enum folio folio, size_t pages, bool shared)
{
	size_t len = (pages * PAGE + HUGE_SIZE - 1) / HUGE_SIZE * HUGE_SIZE;
	int flags = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	int fd = -1;
	char *room, *memory;

	if (!prepare(folio, pages))
	{
		restore_settings();
		return NULL;
	}
	if (shared)
	{
		fd = memfd_create("bench", folio == HUGETLB ? MFD_HUGETLB : 0);
		if (fd < 0 || ftruncate(fd, len))
			die("memfd");
	}
	else if (folio == HUGETLB)
	{
		flags |= MAP_HUGETLB;
	}
	room = mmap(NULL, len + HUGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room == MAP_FAILED)
		die("mmap");
	memory = (char *) (((uintptr_t) room + HUGE_SIZE - 1) / HUGE_SIZE * HUGE_SIZE);
	munmap(room, memory - room);
	munmap(memory + len, room + HUGE_SIZE - memory);
	if (mmap(memory, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, 0) == MAP_FAILED)
		die("mmap");
	if (fd >= 0)
		close(fd);
	if (folio != HUGETLB)
		madvise(memory, len, folio == BASE ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	return memory;
}

void
unmap_folios(char *memory, size_t pages)
{
	munmap(memory, (pages * PAGE + HUGE_SIZE - 1) / HUGE_SIZE * HUGE_SIZE);
	restore_settings();
}

static uint64_t
entry(const char *path, uint64_t index)
{
	uint64_t value;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || pread(fd, &value, sizeof(value), index * sizeof(value)) != sizeof(value))
		die(path);
	close(fd);
	return value;
}

bool
is_folio(enum folio folio, const char *at)
{
	unsigned int n = folio_pages[folio];
	uint64_t first = entry("/proc/self/pagemap", (uintptr_t) at / PAGE), flags;
	uint64_t pfn = first & PFN_MASK;

	if (!(first & PRESENT) || pfn % n)
		return false;
	flags = entry("/proc/kpageflags", pfn);
	if (folio == BASE)
		return !(flags & (KPF_HEAD | KPF_TAIL));
	/* Neither smaller nor larger */
	return (flags & KPF_HEAD) && !!(flags & KPF_HUGETLB) == (folio == HUGETLB) &&
		   (entry("/proc/kpageflags", pfn + n - 1) & KPF_TAIL) &&
		   !(entry("/proc/kpageflags", pfn + n) & KPF_TAIL);
}

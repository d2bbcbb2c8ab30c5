/*-------------------------------------------------------------------------
 *
 * buffers.c
 *	  Where blocks lie in shared buffers: addresses, no pins.
 *
 * A move needs the address of a buffer, not its content: if the block is
 * replaced meanwhile, another block's memory moves, which costs a little and
 * harms nothing.  So a block is looked up under its partition lock and the
 * lock is released before anyone acts on the address, and scans read the
 * headers without any lock, as pg_buffercache_summary does.
 *
 * IDENTIFICATION
 *	  src/migrator/buffers.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/migrator.h"

#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"

#include <unistd.h>

#if PG_VERSION_NUM >= 190000
#define read_state(desc) pg_atomic_read_u64(&(desc)->state)
typedef uint64 BufState;
#else
#define read_state(desc) pg_atomic_read_u32(&(desc)->state)
typedef uint32 BufState;
#endif

static void
make_tag(BufferTag *tag, const NmRelLocator *rel, ForkNumber fork, BlockNumber block)
{
#if PG_VERSION_NUM >= 160000
	InitBufferTag(tag, rel, fork, block);
#else
	INIT_BUFFERTAG(*tag, *rel, fork, block);
#endif
}

static void
split_tag(const BufferTag *tag, NmRelLocator *rel, ForkNumber *fork, BlockNumber *block)
{
#if PG_VERSION_NUM >= 160000
	*rel = BufTagGetRelFileLocator(tag);
	*fork = BufTagGetForkNum(tag);
#else
	*rel = tag->rnode;
	*fork = tag->forkNum;
#endif
	*block = tag->blockNum;
}

/* Address of the buffer that holds a block now, NULL if none does. */
char *
nm_buffer_address(const NmRelLocator *rel, ForkNumber fork, BlockNumber block)
{
	BufferTag tag;
	uint32 hash;
	LWLock *lock;
	int id;

	make_tag(&tag, rel, fork, block);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);
	LWLockAcquire(lock, LW_SHARED);
	id = BufTableLookup(&tag, hash);
	LWLockRelease(lock);
	return id < 0 ? NULL : nm_buffer_base() + (Size) id * BLCKSZ;
}

char *
nm_buffer_base(void)
{
	return BufferBlocks;
}

int
nm_buffer_count(void)
{
	return NBuffers;
}

int
nm_buffers_scan(int *cursor, const NmRelLocator *rel, NmBufferInfo *out, int max)
{
	int stop = Min(NBuffers - *cursor, NM_SCAN_HEADERS) + *cursor;
	int n = 0;

	while (*cursor < stop && n < max)
	{
		int id = (*cursor)++;
		BufferDesc *desc = GetBufferDescriptor(id);
		BufState state = read_state(desc);
		NmBufferInfo *info = &out[n];
		BufferTag tag;

		if ((state & BM_TAG_VALID) == 0)
			continue;
		tag = desc->tag;
		split_tag(&tag, &info->rel, &info->fork, &info->block);
		if (rel && (nm_loc_rel(info->rel) != nm_loc_rel(*rel) ||
					nm_loc_db(info->rel) != nm_loc_db(*rel) ||
					nm_loc_spc(info->rel) != nm_loc_spc(*rel)))
			continue;
		info->addr = BufferBlocks + (Size) id * BLCKSZ;
		info->dirty = (state & BM_DIRTY) != 0;
		info->pinned = BUF_STATE_GET_REFCOUNT(state) > 0;
		n++;
	}
	return n;
}

/*
 * The OS pages that a buffer owns.  Before version 16 buffers are not aligned to OS
 * pages, so a page can lie in two buffers: it belongs to the one that its
 * middle is in, hence every page has one owner and two relations never pull at
 * the same page.  A huge page holds many buffers and is nobody's alone: the
 * one around the buffer's middle is returned.
 */
int
nm_buffer_os_pages(char *addr, size_t page_size, void **pages, int max)
{
	uintptr_t start = (uintptr_t) addr;
	uintptr_t end = start + BLCKSZ;
	int n = 0;

	if (page_size > BLCKSZ)
	{
		pages[0] = (void *) ((start + BLCKSZ / 2) & ~(uintptr_t) (page_size - 1));
		return 1;
	}
	for (uintptr_t p = (start - page_size / 2 + page_size - 1) & ~(uintptr_t) (page_size - 1);
		 p + page_size / 2 < end && n < max; p += page_size)
		pages[n++] = (void *) p;
	return n;
}

/*
 * Real page size behind shared buffers and whether they are hugetlb pages.
 * The setting huge_pages = try does not tell (and 15 and 16 have no
 * huge_pages_status), so the kernel is asked: the name of the mapping in
 * /proc/self/maps settles the usual case; only otherwise /proc/self/smaps is
 * read, which walks page tables.  Asked once per process.
 */
size_t
nm_buffers_page_size(bool *hugetlb)
{
	static size_t size = 0;
	static bool huge = false;
	uintptr_t at = (uintptr_t) BufferBlocks;
	char line[1024];
	bool inside = false;
	bool anonymous = false;
	FILE *f;

	if (size == 0)
	{
		size_t found = 0;
		bool ht = false;

		f = AllocateFile("/proc/self/maps", "r");
		if (f)
		{
			while (fgets(line, sizeof(line), f))
			{
				unsigned long from,
					to;

				if (sscanf(line, "%lx-%lx", &from, &to) == 2 && at >= from && at < to)
				{
					anonymous = strstr(line, "/dev/zero") != NULL;
					break;
				}
			}
			FreeFile(f);
		}
		f = anonymous ? NULL : AllocateFile("/proc/self/smaps", "r");
		if (f)
		{
			while (fgets(line, sizeof(line), f))
			{
				unsigned long from,
					to,
					kb;

				if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
				{
					if (inside)
						break;
					inside = at >= from && at < to;
				}
				else if (inside && sscanf(line, "KernelPageSize: %lu kB", &kb) == 1)
					found = (size_t) kb * 1024;
				else if (inside && strncmp(line, "VmFlags:", 8) == 0)
					ht = strstr(line, " ht") != NULL;
			}
			FreeFile(f);
		}
		size = found > 0 ? found : (size_t) sysconf(_SC_PAGESIZE);
		huge = ht;
	}
	if (hugetlb)
		*hugetlb = huge;
	return size;
}

/*-------------------------------------------------------------------------
 *
 * method.h
 *	  Ways to make memory that is filled when it is touched.
 *
 * IDENTIFICATION
 *	  bench/postcopy/method.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef PC_METHOD_H
#define PC_METHOD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "postcopy/postcopy.h"

#include <pthread.h>

typedef enum PcKind
{
	PC_KERNEL, /* a private mapping of the snapshot's file: the ceiling */
	PC_QUEUE,  /* userfaultfd, handler threads read its queue */
	PC_FAULTER /* src/postcopy: the toucher */
} PcKind;

typedef struct PcMethod
{
	PcKind kind;
	NmPcFill fill;
	int handlers; /* PC_QUEUE: threads per queue */
} PcMethod;

/* The snapshot: a file, mapped, its pages in the page cache and in our page table. */
typedef struct PcSnapshot
{
	int fd;
	const char *bytes;
	size_t npages;
	long delay_ns; /* a fetch takes that much longer */
} PcSnapshot;

/* What all processes of a slice have in common. */
typedef struct PcSpace
{
	const PcSnapshot *snapshot;
	size_t npages;
	int cell_pages;
	int memfd;
	char *base;	  /* mapped before fork; touched */
	char *alias;  /* the same memory */
	void *shared; /* the engine's book-keeping */
} PcSpace;

/* What one process has of it. */
typedef struct PcView
{
	PcSpace *space;
	PcMethod method;
	char *base; /* what is to be touched */
	NmPostcopy *pc;
	/* PC_QUEUE */
	int uffd;
	pthread_t threads[64];
	uint64_t handler_cpu; /* ns, complete after close */
	/* PC_KERNEL, cell_pages > 1: cells asked for */
	unsigned char *asked;
} PcView;

/*
 * All end the program with a message if they fail.  The memory behind
 * NM_PC_CONTINUE is there beforehand.
 */
extern void pc_space_make(PcSpace *s, const PcSnapshot *snapshot, size_t npages, int cell_pages, const PcMethod *method);
extern void pc_space_unmake(PcSpace *s);
extern void pc_view_open(PcView *v, PcSpace *s, const PcMethod *method, bool realtime);
extern void pc_view_close(PcView *v);

/* PC_KERNEL with cells: before a page is touched. */
static inline void
pc_view_before(PcView *v, size_t page, void (*populate)(PcView *, size_t))
{
	size_t cell = page / (size_t) v->space->cell_pages;

	if (v->asked && !v->asked[cell])
		populate(v, cell);
}
/* After fork: page tables of shared mappings aren't inherited; the source's and the alias'. */
extern void pc_space_inherit(PcSpace *s);
extern void pc_view_populate(PcView *v, size_t cell);

/* CPU time of the calling thread, ns. */
extern uint64_t pc_thread_cpu(void);

/* Real-time round robin for the calling thread, and back. */
extern void pc_realtime(bool on);
extern void pc_give_up(const char *what) __attribute__((noreturn));

#endif /* PC_METHOD_H */

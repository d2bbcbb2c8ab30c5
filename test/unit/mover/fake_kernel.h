/*-------------------------------------------------------------------------
 *
 * fake_kernel.h
 *	  A small model of the kernel's page placement, behind mover/sys.h.
 *
 * Pages lie at FAKE_BASE, one behind the other.  The stock call behaves as
 * Linux 6.12's mm/migrate.c (do_pages_move) does, weaknesses included: it
 * flushes at a page already there, gives up at the first batch with a failed
 * page, and stores no status for that batch.  The other call follows the
 * contract of kernel/uapi/move_pages2.h.
 *
 * IDENTIFICATION
 *	  test/unit/mover/fake_kernel.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_FAKE_KERNEL_H
#define NM_FAKE_KERNEL_H

#include "mover/sys.h"

#define FAKE_PAGES 8192
#define FAKE_BASE  ((char *) 0x100000000)
#define FAKE_NODES 32

typedef struct FakePage
{
	bool mapped;   /* inside a mapping */
	bool resident; /* a page exists */
	bool mine;	   /* in the caller's page table */
	bool pinned;   /* migration fails */
	bool stuck;	   /* can't be isolated */
	bool shared;   /* mapped by others: needs MOVE_ALL */
	int again;	   /* move_pages2 says EAGAIN that many times */
	int node;
	int tries; /* migrations attempted */
	bool own;  /* of a file of ours */
} FakePage;

typedef struct FakeKernel
{
	FakePage page[FAKE_PAGES];
	size_t page_size;
	bool hugetlb;	 /* any move clears everybody's "mine" */
	bool old_efault; /* EFAULT for unmapped entries (before 6.12) */
	bool cap_sys_nice;
	bool owner_rule;			/* vm.move_pages2_owner, as the probe saw it */
	bool owner_off;				/* and switched off since */
	int free_pages[FAKE_NODES]; /* -1 = plenty */
	bool online[FAKE_NODES];
	bool in_cpuset[FAKE_NODES];
	int toucher_node;

	/* errors */
	int move_pages_errno; /* all calls fail with it */
	int move_pages2_errno;
	int mincore_errno;
	int short_every; /* move_pages2: return after that many entries */
	int eintr_left;	 /* move_pages2: EINTR that many times */
	int zero_left;	 /* move_pages2: 0 that many times */

	/* what was seen */
	int move_calls; /* calls with nodes */
	int query_calls;
	int allocated; /* holes filled by a touch */
	int touches;
	int mixed_targets;	 /* move calls with more than one target */
	int unsorted;		 /* move calls whose addresses don't ascend */
	int repeated;		 /* ... with an address twice */
	int useless;		 /* entries that were on their target already */
	int absent_asked;	 /* move entries without a page */
	size_t longest;		 /* entries of the longest move call */
	NmMp2Args last_args; /* of a move */
	unsigned int last_flags;
	int handshakes;
	long handshake_answer;
	long expected_number;
} FakeKernel;

extern FakeKernel fake;
extern const NmSys fake_sys;

/* Everything mapped, resident, mine, on node 0; nodes 0..3 usable. */
extern void fake_reset(void);
extern void *fake_addr(int page);
extern FakePage *fake_page(const void *addr);

/* A topology and capabilities to go with it. */
extern void fake_topology(NmTopology *topo);
extern void fake_caps(NmMoverCaps *caps, bool move_pages2);

#endif /* NM_FAKE_KERNEL_H */

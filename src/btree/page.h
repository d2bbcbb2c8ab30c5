/*-------------------------------------------------------------------------
 *
 * page.h
 *	  Layout of a tree page, and the version lock in its first word.
 *
 * Private to src/btree.  Every accessor here may be used in two ways: on a
 * page that is locked or private, or on a page that a writer may be changing,
 * in which case nothing read counts until nm_page_validate() says so.  Racy
 * uses therefore clamp every count and offset before using it.
 *
 *	 0	header, 64 bytes
 *	64	high key: FIXED key and TID; GENERAL head and offset of an item
 *	80	entries
 *			FIXED leaf	int64 keys[285], uint32 blk[285], uint16 off[285]
 *			FIXED inner	int64 keys[222], uint32 child[222], uint32 blk[222],
 *						uint16 off[222]
 *			GENERAL		uint64 heads[n] (only with NM_PF_HEADS), uint16 slots[n],
 *						free space, items growing down from 4080
 *			leaf of runs	see runs.h
 *	4080 the pool's (retire queue)
 *
 * Entry 0 of an inner page has no key: it stands for minus infinity.
 *
 * IDENTIFICATION
 *	  src/btree/page.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_BTREE_PAGE_H
#define NM_BTREE_PAGE_H

#include <string.h>

#include "btree/btree.h"

typedef struct NmPage
{
	uint64_t version; /* bit 0: locked */
	uint64_t tree_id;
	uint64_t lid;
	NmPageNo page;
	uint32_t pool_epoch;
	NmPageNo right;
	uint32_t removals;
	uint16_t level; /* 0 = leaf */
	uint16_t flags;
	uint16_t n;			  /* entries */
	uint16_t nnull;		  /* FIXED: of them with NULL key */
	uint16_t lower;		  /* GENERAL: lowest item byte */
	uint16_t garbage;	  /* GENERAL: bytes of removed items */
	uint16_t nulls_first; /* FIXED: the NULLs are at the low end */
	uint16_t nruns;		  /* RUNS */
	uint32_t tid_base;	  /* RUNS, not WIDE: TIDs' blocks count from here */
	uint32_t origin;	  /* leaf: lock id that places of its range had before
					  * and whose locks may still be needed; 0 = none
					  * (README, section 13) */
	/* high key */
	union
	{
		int64_t hk_key;
		uint64_t hk_head;
	};
	union
	{
		uint64_t hk_tid; /* FIXED */
		uint64_t hk_off; /* GENERAL: offset of the high key's item */
	};
	char body[NM_PAGE_SIZE - 80];
} NmPage;

_Static_assert(sizeof(NmPage) == NM_PAGE_SIZE, "tree page is one OS page");

#define NM_BODY		 80
#define NM_BODY_END	 (NM_PAGE_SIZE - 16)
#define NM_BODY_SIZE (NM_BODY_END - NM_BODY)

/* flags */
#define NM_PF_DELETED	0x01 /* unlinked */
#define NM_PF_MOVED		0x02 /* relocated, this is the old copy */
#define NM_PF_PENDING	0x04 /* right sibling has no downlink yet */
#define NM_PF_HIGH		0x08 /* has a high key (is not rightmost) */
#define NM_PF_HIGH_NULL 0x10 /* FIXED: high key is NULL */
#define NM_PF_KILLED	0x20 /* may have killed entries */
#define NM_PF_HEADS		0x40 /* GENERAL: has an array of heads */
#define NM_PF_GENERAL	0x80
#define NM_PF_RUNS		0x100 /* leaf that stores equal keys once: runs.h */
#define NM_PF_WIDE		0x200 /* RUNS: 6 bytes per TID, not 4 */
#define NM_PF_GONE		(NM_PF_DELETED | NM_PF_MOVED)

#define NM_LEAF_CAP	 (NM_BODY_SIZE / 14) /* 285 */
#define NM_INNER_CAP (NM_BODY_SIZE / 18) /* 222 */

#define NM_KILLED_BIT 0x8000 /* in the offset part of a TID */

/*
 * GENERAL items.  Leaf items and high keys: blk 4, off 2, len 2, bytes.
 * Inner items have child 4 in front.  len is the number of bytes and the tag
 * << 12; with NM_LEN_OVERFLOW the bytes here are a page number, the key's lie
 * in that page.
 */
#define NM_LEN_OVERFLOW 0x8000
#define NM_LEN_MASK		0x0FFF
#define NM_LEN_TAG		12	/* bits to its right */
#define NM_INLINE_MAX	880 /* so that four items and a high key fit */
#define NM_ITEM_HDR		8

typedef struct NmRawItem
{
	uint32_t blk;
	uint16_t off;
	uint16_t len;
} NmRawItem;

/* An overflow page: header as any page, level 0xFFFF, bytes in the body. */
#define NM_OVERFLOW_LEVEL 0xFFFF

/* ---- FIXED arrays ---- */
NM_RACY static inline int64_t *
nm_fx_keys(const NmPage *p)
{
	return (int64_t *) p->body;
}

/* Of what is known to be a leaf, without a look at its level. */
static inline uint32_t *
nm_leaf_blk(const NmPage *p)
{
	return (uint32_t *) (p->body + 8 * NM_LEAF_CAP);
}

static inline uint16_t *
nm_leaf_off(const NmPage *p)
{
	return (uint16_t *) (p->body + 12 * NM_LEAF_CAP);
}

NM_RACY static inline uint32_t *
nm_fx_blk(const NmPage *p)
{
	return p->level == 0
			   ? nm_leaf_blk(p)
			   : (uint32_t *) (p->body + 12 * NM_INNER_CAP);
}

NM_RACY static inline uint16_t *
nm_fx_off(const NmPage *p)
{
	return p->level == 0
			   ? nm_leaf_off(p)
			   : (uint16_t *) (p->body + 16 * NM_INNER_CAP);
}

NM_RACY static inline uint32_t *
nm_fx_child(const NmPage *p)
{
	return (uint32_t *) (p->body + 8 * NM_INNER_CAP);
}

NM_RACY static inline int
nm_fx_cap(const NmPage *p)
{
	return p->level == 0 ? NM_LEAF_CAP : NM_INNER_CAP;
}

/* ---- GENERAL arrays ---- */
NM_RACY static inline uint64_t *
nm_gn_heads(const NmPage *p)
{
	return (uint64_t *) p->body;
}

NM_RACY static inline int
nm_gn_slot_size(const NmPage *p)
{
	return (p->flags & NM_PF_HEADS) ? 10 : 2;
}

NM_RACY static inline uint16_t *
nm_gn_slots(const NmPage *p, int n)
{
	return (uint16_t *) (p->body + ((p->flags & NM_PF_HEADS) ? 8 * n : 0));
}

NM_RACY static inline int
nm_gn_prefix(const NmPage *p) /* bytes in front of an item's NmRawItem */
{
	return p->level == 0 ? 0 : 4;
}

/* The flags in one load: a racy reader must not see two states of them. */
NM_RACY static inline uint16_t
nm_page_flags(const NmPage *p)
{
	return *(const volatile uint16_t *) &p->flags;
}

/* Bytes in front of the TIDs that a run takes, by the page's flags. */
static inline int
nm_run_slot(uint16_t flags)
{
	if ((flags & NM_PF_GENERAL) == 0)
		return 10;
	return (flags & NM_PF_HEADS) ? 12 : 4;
}

static inline int
nm_run_width(uint16_t flags)
{
	return (flags & NM_PF_WIDE) ? 6 : 4;
}

/* Entries any plain page may claim, for clamping racy counts. */
NM_RACY static inline int
nm_plain_max_n(const NmPage *p, uint16_t flags)
{
	if (flags & NM_PF_GENERAL)
		return (flags & NM_PF_HEADS) ? NM_BODY_SIZE / (10 + NM_ITEM_HDR) : NM_BODY_SIZE / (2 + NM_ITEM_HDR);
	return p->level == 0 ? NM_LEAF_CAP : NM_INNER_CAP;
}

static inline int
nm_clamp(int n, int max)
{
	return n > max ? max : n;
}

/* Entries, clamped to what the page can hold. */
NM_RACY static inline int
nm_page_n(const NmPage *p)
{
	uint16_t flags = nm_page_flags(p);

	if (nm_unlikely(flags & NM_PF_RUNS))
	{
		int nruns = nm_clamp(p->nruns, NM_BODY_SIZE / nm_run_slot(flags));

		return nm_clamp(p->n, (NM_BODY_SIZE - nruns * nm_run_slot(flags)) / nm_run_width(flags));
	}
	return nm_clamp(p->n, nm_plain_max_n(p, flags));
}

/* Keys stored, clamped: one per entry, or one per run. */
NM_RACY static inline int
nm_page_items(const NmPage *p)
{
	uint16_t flags = nm_page_flags(p);

	if (nm_unlikely(flags & NM_PF_RUNS))
		return nm_clamp(p->nruns, NM_BODY_SIZE / nm_run_slot(flags));
	return nm_clamp(p->n, nm_plain_max_n(p, flags));
}

static inline uint64_t
nm_tid_make(uint32_t blk, uint16_t off)
{
	return ((uint64_t) blk << 16) | (off & (NM_KILLED_BIT - 1));
}

static inline NmPage *
nm_page(const NmTree *tree, NmPageNo no)
{
	return (NmPage *) nm_pool_page(tree->pool, no);
}

/* A page number that lies in the pool; racy children are checked with this. */
NM_RACY static inline bool
nm_page_no_valid(const NmTree *tree, NmPageNo no)
{
	return no != NM_NO_PAGE &&
		   no < tree->pool->npages;
}

/* ---- version lock (version.c) ---- */
#define NM_LOCKED UINT64_C(1)

/* ThreadSanitizer knows no fences; on its platforms loads are ordered anyway. */
#ifdef NM_TSAN
#define NM_FENCE_ACQUIRE() __asm__ __volatile__("" :: \
													: "memory")
#define NM_FENCE_RELEASE() __asm__ __volatile__("" :: \
													: "memory")
#else
#define NM_FENCE_ACQUIRE() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define NM_FENCE_RELEASE() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif

extern uint64_t nm_page_wait(const NmPage *p);

/* Version of a page that is not locked; waits while it is. */
static inline uint64_t
nm_page_read_begin(const NmPage *p)
{
	uint64_t v = __atomic_load_n(&p->version, __ATOMIC_ACQUIRE);

	return nm_likely((v & NM_LOCKED) == 0) ? v : nm_page_wait(p);
}

/* Has nothing changed since that version was read? */
static inline bool
nm_page_validate(const NmPage *p, uint64_t version)
{
	NM_FENCE_ACQUIRE();
	return __atomic_load_n(&p->version, __ATOMIC_ACQUIRE) == version;
}

/*
 * The first bytes of a locked page, but for its version: that word is the lock,
 * and others try for it meanwhile.
 */
static inline void
nm_page_copy(NmPage *to, const NmPage *from, size_t bytes)
{
	const size_t skip = sizeof(from->version);

	_Static_assert(offsetof(NmPage, version) == 0, "the version comes first");
	memcpy((char *) to + skip, (const char *) from + skip, bytes - skip);
}

extern bool nm_page_upgrade(NmPage *p, uint64_t version);
extern void nm_page_lock(NmPage *p);
extern void nm_page_unlock(NmPage *p);

/*
 * Is this page what the caller came for?  Racy; counts only if the version
 * validates afterwards.
 */
NM_RACY static inline bool
nm_page_is(const NmTree *tree, const NmPage *p, NmPageNo no, int level)
{
	return p->page == no && p->tree_id == tree->tree_id &&
		   p->pool_epoch == nm_pool_epoch(tree->pool) &&
		   p->level == level && (p->flags & NM_PF_GONE) == 0;
}

/* ---- a key copied out of a page ---- */
typedef struct NmKeyCopy
{
	NmItem item;
	uint64_t tid;
	uint64_t buf[(NM_MAX_KEY_SIZE + 7) / 8];
} NmKeyCopy;

/* ---- entries (entry.c) ---- */
struct NmRetired;

/* What to write into a page for one entry. */
typedef struct NmEntry
{
	const NmItem *item;
	uint64_t tid;
	NmPageNo child;	   /* inner */
	NmPageNo overflow; /* GENERAL: page that holds the key, or 0 */
	bool killed;
} NmEntry;

extern void nm_page_init(NmTree *tree, NmPageNo no, int level, uint64_t lid);
/* pos and tid matter in a leaf of runs only. */
extern bool nm_entry_fits(const NmPage *p, int pos, const NmItem *item, uint64_t tid, bool overflow);
extern void nm_entry_insert(NmPage *p, int pos, const NmEntry *e);
extern NmPageNo nm_entry_remove(NmPage *p, int pos); /* overflow page or 0 */
extern NmPageNo nm_entry_child(const NmPage *p, int pos);
extern void nm_entry_set_child(NmPage *p, int pos, NmPageNo child);
extern uint64_t nm_entry_tid(const NmPage *p, int pos);
extern bool nm_entry_killed(const NmPage *p, int pos);
extern void nm_entry_set_killed(NmPage *p, int pos, bool killed);
extern bool nm_entry_isnull(const NmPage *p, int pos);
/*
 * Copy entry pos (pos >= 0) or the high key (pos = -1) out; racy.  False if
 * what was read cannot be right, so the page must have changed.
 */
extern bool nm_entry_copy(const NmTree *tree, const NmPage *p, int pos, NmKeyCopy *out);
extern NmPageNo nm_entry_overflow(const NmPage *p, int pos); /* or 0; pos -1: high key */
/* Bytes that entry pos of a plain page, or any high key (-1), takes, slot included. */
extern int nm_entry_size(const NmPage *p, int pos);
extern int nm_item_space(const NmPage *p, uint32_t len, bool overflow);
/* Set (NULL: clear) the high key; the old one's overflow page is returned. */
extern bool nm_high_fits(const NmPage *p, const NmItem *item, bool overflow);
extern NmPageNo nm_high_set(NmPage *p, const NmItem *item, uint64_t tid, NmPageNo overflow);
extern void nm_page_append_from(NmPage *dst, const NmPage *src, int from, int to);
/* Take all entries and the high key out of a page, whose overflow pages the caller sees to. */
extern void nm_page_clear(NmPage *p);
/* Remove the entries marked in drop (one byte each); their overflow pages into retired. */
extern int nm_entries_drop(NmPage *p, const uint8_t *drop, struct NmRetired *retired);
extern void nm_high_move(NmPage *dst, NmPage *src);
extern void nm_overflow_fill(NmTree *tree, NmPageNo no, const NmItem *item);
extern void nm_racy_copy(void *dst, const void *src, size_t len);
extern bool nm_racy_equal(const void *a, const void *b, size_t len);

/* ---- search (search.c) ---- */

/* Where a descent ended. */
typedef struct NmPos
{
	NmPageNo no;
	NmPage *page;
	uint64_t version;
	int idx; /* entries of the page before the place */
} NmPos;

/*
 * Descend to the page of the given level that covers the place.  strict: the
 * page with the last entry before the place (backward), else the page with the
 * first entry at or after it.  Enters the epoch section; on NM_OK the caller is
 * inside it, pos->version validated after pos->idx was found; else outside.
 * low (may be NULL) gets the low fence, *low_valid whether there is one.
 */
extern NmStatus nm_descend(NmTree *tree, const NmBound *bound, int level, bool strict,
						   bool want_idx, NmPos *pos, NmKeyCopy *low, bool *low_valid);

/*
 * The same to the leaf where a forward scan begins: what the scan will read
 * there is asked for on the way.
 */
extern NmStatus nm_descend_to_read(NmTree *tree, const NmBound *from, const NmBound *to, int most, NmPos *pos);

/*
 * Entries of the page before the place (upper: before or exactly at it), the
 * first "from" being known to be so.  False: the page has changed.
 */
extern bool nm_page_search(NmTree *tree, const NmPage *p, uint64_t version,
						   const NmBound *bound, bool upper, int from, int *count);
/* Sign of (key copy - place); only an exactly equal (key, tid) gives 0. */
extern int nm_copy_vs_bound(NmTree *tree, const NmKeyCopy *copy, const NmBound *bound);
extern void nm_bound_from_copy(NmBound *bound, const NmKeyCopy *copy, uint64_t tid);

/* ---- search among integers (fixed.c) ---- */

/* What a forward scan is going to read from a place on. */
typedef struct NmReading
{
	const NmBound *to;
	int most; /* entries; 0 = all that are before "to" */
} NmReading;

extern bool nm_fixed_absent(const NmPage *p, int64_t key, int idx);
extern int nm_fixed_page_search(const NmPage *p, const NmBound *bound, bool upper, int from);
extern bool nm_fixed_descend(NmTree *tree, const NmBound *bound, int level, bool want_idx,
							 const NmReading *reading, NmPos *pos);

/* ---- stash of pages (handle.c) ---- */
#define NM_STASH_MAX 96
typedef struct NmStash
{
	int n;
	NmPageNo pages[NM_STASH_MAX];
} NmStash;

extern NmStatus nm_stash_fill(NmTree *tree, int want);
extern NmPageNo nm_stash_take(NmTree *tree);
extern void nm_stash_return(NmTree *tree, int keep);

/* Pages to retire once the epoch section and all locks are left. */
typedef struct NmRetired
{
	int n;
	NmPageNo pages[NM_LEAF_MAX_ENTRIES + 8];
} NmRetired;

static inline void
nm_retire_later(NmRetired *r, NmPageNo no)
{
	if (no != NM_NO_PAGE)
		r->pages[r->n++] = no;
}
extern void nm_retire_all(NmTree *tree, NmRetired *r);
extern NmPageNo nm_free_level(NmPool *pool, NmLayout layout, NmPageNo first);

/* ---- structure changes ---- */
/* NM_STALE: split without e, which is to be inserted anew. */
extern NmStatus nm_split(NmTree *tree, NmPos *pos, const NmEntry *e, NmKeyCopy *sep,
						 NmPageNo *right, uint64_t *right_lid);
extern NmStatus nm_link_right(NmTree *tree, int level, NmPageNo left, NmPageNo right, const NmKeyCopy *sep);
extern bool nm_unlink_leaf(NmTree *tree, NmPageNo no, const NmKeyCopy *low);

/*
 * Have the locks on lock id origin passed on to leaf "no", whose logical id is
 * lid, and forget the origin.  Called with nothing held; may raise.
 */
extern void nm_settle_origin(NmTree *tree, NmPageNo no, uint64_t lid, uint32_t origin);

/* Leftmost page of a level; NM_GONE when the tree has no such level. */
extern NmStatus nm_leftmost(NmTree *tree, int level, NmPageNo *no);

/*
 * Counters of NmTreeShared; those that nm_tree_check compares inside the epoch
 * section of the change that is counted.  An unload waits for its end; after it
 * the counters may be those of the next tree.
 */
#define NM_COUNT(counter, delta) \
	__atomic_fetch_add(&(counter), (delta), __ATOMIC_RELAXED)

/* A new logical id; its lower half, the lock id, is not 0. */
static inline uint64_t
nm_next_lid(NmTreeShared *shared)
{
	uint64_t lid;

	do
		lid = NM_COUNT(shared->next_lid, 1);
	while ((uint32_t) lid == 0);
	return lid;
}

static inline uint64_t
nm_root_word(const NmTree *tree)
{
	uint64_t w = __atomic_load_n(&tree->shared->root, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&tree->shared->tree_id, __ATOMIC_RELAXED) != tree->tree_id)
		return 0;
	return w;
}

static inline int
nm_root_level(uint64_t word)
{
	return (int) (word >> 32);
}

static inline NmPageNo
nm_root_page(uint64_t word)
{
	return (NmPageNo) word;
}

/*
 * Is a page of this tree that was remembered from an earlier epoch section still
 * at that version?  Inside an epoch section.  Freed pages of a detached tree
 * keep their versions, so the root is asked first.
 */
static inline bool
nm_page_unchanged(const NmTree *tree, NmPageNo no, uint64_t version)
{
	return nm_root_word(tree) != 0 && nm_pool_backed(tree->pool, no) &&
		   nm_page_validate(nm_page(tree, no), version);
}

#endif /* NM_BTREE_PAGE_H */

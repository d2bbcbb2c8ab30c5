/*-------------------------------------------------------------------------
 *
 * item.h
 *	  Stored items of GENERAL pages: keys with their slots.
 *
 * Items are numbered: one per entry in a plain page, one per run in a leaf of
 * runs; -1 is the high key.  The readers here may run on a page that changes
 * under them; what they give lies in the page, but counts only if the page
 * validates.  The writers (item.c) want it locked or private.
 *
 * IDENTIFICATION
 *	  src/btree/item.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_BTREE_ITEM_H
#define NM_BTREE_ITEM_H

#include "btree/page.h"

/* Offset of an item; 0 when it cannot be right (racy). */
NM_RACY static inline int
nm_item_offset(const NmPage *p, int item)
{
	int off;

	if (item < 0)
		off = (int) p->hk_off;
	else
	{
		int cnt = nm_page_items(p);

		if (nm_unlikely(item >= cnt))
			return 0;
		off = nm_gn_slots(p, cnt)[item];
	}
	if (off < NM_BODY || off > NM_BODY_END - NM_ITEM_HDR)
		return 0;
	return off;
}

/* Prefix bytes in front of the NmRawItem: none for high keys. */
NM_RACY static inline int
nm_item_prefix(const NmPage *p, int item)
{
	return item < 0 ? 0 : nm_gn_prefix(p);
}

NM_RACY static inline bool
nm_item_raw(const NmPage *p, int item, NmRawItem *raw, const char **bytes)
{
	int off = nm_item_offset(p, item);
	int pre = nm_item_prefix(p, item);

	if (off == 0 || off + pre + NM_ITEM_HDR > NM_BODY_END)
		return false;
	memcpy(raw, (const char *) p + off + pre, sizeof(*raw));
	*bytes = (const char *) p + off + pre + NM_ITEM_HDR;
	return true;
}

NM_RACY static inline int
nm_raw_bytes(const NmRawItem *raw)
{
	return (raw->len & NM_LEN_OVERFLOW) ? (int) sizeof(NmPageNo) : (raw->len & NM_LEN_MASK);
}

/* Head of an item, 0 if the page has none. */
NM_RACY static inline uint64_t
nm_item_head(const NmPage *p, int item)
{
	if ((nm_page_flags(p) & NM_PF_HEADS) == 0)
		return 0;
	return item < 0 ? p->hk_head : nm_gn_heads(p)[item];
}

/* Length and tag as an inline item has them. */
static inline uint16_t
nm_item_len_word(const NmItem *item)
{
	return (uint16_t) (item->len | (uint32_t) item->tag << NM_LEN_TAG);
}

/* Bytes of an item of this key length behind this prefix, slot not counted. */
static inline int
nm_item_bytes(int pre, uint32_t len, bool overflow)
{
	return pre + NM_ITEM_HDR + (overflow ? (int) sizeof(NmPageNo) : (int) len);
}

/* Bytes between the arrays in front and the items (FIXED: of a leaf of runs). */
NM_RACY static inline int
nm_page_gap(const NmPage *p)
{
	uint16_t flags = nm_page_flags(p);

	if (nm_unlikely(flags & NM_PF_RUNS))
		return p->lower - NM_BODY - p->nruns * nm_run_slot(flags) - p->n * nm_run_width(flags);
	return p->lower - NM_BODY - p->n * ((flags & NM_PF_HEADS) ? 10 : 2);
}

/* Bytes of an item as stored, slot not counted; 0 if it cannot be right. */
extern int nm_item_size(const NmPage *p, int item);
extern NmPageNo nm_item_overflow(const NmPage *p, int item); /* or 0 */
/*
 * Where the bytes of an item's key lie, here or in its overflow page, whatever
 * the page looks like; false if that cannot be right.
 */
extern bool nm_item_key(const NmTree *tree, const NmPage *p, int item, NmRawItem *raw,
						const char **bytes);
/* Copy an item out as nm_entry_copy does; out->tid is the item's own. */
extern bool nm_item_copy(const NmTree *tree, const NmPage *p, int item, NmKeyCopy *out);
/* Same key image?  Never with an overflow page. */
extern bool nm_item_is(const NmPage *p, int item, const NmItem *key);
extern bool nm_items_same(const NmPage *p, int a, int b);

extern void nm_item_write(NmPage *p, int off, int pre, const NmEntry *e);
extern void nm_items_compact(NmPage *p);
/* Room for an item of that many bytes besides front bytes; compacts if that makes it. */
extern int nm_item_allocate(NmPage *p, int bytes, int front);

#endif /* NM_BTREE_ITEM_H */

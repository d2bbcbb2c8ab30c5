/*-------------------------------------------------------------------------
 *
 * entry.c
 *	  Entries of one page, in both layouts: read, copy, insert, remove.
 *
 * Functions that change a page want it locked or private.  Functions that copy
 * may run on a page that changes under them; they clamp what they use and the
 * caller validates.
 *
 * IDENTIFICATION
 *	  src/btree/entry.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"

/*
 * Copy bytes that a writer may be changing.  Under ThreadSanitizer memcpy is
 * intercepted, so bytes are moved one by one in an uninstrumented function.
 */
NM_RACY void
nm_racy_copy(void *dst, const void *src, size_t len)
{
#ifdef NM_TSAN
	char *d = dst;
	const volatile char *s = src;

	while (len-- > 0)
		*d++ = *s++;
#else
	memcpy(dst, src, len);
#endif
}

/* Fresh content for a page; the version word stays, the caller holds its lock. */
void
nm_page_init(NmTree *tree, NmPageNo no, int level, uint64_t lid)
{
	NmPage *p = nm_page(tree, no);

	memset((char *) p + sizeof(uint64_t), 0, NM_BODY - sizeof(uint64_t));
	p->tree_id = tree->tree_id;
	p->lid = lid;
	p->page = no;
	p->pool_epoch = nm_pool_epoch(tree->pool);
	p->level = (uint16_t) level;
	p->lower = NM_BODY_END;
	p->nulls_first = tree->shared->nulls_first;
	if (tree->layout == NM_LAYOUT_GENERAL)
		p->flags = NM_PF_GENERAL | (tree->use_heads ? NM_PF_HEADS : 0);
}

/* ---- GENERAL: raw items ---- */

/* Offset of item pos, or of the high key; 0 when it cannot be right (racy). */
NM_RACY static inline int
gn_offset(const NmPage *p, int pos)
{
	int off = pos < 0 ? (int) p->hk_off : nm_gn_slots(p, nm_page_n(p))[pos];

	if (off < NM_BODY || off > NM_BODY_END - NM_ITEM_HDR)
		return 0;
	return off;
}

/* Prefix bytes in front of the NmRawItem: none for high keys. */
NM_RACY static inline int
gn_prefix(const NmPage *p, int pos)
{
	return pos < 0 ? 0 : nm_gn_prefix(p);
}

NM_RACY static inline bool
gn_raw(const NmPage *p, int pos, NmRawItem *raw, const char **bytes)
{
	int off = gn_offset(p, pos);
	int pre = gn_prefix(p, pos);

	if (off == 0 || off + pre + NM_ITEM_HDR > NM_BODY_END)
		return false;
	memcpy(raw, (const char *) p + off + pre, sizeof(*raw));
	*bytes = (const char *) p + off + pre + NM_ITEM_HDR;
	return true;
}

NM_RACY static inline int
raw_bytes(const NmRawItem *raw)
{
	return (raw->len & NM_LEN_OVERFLOW) ? (int) sizeof(NmPageNo) : (raw->len & NM_LEN_MASK);
}

static void
gn_write(NmPage *p, int off, int pre, const NmEntry *e)
{
	char *at = (char *) p + off;
	NmRawItem raw;

	if (pre)
	{
		memcpy(at, &e->child, sizeof(NmPageNo));
		at += pre;
	}
	raw.blk = (uint32_t) (e->tid >> 16);
	raw.off = (uint16_t) (e->tid & (NM_KILLED_BIT - 1)) | (e->killed ? NM_KILLED_BIT : 0);
	raw.len = e->item ? (uint16_t) e->item->len : 0;
	if (e->overflow)
		raw.len |= NM_LEN_OVERFLOW;
	memcpy(at, &raw, sizeof(raw));
	at += NM_ITEM_HDR;
	if (e->overflow)
		memcpy(at, &e->overflow, sizeof(NmPageNo));
	else if (raw.len)
		memcpy(at, e->item->data, raw.len);
}

/* Bytes of an item of this key length in this page, slot not counted. */
NM_RACY static inline int
item_bytes(int pre, uint32_t len, bool overflow)
{
	return pre + NM_ITEM_HDR + (overflow ? (int) sizeof(NmPageNo) : (int) len);
}

NM_RACY int
nm_item_space(const NmPage *p, uint32_t len, bool overflow)
{
	return item_bytes(nm_gn_prefix(p), len, overflow) + nm_gn_slot_size(p);
}

/* Free bytes between the slots and the items. */
NM_RACY static inline int
gn_gap(const NmPage *p)
{
	return p->lower - NM_BODY - p->n * nm_gn_slot_size(p);
}

/* Rewrite the items without the garbage between them. */
static void
gn_compact(NmPage *p)
{
	char copy[NM_PAGE_SIZE];
	int lower = NM_BODY_END;
	uint16_t *slots = nm_gn_slots(p, p->n);
	int pre = nm_gn_prefix(p);

	memcpy(copy + p->lower, (char *) p + p->lower, NM_BODY_END - p->lower);
	for (int i = -1; i < p->n; i++)
	{
		int off;
		int size;
		NmRawItem raw;

		if (i < 0 && (p->flags & NM_PF_HIGH) == 0)
			continue;
		off = i < 0 ? (int) p->hk_off : slots[i];
		memcpy(&raw, copy + off + (i < 0 ? 0 : pre), sizeof(raw));
		size = (i < 0 ? 0 : pre) + NM_ITEM_HDR + raw_bytes(&raw);
		lower -= size;
		memcpy((char *) p + lower, copy + off, size);
		if (i < 0)
			p->hk_off = lower;
		else
			slots[i] = (uint16_t) lower;
	}
	p->lower = (uint16_t) lower;
	p->garbage = 0;
}

/* Room for an item of that many bytes; compacts if that makes it. */
static int
gn_allocate(NmPage *p, int bytes, int slot)
{
	if (gn_gap(p) < bytes + slot)
	{
		NM_ASSERT(gn_gap(p) + p->garbage >= bytes + slot);
		gn_compact(p);
	}
	p->lower -= (uint16_t) bytes;
	return p->lower;
}

/* ---- both layouts ---- */

NM_RACY bool
nm_entry_fits(const NmPage *p, const NmItem *item, bool overflow)
{
	if ((p->flags & NM_PF_GENERAL) == 0)
		return p->n < nm_fx_cap(p);
	return gn_gap(p) + p->garbage >= nm_item_space(p, item ? item->len : 0, overflow);
}

void
nm_entry_insert(NmPage *p, int pos, const NmEntry *e)
{
	int n = p->n;
	int move = n - pos;

	NM_ASSERT(pos >= 0 && pos <= n);
	if (p->flags & NM_PF_GENERAL)
	{
		int pre = nm_gn_prefix(p);
		int off = gn_allocate(p, item_bytes(pre, e->item ? e->item->len : 0, e->overflow != 0),
							  nm_gn_slot_size(p));
		uint16_t *old_slots = nm_gn_slots(p, n);
		uint16_t *slots = nm_gn_slots(p, n + 1);

		/* the slot array follows the heads, so it moves by one head */
		memmove(slots + pos + 1, old_slots + pos, move * sizeof(uint16_t));
		if (slots != old_slots)
			memmove(slots, old_slots, pos * sizeof(uint16_t));
		slots[pos] = (uint16_t) off;
		if (p->flags & NM_PF_HEADS)
		{
			uint64_t *heads = nm_gn_heads(p);

			memmove(heads + pos + 1, heads + pos, move * sizeof(uint64_t));
			heads[pos] = e->item ? e->item->head : 0;
		}
		gn_write(p, off, pre, e);
	}
	else
	{
		int64_t *keys = nm_fx_keys(p);
		uint32_t *blk = nm_fx_blk(p);
		uint16_t *off = nm_fx_off(p);

		NM_ASSERT(n < nm_fx_cap(p));
		memmove(keys + pos + 1, keys + pos, move * sizeof(int64_t));
		memmove(blk + pos + 1, blk + pos, move * sizeof(uint32_t));
		memmove(off + pos + 1, off + pos, move * sizeof(uint16_t));
		keys[pos] = e->item && !e->item->isnull ? e->item->key : 0;
		blk[pos] = (uint32_t) (e->tid >> 16);
		off[pos] = (uint16_t) (e->tid & (NM_KILLED_BIT - 1)) | (e->killed ? NM_KILLED_BIT : 0);
		if (p->level > 0)
		{
			uint32_t *child = nm_fx_child(p);

			memmove(child + pos + 1, child + pos, move * sizeof(uint32_t));
			child[pos] = e->child;
		}
		if (e->item && e->item->isnull)
			p->nnull++;
	}
	if (e->killed)
		p->flags |= NM_PF_KILLED;
	p->n = (uint16_t) (n + 1);
}

NmPageNo
nm_entry_remove(NmPage *p, int pos)
{
	int n = p->n;
	int move = n - pos - 1;
	NmPageNo overflow = NM_NO_PAGE;

	NM_ASSERT(pos >= 0 && pos < n);
	if (p->flags & NM_PF_GENERAL)
	{
		uint16_t *old_slots = nm_gn_slots(p, n);
		uint16_t *slots = nm_gn_slots(p, n - 1);

		overflow = nm_entry_overflow(p, pos);
		p->garbage += (uint16_t) (nm_entry_size(p, pos) - nm_gn_slot_size(p));
		if (p->flags & NM_PF_HEADS)
		{
			uint64_t *heads = nm_gn_heads(p);
			uint16_t keep[NM_LEAF_MAX_ENTRIES];

			/* heads shrink into the slots' place: take the slots out first */
			memcpy(keep, old_slots, pos * sizeof(uint16_t));
			memcpy(keep + pos, old_slots + pos + 1, move * sizeof(uint16_t));
			memmove(heads + pos, heads + pos + 1, move * sizeof(uint64_t));
			memcpy(slots, keep, (n - 1) * sizeof(uint16_t));
		}
		else
			memmove(slots + pos, old_slots + pos + 1, move * sizeof(uint16_t));
	}
	else
	{
		int64_t *keys = nm_fx_keys(p);
		uint32_t *blk = nm_fx_blk(p);
		uint16_t *off = nm_fx_off(p);

		if (nm_entry_isnull(p, pos))
			p->nnull--;
		memmove(keys + pos, keys + pos + 1, move * sizeof(int64_t));
		memmove(blk + pos, blk + pos + 1, move * sizeof(uint32_t));
		memmove(off + pos, off + pos + 1, move * sizeof(uint16_t));
		if (p->level > 0)
		{
			uint32_t *child = nm_fx_child(p);

			memmove(child + pos, child + pos + 1, move * sizeof(uint32_t));
		}
	}
	p->n = (uint16_t) (n - 1);
	return overflow;
}

NM_RACY NmPageNo
nm_entry_child(const NmPage *p, int pos)
{
	if (p->flags & NM_PF_GENERAL)
	{
		int off = gn_offset(p, pos);
		NmPageNo child;

		if (off == 0)
			return NM_NO_PAGE;
		memcpy(&child, (const char *) p + off, sizeof(child));
		return child;
	}
	return nm_fx_child(p)[pos];
}

void
nm_entry_set_child(NmPage *p, int pos, NmPageNo child)
{
	if (p->flags & NM_PF_GENERAL)
		memcpy((char *) p + gn_offset(p, pos), &child, sizeof(child));
	else
		nm_fx_child(p)[pos] = child;
}

NM_RACY uint64_t
nm_entry_tid(const NmPage *p, int pos)
{
	if (p->flags & NM_PF_GENERAL)
	{
		NmRawItem raw;
		const char *bytes;

		if (!gn_raw(p, pos, &raw, &bytes))
			return 0;
		return nm_tid_make(raw.blk, raw.off);
	}
	return nm_tid_make(nm_fx_blk(p)[pos], nm_fx_off(p)[pos]);
}

NM_RACY bool
nm_entry_killed(const NmPage *p, int pos)
{
	if (p->flags & NM_PF_GENERAL)
	{
		NmRawItem raw;
		const char *bytes;

		return gn_raw(p, pos, &raw, &bytes) && (raw.off & NM_KILLED_BIT) != 0;
	}
	return (nm_fx_off(p)[pos] & NM_KILLED_BIT) != 0;
}

void
nm_entry_set_killed(NmPage *p, int pos, bool killed)
{
	if (p->flags & NM_PF_GENERAL)
	{
		char *at = (char *) p + gn_offset(p, pos) + nm_gn_prefix(p);
		NmRawItem raw;

		memcpy(&raw, at, sizeof(raw));
		raw.off = (uint16_t) (killed ? raw.off | NM_KILLED_BIT : raw.off & ~NM_KILLED_BIT);
		memcpy(at, &raw, sizeof(raw));
	}
	else if (killed)
		nm_fx_off(p)[pos] |= NM_KILLED_BIT;
	else
		nm_fx_off(p)[pos] &= (uint16_t) ~NM_KILLED_BIT;
	if (killed)
		p->flags |= NM_PF_KILLED;
}

/*
 * FIXED: NULL keys form a run at the low or the high end, by the tree's
 * nulls_first, of which every page has a copy.
 */
NM_RACY bool
nm_entry_isnull(const NmPage *p, int pos)
{
	int first = p->level > 0 ? 1 : 0; /* entry 0 of inner: no key */

	if (p->nnull == 0 || pos < first)
		return false;
	if (p->nulls_first)
		return pos < first + p->nnull;
	return pos >= p->n - p->nnull;
}

NM_RACY int
nm_entry_size(const NmPage *p, int pos)
{
	NmRawItem raw;
	const char *bytes;

	if ((p->flags & NM_PF_GENERAL) == 0)
		return p->level == 0 ? 14 : 18;
	if (!gn_raw(p, pos, &raw, &bytes))
		return 0;
	return gn_prefix(p, pos) + NM_ITEM_HDR + raw_bytes(&raw) + (pos < 0 ? 0 : nm_gn_slot_size(p));
}

NM_RACY NmPageNo
nm_entry_overflow(const NmPage *p, int pos)
{
	NmRawItem raw;
	const char *bytes;
	NmPageNo no;

	if ((p->flags & NM_PF_GENERAL) == 0 || (pos < 0 && (p->flags & NM_PF_HIGH) == 0))
		return NM_NO_PAGE;
	if (!gn_raw(p, pos, &raw, &bytes) || (raw.len & NM_LEN_OVERFLOW) == 0)
		return NM_NO_PAGE;
	memcpy(&no, bytes, sizeof(no));
	return no;
}

/*
 * FIXED copies set key and isnull; GENERAL ones bytes in out->buf.  An
 * overflow page is immutable while an item names it, and it is retired by
 * epoch, so inside the epoch section its bytes are right whenever the page
 * that names it validates.
 */
NM_RACY bool
nm_entry_copy(const NmTree *tree, const NmPage *p, int pos, NmKeyCopy *out)
{
	NmRawItem raw;
	const char *bytes;
	uint32_t len;

	if ((p->flags & NM_PF_GENERAL) == 0)
	{
		if (pos < 0)
		{
			out->item.key = p->hk_key;
			out->item.isnull = (p->flags & NM_PF_HIGH_NULL) != 0;
			out->tid = p->hk_tid;
			return true;
		}
		out->item.key = nm_fx_keys(p)[pos];
		out->item.isnull = nm_entry_isnull(p, pos);
		out->tid = nm_entry_tid(p, pos);
		return true;
	}

	if (!gn_raw(p, pos, &raw, &bytes))
		return false;
	len = raw.len & NM_LEN_MASK;
	if (len > NM_MAX_KEY_SIZE)
		return false;
	if (raw.len & NM_LEN_OVERFLOW)
	{
		NmPageNo no;

		if (bytes + sizeof(no) > (const char *) p + NM_BODY_END)
			return false;
		memcpy(&no, bytes, sizeof(no));
		if (!nm_page_no_valid(tree, no))
			return false;
		bytes = nm_page(tree, no)->body;
	}
	else if (bytes + len > (const char *) p + NM_BODY_END)
		return false;
	nm_racy_copy(out->buf, bytes, len);
	out->item.data = out->buf;
	out->item.len = len;
	out->item.isnull = false;
	out->item.key = 0;
	if (p->flags & NM_PF_HEADS)
		out->item.head = pos < 0 ? p->hk_head : nm_gn_heads(p)[pos];
	else
		out->item.head = 0;
	out->tid = nm_tid_make(raw.blk, raw.off);
	return true;
}

/* ---- high key ---- */

bool
nm_high_fits(const NmPage *p, const NmItem *item, bool overflow)
{
	int old = 0;

	if ((p->flags & NM_PF_GENERAL) == 0)
		return true;
	if (p->flags & NM_PF_HIGH)
		old = nm_entry_size(p, -1);
	return gn_gap(p) + p->garbage + old >= item_bytes(0, item->len, overflow);
}

NmPageNo
nm_high_set(NmPage *p, const NmItem *item, uint64_t tid, NmPageNo overflow)
{
	NmPageNo old = nm_entry_overflow(p, -1);

	if (p->flags & NM_PF_GENERAL)
	{
		if (p->flags & NM_PF_HIGH)
		{
			p->garbage += (uint16_t) nm_entry_size(p, -1);
			p->flags &= (uint16_t) ~NM_PF_HIGH;
			p->hk_off = 0;
		}
		if (item != NULL)
		{
			NmEntry e = {.item = item, .tid = tid, .overflow = overflow};
			int off = gn_allocate(p, item_bytes(0, item->len, overflow != 0), 0);

			gn_write(p, off, 0, &e);
			p->hk_off = (uint64_t) off;
			p->hk_head = item->head;
			p->flags |= NM_PF_HIGH;
		}
	}
	else
	{
		p->flags &= (uint16_t) ~(NM_PF_HIGH | NM_PF_HIGH_NULL);
		if (item != NULL)
		{
			p->hk_key = item->isnull ? 0 : item->key;
			p->hk_tid = tid;
			p->flags |= NM_PF_HIGH | (item->isnull ? NM_PF_HIGH_NULL : 0);
		}
	}
	return old;
}

/* Give dst, which has none, the high key of src with its overflow page. */
void
nm_high_move(NmPage *dst, NmPage *src)
{
	if ((src->flags & NM_PF_HIGH) == 0)
		return;
	if (src->flags & NM_PF_GENERAL)
	{
		int size = nm_entry_size(src, -1);
		int off = gn_allocate(dst, size, 0);

		memcpy((char *) dst + off, (char *) src + src->hk_off, size);
		dst->hk_off = (uint64_t) off;
		dst->hk_head = src->hk_head;
	}
	else
	{
		dst->hk_key = src->hk_key;
		dst->hk_tid = src->hk_tid;
	}
	dst->flags |= src->flags & (NM_PF_HIGH | NM_PF_HIGH_NULL);
}

/* Append entries [from, to) of src to dst, overflow pages and marks included. */
void
nm_page_append_from(NmPage *dst, const NmPage *src, int from, int to)
{
	int cnt = to - from;

	if (cnt <= 0)
		return;
	if (src->flags & NM_PF_GENERAL)
	{
		int n = dst->n;
		uint16_t *old_slots = nm_gn_slots(dst, n);
		uint16_t *slots = nm_gn_slots(dst, n + cnt);
		const uint16_t *from_slots = nm_gn_slots(src, src->n);

		memmove(slots, old_slots, n * sizeof(uint16_t));
		if (dst->flags & NM_PF_HEADS)
			memcpy(nm_gn_heads(dst) + n, nm_gn_heads(src) + from, cnt * sizeof(uint64_t));
		for (int i = 0; i < cnt; i++)
		{
			int size = nm_entry_size(src, from + i) - nm_gn_slot_size(src);

			dst->lower -= (uint16_t) size;
			memcpy((char *) dst + dst->lower, (const char *) src + from_slots[from + i], size);
			slots[n + i] = dst->lower;
		}
	}
	else
	{
		memcpy(nm_fx_keys(dst) + dst->n, nm_fx_keys(src) + from, cnt * sizeof(int64_t));
		memcpy(nm_fx_blk(dst) + dst->n, nm_fx_blk(src) + from, cnt * sizeof(uint32_t));
		memcpy(nm_fx_off(dst) + dst->n, nm_fx_off(src) + from, cnt * sizeof(uint16_t));
		if (src->level > 0)
			memcpy(nm_fx_child(dst) + dst->n, nm_fx_child(src) + from, cnt * sizeof(uint32_t));
		for (int i = from; i < to; i++)
			if (nm_entry_isnull(src, i))
				dst->nnull++;
	}
	dst->n = (uint16_t) (dst->n + cnt);
	dst->flags |= src->flags & NM_PF_KILLED;
}

/* Make a private page an overflow page with this key. */
void
nm_overflow_fill(NmTree *tree, NmPageNo no, const NmItem *item)
{
	NmPage *p = nm_page(tree, no);

	nm_page_lock(p);
	nm_page_init(tree, no, NM_OVERFLOW_LEVEL, 0);
	memcpy(p->body, item->data, item->len);
	nm_page_unlock(p);
}

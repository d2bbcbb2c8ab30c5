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
#include "btree/runs.h"

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

NM_RACY bool
nm_racy_equal(const void *a, const void *b, size_t len)
{
#ifdef NM_TSAN
	const volatile char *x = a;
	const volatile char *y = b;

	while (len-- > 0)
		if (*x++ != *y++)
			return false;
	return true;
#else
	return memcmp(a, b, len) == 0;
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

/* Bytes of an item of this key length in a plain page, slot included. */
NM_RACY int
nm_item_space(const NmPage *p, uint32_t len, bool overflow)
{
	return nm_item_bytes(nm_gn_prefix(p), len, overflow) + nm_gn_slot_size(p);
}

NM_RACY bool
nm_entry_fits(const NmPage *p, int pos, const NmItem *item, uint64_t tid, bool overflow)
{
	if (nm_unlikely(p->flags & NM_PF_RUNS))
		return nm_runs_fits(p, pos, item, tid);
	if ((p->flags & NM_PF_GENERAL) == 0)
		return p->n < nm_fx_cap(p);
	return nm_page_gap(p) + p->garbage >= nm_item_space(p, item ? item->len : 0, overflow);
}

void
nm_entry_insert(NmPage *p, int pos, const NmEntry *e)
{
	int n = p->n;
	int move = n - pos;

	NM_ASSERT(pos >= 0 && pos <= n);
	if (e->killed)
		p->flags |= NM_PF_KILLED;
	if (nm_unlikely(p->flags & NM_PF_RUNS))
	{
		nm_runs_insert(p, pos, e);
		return;
	}
	if (p->flags & NM_PF_GENERAL)
	{
		int pre = nm_gn_prefix(p);
		int off = nm_item_allocate(p, nm_item_bytes(pre, e->item ? e->item->len : 0, e->overflow != 0),
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
		nm_item_write(p, off, pre, e);
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
	p->n = (uint16_t) (n + 1);
}

NmPageNo
nm_entry_remove(NmPage *p, int pos)
{
	int n = p->n;
	int move = n - pos - 1;
	NmPageNo overflow = NM_NO_PAGE;

	NM_ASSERT(pos >= 0 && pos < n);
	if (nm_unlikely(p->flags & NM_PF_RUNS))
		return nm_runs_remove(p, pos);
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

/* One pass over the page in a leaf of runs, where each removal is as dear as all. */
int
nm_entries_drop(NmPage *p, const uint8_t *drop, NmRetired *retired)
{
	int removed = 0;

	if (p->flags & NM_PF_RUNS)
		return nm_runs_drop(p, drop, retired);
	for (int i = p->n - 1; i >= 0; i--)
	{
		if (drop[i])
		{
			nm_retire_later(retired, nm_entry_remove(p, i));
			removed++;
		}
	}
	return removed;
}

NM_RACY NmPageNo
nm_entry_child(const NmPage *p, int pos)
{
	if (p->flags & NM_PF_GENERAL)
	{
		int off = nm_item_offset(p, pos);
		NmPageNo child;

		if (off == 0)
			return NM_NO_PAGE;
		memcpy(&child, (const char *) p + off, sizeof(child));
		return child;
	}
	return pos < NM_INNER_CAP ? nm_fx_child(p)[pos] : NM_NO_PAGE;
}

void
nm_entry_set_child(NmPage *p, int pos, NmPageNo child)
{
	if (p->flags & NM_PF_GENERAL)
		memcpy((char *) p + nm_item_offset(p, pos), &child, sizeof(child));
	else
		nm_fx_child(p)[pos] = child;
}

NM_RACY uint64_t
nm_entry_tid(const NmPage *p, int pos)
{
	uint16_t flags = nm_page_flags(p);

	if (nm_unlikely(flags & NM_PF_RUNS))
		return nm_runs_tid(p, pos);
	if (flags & NM_PF_GENERAL)
	{
		NmRawItem raw;
		const char *bytes;

		if (!nm_item_raw(p, pos, &raw, &bytes))
			return 0;
		return nm_tid_make(raw.blk, raw.off);
	}
	if (nm_unlikely(pos >= nm_fx_cap(p)))
		return 0;
	return nm_tid_make(nm_fx_blk(p)[pos], nm_fx_off(p)[pos]);
}

NM_RACY bool
nm_entry_killed(const NmPage *p, int pos)
{
	uint16_t flags = nm_page_flags(p);

	if (nm_unlikely(flags & NM_PF_RUNS))
		return nm_runs_killed(p, pos);
	if (flags & NM_PF_GENERAL)
	{
		NmRawItem raw;
		const char *bytes;

		return nm_item_raw(p, pos, &raw, &bytes) && (raw.off & NM_KILLED_BIT) != 0;
	}
	return pos < nm_fx_cap(p) && (nm_fx_off(p)[pos] & NM_KILLED_BIT) != 0;
}

void
nm_entry_set_killed(NmPage *p, int pos, bool killed)
{
	if (p->flags & NM_PF_RUNS)
		nm_runs_set_killed(p, pos, killed);
	else if (p->flags & NM_PF_GENERAL)
	{
		char *at = (char *) p + nm_item_offset(p, pos) + nm_gn_prefix(p);
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
	int size;

	if ((p->flags & NM_PF_GENERAL) == 0)
		return p->level == 0 ? 14 : 18;
	size = nm_item_size(p, pos);
	return size == 0 || pos < 0 ? size : size + nm_gn_slot_size(p);
}

NM_RACY NmPageNo
nm_entry_overflow(const NmPage *p, int pos)
{
	if (pos >= 0 && (p->flags & NM_PF_RUNS))
		return nm_runs_overflow(p, pos);
	return nm_item_overflow(p, pos);
}

/* FIXED copies set key and isnull; GENERAL ones bytes in out->buf. */
NM_RACY bool
nm_entry_copy(const NmTree *tree, const NmPage *p, int pos, NmKeyCopy *out)
{
	uint16_t flags = nm_page_flags(p);

	if (pos >= 0 && nm_unlikely(flags & NM_PF_RUNS))
		return nm_runs_copy(tree, p, pos, out);
	if (flags & NM_PF_GENERAL)
		return nm_item_copy(tree, p, pos, out);
	if (pos < 0)
	{
		out->item.key = p->hk_key;
		out->item.isnull = (p->flags & NM_PF_HIGH_NULL) != 0;
		out->tid = p->hk_tid;
		return true;
	}
	if (nm_unlikely(pos >= nm_fx_cap(p)))
		return false;
	out->item.key = nm_fx_keys(p)[pos];
	out->item.isnull = nm_entry_isnull(p, pos);
	out->tid = nm_tid_make(nm_fx_blk(p)[pos], nm_fx_off(p)[pos]);
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
	return nm_page_gap(p) + p->garbage + old >= nm_item_bytes(0, item->len, overflow);
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
			int off = nm_item_allocate(p, nm_item_bytes(0, item->len, overflow != 0), 0);

			nm_item_write(p, off, 0, &e);
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
		int off = nm_item_allocate(dst, size, 0);

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

void
nm_page_clear(NmPage *p)
{
	p->n = 0;
	p->nnull = 0;
	p->lower = NM_BODY_END;
	p->garbage = 0;
	p->hk_off = 0;
	p->nruns = 0;
	p->tid_base = 0;
	p->flags &= (uint16_t) ~(NM_PF_HIGH | NM_PF_HIGH_NULL | NM_PF_KILLED | NM_PF_RUNS | NM_PF_WIDE);
}

/* Append entries [from, to) of src to dst, both plain, overflow pages and marks included. */
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

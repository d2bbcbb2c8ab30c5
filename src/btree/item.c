/*-------------------------------------------------------------------------
 *
 * item.c
 *	  Stored items of GENERAL pages: writing, copying, closing the gaps.
 *
 * IDENTIFICATION
 *	  src/btree/item.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/item.h"

NM_RACY int
nm_item_size(const NmPage *p, int item)
{
	NmRawItem raw;
	const char *bytes;

	if (!nm_item_raw(p, item, &raw, &bytes))
		return 0;
	return nm_item_prefix(p, item) + NM_ITEM_HDR + nm_raw_bytes(&raw);
}

NM_RACY NmPageNo
nm_item_overflow(const NmPage *p, int item)
{
	NmRawItem raw;
	const char *bytes;
	NmPageNo no;

	if ((p->flags & NM_PF_GENERAL) == 0 || (item < 0 && (p->flags & NM_PF_HIGH) == 0))
		return NM_NO_PAGE;
	if (!nm_item_raw(p, item, &raw, &bytes) || (raw.len & NM_LEN_OVERFLOW) == 0)
		return NM_NO_PAGE;
	memcpy(&no, bytes, sizeof(no));
	return no;
}

/*
 * An overflow page is immutable while an item names it, and it is retired by
 * epoch, so inside the epoch section its bytes are right whenever the page
 * that names it validates.
 */
NM_RACY bool
nm_item_key(const NmTree *tree, const NmPage *p, int item, NmRawItem *raw, const char **bytes)
{
	uint32_t len;

	if (!nm_item_raw(p, item, raw, bytes))
		return false;
	len = raw->len & NM_LEN_MASK;
	if (len > NM_MAX_KEY_SIZE)
		return false;
	if (nm_unlikely(raw->len & NM_LEN_OVERFLOW))
	{
		NmPageNo no;

		if (*bytes + sizeof(no) > (const char *) p + NM_BODY_END)
			return false;
		memcpy(&no, *bytes, sizeof(no));
		if (!nm_page_no_valid(tree, no))
			return false;
		*bytes = nm_page(tree, no)->body;
		return true;
	}
	return *bytes + len <= (const char *) p + NM_BODY_END;
}

NM_RACY bool
nm_item_copy(const NmTree *tree, const NmPage *p, int item, NmKeyCopy *out)
{
	NmRawItem raw;
	const char *bytes;

	if (!nm_item_key(tree, p, item, &raw, &bytes))
		return false;
	out->item.key = 0;
	out->item.isnull = false;
	out->item.tag = (uint8_t) (raw.len >> NM_LEN_TAG & NM_TAG_MAX);
	out->item.head = nm_item_head(p, item);
	out->item.data = out->buf;
	out->item.len = raw.len & NM_LEN_MASK;
	out->item.form = NULL;
	nm_racy_copy(out->buf, bytes, out->item.len);
	out->tid = nm_tid_make(raw.blk, raw.off);
	return true;
}

NM_RACY bool
nm_item_is(const NmPage *p, int item, const NmItem *key)
{
	NmRawItem raw;
	const char *bytes;

	if (!nm_item_raw(p, item, &raw, &bytes) || raw.len != nm_item_len_word(key) ||
		bytes + key->len > (const char *) p + NM_BODY_END ||
		((nm_page_flags(p) & NM_PF_HEADS) && nm_item_head(p, item) != key->head))
		return false;
	return nm_racy_equal(bytes, key->data, key->len);
}

bool
nm_items_same(const NmPage *p, int a, int b)
{
	NmRawItem raw;
	const char *bytes;
	NmItem key;

	if (!nm_item_raw(p, a, &raw, &bytes) || (raw.len & NM_LEN_OVERFLOW))
		return false;
	key.data = bytes;
	key.len = raw.len & NM_LEN_MASK;
	key.tag = (uint8_t) (raw.len >> NM_LEN_TAG);
	key.head = nm_item_head(p, a);
	return nm_item_is(p, b, &key);
}

void
nm_item_write(NmPage *p, int off, int pre, const NmEntry *e)
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
	raw.len = e->item ? nm_item_len_word(e->item) : 0;
	if (e->overflow)
		raw.len |= NM_LEN_OVERFLOW;
	memcpy(at, &raw, sizeof(raw));
	at += NM_ITEM_HDR;
	if (e->overflow)
		memcpy(at, &e->overflow, sizeof(NmPageNo));
	else if (e->item && e->item->len > 0)
		memcpy(at, e->item->data, e->item->len);
}

/* Rewrite the items without the garbage between them. */
void
nm_items_compact(NmPage *p)
{
	char copy[NM_PAGE_SIZE];
	int lower = NM_BODY_END;
	int items = nm_page_items(p);
	uint16_t *slots = nm_gn_slots(p, items);
	int pre = nm_gn_prefix(p);

	memcpy(copy + p->lower, (char *) p + p->lower, NM_BODY_END - p->lower);
	for (int i = -1; i < items; i++)
	{
		int off;
		int size;
		NmRawItem raw;

		if (i < 0 && (p->flags & NM_PF_HIGH) == 0)
			continue;
		off = i < 0 ? (int) p->hk_off : slots[i];
		memcpy(&raw, copy + off + (i < 0 ? 0 : pre), sizeof(raw));
		size = (i < 0 ? 0 : pre) + NM_ITEM_HDR + nm_raw_bytes(&raw);
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

int
nm_item_allocate(NmPage *p, int bytes, int front)
{
	if (nm_page_gap(p) < bytes + front)
	{
		NM_ASSERT(nm_page_gap(p) + p->garbage >= bytes + front);
		nm_items_compact(p);
	}
	p->lower -= (uint16_t) bytes;
	return p->lower;
}

/*-------------------------------------------------------------------------
 *
 * bulk.c
 *	  Bulk load from sorted input, bottom-up.
 *
 * One open page per level.  When the next entry does not fit below the
 * fillfactor the page is closed: the entry becomes its high key and, with the
 * new page, the next entry of the level above.  Nothing is reachable for other
 * processes until nm_bulk_finish publishes the root.
 *
 * IDENTIFICATION
 *	  src/btree/bulk.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

#define NM_BULK_LEVELS 12

struct NmBulk
{
	NmTree *tree;
	int arena;
	int nlevels;
	NmPageNo first[NM_BULK_LEVELS];
	NmPageNo open[NM_BULK_LEVELS];
	int64_t nentries,
		nleaves,
		ninner,
		noverflow;
	bool have_last;
	NmKeyCopy last;
};

size_t
nm_bulk_size(void)
{
	return sizeof(NmBulk);
}

void
nm_bulk_begin(NmBulk *bulk, NmTree *tree, int arena)
{
	memset(bulk, 0, offsetof(NmBulk, last));
	bulk->tree = tree;
	bulk->arena = arena;
	tree->tree_id = nm_pool_next_id(tree->pool);
	tree->layout = (NmLayout) tree->shared->layout;
}

static NmPageNo
bulk_alloc(NmBulk *bulk)
{
	NmTree *tree = bulk->tree;

	return nm_pool_alloc(tree->pool, bulk->arena, false, &tree->pool_error, &tree->pool_errno);
}

static NmPageNo
new_page(NmBulk *bulk, int level)
{
	NmPageNo no = bulk_alloc(bulk);
	NmPage *p;

	if (no == NM_NO_PAGE)
		return no;
	p = nm_page(bulk->tree, no);
	nm_page_lock(p);
	nm_page_init(bulk->tree, no, level, nm_next_lid(bulk->tree->shared));
	nm_page_unlock(p);
	if (level == 0)
		bulk->nleaves++;
	else
		bulk->ninner++;
	return no;
}

/* Does the page keep below the fillfactor, and have room for a high key? */
static bool
bytes_fit(const NmPage *p, const NmItem *item, uint64_t tid, bool overflow, int fill)
{
	bool general = (p->flags & NM_PF_GENERAL) != 0;
	bool runs = (p->flags & NM_PF_RUNS) != 0;
	int used = NM_BODY_SIZE - nm_page_gap(p);
	int need = runs ? nm_runs_need(p, p->n, item, tid) : nm_item_space(p, item ? item->len : 0, overflow);

	/* at least a page number */
	if (general && used + need + NM_ITEM_HDR + (int) sizeof(NmPageNo) > NM_BODY_SIZE)
		return false;
	if (p->n < 2)
		return true;
	/* a high key that finds no room takes a page of its own; the next key may be as long */
	if (general && used + need + nm_item_bytes(0, item ? item->len : 0, overflow) > NM_BODY_SIZE)
		return false;
	return (used + need) * 100 <= NM_BODY_SIZE * fill;
}

static inline bool
has_room(const NmBulk *bulk, const NmPage *p, const NmItem *item, uint64_t tid, bool overflow)
{
	int fill = p->level == 0 ? bulk->tree->shared->fillfactor : 90;

	if ((p->flags & (NM_PF_GENERAL | NM_PF_RUNS)) == 0)
		return p->n < nm_fx_cap(p) && (p->n < 2 || p->n * 100 < nm_fx_cap(p) * fill);
	return bytes_fit(p, item, tid, overflow, fill);
}

/*
 * Add an entry to a level: at level 0 the row's, above the downlink of the
 * page just opened below.
 */
static NmStatus
add_to_level(NmBulk *bulk, int level, const NmItem *item, uint64_t tid, NmPageNo child)
{
	NmTree *tree = bulk->tree;
	bool general = tree->layout == NM_LAYOUT_GENERAL;
	bool big = general && item != NULL && item->len > NM_INLINE_MAX;
	NmEntry e = {.item = item, .tid = tid, .child = child};
	NmPage *p;

	if (level >= NM_BULK_LEVELS)
		return NM_NO_MEMORY; /* 222^11 pages: not reached */
	if (bulk->open[level] == NM_NO_PAGE)
	{
		NmPageNo no = new_page(bulk, level);

		if (no == NM_NO_PAGE)
			return NM_NO_MEMORY;
		bulk->first[level] = bulk->open[level] = no;
		bulk->nlevels = level + 1;
		if (level > 0)
		{
			/* its first child is the level below's first page, without a key */
			NmEntry first = {.child = bulk->first[level - 1]};

			nm_entry_insert(nm_page(tree, no), 0, &first);
		}
	}

	p = nm_page(tree, bulk->open[level]);
	if (!has_room(bulk, p, item, tid, big) &&
		!(level == 0 && tree->shared->merge && (p->flags & NM_PF_RUNS) == 0 &&
		  nm_leaf_merge(p) && has_room(bulk, p, item, tid, big)))
	{
		NmPageNo next = new_page(bulk, level);
		NmPageNo over = NM_NO_PAGE;
		NmStatus st;

		if (next == NM_NO_PAGE)
			return NM_NO_MEMORY;
		if (general && (big || !nm_high_fits(p, item, false)))
		{
			over = bulk_alloc(bulk);
			if (over == NM_NO_PAGE)
			{
				nm_pool_free(tree->pool, next);
				return NM_NO_MEMORY;
			}
			nm_overflow_fill(tree, over, item);
			bulk->noverflow++;
		}
		(void) nm_high_set(p, item, tid, over);
		p->right = next;
		bulk->open[level] = next;
		st = add_to_level(bulk, level + 1, item, tid, next);
		if (st != NM_OK)
			return st;
		p = nm_page(tree, next);
		if (level > 0)
		{
			/* the first entry of an inner page has no key */
			e.item = NULL;
			big = false;
		}
	}
	if (big)
	{
		e.overflow = bulk_alloc(bulk);
		if (e.overflow == NM_NO_PAGE)
			return NM_NO_MEMORY;
		nm_overflow_fill(tree, e.overflow, item);
		bulk->noverflow++;
	}
	nm_entry_insert(p, p->n, &e);
	return NM_OK;
}

static bool
same_as_last(const NmBulk *bulk, const NmItem *item, uint64_t tid)
{
	const NmKeyCopy *last = &bulk->last;

	if (!bulk->have_last || last->tid != tid)
		return false;
	if (bulk->tree->layout == NM_LAYOUT_FIXED)
		return last->item.isnull == item->isnull && (item->isnull || last->item.key == item->key);
	return last->item.head == item->head && last->item.tag == item->tag &&
		   last->item.len == item->len && memcmp(last->buf, item->data, item->len) == 0;
}

NmStatus
nm_bulk_add(NmBulk *bulk, const NmItem *item, uint64_t tid)
{
	NmStatus st;

	if (same_as_last(bulk, item, tid))
		return NM_OK;
	st = add_to_level(bulk, 0, item, tid, NM_NO_PAGE);
	if (st != NM_OK)
		return st;
	bulk->have_last = true;
	bulk->last.item = *item;
	bulk->last.tid = tid;
	if (bulk->tree->layout == NM_LAYOUT_GENERAL)
		memcpy(bulk->last.buf, item->data, item->len);
	bulk->nentries++;
	return NM_OK;
}

NmStatus
nm_bulk_finish(NmBulk *bulk)
{
	NmTree *tree = bulk->tree;
	NmTreeShared *shared = tree->shared;
	int top;

	if (bulk->nlevels == 0)
	{
		NmPageNo no = new_page(bulk, 0);

		if (no == NM_NO_PAGE)
			return NM_NO_MEMORY;
		bulk->first[0] = bulk->open[0] = no;
		bulk->nlevels = 1;
	}
	top = bulk->nlevels - 1;
	shared->nentries = bulk->nentries;
	shared->nleaves = bulk->nleaves;
	shared->ninner = bulk->ninner;
	shared->noverflow = bulk->noverflow;
	__atomic_store_n(&shared->tree_id, tree->tree_id, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->root, ((uint64_t) top << 32) | bulk->first[top], __ATOMIC_SEQ_CST);
	bulk->nlevels = 0;
	return NM_OK;
}

void
nm_bulk_abort(NmBulk *bulk)
{
	for (int level = 0; level < bulk->nlevels; level++)
		(void) nm_free_level(bulk->tree->pool, bulk->tree->layout, bulk->first[level]);
	bulk->nlevels = 0;
}

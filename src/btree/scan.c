/*-------------------------------------------------------------------------
 *
 * scan.c
 *	  Range scans by batches of copied entries.
 *
 * A scan's position is a place in key space, the fence: everything on the near
 * side of it has been returned, nothing on the far side has.  A forward scan's
 * fence is the high key of the leaf just read, a backward scan's its low
 * fence, found on the way down.  So splits, unlinks and relocations between
 * calls cannot make it miss or repeat an entry that was there throughout.
 *
 * IDENTIFICATION
 *	  src/btree/scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

void
nm_scan_init(NmScan *scan, NmTree *tree, NmDirection dir,
			 const NmBound *lo, const NmBound *hi)
{
	scan->tree = tree;
	scan->dir = dir;
	scan->lo = lo;
	scan->hi = hi;
	scan->keys_wanted = true;
	scan->with_killed = false;
	scan->most = 0;
	scan->lock_leaf = NULL;
	scan->locked_lid = 0;
	scan->started = false;
	scan->done = false;
	scan->hint_page = NM_NO_PAGE;
	scan->leaf_page = NM_NO_PAGE;
	scan->leaf_misses = 0;
	scan->leaf_skip = 0;
	scan->guard = NULL;
	scan->fence_valid = false;
}

void
nm_scan_guard(NmScan *scan, NmGuard *guard)
{
	scan->guard = guard;
}

void
nm_scan_next_range(NmScan *scan)
{
	scan->started = false;
	scan->done = false;
	scan->hint_page = NM_NO_PAGE;
	scan->fence_valid = false;
}

static void
set_fence(NmScan *scan, const NmItem *item, uint64_t tid)
{
	if (scan->tree->layout == NM_LAYOUT_FIXED)
		/* field by field: what was just written in parts is slow to read as a whole */
		scan->fence = (NmItem){.key = item->key, .isnull = item->isnull};
	else
	{
		scan->fence = *item;
		scan->fence.form = NULL;
		memmove(scan->fence_buf, item->data, item->len);
		scan->fence.data = scan->fence_buf;
	}
	scan->fence_tid = tid;
	scan->fence_valid = true;
}

/*
 * The scan goes on at a place of which the leaf at pos, as long as it stays as
 * it is, says that it is before entry idx of page next.
 */
static inline void
goes_on_at(NmScan *scan, const NmItem *item, uint64_t tid, const NmPos *pos, NmPageNo next, int idx)
{
	set_fence(scan, item, tid);
	scan->hint_page = scan->dir == NM_BACKWARD ? NM_NO_PAGE : pos->no;
	scan->hint_version = pos->version;
	scan->hint_tree = scan->tree->tree_id;
	scan->hint_next = next;
	scan->hint_idx = idx;
}

void
nm_scan_reposition(NmScan *scan, NmDirection dir, const NmItem *item, uint64_t tid)
{
	scan->dir = dir;
	scan->started = true;
	scan->done = false;
	scan->hint_page = NM_NO_PAGE;
	set_fence(scan, item, dir == NM_FORWARD ? tid + 1 : tid);
}

void
nm_scan_export(const NmScan *scan, NmScanPosition *pos)
{
	pos->started = scan->started;
	pos->done = scan->done;
	pos->hint_page = scan->hint_page;
	if (scan->hint_page != NM_NO_PAGE)
	{
		pos->hint_next = scan->hint_next;
		pos->hint_version = scan->hint_version;
		pos->hint_tree = scan->hint_tree;
		pos->hint_idx = scan->hint_idx;
	}
	pos->len = 0;
	if (!scan->fence_valid)
		return;
	pos->isnull = scan->fence.isnull;
	pos->key = scan->fence.key;
	pos->head = scan->fence.head;
	pos->tag = scan->fence.tag;
	pos->tid = scan->fence_tid;
	if (scan->tree->layout == NM_LAYOUT_GENERAL)
	{
		pos->len = scan->fence.len;
		memcpy(pos->data, scan->fence_buf, pos->len);
	}
}

void
nm_scan_import(NmScan *scan, const NmScanPosition *pos)
{
	scan->started = pos->started;
	scan->done = pos->done;
	scan->hint_page = pos->hint_page;
	if (pos->hint_page != NM_NO_PAGE)
	{
		scan->hint_next = pos->hint_next;
		scan->hint_version = pos->hint_version;
		scan->hint_tree = pos->hint_tree;
		scan->hint_idx = pos->hint_idx;
	}
	/* before the first leaf, and after the last, there is none */
	if (pos->started && !pos->done)
	{
		NmItem fence = {.isnull = pos->isnull, .key = pos->key, .tag = pos->tag, .head = pos->head, .data = pos->data, .len = pos->len};

		set_fence(scan, &fence, pos->tid);
	}
}

#if defined(__SSE2__) && !defined(NM_TSAN)
/* Two keys as they lie. */
static inline void
copy_pair(int64_t *to, const int64_t *from)
{
	_mm_storeu_si128((__m128i *) to, _mm_loadu_si128((const __m128i *) from));
}

/* Four TIDs of blocks and offsets, the latter in the low halves. */
static inline void
join_four(uint64_t *tids, __m128i blk, __m128i off)
{
	__m128i low = _mm_or_si128(_mm_slli_epi32(blk, 16), off);
	__m128i high = _mm_srli_epi32(blk, 16);

	_mm_storeu_si128((__m128i *) tids, _mm_unpacklo_epi32(low, high));
	_mm_storeu_si128((__m128i *) (tids + 2), _mm_unpackhi_epi32(low, high));
}
#endif

/*
 * Copy entries [from, to) of a leaf's arrays as they lie; racy.  Eight at a time
 * where the machine can, so what lies behind them in the batch is overwritten.
 */
NM_RACY static void
copy_integers(const NmPage *p, int from, int to, NmBatch *b)
{
	const int64_t *keys = nm_fx_keys(p) + from;
	const uint32_t *blk = nm_leaf_blk(p) + from;
	const uint16_t *off = nm_leaf_off(p) + from;
	int n = to - from;

	b->n = n;
	/* the three arrays come side by side */
	for (int i = 0; i < n; i += 16)
	{
		__builtin_prefetch(&blk[i]);
		__builtin_prefetch(&off[i]);
		__builtin_prefetch(&keys[i]);
		__builtin_prefetch(&keys[i + 8]);
	}
#if defined(__SSE2__) && !defined(NM_TSAN)
	_Static_assert(NM_LEAF_CAP + 7 <= NM_LEAF_MAX_ENTRIES, "room for seven more in a batch");
	_Static_assert(14 * NM_LEAF_CAP + 2 * 7 <= NM_PAGE_SIZE - NM_BODY, "and offsets in the page");
	for (int i = 0; i < n; i += 8)
	{
		const __m128i zero = _mm_setzero_si128();
		__m128i o = _mm_and_si128(_mm_loadu_si128((const __m128i *) (off + i)), _mm_set1_epi16(NM_KILLED_BIT - 1));

		copy_pair(b->keys + i, keys + i);
		copy_pair(b->keys + i + 2, keys + i + 2);
		copy_pair(b->keys + i + 4, keys + i + 4);
		copy_pair(b->keys + i + 6, keys + i + 6);
		join_four(b->tids + i, _mm_loadu_si128((const __m128i *) (blk + i)), _mm_unpacklo_epi16(o, zero));
		join_four(b->tids + i + 4, _mm_loadu_si128((const __m128i *) (blk + i + 4)), _mm_unpackhi_epi16(o, zero));
	}
#else
	for (int i = 0; i < n; i++)
	{
		b->keys[i] = keys[i];
		b->tids[i] = nm_tid_make(blk[i], off[i]);
	}
#endif
}

/* Copy the fixed arrays of entries [from, to) in scan order; racy. */
NM_RACY static void
copy_fixed(const NmPage *p, int from, int to, bool backward, bool with_killed, NmBatch *b)
{
	const int64_t *keys = nm_fx_keys(p);
	const uint32_t *blk = nm_fx_blk(p);
	const uint16_t *off = nm_fx_off(p);
	bool has_null = p->nnull > 0;
	bool killed = (p->flags & NM_PF_KILLED) != 0;
	int n = 0;

	b->null_from = b->null_to = 0;
	from = nm_clamp(from, NM_LEAF_CAP);
	to = nm_clamp(to, NM_LEAF_CAP);
	if (!backward && !has_null && (!killed || with_killed))
	{
		copy_integers(p, from, to, b);
		return;
	}
	for (int k = 0; k < to - from; k++)
	{
		int i = backward ? to - 1 - k : from + k;

		if (killed && !with_killed && (off[i] & NM_KILLED_BIT))
			continue;
		b->keys[n] = keys[i];
		b->tids[n] = nm_tid_make(blk[i], off[i]);
		if (has_null && nm_entry_isnull(p, i))
		{
			if (b->null_to == 0)
				b->null_from = n;
			b->null_to = n + 1;
		}
		n++;
	}
	b->n = n;
}

/*
 * Entry n of the batch gets the stored key "item", its bytes behind those that
 * the data area has already.  False if what was read cannot be right; *full if
 * there is no room.
 */
NM_RACY static inline bool
add_key(const NmTree *tree, const NmPage *p, int item, NmBatch *b, int n, size_t *used, bool *full)
{
	NmRawItem raw;
	const char *bytes;
	uint16_t len;

	if (!nm_item_key(tree, p, item, &raw, &bytes))
		return false;
	len = raw.len & NM_LEN_MASK;
	if (*used + len + 8 > NM_BATCH_DATA)
	{
		*full = true;
		return true;
	}
	nm_racy_copy((char *) b->data + *used, bytes, len);
	b->off[n] = (uint16_t) (*used / 8);
	b->len[n] = len;
	b->tags[n] = (uint8_t) (raw.len >> NM_LEN_TAG & NM_TAG_MAX);
	b->heads[n] = nm_item_head(p, item);
	*used += (len + 7) & ~(size_t) 7;
	return true;
}

/*
 * The same from what has stored keys of its own: byte keys, and runs of both
 * layouts, whose entries share their key's bytes in the data area.  Stops when
 * that is full; *cut gets the index of the first entry (in scan order) that was
 * left out, or -1.
 */
NM_RACY static bool
copy_items(const NmTree *tree, const NmPage *p, uint16_t flags, int from, int to, bool backward,
		   bool with_killed, bool keys_wanted, NmBatch *b, int *cut)
{
	bool fixed = tree->layout == NM_LAYOUT_FIXED;
	bool runs = (flags & NM_PF_RUNS) != 0;
	bool has_null = fixed && p->nnull > 0;
	size_t used = 0;
	int start = 0;
	int end = 0; /* entries [start, end) are the run looked at */
	int run = 0;
	int first = 0; /* where the batch has its key */
	int n = 0;
	NmRuns v = {0};

	if (runs)
	{
		nm_runs_view(p, &v);
		from = nm_clamp(from, v.n);
		to = nm_clamp(to, v.n);
	}
	b->null_from = b->null_to = 0;
	b->have_keys = keys_wanted;
	*cut = -1;
	for (int k = 0; k < to - from; k++)
	{
		int i = backward ? to - 1 - k : from + k;
		uint64_t tid;

		if (runs)
			tid = nm_run_raw(&v, i) & NM_TID_MAX;
		else
		{
			NmRawItem raw;
			const char *bytes;

			if (!nm_item_raw(p, i, &raw, &bytes))
				return false;
			tid = (uint64_t) raw.blk << 16 | raw.off;
		}
		if (nm_unlikely(tid & NM_KILLED_BIT))
		{
			if (!with_killed)
				continue;
			tid &= ~(uint64_t) NM_KILLED_BIT;
		}
		b->tids[n] = tid;
		if (runs && i >= start && i < end)
		{
			if (fixed)
				b->keys[n] = b->keys[first];
			else if (keys_wanted)
			{
				b->off[n] = b->off[first];
				b->len[n] = b->len[first];
				b->tags[n] = b->tags[first];
				b->heads[n] = b->heads[first];
			}
		}
		else
		{
			bool full = false;

			if (runs)
			{
				run = nm_run_of(&v, i);
				if (run >= v.nruns)
					return false;
				start = nm_run_start(&v, run);
				end = nm_run_end(&v, run);
				first = n;
			}
			if (fixed)
				b->keys[n] = v.keys[run];
			else if (keys_wanted && !add_key(tree, p, runs ? run : i, b, n, &used, &full))
				return false;
			if (full)
			{
				*cut = i;
				break;
			}
		}
		if (has_null && nm_entry_isnull(p, i))
		{
			if (b->null_to == 0)
				b->null_from = n;
			b->null_to = n + 1;
		}
		n++;
	}
	b->n = n;
	return true;
}

NM_RACY static void
racy_leaf(const NmPage *p, uint64_t *lid, uint32_t *removals, uint16_t *flags,
		  NmPageNo *right, int *n)
{
	*lid = p->lid;
	*removals = p->removals;
	*flags = p->flags;
	*right = p->right;
	*n = nm_page_n(p);
}

NM_RACY static bool
racy_is_leaf(const NmTree *tree, const NmPage *p, NmPageNo no)
{
	return nm_page_is(tree, p, no, 0);
}

/*
 * Is the leaf at pos locked already?  If not, leave the epoch section and lock
 * it: the caller finds its place anew then, and reads under the lock.
 */
static bool
leaf_is_locked(NmScan *scan, const NmPos *pos)
{
	uint64_t lid;

	nm_racy_copy(&lid, &pos->page->lid, sizeof(lid));
	if (!nm_page_validate(pos->page, pos->version))
	{
		nm_epoch_exit(scan->tree->pool);
		scan->hint_page = NM_NO_PAGE;
		return false;
	}
	if (lid == scan->locked_lid && scan->locked_tree == scan->tree->tree_id)
		return true;
	nm_epoch_exit(scan->tree->pool);
	scan->lock_leaf(scan->lock_leaf_arg, (uint32_t) lid);
	scan->locked_lid = lid;
	scan->locked_tree = scan->tree->tree_id;
	return false;
}

/*
 * Forward without a descent: the leaf read last has not changed since, so its
 * right link is still right, and every entry over there is past the fence.  Or
 * that leaf itself has more: then hint_next is the same page.
 */
static bool
follow_hint(NmScan *scan, NmPos *pos)
{
	NmTree *tree = scan->tree;
	NmPage *old;

	if (scan->dir != NM_FORWARD || scan->hint_page == NM_NO_PAGE ||
		scan->hint_tree != tree->tree_id)
		return false;
	nm_epoch_enter(tree->pool);
	old = nm_page(tree, scan->hint_page);
	if (nm_page_unchanged(tree, scan->hint_page, scan->hint_version))
	{
		pos->no = scan->hint_next;
		pos->page = nm_page(tree, pos->no);
		pos->version = nm_page_read_begin(pos->page);
		pos->idx = scan->hint_idx;
		if (racy_is_leaf(tree, pos->page, pos->no) &&
			nm_page_validate(pos->page, pos->version) &&
			nm_page_validate(old, scan->hint_version))
			return true;
	}
	nm_epoch_exit(tree->pool);
	return false;
}

/*
 * The guard's leaf has not changed since it was found to cover the place where
 * the scan begins.
 */
static bool
begins_at_guard(NmScan *scan, NmPos *pos)
{
	NmTree *tree = scan->tree;
	const NmGuard *guard = scan->guard;

	if (guard == NULL || guard->tree_id != tree->tree_id)
		return false;
	pos->no = guard->page;
	pos->page = nm_page(tree, pos->no);
	pos->version = guard->version;
	nm_epoch_enter(tree->pool);
	if (nm_page_unchanged(tree, pos->no, pos->version) &&
		nm_page_search(tree, pos->page, pos->version, scan->lo, false, 0, &pos->idx))
		return true;
	nm_epoch_exit(tree->pool);
	return false;
}

/*
 * The guard was told when its leaf was found that nobody has its key, which is
 * what the scan asks for, and the leaf has not changed since.
 */
static bool
guard_says_empty(const NmScan *scan)
{
	const NmGuard *guard = scan->guard;
	NmTree *tree = scan->tree;
	bool unchanged;

	if (guard->idx < 0 || scan->started || guard->tree_id != tree->tree_id)
		return false;
	nm_epoch_enter(tree->pool);
	unchanged = nm_page_unchanged(tree, guard->page, guard->version);
	nm_epoch_exit(tree->pool);
	return unchanged;
}

/*
 * The range has been read and is empty; idx is where it would be in the leaf at
 * pos, the only one that it could be in.
 */
static inline void
tell_guard(const NmScan *scan, const NmPos *pos, int idx)
{
	NmGuard *guard = scan->guard;

	if (guard != NULL && guard->tree_id == scan->tree->tree_id && guard->page == pos->no &&
		guard->version == pos->version)
		guard->idx = idx;
}

/*
 * The range begins in the leaf that was read last, which has not changed since:
 * one of its entries is before the place where the scan begins, and one is not.
 */
static bool
begins_in_last_leaf(NmScan *scan, NmPos *pos)
{
	NmTree *tree = scan->tree;
	bool backward = scan->dir == NM_BACKWARD;
	const NmBound *place = backward ? scan->hi : scan->lo;
	NmKeyCopy edge;
	uint64_t lid;
	uint32_t removals;
	uint16_t flags;
	NmPageNo right;
	int n;

	if (scan->leaf_page == NM_NO_PAGE || scan->leaf_tree != tree->tree_id || place->infinite)
		return false;
	/* where ranges are far apart, look less and less often */
	if (scan->leaf_skip > 0)
	{
		scan->leaf_skip--;
		return false;
	}
	pos->no = scan->leaf_page;
	pos->page = nm_page(tree, pos->no);
	pos->version = scan->leaf_version;
	nm_epoch_enter(tree->pool);
	if (nm_page_unchanged(tree, pos->no, pos->version))
	{
		/* one comparison tells most ranges that are elsewhere */
		racy_leaf(pos->page, &lid, &removals, &flags, &right, &n);
		if (n > 1 && nm_entry_copy(tree, pos->page, backward ? 0 : n - 1, &edge) &&
			nm_page_validate(pos->page, pos->version) &&
			(nm_copy_vs_bound(tree, &edge, place) < 0) == backward &&
			nm_page_search(tree, pos->page, pos->version, place, false, 0, &pos->idx) &&
			pos->idx > 0 && pos->idx < n)
		{
			scan->leaf_misses = 0;
			return true;
		}
	}
	nm_epoch_exit(tree->pool);
	scan->leaf_page = NM_NO_PAGE;
	if (scan->leaf_misses < 6)
		scan->leaf_misses++;
	scan->leaf_skip = (1 << scan->leaf_misses) - 2;
	return false;
}

/*
 * Read the leaf at pos into the batch and move the fence.  NM_STALE: the leaf
 * changed, or a low fence is needed that is not known (low is NULL); try again
 * by a descent.  Inside the epoch section on entry and exit.
 */
static NmStatus
read_leaf(NmScan *scan, NmPos *pos, const NmKeyCopy *low, bool low_valid, NmBatch *batch)
{
	NmTree *tree = scan->tree;
	bool backward = scan->dir == NM_BACKWARD;
	NmKeyCopy edge;
	uint16_t flags;
	NmPageNo right;
	int n;
	int from,
		to;
	int cut = -1;
	int left_out = -1; /* first entry beyond scan->most */
	bool at_edge;
	bool last;

	racy_leaf(pos->page, &batch->lid, &batch->removals, &flags, &right, &n);
	batch->leaf = pos->no;
	batch->tree_id = tree->tree_id;
	if (pos->idx > n)
		return NM_STALE;

	if (backward)
	{
		to = pos->idx;
		if (!nm_page_search(tree, pos->page, pos->version, scan->lo, false, 0, &from))
			return NM_STALE;
		if (from > to)
			from = to;
		if (scan->most > 0 && to - from > scan->most)
		{
			from = to - scan->most;
			left_out = from - 1;
		}
		at_edge = from == 0;
		if (at_edge && low == NULL)
			return NM_STALE;
		last = !at_edge || !low_valid;
	}
	else
	{
		from = pos->idx;
		/* the end is near in point lookups, and often the page's end in ranges */
		if (scan->hi->infinite > 0)
			to = n;
		else if (!nm_page_search(tree, pos->page, pos->version, scan->hi, false,
								 from > 0 ? from : 0, &to))
			return NM_STALE;
		if (to < from)
			to = from;
		if (scan->most > 0 && to - from > scan->most)
			left_out = to = from + scan->most;
		at_edge = to == n;
		last = !at_edge || (flags & NM_PF_HIGH) == 0;
		if (!last && !nm_entry_copy(tree, pos->page, -1, &edge))
			return NM_STALE;
	}

	if (tree->layout == NM_LAYOUT_FIXED && nm_likely((flags & NM_PF_RUNS) == 0))
		copy_fixed(pos->page, from, to, backward, scan->with_killed, batch);
	else if (!copy_items(tree, pos->page, flags, from, to, backward, scan->with_killed,
						 scan->keys_wanted, batch, &cut))
		return NM_STALE;
	if (cut < 0)
		cut = left_out;

	if (cut >= 0)
	{
		/* continue at the entry that did not fit: it is still to come */
		if (!nm_entry_copy(tree, pos->page, cut, &edge))
			return NM_STALE;
		edge.item.data = edge.buf;
		if (!nm_page_validate(pos->page, pos->version))
			return NM_STALE;
		goes_on_at(scan, &edge.item, backward ? edge.tid + 1 : edge.tid, pos, pos->no, cut);
		scan->started = true;
		return NM_OK;
	}
	if (!nm_page_validate(pos->page, pos->version))
		return NM_STALE;
	scan->leaf_page = pos->no;
	scan->leaf_version = pos->version;
	scan->leaf_tree = tree->tree_id;

	if (last)
		scan->done = true;
	else
	{
		const NmKeyCopy *next = backward ? low : &edge;

		goes_on_at(scan, &next->item, next->tid, pos, right, 0);
		/* nothing of the range is beyond the fence: spare the next visit */
		if (backward ? (nm_copy_vs_bound(tree, next, scan->lo) <= 0) : (nm_copy_vs_bound(tree, next, scan->hi) >= 0))
			scan->done = true;
	}
	if (from == to && scan->done && !scan->started && !backward)
		tell_guard(scan, pos, from);
	scan->started = true;
	return NM_OK;
}

/* Is the whole scan for one integer? */
static inline bool
one_key(const NmScan *scan)
{
	const NmBound *lo = scan->lo;
	const NmBound *hi = scan->hi;

	return lo->item.key == hi->item.key && scan->tree->layout == NM_LAYOUT_FIXED &&
		   scan->dir == NM_FORWARD && !scan->started && scan->most == 0 &&
		   (lo->infinite | hi->infinite | lo->item.isnull | hi->item.isnull) == 0 &&
		   lo->cmp == NULL && hi->cmp == NULL && hi->tid == NM_TID_MAX;
}

/*
 * All entries of one integer, of which most often there is one, into the batch
 * without looking for their end first.  False: they go on in the next leaf, or
 * there are NULLs here, or the page changed: read_leaf knows.
 */
NM_RACY static bool
read_one_key(NmScan *scan, const NmPos *pos, NmBatch *b)
{
	const NmPage *p = pos->page;
	const int64_t *keys = nm_fx_keys(p);
	const uint32_t *blk = nm_leaf_blk(p);
	const uint16_t *off = nm_leaf_off(p);
	int64_t key = scan->lo->item.key;
	int end = p->n < NM_LEAF_CAP ? p->n : NM_LEAF_CAP;
	int i = pos->idx;
	int n = 0;

	if (p->nnull > 0 || (nm_page_flags(p) & NM_PF_RUNS))
		return false;
	b->leaf = pos->no;
	b->lid = p->lid;
	b->tree_id = scan->tree->tree_id;
	b->removals = p->removals;
	b->null_from = b->null_to = 0;
	for (; i < end && keys[i] == key; i++)
	{
		if ((off[i] & NM_KILLED_BIT) && !scan->with_killed)
			continue;
		b->keys[n] = key;
		b->tids[n++] = nm_tid_make(blk[i], off[i]);
	}
	if (i >= end && (p->flags & NM_PF_HIGH))
		return false;
	b->n = n;
	if (!nm_page_validate(p, pos->version))
		return false;
	if (i == pos->idx)
		tell_guard(scan, pos, i);
	scan->leaf_page = pos->no;
	scan->leaf_version = pos->version;
	scan->leaf_tree = scan->tree->tree_id;
	return true;
}

/*
 * The whole of a scan for one integer.  NM_STALE: it takes more than one look
 * at one leaf; nothing has been returned yet.
 */
static NmStatus
next_of_one_key(NmScan *scan, NmBatch *batch)
{
	NmTree *tree = scan->tree;
	NmPos pos;
	bool read;

	if (!begins_at_guard(scan, &pos) && !begins_in_last_leaf(scan, &pos))
	{
		nm_epoch_enter(tree->pool);
		if (!nm_fixed_descend(tree, scan->lo, 0, true, NULL, &pos))
		{
			nm_epoch_exit(tree->pool);
			return NM_STALE;
		}
	}
	if (scan->lock_leaf != NULL && !leaf_is_locked(scan, &pos))
		return NM_STALE;
	NM_STOP("scan-leaf");
	read = read_one_key(scan, &pos, batch);
	nm_epoch_exit(tree->pool);
	if (!read)
	{
		batch->n = 0;
		return NM_STALE;
	}
	scan->started = scan->done = true;
	return batch->n > 0 ? NM_OK : NM_END;
}

static NmStatus __attribute__((noinline))
next_of_range(NmScan *scan, NmBatch *batch)
{
	NmTree *tree = scan->tree;

	while (!scan->done)
	{
		NmPos pos;
		NmKeyCopy low;
		bool low_valid = false;
		bool hinted;
		NmStatus st;
		NmBound place;
		const NmBound *start;

		if (scan->started)
		{
			nm_bound_at(&place, &scan->fence, scan->fence_tid);
			start = &place;
		}
		else
			start = scan->dir == NM_FORWARD ? scan->lo : scan->hi;

		if (scan->started)
			hinted = follow_hint(scan, &pos);
		else
			hinted = begins_at_guard(scan, &pos) || begins_in_last_leaf(scan, &pos);
		if (!hinted)
		{
			if (scan->dir == NM_FORWARD)
				st = nm_descend_to_read(tree, start, scan->hi, scan->most, &pos);
			else
				st = nm_descend(tree, start, 0, true, true, &pos, &low, &low_valid);
			if (st != NM_OK)
				return st;
		}
		if (scan->lock_leaf != NULL && !leaf_is_locked(scan, &pos))
			continue;
		NM_STOP("scan-leaf");
		batch->n = 0;
		st = read_leaf(scan, &pos, hinted ? NULL : &low, low_valid, batch);
		nm_epoch_exit(tree->pool);
		if (st == NM_STALE)
		{
			scan->hint_page = NM_NO_PAGE;
			scan->leaf_page = NM_NO_PAGE;
			continue;
		}
		if (batch->n > 0)
			return NM_OK;
	}
	return NM_END;
}

NmStatus
nm_scan_next(NmScan *scan, NmBatch *batch)
{
	batch->n = 0;
	if (scan->guard != NULL && guard_says_empty(scan))
	{
		scan->started = scan->done = true;
		return NM_END;
	}
	if (one_key(scan))
	{
		NmStatus st = next_of_one_key(scan, batch);

		if (st != NM_STALE)
			return st;
	}
	return next_of_range(scan, batch);
}

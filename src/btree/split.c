/*-------------------------------------------------------------------------
 *
 * split.c
 *	  Splitting a page, giving the new one its downlink, growing the root.
 *
 * A split takes effect in two steps.  Under the page's lock the right half
 * moves to a new page that only the right link names (NM_PF_PENDING on the
 * left page).  Then, with nothing held, the separator goes into the parent
 * level by a descent of its own.  All pages come from the stash.
 *
 * IDENTIFICATION
 *	  src/btree/split.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

/*
 * Where to cut the n + 1 entries (the new one at pos counted in): the number
 * that stays left.  Ascending loads, whose new entry is the last of the
 * rightmost page, leave the left page filled to the fillfactor.
 */
static int
split_point(const NmTree *tree, const NmPage *p, int pos, int new_size, int *sizes)
{
	int n = p->n + 1;
	int largest = 0;
	int total = 0;
	int sum = 0;
	int want;
	int best;
	int lo = 1;
	int hi = n - 1;
	bool ascending = (p->flags & NM_PF_HIGH) == 0 && pos == p->n;

	for (int i = 0, j = 0; i < n; i++)
	{
		sizes[i] = i == pos ? new_size : nm_entry_size(p, j++);
		total += sizes[i];
		if (sizes[i] > largest)
			largest = sizes[i];
	}
	if (ascending)
	{
		want = (int) ((int64_t) (NM_BODY_END - NM_BODY) * tree->shared->fillfactor / 100);
		/* GENERAL: the left page's high key must fit too */
		if (tree->layout == NM_LAYOUT_GENERAL && want > NM_BODY_END - NM_BODY - largest)
			want = NM_BODY_END - NM_BODY - largest;
	}
	else
		want = total / 2;
	best = lo;
	for (int i = 0; i < n; i++)
	{
		if (sum + sizes[i] > want && i >= lo)
			break;
		sum += sizes[i];
		best = i + 1;
	}
	if (best > hi)
		best = hi;
	return best;
}

/*
 * Split the locked page pos and insert e at pos->idx in the right half or the
 * left.  Unlocks the page.  *sep gets the new page's first key, *right its
 * number and *right_lid its logical id.  A leaf must have no origin.  Inside
 * the epoch section; the stash has what is needed.
 *
 * A leaf of runs is split at a place that suits e, but without it: NM_STALE.
 * (With it a half may have to be written wide, and then not fit.)
 */
NmStatus
nm_split(NmTree *tree, NmPos *pos, const NmEntry *e, NmKeyCopy *sep, NmPageNo *right,
		 uint64_t *right_lid)
{
	NmPage *p = pos->page;
	NmPageNo rno = nm_stash_take(tree);
	NmPage *r = nm_page(tree, rno);
	NmPage old;
	int sizes[NM_LEAF_MAX_ENTRIES + 1];
	int keep;
	int idx = pos->idx;
	int moved_from;
	bool new_left;
	bool general = tree->layout == NM_LAYOUT_GENERAL;
	bool runs = (p->flags & NM_PF_RUNS) != 0;
	NmPageNo high_over = NM_NO_PAGE;

	NM_ASSERT(p->origin == 0);
	nm_page_copy(&old, p, sizeof(old));
	if (runs)
	{
		moved_from = nm_runs_split_point(tree, p, idx, e->item);
		new_left = false;
	}
	else
	{
		keep = split_point(tree, p, idx,
						   general ? nm_item_space(p, e->item ? e->item->len : 0, e->overflow != 0)
								   : (p->level == 0 ? 14 : 18),
						   sizes);
		new_left = idx < keep;
		moved_from = new_left ? keep - 1 : keep; /* in the old page's numbering */
	}

	nm_page_lock(r);
	*right_lid = nm_next_lid(tree->shared);
	nm_page_init(tree, rno, old.level, *right_lid);
	if (old.level == 0 && tree->pass_locks != NULL)
		r->origin = (uint32_t) old.lid;
	r->right = old.right;
	r->removals = old.removals;
	r->flags |= old.flags & NM_PF_PENDING;

	/* the right page */
	nm_high_move(r, &old);
	if (runs)
		nm_leaf_fill(r, &old, moved_from, old.n);
	else if (new_left)
		nm_page_append_from(r, &old, moved_from, old.n);
	else
	{
		nm_page_append_from(r, &old, moved_from, idx);
		nm_entry_insert(r, r->n, e);
		nm_page_append_from(r, &old, idx, old.n);
	}

	/* its first key separates; an inner page's first entry then loses it */
	if (!nm_entry_copy(tree, r, 0, sep))
		NM_ASSERT(false);
	sep->item.data = sep->buf;
	if (old.level > 0)
	{
		if (!new_left && idx == moved_from)
			sep->item.isnull = e->item->isnull;
		else
			sep->item.isnull = nm_entry_isnull(&old, moved_from);
		if (sep->item.isnull)
			r->nnull--;
		if (general)
		{
			NmPageNo over = nm_entry_overflow(r, 0);

			/*
			 * The separator that moves up keeps no page here: the parent gets a
			 * copy, and the left page's high key takes this one.
			 */
			if (over != NM_NO_PAGE)
			{
				NmPageNo child = nm_entry_child(r, 0);
				NmEntry bare = {.item = NULL, .tid = sep->tid, .child = child};

				high_over = over;
				(void) nm_entry_remove(r, 0);
				nm_entry_insert(r, 0, &bare);
			}
		}
	}

	/* the left page, rewritten from the copy */
	nm_page_clear(p);
	if (runs)
		nm_leaf_fill(p, &old, 0, moved_from);
	else if (new_left)
	{
		nm_page_append_from(p, &old, 0, idx);
		nm_entry_insert(p, p->n, e);
		nm_page_append_from(p, &old, idx, moved_from);
	}
	else
		nm_page_append_from(p, &old, 0, moved_from);
	if (general && sep->item.len > NM_INLINE_MAX && high_over == NM_NO_PAGE)
	{
		high_over = nm_stash_take(tree);
		nm_overflow_fill(tree, high_over, &sep->item);
		NM_COUNT(tree->shared->noverflow, 1);
	}
	(void) nm_high_set(p, &sep->item, sep->tid, high_over);
	p->right = rno;
	p->flags |= NM_PF_PENDING;
	p->removals++;

	NM_STOP(old.level == 0 ? "split-locked" : "split-inner-locked");
	nm_page_unlock(r);
	nm_page_unlock(p);
	*right = rno;
	return runs ? NM_STALE : NM_OK;
}

NM_RACY static bool
waits_for_link(const NmTree *tree, const NmPage *p, NmPageNo no, int level, NmPageNo right)
{
	return nm_page_is(tree, p, no, level) && p->right == right &&
		   (p->flags & NM_PF_PENDING) != 0;
}

/*
 * Lock the page whose right sibling "right" waits for its downlink.  The hint
 * is where it was last; a later split may have put another page between, or
 * a relocation moved it, then a descent finds the left neighbour of the
 * separator.  NULL: nobody waits any more, it is linked.  Enters the epoch
 * section when it returns a page.
 */
static NmPage *
lock_waiting(NmTree *tree, int level, NmPageNo hint, NmPageNo right, const NmBound *sep,
			 NmStatus *st)
{
	*st = NM_OK;
	for (;;)
	{
		NmPage *p = nm_page(tree, hint);
		NmPos pos;
		uint64_t v;

		nm_epoch_enter(tree->pool);
		v = nm_page_read_begin(p);
		/* the hint is from an earlier section */
		if (nm_root_word(tree) != 0 && nm_pool_backed(tree->pool, hint) &&
			waits_for_link(tree, p, hint, level, right))
		{
			if (nm_page_upgrade(p, v))
				return p;
			nm_epoch_exit(tree->pool);
			continue;
		}
		nm_epoch_exit(tree->pool);

		*st = nm_descend(tree, sep, level, true, false, &pos, NULL, NULL);
		if (*st != NM_OK)
			return NULL;
		if (waits_for_link(tree, pos.page, pos.no, level, right))
		{
			if (nm_page_upgrade(pos.page, pos.version))
				return pos.page;
		}
		else if (nm_page_validate(pos.page, pos.version))
		{
			nm_epoch_exit(tree->pool);
			return NULL;
		}
		nm_epoch_exit(tree->pool);
		hint = pos.no;
	}
}

/*
 * Put a new root over a level without a parent: the old root page (always the
 * leftmost of its level) and the new page are its children.  With the left
 * page locked.  False if the root word changed: look again.
 */
static bool
grow_root(NmTree *tree, int level, uint64_t word, NmPageNo root, const NmEntry *second)
{
	NmPage *p = nm_page(tree, root);
	NmEntry first = {.item = NULL, .child = nm_root_page(word)};

	nm_page_lock(p);
	nm_page_init(tree, root, level + 1, nm_next_lid(tree->shared));
	nm_entry_insert(p, 0, &first);
	nm_entry_insert(p, 1, second);
	nm_page_unlock(p);
	NM_STOP("split-growing");
	return __atomic_compare_exchange_n(&tree->shared->root, &word,
									   ((uint64_t) (level + 1) << 32) | root,
									   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/*
 * Insert the downlink of "right", which a split of the given level made and
 * left without one.  The mark on its left sibling goes in the same section, so
 * it means exactly "no downlink yet", and whoever finds it may call this:
 * only one of several callers links.
 *
 * The tree may have been detached meanwhile (NM_GONE): the page is still
 * reachable by its left sibling's right link, so nothing leaks.  A comparator
 * may raise here, or memory be short after another process let the tree grow:
 * the tree stays right without the downlink, only a little slower, and vacuum
 * links later.
 */
NmStatus
nm_link_right(NmTree *tree, int level, NmPageNo left, NmPageNo right, const NmKeyCopy *sep)
{
	NmStash *stash = tree->scratch;
	bool general = tree->layout == NM_LAYOUT_GENERAL;
	bool big = general && sep->item.len > NM_INLINE_MAX;
	NmEntry e = {.item = &sep->item, .tid = sep->tid, .child = right};
	NmBound bound;

	nm_bound_from_copy(&bound, sep, sep->tid);
	for (;;)
	{
		uint64_t word = nm_root_word(tree);
		NmPos pos;
		NmPage *waiting;
		NmStatus st;
		int need;

		if (word == 0)
			return NM_GONE;

		/*
		 * The tree may have grown by more levels than were planned for.  Ask for
		 * no more than this level can use, else memory that is just enough would
		 * leave the page without a downlink.
		 */
		need = general && (big || __atomic_load_n(&tree->shared->noverflow, __ATOMIC_RELAXED) > 0) ? 4 : 1;
		if (stash->n < need && nm_stash_fill(tree, need) != NM_OK)
			return NM_NO_MEMORY;

		/* an own copy of a big separator; it stays in the stash until used */
		if (big)
		{
			e.overflow = stash->pages[stash->n - 1];
			nm_overflow_fill(tree, e.overflow, &sep->item);
		}

		if (nm_root_level(word) == level)
		{
			bool done;

			waiting = lock_waiting(tree, level, left, right, &bound, &st);
			if (waiting == NULL)
				return st;
			if (stash->n < need)
			{
				/* a comparator has inserted through this handle */
				nm_page_unlock(waiting);
				nm_epoch_exit(tree->pool);
				continue;
			}
			done = grow_root(tree, level, word, stash->pages[0], &e);
			if (done)
				waiting->flags &= (uint16_t) ~NM_PF_PENDING;
			nm_page_unlock(waiting);
			if (done)
			{
				NM_COUNT(tree->shared->noverflow, big ? 1 : 0);
				NM_COUNT(tree->shared->ninner, 1);
			}
			nm_epoch_exit(tree->pool);
			if (!done)
				continue;
			if (big)
				(void) nm_stash_take(tree);
			stash->pages[0] = stash->pages[stash->n - 1];
			stash->n--;
			return NM_OK;
		}

		/* the parent's position first: comparators run with nothing held */
		st = nm_descend(tree, &bound, level + 1, false, true, &pos, NULL, NULL);
		if (st != NM_OK)
			return st;
		nm_epoch_exit(tree->pool);
		NM_STOP("split-parent");
		waiting = lock_waiting(tree, level, left, right, &bound, &st);
		if (waiting == NULL)
			return st;
		if (stash->n < need || !nm_page_upgrade(pos.page, pos.version))
		{
			nm_page_unlock(waiting);
			nm_epoch_exit(tree->pool);
			continue;
		}
		NM_STOP("split-linking");
		if (big)
		{
			(void) nm_stash_take(tree);
			NM_COUNT(tree->shared->noverflow, 1);
		}
		if (nm_entry_fits(pos.page, pos.idx, &sep->item, sep->tid, big))
		{
			nm_entry_insert(pos.page, pos.idx, &e);
			nm_page_unlock(pos.page);
			waiting->flags &= (uint16_t) ~NM_PF_PENDING;
			nm_page_unlock(waiting);
			nm_epoch_exit(tree->pool);
			return NM_OK;
		}
		else
		{
			NmPageNo uncle;
			uint64_t uncle_lid;
			NmKeyCopy up;

			(void) nm_split(tree, &pos, &e, &up, &uncle, &uncle_lid); /* unlocks the parent */
			waiting->flags &= (uint16_t) ~NM_PF_PENDING;
			nm_page_unlock(waiting);
			NM_COUNT(tree->shared->ninner, 1);
			nm_epoch_exit(tree->pool);
			return nm_link_right(tree, level + 1, pos.no, uncle, &up);
		}
	}
}

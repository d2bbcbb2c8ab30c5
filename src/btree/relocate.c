/*-------------------------------------------------------------------------
 *
 * relocate.c
 *	  Moving a tree's pages to another node by copying them.
 *
 * A page is copied to a page of the wanted arena, the left sibling's right
 * link and the parent's downlink (or the root word) are swung over under
 * version locks, and the old page is marked MOVED and retired.  Logical id and
 * removal counter go along.  No system call happens under a lock, no
 * privilege is needed, and no other process's page tables are touched.
 *
 * There is no comparator here: pages are taken in the parent level's order.
 *
 * IDENTIFICATION
 *	  src/btree/relocate.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/page.h"
#include "btree/walk.h"

typedef struct NmChildren
{
	NmPageNo no; /* the parent */
	uint64_t lid;
	NmPageNo right;
	int n;
	NmPageNo child[NM_LEAF_MAX_ENTRIES];
	uint64_t child_lid[NM_LEAF_MAX_ENTRIES];
} NmChildren;

NM_RACY static void
racy_children(const NmTree *tree, const NmPage *p, NmChildren *c)
{
	c->lid = p->lid;
	c->right = (p->flags & NM_PF_HIGH) ? p->right : NM_NO_PAGE;
	c->n = nm_page_n(p);
	for (int i = 0; i < c->n; i++)
	{
		c->child[i] = nm_entry_child(p, i);
		c->child_lid[i] = nm_page_no_valid(tree, c->child[i])
							  ? nm_page(tree, c->child[i])->lid
							  : 0;
	}
}

NM_RACY static bool
racy_is(const NmTree *tree, const NmPage *p, NmPageNo no, int level)
{
	return nm_page_is(tree, p, no, level);
}

NM_RACY static bool
racy_has_lid(const NmPage *p, uint64_t lid)
{
	return p->lid == lid;
}

NM_RACY static NmPageNo
racy_right(const NmPage *p)
{
	return (p->flags & NM_PF_HIGH) ? p->right : NM_NO_PAGE;
}

NM_RACY static bool
racy_pending(const NmPage *p)
{
	return (p->flags & NM_PF_PENDING) != 0;
}

NM_RACY static int
racy_find_child(const NmPage *p, NmPageNo child, int *n)
{
	*n = nm_page_n(p);
	for (int i = 0; i < *n; i++)
		if (nm_entry_child(p, i) == child)
			return i;
	return -1;
}

NM_RACY static NmPageNo
racy_child(const NmPage *p, int i)
{
	return nm_entry_child(p, i);
}

/* Copy the children of parent "no" at that level; false if it is not there. */
static bool
read_children(NmTree *tree, NmPageNo no, int level, NmChildren *c)
{
	for (int tries = 0; tries < 100; tries++)
	{
		NmPage *p = nm_page(tree, no);
		uint64_t v;

		nm_epoch_enter(tree->pool);
		if (nm_root_word(tree) == 0 || !nm_pool_backed(tree->pool, no))
		{
			nm_epoch_exit(tree->pool);
			return false;
		}
		v = nm_page_read_begin(p);
		if (!racy_is(tree, p, no, level))
		{
			nm_epoch_exit(tree->pool);
			return false;
		}
		racy_children(tree, p, c);
		c->no = no;
		if (nm_page_validate(p, v))
		{
			nm_epoch_exit(tree->pool);
			return true;
		}
		nm_epoch_exit(tree->pool);
	}
	return false;
}

/*
 * Left sibling of a page, by right links from a page known to be left of it.
 * Inside the epoch section.  NM_NO_PAGE if not found in a few steps.
 */
static NmPageNo
walk_to_left(NmTree *tree, NmPageNo from, int level, NmPageNo target, uint64_t *version)
{
	NmPageNo no = from;

	for (int i = 0; i < 64 && nm_page_no_valid(tree, no); i++)
	{
		NmPage *p = nm_page(tree, no);
		uint64_t v = nm_page_read_begin(p);
		NmPageNo right;

		if (!racy_is(tree, p, no, level))
			return NM_NO_PAGE;
		right = racy_right(p);
		if (!nm_page_validate(p, v))
			return NM_NO_PAGE;
		if (right == target)
		{
			*version = v;
			return no;
		}
		no = right;
	}
	return NM_NO_PAGE;
}

/* Right link and last child of page "no"; false if it is not of that level, or changes. */
static bool
right_and_last(NmTree *tree, NmPageNo no, int level, NmPageNo *right, NmPageNo *last)
{
	NmPage *p = nm_page(tree, no);
	uint64_t v = nm_page_read_begin(p);
	int n;

	if (!racy_is(tree, p, no, level))
		return false;
	*right = racy_right(p);
	(void) racy_find_child(p, NM_NO_PAGE, &n);
	*last = n > 0 ? racy_child(p, n - 1) : NM_NO_PAGE;
	return nm_page_validate(p, v);
}

/*
 * Last child of the page left of "parent" at its level; inside the epoch.
 * That page is "hint" as a rule; else it is looked for from the left end, which
 * on a large tree is a long way.
 */
static NmPageNo
cousin(NmTree *tree, NmPageNo parent, int level, NmPageNo hint, bool *leftmost)
{
	NmBound lowest = {.infinite = -1};
	NmPageNo no;
	NmPageNo right;
	NmPageNo last;
	NmPos pos;

	*leftmost = false;
	/* the hint is from an earlier section */
	if (hint != NM_NO_PAGE && nm_root_word(tree) != 0 && nm_pool_backed(tree->pool, hint) &&
		right_and_last(tree, hint, level, &right, &last) && right == parent)
		return last;

	/* leave and enter again: a descent has an epoch section of its own */
	nm_epoch_exit(tree->pool);
	if (nm_descend(tree, &lowest, level, false, false, &pos, NULL, NULL) != NM_OK)
	{
		nm_epoch_enter(tree->pool);
		return NM_NO_PAGE;
	}
	if (pos.no == parent)
	{
		*leftmost = true;
		return NM_NO_PAGE;
	}
	no = pos.no;
	while (nm_page_no_valid(tree, no))
	{
		if (!right_and_last(tree, no, level, &right, &last))
			return NM_NO_PAGE;
		if (right == parent)
			return last;
		no = right;
	}
	return NM_NO_PAGE;
}

/* Everything but the version word and the pool's bytes. */
static void
copy_page(NmPage *to, NmPageNo to_no, const NmPage *from)
{
	nm_page_copy(to, from, NM_BODY_END);
	to->page = to_no;
}

/* Move the page that is the root (it has no siblings that matter). */
static bool
move_root(NmTree *tree, int level, NmPageNo old, NmPageNo new)
{
	NmPage *p = nm_page(tree, old);
	NmPage *q = nm_page(tree, new);
	uint64_t word = ((uint64_t) level << 32) | old;
	uint64_t v;
	bool done = false;

	nm_epoch_enter(tree->pool);
	v = nm_page_read_begin(p);
	if (racy_is(tree, p, old, level) && !racy_pending(p) && nm_page_upgrade(p, v))
	{
		NM_STOP("relocate-root-locked");
		nm_page_lock(q);
		copy_page(q, new, p);
		nm_page_unlock(q);
		done = __atomic_compare_exchange_n(&tree->shared->root, &word,
										   ((uint64_t) level << 32) | new, false,
										   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		if (done)
			p->flags |= NM_PF_MOVED;
		NM_STOP("relocate-root-swung");
		nm_page_unlock(p);
	}
	nm_epoch_exit(tree->pool);
	return done;
}

/* One attempt to move a child of "parent".  False: busy. */
static bool
move_child(NmTree *tree, int level, NmPageNo parent_no, uint64_t parent_lid,
		   NmPageNo left_parent, NmPageNo old, uint64_t lid, NmPageNo new)
{
	NmPage *parent = nm_page(tree, parent_no);
	NmPage *p = nm_page(tree, old);
	NmPage *q = nm_page(tree, new);
	NmPage *left = NULL;
	NmPageNo left_no = NM_NO_PAGE;
	uint64_t parent_v,
		left_v = 0,
		v;
	int idx,
		n;
	bool leftmost = false;
	bool done = false;

	nm_epoch_enter(tree->pool);
	parent_v = nm_page_read_begin(parent);
	if (nm_root_word(tree) == 0 || !racy_is(tree, parent, parent_no, level + 1) ||
		!racy_has_lid(parent, parent_lid))
		goto out;
	idx = racy_find_child(parent, old, &n);
	if (idx < 0)
		goto out;
	if (idx > 0)
		left_no = racy_child(parent, idx - 1);
	else
		left_no = cousin(tree, parent_no, level + 1, left_parent, &leftmost);
	if (!nm_page_validate(parent, parent_v))
		goto out;
	if (!leftmost)
	{
		left_no = walk_to_left(tree, left_no, level, old, &left_v);
		if (left_no == NM_NO_PAGE)
			goto out;
		left = nm_page(tree, left_no);
	}
	v = nm_page_read_begin(p);
	if (!racy_is(tree, p, old, level) || !racy_has_lid(p, lid) || racy_pending(p))
		goto out;

	NM_STOP("relocate-found");
	/* left sibling, page, parent: upgrades never wait */
	if (left && !nm_page_upgrade(left, left_v))
		goto out;
	NM_STOP("relocate-left");
	if (nm_page_upgrade(p, v))
	{
		if (nm_page_upgrade(parent, parent_v))
		{
			NM_STOP("relocate-locked");
			nm_page_lock(q); /* private: free at once */
			copy_page(q, new, p);
			nm_page_unlock(q);
			nm_entry_set_child(parent, idx, new);
			if (left)
				left->right = new;
			p->flags |= NM_PF_MOVED;
			done = true;
			NM_STOP("relocate-swung");
			nm_page_unlock(parent);
			NM_STOP("relocate-parent-free");
		}
		nm_page_unlock(p);
		NM_STOP("relocate-page-free");
	}
	if (left)
		nm_page_unlock(left);
out:
	nm_epoch_exit(tree->pool);
	return done;
}

/*
 * Relocate one page; counts into the job.  parent 0: the root.  True when a
 * relocation was spent.
 */
static bool
relocate_one(NmTree *tree, NmRelocate *job, NmPageNo parent, uint64_t parent_lid,
			 NmPageNo page, uint64_t lid)
{
	int arena = job->want(job->arg, page, lid);
	NmPoolError why;
	NmPageNo new;
	bool done = false;

	if (arena < 0)
		return false;
	job->asked++;
	if (!job->always && nm_pool_arena_of(tree->pool, page) == arena)
	{
		job->already++;
		return false;
	}
	new = nm_pool_alloc(tree->pool, arena, true, &why, NULL);
	if (new == NM_NO_PAGE)
	{
		job->nomem++;
		return true;
	}
	NM_STOP("relocate-asked");
	for (int tries = 0; tries < 4 && !done; tries++)
		done = parent == NM_NO_PAGE
				   ? move_root(tree, job->level, page, new)
				   : move_child(tree, job->level, parent, parent_lid, job->left_parent, page, lid, new);
	if (done)
	{
		NM_STOP("relocate-done");
		nm_pool_retire(tree->pool, page);
		job->moved++;
		NM_COUNT(tree->shared->relocations, 1);
	}
	else
	{
		nm_pool_free(tree->pool, new);
		job->busy++;
	}
	return true;
}

NmStatus
nm_tree_relocate(NmTree *tree, NmRelocate *job)
{
	NmChildren c;
	int spent = 0;
	uint64_t word = nm_root_word(tree);

	job->done = false;
	if (word == 0)
		return NM_GONE;
	if (nm_root_level(word) < job->level)
	{
		job->done = true; /* no such level */
		return NM_OK;
	}
	if (nm_root_level(word) == job->level)
	{
		NmPageNo no = nm_root_page(word);
		NmPage root;

		/* pages beside it that have no parent yet wait for the next round */
		if (nm_page_snapshot(tree, no, job->level, &root, NULL) == NM_OK)
			(void) relocate_one(tree, job, NM_NO_PAGE, 0, no, root.lid);
		job->done = true;
		return NM_OK;
	}

	/* resume at the remembered parent if it is still that page */
	if (job->parent == NM_NO_PAGE ||
		!read_children(tree, job->parent, job->level + 1, &c) ||
		c.lid != job->parent_lid)
	{
		NmStatus st = nm_leftmost(tree, job->level + 1, &job->parent);

		if (st != NM_OK)
			return st;
		job->left_parent = NM_NO_PAGE;
		if (!read_children(tree, job->parent, job->level + 1, &c))
		{
			job->parent = NM_NO_PAGE;
			return nm_root_word(tree) == 0 ? NM_GONE : NM_OK;
		}
		job->parent_lid = c.lid;
	}

	for (;;)
	{
		for (int i = 0; i < c.n; i++)
		{
			if (relocate_one(tree, job, c.no, c.lid, c.child[i], c.child_lid[i]))
				spent++;
		}
		if (c.right == NM_NO_PAGE)
		{
			job->done = true;
			return NM_OK;
		}
		/* a parent whole, so that the resume point is a parent */
		job->left_parent = c.no;
		job->parent = c.right;
		if (!read_children(tree, c.right, job->level + 1, &c))
		{
			job->parent = NM_NO_PAGE;
			return nm_root_word(tree) == 0 ? NM_GONE : NM_OK;
		}
		job->parent_lid = c.lid;
		if (spent >= job->max_pages)
			return NM_OK;
	}
}

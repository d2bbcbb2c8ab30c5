/*-------------------------------------------------------------------------
 *
 * test_tree_check.c
 *	  Whatever is wrong with a tree's pages, nm_tree_check() says so.
 *
 * Trees of three levels, whose pages are damaged one at a time.  What is wrong
 * with leaves of runs is in test_tree_model.
 *
 * IDENTIFICATION
 *	  test/unit/test_tree_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "treelib.h"
#include "btree/page.h"

static Rng rng;

typedef enum Damage
{
	ENTRIES_SWAPPED,
	HIGH_KEY_LOW,
	HIGH_KEY_LOST,
	HIGH_KEY_NO_SIBLING,
	LINK_SKIPS_LEAF,
	LINK_SKIPS_SEAM,
	LEVEL_WRONG,
	FOREIGN_TREE,
	PAGE_NUMBER_WRONG,
	LEAF_GONE,
	NO_LOGICAL_ID,
	LOGICAL_ID_TO_COME,
	NO_TID,
	KILLED_UNSAID,
	CHILDREN_SWAPPED,
	CHILD_TWICE,
	CHILD_LOST,
	NO_CHILD,
	SEPARATOR_HIGH,
	RIGHTMOST_GOES_ON,
	ITEM_OUTSIDE,
	ITEM_SPACE,
	NULLS_TOO_MANY,
	ENTRIES_TOO_MANY,
	/* from here on only the counters tell */
	ENTRY_LOST,
	ENTRIES_MISCOUNTED,
	LEAVES_MISCOUNTED,
	INNER_MISCOUNTED,
	OVERFLOW_MISCOUNTED,
	DAMAGES
} Damage;

static const char *const names[DAMAGES] = {
	"entries swapped", "high key below entries", "high key lost", "high key without a sibling",
	"a link that skips a leaf", "a link that skips a leaf between two parents", "wrong level",
	"a page of another tree", "wrong page number", "a leaf that was unlinked", "no logical id",
	"a logical id that was never given", "no TID", "a killed entry, unsaid", "children swapped",
	"a child twice", "a child lost", "no child", "separator above its child's entries",
	"the rightmost leaf goes on", "an item outside of the page", "space of items miscounted",
	"more NULLs than entries", "more entries than fit", "an entry lost", "entries miscounted",
	"leaves miscounted", "inner pages miscounted", "overflow pages miscounted"};

/* Swap two entries of a page, keys and all. */
static void
swap_entries(NmPage *p, int a, int b)
{
	if (p->flags & NM_PF_GENERAL)
	{
		uint16_t *slots = nm_gn_slots(p, p->n);
		uint16_t slot = slots[a];

		slots[a] = slots[b];
		slots[b] = slot;
		if (p->flags & NM_PF_HEADS)
		{
			uint64_t *heads = nm_gn_heads(p);
			uint64_t head = heads[a];

			heads[a] = heads[b];
			heads[b] = head;
		}
	}
	else
	{
		int64_t *keys = nm_fx_keys(p);
		int64_t key = keys[a];

		keys[a] = keys[b];
		keys[b] = key;
	}
}

/*
 * Do it to a leaf (not the first or last) or an inner page (the first of its
 * level, with a right sibling).  False: there is no such damage to such a page.
 */
static bool
damage(NmTree *tree, NmPage *leaf, NmPage *inner, Damage how)
{
	bool general = (leaf->flags & NM_PF_GENERAL) != 0;
	NmPage *p;

	switch (how)
	{
		case ENTRIES_SWAPPED:
			swap_entries(leaf, 1, 3);
			return true;
		case HIGH_KEY_LOW:
			if (general)
				return false;
			leaf->hk_key = nm_fx_keys(leaf)[0] - 1;
			return true;
		case HIGH_KEY_LOST:
			leaf->flags &= (uint16_t) ~NM_PF_HIGH;
			return true;
		case HIGH_KEY_NO_SIBLING:
			leaf->right = NM_NO_PAGE;
			return true;
		case LINK_SKIPS_LEAF:
			leaf->right = nm_page(tree, leaf->right)->right;
			return true;
		case LINK_SKIPS_SEAM:
			p = nm_page(tree, nm_entry_child(inner, inner->n - 1));
			p->right = nm_page(tree, p->right)->right;
			return true;
		case LEVEL_WRONG:
			leaf->level = 1;
			return true;
		case FOREIGN_TREE:
			leaf->tree_id++;
			return true;
		case PAGE_NUMBER_WRONG:
			leaf->page++;
			return true;
		case LEAF_GONE:
			leaf->flags |= NM_PF_DELETED;
			return true;
		case NO_LOGICAL_ID:
			leaf->lid = UINT64_C(1) << 32;
			return true;
		case LOGICAL_ID_TO_COME:
			leaf->lid = tree->shared->next_lid;
			return true;
		case NO_TID:
			if (general)
				return false;
			nm_fx_off(leaf)[2] = 0;
			return true;
		case KILLED_UNSAID:
			nm_entry_set_killed(leaf, 2, true);
			leaf->flags &= (uint16_t) ~NM_PF_KILLED;
			return true;
		case CHILDREN_SWAPPED:
		{
			NmPageNo child = nm_entry_child(inner, 1);

			nm_entry_set_child(inner, 1, nm_entry_child(inner, 2));
			nm_entry_set_child(inner, 2, child);
			return true;
		}
		case CHILD_TWICE:
			nm_entry_set_child(inner, 1, nm_entry_child(inner, 2));
			return true;
		case CHILD_LOST:
			if (general)
				return false; /* the space accounts would tell first */
			inner->n--;
			return true;
		case NO_CHILD:
			inner->n = 0;
			return true;
		case SEPARATOR_HIGH:
			if (general)
				return false;
			p = nm_page(tree, nm_entry_child(inner, 1));
			nm_fx_keys(inner)[1] = nm_fx_keys(p)[p->n - 1];
			return true;
		case RIGHTMOST_GOES_ON:
			while (leaf->right != NM_NO_PAGE)
				leaf = nm_page(tree, leaf->right);
			p = nm_page(tree, nm_entry_child(inner, 1));
			if (general)
				return false;
			leaf->flags |= NM_PF_HIGH;
			leaf->right = p->page;
			leaf->hk_key = INT64_MAX;
			return true;
		case ITEM_OUTSIDE:
			if (!general)
				return false;
			nm_gn_slots(leaf, leaf->n)[1] = NM_BODY_END;
			return true;
		case ITEM_SPACE:
			if (!general)
				return false;
			leaf->garbage++;
			return true;
		case NULLS_TOO_MANY:
			if (general)
				return false;
			leaf->nnull = leaf->n + 1;
			return true;
		case ENTRIES_TOO_MANY:
			leaf->n = 1000;
			return true;
		case ENTRY_LOST:
			if (general)
				return false;
			leaf->n--;
			return true;
		case ENTRIES_MISCOUNTED:
			tree->shared->nentries++;
			return true;
		case LEAVES_MISCOUNTED:
			tree->shared->nleaves--;
			return true;
		case INNER_MISCOUNTED:
			tree->shared->ninner++;
			return true;
		case OVERFLOW_MISCOUNTED:
			tree->shared->noverflow++;
			return true;
		case DAMAGES:
			break;
	}
	return false;
}

static NmStatus
check(NmTree *tree, NmCheckWhen when)
{
	char msg[300];

	return nm_tree_check(tree, when, msg, sizeof(msg), NULL, NULL);
}

/* All pages of the two lowest levels, to be put back after each damage. */
typedef struct Saved
{
	NmTreeShared shared;
	int n;
	NmPage pages[1000];
} Saved;

static void
save_level(NmTree *tree, int level, Saved *saved)
{
	NmPageNo no;

	if (nm_leftmost(tree, level, &no) != NM_OK)
		fault("no level %d", level);
	for (; no != NM_NO_PAGE && saved->n < 1000; no = nm_page(tree, no)->right)
		memcpy(&saved->pages[saved->n++], nm_page(tree, no), sizeof(NmPage));
}

static void
test_damages(Universe *u, const char *name)
{
	NmPool *pool = pool_make(2, 16, 32, 4);
	NmTreeShared *shared = shared_make(u, 90);
	NmTree *tree = handle_open(pool, shared, u, false);
	NmBulk *bulk = aligned_alloc(64, (nm_bulk_size() + 63) / 64 * 64);
	Saved *saved = calloc(1, sizeof(Saved));
	NmPageNo numbers[1000];
	NmPage *leaf;
	NmPage *inner;
	int done = 0;

	nm_bulk_begin(bulk, tree, 0);
	for (int k = 0; k < u->n; k++)
		if (nm_bulk_add(bulk, &u->items[k], make_tid((uint64_t) k + 1, 1)) != NM_OK)
			fault("bulk_add");
	if (nm_bulk_finish(bulk) != NM_OK)
		fault("bulk_finish");
	free(bulk);

	if (nm_root_level(nm_root_word(tree)) != 2)
		fault("the tree has %d levels, not 3", nm_root_level(nm_root_word(tree)) + 1);
	save_level(tree, 0, saved);
	save_level(tree, 1, saved);
	memcpy(&saved->shared, shared, sizeof(*shared));
	for (int i = 0; i < saved->n; i++)
		numbers[i] = saved->pages[i].page;
	for (NmCheckWhen when = NM_CHECK_ANY_TIME; when <= NM_CHECK_QUIET; when++)
		if (check(tree, when) != NM_OK)
			fault("a sound tree is found wanting");

	leaf = nm_page(tree, nm_page(tree, numbers[0])->right);
	inner = nm_page(tree, saved->pages[saved->n - 1].page);
	for (int i = saved->n - 1; saved->pages[i].level == 1; i--)
		inner = nm_page(tree, numbers[i]);
	for (Damage how = 0; how < DAMAGES; how++)
	{
		if (damage(tree, leaf, inner, how))
		{
			NmStatus beside = check(tree, NM_CHECK_ANY_TIME);

			done++;
			/* counters are not enough for a verdict beside writers */
			if (beside != (how < ENTRY_LOST ? NM_CORRUPT : NM_STALE))
				fault("%s: beside writers: %s", names[how], status_name(beside));
			if (check(tree, NM_CHECK_NO_WRITERS) != NM_CORRUPT || check(tree, NM_CHECK_QUIET) != NM_CORRUPT)
				fault("%s: not found", names[how]);
		}
		for (int i = 0; i < saved->n; i++)
			memcpy(nm_page(tree, numbers[i]), &saved->pages[i], sizeof(NmPage));
		memcpy(shared, &saved->shared, sizeof(*shared));
		if (check(tree, NM_CHECK_QUIET) != NM_OK)
			fault("%s: not mended", names[how]);
	}
	ok(faults() == 0 && done > 18, "%d ways to damage a tree are found, %s", done, name);
	free(saved);
	handle_close(tree);
	pool_unmake(pool);
	universe_free(u);
}

int
main(void)
{
	rng.s = tap_start("test_tree_check");
	test_damages(universe_fixed(&rng, 70000, false, false), "fixed");
	test_damages(universe_fixed(&rng, 70000, true, true), "fixed, NULLs first");
	test_damages(universe_general(&rng, 20000, true, false, 60), "general, heads");
	test_damages(universe_general(&rng, 20000, false, false, 60), "general, no heads");
	return tap_done();
}

/*-------------------------------------------------------------------------
 *
 * walk.c
 *	  Counting a tree page by page, beside writers, without a comparator.
 *
 * IDENTIFICATION
 *	  src/btree/walk.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/item.h"
#include "btree/walk.h"

NM_RACY static bool
racy_is(const NmTree *tree, const NmPage *p, NmPageNo no, int level)
{
	return nm_page_is(tree, p, no, level);
}

NmStatus
nm_page_snapshot(NmTree *tree, NmPageNo no, int level, NmPage *out, uint64_t *version)
{
	for (int tries = 0; tries < 1000; tries++)
	{
		NmPage *p = nm_page(tree, no);
		uint64_t v;
		bool ok;

		if (!nm_page_no_valid(tree, no))
			return NM_STALE;
		nm_epoch_enter(tree->pool);
		if (nm_root_word(tree) == 0)
		{
			nm_epoch_exit(tree->pool);
			return NM_GONE;
		}
		v = nm_page_read_begin(p);
		nm_racy_copy(out, p, NM_BODY_END);
		ok = nm_page_validate(p, v);
		nm_epoch_exit(tree->pool);
		if (ok)
		{
			if (version)
				*version = v;
			return racy_is(tree, out, no, level) ? NM_OK : NM_STALE;
		}
	}
	return NM_STALE;
}

/* Count one level; NM_STALE if a page moved from under the walk. */
static NmStatus
count_level(NmTree *tree, int level, NmTreeStats *stats, void (*tick)(void *), void *arg)
{
	NmPageNo no;
	NmPage copy;
	NmStatus st = nm_leftmost(tree, level, &no);

	if (st != NM_OK)
		return st;
	for (;;)
	{
		st = nm_page_snapshot(tree, no, level, &copy, NULL);
		if (st != NM_OK)
			return st;
		stats->pages_by_arena[nm_pool_arena_of(tree->pool, no)]++;
		if (level == 0)
		{
			stats->leaves++;
			stats->leaves_by_arena[nm_pool_arena_of(tree->pool, no)]++;
			stats->entries += copy.n;
			if (copy.flags & NM_PF_KILLED)
				for (int i = 0; i < copy.n; i++)
					stats->killed += nm_entry_killed(&copy, i);
			if (copy.flags & (NM_PF_GENERAL | NM_PF_RUNS))
				stats->free_bytes += nm_page_gap(&copy) + copy.garbage;
			else
				stats->free_bytes += (nm_fx_cap(&copy) - copy.n) * 14;
		}
		else
			stats->inner++;
		if (copy.flags & NM_PF_GENERAL)
		{
			for (int i = -1; i < copy.n; i++)
			{
				NmPageNo over = (i == 0 && level > 0) ? NM_NO_PAGE : nm_entry_overflow(&copy, i);

				if (over != NM_NO_PAGE)
				{
					stats->overflow++;
					stats->pages_by_arena[nm_pool_arena_of(tree->pool, over)]++;
				}
			}
		}
		if (tick)
			tick(arg);
		if ((copy.flags & NM_PF_HIGH) == 0)
			return NM_OK;
		no = copy.right;
	}
}

NmStatus
nm_tree_stats(NmTree *tree, NmTreeStats *stats, void (*tick)(void *), void *arg)
{
	for (int tries = 0;; tries++)
	{
		uint64_t word = nm_root_word(tree);
		NmStatus st = NM_OK;

		memset(stats, 0, sizeof(*stats));
		if (word == 0)
			return NM_GONE;
		stats->height = nm_root_level(word) + 1;
		for (int level = nm_root_level(word); level >= 0; level--)
		{
			/* a level is counted again from its start if it moved on the way */
			NmTreeStats before = *stats;

			for (int i = 0; i < 20; i++)
			{
				*stats = before;
				st = count_level(tree, level, stats, tick, arg);
				if (st != NM_STALE)
					break;
			}
			if (st != NM_OK)
				break;
		}
		if (st != NM_STALE || tries >= 20)
			return st;
	}
}

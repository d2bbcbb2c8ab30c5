/*-------------------------------------------------------------------------
 *
 * treemove.c
 *	  Relocation of tree pages: which chunks, of which trees, in what order.
 *
 * Needs no privilege and no system call, so it works with any engine.  A pass
 * takes the policy's chunk proposals as a map (chunk -> arena) and walks every
 * tree that owns one of them: leaves first, then the inner pages, which follow
 * the tree's own winner.  nm_tree_relocate asks want() for each page in parent
 * order, so a pass costs one look at the parents and no search per leaf.
 *
 * The pool knows no owner of a page; the walk does.  Each walk notes which
 * tree it met in which chunk.  A chunk shared by trees counts for the one seen
 * last.
 *
 * IDENTIFICATION
 *	  src/migrator/treemove.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "migrator/internal.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/* Pages per call to the tree: between calls interrupts are served. */
#define STEP_PAGES 64

/* Look at a tree again when it has grown by an eighth and this many leaves. */
#define LEARN_MIN_GROWTH 64

/* No relocation to an arena that was out of memory, for this many seconds. */
#define FULL_SECONDS 60

/* A tree whose cold leaves followed is not looked through for this long. */
#define FOLLOW_SECONDS 30

typedef struct KnownTree
{
	uint64 tree_id; /* hash key; unique over the pool's life */
	NmTreeKey key;
	int64 learned_leaves; /* -1: not walked yet */
	bool seen;			  /* by the current walk over slots */
	/* the pass */
	bool wanted;
	int level;	 /* level being relocated */
	int8 follow; /* arena for leaves without a wish, or -1 */
	int8 inner;	 /* arena for inner pages, or -1 */
	bool started;
	NmRelocate job;
	NmRelocate before; /* counters already accounted */
} KnownTree;

static MemoryContext treemove_cxt = NULL;
static HTAB *trees = NULL;
static void *tree_scratch = NULL;
static NmSlot *pinned = NULL;

static uint32 nchunks = 0;
static uint64 *chunk_owner = NULL; /* tree_id, 0 unknown */
static int8 *chunk_want = NULL;	   /* arena, -1 none */

/* The pass. */
#define PASS_PLACES 256
static NmPlaceKey pass_keys[PASS_PLACES];
static int pass_to[PASS_PLACES]; /* node position */
static int pass_n = 0;
static bool pass_active = false;
static NmMoveStats pass_stats;

static double arena_full_until[NM_MAX_NODES];

/* For want(): the tree being walked. */
typedef struct Walk
{
	KnownTree *tree;
	bool learn_only;
	uint32 calls;
	NmSketch *sketch;
	NmPolicyParams *params;
} Walk;

void
nm_treemove_init(void)
{
	HASHCTL ctl = {0};

	if (nm_pool == NULL || trees != NULL)
		return;
	treemove_cxt = AllocSetContextCreate(TopMemoryContext, "numa_migrate trees", ALLOCSET_DEFAULT_SIZES);
	tree_scratch = MemoryContextAlloc(treemove_cxt, nm_tree_scratch_size());
	nchunks = (uint32) ((nm_pool->npages + NM_CHUNK_PAGES - 1) / NM_CHUNK_PAGES);
	chunk_owner = MemoryContextAllocExtended(treemove_cxt, (Size) nchunks * sizeof(uint64), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	chunk_want = MemoryContextAllocExtended(treemove_cxt, nchunks, MCXT_ALLOC_HUGE);
	memset(chunk_want, -1, nchunks);
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(KnownTree);
	ctl.hcxt = treemove_cxt;
	trees = hash_create("numa_migrate trees", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

static NmPlaceKey
chunk_key(uint32 chunk)
{
	NmPlaceKey key = {.kind = NM_PLACE_CHUNK};
	KnownTree *tree = NULL;

	if (chunk_owner[chunk] != 0)
		tree = hash_search(trees, &chunk_owner[chunk], HASH_FIND, NULL);
	if (tree)
	{
		key.spc = tree->key.spc;
		key.db = tree->key.db;
		key.rel = tree->key.rel;
	}
	key.no = chunk;
	return key;
}

bool
nm_treemove_owner(NmPageNo page, NmTreeKey *key)
{
	uint32 chunk = page / NM_CHUNK_PAGES;
	KnownTree *tree;

	if (trees == NULL || chunk >= nchunks || chunk_owner[chunk] == 0)
		return false;
	tree = hash_search(trees, &chunk_owner[chunk], HASH_FIND, NULL);
	if (tree == NULL)
		return false;
	*key = tree->key;
	return true;
}

static void
unpin(void)
{
	if (pinned)
	{
		NmSlot *slot = pinned;

		pinned = NULL;
		nm_slot_unpin(slot);
	}
}

/*
 * want() of nm_tree_relocate: target arena of a page or -1.  Called with
 * nothing held, so interrupts may be served here.
 */
static int
want(void *arg, NmPageNo page, uint64_t lid)
{
	Walk *walk = arg;
	KnownTree *tree = walk->tree;
	uint32 chunk = page / NM_CHUNK_PAGES;
	int arena;

	if ((++walk->calls & 0xFF) == 0)
		CHECK_FOR_INTERRUPTS();
	if (chunk >= nchunks)
		return -1;
	if (tree->level > 0)
		arena = tree->inner;
	else
	{
		chunk_owner[chunk] = tree->tree_id;
		if (walk->learn_only)
			return -1;
		arena = chunk_want[chunk];
		if (arena < 0 && tree->follow >= 0)
		{
			NmPlaceKey key = chunk_key(chunk);
			int node = nm_topology_index(&nm_topology, nm_pool->nodes[tree->follow]);

			if (!nm_policy_decided_elsewhere(walk->sketch, walk->params, &key, node))
				arena = tree->follow;
		}
	}
	if (arena < 0 || arena == nm_pool_arena_of(nm_pool, page))
		return -1;
	if (walk->params && walk->params->now < arena_full_until[arena])
		return -1;
	return arena;
}

static KnownTree *
know_tree(NmSlot *slot)
{
	uint64 id = slot->tree.tree_id;
	KnownTree *tree;
	bool found;

	if (id == 0)
		return NULL;
	tree = hash_search(trees, &id, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) tree + sizeof(tree->tree_id), 0, sizeof(*tree) - sizeof(tree->tree_id));
		tree->learned_leaves = -1;
		tree->follow = tree->inner = -1;
	}
	tree->key = slot->key;
	tree->seen = true;
	return tree;
}

/* Walk one pinned tree's leaves only to see where they are. */
static void
learn_tree(NmSlot *slot, KnownTree *tree)
{
	NmTree handle;
	NmRelocate job = {0};
	Walk walk = {0};
	int level = tree->level;

	nm_slot_tree(slot, &handle, tree_scratch);
	walk.tree = tree;
	walk.learn_only = true;
	job.want = want;
	job.arg = &walk;
	job.max_pages = STEP_PAGES;
	tree->level = 0;
	tree->learned_leaves = slot->tree.nleaves;
	while (!job.done)
	{
		if (nm_tree_relocate(&handle, &job) != NM_OK)
			break;
		CHECK_FOR_INTERRUPTS();
	}
	tree->level = level;
}

void
nm_treemove_learn(bool again)
{
	HASH_SEQ_STATUS scan;
	KnownTree *tree;
	NmSlot *slot;
	int cursor = 0;
	bool gone = false;

	if (trees == NULL)
		return;
	while ((slot = nm_slot_next_pinned(&cursor)) != NULL)
	{
		int64 leaves;

		pinned = slot;
		tree = know_tree(slot);
		leaves = slot->tree.nleaves;
		if (tree && (again || tree->learned_leaves < 0 ||
					 leaves > tree->learned_leaves + tree->learned_leaves / 8 + LEARN_MIN_GROWTH))
			learn_tree(slot, tree);
		unpin();
		CHECK_FOR_INTERRUPTS();
	}

	/* Forget trees that are gone; their chunks have no owner until seen again. */
	hash_seq_init(&scan, trees);
	while ((tree = hash_seq_search(&scan)) != NULL)
	{
		if (!tree->seen)
		{
			gone = true;
			(void) hash_search(trees, &tree->tree_id, HASH_REMOVE, NULL);
		}
		else
			tree->seen = false;
	}
	if (gone)
	{
		for (uint32 c = 0; c < nchunks; c++)
			if (chunk_owner[c] != 0 && hash_search(trees, &chunk_owner[c], HASH_FIND, NULL) == NULL)
				chunk_owner[c] = 0;
	}
}

static void
reset_pass(void)
{
	for (int i = 0; i < pass_n; i++)
		chunk_want[pass_keys[i].no] = -1;
	pass_n = 0;
	pass_active = false;
	memset(&pass_stats, 0, sizeof(pass_stats));
}

/*
 * Inner pages and cold leaves of a tree go where the whole tree's accesses
 * come from, if that is clear.  Inner pages are read on the way to every leaf,
 * so for them the tree's winner is all the evidence needed.
 */
static void
plan_tree(KnownTree *tree, NmSketch *sketch, NmPolicyParams *params)
{
	NmPlaceKey group = {NM_PLACE_CHUNK, tree->key.spc, tree->key.db, tree->key.rel, NM_PLACE_ALL};
	NmPlace *all = nm_sketch_find(sketch, &group);
	double chunks = (double) (tree->learned_leaves + NM_CHUNK_PAGES - 1) / NM_CHUNK_PAGES;
	int node;

	tree->follow = tree->inner = -1;
	if (all && all->candidate >= 0 && all->streak >= params->rounds &&
		params->target_ok[all->candidate])
		tree->inner = (int8) nm_pool_arena_of_node(nm_pool, nm_topology.nodes[all->candidate].id);
	node = nm_policy_follow(sketch, params, &group, chunks);
	if (node >= 0)
	{
		tree->follow = (int8) nm_pool_arena_of_node(nm_pool, nm_topology.nodes[node].id);
		/* not every round: what was left alone once mostly stays so */
		all->until = params->now + FOLLOW_SECONDS;
	}
}

void
nm_treemove_plan(const NmProposal *proposals, int n, NmSketch *sketch, NmPolicyParams *params)
{
	HASH_SEQ_STATUS scan;
	KnownTree *tree;
	bool all_wanted = false;

	if (trees == NULL || pass_active)
		return;

	for (int i = 0; i < n && pass_n < PASS_PLACES; i++)
	{
		const NmPlaceKey *key = &proposals[i].key;
		int arena;

		if (key->kind != NM_PLACE_CHUNK || key->no >= nchunks)
			continue;
		arena = nm_pool_arena_of_node(nm_pool, nm_topology.nodes[proposals[i].to].id);
		if (arena < 0)
			continue;
		chunk_want[key->no] = (int8) arena;
		pass_keys[pass_n] = *key;
		pass_to[pass_n++] = proposals[i].to;
	}

	hash_seq_init(&scan, trees);
	while ((tree = hash_seq_search(&scan)) != NULL)
	{
		plan_tree(tree, sketch, params);
		tree->wanted = tree->follow >= 0;
		tree->started = false;
		tree->level = 0;
		memset(&tree->job, 0, sizeof(tree->job));
		memset(&tree->before, 0, sizeof(tree->before));
	}
	for (int i = 0; i < pass_n; i++)
	{
		uint64 owner = chunk_owner[pass_keys[i].no];

		tree = owner ? hash_search(trees, &owner, HASH_FIND, NULL) : NULL;
		if (tree)
			tree->wanted = true;
		else
			all_wanted = true; /* a new chunk: the walk finds whose it is */
	}

	hash_seq_init(&scan, trees);
	while ((tree = hash_seq_search(&scan)) != NULL)
	{
		tree->wanted |= all_wanted;
		pass_active |= tree->wanted;
	}
	if (!pass_active)
		reset_pass();
}

/* Account what the job did since the last time. */
static void
account(KnownTree *tree, int64 *budget, double elapsed_ms, double now)
{
	NmMoveStats delta = {0};
	NmRelocate *job = &tree->job;
	NmRelocate *before = &tree->before;
	int arena;

	delta.moved = job->moved - before->moved;
	delta.already = job->already - before->already;
	delta.busy = job->busy - before->busy;
	delta.failed = job->nomem - before->nomem;
	delta.asked = delta.moved + delta.already + delta.busy + delta.failed;
	delta.calls = 1;
	delta.elapsed_ms = elapsed_ms;
	*before = *job;
	*budget -= delta.moved * NM_PAGE_SIZE;
	nm_stat_add_moves(NM_MOVE_TREE, true, &delta);

	pass_stats.asked += delta.asked;
	pass_stats.moved += delta.moved;
	pass_stats.already += delta.already;
	pass_stats.busy += delta.busy;
	pass_stats.failed += delta.failed;

	if (delta.failed > 0)
	{
		/* The job doesn't say which arena was full: all it could have meant. */
		arena = tree->level > 0 ? tree->inner : tree->follow;
		if (arena >= 0)
			arena_full_until[arena] = now + FULL_SECONDS;
		for (int i = 0; i < pass_n; i++)
		{
			arena = chunk_want[pass_keys[i].no];
			if (arena >= 0)
				arena_full_until[arena] = now + FULL_SECONDS;
		}
	}
}

/* Go on with one pinned tree; true when its part of the pass is over. */
static bool
step_tree(NmSlot *slot, KnownTree *tree, int64 *budget, NmSketch *sketch, NmPolicyParams *params)
{
	NmTree handle;
	Walk walk = {0};

	nm_slot_tree(slot, &handle, tree_scratch);
	walk.tree = tree;
	walk.sketch = sketch;
	walk.params = params;

	for (;;)
	{
		int height = (int) (slot->tree.root >> 32) + 1;
		uint64 t0;
		NmStatus status;

		if (!tree->started)
		{
			memset(&tree->job, 0, sizeof(tree->job));
			memset(&tree->before, 0, sizeof(tree->before));
			tree->job.level = tree->level;
			tree->started = true;
		}
		tree->job.want = want;
		tree->job.arg = &walk;
		tree->job.max_pages = STEP_PAGES;
		t0 = nm_now_ns();
		status = nm_tree_relocate(&handle, &tree->job);
		account(tree, budget, (nm_now_ns() - t0) / 1e6, params->now);
		CHECK_FOR_INTERRUPTS();
		if (status != NM_OK && status != NM_END)
			return true; /* gone, or no memory: a later pass */
		if (tree->job.done)
		{
			if (tree->level == 0)
				tree->learned_leaves = slot->tree.nleaves;
			if (tree->inner < 0 || tree->level + 1 >= height)
				return true;
			tree->level++;
			tree->started = false;
		}
		if (*budget <= 0)
			return false;
	}
}

bool
nm_treemove_active(void)
{
	return pass_active;
}

bool
nm_treemove_step(int64 *budget, NmSketch *sketch, NmPolicyParams *params, uint64 *places)
{
	HASH_SEQ_STATUS scan;
	KnownTree *tree;
	NmSlot *slot;
	int cursor = 0;

	if (!pass_active)
		return false;
	while (*budget > 0 && (slot = nm_slot_next_pinned(&cursor)) != NULL)
	{
		uint64 id = slot->tree.tree_id;

		pinned = slot;
		tree = id ? hash_search(trees, &id, HASH_FIND, NULL) : NULL;
		if (tree && tree->wanted && step_tree(slot, tree, budget, sketch, params))
			tree->wanted = false;
		unpin();
	}
	if (*budget <= 0)
		return true; /* trees left over wait for the next round */

	/* All slots were visited: trees still wanted are gone. */
	hash_seq_init(&scan, trees);
	while ((tree = hash_seq_search(&scan)) != NULL)
		tree->wanted = false;
	for (int i = 0; i < pass_n; i++)
		nm_policy_outcome(sketch, params, &pass_keys[i], pass_to[i], &pass_stats);
	if (pass_stats.moved > 0)
		*places += pass_n;
	reset_pass();
	return false;
}

/* After an error anywhere in the worker: nothing pinned, no pass half done. */
void
nm_treemove_abort(void)
{
	unpin();
	if (trees != NULL)
		reset_pass();
}

/*-------------------------------------------------------------------------
 *
 * olc.c
 *	  The control: a plain B+-tree with optimistic lock coupling.
 *
 * Readers take a node's version, read, and compare the version again; before
 * they use what they read of a parent they have taken the child's version.
 * Writers turn the version they read into a lock by one compare-and-swap, so
 * what they read still holds.  A full node met on the way down is split at
 * once, under the locks of it and of its parent, which therefore has room.
 *
 * What readers load while a writer is in the node is a data race that the
 * version tells from a good read; counts are clamped before use.  The functions
 * that race so carry NM_RACY and ThreadSanitizer sees all others.
 *
 * IDENTIFICATION
 *	  bench/treebench/olc.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "olc.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#define OLC_LOCKED UINT64_C(1)

typedef struct OlcNode
{
	uint64_t version; /* bit 0: locked; grows by 2 per change */
	uint16_t level;	  /* 0 = leaf */
	uint16_t n;		  /* keys */
	uint32_t unused;
	struct OlcNode *next; /* leaf: the next one in key order */
	char body[OLC_NODE_SIZE - 24];
} OlcNode;

_Static_assert(sizeof(OlcNode) == OLC_NODE_SIZE, "a node is a page");

#define OLC_LEAF_CAP  ((OLC_NODE_SIZE - 24) / 16) /* 254 */
#define OLC_INNER_CAP (OLC_LEAF_CAP - 1)		  /* keys; one child more */

struct OlcTree
{
	OlcNode *root;
	char *base;
	size_t bytes;
	size_t used; /* bytes handed out */
};

/* ThreadSanitizer knows no fences; on x86 loads are ordered anyway. */
#ifdef NM_TSAN
#define FENCE(order) __asm__ __volatile__("" :: \
											  : "memory")
#else
#define FENCE(order) __atomic_thread_fence(order)
#endif

static inline int64_t *
keys_of(const OlcNode *node)
{
	return (int64_t *) node->body;
}

static inline uint64_t *
values_of(const OlcNode *node)
{
	return (uint64_t *) (node->body + 8 * OLC_LEAF_CAP);
}

static inline OlcNode **
children_of(const OlcNode *node)
{
	return (OlcNode **) (node->body + 8 * OLC_LEAF_CAP);
}

/* ---- versions ---- */

/* False: somebody writes, start over. */
static inline bool
read_begin(const OlcNode *node, uint64_t *version)
{
	*version = __atomic_load_n(&node->version, __ATOMIC_ACQUIRE);
	return nm_likely((*version & OLC_LOCKED) == 0);
}

static inline bool
still(const OlcNode *node, uint64_t version)
{
	FENCE(__ATOMIC_ACQUIRE);
	return nm_likely(__atomic_load_n(&node->version, __ATOMIC_ACQUIRE) == version);
}

static inline bool
upgrade(OlcNode *node, uint64_t version)
{
	bool got = __atomic_compare_exchange_n(&node->version, &version, version | OLC_LOCKED, false,
										   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);

	FENCE(__ATOMIC_RELEASE);
	return got;
}

static inline void
unlock(OlcNode *node)
{
	uint64_t v = __atomic_load_n(&node->version, __ATOMIC_RELAXED);

	__atomic_store_n(&node->version, v + 1, __ATOMIC_RELEASE);
}

/* Between attempts: the other one may want this CPU. */
static void
back_off(int *attempts)
{
	if (++*attempts < 16)
		nm_cpu_pause();
	else
		sched_yield();
}

/* ---- nodes ---- */

static OlcNode *
make_node(OlcTree *tree, int level)
{
	size_t at = __atomic_fetch_add(&tree->used, sizeof(OlcNode), __ATOMIC_RELAXED);
	OlcNode *node;

	if (at + sizeof(OlcNode) > tree->bytes)
		return NULL;
	node = (OlcNode *) (tree->base + at);
	node->level = (uint16_t) level;
	return node;
}

OlcTree *
olc_create(size_t max_bytes, bool huge_pages)
{
	OlcTree *tree = calloc(1, sizeof(OlcTree));

	tree->bytes = max_bytes / OLC_NODE_SIZE * OLC_NODE_SIZE;
	tree->base = mmap(NULL, tree->bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tree->base == MAP_FAILED)
	{
		free(tree);
		return NULL;
	}
	/* on small pages nodes can be moved one by one, as the pool's are */
	(void) madvise(tree->base, tree->bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	tree->root = make_node(tree, 0);
	if (tree->root == NULL)
	{
		olc_destroy(tree);
		return NULL;
	}
	return tree;
}

void
olc_destroy(OlcTree *tree)
{
	munmap(tree->base, tree->bytes);
	free(tree);
}

NM_RACY static inline int
count_of(const OlcNode *node)
{
	int n = node->n;
	int cap = node->level == 0 ? OLC_LEAF_CAP : OLC_INNER_CAP;

	return n < cap ? n : cap;
}

/*
 * Keys of the node that are less than this one.  By jumps: without them, each
 * comparison waits for the load before it, and lookups took a quarter longer and more.
 */
NM_RACY static inline int
lower_bound(const OlcNode *node, int n, int64_t key)
{
	const int64_t *keys = keys_of(node);
	int lo = 0;

	while (lo < n)
	{
		int mid = lo + (n - lo) / 2;

		if (keys[mid] < key)
			lo = mid + 1;
		else
			n = mid;
	}
	return lo;
}

NM_RACY static inline OlcNode *
child_of(const OlcNode *node, int64_t key)
{
	return children_of(node)[lower_bound(node, count_of(node), key)];
}

NM_RACY static inline bool
is_leaf(const OlcNode *node)
{
	return node->level == 0;
}

/*
 * The leaf whose range has the key, at a version that was current while the
 * parent still named it.
 */
static OlcNode *
find_leaf(OlcTree *tree, int64_t key, uint64_t *version)
{
	int attempts = 0;

	for (;; back_off(&attempts))
	{
		OlcNode *node = __atomic_load_n(&tree->root, __ATOMIC_ACQUIRE);
		uint64_t v;

		if (!read_begin(node, &v) || node != __atomic_load_n(&tree->root, __ATOMIC_ACQUIRE))
			continue;
		while (!is_leaf(node))
		{
			OlcNode *child = child_of(node, key);
			uint64_t cv;

			if (!still(node, v) || !read_begin(child, &cv) || !still(node, v))
				break;
			node = child;
			v = cv;
		}
		if (is_leaf(node))
		{
			*version = v;
			return node;
		}
	}
}

NM_RACY static bool
leaf_get(const OlcNode *leaf, int64_t key, uint64_t *value)
{
	int n = count_of(leaf);
	int at = lower_bound(leaf, n, key);

	if (at >= n || keys_of(leaf)[at] != key)
		return false;
	*value = values_of(leaf)[at];
	return true;
}

bool
olc_lookup(OlcTree *tree, int64_t key, uint64_t *value)
{
	int attempts = 0;

	for (;; back_off(&attempts))
	{
		uint64_t v;
		OlcNode *leaf = find_leaf(tree, key, &v);
		bool found = leaf_get(leaf, key, value);

		if (still(leaf, v))
			return found;
	}
}

/* memcpy, but under ThreadSanitizer by an uninstrumented loop. */
NM_RACY static inline void
copy_racy(void *dst, const void *src, size_t n)
{
#ifdef NM_TSAN
	uint64_t *d = dst;
	const volatile uint64_t *s = src;

	for (size_t i = 0; i < n; i++)
		d[i] = s[i];
#else
	memcpy(dst, src, n * 8);
#endif
}

NM_RACY static int
leaf_copy(const OlcNode *leaf, int64_t from, int max, int64_t *keys, uint64_t *values, OlcNode **next)
{
	int n = count_of(leaf);
	int at = lower_bound(leaf, n, from);
	int take = n - at < max ? n - at : max;

	copy_racy(keys, keys_of(leaf) + at, (size_t) take);
	copy_racy(values, values_of(leaf) + at, (size_t) take);
	*next = leaf->next;
	return take;
}

int
olc_scan(OlcTree *tree, int64_t from, int max, int64_t *keys, uint64_t *values)
{
	int have = 0;
	int attempts = 0;
	uint64_t v;
	OlcNode *leaf = find_leaf(tree, from, &v);

	for (;;)
	{
		OlcNode *next;
		uint64_t nv = 0;
		int n = leaf_copy(leaf, from, max - have, keys + have, values + have, &next);

		/* the next leaf's version while this one still names it */
		if (still(leaf, v) && (next == NULL || have + n == max || (read_begin(next, &nv) && still(leaf, v))))
		{
			have += n;
			if (next == NULL || have == max)
				return have;
			if (n > 0)
			{
				if (keys[have - 1] == INT64_MAX)
					return have;
				from = keys[have - 1] + 1;
			}
			leaf = next;
			v = nv;
		}
		else
		{
			back_off(&attempts);
			leaf = find_leaf(tree, from, &v);
		}
	}
}

/* ---- writers ---- */

/* Move the upper half into a new node; both locked or private. */
static OlcNode *
split(OlcTree *tree, OlcNode *node, int64_t *separator)
{
	OlcNode *right = make_node(tree, node->level);
	int keep = node->n / 2;

	if (right == NULL)
		return NULL;
	if (node->level == 0)
	{
		/* keys up to the separator stay */
		right->n = (uint16_t) (node->n - keep);
		memcpy(keys_of(right), keys_of(node) + keep, right->n * 8u);
		memcpy(values_of(right), values_of(node) + keep, right->n * 8u);
		right->next = node->next;
		node->next = right;
		*separator = keys_of(node)[keep - 1];
	}
	else
	{
		/* the separator itself moves up */
		right->n = (uint16_t) (node->n - keep - 1);
		memcpy(keys_of(right), keys_of(node) + keep + 1, right->n * 8u);
		memcpy(children_of(right), children_of(node) + keep + 1, (right->n + 1u) * 8u);
		*separator = keys_of(node)[keep];
	}
	node->n = (uint16_t) keep;
	return right;
}

static void
add_child(OlcNode *parent, int64_t separator, OlcNode *right)
{
	int at = lower_bound(parent, parent->n, separator);
	size_t move = (size_t) (parent->n - at);

	memmove(keys_of(parent) + at + 1, keys_of(parent) + at, move * 8);
	memmove(children_of(parent) + at + 2, children_of(parent) + at + 1, move * 8);
	keys_of(parent)[at] = separator;
	children_of(parent)[at + 1] = right;
	parent->n++;
}

/*
 * Split a full node.  Locks it and its parent (NULL: it is the root) from
 * versions; if one of them has changed, or after the split, the caller starts
 * over.  False: no room.
 */
static bool
split_node(OlcTree *tree, OlcNode *parent, uint64_t pv, OlcNode *node, uint64_t v)
{
	int64_t separator;
	OlcNode *right;
	OlcNode *root = NULL;

	if (parent != NULL && !upgrade(parent, pv))
		return true;
	if (!upgrade(node, v))
	{
		if (parent != NULL)
			unlock(parent);
		return true;
	}
	if (parent == NULL)
	{
		/* while it is locked nobody else can make a root over it */
		if (node != __atomic_load_n(&tree->root, __ATOMIC_RELAXED))
		{
			unlock(node);
			return true;
		}
		root = make_node(tree, node->level + 1);
	}
	right = parent == NULL && root == NULL ? NULL : split(tree, node, &separator);
	if (right != NULL && parent != NULL)
		add_child(parent, separator, right);
	else if (right != NULL)
	{
		root->n = 1;
		keys_of(root)[0] = separator;
		children_of(root)[0] = node;
		children_of(root)[1] = right;
		__atomic_store_n(&tree->root, root, __ATOMIC_RELEASE);
	}
	unlock(node);
	if (parent != NULL)
		unlock(parent);
	return right != NULL;
}

static void
leaf_put(OlcNode *leaf, int64_t key, uint64_t value)
{
	int at = lower_bound(leaf, leaf->n, key);
	size_t move = (size_t) (leaf->n - at);

	if (move > 0 && keys_of(leaf)[at] == key)
	{
		values_of(leaf)[at] = value;
		return;
	}
	memmove(keys_of(leaf) + at + 1, keys_of(leaf) + at, move * 8);
	memmove(values_of(leaf) + at + 1, values_of(leaf) + at, move * 8);
	keys_of(leaf)[at] = key;
	values_of(leaf)[at] = value;
	leaf->n++;
}

NM_RACY static inline bool
is_full(const OlcNode *node)
{
	return node->n >= (node->level == 0 ? OLC_LEAF_CAP : OLC_INNER_CAP);
}

bool
olc_insert(OlcTree *tree, int64_t key, uint64_t value)
{
	int attempts = 0;

	for (;; back_off(&attempts))
	{
		OlcNode *node = __atomic_load_n(&tree->root, __ATOMIC_ACQUIRE);
		OlcNode *parent = NULL;
		uint64_t v;
		uint64_t pv = 0;

		if (!read_begin(node, &v) || node != __atomic_load_n(&tree->root, __ATOMIC_ACQUIRE))
			continue;
		for (;;)
		{
			OlcNode *child;
			uint64_t cv;

			if (is_full(node))
			{
				if (!split_node(tree, parent, pv, node, v))
					return false;
				break;
			}
			if (is_leaf(node))
			{
				if (!upgrade(node, v))
					break;
				leaf_put(node, key, value);
				unlock(node);
				return true;
			}
			child = child_of(node, key);
			if (!still(node, v) || !read_begin(child, &cv) || !still(node, v))
				break;
			parent = node;
			pv = v;
			node = child;
			v = cv;
		}
	}
}

/* ---- walks ---- */

/*
 * Descend to the leaf of a key, noting the nodes; *high gets the highest key
 * that leads there.  False: start over.
 */
static bool
note_path(OlcTree *tree, int64_t key, void **nodes, int *n, int64_t *high)
{
	OlcNode *node = __atomic_load_n(&tree->root, __ATOMIC_ACQUIRE);
	uint64_t v;

	*n = 0;
	*high = INT64_MAX;
	if (!read_begin(node, &v) || node != __atomic_load_n(&tree->root, __ATOMIC_ACQUIRE))
		return false;
	for (;;)
	{
		OlcNode *child;
		uint64_t cv;
		int at;
		int keys;
		int64_t separator = INT64_MAX;

		nodes[(*n)++] = node;
		if (is_leaf(node))
			return still(node, v);
		keys = count_of(node);
		at = lower_bound(node, keys, key);
		if (at < keys)
			copy_racy(&separator, keys_of(node) + at, 1);
		copy_racy(&child, children_of(node) + at, 1);
		if (!still(node, v) || !read_begin(child, &cv) || !still(node, v))
			return false;
		if (separator < *high)
			*high = separator;
		node = child;
		v = cv;
	}
}

size_t
olc_paths(OlcTree *tree, int64_t from, int64_t to, void **nodes, size_t max)
{
	size_t total = 0;
	int attempts = 0;

	for (;;)
	{
		void *path[16];
		int n;
		int64_t high;

		if (!note_path(tree, from, path, &n, &high))
		{
			back_off(&attempts);
			continue;
		}
		for (int i = 0; i < n; i++, total++)
		{
			if (total < max)
				nodes[total] = path[i];
		}
		if (high >= to)
			return total;
		from = high + 1;
	}
}

void
olc_stats(const OlcTree *tree, OlcStats *stats)
{
	const OlcNode *first = tree->root;
	const OlcNode *leaf;

	memset(stats, 0, sizeof(*stats));
	stats->height = first->level + 1;
	for (leaf = first; leaf->level > 0; leaf = children_of(leaf)[0])
		;
	for (; leaf != NULL; leaf = leaf->next)
	{
		stats->leaves++;
		stats->entries += leaf->n;
	}
	/* nothing is ever given back */
	stats->inner = tree->used / OLC_NODE_SIZE - stats->leaves;
}

/* Keys of the subtree lie in (low, high]; *chain is the leaf before it. */
static const char *
check_node(const OlcNode *node, int level, const int64_t *low, const int64_t *high, const OlcNode **chain)
{
	const int64_t *keys = keys_of(node);

	if (node->level != level)
		return "a node of the wrong level";
	if (node->version & OLC_LOCKED)
		return "a node is locked";
	if (node->n > (level == 0 ? OLC_LEAF_CAP : OLC_INNER_CAP))
		return "a node with too many keys";
	for (int i = 0; i < node->n; i++)
	{
		if (i > 0 && keys[i] <= keys[i - 1])
			return "keys out of order";
		if ((low != NULL && keys[i] <= *low) || (high != NULL && keys[i] > *high))
			return "a key outside its parent's bounds";
	}
	if (level == 0)
	{
		if (*chain != NULL && (*chain)->next != node)
			return "the chain of leaves leaves one out";
		*chain = node;
		return NULL;
	}
	if (node->n == 0)
		return "an inner node without keys";
	for (int i = 0; i <= node->n; i++)
	{
		const char *wrong = check_node(children_of(node)[i], level - 1, i > 0 ? &keys[i - 1] : low,
									   i < node->n ? &keys[i] : high, chain);

		if (wrong != NULL)
			return wrong;
	}
	return NULL;
}

const char *
olc_check(const OlcTree *tree)
{
	const OlcNode *chain = NULL;
	const char *wrong = check_node(tree->root, tree->root->level, NULL, NULL, &chain);

	if (wrong == NULL && chain->next != NULL)
		wrong = "the chain of leaves goes on behind the last one";
	return wrong;
}

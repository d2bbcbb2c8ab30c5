/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Storage parameters of a numa_btree index: fillfactor and node.
 *
 * IDENTIFICATION
 *	  src/am/options.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "access/reloptions.h"

#define NM_MIN_FILLFACTOR 10

static relopt_kind nm_relopt_kind;

/*
 * Called once when the library is loaded.  node takes any number: whether
 * such a node exists is this machine's affair, and a dump may come from another
 * one.  A node that can't be used is as good as none.
 */
void
nm_init_reloptions(void)
{
	nm_relopt_kind = add_reloption_kind();
	add_int_reloption(nm_relopt_kind, "fillfactor",
					  "Packs the leaves of a numa_btree index only to this percentage",
					  NM_DEFAULT_FILLFACTOR, NM_MIN_FILLFACTOR, 100,
					  ShareUpdateExclusiveLock);
	add_int_reloption(nm_relopt_kind, "node",
					  "Memory node that new pages of a numa_btree index go to, -1 for the node of the inserting process",
					  -1, -1, 65535, ShareUpdateExclusiveLock);
	/* as nbtree calls it, so that its index definitions can be used as they are */
	add_bool_reloption(nm_relopt_kind, "deduplicate_items",
					   "Lets the leaves of a numa_btree index store equal keys once",
					   true, ShareUpdateExclusiveLock);
}

bytea *
nm_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
		{"fillfactor", RELOPT_TYPE_INT, offsetof(NmOptions, fillfactor)},
		{"node", RELOPT_TYPE_INT, offsetof(NmOptions, node)},
		{"deduplicate_items", RELOPT_TYPE_BOOL, offsetof(NmOptions, merge)},
	};

	return (bytea *) build_reloptions(reloptions, validate, nm_relopt_kind,
									  sizeof(NmOptions), tab, lengthof(tab));
}

int
nm_index_fillfactor(Relation index)
{
	NmOptions *options = (NmOptions *) index->rd_options;

	return options ? options->fillfactor : NM_DEFAULT_FILLFACTOR;
}

bool
nm_index_merge(Relation index)
{
	NmOptions *options = (NmOptions *) index->rd_options;

	return options ? options->merge : true;
}

int
nm_index_arena(Relation index)
{
	NmOptions *options = (NmOptions *) index->rd_options;

	if (options && options->node >= 0)
	{
		int arena = nm_pool_arena_of_node(nm_pool, options->node);

		if (arena >= 0)
			return arena;
	}
	return nm_local_arena();
}

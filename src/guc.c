/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Settings numa_migrate.*.
 *
 * Settings of postmaster context are defined only while preloading, since
 * defining them later is an error; their variables keep the defaults then.
 *
 * IDENTIFICATION
 *	  src/guc.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>
#include <unistd.h>

#include "numa_migrate.h"

#include "utils/guc.h"

int nm_max_memory = 1024;
int nm_memory_limit = -1;
int nm_when_full = NM_WHEN_FULL_ERROR;
int nm_pool_page_size = NM_POOL_PAGE_4KB;
int nm_engine = NM_ENGINE_AUTO;
int nm_mode = NM_MODE_AUTO;
int nm_batch = 0;
int nm_policy = NM_POLICY_OFF;
char *nm_nodes = NULL;
int nm_naptime = 1000;
int nm_rate_limit = 100;
int nm_sample_rate = 1000;
int nm_max_latency = 10;
int nm_load = NM_LOAD_EAGER;
int nm_max_trees = 4096;
bool nm_debug_relocate = false;

/* Not built yet; only their "off" can be chosen. */
static bool snapshot_off = false;
static int postcopy_off = 0;
static int restore_whole = 0;

static const struct config_enum_entry when_full_options[] = {
	{"error", NM_WHEN_FULL_ERROR, false},
	{"unload", NM_WHEN_FULL_UNLOAD, false},
	{NULL, 0, false}};

static const struct config_enum_entry page_size_options[] = {
	{"4kB", NM_POOL_PAGE_4KB, false},
	{"2MB", NM_POOL_PAGE_2MB, false},
	{NULL, 0, false}};

static const struct config_enum_entry engine_options[] = {
	{"auto", NM_ENGINE_AUTO, false},
	{"move_pages2", NM_ENGINE_MOVE_PAGES2, false},
	{"move_pages", NM_ENGINE_MOVE_PAGES, false},
	{"off", NM_ENGINE_OFF, false},
	{NULL, 0, false}};

static const struct config_enum_entry mode_options[] = {
	{"auto", NM_MODE_AUTO, false},
	{"async", NM_MODE_ASYNC, false},
	{"sync_light", NM_MODE_SYNC_LIGHT, false},
	{"sync", NM_MODE_SYNC, false},
	{NULL, 0, false}};

static const struct config_enum_entry policy_options[] = {
	{"off", NM_POLICY_OFF, false},
	{"affinity", NM_POLICY_AFFINITY, false},
	{"balance", NM_POLICY_BALANCE, false},
	{"tier", NM_POLICY_TIER, false},
	{NULL, 0, false}};

static const struct config_enum_entry load_options[] = {
	{"eager", NM_LOAD_EAGER, false},
	{"lazy", NM_LOAD_LAZY, false},
	{NULL, 0, false}};

static const struct config_enum_entry postcopy_options[] = {
	{"off", 0, false},
	{"next_touch", 1, false},
	{NULL, 0, false}};

static const struct config_enum_entry restore_options[] = {
	{"whole", 0, false},
	{"on_demand", 1, false},
	{"userfaultfd", 2, false},
	{NULL, 0, false}};

/*
 * Values that name a part which is not built yet are refused when set, so
 * that nobody believes they are in force.
 */
static bool
refuse(const char *what)
{
	GUC_check_errdetail("%s is not supported by this version of numa_migrate.", what);
	return false;
}

static bool
check_snapshot(bool *newval, void **extra, GucSource source)
{
	return !*newval || refuse("Saving index snapshots");
}

static bool
check_postcopy(int *newval, void **extra, GucSource source)
{
	return *newval == 0 || refuse("Moving pages on next touch");
}

static bool
check_restore(int *newval, void **extra, GucSource source)
{
	return *newval == 0 || refuse("Restoring an index on demand");
}

static bool
check_policy(int *newval, void **extra, GucSource source)
{
	return *newval != NM_POLICY_TIER || refuse("The policy \"tier\"");
}

static bool
check_nodes(char **newval, void **extra, GucSource source)
{
	uint64_t bits[16] = {0};

	if (*newval == NULL || **newval == '\0')
		return true;
	if (!nm_parse_node_list(*newval, bits, 1024))
	{
		GUC_check_errdetail("The list must look like \"0,2-3\".");
		return false;
	}
	for (int i = 0; i < 1024; i++)
	{
		if ((bits[i / 64] & (UINT64CONST(1) << (i % 64))) == 0)
			continue;
		if (nm_topology_index(&nm_topology, i) < 0)
		{
			GUC_check_errdetail("This machine has no node %d.", i);
			return false;
		}
	}
	return true;
}

/* A quarter of the machine's memory, in MB: the default of max_memory. */
static int
quarter_of_memory(void)
{
	int64 pages = sysconf(_SC_PHYS_PAGES);
	int64 mb = pages > 0 ? pages * (int64) sysconf(_SC_PAGESIZE) / (4 * 1024 * 1024) : 1024;

	return (int) Min(Max(mb, 64), INT_MAX / 2);
}

void
nm_define_gucs(bool preloading)
{
	if (preloading)
	{
		/* a variable that isn't zero must be its setting's default: 16 and later assert it */
		nm_max_memory = quarter_of_memory();
		DefineCustomIntVariable("numa_migrate.max_memory",
								"Address space of the page pool, per node.",
								"Each node's arena reserves this much; memory is committed as indexes grow.",
								&nm_max_memory, nm_max_memory, 64, 16 * 1024 * 1024,
								PGC_POSTMASTER, GUC_UNIT_MB, NULL, NULL, NULL);
		DefineCustomIntVariable("numa_migrate.max_trees",
								"Number of numa_btree indexes that can be in memory at once, over all databases.",
								NULL,
								&nm_max_trees, 4096, 16, 1024 * 1024,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
		DefineCustomEnumVariable("numa_migrate.pool_page_size",
								 "Size of the memory pages behind the pool.",
								 "2MB are transparent huge pages; where the kernel has none to give, memory lies on 4kB pages.",
								 &nm_pool_page_size, NM_POOL_PAGE_4KB, page_size_options,
								 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	}

	DefineCustomIntVariable("numa_migrate.memory_limit",
							"Memory that numa_btree indexes may commit in all.",
							"-1 means max_memory.",
							&nm_memory_limit, -1, -1, 16 * 1024 * 1024,
							PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.when_full",
							 "What an insert does when memory_limit is reached.",
							 "\"unload\" takes a non-unique index out of memory so that writes go on.",
							 &nm_when_full, NM_WHEN_FULL_ERROR, when_full_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.engine",
							 "System call that moves pages of shared buffers.",
							 "Tree pages move by relocation with any engine.",
							 &nm_engine, NM_ENGINE_AUTO, engine_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.mode",
							 "How hard the kernel tries to move a page.",
							 "Ignored by engine move_pages.",
							 &nm_mode, NM_MODE_AUTO, mode_options,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("numa_migrate.batch",
							"Pages unmapped at once by move_pages2; pages per call with move_pages.",
							"0 chooses automatically.",
							&nm_batch, 0, 0, NM_BATCH_MAX,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.policy",
							 "What the background worker does.",
							 NULL,
							 &nm_policy, NM_POLICY_OFF, policy_options,
							 PGC_SIGHUP, 0, check_policy, NULL, NULL);
	DefineCustomStringVariable("numa_migrate.nodes",
							   "Nodes that pages may be moved to; empty means all allowed ones.",
							   NULL,
							   &nm_nodes, "",
							   PGC_SIGHUP, 0, check_nodes, NULL, NULL);
	DefineCustomIntVariable("numa_migrate.naptime",
							"Time between rounds of the background worker.",
							NULL,
							&nm_naptime, 1000, 10, 3600 * 1000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("numa_migrate.rate_limit",
							"Megabytes per second that the background worker may move; 0 means no limit.",
							NULL,
							&nm_rate_limit, 100, 0, 1024 * 1024,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("numa_migrate.sample_rate",
							"One access in this many is sampled; 0 turns sampling off.",
							NULL,
							&nm_sample_rate, 1000, 0, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("numa_migrate.max_latency",
							"Longest pause that one step of the background worker may cause.",
							NULL,
							&nm_max_latency, 10, 1, 10000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.load",
							 "When numa_btree indexes are loaded after a start.",
							 "\"eager\" loads them in the background and plans without them until then; "
							 "\"lazy\" loads an index at its first scan.",
							 &nm_load, NM_LOAD_EAGER, load_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("numa_migrate.snapshot",
							 "Saves indexes at shutdown (not supported yet).",
							 NULL,
							 &snapshot_off, false,
							 PGC_SIGHUP, 0, check_snapshot, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.postcopy",
							 "Moves pages when they are next touched (not supported yet).",
							 NULL,
							 &postcopy_off, 0, postcopy_options,
							 PGC_SIGHUP, 0, check_postcopy, NULL, NULL);
	DefineCustomEnumVariable("numa_migrate.restore",
							 "How an index snapshot is brought back (only whole is supported).",
							 NULL,
							 &restore_whole, 0, restore_options,
							 PGC_SIGHUP, 0, check_restore, NULL, NULL);

	/* for tests and developers */
	DefineCustomBoolVariable("numa_migrate.debug_relocate",
							 "numa.move_relation() copies pages of a numa_btree index that are on the wanted node, too.",
							 "Lets relocation be tested on a machine with one node.",
							 &nm_debug_relocate, false,
							 PGC_SUSET, GUC_NO_SHOW_ALL | GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	nm_define_stop();

	/* without preload the settings of the server's start are not ours to judge */
	if (preloading)
		MarkGUCPrefixReserved(NM_EXTENSION);
}

/*-------------------------------------------------------------------------
 *
 * numa_migrate.c
 *	  Library entry: settings, shared memory, attachment of processes.
 *
 * Loading never fails.  With preload the postmaster reserves shared memory,
 * creates the page pool and registers the workers; without it only the
 * settings and the hooks that keep a table usable are installed.
 *
 * IDENTIFICATION
 *	  src/numa_migrate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <errno.h>
#include <unistd.h>

#include "numa_migrate.h"

#include "access/twophase.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

void _PG_init(void);

LWLockPadded *nm_locks = NULL;
NmTopology nm_topology;
NmMoverCaps nm_caps;
NmPool *nm_pool = NULL;

static bool caps_probed = false;
static bool attached = false;
static char pool_error[256];

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void nm_shmem_request(void);
static void nm_shmem_startup(void);

/*
 * Processes that may exist at once.  Every PGPROC has a number below this, so
 * the number serves as the process's epoch slot and sample ring.
 */
int
nm_process_slots(void)
{
	return MaxBackends + NUM_AUXILIARY_PROCS + max_prepared_xacts;
}

int
nm_my_slot(void)
{
	return nm_proc_number(MyProc);
}

static void
pool_lock(void *arg)
{
	LWLockAcquire(NmLock(NM_LOCK_POOL), LW_EXCLUSIVE);
}

static void
pool_unlock(void *arg)
{
	LWLockRelease(NmLock(NM_LOCK_POOL));
}

/*
 * What the pool is to be: one arena per allowed node, each with address space
 * for all of max_memory, since any node may come to hold everything.
 */
static void
pool_config(NmPoolConfig *config)
{
	Size bytes = (Size) nm_max_memory * 1024 * 1024;
	Size most;

	memset(config, 0, sizeof(*config));
	for (int i = 0; i < nm_topology.nnodes; i++)
	{
		if (nm_topology.nodes[i].allowed)
			config->nodes[config->narenas++] = nm_topology.nodes[i].id;
	}
	if (config->narenas == 0)
		config->nodes[config->narenas++] = 0;

	/* page numbers are 32 bits over all arenas */
	most = ((Size) UINT32_MAX / config->narenas) * NM_PAGE_SIZE;
	bytes = Min(bytes, most);
	bytes = Max(bytes, (Size) NM_CHUNK_SIZE);
	config->arena_bytes = bytes / NM_CHUNK_SIZE * NM_CHUNK_SIZE;
	config->memory_limit = (Size) (nm_memory_limit < 0 ? nm_max_memory : nm_memory_limit) * 1024 * 1024;
	config->nslots = nm_process_slots();
	config->dontdump = true;
	config->huge_pages = nm_pool_page_size == NM_POOL_PAGE_2MB;
	config->lock = pool_lock;
	config->unlock = pool_unlock;
}

void
_PG_init(void)
{
	bool preloading = process_shared_preload_libraries_in_progress;

	(void) nm_topology_read(&nm_topology, "", pool_error, sizeof(pool_error));

	nm_define_gucs(preloading);
	nm_init_reloptions();
	nm_planner_install_hooks();
	nm_implied_install_hook();
	nm_utility_install_hooks();
	nm_xact_install_callbacks();

	if (!preloading || IsBinaryUpgrade)
		return;

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = nm_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = nm_shmem_startup;

	nm_migrator_register_worker();
	nm_loader_register_launcher();
}

static void
nm_shmem_request(void)
{
	NmPoolConfig config;

	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	pool_config(&config);
	RequestAddinShmemSpace(MAXALIGN(nm_pool_shared_size(&config)));
	RequestAddinShmemSpace(MAXALIGN(nm_registry_shmem_size()));
	RequestAddinShmemSpace(MAXALIGN(nm_migrator_shmem_size()));
	RequestNamedLWLockTranche(NM_EXTENSION, NM_NUM_LOCKS);
}

/*
 * Runs in the postmaster at start and again after a crash restart, when the
 * main segment is new but our mapping is the old one: it is emptied and used
 * again, for a second mapping would leak (the log collector keeps the first).
 */
static void
nm_shmem_startup(void)
{
	NmPoolConfig config;
	void *pool_mem,
		*registry_mem,
		*migrator_mem;
	bool found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	pool_config(&config);

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	pool_mem = ShmemInitStruct("numa_migrate pool", nm_pool_shared_size(&config), &found);
	if (!found)
		memset(pool_mem, 0, nm_pool_shared_size(&config));
	registry_mem = ShmemInitStruct("numa_migrate registry", nm_registry_shmem_size(), &found);
	if (!found)
		memset(registry_mem, 0, nm_registry_shmem_size());
	migrator_mem = ShmemInitStruct("numa_migrate migrator", nm_migrator_shmem_size(), &found);
	if (!found)
		memset(migrator_mem, 0, nm_migrator_shmem_size());

	nm_locks = GetNamedLWLockTranche(NM_EXTENSION);
	nm_registry_shmem_init(registry_mem);
	nm_migrator_shmem_init(migrator_mem);
	LWLockRelease(AddinShmemInitLock);

	/*
	 * No memfd or address space: the server must still start, so keep the
	 * reason and let those who need the pool report it.
	 */
	if (nm_pool != NULL)
		nm_pool_reset(nm_pool, pool_mem);
	else
	{
		nm_pool = nm_pool_create(&config, pool_mem, pool_error, sizeof(pool_error));
		if (nm_pool == NULL)
			ereport(LOG,
					(errmsg("numa_migrate has no page pool: %s", pool_error),
					 errhint("Lower numa_migrate.max_memory or raise the limit on address space.")));
	}

	/* Children must not take the postmaster's attachment for their own. */
	attached = false;
}

bool
nm_preloaded(void)
{
	return nm_locks != NULL && nm_pool != NULL;
}

static void
nm_detach(int code, Datum arg)
{
	if (attached)
	{
		nm_epoch_detach(nm_pool);
		attached = false;
	}
}

void
nm_require_preload(const char *what)
{
	if (nm_locks == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s because numa_migrate is not preloaded", what),
				 errhint("Add numa_migrate to shared_preload_libraries and restart the server.")));
	if (nm_pool == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot %s because numa_migrate has no page pool", what),
				 errdetail("%s", pool_error),
				 errhint("Lower numa_migrate.max_memory or raise the limit on address space, and restart the server.")));

	if (!attached && MyProc != NULL)
	{
		nm_epoch_attach(nm_pool, nm_my_slot());
		attached = true;
		before_shmem_exit(nm_detach, (Datum) 0);
	}
}

const NmMoverCaps *
nm_get_caps(void)
{
	if (!caps_probed)
	{
		nm_mover_probe(&nm_caps, "");
		caps_probed = true;
	}
	return &nm_caps;
}

int
nm_local_arena(void)
{
	int arena = nm_pool_arena_of_node(nm_pool, nm_current_node(&nm_topology));

	return arena < 0 ? 0 : arena;
}

void
nm_report_no_memory(NmPoolError why, int errno_saved)
{
	const char *hint;

	switch (why)
	{
		case NM_POOL_LIMIT:
			hint = "Raise numa_migrate.memory_limit, or drop or unload other numa_btree indexes.";
			break;
		case NM_POOL_ARENA_FULL:
			hint = "Raise numa_migrate.max_memory and restart the server.";
			break;
		case NM_POOL_CGROUP:
			hint = "Raise the memory limit of the server's control group, or lower what else runs in it.";
			break;
		default:
			hint = "Check free memory, vm.overcommit_memory and the server's limits.";
			break;
	}
	errno = errno_saved;
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory for numa_btree pages"),
			 why == NM_POOL_KERNEL ? errdetail("%s: %m.", nm_pool_error_text(why)) : errdetail("%s.", nm_pool_error_text(why)),
			 errhint("%s", hint)));
}

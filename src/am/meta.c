/*-------------------------------------------------------------------------
 *
 * meta.c
 *	  The one page of an index's file: magic, version, identity.
 *
 * The identity is a random number made at build.  It travels with the file
 * (SET TABLESPACE, CREATE DATABASE ... TEMPLATE, base backup), so a tree in
 * memory whose identity is not that of the file belongs to a file that is no
 * more.
 *
 * The page goes through shared buffers and is WAL-logged as a full image, so a
 * standby and crash recovery have it.  The init fork of an unlogged index is
 * logged whatever wal_level says: nothing else brings it back after a crash.
 *
 * IDENTIFICATION
 *	  src/am/meta.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

#define NM_META_MAGIC	0x4E4D4254 /* "NMBT" */
#define NM_META_VERSION 1

typedef struct NmMetaPage
{
	uint32 magic;
	uint32 version;
	uint64 identity;
} NmMetaPage;

uint64
nm_meta_new_identity(void)
{
	uint64 identity;

	do
	{
		if (!pg_strong_random(&identity, sizeof(identity)))
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not generate a random identity for an index")));
	} while (identity == 0);
	return identity;
}

/*
 * Write block 0 of a fork that is empty.  The caller holds a lock on the index
 * that keeps everybody else out.
 */
void
nm_meta_write(Relation index, ForkNumber fork, uint64 identity)
{
	Buffer buffer;
	Page page;
	NmMetaPage *meta;

#if PG_VERSION_NUM >= 160000
	buffer = ExtendBufferedRel(BMR_REL(index), fork, NULL,
							   EB_SKIP_EXTENSION_LOCK | EB_LOCK_FIRST);
#else
	buffer = ReadBufferExtended(index, fork, P_NEW, RBM_NORMAL, NULL);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
#endif
	if (BufferGetBlockNumber(buffer) != 0)
		elog(ERROR, "index \"%s\" already contains data", RelationGetRelationName(index));

	START_CRIT_SECTION();
	page = BufferGetPage(buffer);
	PageInit(page, BLCKSZ, 0);
	meta = (NmMetaPage *) PageGetContents(page);
	meta->magic = NM_META_MAGIC;
	meta->version = NM_META_VERSION;
	meta->identity = identity;
	/* what lies above pd_lower is not logged */
	((PageHeader) page)->pd_lower = ((char *) meta + sizeof(NmMetaPage)) - (char *) page;
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(index) || fork == INIT_FORKNUM)
		log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
}

/* The identity in the index's main fork. */
uint64
nm_meta_read(Relation index)
{
	Buffer buffer;
	NmMetaPage meta;

	if (RelationGetNumberOfBlocks(index) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" has no meta page", RelationGetRelationName(index)),
				 errhint("REINDEX it.")));

	buffer = ReadBuffer(index, 0);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(&meta, PageGetContents(BufferGetPage(buffer)), sizeof(meta));
	UnlockReleaseBuffer(buffer);

	if (meta.magic != NM_META_MAGIC || meta.identity == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" is not a numa_btree index", RelationGetRelationName(index)),
				 errhint("REINDEX it.")));
	if (meta.version != NM_META_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("index \"%s\" has format version %u, this library knows %u",
						RelationGetRelationName(index), meta.version, NM_META_VERSION),
				 errhint("REINDEX it.")));
	return meta.identity;
}

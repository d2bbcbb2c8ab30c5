/*-------------------------------------------------------------------------
 *
 * team.h
 *	  A process and its parallel workers that fill a spool together.
 *
 * Both calls return false when no worker could be had; nothing has been
 * scanned then, and the caller does it alone.  After true the spool holds what
 * all of them found, parallel mode is over and the workers are gone.  An error
 * of a worker is raised here.
 *
 * IDENTIFICATION
 *	  src/am/team.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_TEAM_H
#define NM_TEAM_H

#include "am/life.h"
#include "am/spool.h"

#include "storage/dsm.h"
#include "storage/shm_toc.h"

/* Core's build scan of the heap (build.c).  *rows: heap rows seen by all. */
extern bool nm_team_build(NmSpool *spool, IndexInfo *info, int nworkers, double *rows);
/* The loader's scan (heapscan.c); rows put off by workers are put off in scan. */
extern bool nm_team_load(NmSpool *spool, NmHeapScan *scan, const NmHeapShare *share, int nworkers);

/* The index that this process is a worker for, else InvalidOid. */
extern Oid nm_team_index;

/* What the build scan calls for each row (build.c); state is the spool. */
extern void nm_build_callback(Relation index, ItemPointer tid, Datum *values, bool *isnull,
							  bool alive, void *state);

extern PGDLLEXPORT void nm_team_main(dsm_segment *seg, shm_toc *toc);

#endif /* NM_TEAM_H */

/*-------------------------------------------------------------------------
 *
 * spool.h
 *	  Phases of an index build, shared by build.c and spool.c.
 *
 * IDENTIFICATION
 *	  src/am/spool.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_SPOOL_H
#define NM_SPOOL_H

#include "am/am.h"

/* PROGRESS_CREATEIDX_SUBPHASE_INITIALIZE is 1 */
#define NM_PHASE_SCAN 2
#define NM_PHASE_SORT 3
#define NM_PHASE_LOAD 4

extern void nm_spool_show_progress(NmSpool *spool);

#endif /* NM_SPOOL_H */

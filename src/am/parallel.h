/*-------------------------------------------------------------------------
 *
 * parallel.h
 *	  What the participants of a parallel index scan share.
 *
 * IDENTIFICATION
 *	  src/am/parallel.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_PARALLEL_H
#define NM_PARALLEL_H

#include "am/am.h"
#include "am/scankeys.h"

typedef struct NmParallelScan NmParallelScan;

extern NmParallelScan *nm_parallel_of(IndexScanDesc scan);
extern bool nm_parallel_take(NmParallelScan *shared, NmScan *scan, NmScanKeys *keys, bool *first);
extern void nm_parallel_give(NmParallelScan *shared, const NmScan *scan, const NmScanKeys *keys,
							 bool over);

#endif /* NM_PARALLEL_H */

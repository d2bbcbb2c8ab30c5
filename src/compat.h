/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Differences between the PostgreSQL versions we build for, in one place.
 *
 * Include after postgres.h.
 *
 * IDENTIFICATION
 *	  src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_COMPAT_H
#define NM_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "numa_migrate needs PostgreSQL 15 or later"
#endif

#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#define NmRelLocator		RelFileLocator
#define nm_rel_locator(rel) ((rel)->rd_locator)
#define nm_loc_spc(l)		((l).spcOid)
#define nm_loc_db(l)		((l).dbOid)
#define nm_loc_rel(l)		((l).relNumber)
#else
#include "storage/relfilenode.h"
#define NmRelLocator		RelFileNode
#define nm_rel_locator(rel) ((rel)->rd_node)
#define nm_loc_spc(l)		((l).spcNode)
#define nm_loc_db(l)		((l).dbNode)
#define nm_loc_rel(l)		((l).relNode)
#endif

#if PG_VERSION_NUM >= 170000
#define nm_my_backend_id()	 MyProcNumber
#define nm_rel_backend(rel)	 ((int) (rel)->rd_backend)
#define NM_INVALID_BACKEND	 INVALID_PROC_NUMBER
#define nm_proc_number(proc) GetNumberFromPGProc(proc)
#else
#define nm_my_backend_id()	 MyBackendId
#define nm_rel_backend(rel)	 ((int) (rel)->rd_backend)
#define NM_INVALID_BACKEND	 InvalidBackendId
#define nm_proc_number(proc) ((proc)->pgprocno)
#endif

#endif /* NM_COMPAT_H */

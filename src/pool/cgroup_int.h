/*-------------------------------------------------------------------------
 *
 * cgroup_int.h
 *	  The memory cgroup's headroom below another root, for tests.
 *
 * IDENTIFICATION
 *	  src/pool/cgroup_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_CGROUP_INT_H
#define NM_CGROUP_INT_H

#include "port.h"

/* As nm_cgroup_headroom, with /proc and the mounts below root; no memory. */
extern uint64_t nm_cgroup_headroom_at(const char *root);

#endif /* NM_CGROUP_INT_H */

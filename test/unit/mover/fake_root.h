/*-------------------------------------------------------------------------
 *
 * fake_root.h
 *	  Made-up sysfs and procfs trees below a temporary folder.
 *
 * IDENTIFICATION
 *	  test/unit/mover/fake_root.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef NM_FAKE_ROOT_H
#define NM_FAKE_ROOT_H

/* A new empty root; the name stays valid until fake_root_remove_all(). */
extern const char *fake_root_new(void);
extern void fake_root_remove_all(void);

/* Write a file, with the folders above it. */
extern void fake_file(const char *root, const char *path, const char *text);

/* Files of nodes as a whole; NULL leaves the file out. */
extern void fake_node_list(const char *root, const char *online, const char *has_memory,
						   const char *mems_allowed);
extern void fake_node(const char *root, int id, const char *cpus, long total_kb, long free_kb,
					  const char *distances);

#endif /* NM_FAKE_ROOT_H */

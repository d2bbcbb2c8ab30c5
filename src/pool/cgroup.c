/*-------------------------------------------------------------------------
 *
 * cgroup.c
 *	  How much memory the process's memory cgroup still allows.
 *
 * Running into the limit of a cgroup does not fail an allocation, it wakes the
 * OOM killer; so the limit is asked before.  Both hierarchies are read, v2
 * (memory.max, memory.current) and v1 (memory.limit_in_bytes,
 * memory.usage_in_bytes), on every level up to the mount point, since each
 * level limits.  Page cache counts as usage but yields under pressure: the
 * inactive part of it counts as free here, and half of the active one.
 *
 * Where a hierarchy is mounted comes from /proc/self/mountinfo, not from
 * habit.  The places are remembered for some seconds.
 *
 * IDENTIFICATION
 *	  src/pool/cgroup.c
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pool/pool_int.h"
#include "pool/cgroup_int.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLACES_TTL_NS (UINT64_C(10) * 1000 * 1000 * 1000)
#define NO_LIMIT	  (UINT64_C(1) << 62)

/* A place in a hierarchy: mount point, and the path below it ("" = itself). */
typedef struct Place
{
	bool found;
	char mount[PATH_MAX];
	char below[PATH_MAX];
} Place;

/* Read a small file, cut at buflen - 1; returns false if it can't be read. */
static bool
slurp(const char *path, char *buf, size_t buflen)
{
	size_t len = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	while (len < buflen - 1)
	{
		ssize_t n = read(fd, buf + len, buflen - 1 - len);

		if (n <= 0)
			break;
		len += (size_t) n;
	}
	close(fd);
	buf[len] = '\0';
	return len > 0;
}

/* Is word one of the comma-separated words of list? */
static bool
has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; (p = strstr(p, word)) != NULL; p += len)
		if ((p == list || p[-1] == ',') && (p[len] == '\0' || p[len] == ',' || p[len] == '\n'))
			return true;
	return false;
}

/*
 * The process's path in a hierarchy from lines "id:controllers:path".
 */
static bool
own_path(const char *root, bool v2, char *path, size_t pathlen)
{
	char name[PATH_MAX];
	char line[PATH_MAX + 256];
	FILE *f;
	bool found = false;

	snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
	f = fopen(name, "re");
	if (f == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), f) != NULL)
	{
		char *controllers = strchr(line, ':');
		char *rest = controllers ? strchr(controllers + 1, ':') : NULL;

		if (rest == NULL)
			continue;
		*rest++ = '\0';
		controllers++;
		rest[strcspn(rest, "\n")] = '\0';
		if (v2 ? (*controllers == '\0') : has_word(controllers, "memory"))
		{
			snprintf(path, pathlen, "%s", rest);
			found = true;
		}
	}
	fclose(f);
	return found;
}

/*
 * Find the mount of a hierarchy and the own path below it.  A line reads
 * "36 35 98:0 /root /mount/point options ... - type source superoptions".
 */
static void
find_place(const char *root, bool v2, Place *place)
{
	char name[PATH_MAX];
	char path[PATH_MAX];
	char *line = NULL;
	size_t linelen = 0;
	FILE *f;

	place->found = false;
	if (!own_path(root, v2, path, sizeof(path)))
		return;
	snprintf(name, sizeof(name), "%s/proc/self/mountinfo", root);
	f = fopen(name, "re");
	if (f == NULL)
		return;
	while (!place->found && getline(&line, &linelen, f) > 0)
	{
		char *dash = strstr(line, " - ");
		char mroot[PATH_MAX];
		char mpoint[PATH_MAX];
		char type[64];
		char super[1024] = "";
		size_t rootlen;

		if (dash == NULL || sscanf(dash, " - %63s %*s %1023s", type, super) < 1)
			continue;
		if (sscanf(line, "%*s %*s %*s %4095s %4095s", mroot, mpoint) != 2)
			continue;
		if (strcmp(type, v2 ? "cgroup2" : "cgroup") != 0 || (!v2 && !has_word(super, "memory")))
			continue;

		/* a container may see its own group as the mount's root */
		rootlen = strcmp(mroot, "/") == 0 ? 0 : strlen(mroot);
		if (strncmp(path, mroot, rootlen) == 0 && (path[rootlen] == '/' || path[rootlen] == '\0'))
			snprintf(place->below, sizeof(place->below), "%s", path + rootlen);
		else
			place->below[0] = '\0';
		if (strcmp(place->below, "/") == 0)
			place->below[0] = '\0';
		snprintf(place->mount, sizeof(place->mount), "%s%s", root, mpoint);
		place->found = true;
	}
	free(line);
	fclose(f);
}

/* Value of a "name number" line, 0 if absent. */
static uint64_t
stat_value(const char *text, const char *field)
{
	size_t len = strlen(field);

	for (const char *p = text; (p = strstr(p, field)) != NULL; p += len)
		if ((p == text || p[-1] == '\n') && p[len] == ' ')
			return strtoull(p + len + 1, NULL, 10);
	return 0;
}

/* Bytes left in one group, UINT64_MAX if it sets no limit or can't be read. */
static uint64_t
group_headroom(const char *dir, bool v2)
{
	char name[2 * PATH_MAX + 64];
	char text[8192];
	uint64_t limit;
	uint64_t usage;
	uint64_t cache = 0;

	snprintf(name, sizeof(name), "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
	if (!slurp(name, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return UINT64_MAX; /* "max" too */
	limit = strtoull(text, NULL, 10);
	if (limit >= NO_LIMIT)
		return UINT64_MAX;
	snprintf(name, sizeof(name), "%s/%s", dir, v2 ? "memory.current" : "memory.usage_in_bytes");
	if (!slurp(name, text, sizeof(text)))
		return UINT64_MAX;
	usage = strtoull(text, NULL, 10);
	snprintf(name, sizeof(name), "%s/memory.stat", dir);
	if (slurp(name, text, sizeof(text)))
	{
		cache = stat_value(text, v2 ? "inactive_file" : "total_inactive_file");
		cache += stat_value(text, v2 ? "active_file" : "total_active_file") / 2;
	}
	usage = usage > cache ? usage - cache : 0;
	return limit > usage ? limit - usage : 0;
}

static uint64_t
place_headroom(const Place *place, bool v2)
{
	char dir[2 * PATH_MAX];
	size_t mountlen;
	uint64_t least = UINT64_MAX;

	if (!place->found)
		return UINT64_MAX;
	mountlen = strlen(place->mount);
	snprintf(dir, sizeof(dir), "%s%s", place->mount, place->below);
	for (;;)
	{
		uint64_t here = group_headroom(dir, v2);
		char *slash;

		if (here < least)
			least = here;
		if (strlen(dir) <= mountlen)
			return least;
		slash = strrchr(dir, '/');
		*slash = '\0';
	}
}

uint64_t
nm_cgroup_headroom_at(const char *root)
{
	Place place;
	uint64_t v2;
	uint64_t v1;

	find_place(root, true, &place);
	v2 = place_headroom(&place, true);
	find_place(root, false, &place);
	v1 = place_headroom(&place, false);
	return v1 < v2 ? v1 : v2;
}

/* Called under the pool lock in the pool; the places are per process. */
uint64_t
nm_cgroup_headroom(void)
{
#ifdef NM_IN_POSTGRES
	static Place place1,
		place2;
	static uint64_t found_at = 0;
#else
	static __thread Place place1,
		place2;
	static __thread uint64_t found_at = 0;
#endif
	uint64_t now = nm_now_ns();
	uint64_t v2;
	uint64_t v1;

	if (found_at == 0 || now - found_at > PLACES_TTL_NS)
	{
		find_place("", true, &place2);
		find_place("", false, &place1);
		found_at = now;
	}
	v2 = place_headroom(&place2, true);
	v1 = place_headroom(&place1, false);
	return v1 < v2 ? v1 : v2;
}

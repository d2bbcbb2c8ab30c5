/*-------------------------------------------------------------------------
 *
 * fake_root.c
 *	  Made-up sysfs and procfs trees below a temporary folder.
 *
 * IDENTIFICATION
 *	  test/unit/mover/fake_root.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "fake_root.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char base[] = "/tmp/nm_fake_root.XXXXXX";
static int nroots = 0;
static char names[64][64];

static void
die(const char *what)
{
	perror(what);
	exit(2);
}

const char *
fake_root_new(void)
{
	if (nroots == 0 && mkdtemp(base) == NULL)
		die("mkdtemp");
	if (nroots == 64)
	{
		errno = ENOSPC;
		die("fake_root_new");
	}
	snprintf(names[nroots], sizeof(names[0]), "%s/%d", base, nroots);
	if (mkdir(names[nroots], 0755) != 0)
		die(names[nroots]);
	return names[nroots++];
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void) st;
	(void) type;
	(void) ftw;
	return remove(path);
}

void
fake_root_remove_all(void)
{
	if (nroots > 0)
		nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void
fake_file(const char *root, const char *path, const char *text)
{
	char name[512];
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *p = name + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++)
	{
		*p = '\0';
		if (mkdir(name, 0755) != 0 && errno != EEXIST)
			die(name);
		*p = '/';
	}
	f = fopen(name, "w");
	if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0)
		die(name);
}

void
fake_node_list(const char *root, const char *online, const char *has_memory, const char *mems_allowed)
{
	char text[512];

	snprintf(text, sizeof(text), "%s\n", online);
	fake_file(root, "sys/devices/system/node/online", text);
	if (has_memory)
	{
		snprintf(text, sizeof(text), "%s\n", has_memory);
		fake_file(root, "sys/devices/system/node/has_memory", text);
	}
	if (mems_allowed)
	{
		snprintf(text, sizeof(text),
				 "Name:\ttest\nMems_allowed:\tffffffff\nMems_allowed_list:\t%s\nthreads:\t1\n", mems_allowed);
		fake_file(root, "proc/self/status", text);
	}
}

void
fake_node(const char *root, int id, const char *cpus, long total_kb, long free_kb, const char *distances)
{
	char path[128];
	char *text;

	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/cpulist", id);
	if (asprintf(&text, "%s\n", cpus) < 0)
		die("asprintf");
	fake_file(root, path, text);
	free(text);
	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/meminfo", id);
	if (asprintf(&text, "Node %d MemTotal:       %ld kB\nNode %d MemFree:        %ld kB\nNode %d MemUsed: 1 kB\n",
				 id, total_kb, id, free_kb, id) < 0)
		die("asprintf");
	fake_file(root, path, text);
	free(text);
	snprintf(path, sizeof(path), "sys/devices/system/node/node%d/distance", id);
	if (asprintf(&text, "%s\n", distances) < 0)
		die("asprintf");
	fake_file(root, path, text);
	free(text);
}

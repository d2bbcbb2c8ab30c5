/* SPDX-License-Identifier: GPL-2.0 */
/* What test programs change in the guest: settings, swap, a file system. */
#ifndef MACHINE_H
#define MACHINE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>

#include "call.h"

static inline bool write_text(const char *path, const char *text)
{
	int f = open(path, O_WRONLY);
	bool ok = f >= 0 && write(f, text, strlen(text)) == (ssize_t)strlen(text);

	if (f >= 0)
		close(f);
	return ok;
}

/* 32 MiB of swap on /dev/ram0 */
static inline void start_swap(void)
{
	static char header[4096];
	uint32_t *info = (uint32_t *)(header + 1024);
	int f = open("/dev/ram0", O_RDWR);

	info[0] = 1;			/* version */
	info[1] = 8192 - 1;		/* last page */
	memcpy(header + sizeof(header) - 10, "SWAPSPACE2", 10);
	if (f < 0 || write(f, header, sizeof(header)) != sizeof(header) || fsync(f))
		die("/dev/ram0");
	close(f);
	if (swapon("/dev/ram0", 0))
		die("swapon");
}

/* A file system on /dev/ram1 */
static inline void mount_disk(const char *dir)
{
	if (system("mkfs.ext2 -q -F -b 4096 /dev/ram1") ||
	    (mkdir(dir, 0700) && errno != EEXIST) ||
	    mount("/dev/ram1", dir, "ext2", 0, NULL))
		die("file system on /dev/ram1");
}

#endif /* MACHINE_H */

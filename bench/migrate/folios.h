/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory made of folios of one size: base pages, 64 KiB and 2 MiB transparent
 * huge pages, and pages of hugetlb.
 */
#ifndef BENCH_MIGRATE_FOLIOS_H
#define BENCH_MIGRATE_FOLIOS_H

#include <stdbool.h>
#include <stddef.h>

enum folio
{
	BASE,	/* 4 KiB */
	MTHP,	/* 64 KiB */
	THP,	/* 2 MiB */
	HUGETLB /* 2 MiB of hugetlb */
};

extern const char *const folio_name[];
extern const unsigned int folio_pages[]; /* base pages of one */

/*
 * Map @pages base pages, shared or private, aligned to 2 MiB, so that touching
 * them makes folios of that size. Changes the machine's settings for
 * transparent huge pages and hugetlb's pool until unmap_folios().
 * NULL if the kernel has no such folios.
 */
extern char *map_folios(enum folio folio, size_t pages, bool shared);
extern void unmap_folios(char *memory, size_t pages);

/*
 * Whether the page at @at is the first of a folio of that size, as the kernel
 * tells root by /proc/kpageflags.
 */
extern bool is_folio(enum folio folio, const char *at);

#endif

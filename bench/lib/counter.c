/*-------------------------------------------------------------------------
 *
 * counter.c
 *	  See counter.h.
 *
 * IDENTIFICATION
 *	  bench/lib/counter.c
 *
 *-------------------------------------------------------------------------
 */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The sum of the numbers behind a word at the start of a line; 0 without one. */
static uint64_t
counter(const char *path, const char *word)
{
	FILE *f = fopen(path, "r");
	char line[4096];
	uint64_t sum = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
	{
		char *p = line + strspn(line, " ");
		char *end;

		if (strncmp(p, word, strlen(word)) != 0)
			continue;
		for (p += strlen(word);; p = end)
		{
			uint64_t n = strtoull(p, &end, 10);

			if (end == p)
				break;
			sum += n;
		}
	}
	if (f != NULL)
		fclose(f);
	return sum;
}

uint64_t
pages_migrated(void)
{
	return counter("/proc/vmstat", "pgmigrate_success ");
}

uint64_t
tlb_shootdowns(void)
{
	return counter("/proc/interrupts", "TLB:");
}

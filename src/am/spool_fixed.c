/*-------------------------------------------------------------------------
 *
 * spool_fixed.c
 *	  Sort entries of the FIXED layout, 16 bytes each: in memory as long as
 *	  they fit into the work memory, else in runs.
 *
 * IDENTIFICATION
 *	  src/am/spool_fixed.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "am/spool.h"

#include "miscadmin.h"
#include "utils/memutils.h"

static inline int
compare_entries(const NmSpoolEntry *a, const NmSpoolEntry *b)
{
	if (unlikely(((a->what ^ b->what) & NM_WHAT_FLAG) != 0))
		return (a->what & NM_WHAT_FLAG) ? 1 : -1;
	if (a->key != b->key)
		return (int64) a->key < (int64) b->key ? -1 : 1;
	if (a->what != b->what)
		return a->what < b->what ? -1 : 1;
	return 0;
}

#define ST_SORT			 sort_entries
#define ST_ELEMENT_TYPE	 NmSpoolEntry
#define ST_COMPARE(a, b) compare_entries(a, b)
#define ST_SCOPE		 static
#define ST_CHECK_FOR_INTERRUPTS
#define ST_DECLARE
#define ST_DEFINE
#include "lib/sort_template.h"

static inline int64
most_entries(const NmSpool *spool)
{
	return Max(spool->workmem / sizeof(NmSpoolEntry), 1024);
}

void
nm_spool_fixed_begin(NmSpool *spool)
{
	spool->maxentries = Min(most_entries(spool), 8192);
	spool->entries = palloc(spool->maxentries * sizeof(NmSpoolEntry));
}

/* Sort what is in memory and write it out as one run. */
void
nm_spool_fixed_flush(NmSpool *spool)
{
	const int64 step = 8192 / sizeof(NmSpoolEntry);
	NmRun *run = nm_run_begin(spool);

	sort_entries(spool->entries, spool->nentries);
	for (int64 i = 0; i < spool->nentries; i += step)
	{
		CHECK_FOR_INTERRUPTS();
		nm_run_write(run, &spool->entries[i],
					 Min(step, spool->nentries - i) * sizeof(NmSpoolEntry));
	}
	nm_run_end(spool, run);
	spool->nentries = 0;
}

void
nm_spool_fixed_add(NmSpool *spool, Datum value, bool isnull, uint64 what)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	NmSpoolEntry *e;

	if (spool->nentries >= spool->maxentries)
	{
		int64 most = most_entries(spool);

		if (spool->maxentries < most)
		{
			spool->maxentries = Min(spool->maxentries * 2, most);
			spool->entries = repalloc_huge(spool->entries,
										   spool->maxentries * sizeof(NmSpoolEntry));
		}
		else
			nm_spool_fixed_flush(spool);
	}

	e = &spool->entries[spool->nentries++];
	e->key = 0;
	e->what = what;
	if (!isnull)
	{
		int64 key = nm_fixed_value(desc->fixed, value);

		e->key = (uint64) (desc->desc_first ? ~key : key);
	}
	if (isnull != desc->nulls_first)
		e->what |= NM_WHAT_FLAG;
}

int
nm_spool_fixed_compare(const NmSpoolEntry *a, const NmSpoolEntry *b)
{
	return compare_entries(a, b);
}

/* The next entry in order goes into the tree. */
void
nm_spool_fixed_emit(NmSpool *spool, const NmSpoolEntry *e)
{
	bool nulls_first = spool->idx->desc.nulls_first;
	NmItem item;

	item.key = (int64) e->key;
	item.isnull = ((e->what & NM_WHAT_FLAG) != 0) != nulls_first;
	item.head = 0;
	item.data = NULL;
	item.len = 0;
	nm_spool_emit(spool, &item, e->what);
}

void
nm_spool_fixed_load(NmSpool *spool)
{
	nm_spool_set_phase(spool, NM_PHASE_SORT);
	if (spool->nruns == 0)
	{
		sort_entries(spool->entries, spool->nentries);
		nm_spool_set_phase(spool, NM_PHASE_LOAD);
		for (int64 i = 0; i < spool->nentries; i++)
		{
			if ((i & 1023) == 0)
				CHECK_FOR_INTERRUPTS();
			nm_spool_fixed_emit(spool, &spool->entries[i]);
		}
		return;
	}

	if (spool->nentries > 0)
		nm_spool_fixed_flush(spool);
	pfree(spool->entries);
	spool->entries = NULL;
	nm_runs_load(spool);
}

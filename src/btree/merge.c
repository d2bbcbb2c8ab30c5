/*-------------------------------------------------------------------------
 *
 * merge.c
 *	  Whole leaves: from the plain form to runs and back, and where to split.
 *
 * Pages here are locked or private.  When this is done: README.md, section 14.
 *
 * IDENTIFICATION
 *	  src/btree/merge.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

/* Stored key that entry pos has, and the entries up to its end. */
static int
item_of(const NmPage *p, const NmRuns *v, int pos)
{
	return (p->flags & NM_PF_RUNS) ? nm_run_of(v, pos) : pos;
}

static int
item_end(const NmPage *p, const NmRuns *v, int item)
{
	return (p->flags & NM_PF_RUNS) ? nm_run_end(v, item) : item + 1;
}

/* TID of entry pos of a leaf of either form, kill mark included. */
static inline uint64_t
entry_raw(const NmPage *p, const NmRuns *v, int pos)
{
	if (p->flags & NM_PF_RUNS)
		return nm_run_raw(v, pos);
	return nm_entry_tid(p, pos) | (nm_entry_killed(p, pos) ? NM_KILLED_BIT : 0);
}

/* What entries [from, to) of a leaf would take. */
typedef struct Shape
{
	int nruns;
	int runs_bytes;
	int plain_bytes;
	NmTidForm form;
	uint16_t item[NM_LEAF_MAX_ENTRIES];	 /* of each run */
	uint16_t start[NM_LEAF_MAX_ENTRIES]; /* first entry of each run, in src */
} Shape;

static void
measure(const NmPage *src, int from, int to, Shape *shape)
{
	bool general = (src->flags & NM_PF_GENERAL) != 0;
	int slot = nm_run_slot(src->flags);
	uint32_t min = UINT32_MAX;
	uint32_t max = 0;
	NmRuns v;
	int item;
	int at;

	nm_runs_view(src, &v);
	memset(shape, 0, offsetof(Shape, item));
	for (at = from, item = item_of(src, &v, from); at < to; item++)
	{
		int end = nm_clamp(item_end(src, &v, item), to);
		int size = general ? nm_item_size(src, item) : 0;
		bool same = false;

		if (at > from)
		{
			if (general)
				same = nm_items_same(src, item - 1, item);
			else if (nm_entry_isnull(src, at) || nm_entry_isnull(src, at - 1))
				same = nm_entry_isnull(src, at) && nm_entry_isnull(src, at - 1);
			else
				same = nm_fx_keys(src)[item - 1] == nm_fx_keys(src)[item];
		}
		if (!same)
		{
			shape->item[shape->nruns] = (uint16_t) item;
			shape->start[shape->nruns++] = (uint16_t) at;
			shape->runs_bytes += slot + size;
		}
		/* a run's slot is two bytes more than an entry's */
		shape->plain_bytes += (end - at) * (general ? slot - 2 + size : 14);
		for (; at < end; at++)
		{
			uint32_t blk = (uint32_t) (entry_raw(src, &v, at) >> 16);

			if (blk < min)
				min = blk;
			if (blk > max)
				max = blk;
		}
	}
	if (from < to)
		shape->form = nm_tid_form(min, max);
	shape->runs_bytes += (to - from) * (shape->form.wide ? 6 : 4);
}

/* Give an empty leaf entries [from, to) of src as runs. */
static void
fill_runs(NmPage *dst, const NmPage *src, int from, int to, const Shape *shape)
{
	bool general = (src->flags & NM_PF_GENERAL) != 0;
	NmRuns old,
		v;

	nm_runs_view(src, &old);
	dst->flags |= NM_PF_RUNS | (shape->form.wide ? NM_PF_WIDE : 0) | (src->flags & NM_PF_KILLED);
	dst->tid_base = shape->form.base;
	dst->nruns = (uint16_t) shape->nruns;
	dst->n = (uint16_t) (to - from);
	nm_runs_view(dst, &v);
	NM_ASSERT(v.n == to - from && v.nruns == shape->nruns && nm_page_gap(dst) >= 0);
	for (int r = 0; r < shape->nruns; r++)
	{
		int item = shape->item[r];

		v.ends[r] = (uint16_t) ((r + 1 < shape->nruns ? shape->start[r + 1] : to) - from);
		if (general)
		{
			int size = nm_item_size(src, item);

			dst->lower -= (uint16_t) size;
			memcpy((char *) dst + dst->lower, (const char *) src + nm_item_offset(src, item), (size_t) size);
			v.slots[r] = dst->lower;
		}
		if (!general || v.heads)
			v.keys[r] = nm_fx_keys(src)[item];
	}
	NM_ASSERT(nm_page_gap(dst) >= 0);
	for (int i = from; i < to; i++)
	{
		nm_run_put(&v, i - from, entry_raw(src, &old, i));
		if (!general)
			dst->nnull += nm_entry_isnull(src, i);
	}
}

/* Give an empty leaf entries [from, to) of a leaf of runs in the plain form. */
static void
fill_plain(NmPage *dst, const NmPage *src, int from, int to)
{
	NmRuns v;
	int run;

	nm_runs_view(src, &v);
	run = nm_run_of(&v, from);
	for (int i = from; i < to; i++)
	{
		NmItem item = {0};
		NmEntry e = {.item = &item, .tid = nm_run_tid(&v, i)};

		while (i >= v.ends[run])
			run++;
		e.killed = nm_runs_killed(src, i);
		if (src->flags & NM_PF_GENERAL)
		{
			NmRawItem raw;
			const char *bytes = NULL;

			if (!nm_item_raw(src, run, &raw, &bytes))
				NM_ASSERT(false);
			item.data = bytes;
			item.len = raw.len & NM_LEN_MASK;
			item.tag = (uint8_t) (raw.len >> NM_LEN_TAG & NM_TAG_MAX);
			item.head = v.heads ? v.heads[run] : 0;
			e.overflow = nm_item_overflow(src, run);
		}
		else
		{
			item.key = v.keys[run];
			item.isnull = nm_entry_isnull(src, i);
		}
		nm_entry_insert(dst, i - from, &e);
	}
}

void
nm_leaf_fill(NmPage *dst, const NmPage *src, int from, int to)
{
	Shape shape;

	if (from >= to)
		return;
	measure(src, from, to, &shape);
	if (shape.runs_bytes < shape.plain_bytes)
		fill_runs(dst, src, from, to, &shape);
	else
		fill_plain(dst, src, from, to);
}

/*
 * Have a tenth of a plain leaf's entries their neighbour's key?  (Or so it may
 * seem, where a NULL's key is the same by chance.)  Cheap, since an index of
 * distinct keys pays it for every leaf that would split: heads first, then the
 * bytes of keys whose heads are the same, as those of strings that begin alike.
 */
static bool
many_equal(const NmPage *p)
{
	const int64_t *keys = nm_fx_keys(p); /* GENERAL: the heads */
	bool general = (p->flags & NM_PF_GENERAL) != 0;
	bool heads = !general || (p->flags & NM_PF_HEADS);
	int runs = 1;

	if (heads)
	{
		for (int i = 1; i < p->n; i++)
			runs += keys[i - 1] != keys[i];
		if (!general || runs * 10 > p->n * 9)
			return runs * 10 <= p->n * 9;
	}
	runs = 1;
	for (int i = 1; i < p->n; i++)
		runs += (heads && keys[i - 1] != keys[i]) || !nm_items_same(p, i - 1, i);
	return runs * 10 <= p->n * 9;
}

bool
nm_leaf_merge(NmPage *p)
{
	Shape shape;
	NmPage old;

	/* few keys to be spared, few bytes: a tenth of the keys is about it */
	if (p->n == 0 || !many_equal(p))
		return false;
	measure(p, 0, p->n, &shape);
	if (shape.plain_bytes - shape.runs_bytes < NM_BODY_SIZE / 10)
		return false;
	nm_page_copy(&old, p, NM_BODY_END);
	nm_page_clear(p);
	nm_high_move(p, &old);
	fill_runs(p, &old, 0, old.n, &shape);
	return true;
}

int
nm_runs_split_point(const NmTree *tree, const NmPage *p, int pos, const NmItem *item)
{
	bool general = tree->layout == NM_LAYOUT_GENERAL;
	int largest = 0;
	int slot = nm_run_slot(p->flags);
	int total = 0;
	int want;
	int sum = 0;
	int keep = 0;
	NmRuns v;
	int left;
	bool goes_on;

	nm_runs_view(p, &v);
	for (int r = 0; r < v.nruns; r++)
	{
		int size = general ? nm_item_size(p, r) : 0;

		total += slot + size;
		if (size > largest)
			largest = size;
	}
	total += v.n * v.width;

	left = pos > 0 ? nm_run_of(&v, pos - 1) : -1;
	goes_on = left >= 0 && v.ends[left] == pos && nm_run_is(p, &v, left, item);
	want = total / 2;
	if (pos == v.n && (goes_on || (p->flags & NM_PF_HIGH) == 0))
		want = NM_BODY_SIZE * tree->shared->fillfactor / 100;
	else if (goes_on && (pos - nm_run_start(&v, left)) * 4 >= v.n)
	{
		/* the bytes up to pos */
		want = pos * v.width;
		for (int r = 0; r <= left; r++)
			want += slot + (general ? nm_item_size(p, r) : 0);
	}
	/* GENERAL: one of the keys becomes the left page's high key */
	if (want > NM_BODY_SIZE - largest)
		want = NM_BODY_SIZE - largest;

	for (int r = 0; r < v.nruns; r++)
	{
		int len = v.ends[r] - keep;
		int fit;

		sum += slot + (general ? nm_item_size(p, r) : 0);
		fit = (want - sum) / v.width;
		if (sum > want || fit <= 0)
			break;
		if (fit > len)
			fit = len;
		keep += fit;
		sum += fit * v.width;
		if (fit < len)
			break;
	}
	if (keep < 1)
		keep = 1;
	return keep < v.n ? keep : v.n - 1;
}

/*-------------------------------------------------------------------------
 *
 * runs.c
 *	  Leaves that store the equal keys of adjacent entries once.
 *
 * Functions that change a page want it locked or private.  Those that read may
 * run on a page that changes under them: they look at it through a view, which
 * lies in the page whatever is in it, and the caller validates.  Nothing here
 * calls a comparator: whether two keys are the same is a question of bytes.
 *
 * IDENTIFICATION
 *	  src/btree/runs.c
 *
 *-------------------------------------------------------------------------
 */
#include "btree/runs.h"

NM_RACY uint64_t
nm_runs_tid(const NmPage *p, int pos)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return pos < v.n ? nm_run_tid(&v, pos) : 0;
}

NM_RACY bool
nm_runs_killed(const NmPage *p, int pos)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return pos < v.n && (nm_run_raw(&v, pos) & NM_KILLED_BIT) != 0;
}

void
nm_run_put(const NmRuns *v, int i, uint64_t raw)
{
	char *at = v->tids + i * v->width;

	if (v->width == 4)
	{
		uint32_t x = (uint32_t) (raw - ((uint64_t) v->base << 16));

		NM_ASSERT(raw >> 16 >= v->base && (raw >> 16) - v->base <= NM_NARROW_BLOCKS);
		memcpy(at, &x, sizeof(x));
	}
	else
	{
		uint32_t x = (uint32_t) (raw >> 16);
		uint16_t off = (uint16_t) raw;

		memcpy(at, &x, sizeof(x));
		memcpy(at + 4, &off, sizeof(off));
	}
}

void
nm_runs_set_killed(NmPage *p, int pos, bool killed)
{
	NmRuns v;
	uint64_t raw;

	nm_runs_view(p, &v);
	raw = nm_run_raw(&v, pos);
	nm_run_put(&v, pos, killed ? raw | NM_KILLED_BIT : raw & ~(uint64_t) NM_KILLED_BIT);
}

/* The key of a run; its null flag is a matter of the entry. */
NM_RACY static bool
copy_key(const NmTree *tree, const NmPage *p, const NmRuns *v, int run, int pos, NmKeyCopy *out)
{
	if (pos < 0 || pos >= v->n || run >= v->nruns)
		return false;
	if (p->flags & NM_PF_GENERAL)
	{
		if (!nm_item_copy(tree, p, run, out))
			return false;
	}
	else
	{
		out->item.key = v->keys[run];
		out->item.isnull = nm_entry_isnull(p, pos);
	}
	out->tid = nm_run_tid(v, pos);
	return true;
}

NM_RACY bool
nm_runs_copy(const NmTree *tree, const NmPage *p, int pos, NmKeyCopy *out)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return copy_key(tree, p, &v, nm_run_of(&v, pos), pos, out);
}

NM_RACY bool
nm_runs_copy_last(const NmTree *tree, const NmPage *p, int run, NmKeyCopy *out)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return copy_key(tree, p, &v, run, nm_run_end(&v, run) - 1, out);
}

NM_RACY NmPageNo
nm_runs_overflow(const NmPage *p, int pos)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return nm_item_overflow(p, nm_run_of(&v, pos));
}

NM_RACY int
nm_runs_at(const NmPage *p, int pos)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return nm_run_of(&v, pos);
}

NM_RACY int
nm_runs_first(const NmPage *p, int run)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return nm_run_start(&v, run);
}

NM_RACY int
nm_runs_place(const NmPage *p, int run, uint64_t tid, bool upper)
{
	NmRuns v;

	nm_runs_view(p, &v);
	return nm_run_search(&v, nm_run_start(&v, run), nm_run_end(&v, run), tid, upper);
}

/* FIXED, plain bound: runs have different keys, NULLs are one at either end. */
NM_RACY int
nm_runs_fixed_search(const NmPage *p, const NmBound *bound, bool upper)
{
	NmRuns v;
	int nn;
	int lo,
		hi,
		end;

	nm_runs_view(p, &v);
	nn = nm_clamp(p->nnull, v.n);
	if (bound->item.isnull)
	{
		lo = p->nulls_first ? 0 : v.n - nn;
		return nm_run_search(&v, lo, lo + nn, bound->tid, upper);
	}
	lo = nn > 0 && p->nulls_first ? 1 : 0;
	end = nn > 0 && !p->nulls_first ? v.nruns - 1 : v.nruns;
	hi = end;
	while (lo < hi)
	{
		int mid = (lo + hi) / 2;

		if (v.keys[mid] < bound->item.key)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo >= end || v.keys[lo] != bound->item.key)
		return nm_run_start(&v, lo);
	return nm_run_search(&v, nm_run_start(&v, lo), nm_run_end(&v, lo), bound->tid, upper);
}

/* ---- inserting ---- */

typedef enum Way
{
	JOIN, /* the run goes on with it */
	NEW,  /* a new run before run "run" */
	CUT	  /* a new run inside run "run", the rest of which becomes another */
} Way;

/* How an entry goes into a leaf. */
typedef struct Plan
{
	Way way;
	int run;
	int bytes;	  /* that it takes */
	bool rewrite; /* all TIDs, in the form below */
	NmTidForm form;
} Plan;

NM_RACY bool
nm_run_is(const NmPage *p, const NmRuns *v, int run, const NmItem *item)
{
	if (run >= v->nruns)
		return false;
	if (p->flags & NM_PF_GENERAL)
		return item->len <= NM_INLINE_MAX && nm_item_is(p, run, item);
	if (nm_entry_isnull(p, nm_run_start(v, run)))
		return item->isnull;
	return !item->isnull && v->keys[run] == item->key;
}

NM_RACY static void
make_plan(const NmPage *p, const NmRuns *v, int pos, const NmItem *item, uint64_t tid, Plan *plan)
{
	bool general = (p->flags & NM_PF_GENERAL) != 0;
	int slot = nm_run_slot(nm_page_flags(p));
	int left = pos > 0 ? nm_run_of(v, pos - 1) : -1;
	int right = nm_run_of(v, pos);
	uint32_t blk = (uint32_t) (tid >> 16);

	plan->bytes = v->width;
	if (left >= 0 && nm_run_is(p, v, left, item))
	{
		plan->way = JOIN;
		plan->run = left;
	}
	else if (right != left && nm_run_is(p, v, right, item))
	{
		plan->way = JOIN;
		plan->run = right;
	}
	else
	{
		plan->way = right == left ? CUT : NEW;
		plan->run = right;
		plan->bytes += slot;
		if (general)
			plan->bytes += nm_item_bytes(0, item->len, item->len > NM_INLINE_MAX);
		if (plan->way == CUT)
			plan->bytes += slot + (general ? nm_item_size(p, right) : 0);
	}

	plan->rewrite = false;
	if (v->width == 4 && (v->n == 0 || blk < v->base || blk - v->base > NM_NARROW_BLOCKS))
	{
		uint32_t min = blk;
		uint32_t max = blk;

		for (int i = 0; i < v->n; i++)
		{
			uint32_t b = (uint32_t) (nm_run_raw(v, i) >> 16);

			if (b < min)
				min = b;
			if (b > max)
				max = b;
		}
		plan->rewrite = true;
		plan->form = nm_tid_form(min, max);
		if (plan->form.wide)
			plan->bytes += 2 * (v->n + 1);
	}
}

NM_RACY int
nm_runs_need(const NmPage *p, int pos, const NmItem *item, uint64_t tid)
{
	NmRuns v;
	Plan plan;

	nm_runs_view(p, &v);
	make_plan(p, &v, pos, item, tid, &plan);
	return plan.bytes;
}

NM_RACY bool
nm_runs_fits(const NmPage *p, int pos, const NmItem *item, uint64_t tid)
{
	return nm_page_gap(p) + p->garbage >= nm_runs_need(p, pos, item, tid);
}

/* Write all TIDs anew in another form. */
static void
rewrite_tids(NmPage *p, NmTidForm form)
{
	uint64_t raw[NM_LEAF_MAX_ENTRIES];
	NmRuns v;

	nm_runs_view(p, &v);
	for (int i = 0; i < v.n; i++)
		raw[i] = nm_run_raw(&v, i);
	p->tid_base = form.base;
	if (form.wide)
		p->flags |= NM_PF_WIDE;
	else
		p->flags &= (uint16_t) ~NM_PF_WIDE;
	nm_runs_view(p, &v);
	for (int i = 0; i < v.n; i++)
		nm_run_put(&v, i, raw[i]);
}

/* Open cnt runs in front of run "at"; their arrays' values are the caller's to set. */
static void
open_runs(NmPage *p, int at, int cnt)
{
	NmRuns o,
		v;
	size_t tail;

	nm_runs_view(p, &o);
	tail = (size_t) (o.nruns - at);
	p->nruns = (uint16_t) (o.nruns + cnt);
	nm_runs_view(p, &v);
	v.n = o.n;
	/* every array moves up, so the last one goes first */
	memmove(v.tids, o.tids, (size_t) (o.n * o.width));
	memmove(v.ends + at + cnt, o.ends + at, tail * sizeof(uint16_t));
	memmove(v.ends, o.ends, (size_t) at * sizeof(uint16_t));
	if (p->flags & NM_PF_GENERAL)
	{
		memmove(v.slots + at + cnt, o.slots + at, tail * sizeof(uint16_t));
		memmove(v.slots, o.slots, (size_t) at * sizeof(uint16_t));
	}
	if (v.heads || (p->flags & NM_PF_GENERAL) == 0)
		memmove(v.keys + at + cnt, v.keys + at, tail * sizeof(int64_t));
}

/* Take a run out of the arrays. */
static void
close_run(NmPage *p, int at)
{
	NmRuns o,
		v;
	size_t tail;

	nm_runs_view(p, &o);
	tail = (size_t) (o.nruns - at - 1);
	p->nruns = (uint16_t) (o.nruns - 1);
	nm_runs_view(p, &v);
	/* every array moves down, so the first one goes first */
	if (v.heads || (p->flags & NM_PF_GENERAL) == 0)
		memmove(v.keys + at, v.keys + at + 1, tail * sizeof(int64_t));
	if (p->flags & NM_PF_GENERAL)
	{
		memmove(v.slots, o.slots, (size_t) at * sizeof(uint16_t));
		memmove(v.slots + at, o.slots + at + 1, tail * sizeof(uint16_t));
	}
	memmove(v.ends, o.ends, (size_t) at * sizeof(uint16_t));
	memmove(v.ends + at, o.ends + at + 1, tail * sizeof(uint16_t));
	memmove(v.tids, o.tids, (size_t) (o.n * o.width));
}

/* A leaf of runs that has become empty is a plain one. */
static void
back_to_plain(NmPage *p)
{
	p->flags &= (uint16_t) ~(NM_PF_RUNS | NM_PF_WIDE);
	p->nruns = 0;
	p->tid_base = 0;
}

/* Write a key as the item of a run. */
static uint16_t
add_item(NmPage *p, const NmItem *item, NmPageNo overflow)
{
	NmEntry e = {.item = item, .overflow = overflow};

	p->lower -= (uint16_t) nm_item_bytes(0, item->len, overflow != NM_NO_PAGE);
	nm_item_write(p, p->lower, 0, &e);
	return p->lower;
}

void
nm_runs_insert(NmPage *p, int pos, const NmEntry *e)
{
	bool general = (p->flags & NM_PF_GENERAL) != 0;
	Plan plan;
	NmRuns v;
	int run;

	nm_runs_view(p, &v);
	NM_ASSERT(v.n == p->n && v.nruns == p->nruns && pos >= 0 && pos <= v.n);
	make_plan(p, &v, pos, e->item, e->tid, &plan);
	NM_ASSERT(nm_page_gap(p) + p->garbage >= plan.bytes);
	if (general && nm_page_gap(p) < plan.bytes)
		nm_items_compact(p);
	if (plan.rewrite)
		rewrite_tids(p, plan.form);

	run = plan.run;
	if (plan.way != JOIN)
	{
		bool cut = plan.way == CUT;

		if (cut)
			run++;
		open_runs(p, run, cut ? 2 : 1);
		nm_runs_view(p, &v);
		v.ends[run] = (uint16_t) pos;
		if (general)
		{
			v.slots[run] = add_item(p, e->item, e->overflow);
			if (v.heads)
				v.heads[run] = e->item->head;
		}
		else
			v.keys[run] = e->item->isnull ? 0 : e->item->key;
		if (cut)
		{
			/* the rest of the run has a copy of its key */
			v.ends[run + 1] = v.ends[run - 1];
			v.ends[run - 1] = (uint16_t) pos;
			if (general)
			{
				int size = nm_item_size(p, run - 1);

				p->lower -= (uint16_t) size;
				memcpy((char *) p + p->lower, (char *) p + v.slots[run - 1], (size_t) size);
				v.slots[run + 1] = p->lower;
				if (v.heads)
					v.heads[run + 1] = v.heads[run - 1];
			}
			else
				v.keys[run + 1] = v.keys[run - 1];
		}
	}

	nm_runs_view(p, &v);
	for (int r = run; r < v.nruns; r++)
		v.ends[r]++;
	memmove(v.tids + (pos + 1) * v.width, v.tids + pos * v.width,
			(size_t) ((v.n - pos) * v.width));
	nm_run_put(&v, pos, (e->tid & ~(uint64_t) NM_KILLED_BIT) | (e->killed ? NM_KILLED_BIT : 0));
	if (!general && e->item->isnull)
		p->nnull++;
	p->n++;
}

/* ---- removing ---- */

NmPageNo
nm_runs_remove(NmPage *p, int pos)
{
	NmPageNo overflow = NM_NO_PAGE;
	NmRuns v;
	int run;

	nm_runs_view(p, &v);
	NM_ASSERT(pos >= 0 && pos < v.n);
	run = nm_run_of(&v, pos);
	if ((p->flags & NM_PF_GENERAL) == 0 && nm_entry_isnull(p, pos))
		p->nnull--;
	memmove(v.tids + pos * v.width, v.tids + (pos + 1) * v.width,
			(size_t) ((v.n - pos - 1) * v.width));
	p->n--;
	for (int r = run; r < v.nruns; r++)
		v.ends[r]--;
	if (nm_run_start(&v, run) == v.ends[run])
	{
		if (p->flags & NM_PF_GENERAL)
		{
			overflow = nm_item_overflow(p, run);
			p->garbage += (uint16_t) nm_item_size(p, run);
		}
		close_run(p, run);
	}
	if (p->n == 0)
		back_to_plain(p);
	return overflow;
}

int
nm_runs_drop(NmPage *p, const uint8_t *drop, NmRetired *retired)
{
	bool general = (p->flags & NM_PF_GENERAL) != 0;
	NmRuns o,
		v;
	int nnull = 0;
	int at = 0;
	int runs = 0;
	int i = 0;

	nm_runs_view(p, &o);
	for (int r = 0; r < o.nruns; r++)
	{
		int end = o.ends[r];
		int before = at;

		for (; i < end; i++)
		{
			if (drop[i])
				continue;
			nnull += nm_entry_isnull(p, i);
			if (at != i)
				memcpy(o.tids + at * o.width, o.tids + i * o.width, (size_t) o.width);
			at++;
		}
		if (at == before)
		{
			if (general)
			{
				nm_retire_later(retired, nm_item_overflow(p, r));
				p->garbage += (uint16_t) nm_item_size(p, r);
			}
			continue;
		}
		if (general)
			o.slots[runs] = o.slots[r];
		if (!general || o.heads)
			o.keys[runs] = o.keys[r];
		o.ends[runs++] = (uint16_t) at;
	}
	p->n = (uint16_t) at;
	p->nruns = (uint16_t) runs;
	p->nnull = (uint16_t) nnull;
	nm_runs_view(p, &v);
	/* the arrays move together, the first one is in place */
	if (general)
		memmove(v.slots, o.slots, (size_t) runs * sizeof(uint16_t));
	memmove(v.ends, o.ends, (size_t) runs * sizeof(uint16_t));
	memmove(v.tids, o.tids, (size_t) (at * o.width));
	if (at == 0)
		back_to_plain(p);
	return o.n - at;
}

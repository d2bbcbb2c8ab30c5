/*-------------------------------------------------------------------------
 *
 * spool_sortkey.c
 *	  Sort keys of a collation, for the sort of a build or load.
 *
 * A collation library that compares two strings walks through both; a sort of
 * n strings lets it do that log2(n) times for each.  What it calls a sort key
 * is a string of bytes whose order is that of the strings, made once.  We keep
 * the beginning of each tuple's behind the tuple while it is sorted, and order
 * by it first; what it leaves open, the columns decide.  Beginnings that differ
 * in a byte that both have order their strings as the whole keys do.  So
 * entries may keep as many bytes as each likes, in one run or in several; but
 * one that is cut off says nothing of the bytes that follow.
 *
 * Only where sort keys are trusted to order as comparisons do, which is core's
 * judgement: ICU's are, the C library's are not (varstr_sortsupport()).  nbtree
 * makes the first eight bytes of the same keys, as abbreviated keys, and
 * compares strings again when it merges.
 *
 * IDENTIFICATION
 *	  src/am/spool_sortkey.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "am/am.h"

#include "am/spool.h"

#include "catalog/pg_collation.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/pg_locale.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * Bytes of a sort key that are made: 16 to begin with, as most strings differ
 * there and a key's price is its length; more if these turn out to begin alike;
 * and if that does not help either, no more than an abbreviated key has.
 */
static const int key_bytes[] = {16, NM_SORT_KEY_MAX, 8};

/* Tuples that are looked at when the keys' length is reviewed. */
#define REVIEW_TUPLES 1024

#if PG_VERSION_NUM >= 160000

static bool
has_sort_keys(pg_locale_t locale)
{
	return pg_strxfrm_prefix_enabled(locale);
}

/* The first bytes of a sort key, at most max; how many there are. */
static int
make_sort_key(pg_locale_t locale, const char *src, int len, char *dest, int max)
{
#if PG_VERSION_NUM >= 180000
	return (int) pg_strnxfrm_prefix(dest, max, src, len, locale);
#else
	/* before 18 that function reads on to a zero byte, whatever length it gets */
	char room[1024];
	char *terminated = len < sizeof(room) ? room : palloc(len + 1);
	int n;

	memcpy(terminated, src, len);
	terminated[len] = '\0';
	n = (int) pg_strxfrm_prefix(dest, terminated, max, locale);
	if (terminated != room)
		pfree(terminated);
	return n;
#endif
}

#elif defined(USE_ICU)

/*
 * Core has no function for this yet.  The library's own have its version in
 * their names, and the headers may be of another one than the server's library:
 * that must not keep the server from starting, and a collator must not be given
 * to another library than that which made it.
 */
extern __typeof__(ucol_nextSortKeyPart) ucol_nextSortKeyPart __attribute__((weak));
extern __typeof__(uiter_setUTF8) uiter_setUTF8 __attribute__((weak));
extern __typeof__(uiter_setString) uiter_setString __attribute__((weak));
extern __typeof__(u_errorName) u_errorName __attribute__((weak));

static bool
has_sort_keys(pg_locale_t locale)
{
	Dl_info function;
	Dl_info collator;

	if (locale->provider != COLLPROVIDER_ICU || ucol_nextSortKeyPart == NULL ||
		uiter_setUTF8 == NULL || uiter_setString == NULL || u_errorName == NULL)
		return false;
	/* a collator is an object of C++, whose first word points to its class's functions */
	return dladdr((void *) ucol_nextSortKeyPart, &function) != 0 &&
		   dladdr(*(void **) locale->info.icu.ucol, &collator) != 0 &&
		   function.dli_fbase == collator.dli_fbase;
}

static int
make_sort_key(pg_locale_t locale, const char *src, int len, char *dest, int max)
{
	UCharIterator iter;
	UErrorCode status = U_ZERO_ERROR;
	UChar *uchars = NULL;
	uint32_t state[2] = {0, 0};
	int n;

	if (GetDatabaseEncoding() == PG_UTF8)
		uiter_setUTF8(&iter, src, len);
	else
	{
		int32_t nuchars = icu_to_uchar(&uchars, src, len);

		uiter_setString(&iter, uchars, nuchars);
	}
	n = ucol_nextSortKeyPart(locale->info.icu.ucol, &iter, state, (uint8_t *) dest, max, &status);
	if (U_FAILURE(status))
		ereport(ERROR,
				(errmsg("sort key generation failed: %s", u_errorName(status))));
	if (uchars)
		pfree(uchars);
	return n;
}

#else

static bool
has_sort_keys(pg_locale_t locale)
{
	return false;
}

static int
make_sort_key(pg_locale_t locale, const char *src, int len, char *dest, int max)
{
	return 0;
}

#endif

/* Sets spool->locale if the first column is sorted by sort keys. */
void
nm_sort_keys_begin(NmSpool *spool)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	pg_locale_t locale;

	if (desc->column[0] != NM_ORDER_CALL ||
		(desc->order[0].fn_oid != F_BTTEXTCMP && desc->order[0].fn_oid != F_BPCHARCMP) ||
		!OidIsValid(desc->collation[0]))
		return;
	locale = pg_newlocale_from_collation(desc->collation[0]);
	if (locale != NULL && has_sort_keys(locale))
		spool->locale = locale;
}

/* A copy of the tuple, which is freed, with its sort key, in the tuples' context. */
IndexTuple
nm_sort_key_attach(NmSpool *spool, IndexTuple itup)
{
	const NmKeyDesc *desc = &spool->idx->desc;
	Size size = MAXALIGN(IndexTupleSize(itup));
	int max = key_bytes[spool->sort_key_step];
	char data[NM_SORT_KEY_MAX];
	int n = 0;
	bool isnull;
	Datum d = index_getattr(itup, 1, desc->tupdesc, &isnull);
	IndexTuple copy;

	if (!isnull)
	{
		struct varlena *v = PG_DETOAST_DATUM_PACKED(d);
		int len = VARSIZE_ANY_EXHDR(v);

		if (desc->order[0].fn_oid == F_BPCHARCMP)
			len = bpchartruelen(VARDATA_ANY(v), len);
		n = make_sort_key(spool->locale, VARDATA_ANY(v), len, data, max);
		if ((Pointer) v != DatumGetPointer(d))
			pfree(v);
	}
	/* padding is written to files, too */
	copy = MemoryContextAllocZero(spool->tuple_cxt, size + MAXALIGN(offsetof(NmSortKey, data) + n));
	memcpy(copy, itup, IndexTupleSize(itup));
	nm_sort_key(copy)->len = n;
	nm_sort_key(copy)->cut = n == max;
	memcpy(nm_sort_key(copy)->data, data, n);
	pfree(itup);
	return copy;
}

/* 0: the columns decide. */
int
nm_sort_keys_compare(const NmSpool *spool, IndexTuple a, IndexTuple b)
{
	const NmSortKey *x = nm_sort_key(a);
	const NmSortKey *y = nm_sort_key(b);
	int r = memcmp(x->data, y->data, Min(x->len, y->len));

	if (spool->idx->desc.desc_first)
		INVERT_COMPARE_RESULT(r);
	return r;
}

static int
compare_for_review(const void *a, const void *b, void *spool)
{
	return nm_sort_keys_compare(spool, *(const IndexTuple *) a, *(const IndexTuple *) b);
}

/*
 * Do sort keys cut strings off before these differ, as with addresses that all
 * begin alike?  Looks at the latest tuples; if one of four is not told from its
 * neighbour, keys have another length from now on.
 */
void
nm_sort_keys_review(NmSpool *spool)
{
	TupleDesc tupdesc = spool->idx->desc.tupdesc;
	int bytes = key_bytes[spool->sort_key_step];
	IndexTuple *t;
	int alike = 0;

	if (spool->nentries < REVIEW_TUPLES || spool->sort_key_step == lengthof(key_bytes) - 1)
		return;
	t = palloc(REVIEW_TUPLES * sizeof(IndexTuple));
	for (int i = 0; i < REVIEW_TUPLES; i++)
		t[i] = spool->tuples[spool->nentries - REVIEW_TUPLES + i].itup;
	qsort_arg(t, REVIEW_TUPLES, sizeof(IndexTuple), compare_for_review, spool);
	for (int i = 1; i < REVIEW_TUPLES; i++)
	{
		bool null1;
		bool null2;

		if (nm_sort_key(t[i])->len == bytes && nm_sort_key(t[i - 1])->len == bytes &&
			nm_sort_keys_compare(spool, t[i - 1], t[i]) == 0 &&
			!datum_image_eq(index_getattr(t[i - 1], 1, tupdesc, &null1),
							index_getattr(t[i], 1, tupdesc, &null2), false, -1))
			alike++;
	}
	if (alike > REVIEW_TUPLES / 4)
	{
		spool->sort_key_step++;
		ereport(DEBUG1,
				(errmsg_internal("sort keys of numa_btree index \"%s\" have %d bytes after " INT64_FORMAT " rows",
								 RelationGetRelationName(spool->index),
								 key_bytes[spool->sort_key_step], spool->ntotal)));
	}
	pfree(t);
}

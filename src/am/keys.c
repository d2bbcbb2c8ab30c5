/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  What an index's definition says about its keys: layout, order, heads,
 *	  and the way between column values and tree items.
 *
 * The FIXED layout serves exactly one column whose order function is one of
 * the built-in integer-like ones: the value becomes an int64 whose signed order
 * is the index order (complemented for DESC).  Everything else is GENERAL: the
 * key bytes are the whole IndexTuple with a zero heap TID, so that a copied
 * entry can be handed to the executor, which takes the TID from elsewhere.
 *
 * Functions here hold no lock.  Comparators run on private copies and may raise
 * an error.
 *
 * IDENTIFICATION
 *	  src/am/keys.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "am/am.h"

#include "access/transam.h"
#include "catalog/pg_collation.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/sortsupport.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

static bool collation_is_c(Oid collation);
static bool order_is_foreign(Oid proc);
static NmColumnOrder column_order(Oid proc, Oid collation, Form_pg_attribute att,
								  NmFixedKind *kind);
static int compare_bytes(const char *a, int alen, const char *b, int blen);
static int compare_varlena(Datum a, Datum b, bool blanks);
static int compare_float(double a, double b);
static uint64 head_of_bytes(const unsigned char *p, int len);
static uint64 head_of_float(double v);

/*
 * The built-in order functions whose order is that of a machine integer.  The
 * function decides, not the type: a user's own operator class over one of
 * these is as good as ours.
 */
NmFixedKind
nm_fixed_kind_of_proc(Oid proc)
{
	switch (proc)
	{
		case F_BTINT2CMP:
			return NM_FIXED_INT2;
		case F_BTINT4CMP:
		case F_DATE_CMP:
			return NM_FIXED_INT4;
		case F_BTINT8CMP:
		case F_TIMESTAMP_CMP:
		case F_TIMESTAMPTZ_CMP:
		case F_TIME_CMP:
		case F_CASH_CMP:
			return NM_FIXED_INT8;
		case F_BTOIDCMP:
			return NM_FIXED_OID;
		case F_BTBOOLCMP:
			return NM_FIXED_BOOL;
		case F_BTCHARCMP:
			return NM_FIXED_CHAR;
		default:
			return NM_FIXED_NONE;
	}
}

static int
fixed_kind_width(NmFixedKind kind)
{
	switch (kind)
	{
		case NM_FIXED_INT2:
			return 2;
		case NM_FIXED_INT4:
		case NM_FIXED_OID:
			return 4;
		case NM_FIXED_INT8:
			return 8;
		case NM_FIXED_BOOL:
		case NM_FIXED_CHAR:
			return 1;
		case NM_FIXED_NONE:
			break;
	}
	return 0;
}

static bool
collation_is_c(Oid collation)
{
	if (!OidIsValid(collation))
		return false;
	if (collation == C_COLLATION_OID)
		return true;
#if PG_VERSION_NUM >= 180000
	return pg_newlocale_from_collation(collation)->collate_is_c;
#else
	return lc_collate_is_c(collation);
#endif
}

/*
 * May this order function run code that is not its own: user functions, or
 * built-in ones that call the order function of another type?  Such code may
 * use another of our indexes, so the tree must be out of its epoch section.
 */
static bool
order_is_foreign(Oid proc)
{
	if (proc >= FirstGenbkiObjectId)
		return true;
	switch (proc)
	{
		case F_BTARRAYCMP:
		case F_BTRECORDCMP:
		case F_ENUM_CMP:
		case F_RANGE_CMP:
		case F_MULTIRANGE_CMP:
			return true;
		default:
			return false;
	}
}

/* How one key column is compared; *kind is set with NM_ORDER_INTEGER. */
static NmColumnOrder
column_order(Oid proc, Oid collation, Form_pg_attribute att, NmFixedKind *kind)
{
	*kind = nm_fixed_kind_of_proc(proc);
	if (*kind != NM_FIXED_NONE)
	{
		/* int8 is passed by reference on 32-bit machines: still an integer */
		if (att->attlen == fixed_kind_width(*kind))
			return NM_ORDER_INTEGER;
		*kind = NM_FIXED_NONE;
		return NM_ORDER_CALL;
	}

	switch (proc)
	{
		case F_BTFLOAT4CMP:
			return att->attlen == 4 ? NM_ORDER_FLOAT4 : NM_ORDER_CALL;
		case F_BTFLOAT8CMP:
			return att->attlen == 8 ? NM_ORDER_FLOAT8 : NM_ORDER_CALL;
		case F_BTTEXTCMP:
			if (att->attlen == -1 && collation_is_c(collation))
				return NM_ORDER_VARLENA;
			return NM_ORDER_CALL;
		case F_BYTEACMP:
		case F_BTTEXT_PATTERN_CMP:
			return att->attlen == -1 ? NM_ORDER_VARLENA : NM_ORDER_CALL;
		case F_BPCHARCMP:
			if (att->attlen == -1 && collation_is_c(collation))
				return NM_ORDER_BPCHAR;
			return NM_ORDER_CALL;
		case F_BTBPCHAR_PATTERN_CMP:
			return att->attlen == -1 ? NM_ORDER_BPCHAR : NM_ORDER_CALL;
		case F_BTNAMECMP:
			if (att->attlen == NAMEDATALEN && collation_is_c(collation))
				return NM_ORDER_NAME;
			return NM_ORDER_CALL;
		case F_UUID_CMP:
			return att->attlen == 16 ? NM_ORDER_RAW : NM_ORDER_CALL;
		case F_MACADDR_CMP:
			return att->attlen == 6 ? NM_ORDER_RAW : NM_ORDER_CALL;
		case F_MACADDR8_CMP:
			return att->attlen == 8 ? NM_ORDER_RAW : NM_ORDER_CALL;
		default:
			return NM_ORDER_CALL;
	}
}

/*
 * Fill a key description from an open index.  Everything it points to lives
 * in a context of its own under parent; delete desc->cxt to be rid of it.
 */
void
nm_keydesc_init(NmKeyDesc *desc, Relation index, MemoryContext parent)
{
	MemoryContext cxt;
	MemoryContext old;

	memset(desc, 0, sizeof(*desc));
	cxt = AllocSetContextCreate(parent, "numa_btree keys", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(cxt);

	desc->cxt = cxt;
	desc->natts = IndexRelationGetNumberOfAttributes(index);
	desc->nkeys = IndexRelationGetNumberOfKeyAttributes(index);
	desc->tupdesc = CreateTupleDescCopy(RelationGetDescr(index));

	for (int i = 0; i < desc->nkeys; i++)
	{
		FmgrInfo *order = index_getprocinfo(index, i + 1, NM_ORDER_PROC);

		desc->indoption[i] = index->rd_indoption[i];
		desc->collation[i] = index->rd_indcollation[i];
		fmgr_info_copy(&desc->order[i], order, cxt);
		/* operator class options hang on the relcache entry's memory */
		if (order->fn_expr)
			desc->order[i].fn_expr = copyObject(order->fn_expr);
		desc->column[i] = column_order(order->fn_oid, desc->collation[i],
									   TupleDescAttr(desc->tupdesc, i),
									   &desc->kind[i]);
		if (desc->column[i] == NM_ORDER_CALL && order_is_foreign(order->fn_oid))
			desc->foreign = true;
	}

	desc->fixed = desc->kind[0];
	desc->desc_first = (desc->indoption[0] & INDOPTION_DESC) != 0;
	desc->nulls_first = (desc->indoption[0] & INDOPTION_NULLS_FIRST) != 0;
	desc->layout = (desc->natts == 1 && desc->column[0] == NM_ORDER_INTEGER) ? NM_LAYOUT_FIXED : NM_LAYOUT_GENERAL;

	switch (desc->column[0])
	{
		case NM_ORDER_CALL:
			desc->head = NM_HEAD_NONE;
			break;
		case NM_ORDER_INTEGER:
			desc->head = NM_HEAD_FIXED;
			break;
		case NM_ORDER_FLOAT4:
		case NM_ORDER_FLOAT8:
			desc->head = NM_HEAD_FLOAT;
			break;
		case NM_ORDER_VARLENA:
		case NM_ORDER_BPCHAR:
		case NM_ORDER_NAME:
		case NM_ORDER_RAW:
			desc->head = NM_HEAD_BYTES;
			break;
	}

	MemoryContextSwitchTo(old);
}

/* Is the description still that of the index? */
bool
nm_keydesc_matches(const NmKeyDesc *desc, Relation index)
{
	TupleDesc tupdesc = RelationGetDescr(index);

	if (desc->cxt == NULL ||
		desc->natts != IndexRelationGetNumberOfAttributes(index) ||
		desc->nkeys != IndexRelationGetNumberOfKeyAttributes(index))
		return false;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute a = TupleDescAttr(desc->tupdesc, i);
		Form_pg_attribute b = TupleDescAttr(tupdesc, i);

		if (a->atttypid != b->atttypid || a->attlen != b->attlen ||
			a->attbyval != b->attbyval || a->attalign != b->attalign ||
			a->attstorage != b->attstorage || a->attcompression != b->attcompression)
			return false;
	}
	for (int i = 0; i < desc->nkeys; i++)
	{
		FmgrInfo *order = index_getprocinfo(index, i + 1, NM_ORDER_PROC);

		if (desc->indoption[i] != index->rd_indoption[i] ||
			desc->collation[i] != index->rd_indcollation[i] ||
			desc->order[i].fn_oid != order->fn_oid ||
			!equal(desc->order[i].fn_expr, order->fn_expr))
			return false;
	}
	return true;
}

static inline int
compare_bytes(const char *a, int alen, const char *b, int blen)
{
	int r = memcmp(a, b, Min(alen, blen));

	if (r != 0)
		return r;
	return (alen > blen) - (alen < blen);
}

/* Byte order of two varlena values; blanks = trailing ones don't count. */
static int
compare_varlena(Datum a, Datum b, bool blanks)
{
	struct varlena *va = PG_DETOAST_DATUM_PACKED(a);
	struct varlena *vb = PG_DETOAST_DATUM_PACKED(b);
	int alen = VARSIZE_ANY_EXHDR(va);
	int blen = VARSIZE_ANY_EXHDR(vb);
	int r;

	if (blanks)
	{
		alen = bpchartruelen(VARDATA_ANY(va), alen);
		blen = bpchartruelen(VARDATA_ANY(vb), blen);
	}
	r = compare_bytes(VARDATA_ANY(va), alen, VARDATA_ANY(vb), blen);
	if ((Pointer) va != DatumGetPointer(a))
		pfree(va);
	if ((Pointer) vb != DatumGetPointer(b))
		pfree(vb);
	return r;
}

/* PostgreSQL's order of floats: NaN equals NaN and is above everything. */
static inline int
compare_float(double a, double b)
{
	if (isnan(a))
		return isnan(b) ? 0 : 1;
	if (isnan(b))
		return -1;
	return (a > b) - (a < b);
}

/*
 * Order of two non-null values of a key column as its operator class sees it,
 * DESC not applied.
 */
int
nm_compare_column(const NmKeyDesc *desc, int attno, Datum a, Datum b)
{
	int i = attno - 1;

	switch (desc->column[i])
	{
		case NM_ORDER_INTEGER:
		{
			int64 x = nm_fixed_value(desc->kind[i], a);
			int64 y = nm_fixed_value(desc->kind[i], b);

			return (x > y) - (x < y);
		}
		case NM_ORDER_FLOAT4:
			return compare_float(DatumGetFloat4(a), DatumGetFloat4(b));
		case NM_ORDER_FLOAT8:
			return compare_float(DatumGetFloat8(a), DatumGetFloat8(b));
		case NM_ORDER_VARLENA:
			return compare_varlena(a, b, false);
		case NM_ORDER_BPCHAR:
			return compare_varlena(a, b, true);
		case NM_ORDER_NAME:
			return strncmp(NameStr(*DatumGetName(a)), NameStr(*DatumGetName(b)), NAMEDATALEN);
		case NM_ORDER_RAW:
			return memcmp(DatumGetPointer(a), DatumGetPointer(b),
						  TupleDescAttr(desc->tupdesc, i)->attlen);
		case NM_ORDER_CALL:
			break;
	}
	return DatumGetInt32(FunctionCall2Coll((FmgrInfo *) &desc->order[i],
										   desc->collation[i], a, b));
}

/*
 * Key columns in index order, NULLs where the index wants them.  support: how
 * to compare the columns of kind NM_ORDER_CALL, or NULL: by their functions.
 */
static inline int
compare_tuples(const NmKeyDesc *desc, IndexTuple ta, IndexTuple tb, SortSupport support)
{
	for (int i = 0; i < desc->nkeys; i++)
	{
		bool na;
		bool nb;
		Datum da = index_getattr(ta, i + 1, desc->tupdesc, &na);
		Datum db = index_getattr(tb, i + 1, desc->tupdesc, &nb);
		int r;

		if (na || nb)
		{
			if (na && nb)
				continue;
			r = (na == ((desc->indoption[i] & INDOPTION_NULLS_FIRST) != 0)) ? -1 : 1;
			return r;
		}
		if (support != NULL && desc->column[i] == NM_ORDER_CALL)
		{
			/* these know about DESC */
			r = support[i].abbrev_converter != NULL
					? ApplySortAbbrevFullComparator(da, false, db, false, &support[i])
					: ApplySortComparator(da, false, db, false, &support[i]);
			if (r != 0)
				return r;
			continue;
		}
		r = nm_compare_column(desc, i + 1, da, db);
		if (r != 0)
		{
			if (desc->indoption[i] & INDOPTION_DESC)
				return r < 0 ? 1 : -1;
			return r;
		}
	}
	return 0;
}

/* The tree's comparator of GENERAL keys. */
int
nm_compare_items(void *arg, const NmItem *a, const NmItem *b)
{
	return compare_tuples((const NmKeyDesc *) arg, (IndexTuple) a->data, (IndexTuple) b->data, NULL);
}

int
nm_compare_tuples(const NmKeyDesc *desc, IndexTuple a, IndexTuple b, SortSupport support)
{
	return compare_tuples(desc, a, b, support);
}

/* The first eight bytes, big-endian, short ones padded with zeros. */
static inline uint64
head_of_bytes(const unsigned char *p, int len)
{
	uint64 h = 0;

	if (len >= 8)
	{
		memcpy(&h, p, 8);
#ifndef WORDS_BIGENDIAN
		h = __builtin_bswap64(h);
#endif
		return h;
	}
	for (int i = 0; i < len; i++)
		h |= (uint64) p[i] << (56 - 8 * i);
	return h;
}

/*
 * The word-th eight bytes of a string that is the first column, as part of an
 * order-preserving image; beyond its end zeros.
 */
uint64
nm_key_word(const NmKeyDesc *desc, const char *p, int len, int word)
{
	uint64 h = 0;

	if (len > word * 8)
		h = head_of_bytes((const unsigned char *) p + word * 8, len - word * 8);
	return desc->desc_first ? ~h : h;
}

/* Order-preserving image of a double; -0 is 0 and NaN is above infinity. */
static inline uint64
head_of_float(double v)
{
	uint64 h;

	if (isnan(v))
		return PG_UINT64_MAX;
	if (v == 0)
		v = 0;
	memcpy(&h, &v, sizeof(h));
	return (h & (UINT64CONST(1) << 63)) ? ~h : h | (UINT64CONST(1) << 63);
}

/*
 * The head of a first-column value: 64 bits such that head(a) < head(b)
 * implies that a comes before b in the index.  Values that share the lowest or
 * highest head with NULL are fine: equal heads decide nothing.
 */
uint64
nm_key_head(const NmKeyDesc *desc, Datum value, bool isnull)
{
	uint64 h = 0;

	if (desc->head == NM_HEAD_NONE)
		return 0;
	if (isnull)
		return desc->nulls_first ? 0 : PG_UINT64_MAX;

	switch (desc->column[0])
	{
		case NM_ORDER_INTEGER:
			h = (uint64) nm_fixed_value(desc->kind[0], value) ^ (UINT64CONST(1) << 63);
			break;
		case NM_ORDER_FLOAT4:
			h = head_of_float(DatumGetFloat4(value));
			break;
		case NM_ORDER_FLOAT8:
			h = head_of_float(DatumGetFloat8(value));
			break;
		case NM_ORDER_VARLENA:
		case NM_ORDER_BPCHAR:
		{
			struct varlena *v = PG_DETOAST_DATUM_PACKED(value);
			int len = VARSIZE_ANY_EXHDR(v);

			if (desc->column[0] == NM_ORDER_BPCHAR)
				len = bpchartruelen(VARDATA_ANY(v), len);
			h = head_of_bytes((unsigned char *) VARDATA_ANY(v), len);
			if ((Pointer) v != DatumGetPointer(value))
				pfree(v);
			break;
		}
		case NM_ORDER_NAME:
		{
			const char *name = NameStr(*DatumGetName(value));

			h = head_of_bytes((const unsigned char *) name, strnlen(name, 8));
			break;
		}
		case NM_ORDER_RAW:
			h = head_of_bytes((unsigned char *) DatumGetPointer(value),
							  TupleDescAttr(desc->tupdesc, 0)->attlen);
			break;
		case NM_ORDER_CALL:
			return 0;
	}
	return desc->desc_first ? ~h : h;
}

void
nm_item_from_tuple(const NmKeyDesc *desc, IndexTuple itup, NmItem *item)
{
	item->key = 0;
	item->isnull = false;
	item->data = itup;
	item->len = IndexTupleSize(itup);
	item->head = 0;
	if (desc->head != NM_HEAD_NONE)
	{
		bool isnull;
		Datum d = index_getattr(itup, 1, desc->tupdesc, &isnull);

		item->head = nm_key_head(desc, d, isnull);
	}
}

void
nm_item_from_batch(const NmKeyDesc *desc, const NmBatch *batch, int i, NmItem *item)
{
	if (desc->layout == NM_LAYOUT_FIXED)
	{
		item->key = batch->keys[i];
		item->isnull = i >= batch->null_from && i < batch->null_to;
		item->head = 0;
		item->data = NULL;
		item->len = 0;
	}
	else
		nm_item_from_tuple(desc, (IndexTuple) &batch->data[batch->off[i]], item);
}

void
nm_form_item(NmIndex *idx, Relation index, Datum *values, bool *isnull,
			 ItemPointer tid, NmItem *item, IndexTuple *tuple)
{
	const NmKeyDesc *desc = &idx->desc;
	IndexTuple itup;

	if (desc->layout == NM_LAYOUT_FIXED)
	{
		item->isnull = isnull[0];
		item->key = 0;
		if (!isnull[0])
		{
			item->key = nm_fixed_value(desc->fixed, values[0]);
			if (desc->desc_first)
				item->key = ~item->key;
		}
		item->head = 0;
		item->data = NULL;
		item->len = 0;
		*tuple = NULL;
		return;
	}

	/* t_tid stays zero: the tree stores keys of the same bytes once */
	itup = index_form_tuple(desc->tupdesc, values, isnull);
	if (unlikely(IndexTupleSize(itup) > NM_MAX_KEY_SIZE))
	{
		BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
		OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);

		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("index row size %zu exceeds %s maximum %d for index \"%s\"",
						(Size) IndexTupleSize(itup), NM_AM_NAME, NM_MAX_KEY_SIZE,
						RelationGetRelationName(index)),
				 errdetail("Index row references tuple (%u,%u) of the table.",
						   block, offset),
				 errhint("Consider an index on a hash of the value, such as md5(value), or full text indexing.")));
	}
	nm_item_from_tuple(desc, itup, item);
	*tuple = itup;
}

void
nm_deform_item(const NmKeyDesc *desc, const NmItem *item, Datum *values, bool *isnull)
{
	if (desc->layout == NM_LAYOUT_FIXED)
	{
		isnull[0] = item->isnull;
		values[0] = (Datum) 0;
		if (!item->isnull)
			values[0] = nm_fixed_datum(desc->fixed,
									   desc->desc_first ? ~item->key : item->key);
		return;
	}
	index_deform_tuple((IndexTuple) item->data, desc->tupdesc, values, isnull);
}

bool
nm_item_has_null_key(const NmKeyDesc *desc, const NmItem *item)
{
	IndexTuple itup = (IndexTuple) item->data;

	if (desc->layout == NM_LAYOUT_FIXED)
		return item->isnull;
	if (!IndexTupleHasNulls(itup))
		return false;
	for (int i = 0; i < desc->nkeys; i++)
	{
		bool isnull;

		(void) index_getattr(itup, i + 1, desc->tupdesc, &isnull);
		if (isnull)
			return true;
	}
	return false;
}

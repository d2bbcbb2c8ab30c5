/*-------------------------------------------------------------------------
 *
 * keys.c
 *	  What an index's definition says about its keys: layout and order.
 *
 * The FIXED layout serves exactly one column whose order function is one of
 * the built-in integer-like ones: the value becomes an int64 whose signed order
 * is the index order (complemented for DESC).  Everything else is GENERAL: a
 * key is an index tuple without a heap TID, in the form that image.c gives it.
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
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/pg_locale.h"
#include "utils/sortsupport.h"
#include "utils/varlena.h"

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
static int compare_text(const NmKeyDesc *desc, int i, Datum a, Datum b);

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

/* Bytes of a value of that kind. */
int
nm_fixed_width(NmFixedKind kind)
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
		if (att->attlen == nm_fixed_width(*kind))
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

	nm_image_init(desc);
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

bool
nm_plain_text(Datum v)
{
	const char *p = DatumGetPointer(v);

	return VARATT_IS_1B(p) ? !VARATT_IS_1B_E(p)
						   : VARATT_IS_4B_U(p) && VARSIZE(p) <= NM_MAX_KEY_SIZE;
}

/*
 * bttextcmp with a collation of its own, by what sorting uses in its place: the
 * same order, but the collation is looked up once, not for every comparison.
 * It keeps copies of the strings compared last, so long ones are not for it.
 */
static int
compare_text(const NmKeyDesc *desc, int i, Datum a, Datum b)
{
	SortSupport support = desc->text[i];
	int r;

	if (unlikely(support == NULL))
	{
		MemoryContext old = MemoryContextSwitchTo(desc->cxt);

		/* not at the index's opening: a collation that is not there raises here */
		support = palloc0(sizeof(SortSupportData));
		support->ssup_cxt = desc->cxt;
		support->ssup_collation = desc->collation[i];
		varstr_sortsupport(support, TEXTOID, desc->collation[i]);
		MemoryContextSwitchTo(old);
	}
	/* should it raise, another one is made: sorts do not go on after an error */
	((NmKeyDesc *) desc)->text[i] = NULL;
	r = support->comparator(a, b, support);
	((NmKeyDesc *) desc)->text[i] = support;
	return r;
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
			if (desc->order[i].fn_oid == F_BTTEXTCMP && nm_plain_text(a) && nm_plain_text(b))
				return compare_text(desc, i, a, b);
			break;
	}
	return DatumGetInt32(FunctionCall2Coll((FmgrInfo *) &desc->order[i],
										   desc->collation[i], a, b));
}

/*
 * Key columns from number "from" on, in index order, NULLs where the index
 * wants them.  support: how to compare the columns of kind NM_ORDER_CALL, or
 * NULL: by their functions.
 */
static inline int
compare_tuples(const NmKeyDesc *desc, int from, IndexTuple ta, IndexTuple tb, SortSupport support)
{
	for (int i = from; i < desc->nkeys; i++)
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

/*
 * The tree's comparator of GENERAL keys.  It is asked about keys with the same
 * head, mostly; what that says of the first columns need not be looked at again.
 */
int
nm_compare_items(void *arg, const NmItem *a, const NmItem *b)
{
	const NmKeyDesc *desc = (const NmKeyDesc *) arg;
	NmTupleBuffer abuf;
	NmTupleBuffer bbuf;
	int from = 0;

	if (a->head == b->head && (a->tag & b->tag & NM_TAG_FOLDED))
	{
		NmTail ta;
		NmTail tb;

		from = desc->nwhole;
		if (from == 0 && nm_image_tail(desc, a, &ta) && nm_image_tail(desc, b, &tb))
		{
			int r = nm_compare_tails(&ta, &tb);

			if (r != 0)
				return desc->desc_first ? (r < 0 ? 1 : -1) : r;
			from = 1;
		}
		if (from >= desc->nkeys)
			return 0;
	}
	if (from == 0 && desc->column[0] == NM_ORDER_CALL)
	{
		Datum va;
		Datum vb;

		if (nm_image_first(desc, a, &va) && nm_image_first(desc, b, &vb))
		{
			int r = nm_compare_column(desc, 1, va, vb);

			if (r != 0)
				return (desc->indoption[0] & INDOPTION_DESC) ? (r < 0 ? 1 : -1) : r;
			if (desc->nkeys == 1)
				return 0;
			from = 1;
		}
	}
	return compare_tuples(desc, from, nm_item_tuple(desc, a, &abuf), nm_item_tuple(desc, b, &bbuf), NULL);
}

int
nm_compare_tuples(const NmKeyDesc *desc, IndexTuple a, IndexTuple b, SortSupport support)
{
	return compare_tuples(desc, 0, a, b, support);
}

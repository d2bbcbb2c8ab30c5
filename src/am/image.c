/*-------------------------------------------------------------------------
 *
 * image.c
 *	  Stored images of keys: heads, and the way between column values, index
 *	  tuples and tree items.
 *
 * A GENERAL key is an index tuple without its header, in as few bytes as will
 * do.  Its image is a head, a tag and the bytes behind the header, "the data":
 *	- The heap TID is the tree's.  The size is that of the data, rounded up, so
 *	  zeros at its end, up to seven, need not be stored; where tuples without
 *	  NULLs all have the same size, none need.
 *	- The two flags of t_info are in the tag.
 *	- In a *folded* image what the head says is left out of the data: the leading
 *	  integers with the padding behind them, the first eight bytes of a string.
 *	  Tuples with NULLs are not folded, nor those whose bytes the head does not
 *	  give back exactly (-0, NaNs, compressed strings).
 *	- Of the NULL bitmap there are as many bytes as there are columns for, and no
 *	  padding behind it.
 * Everything can be made whole again, byte by byte: nm_image_tuple().
 *
 * A head orders keys: head(a) < head(b) implies that a comes before b in the
 * index.  Equal heads decide nothing, so NULL may share the lowest or highest
 * head with other values.  Leading integer columns are packed into it, high
 * bits first, each as an unsigned number of its width, complemented for DESC.
 * Behind a NULL in one of them all bits are those of the NULL, so that it stays
 * at its end: whatever shares its column's bits has a head no further out.
 *
 * Functions here hold no lock.
 *
 * IDENTIFICATION
 *	  src/am/image.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "am/am.h"

#include "access/itup.h"
#include "access/tupmacs.h"
#include "utils/builtins.h"

#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#define TUPLE_HEADER MAXALIGN(sizeof(IndexTupleData))
/* Bytes behind the header that the bitmap takes in a tuple that has one. */
#define BITMAP_SPACE \
	(MAXALIGN(sizeof(IndexTupleData) + sizeof(IndexAttributeBitMapData)) - TUPLE_HEADER)

StaticAssertDecl(BITMAP_SPACE >= 2 * ((INDEX_MAX_KEYS + 7) / 8),
				 "the bitmap has padding of its own size behind it");

static inline char *
tuple_data(IndexTuple itup)
{
	return (char *) itup + TUPLE_HEADER;
}

/* Bytes of the NULL bitmap that say something. */
static inline int
bitmap_bytes(const NmKeyDesc *desc)
{
	return (desc->natts + 7) / 8;
}

static inline uint64
low_bits(int bits)
{
	return bits >= 64 ? PG_UINT64_MAX : (UINT64CONST(1) << bits) - 1;
}

/* Is the order of that kind the order of signed numbers? */
static inline bool
kind_is_signed(NmFixedKind kind)
{
	return kind == NM_FIXED_INT2 || kind == NM_FIXED_INT4 || kind == NM_FIXED_INT8;
}

/*
 * ---------------------------------------------------------------------
 * What the index's definition says
 * ---------------------------------------------------------------------
 */

/* Where column i may begin at the earliest, if column i - 1 ends at "at". */
static int
next_column_at(TupleDesc tupdesc, int i, int at)
{
	Form_pg_attribute att;

	if (i >= tupdesc->natts)
		return at;
	att = TupleDescAttr(tupdesc, i);
	/* short varlena values are not aligned */
	return att->attlen > 0 ? att_align_nominal(at, att->attalign) : at;
}

static void
init_integers(NmKeyDesc *desc)
{
	int bits = 0;
	int at = 0;

	desc->head = NM_HEAD_INTEGERS;
	while (desc->nhead < desc->nkeys && desc->column[desc->nhead] == NM_ORDER_INTEGER)
	{
		int i = desc->nhead;
		int width = nm_fixed_width(desc->kind[i]);

		if (bits + 8 * width > 64)
			break;
		at = next_column_at(desc->tupdesc, i, at);
		desc->column_at[i] = at;
		desc->column_bits[i] = 8 * width;
		bits += 8 * width;
		at += width;
		desc->nhead++;
	}
	desc->nwhole = desc->nhead;
	desc->fold = next_column_at(desc->tupdesc, desc->nhead, at);
}

void
nm_image_init(NmKeyDesc *desc)
{
	int width = TupleDescAttr(desc->tupdesc, 0)->attlen;
	int at = 0;

	switch (desc->column[0])
	{
		case NM_ORDER_CALL:
			desc->head = NM_HEAD_NONE;
			break;
		case NM_ORDER_INTEGER:
			init_integers(desc);
			break;
		case NM_ORDER_VARLENA:
		case NM_ORDER_BPCHAR:
			desc->head = NM_HEAD_STRING;
			break;
		case NM_ORDER_NAME:
		case NM_ORDER_RAW:
			desc->head = NM_HEAD_BYTES;
			break;
		case NM_ORDER_FLOAT4:
		case NM_ORDER_FLOAT8:
			desc->head = NM_HEAD_FLOAT;
			break;
	}
	if (desc->head == NM_HEAD_BYTES || desc->head == NM_HEAD_FLOAT)
	{
		if (width <= 8)
		{
			desc->nwhole = 1;
			desc->fold = next_column_at(desc->tupdesc, 1, width);
		}
		else
			desc->fold = 8;
	}

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc->tupdesc, i);

		if (att->attlen <= 0)
			return;
		at = att_align_nominal(at, att->attalign) + att->attlen;
	}
	desc->full_size = MAXALIGN(at);
}

/*
 * ---------------------------------------------------------------------
 * Heads
 * ---------------------------------------------------------------------
 */

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

/* The other way; may write eight bytes whatever len is. */
static inline void
bytes_of_head(char *p, uint64 h)
{
#ifndef WORDS_BIGENDIAN
	h = __builtin_bswap64(h);
#endif
	memcpy(p, &h, 8);
}

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

static inline double
float_of_head(uint64 h)
{
	double v;

	h = (h & (UINT64CONST(1) << 63)) ? h & ~(UINT64CONST(1) << 63) : ~h;
	memcpy(&v, &h, sizeof(v));
	return v;
}

bool
nm_head_add(const NmKeyDesc *desc, int i, int64 v, bool isnull, uint64 *head)
{
	int left = 64;
	int bits = desc->column_bits[i];
	uint64 mask = low_bits(bits);
	bool high; /* nothing of the index comes after it, or before it */

	for (int j = 0; j < i; j++)
		left -= desc->column_bits[j];
	if (unlikely(isnull))
		high = (desc->indoption[i] & INDOPTION_NULLS_FIRST) == 0;
	else
	{
		uint64 x = (uint64) v;
		bool descending = (desc->indoption[i] & INDOPTION_DESC) != 0;

		if (kind_is_signed(desc->kind[i]))
		{
			/* from the lowest value of its width; wraps for others */
			x += UINT64CONST(1) << (bits - 1);
		}
		if (likely((x & ~mask) == 0))
		{
			if (descending)
				x = ~x & mask;
			*head |= x << (left - bits);
			return true;
		}
		high = (v > 0) != descending;
	}
	if (high)
		*head |= low_bits(left);
	return false;
}

/* INTEGERS: put the leading columns of a head back. */
static void
integers_of_head(const NmKeyDesc *desc, uint64 head, char *data)
{
	int left = 64;

	memset(data, 0, desc->fold);
	for (int i = 0; i < desc->nhead; i++)
	{
		int bits = desc->column_bits[i];
		uint64 x;

		left -= bits;
		x = head >> left & low_bits(bits);
		if (desc->indoption[i] & INDOPTION_DESC)
			x = ~x & low_bits(bits);
		if (kind_is_signed(desc->kind[i]))
			x -= UINT64CONST(1) << (bits - 1);
		switch (bits)
		{
			case 8:
				*(uint8 *) (data + desc->column_at[i]) = (uint8) x;
				break;
			case 16:
				*(uint16 *) (data + desc->column_at[i]) = (uint16) x;
				break;
			case 32:
				*(uint32 *) (data + desc->column_at[i]) = (uint32) x;
				break;
			default:
				*(uint64 *) (data + desc->column_at[i]) = x;
		}
	}
}

uint64
nm_value_head(const NmKeyDesc *desc, Datum value)
{
	uint64 h = 0;

	switch (desc->column[0])
	{
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
		case NM_ORDER_INTEGER:
		case NM_ORDER_CALL:
			return 0;
	}
	return desc->desc_first ? ~h : h;
}

uint64
nm_tuple_head(const NmKeyDesc *desc, IndexTuple itup)
{
	uint64 head = 0;
	bool isnull;
	Datum d;

	if (desc->head == NM_HEAD_NONE)
		return 0;
	if (desc->head == NM_HEAD_INTEGERS)
	{
		for (int i = 0; i < desc->nhead; i++)
		{
			d = index_getattr(itup, i + 1, desc->tupdesc, &isnull);
			if (!nm_head_add(desc, i, isnull ? 0 : nm_fixed_value(desc->kind[i], d), isnull, &head))
				break;
		}
		return head;
	}
	d = index_getattr(itup, 1, desc->tupdesc, &isnull);
	if (isnull)
		return desc->nulls_first ? 0 : PG_UINT64_MAX;
	return nm_value_head(desc, d);
}

/*
 * ---------------------------------------------------------------------
 * Images
 * ---------------------------------------------------------------------
 */

/* A string's header in bytes, or 0: there is no way to fold that. */
static inline int
string_header(const char *v)
{
	if (VARATT_IS_1B(v))
		return VARATT_IS_1B_E(v) ? 0 : VARHDRSZ_SHORT;
	return VARATT_IS_4B_U(v) ? VARHDRSZ : 0;
}

/* Write what a head says of the beginning of the data; eight bytes or desc->fold. */
static inline void
unfold_fixed(const NmKeyDesc *desc, uint64 head, char *data)
{
	if (desc->head == NM_HEAD_INTEGERS)
	{
		integers_of_head(desc, head, data);
		return;
	}
	if (desc->fold > 8)
		memset(data, 0, desc->fold);
	if (desc->desc_first)
		head = ~head;
	if (desc->column[0] == NM_ORDER_FLOAT8)
	{
		double v = float_of_head(head);

		memcpy(data, &v, sizeof(v));
	}
	else if (desc->column[0] == NM_ORDER_FLOAT4)
	{
		float v = (float) float_of_head(head);

		memset(data, 0, desc->fold);
		memcpy(data, &v, sizeof(v));
	}
	else
		bytes_of_head(data, head);
}

/* The first len bytes (at most 8) of a string. */
static inline void
unfold_string(const NmKeyDesc *desc, uint64 head, char *p, int len)
{
	bytes_of_head(p, desc->desc_first ? ~head : head);
	if (desc->column[0] == NM_ORDER_BPCHAR)
	{
		/* heads leave blanks at the end out, and no string has a zero */
		for (int i = len - 1; i >= 0 && p[i] == '\0'; i--)
			p[i] = ' ';
	}
}

/*
 * Leave out of the data what the head says.  True if that is right; then *data
 * points to the rest, in the tuple or in the buffer.
 */
static bool
fold(const NmKeyDesc *desc, uint64 head, const char **data, int *len, NmTupleBuffer *buffer)
{
	char first[64];
	int header;
	int n;

	if (desc->head == NM_HEAD_STRING)
	{
		header = string_header(*data);
		if (header == 0)
			return false;
		n = Min(8, (int) VARSIZE_ANY(*data) - header);
		if (desc->column[0] == NM_ORDER_BPCHAR)
		{
			unfold_string(desc, head, first, n);
			if (memcmp(first, *data + header, n) != 0)
				return false;
		}
		if (buffer == NULL)
			buffer = palloc(*len + 8);
		memcpy(buffer->data, *data, header);
		memcpy(buffer->data + header, *data + header + n, *len - header - n);
		*data = buffer->data;
		*len -= n;
		return true;
	}
	if (desc->head == NM_HEAD_FLOAT || desc->column[0] == NM_ORDER_NAME)
	{
		unfold_fixed(desc, head, first);
		if (memcmp(first, *data, desc->fold) != 0)
			return false;
	}
	*data += desc->fold;
	*len -= desc->fold;
	return true;
}

void
nm_item_from_tuple(const NmKeyDesc *desc, IndexTuple itup, NmItem *item, NmTupleBuffer *buffer)
{
	const char *data = tuple_data(itup);
	int len = (int) (IndexTupleSize(itup) - TUPLE_HEADER);
	int least = len - 7;
	bool nulls = IndexTupleHasNulls(itup);

	item->key = 0;
	item->isnull = false;
	item->form = itup;
	item->head = nm_tuple_head(desc, itup);
	item->tag = (nulls ? NM_TAG_NULLS : 0) | (IndexTupleHasVarwidths(itup) ? NM_TAG_VARWIDTH : 0);
	if (item->tag == 0 && desc->full_size > 0)
		least = 0;
	if (nulls)
	{
		/* its bytes go to the end of the padding, which nobody looks at */
		int bytes = bitmap_bytes(desc);
		int skip = (int) BITMAP_SPACE - bytes;

		memcpy(unconstify(char *, data) + skip, data, bytes);
		data += skip;
		len -= skip;
		least = Max(bytes, least - skip);
	}
	else if (desc->head != NM_HEAD_NONE)
	{
		int whole = len;

		if (fold(desc, item->head, &data, &len, buffer))
		{
			item->tag |= NM_TAG_FOLDED;
			least = Max(0, least - (whole - len));
			/* of a string its length stays, zeros or not */
			if (desc->head == NM_HEAD_STRING)
				least = Max(least, string_header(data));
		}
	}
	while (len > least && data[len - 1] == '\0')
		len--;
	item->data = data;
	item->len = (uint32) len;
}

IndexTuple
nm_image_tuple(const NmKeyDesc *desc, const NmItem *item, NmTupleBuffer *buffer)
{
	IndexTuple itup = (IndexTuple) buffer->data;
	char *data = tuple_data(itup);
	int used = (int) item->len;
	int size;

	if (item->tag & NM_TAG_NULLS)
	{
		int bytes = bitmap_bytes(desc);

		memset(data, 0, BITMAP_SPACE);
		memcpy(data, item->data, bytes);
		memcpy(data + BITMAP_SPACE, (const char *) item->data + bytes, item->len - bytes);
		used += (int) BITMAP_SPACE - bytes;
	}
	else if ((item->tag & NM_TAG_FOLDED) == 0)
		memcpy(data, item->data, item->len);
	else if (desc->head == NM_HEAD_STRING)
	{
		const char *from = item->data;
		int header = string_header(from);
		int n;

		memcpy(data, from, header);
		n = Min(8, (int) VARSIZE_ANY(data) - header);
		unfold_string(desc, item->head, data + header, n);
		memcpy(data + header + n, from + header, item->len - header);
		used += n;
	}
	else
	{
		unfold_fixed(desc, item->head, data);
		memcpy(data + desc->fold, item->data, item->len);
		used += desc->fold;
	}
	if ((item->tag & (NM_TAG_NULLS | NM_TAG_VARWIDTH)) == 0 && desc->full_size > 0)
		size = desc->full_size;
	else
		size = (int) MAXALIGN(used);
	memset(data + used, 0, size - used);
	size += (int) TUPLE_HEADER;
	memset(&itup->t_tid, 0, sizeof(itup->t_tid));
	itup->t_info = (unsigned short) (size | ((item->tag & NM_TAG_NULLS) ? INDEX_NULL_MASK : 0) |
									 ((item->tag & NM_TAG_VARWIDTH) ? INDEX_VAR_MASK : 0));
	return itup;
}

bool
nm_image_tail(const NmKeyDesc *desc, const NmItem *item, NmTail *tail)
{
	const char *data = item->data;
	int header;

	if (desc->column[0] == NM_ORDER_RAW)
	{
		tail->data = data;
		tail->len = tail->total = TupleDescAttr(desc->tupdesc, 0)->attlen - 8;
		return (int) item->len >= tail->len;
	}
	if (desc->head != NM_HEAD_STRING)
		return false;
	header = string_header(data);
	tail->data = data + header;
	tail->total = (int) VARSIZE_ANY(data) - header;
	tail->len = Max(0, tail->total - 8);
	if (header + tail->len > (int) item->len)
		return false;
	if (desc->column[0] == NM_ORDER_BPCHAR)
		tail->len = tail->total = bpchartruelen(unconstify(char *, tail->data), tail->len);
	return true;
}

bool
nm_image_first(const NmKeyDesc *desc, const NmItem *item, Datum *value)
{
	const char *data = item->data;

	if (TupleDescAttr(desc->tupdesc, 0)->attlen != -1 ||
		(item->tag & (NM_TAG_NULLS | NM_TAG_FOLDED)) || item->len == 0)
		return false;
	/* zeros at the end may have been left out */
	if (!VARATT_IS_1B(data) && item->len < VARHDRSZ)
		return false;
	if (VARATT_IS_1B_E(data) || VARSIZE_ANY(data) > item->len)
		return false;
	*value = PointerGetDatum(data);
	return true;
}

bool
nm_value_tail(const NmKeyDesc *desc, Datum value, NmTail *tail)
{
	const char *v = DatumGetPointer(value);
	int header;

	if (desc->column[0] == NM_ORDER_RAW)
	{
		tail->data = v + 8;
		tail->len = tail->total = TupleDescAttr(desc->tupdesc, 0)->attlen - 8;
		return tail->len > 0;
	}
	if (desc->head != NM_HEAD_STRING)
		return false;
	header = string_header(v);
	if (header == 0)
		return false;
	tail->total = (int) VARSIZE_ANY(v) - header;
	tail->len = Max(0, tail->total - 8);
	tail->data = v + header + tail->total - tail->len;
	if (desc->column[0] == NM_ORDER_BPCHAR)
		tail->len = tail->total = bpchartruelen(unconstify(char *, tail->data), tail->len);
	return true;
}

/*
 * ---------------------------------------------------------------------
 * Items
 * ---------------------------------------------------------------------
 */

IndexTuple
nm_form_tuple(const NmKeyDesc *desc, Relation index, Datum *values, bool *isnull, ItemPointer tid)
{
	IndexTuple itup = index_form_tuple(desc->tupdesc, values, isnull);

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
	return itup;
}

void
nm_form_item(NmIndex *idx, Relation index, Datum *values, bool *isnull,
			 ItemPointer tid, NmItem *item, IndexTuple *tuple)
{
	const NmKeyDesc *desc = &idx->desc;

	if (desc->layout == NM_LAYOUT_FIXED)
	{
		memset(item, 0, sizeof(*item));
		item->isnull = isnull[0];
		if (!isnull[0])
		{
			item->key = nm_fixed_value(desc->fixed, values[0]);
			if (desc->desc_first)
				item->key = ~item->key;
		}
		*tuple = NULL;
		return;
	}
	*tuple = nm_form_tuple(desc, index, values, isnull, tid);
	nm_item_from_tuple(desc, *tuple, item, NULL);
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
	index_deform_tuple(nm_item_tuple(desc, item, palloc(sizeof(NmTupleBuffer))), desc->tupdesc, values, isnull);
}

bool
nm_item_has_null_key(const NmKeyDesc *desc, const NmItem *item)
{
	NmTupleBuffer buffer;
	IndexTuple itup;

	if (desc->layout == NM_LAYOUT_FIXED)
		return item->isnull;
	if ((item->tag & NM_TAG_NULLS) == 0)
		return false;
	itup = nm_item_tuple(desc, item, &buffer);
	for (int i = 0; i < desc->nkeys; i++)
	{
		bool isnull;

		(void) index_getattr(itup, i + 1, desc->tupdesc, &isnull);
		if (isnull)
			return true;
	}
	return false;
}

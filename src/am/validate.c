/*-------------------------------------------------------------------------
 *
 * validate.c
 *	  Operator classes of numa_btree, and properties of an index.
 *
 * Strategies and support functions are nbtree's, so the rules are too: an
 * operator class needs "<" to ">" on its own type and an order function;
 * cross-type members come in whole sets.
 *
 * IDENTIFICATION
 *	  src/am/validate.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "am/am.h"

#include "access/amvalidate.h"
#include "access/htup_details.h"
#include "access/nbtree.h"
#include "access/xact.h"
#include "catalog/pg_amop.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#define ALL_STRATEGIES \
	((UINT64CONST(1) << (NM_NSTRATEGIES + 1)) - 2)

static bool check_function(Form_pg_amproc proc, bool *known);

/* Has a support function the right signature?  *known = the number is ours. */
static bool
check_function(Form_pg_amproc proc, bool *known)
{
	*known = true;
	switch (proc->amprocnum)
	{
		case BTORDER_PROC:
			return check_amproc_signature(proc->amproc, INT4OID, true, 2, 2,
										  proc->amproclefttype, proc->amprocrighttype);
		case BTSORTSUPPORT_PROC:
			return check_amproc_signature(proc->amproc, VOIDOID, true, 1, 1, INTERNALOID);
		case BTINRANGE_PROC:
			return check_amproc_signature(proc->amproc, BOOLOID, true, 5, 5,
										  proc->amproclefttype, proc->amproclefttype,
										  proc->amprocrighttype, BOOLOID, BOOLOID);
		case BTEQUALIMAGE_PROC:
			return check_amproc_signature(proc->amproc, BOOLOID, true, 1, 1, OIDOID);
		case BTOPTIONS_PROC:
			return check_amoptsproc_signature(proc->amproc);
#if PG_VERSION_NUM >= 180000
		case BTSKIPSUPPORT_PROC:
			return check_amproc_signature(proc->amproc, VOIDOID, true, 1, 1, INTERNALOID);
#endif
		default:
			*known = false;
			return false;
	}
}

#define COMPLAIN(...)                                        \
	do                                                       \
	{                                                        \
		ereport(INFO,                                        \
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION), \
				 errmsg(__VA_ARGS__)));                      \
		result = false;                                      \
	} while (0)

/*
 * amvalidate: report what is wrong with an operator class and its family at
 * INFO level; true if nothing is.
 */
bool
nm_validate(Oid opclassoid)
{
	bool result = true;
	HeapTuple classtup;
	Form_pg_opclass classform;
	Oid familyoid;
	Oid intype;
	char *classname;
	HeapTuple familytup;
	char *family;
	CatCList *oprlist;
	CatCList *proclist;
	List *groups;
	ListCell *lc;
	OpFamilyOpFuncGroup *own = NULL;
	List *types = NIL;
	int wanted;

	classtup = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclassoid));
	if (!HeapTupleIsValid(classtup))
		elog(ERROR, "cache lookup failed for operator class %u", opclassoid);
	classform = (Form_pg_opclass) GETSTRUCT(classtup);
	familyoid = classform->opcfamily;
	intype = classform->opcintype;
	classname = pstrdup(NameStr(classform->opcname));
	ReleaseSysCache(classtup);

	familytup = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(familyoid));
	if (!HeapTupleIsValid(familytup))
		elog(ERROR, "cache lookup failed for operator family %u", familyoid);
	family = pstrdup(NameStr(((Form_pg_opfamily) GETSTRUCT(familytup))->opfname));
	ReleaseSysCache(familytup);

	oprlist = SearchSysCacheList1(AMOPSTRATEGY, ObjectIdGetDatum(familyoid));
	proclist = SearchSysCacheList1(AMPROCNUM, ObjectIdGetDatum(familyoid));

	for (int i = 0; i < proclist->n_members; i++)
	{
		Form_pg_amproc proc = (Form_pg_amproc) GETSTRUCT(&proclist->members[i]->tuple);
		bool known;

		if (check_function(proc, &known))
			continue;
		if (!known)
			COMPLAIN("operator family \"%s\" of access method %s contains function %s with invalid support number %d",
					 family, NM_AM_NAME, format_procedure(proc->amproc), proc->amprocnum);
		else
			COMPLAIN("operator family \"%s\" of access method %s contains function %s with wrong signature for support number %d",
					 family, NM_AM_NAME, format_procedure(proc->amproc), proc->amprocnum);
	}

	for (int i = 0; i < oprlist->n_members; i++)
	{
		Form_pg_amop op = (Form_pg_amop) GETSTRUCT(&oprlist->members[i]->tuple);

		if (op->amopstrategy < 1 || op->amopstrategy > NM_NSTRATEGIES)
			COMPLAIN("operator family \"%s\" of access method %s contains operator %s with invalid strategy number %d",
					 family, NM_AM_NAME, format_operator(op->amopopr), op->amopstrategy);
		if (op->amoppurpose != AMOP_SEARCH || OidIsValid(op->amopsortfamily))
			COMPLAIN("operator family \"%s\" of access method %s contains invalid ORDER BY specification for operator %s",
					 family, NM_AM_NAME, format_operator(op->amopopr));
		if (!check_amop_signature(op->amopopr, BOOLOID, op->amoplefttype, op->amoprighttype))
			COMPLAIN("operator family \"%s\" of access method %s contains operator %s with wrong signature",
					 family, NM_AM_NAME, format_operator(op->amopopr));
	}

	/*
	 * Each pair of types must have all operators and an order function.
	 * Families with in_range functions have groups for the offset type, which
	 * need nothing else.
	 */
	groups = identify_opfamily_groups(oprlist, proclist);
	wanted = 0;
	foreach (lc, groups)
	{
		OpFamilyOpFuncGroup *group = (OpFamilyOpFuncGroup *) lfirst(lc);

		if (group->operatorset == 0 &&
			group->functionset == (UINT64CONST(1) << BTINRANGE_PROC))
			continue;

		if (group->lefttype == intype && group->righttype == intype)
			own = group;
		types = list_append_unique_oid(types, group->lefttype);
		types = list_append_unique_oid(types, group->righttype);
		wanted++;

		if (group->operatorset != ALL_STRATEGIES)
			COMPLAIN("operator family \"%s\" of access method %s is missing operator(s) for types %s and %s",
					 family, NM_AM_NAME, format_type_be(group->lefttype),
					 format_type_be(group->righttype));
		if ((group->functionset & (UINT64CONST(1) << BTORDER_PROC)) == 0)
			COMPLAIN("operator family \"%s\" of access method %s is missing support function for types %s and %s",
					 family, NM_AM_NAME, format_type_be(group->lefttype),
					 format_type_be(group->righttype));
	}

	if (own == NULL)
		COMPLAIN("operator class \"%s\" of access method %s is missing operator(s)",
				 classname, NM_AM_NAME);

	/*
	 * Missing cross-type operators do no harm here, but limit what the planner
	 * can derive.
	 */
	if (wanted != list_length(types) * list_length(types))
		COMPLAIN("operator family \"%s\" of access method %s is missing cross-type operator(s)",
				 family, NM_AM_NAME);

	ReleaseCatCacheList(proclist);
	ReleaseCatCacheList(oprlist);
	return result;
}

/*
 * amadjustmembers: what a new member of a family depends on.  As in nbtree, an
 * operator or order function on one type belongs to that type's operator class
 * if there is one; everything else hangs loosely on the family.
 */
void
nm_adjustmembers(Oid opfamilyoid, Oid opclassoid, List *operators, List *functions)
{
	Oid amoid = InvalidOid;
	Oid intype = InvalidOid;
	HeapTuple tup;
	ListCell *lc;

	if (OidIsValid(opclassoid))
	{
		/* CREATE OPERATOR CLASS has just made the row, maybe the family's too */
		CommandCounterIncrement();
		intype = get_opclass_input_type(opclassoid);
	}

	tup = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(opfamilyoid));
	if (!HeapTupleIsValid(tup))
		elog(ERROR, "cache lookup failed for operator family %u", opfamilyoid);
	amoid = ((Form_pg_opfamily) GETSTRUCT(tup))->opfmethod;
	ReleaseSysCache(tup);

	foreach (lc, list_concat_copy(operators, functions))
	{
		OpFamilyMember *member = (OpFamilyMember *) lfirst(lc);

		member->ref_is_hard = false;
		member->ref_is_family = true;
		member->refobjid = opfamilyoid;

		if ((member->is_func && member->number != BTORDER_PROC) ||
			member->lefttype != member->righttype)
			continue;

		/* remember the last class looked up */
		if (member->lefttype != intype)
		{
			intype = member->lefttype;
			opclassoid = opclass_for_family_datatype(amoid, opfamilyoid, intype);
		}
		if (OidIsValid(opclassoid))
		{
			member->ref_is_hard = true;
			member->ref_is_family = false;
			member->refobjid = opclassoid;
		}
	}
}

bool
nm_canreturn(Relation index, int attno)
{
	return true;
}

/* amproperty: columns can be returned; the rest follows from the AM's flags. */
bool
nm_property(Oid index_oid, int attno, IndexAMProperty prop,
			const char *propname, bool *res, bool *isnull)
{
	if (prop == AMPROP_RETURNABLE && attno != 0)
	{
		*res = true;
		return true;
	}
	return false;
}

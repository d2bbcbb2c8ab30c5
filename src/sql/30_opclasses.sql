-- Operator classes -----------------------------------------------------------
--
-- numa_btree takes over the operator classes of btree as they are: the same
-- names, operators, strategy numbers and support functions.  An ordered index
-- whose "<" is btree's "<" gives the planner ordered output and merge joins.

-- The family and all classes and members it lacks, for one family of btree.
-- Everything is looked up in the catalogs; nothing is taken from a search path.
CREATE FUNCTION numa.clone_opfamily(family oid)
RETURNS int
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    am         oid := (SELECT oid FROM pg_am WHERE amname = 'numa_btree');
    max_proc   int := CASE WHEN current_setting('server_version_num')::int >= 180000 THEN 6 ELSE 5 END;
    fam        record;
    target     oid;
    class      record;
    members    text;
    made       text[] := '{}';
    changes    int := 0;
BEGIN
    SELECT f.opfname, n.nspname, f.opfnamespace,
           format('%I.%I', n.nspname, f.opfname) AS fullname
      INTO STRICT fam
      FROM pg_opfamily f JOIN pg_namespace n ON n.oid = f.opfnamespace
     WHERE f.oid = family AND f.opfmethod = (SELECT oid FROM pg_am WHERE amname = 'btree');

    SELECT oid INTO target FROM pg_opfamily
     WHERE opfmethod = am AND opfname = fam.opfname AND opfnamespace = fam.opfnamespace;
    IF target IS NULL THEN
        EXECUTE format('CREATE OPERATOR FAMILY %s USING numa_btree', fam.fullname);
        made := made || format('OPERATOR FAMILY %s USING numa_btree', fam.fullname);
        changes := changes + 1;
        SELECT oid INTO STRICT target FROM pg_opfamily
         WHERE opfmethod = am AND opfname = fam.opfname AND opfnamespace = fam.opfnamespace;
    END IF;

    -- classes, each with the operators and functions of its own type
    FOR class IN
        SELECT c.oid, c.opcname, c.opcintype, c.opcdefault,
               format('%I.%I', n.nspname, c.opcname) AS fullname
          FROM pg_opclass c JOIN pg_namespace n ON n.oid = c.opcnamespace
         WHERE c.opcfamily = family
           AND NOT EXISTS (SELECT FROM pg_opclass o
                            WHERE o.opcmethod = am AND o.opcname = c.opcname
                              AND o.opcnamespace = c.opcnamespace)
         ORDER BY c.oid
    LOOP
        SELECT string_agg(item, ', ' ORDER BY item) INTO members FROM (
            SELECT format('OPERATOR %s %s', amopstrategy, amopopr::regoperator) AS item
              FROM pg_amop a
             WHERE amopfamily = family AND amopmethod = (SELECT opfmethod FROM pg_opfamily WHERE oid = family)
               AND amoplefttype = class.opcintype AND amoprighttype = class.opcintype
               AND NOT EXISTS (SELECT FROM pg_amop o
                                WHERE o.amopfamily = target AND o.amopstrategy = a.amopstrategy
                                  AND o.amoplefttype = a.amoplefttype AND o.amoprighttype = a.amoprighttype)
            UNION ALL
            SELECT format('FUNCTION %s (%s, %s) %s', amprocnum,
                          amproclefttype::regtype, amprocrighttype::regtype, amproc::oid::regprocedure)
              FROM pg_amproc a
             WHERE amprocfamily = family AND amprocnum <= max_proc
               AND amproclefttype = class.opcintype AND amprocrighttype = class.opcintype
               AND NOT EXISTS (SELECT FROM pg_amproc o
                                WHERE o.amprocfamily = target AND o.amprocnum = a.amprocnum
                                  AND o.amproclefttype = a.amproclefttype AND o.amprocrighttype = a.amprocrighttype)
        ) AS m;
        -- a second class on the same type (varchar_ops) finds its members there
        IF members IS NULL THEN
            members := format('STORAGE %s', class.opcintype::regtype);
        END IF;
        EXECUTE format('CREATE OPERATOR CLASS %s %s FOR TYPE %s USING numa_btree FAMILY %s AS %s',
                       class.fullname,
                       CASE WHEN class.opcdefault THEN 'DEFAULT' ELSE '' END,
                       class.opcintype::regtype, fam.fullname, members);
        made := made || format('OPERATOR CLASS %s USING numa_btree', class.fullname);
        changes := changes + 1;
    END LOOP;

    -- what is left: cross-type members, and members added since
    SELECT string_agg(item, ', ' ORDER BY item) INTO members FROM (
        SELECT format('OPERATOR %s %s', amopstrategy, amopopr::regoperator) AS item
          FROM pg_amop a
         WHERE amopfamily = family
           AND NOT EXISTS (SELECT FROM pg_amop o
                            WHERE o.amopfamily = target AND o.amopstrategy = a.amopstrategy
                              AND o.amoplefttype = a.amoplefttype AND o.amoprighttype = a.amoprighttype)
        UNION ALL
        SELECT format('FUNCTION %s (%s, %s) %s', amprocnum,
                      amproclefttype::regtype, amprocrighttype::regtype, amproc::oid::regprocedure)
          FROM pg_amproc a
         WHERE amprocfamily = family AND amprocnum <= max_proc
           AND NOT EXISTS (SELECT FROM pg_amproc o
                            WHERE o.amprocfamily = target AND o.amprocnum = a.amprocnum
                              AND o.amproclefttype = a.amproclefttype AND o.amprocrighttype = a.amprocrighttype)
    ) AS m;
    IF members IS NOT NULL THEN
        EXECUTE format('ALTER OPERATOR FAMILY %s USING numa_btree ADD %s', fam.fullname, members);
        changes := changes + 1;
    END IF;

    -- classes of pg_catalog belong to the extension; CREATE EXTENSION sees to
    -- that itself, a refresh has to say so
    IF fam.opfnamespace = 'pg_catalog'::regnamespace THEN
        FOR i IN 1 .. coalesce(array_length(made, 1), 0) LOOP
            BEGIN
                EXECUTE format('ALTER EXTENSION numa_migrate ADD %s', made[i]);
            EXCEPTION WHEN object_not_in_prerequisite_state THEN
                NULL;           -- a member already
            END;
        END LOOP;
    END IF;
    RETURN changes;
END
$$;
COMMENT ON FUNCTION numa.clone_opfamily(oid) IS
'part of refresh_opclasses() and clone_opclass()';
REVOKE ALL ON FUNCTION numa.clone_opfamily(oid) FROM PUBLIC;

CREATE FUNCTION numa.refresh_opclasses()
RETURNS int
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    fam     oid;
    changes int := 0;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'must be superuser to create operator classes'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    FOR fam IN
        SELECT oid FROM pg_opfamily
         WHERE opfmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
           AND opfnamespace = 'pg_catalog'::regnamespace
           AND oid < 16384      -- made by initdb
         ORDER BY oid
    LOOP
        changes := changes + numa.clone_opfamily(fam);
    END LOOP;
    RETURN changes;
END
$$;
COMMENT ON FUNCTION numa.refresh_opclasses() IS
'gives numa_btree every operator family and class that btree has in pg_catalog; returns the number of changes. Call it after pg_upgrade';
REVOKE ALL ON FUNCTION numa.refresh_opclasses() FROM PUBLIC;

CREATE FUNCTION numa.clone_opclass(opclass text)
RETURNS int
LANGUAGE plpgsql VOLATILE STRICT PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts  text[] := parse_ident(opclass);
    fams   oid[];
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'must be superuser to create operator classes'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF array_length(parts, 1) > 2 THEN
        RAISE EXCEPTION 'improper operator class name: %', opclass
            USING ERRCODE = 'syntax_error';
    END IF;
    SELECT array_agg(DISTINCT c.opcfamily) INTO fams
      FROM pg_opclass c JOIN pg_namespace n ON n.oid = c.opcnamespace
     WHERE c.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
       AND c.opcname = parts[array_length(parts, 1)]
       AND (array_length(parts, 1) = 1 OR n.nspname = parts[1]);
    IF fams IS NULL THEN
        RAISE EXCEPTION 'operator class "%" does not exist for access method "btree"', opclass
            USING ERRCODE = 'undefined_object';
    END IF;
    IF array_length(fams, 1) > 1 THEN
        RAISE EXCEPTION 'operator class name "%" is ambiguous', opclass
            USING ERRCODE = 'ambiguous_parameter',
                  HINT = 'Put the schema in front.';
    END IF;
    RETURN numa.clone_opfamily(fams[1]);
END
$$;
COMMENT ON FUNCTION numa.clone_opclass(text) IS
'gives numa_btree the operator family of a btree operator class, under the same names, with all classes and members; for types of other extensions';
REVOKE ALL ON FUNCTION numa.clone_opclass(text) FROM PUBLIC;

SELECT numa.refresh_opclasses();

/* numa_migrate--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION numa_migrate" to load this file. \quit

GRANT USAGE ON SCHEMA numa TO PUBLIC;
-- Access method ------------------------------------------------------------

CREATE FUNCTION numa.numa_btree_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME', 'nm_handler'
LANGUAGE C STRICT;
COMMENT ON FUNCTION numa.numa_btree_handler(internal) IS
'handler of the index access method numa_btree';

CREATE ACCESS METHOD numa_btree TYPE INDEX HANDLER numa.numa_btree_handler;
COMMENT ON ACCESS METHOD numa_btree IS
'ordered index in NUMA-aware memory, for everything btree is for';
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
-- Looking into an index --------------------------------------------------------

CREATE FUNCTION numa.btree_check(index regclass, heapallindexed bool DEFAULT true)
RETURNS void
AS 'MODULE_PATHNAME', 'nm_sql_btree_check'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.btree_check(regclass, bool) IS
'checks a numa_btree index, loading it first: its structure and, with heapallindexed, it against its table in both directions; an error says what is wrong. For the owner';

CREATE FUNCTION numa.btree_stats(
    index regclass,
    OUT state text, OUT layout text, OUT height int, OUT entries bigint, OUT killed bigint,
    OUT leaves bigint, OUT inner_pages bigint, OUT overflow_pages bigint, OUT bytes bigint,
    OUT fill float8, OUT nodes int[], OUT node_pages bigint[],
    OUT splits bigint, OUT deleted_pages bigint, OUT relocated_pages bigint,
    OUT loads bigint, OUT load_time timestamptz, OUT load_ms bigint,
    OUT lookups bigint, OUT inserts bigint, OUT tuples_read bigint)
AS 'MODULE_PATHNAME', 'nm_sql_btree_stats'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION numa.btree_stats(regclass) IS
'state, true size and shape of a numa_btree index in memory (pg_relation_size is one block), pages by node, and usage; the shape is null while it is not loaded';
-- Life of indexes in memory ----------------------------------------------------

CREATE FUNCTION numa.btree_load(index regclass) RETURNS bool
AS 'MODULE_PATHNAME', 'nm_sql_btree_load'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.btree_load(regclass) IS
'brings a numa_btree index into memory; false if it was there. For the owner of the table';

CREATE FUNCTION numa.btree_unload(index regclass) RETURNS bool
AS 'MODULE_PATHNAME', 'nm_sql_btree_unload'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.btree_unload(regclass) IS
'drops a numa_btree index from memory; false if it was not there. It stays out until btree_load() or, with load = lazy, its next use. For the owner of the table';

CREATE FUNCTION numa.stat_btree_info(
    OUT index regclass, OUT "table" regclass, OUT state text, OUT is_unique bool, OUT is_temp bool,
    OUT entries bigint, OUT pages bigint, OUT bytes bigint, OUT height int,
    OUT loads bigint, OUT load_blocks_total bigint, OUT load_blocks_done bigint,
    OUT load_tuples bigint, OUT load_time timestamptz, OUT load_ms bigint, OUT stays_out bool,
    OUT failures int, OUT fail_time timestamptz, OUT fail_text text,
    OUT lookups bigint, OUT inserts bigint, OUT tuples_read bigint,
    OUT splits bigint, OUT deleted_pages bigint, OUT relocated_pages bigint, OUT restarts bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'nm_sql_stat_btree'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION numa.stat_btree_info() IS 'the rows of numa.stat_btree';

CREATE VIEW numa.stat_btree AS SELECT * FROM numa.stat_btree_info();
COMMENT ON VIEW numa.stat_btree IS
'numa_btree indexes of this database that have been used since the server started: state, size, load progress, failures, usage';
GRANT SELECT ON numa.stat_btree TO PUBLIC;
-- The page pool -----------------------------------------------------------------

CREATE FUNCTION numa.stat_pool_info(
    OUT node int, OUT reserved_bytes bigint, OUT committed_bytes bigint, OUT used_bytes bigint,
    OUT retired_bytes bigint, OUT limit_bytes bigint, OUT refusals bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'nm_sql_stat_pool'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION numa.stat_pool_info() IS 'the rows of numa.stat_pool';

CREATE VIEW numa.stat_pool AS SELECT * FROM numa.stat_pool_info();
COMMENT ON VIEW numa.stat_pool IS
'memory of the page pool by node; retired_bytes, limit_bytes and refusals are of the whole pool';
GRANT SELECT ON numa.stat_pool TO PUBLIC;

-- Topology, placement and moves -------------------------------------------

CREATE FUNCTION numa.topology(
    OUT node int, OUT cpus text, OUT total_bytes bigint, OUT free_bytes bigint,
    OUT distances int[], OUT allowed bool)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'nm_sql_topology'
LANGUAGE C VOLATILE STRICT PARALLEL SAFE ROWS 4;
COMMENT ON FUNCTION numa.topology() IS
'memory nodes of the machine; distances are in the order of the rows; allowed = this server may use the node''s memory';

CREATE FUNCTION numa.doctor(
    OUT item text, OUT ok bool, OUT detail text, OUT hint text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'nm_sql_doctor'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 18;
COMMENT ON FUNCTION numa.doctor() IS
'what helps or hinders moving memory on this server, with advice; never raises an error';

CREATE FUNCTION numa.buffer_placement(
    sample float8 DEFAULT 1.0,
    OUT node int, OUT buffers bigint, OUT bytes bigint, OUT dirty bigint, OUT pinned bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'nm_sql_buffer_placement'
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION numa.buffer_placement(float8) IS
'shared buffers by the node that holds them (null = not resident); sample < 1 looks at that fraction of buffers and counts only those';

CREATE FUNCTION numa.relation_placement(
    relation regclass,
    OUT fork text, OUT node int, OUT pages bigint, OUT bytes bigint, OUT share float8)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'nm_sql_relation_placement'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 4;
COMMENT ON FUNCTION numa.relation_placement(regclass) IS
'cached buffers of a relation, or tree pages of a numa_btree index, by the node that holds them; share is of the relation''s bytes in memory';

CREATE FUNCTION numa.move_relation(
    relation regclass, node int, mode text DEFAULT NULL, batch int DEFAULT NULL,
    OUT asked bigint, OUT moved bigint, OUT already bigint, OUT busy bigint,
    OUT denied bigint, OUT absent bigint, OUT failed bigint, OUT calls bigint,
    OUT elapsed_ms float8)
AS 'MODULE_PATHNAME', 'nm_sql_move_relation'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.move_relation(regclass, int, text, int) IS
'moves the cached buffers of a relation, or the tree pages of a numa_btree index, to a node; counts are OS pages';

CREATE FUNCTION numa.spread_relation(
    relation regclass, nodes int[] DEFAULT NULL, mode text DEFAULT NULL, batch int DEFAULT NULL,
    OUT asked bigint, OUT moved bigint, OUT already bigint, OUT busy bigint,
    OUT denied bigint, OUT absent bigint, OUT failed bigint, OUT calls bigint,
    OUT elapsed_ms float8)
AS 'MODULE_PATHNAME', 'nm_sql_spread_relation'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.spread_relation(regclass, int[], text, int) IS
'spreads a relation over nodes by block number (null = all allowed); a node named twice gets twice as much';

CREATE FUNCTION numa.balance_buffers(
    nodes int[] DEFAULT NULL, mode text DEFAULT NULL, batch int DEFAULT NULL,
    OUT asked bigint, OUT moved bigint, OUT already bigint, OUT busy bigint,
    OUT denied bigint, OUT absent bigint, OUT failed bigint, OUT calls bigint,
    OUT elapsed_ms float8)
AS 'MODULE_PATHNAME', 'nm_sql_balance_buffers'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.balance_buffers(int[], text, int) IS
'evens all resident shared buffers over nodes (null = all allowed) with as few moves as can be';

CREATE FUNCTION numa.set_mode(mode text, persist bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'nm_sql_set_mode'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.set_mode(text, bool) IS
'sets numa_migrate.mode for this session; persist also writes it as ALTER SYSTEM does (not undone by ROLLBACK) and reloads';

CREATE FUNCTION numa.set_batch(batch int, persist bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'nm_sql_set_batch'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION numa.set_batch(int, bool) IS
'sets numa_migrate.batch for this session; persist also writes it as ALTER SYSTEM does (not undone by ROLLBACK) and reloads';

CREATE FUNCTION numa.get_mode() RETURNS text
AS 'MODULE_PATHNAME', 'nm_sql_get_mode'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION numa.get_mode() IS 'mode of moves started by this session';

CREATE FUNCTION numa.get_batch() RETURNS int
AS 'MODULE_PATHNAME', 'nm_sql_get_batch'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION numa.get_batch() IS 'batch of moves started by this session; 0 = automatic';

-- Looking is for those who monitor; move_relation and spread_relation check
-- ownership, balance_buffers superuser, themselves (with a hint).
REVOKE ALL ON FUNCTION numa.doctor() FROM PUBLIC;
REVOKE ALL ON FUNCTION numa.buffer_placement(float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION numa.relation_placement(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION numa.doctor() TO pg_monitor;
GRANT EXECUTE ON FUNCTION numa.buffer_placement(float8) TO pg_monitor;
GRANT EXECUTE ON FUNCTION numa.relation_placement(regclass) TO pg_monitor;
-- Migrator: what the background worker and the move functions did.

CREATE FUNCTION stat_migrator_info(
	OUT pid int, OUT state text, OUT started timestamptz, OUT rounds bigint,
	OUT samples bigint, OUT dropped bigint, OUT forgotten bigint,
	OUT local_accesses bigint, OUT remote_accesses bigint, OUT unknown_accesses bigint,
	OUT moves bigint, OUT drifted bigint, OUT errors bigint,
	OUT last_error text, OUT last_error_time timestamptz,
	OUT mode text, OUT batch int, OUT engine text, OUT longest_pause_ms float8,
	OUT since timestamptz)
RETURNS record LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'nm_sql_stat_migrator';
COMMENT ON FUNCTION stat_migrator_info() IS 'the row of stat_migrator';

CREATE FUNCTION stat_moves_info(
	OUT kind text, OUT by_worker bool, OUT asked bigint, OUT moved bigint, OUT already bigint,
	OUT busy bigint, OUT denied bigint, OUT absent bigint, OUT failed bigint,
	OUT calls bigint, OUT elapsed_ms float8)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'nm_sql_stat_moves';
COMMENT ON FUNCTION stat_moves_info() IS 'the rows of stat_moves';

CREATE FUNCTION stat_access_info(
	OUT kind text, OUT datid oid, OUT relfilenode oid, OUT relation regclass,
	OUT node int, OUT page_node int, OUT samples bigint, OUT accesses bigint)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'nm_sql_stat_access';
COMMENT ON FUNCTION stat_access_info() IS 'the rows of stat_access';

CREATE FUNCTION stat_reset() RETURNS void LANGUAGE C VOLATILE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'nm_sql_stat_reset';
COMMENT ON FUNCTION stat_reset() IS 'set the counters of stat_migrator, stat_moves and stat_access to zero';
REVOKE ALL ON FUNCTION stat_reset() FROM PUBLIC;

CREATE VIEW stat_migrator AS SELECT * FROM @extschema@.stat_migrator_info();
COMMENT ON VIEW stat_migrator IS 'the background worker: state and counters since reset';

CREATE VIEW stat_moves AS SELECT * FROM @extschema@.stat_moves_info();
COMMENT ON VIEW stat_moves IS 'OS pages moved since reset, by kind and by who moved them';

CREATE VIEW stat_access AS
	SELECT kind, datid, relfilenode, relation, node, page_node,
		node = page_node AS local, samples, accesses
	FROM @extschema@.stat_access_info();
COMMENT ON VIEW stat_access IS 'sampled accesses since reset, by the node they came from and the node the page was on';

GRANT SELECT ON stat_migrator, stat_moves, stat_access TO PUBLIC;


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

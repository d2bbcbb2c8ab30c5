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

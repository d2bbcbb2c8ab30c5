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

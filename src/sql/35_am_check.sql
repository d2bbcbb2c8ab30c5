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

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

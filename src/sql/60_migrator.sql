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

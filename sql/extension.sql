-- CREATE and DROP EXTENSION, what is there, and what stands when it goes.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

SELECT extname, extversion, extnamespace::regnamespace, extrelocatable FROM pg_extension WHERE extname = 'numa_migrate';
SELECT amname, amtype FROM pg_am WHERE amname = 'numa_btree';
\a
-- The public functions with their arguments and results; names and columns are fixed.
SELECT p.proname, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
FROM unnest('{topology,doctor,buffer_placement,relation_placement,move_relation,spread_relation,balance_buffers,btree_stats,btree_check,btree_load,btree_unload,set_mode,set_batch,get_mode,get_batch,clone_opclass,refresh_opclasses,stat_reset}'::text[]) n
LEFT JOIN pg_proc p ON p.proname = n AND p.pronamespace = 'numa'::regnamespace
ORDER BY n, 2;
SELECT v, c.relkind FROM unnest('{stat_migrator,stat_moves,stat_btree,stat_access}'::text[]) v
LEFT JOIN pg_class c ON c.relname = v AND c.relnamespace = 'numa'::regnamespace ORDER BY v;
-- Nothing outside the schema but the operator classes and families.
SELECT pg_describe_object(classid, objid, 0) FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'numa_migrate') AND deptype = 'e'
  AND classid NOT IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass, 'pg_am'::regclass)
  AND coalesce((SELECT pronamespace FROM pg_proc p WHERE classid = 'pg_proc'::regclass AND p.oid = objid),
		(SELECT relnamespace FROM pg_class c WHERE classid = 'pg_class'::regclass AND c.oid = objid),
		(SELECT typnamespace FROM pg_type y WHERE classid = 'pg_type'::regclass AND y.oid = objid), 0) <> 'numa'::regnamespace
  AND NOT (classid = 'pg_namespace'::regclass AND objid = 'numa'::regnamespace);

-- Settings: context, unit and default.
SELECT name, context, unit, vartype, enumvals,
	CASE WHEN name ~ '(max_memory|memory_limit)$' THEN '(depends on the machine)' ELSE boot_val END AS boot_val, min_val, max_val
FROM pg_settings WHERE name LIKE 'numa\_migrate.%' ORDER BY name COLLATE "C";
\a
-- What can be set by whom, and refused values.
SET numa_migrate.mode = sync_light; SHOW numa_migrate.mode; RESET numa_migrate.mode;
SET numa_migrate.batch = 4096; SHOW numa_migrate.batch; RESET numa_migrate.batch;
SELECT nm_test.err(format('SET numa_migrate.%s', s)) FROM unnest(ARRAY['mode = fast', 'batch = -1', 'batch = 4097',
	'load = lazy', 'policy = affinity', 'memory_limit = 10', 'max_memory = 10', 'no_such = 1', 'nodes = ''0''']) s;
ALTER SYSTEM SET numa_migrate.nodes = 'x';
ALTER SYSTEM SET numa_migrate.nodes = '0,1023';
ALTER SYSTEM SET numa_migrate.engine = warp;
\set VERBOSITY sqlstate
ALTER SYSTEM SET numa_migrate.naptime = 0;
\set VERBOSITY default

-- DROP without and with CASCADE: tables stay, indexes go.
CREATE TABLE t (a int);
INSERT INTO t SELECT generate_series(1, 100);
CREATE INDEX t_a ON t USING numa_btree (a);
SELECT left(e, 5) FROM nm_test.err('DROP EXTENSION numa_migrate') e WHERE e !~ '^(DETAIL|HINT)';
SELECT left(e, 5) FROM nm_test.err('DROP ACCESS METHOD numa_btree') e WHERE e !~ '^(DETAIL|HINT)';
SET client_min_messages = error;
BEGIN; DROP EXTENSION numa_migrate CASCADE; SELECT to_regclass('t_a'), count(*) FROM t; ROLLBACK;
SELECT nm_test.compare('SELECT a FROM t WHERE a > 50 ORDER BY a');
DROP EXTENSION numa_migrate CASCADE;
SELECT to_regclass('t_a'), count(*) FROM t;
SELECT count(*) FROM pg_opclass WHERE opcmethod NOT IN (SELECT oid FROM pg_am);
SELECT * FROM nm_test.err('CREATE INDEX ON t USING numa_btree (a)');
CREATE EXTENSION numa_migrate;
CREATE INDEX t_a ON t USING numa_btree (a);
SELECT nm_test.compare('SELECT a FROM t WHERE a > 50 ORDER BY a');
-- It lives in its own schema and nowhere else.
BEGIN; DROP EXTENSION numa_migrate CASCADE; SELECT * FROM nm_test.err('CREATE EXTENSION numa_migrate SCHEMA scratch'); ROLLBACK;
SELECT * FROM nm_test.err('ALTER EXTENSION numa_migrate SET SCHEMA scratch');
-- The schema is open to everyone.
SELECT has_schema_privilege('public', 'numa', 'USAGE'), has_schema_privilege('public', 'numa', 'CREATE');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

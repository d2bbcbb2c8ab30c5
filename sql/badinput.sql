-- Bad input: each gets an ERROR of its own with a HINT, and the server stays up.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE t (a int);
INSERT INTO t SELECT generate_series(1, 1000);
CREATE INDEX t_a ON t USING numa_btree (a);
CREATE INDEX t_bt ON t USING btree (a);
CREATE VIEW vw AS SELECT 1 AS a;
CREATE SEQUENCE sq;
CREATE TABLE prt (a int) PARTITION BY RANGE (a);
CREATE INDEX prt_a ON prt USING numa_btree (a);
CREATE TYPE ty AS (a int);
-- Nodes.
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t'', 12345)');
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t'', -1)');
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t_a'', 12345)');
SELECT * FROM nm_test.err('SELECT numa.spread_relation(''t'', ARRAY[0, 12345])');
SELECT * FROM nm_test.err('SELECT numa.spread_relation(''t'', ''{}'')');
SELECT * FROM nm_test.err('SELECT numa.spread_relation(''t'', ''{NULL}'')');
SELECT * FROM nm_test.err('SELECT numa.balance_buffers(ARRAY[12345])');
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t'', NULL)');
SELECT * FROM nm_test.err('SELECT numa.move_relation(NULL, 0)');
-- Mode, batch, sample.
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t'', 0, ''fast'')');
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t'', 0, NULL, -1)');
SELECT * FROM nm_test.err('SELECT numa.move_relation(''t'', 0, NULL, 4097)');
SELECT * FROM nm_test.err('SELECT numa.set_mode(''fast'')');
SELECT * FROM nm_test.err('SELECT numa.set_mode(NULL)');
SELECT * FROM nm_test.err('SELECT numa.set_batch(-1)');
SELECT * FROM nm_test.err('SELECT numa.set_batch(4097)');
SELECT nm_test.err(format('SELECT numa.buffer_placement(%s)', s)) FROM unnest('{0,-0.5,1.5,''NaN''}'::text[]) s;
-- Relations without storage, and what is none.
SELECT nm_test.err(format('SELECT numa.move_relation(%L, 0)', r)) FROM unnest('{vw,prt,prt_a,ty}'::text[]) r;
SELECT * FROM nm_test.err('SELECT numa.relation_placement(''vw'')');
SELECT * FROM nm_test.err('SELECT numa.move_relation(4294967295, 0)');
SELECT * FROM nm_test.err('SELECT numa.relation_placement(4294967295)');
-- An index of another kind, or no index.
SELECT nm_test.err(format('SELECT numa.%s(%L)', f, r)) FROM unnest('{btree_check,btree_load,btree_unload,btree_stats}'::text[]) f, unnest('{t_bt,t,vw,prt_a}'::text[]) r;
SELECT * FROM nm_test.err('SELECT numa.btree_check(4294967295)');
-- Catalogs, shared relations, TOAST.
SELECT * FROM nm_test.err('CREATE INDEX ON pg_statistic_ext USING numa_btree (stxname)');
SET allow_system_table_mods = on;
SELECT * FROM nm_test.err('CREATE INDEX ON pg_statistic_ext USING numa_btree (stxname)');
SELECT * FROM nm_test.err('CREATE INDEX ON pg_database USING numa_btree (datname)');
CREATE TABLE toasted (t text);
SELECT reltoastrelid::regclass AS toast FROM pg_class WHERE oid = 'toasted'::regclass \gset
SELECT regexp_replace(e, 'pg_toast_\d+', 'pg_toast_NNN') FROM nm_test.err(format('CREATE INDEX ON %s USING numa_btree (chunk_id)', :'toast')) e;
RESET allow_system_table_mods;
-- The AM's own limits and refusals.
SELECT * FROM nm_test.err('CREATE INDEX ON t USING numa_btree (a) WITH (fillfactor = 9)');
SELECT * FROM nm_test.err('CREATE INDEX ON t USING numa_btree ((ARRAY[a]::point))');
SELECT nm_test.err(format('CREATE TABLE many (%s); CREATE INDEX ON many USING numa_btree (%s)', string_agg('c' || g || ' int', ', '), string_agg('c' || g, ', ')))
FROM generate_series(1, 33) g;
SELECT nm_test.err('CREATE TABLE many32 (' || string_agg('c' || g || ' int', ', ') || '); CREATE INDEX many32_i ON many32 USING numa_btree (' || string_agg('c' || g, ', ') || '); INSERT INTO many32 SELECT ' || string_agg(g::text, ', ') || '; SELECT numa.btree_check(''many32_i'')')
FROM generate_series(1, 32) g;
-- Nothing of this broke anything.
SELECT nm_test.compare('SELECT a FROM t WHERE a > 990 ORDER BY a');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

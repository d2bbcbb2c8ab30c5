-- VACUUM, pruning, dead rows, killed entries, page deletion and reuse.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE v (a int, b text) WITH (autovacuum_enabled = off);
CREATE INDEX v_a ON v USING numa_btree (a);
CREATE INDEX v_b ON v USING numa_btree (b);
INSERT INTO v SELECT g, 'b' || g FROM generate_series(1, 20000) g;
CREATE FUNCTION good() RETURNS text LANGUAGE sql AS $$
	SELECT 'a: ' || nm_test.compare('SELECT a FROM v ORDER BY a') || E'\nb: ' || nm_test.compare('SELECT b FROM v WHERE b > ''b'' ORDER BY b DESC');
$$;
VACUUM v; SELECT good();
-- Whole leaves go, the edges of the tree go, everything goes and comes back.
DELETE FROM v WHERE a BETWEEN 5000 AND 15000; VACUUM v; SELECT good();
SELECT numa.btree_check('v_a'), numa.btree_check('v_b');
DELETE FROM v WHERE a < 3000; VACUUM v; SELECT good();
DELETE FROM v WHERE a > 17000; VACUUM v; SELECT good();
INSERT INTO v SELECT g, 'again' || g FROM generate_series(5000, 15000, 3) g; SELECT good();
DELETE FROM v; VACUUM v; SELECT good();
SELECT numa.btree_check('v_a'), numa.btree_check('v_b');
INSERT INTO v SELECT g, 'b' || g FROM generate_series(20000, 1, -1) g; SELECT good();
-- Same TIDs, other keys: a stale entry would point to a row of another key.
DELETE FROM v WHERE a % 2 = 0; VACUUM v;
INSERT INTO v SELECT g + 100000, 'c' || g FROM generate_series(1, 10000) g;
SELECT good();
SELECT nm_test.compare('SELECT a, b FROM v WHERE a = 4');
SELECT nm_test.compare('SELECT a, b FROM v WHERE a = 100004');
-- Dead entries met by scans are marked and cleaned before a split; the rows stay right.
UPDATE v SET b = b || 'x' WHERE a < 5000;
DO $$ BEGIN FOR i IN 1 .. 30 LOOP UPDATE v SET a = a WHERE a < 200; PERFORM count(*) FROM v WHERE a < 200; END LOOP; END $$;
SET enable_seqscan = off; SELECT count(*) FROM v WHERE b BETWEEN 'b1' AND 'b2'; SELECT count(*) FROM v WHERE a < 5000; RESET enable_seqscan;
SELECT good();
-- A churned table of constant size (https://github.com/pgvector/pgvector/issues/181).
DO $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		DELETE FROM v WHERE a IN (SELECT a FROM v WHERE a > 100000 ORDER BY a LIMIT 200);
		INSERT INTO v SELECT 200000 + i * 200 + g, 'churn' || g FROM generate_series(1, 200) g;
	END LOOP;
END $$;
VACUUM (INDEX_CLEANUP on) v; SELECT good();
VACUUM (INDEX_CLEANUP off) v; DELETE FROM v WHERE a % 5 = 0; VACUUM (INDEX_CLEANUP off) v; SELECT good();
VACUUM v; SELECT good();
-- Several passes over the indexes with little memory.
DELETE FROM v WHERE a % 7 = 0; SET maintenance_work_mem = '1MB'; VACUUM v; RESET maintenance_work_mem; SELECT good();
-- Parallel vacuum: core decides by the index file's size, one page here, so only a zero
-- threshold gets there.
SET min_parallel_index_scan_size = 0;
DELETE FROM v WHERE a % 11 = 0; VACUUM (PARALLEL 2) v; RESET min_parallel_index_scan_size; SELECT good();
-- Not loaded: VACUUM has nothing to delete from, the later load doesn't see what is gone.
SELECT numa.btree_unload('v_a'), numa.btree_unload('v_b');
DELETE FROM v WHERE a % 13 = 0; VACUUM v;
INSERT INTO v SELECT g, 'unloaded' || g FROM generate_series(1, 100) g;
SELECT numa.btree_load('v_a'), numa.btree_load('v_b');
SELECT good();
-- pg_class counts are those of the index, and ANALYZE alone leaves them right.
VACUUM ANALYZE v;
SELECT reltuples = (SELECT count(*) FROM v) AS reltuples_right FROM pg_class WHERE oid IN ('v_a'::regclass, 'v_b'::regclass);
ANALYZE v;
SELECT reltuples = (SELECT count(*) FROM v) AS reltuples_right FROM pg_class WHERE oid IN ('v_a'::regclass, 'v_b'::regclass);
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

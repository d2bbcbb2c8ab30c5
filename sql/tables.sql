-- Temporary, unlogged, partitioned, inherited tables; materialised views; 2 sessions need specs.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- Temporary tables, and what ON COMMIT does.
CREATE TEMP TABLE tt (a int, b text);
INSERT INTO tt SELECT g % 500, g::text FROM generate_series(1, 2000) g;
CREATE INDEX tt_a ON tt USING numa_btree (a);
CREATE INDEX tt_b ON tt USING numa_btree (b);
INSERT INTO tt SELECT g, 'late' FROM generate_series(1, 100) g;
SELECT nm_test.compare('SELECT a FROM tt WHERE a < 60 ORDER BY a');
SELECT nm_test.compare('SELECT b FROM tt WHERE b > ''9'' ORDER BY b');
SELECT numa.btree_check('tt_a'), numa.btree_check('tt_b');
BEGIN; TRUNCATE tt; INSERT INTO tt VALUES (1, 'in'); ROLLBACK;
SELECT nm_test.compare('SELECT a FROM tt WHERE a < 60 ORDER BY a');
VACUUM FULL tt; REINDEX TABLE tt;
SELECT nm_test.compare('SELECT a FROM tt WHERE a < 60 ORDER BY a');
CREATE TEMP TABLE od (a int) ON COMMIT DELETE ROWS;
CREATE INDEX od_a ON od USING numa_btree (a);
BEGIN;
INSERT INTO od SELECT generate_series(1, 1000);
SELECT nm_test.compare('SELECT a FROM od WHERE a > 990 ORDER BY a');
COMMIT;
SELECT nm_test.compare('SELECT a FROM od WHERE a > 0 ORDER BY a');
DO $$ BEGIN FOR i IN 1 .. 20 LOOP INSERT INTO od SELECT generate_series(1, 100); COMMIT; END LOOP; END $$;
SELECT nm_test.compare('SELECT a FROM od WHERE a > 0 ORDER BY a');
BEGIN; INSERT INTO od VALUES (5); SAVEPOINT s; INSERT INTO od VALUES (6); ROLLBACK TO s; SELECT nm_test.compare('SELECT a FROM od WHERE a > 0'); COMMIT;
CREATE TEMP TABLE oc (a int) ON COMMIT DROP;
BEGIN;
CREATE TEMP TABLE oc2 (a int) ON COMMIT DROP;
CREATE INDEX oc2_a ON oc2 USING numa_btree (a);
INSERT INTO oc2 VALUES (1), (2);
SELECT nm_test.compare('SELECT a FROM oc2 WHERE a > 0');
COMMIT;
SELECT to_regclass('oc2');
DISCARD TEMP;
SELECT to_regclass('tt'), to_regclass('tt_a');

-- Unlogged.
CREATE UNLOGGED TABLE ul (a int);
CREATE INDEX ul_a ON ul USING numa_btree (a);
INSERT INTO ul SELECT generate_series(1, 1000);
SELECT nm_test.compare('SELECT a FROM ul WHERE a % 100 = 0 AND a > 0 ORDER BY a');
TRUNCATE ul; INSERT INTO ul VALUES (7);
SELECT nm_test.compare('SELECT a FROM ul WHERE a > 0 ORDER BY a');

-- Partitions: an index on the parent, attach and detach, ordered append, runtime pruning.
CREATE TABLE p (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (1000);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (1000) TO (2000);
CREATE INDEX p_k ON p USING numa_btree (k);
CREATE INDEX p_v ON p USING numa_btree (v, k DESC);
INSERT INTO p SELECT g, 'v' || g % 7 FROM generate_series(0, 1999) g;
SELECT nm_test.compare('SELECT k FROM p WHERE k BETWEEN 950 AND 1050 ORDER BY k');
SELECT nm_test.compare('SELECT k FROM p WHERE k BETWEEN 950 AND 1050 ORDER BY k DESC');
SELECT nm_test.compare('SELECT v, k FROM p WHERE v = ''v3'' ORDER BY v, k DESC');
UPDATE p SET k = k + 1000 WHERE k < 100;		-- rows change partition
SELECT nm_test.compare('SELECT k FROM p WHERE k < 2000 ORDER BY k');
CREATE TABLE p3 (k int, v text);
INSERT INTO p3 SELECT g, 'v' || g % 7 FROM generate_series(2000, 2999) g;
CREATE INDEX p3_k ON p3 USING numa_btree (k);
ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (2000) TO (3000);
SELECT indexrelid::regclass, indisvalid FROM pg_index WHERE indrelid = 'p3'::regclass ORDER BY 1::text;
SELECT nm_test.compare('SELECT k FROM p WHERE k > 1900 ORDER BY k');
ALTER TABLE p DETACH PARTITION p1;
SELECT nm_test.compare('SELECT k FROM p WHERE k > 1900 ORDER BY k');
SELECT nm_test.compare('SELECT k FROM p1 WHERE k > 900 ORDER BY k');
REINDEX TABLE p;
TRUNCATE p;
SELECT nm_test.compare('SELECT k FROM p WHERE k > 0 ORDER BY k');
INSERT INTO p VALUES (1500, 'x'), (2500, 'y');
SELECT nm_test.compare('SELECT k FROM p WHERE k > 0 ORDER BY k');

-- Inheritance, materialised view.
CREATE TABLE base (a int);
CREATE TABLE child (b int) INHERITS (base);
CREATE INDEX base_a ON base USING numa_btree (a);
CREATE INDEX child_a ON child USING numa_btree (a);
INSERT INTO base SELECT generate_series(1, 100);
INSERT INTO child SELECT g, g FROM generate_series(50, 150) g;
SELECT nm_test.compare('SELECT a FROM base WHERE a > 40 ORDER BY a');
CREATE MATERIALIZED VIEW mv AS SELECT a, count(*) AS n FROM base GROUP BY a;
CREATE INDEX mv_a ON mv USING numa_btree (a);
SELECT nm_test.compare('SELECT a, n FROM mv WHERE a BETWEEN 45 AND 55 ORDER BY a');
INSERT INTO base VALUES (50);
REFRESH MATERIALIZED VIEW mv;
SELECT nm_test.compare('SELECT a, n FROM mv WHERE a BETWEEN 45 AND 55 ORDER BY a');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

-- Every statement that makes, replaces or takes away an index, and its rollback.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE t (a int, b text);
INSERT INTO t SELECT g, 'b' || g % 100 FROM generate_series(1, 3000) g;
CREATE INDEX t_a ON t USING numa_btree (a);
CREATE INDEX t_b ON t USING numa_btree (b) WITH (fillfactor = 60);
-- The state after each step: both indexes answer as a sequential scan does.
CREATE FUNCTION good() RETURNS text LANGUAGE sql AS $$
	SELECT 'a: ' || nm_test.compare('SELECT a FROM t WHERE a > 0 ORDER BY a') || E'\nb: ' ||
		nm_test.compare('SELECT b FROM t WHERE b > ''b5'' ORDER BY b');
$$;
SELECT good();

-- REINDEX, all forms; the plain ones also rolled back.
REINDEX INDEX t_a; REINDEX TABLE t;
BEGIN; REINDEX INDEX t_a; INSERT INTO t VALUES (-1, 'b5x'), (9999, 'b6x'); ROLLBACK;
BEGIN; REINDEX TABLE t; DELETE FROM t WHERE a % 10 = 0; SAVEPOINT s; REINDEX INDEX t_b; ROLLBACK TO s; COMMIT;
SELECT good();
REINDEX INDEX CONCURRENTLY t_a; REINDEX TABLE CONCURRENTLY t;
SELECT good();

-- CREATE INDEX CONCURRENTLY, failed ones too.  A failed build leaves an INVALID index that
-- REINDEX and DROP must bear: https://github.com/orioledb/orioledb/issues/441
CREATE INDEX CONCURRENTLY t_c ON t USING numa_btree (b, a);
-- Counted right although the concurrent build scans twice (core fix "Count heap tuples in
-- non-SnapshotAny path in IndexBuildHeapRangeScan"). With autovacuum off 18 leaves the table's number alone.
SELECT reltuples = (SELECT count(*) FROM t) OR current_setting('server_version_num')::int >= 180000 AND relkind = 'r' AS counted
FROM pg_class WHERE oid IN ('t'::regclass, 't_c'::regclass);
SELECT nm_test.compare('SELECT b, a FROM t WHERE b = ''b7'' ORDER BY b, a');
\set VERBOSITY terse
CREATE INDEX CONCURRENTLY t_bad ON t USING numa_btree ((1 / (a - 7)));
SELECT indisvalid FROM pg_index WHERE indexrelid = 't_bad'::regclass;
REINDEX INDEX t_bad;
DELETE FROM t WHERE a = 7;
INSERT INTO t VALUES (3001, 'b7');
REINDEX TABLE t;
REINDEX INDEX t_bad;
SELECT indisvalid FROM pg_index WHERE indexrelid = 't_bad'::regclass;
DROP INDEX CONCURRENTLY t_bad;
SET client_min_messages = error;
CREATE UNIQUE INDEX CONCURRENTLY t_bad ON t USING numa_btree (b);
RESET client_min_messages;
INSERT INTO t VALUES (3002, 'b7');
DROP INDEX t_bad;
\set VERBOSITY default
SELECT good();
DROP INDEX CONCURRENTLY t_c;

-- CREATE and DROP rolled back; an aborted create leaves nothing that stands in the way of
-- the next (https://github.com/tensorchord/pgvecto.rs/issues/413).
BEGIN; CREATE INDEX t_x ON t USING numa_btree (a, b); SELECT nm_test.compare('SELECT a, b FROM t WHERE a < 50 ORDER BY a, b'); ROLLBACK;
CREATE INDEX t_x ON t USING numa_btree (a, b); DROP INDEX t_x;
BEGIN; DROP INDEX t_a; INSERT INTO t VALUES (-2, 'b8'); DELETE FROM t WHERE a = 20; ROLLBACK;
SELECT good();
BEGIN; SAVEPOINT s; DROP INDEX t_b; ROLLBACK TO s; INSERT INTO t VALUES (-3, 'b8y'); COMMIT;
SELECT good();
BEGIN; SAVEPOINT s; CREATE INDEX t_x ON t USING numa_btree (b); INSERT INTO t VALUES (-4, 'b8z'); ROLLBACK TO s;
CREATE INDEX t_x ON t USING numa_btree (b); RELEASE s; COMMIT;
DROP INDEX t_x;
BEGIN; DROP TABLE t; ROLLBACK;
SELECT good();

-- TRUNCATE: empty, rolled back, twice in a transaction, with RESTART and rows in between.
-- https://github.com/postgrespro/rum/issues/51 and https://github.com/orioledb/orioledb/issues/669
BEGIN; TRUNCATE t; SELECT good(); INSERT INTO t VALUES (1, 'b9'); SELECT good(); ROLLBACK;
SELECT good();
BEGIN; TRUNCATE t; INSERT INTO t VALUES (2, 'b9'); TRUNCATE t; INSERT INTO t VALUES (3, 'b99'); SELECT good(); ROLLBACK;
BEGIN; SAVEPOINT s; TRUNCATE t; INSERT INTO t VALUES (2, 'b9'); ROLLBACK TO s; INSERT INTO t VALUES (-5, 'b9'); COMMIT;
SELECT good();
CREATE TABLE keep AS SELECT * FROM t;
TRUNCATE t;
SELECT good();
INSERT INTO t SELECT * FROM keep;
SELECT good();
-- Created and truncated in one transaction.
BEGIN; CREATE TABLE fresh (a int); CREATE INDEX fresh_a ON fresh USING numa_btree (a); INSERT INTO fresh VALUES (1); TRUNCATE fresh; INSERT INTO fresh VALUES (2); COMMIT;
SELECT nm_test.compare('SELECT a FROM fresh WHERE a > 0');

-- CLUSTER and VACUUM FULL rewrite the table: all TIDs change.
CLUSTER t USING t_b;
SELECT good();
SELECT count(*) FROM (SELECT b < lag(b) OVER (ORDER BY ctid) AS down FROM t) x WHERE down;
ALTER TABLE t CLUSTER ON t_a; CLUSTER t;
SELECT count(*) FROM (SELECT a < lag(a) OVER (ORDER BY ctid) AS down FROM t) x WHERE down;
DELETE FROM t WHERE a % 3 = 0;
VACUUM FULL t;
SELECT good();
BEGIN; CLUSTER t USING t_b; ROLLBACK;
SELECT good();

-- ALTER TABLE: tablespace, type, column drop, rename, persistence, schema.
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE nm_regress_space LOCATION '';
ALTER INDEX t_a SET TABLESPACE nm_regress_space;
-- The file is copied, the tree is not: it is loaded anew, in the background.
SELECT nm_test.wait_loaded('t_a');
SELECT good();
ALTER TABLE t SET TABLESPACE nm_regress_space;
BEGIN; ALTER INDEX t_a SET TABLESPACE pg_default; INSERT INTO t VALUES (-6, 'b6'); ROLLBACK;
SELECT good();
ALTER INDEX t_b SET TABLESPACE nm_regress_space;
INSERT INTO t VALUES (-7, 'b7');
ALTER TABLE t SET TABLESPACE pg_default; ALTER INDEX t_a SET TABLESPACE pg_default; ALTER INDEX t_b SET TABLESPACE pg_default;
-- A table's move that is undone takes the rows with it that came after it, not only their
-- transaction: no entry may stay for them (btree keeps them), whatever the tree was then.
CREATE TABLE mv (a int, b int);
CREATE INDEX mv_a ON mv USING numa_btree (a);
INSERT INTO mv SELECT g, g FROM generate_series(1, 100) g;
BEGIN; ALTER TABLE mv SET TABLESPACE nm_regress_space; INSERT INTO mv SELECT g, 0 FROM generate_series(1001, 3000) g; ROLLBACK;
SELECT numa.btree_check('mv_a');
BEGIN; SAVEPOINT s; ALTER TABLE mv SET TABLESPACE nm_regress_space; INSERT INTO mv SELECT g, 0 FROM generate_series(1001, 3000) g; ROLLBACK TO s;
INSERT INTO mv SELECT g, 0 FROM generate_series(5001, 5500) g; COMMIT;
SELECT numa.btree_check('mv_a');
SELECT numa.btree_unload('mv_a');
BEGIN; ALTER TABLE mv SET TABLESPACE nm_regress_space; SELECT numa.btree_load('mv_a'); SAVEPOINT s; INSERT INTO mv SELECT g, 0 FROM generate_series(1001, 3000) g; RELEASE s; ROLLBACK;
SELECT numa.btree_check('mv_a');
BEGIN; ALTER TABLE mv SET TABLESPACE nm_regress_space; INSERT INTO mv VALUES (-1, 0); COMMIT;
SELECT nm_test.compare('SELECT a FROM mv WHERE a > -5 ORDER BY a');
DROP TABLE mv;
DROP TABLESPACE nm_regress_space;
SELECT nm_test.wait_loaded('t_a'), nm_test.wait_loaded('t_b');
SELECT good();
ALTER TABLE t ALTER a TYPE bigint;
ALTER TABLE t ALTER b TYPE varchar(40);
SELECT good();
ALTER TABLE t ALTER a TYPE numeric USING -a;
SELECT nm_test.compare('SELECT a FROM t WHERE a < 0 ORDER BY a');
ALTER TABLE t ALTER a TYPE int USING -a;
BEGIN; ALTER TABLE t ALTER a TYPE text; INSERT INTO t VALUES ('zz', 'b1'); ROLLBACK;
SELECT good();
ALTER TABLE t ADD c int DEFAULT 5; CREATE INDEX t_c ON t USING numa_btree (c, a);
SELECT nm_test.compare('SELECT c, a FROM t WHERE c = 5 AND a > 2900 ORDER BY a');
ALTER TABLE t DROP COLUMN c;
SELECT to_regclass('t_c');
ALTER INDEX t_a RENAME TO t_renamed;
SELECT good();
ALTER INDEX t_renamed RENAME TO t_a;
ALTER TABLE t SET UNLOGGED; INSERT INTO t VALUES (-8, 'b8');
SELECT good();
ALTER TABLE t SET LOGGED; INSERT INTO t VALUES (-9, 'b9');
SELECT good();

-- Options.
ALTER INDEX t_a SET (fillfactor = 50);
SELECT reloptions FROM pg_class WHERE oid = 't_a'::regclass;
REINDEX INDEX t_a;
ALTER INDEX t_a RESET (fillfactor);
SELECT nm_test.err(format('CREATE INDEX ON t USING numa_btree (a) WITH (%s)', o))
FROM unnest('{fillfactor = 5,fillfactor = 101,no_such = 1,node = -2}'::text[]) o;
ALTER INDEX t_a SET (node = 0);
REINDEX INDEX t_a;
SELECT good();

-- Only what the extension's own schema holds depends on it: the index goes with its table.
DROP TABLE keep, fresh;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

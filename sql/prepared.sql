-- Two-phase commit: the callbacks of the first session do not run at COMMIT PREPARED.
-- prepared_1.out is for a server with max_prepared_transactions = 0.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

SELECT current_setting('max_prepared_transactions')::int = 0 AS off \gset
\if :off
\echo skipped: max_prepared_transactions is 0
\quit
\endif
CREATE TABLE t (a int);
INSERT INTO t SELECT generate_series(1, 1000);
CREATE INDEX t_a ON t USING numa_btree (a);
CREATE FUNCTION good() RETURNS text LANGUAGE sql AS $$ SELECT nm_test.compare('SELECT a FROM t WHERE a > 0 ORDER BY a'); $$;

-- Rows of a prepared transaction, committed and rolled back.
BEGIN; INSERT INTO t SELECT generate_series(1001, 1100); DELETE FROM t WHERE a <= 50; PREPARE TRANSACTION 'nm_dml';
SELECT good();
COMMIT PREPARED 'nm_dml';
SELECT good();
BEGIN; INSERT INTO t SELECT generate_series(2001, 2100); DELETE FROM t WHERE a <= 100; PREPARE TRANSACTION 'nm_dml';
COMMIT PREPARED 'nm_no_such';
ROLLBACK PREPARED 'nm_dml';
SELECT good();
VACUUM t;
SELECT good();

-- The load takes rows of a prepared transaction in.
BEGIN; INSERT INTO t SELECT generate_series(3001, 3100); DELETE FROM t WHERE a BETWEEN 500 AND 600; PREPARE TRANSACTION 'nm_dml';
SELECT numa.btree_unload('t_a'), numa.btree_load('t_a');
SELECT good();
COMMIT PREPARED 'nm_dml';
SELECT good();
SELECT numa.btree_check('t_a');

-- Rows that were inserted after their table was moved are gone with the move (see ddl).
SET allow_in_place_tablespaces = on;
CREATE TABLESPACE nm_prepared_space LOCATION '';
BEGIN; ALTER TABLE t SET TABLESPACE nm_prepared_space; INSERT INTO t SELECT generate_series(4001, 6000); PREPARE TRANSACTION 'nm_move';
ROLLBACK PREPARED 'nm_move';
SELECT numa.btree_check('t_a');
BEGIN; ALTER TABLE t SET TABLESPACE nm_prepared_space; INSERT INTO t SELECT generate_series(4001, 4010); PREPARE TRANSACTION 'nm_move';
COMMIT PREPARED 'nm_move';
SELECT numa.btree_check('t_a');
SELECT good();
ALTER TABLE t SET TABLESPACE pg_default;
DROP TABLESPACE nm_prepared_space;

-- An index made in a prepared transaction.
BEGIN; CREATE TABLE made (a int); INSERT INTO made SELECT generate_series(1, 500); CREATE INDEX made_a ON made USING numa_btree (a); PREPARE TRANSACTION 'nm_ddl';
SELECT to_regclass('made_a');
COMMIT PREPARED 'nm_ddl';
SELECT nm_test.compare('SELECT a FROM made WHERE a > 100 ORDER BY a');
INSERT INTO made VALUES (501);
SELECT nm_test.compare('SELECT a FROM made WHERE a > 100 ORDER BY a');
BEGIN; CREATE TABLE unmade (a int); INSERT INTO unmade SELECT generate_series(1, 500); CREATE INDEX unmade_a ON unmade USING numa_btree (a); PREPARE TRANSACTION 'nm_ddl';
ROLLBACK PREPARED 'nm_ddl';
CREATE TABLE unmade (a int); CREATE INDEX unmade_a ON unmade USING numa_btree (a); INSERT INTO unmade VALUES (1);
SELECT nm_test.compare('SELECT a FROM unmade WHERE a > 0');

-- Dropped, truncated, reindexed.
BEGIN; DROP INDEX made_a; PREPARE TRANSACTION 'nm_ddl';
ROLLBACK PREPARED 'nm_ddl';
SELECT nm_test.compare('SELECT a FROM made WHERE a > 490 ORDER BY a');
BEGIN; TRUNCATE made; INSERT INTO made VALUES (7); PREPARE TRANSACTION 'nm_ddl';
ROLLBACK PREPARED 'nm_ddl';
SELECT nm_test.compare('SELECT a FROM made WHERE a > 490 ORDER BY a');
BEGIN; TRUNCATE made; INSERT INTO made VALUES (7); PREPARE TRANSACTION 'nm_ddl';
COMMIT PREPARED 'nm_ddl';
SELECT nm_test.compare('SELECT a FROM made WHERE a > 0 ORDER BY a');
BEGIN; REINDEX INDEX t_a; INSERT INTO t VALUES (5000); PREPARE TRANSACTION 'nm_ddl';
ROLLBACK PREPARED 'nm_ddl';
SELECT good();
BEGIN; REINDEX INDEX t_a; INSERT INTO t VALUES (5000); PREPARE TRANSACTION 'nm_ddl';
COMMIT PREPARED 'nm_ddl';
SELECT good();
BEGIN; DROP TABLE made; PREPARE TRANSACTION 'nm_ddl';
COMMIT PREPARED 'nm_ddl';
SELECT to_regclass('made_a');

-- A unique key held by a prepared transaction makes the second inserter wait.
SET client_min_messages = error;
CREATE TABLE u (a int);
CREATE UNIQUE INDEX u_a ON u USING numa_btree (a);
BEGIN; INSERT INTO u VALUES (1); PREPARE TRANSACTION 'nm_u';
SET lock_timeout = '100ms';
SELECT left(e, 5) FROM nm_test.err('INSERT INTO u VALUES (1)') e WHERE e !~ '^(DETAIL|HINT)';
INSERT INTO u VALUES (2);
RESET lock_timeout;
-- Also when the index has to be loaded first.
SELECT numa.btree_unload('u_a');
SET lock_timeout = '1s';
SELECT left(e, 5) FROM nm_test.err('INSERT INTO u VALUES (1)') e WHERE e !~ '^(DETAIL|HINT)';
RESET lock_timeout;
ROLLBACK PREPARED 'nm_u';
INSERT INTO u VALUES (1);
SELECT nm_test.err('INSERT INTO u VALUES (1)');
SELECT nm_test.compare('SELECT a FROM u WHERE a > 0 ORDER BY a');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

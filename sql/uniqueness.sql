-- Uniqueness: all forms of it, and what core keeps from an access method that is not btree.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- On 15 to 17 a WARNING says what such an index cannot do (ON CONFLICT, foreign keys, ...). Two expected files.
CREATE TABLE u (a int, b text);
CREATE UNIQUE INDEX u_a ON u USING numa_btree (a);
SET client_min_messages = error;
CREATE TABLE ub (a int, b text);
CREATE UNIQUE INDEX ub_b ON ub USING numa_btree (lower(b)) WHERE b <> 'free';
RESET client_min_messages;
INSERT INTO u SELECT g, 'x' FROM generate_series(1, 1000) g;
-- The text and DETAIL are btree's.
INSERT INTO u VALUES (500, 'again');
SELECT * FROM nm_test.err('UPDATE u SET a = 7 WHERE a = 8');
INSERT INTO ub VALUES ('1', 'Word'), ('2', 'free'), ('3', 'free');
INSERT INTO ub VALUES ('4', 'WORD');
INSERT INTO u VALUES (NULL, 'n1'), (NULL, 'n2');
SELECT count(*) FROM u WHERE a IS NULL;
-- Several conflicts in one statement, a whole shift, a swap in one statement: as with btree,
-- what clashes for a moment clashes.
SELECT * FROM nm_test.err('UPDATE u SET a = a + 1 WHERE a IS NOT NULL');
SELECT * FROM nm_test.err('UPDATE u SET a = 1001 - a WHERE a IS NOT NULL');
UPDATE u SET a = -a WHERE a IS NOT NULL;
UPDATE u SET a = 2 - a WHERE a IS NOT NULL;
SELECT min(a), max(a), count(*) FROM u;
-- A key comes free with its row: in the same transaction, in a rolled back subtransaction, after VACUUM.
BEGIN; DELETE FROM u WHERE a = 10; INSERT INTO u VALUES (10, 'in the same transaction'); COMMIT;
BEGIN; SAVEPOINT s; INSERT INTO u VALUES (2000, 'sub'); ROLLBACK TO s; INSERT INTO u VALUES (2000, 'top'); COMMIT;
BEGIN; SAVEPOINT s; DELETE FROM u WHERE a = 11; ROLLBACK TO s;
SELECT nm_test.err('INSERT INTO u VALUES (11, ''still there'')'); ROLLBACK;
DELETE FROM u WHERE a = 12; VACUUM u; INSERT INTO u VALUES (12, 'after vacuum');
-- HOT updates keep the key, and the entry stays good through a prune.
DO $$ BEGIN FOR i IN 1 .. 300 LOOP UPDATE u SET b = i::text WHERE a = 20; END LOOP; END $$;
SELECT nm_test.err('INSERT INTO u VALUES (20, ''hot'')');
VACUUM u;
SELECT nm_test.err('INSERT INTO u VALUES (20, ''hot'')');
-- The same key hundreds of times dead, once alive.
DO $$ BEGIN FOR i IN 1 .. 500 LOOP DELETE FROM u WHERE a = 21; INSERT INTO u VALUES (21, repeat('w', 500)); END LOOP; END $$;
SELECT nm_test.err('INSERT INTO u VALUES (21, ''dead and alive'')');
SELECT count(*) FROM u WHERE a = 21;
SELECT * FROM nm_test.check_all();

-- A build finds duplicates; only rows that are alive count.
CREATE TABLE d (a int);
INSERT INTO d VALUES (1), (2), (1);
SET client_min_messages = error;
CREATE UNIQUE INDEX d_a ON d USING numa_btree (a);
DELETE FROM d WHERE ctid = '(0,3)';
CREATE UNIQUE INDEX d_a ON d USING numa_btree (a);
SELECT nm_test.err('INSERT INTO d VALUES (2)');
DROP INDEX d_a;

-- NULLS NOT DISTINCT (15).
CREATE UNIQUE INDEX d_nnd ON d USING numa_btree (a) NULLS NOT DISTINCT;
INSERT INTO d VALUES (NULL);
INSERT INTO d VALUES (NULL);
CREATE TABLE d2 (a int, b text);
CREATE UNIQUE INDEX d2_nnd ON d2 USING numa_btree (a, b) NULLS NOT DISTINCT;
INSERT INTO d2 VALUES (1, NULL), (NULL, 'x'), (NULL, NULL);
SELECT nm_test.err(format('INSERT INTO d2 VALUES (%s)', v)) FROM unnest('{"1, NULL","NULL, ''x''","NULL, NULL"}'::text[]) v;
INSERT INTO d2 VALUES (2, NULL), (NULL, 'y');
INSERT INTO d VALUES (3); DELETE FROM d WHERE a IS NULL; INSERT INTO d VALUES (NULL);
CREATE TABLE d3 AS SELECT NULL::int AS a FROM generate_series(1, 2);
CREATE UNIQUE INDEX d3_nnd ON d3 USING numa_btree (a) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX d3_nd ON d3 USING numa_btree (a);

-- Equal is what the operator class says, not the spelling.
CREATE TABLE eq (n numeric, f float8);
CREATE UNIQUE INDEX eq_n ON eq USING numa_btree (n);
CREATE UNIQUE INDEX eq_f ON eq USING numa_btree (f);
INSERT INTO eq VALUES (1.0, 0), (2.50, 'NaN');
SELECT nm_test.err(format('INSERT INTO eq VALUES (%s)', v)) FROM unnest('{"1.000, 5","3, -0.0","4, ''NaN''","2.5, 6"}'::text[]) v;
RESET client_min_messages;

-- A named, deferrable constraint comes by EXCLUDE.
CREATE TABLE ex (a int, EXCLUDE USING numa_btree (a WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO ex SELECT generate_series(1, 100);
UPDATE ex SET a = a + 1;
SELECT min(a), max(a), count(*) FROM ex;
BEGIN; UPDATE ex SET a = 50 WHERE a = 51; UPDATE ex SET a = 51 WHERE ctid = (SELECT min(ctid) FROM ex WHERE a = 50); COMMIT;
BEGIN; INSERT INTO ex VALUES (50); COMMIT;
BEGIN; INSERT INTO ex VALUES (50); SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK;
SELECT count(*), count(DISTINCT a) FROM ex;
CREATE TABLE ex2 (a int, b text, CONSTRAINT both_same EXCLUDE USING numa_btree (a WITH =, b WITH =) WHERE (a > 0));
INSERT INTO ex2 VALUES (1, 'x'), (1, 'y'), (0, 'x'), (0, 'x'), (2, NULL), (2, NULL);
SELECT * FROM nm_test.err($$INSERT INTO ex2 VALUES (1, 'y')$$);
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

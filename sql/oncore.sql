-- What core allows btree alone and the versions that lifted it: see the table in the README.
-- Output differs between 15 to 17 and 18: two expected files.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

SET client_min_messages = error;
CREATE TABLE c (a int, b int, t text);
CREATE UNIQUE INDEX c_a ON c USING numa_btree (a);
INSERT INTO c VALUES (1, 1, 'one');
-- ON CONFLICT: an error of our own that says what to do, before core's internal one, wherever
-- the INSERT sits: with and without arbiter, in a CTE, prepared, in a function, on a partition.
SELECT * FROM nm_test.err($$INSERT INTO c VALUES (1) ON CONFLICT DO NOTHING$$);
SELECT * FROM nm_test.err($$INSERT INTO c VALUES (1) ON CONFLICT (a) DO UPDATE SET t = 'two'$$);
-- An operator class that ON CONFLICT names is btree's on every version: nothing matches.
SELECT * FROM nm_test.err($$INSERT INTO c VALUES (1) ON CONFLICT (a int4_ops) DO NOTHING$$);
SELECT * FROM nm_test.err($$WITH w AS (INSERT INTO c VALUES (1) ON CONFLICT DO NOTHING RETURNING 1) SELECT count(*) FROM w$$);
SELECT * FROM nm_test.err($$INSERT INTO c SELECT 1 WHERE false ON CONFLICT DO NOTHING$$);
CREATE TABLE other (a int PRIMARY KEY, n int);
CREATE UNIQUE INDEX other_n ON other USING numa_btree (n);
-- The arbiter is a btree, yet core looks at every unique index.
SELECT * FROM nm_test.err($$INSERT INTO other VALUES (1, 1) ON CONFLICT (a) DO NOTHING$$);
PREPARE p AS INSERT INTO c VALUES ($1) ON CONFLICT DO NOTHING;
EXECUTE p(5);
DEALLOCATE p;
CREATE TABLE part (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE UNIQUE INDEX part1_b ON part1 USING numa_btree (b);
SELECT * FROM nm_test.err($$INSERT INTO part VALUES (1, 1) ON CONFLICT DO NOTHING$$);
SELECT * FROM nm_test.err($$MERGE INTO c USING (VALUES (1), (2)) v(x) ON c.a = v.x WHEN MATCHED THEN UPDATE SET t = 'merged' WHEN NOT MATCHED THEN INSERT VALUES (v.x)$$);
SELECT a, t FROM c ORDER BY a;
-- A table whose numa_btree indexes are not unique is free to use ON CONFLICT.
CREATE TABLE plain (a int PRIMARY KEY, b int);
CREATE INDEX plain_b ON plain USING numa_btree (b);
INSERT INTO plain VALUES (1, 1), (2, 1);
INSERT INTO plain VALUES (1, 5), (3, 5) ON CONFLICT (a) DO UPDATE SET b = excluded.b + 100;
SELECT nm_test.compare('SELECT b FROM plain WHERE b > 0 ORDER BY b');
-- Explaining it runs nothing and so refuses nothing.
EXPLAIN (COSTS OFF) INSERT INTO plain VALUES (1, 5) ON CONFLICT DO NOTHING;
-- Constraints that only btree may carry.
SELECT nm_test.err('ALTER TABLE c ADD CONSTRAINT c_uk UNIQUE USING INDEX c_a');
-- Foreign keys, from every command that can make one; a btree index beside ours will do.
SELECT * FROM nm_test.err('CREATE TABLE ref (a int REFERENCES c (a))');
CREATE TABLE ref2 (a int);
SELECT * FROM nm_test.err('ALTER TABLE ref2 ADD CONSTRAINT ref2_a FOREIGN KEY (a) REFERENCES c (a)');
SELECT * FROM nm_test.err('CREATE SCHEMA scratch2 CREATE TABLE ref3 (a int, FOREIGN KEY (a) REFERENCES scratch.c (a))');
SELECT * FROM nm_test.err('ALTER TABLE ref2 ADD FOREIGN KEY (a) REFERENCES c (t)');
CREATE TABLE two (a int);
CREATE UNIQUE INDEX two_btree ON two USING btree (a);
CREATE UNIQUE INDEX two_numa ON two USING numa_btree (a);
INSERT INTO two VALUES (1);
CREATE TABLE ref4 (a int REFERENCES two (a));
SELECT * FROM nm_test.err('INSERT INTO ref4 VALUES (1), (2)');
SELECT left(e, 5) FROM nm_test.err('CREATE UNIQUE INDEX ON part USING numa_btree (a)') e WHERE e !~ '^(DETAIL|HINT)';
-- Publisher side of logical replication.
ALTER TABLE c ALTER a SET NOT NULL;
ALTER TABLE c REPLICA IDENTITY USING INDEX c_a;
SELECT relreplident FROM pg_class WHERE oid = 'c'::regclass;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA IF EXISTS scratch2 CASCADE;
DROP SCHEMA scratch, nm_test CASCADE;

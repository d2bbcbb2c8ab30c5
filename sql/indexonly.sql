-- Index-only scans give back what was stored, INCLUDE columns, partial and expression indexes.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- Equal is not identical: each row must come back as it was spelt.
CREATE TABLE io (n numeric, f float8, i interval, t text, pad text);
INSERT INTO io
SELECT ('{1.0,1.00,1,0.0,0.000,-0.0}'::numeric[])[1 + g % 6], ('{0,-0,1}'::float8[])[1 + g % 3],
	('{1 day,24:00:00,1 mon,30 days}'::interval[])[1 + g % 4], 't' || g % 5, 'pad' || g
FROM generate_series(1, 600) g;
CREATE INDEX io_n ON io USING numa_btree (n);
CREATE INDEX io_f ON io USING numa_btree (f);
CREATE INDEX io_i ON io USING numa_btree (i);
CREATE INDEX io_t ON io USING numa_btree (t) INCLUDE (n, pad);
INSERT INTO io SELECT * FROM io;
VACUUM ANALYZE io;
SELECT q, nm_test.compare(q) FROM unnest(ARRAY[
	'SELECT n::text FROM io WHERE n = 1', 'SELECT n::text FROM io WHERE n = 0.00', 'SELECT f::text FROM io WHERE f = 0',
	'SELECT i::text FROM io WHERE i = ''1 day''', 'SELECT i::text FROM io WHERE i > ''1 day''',
	'SELECT t, n::text, pad FROM io WHERE t = ''t3''', 'SELECT count(*), count(DISTINCT n::text), min(pad), max(pad) FROM io WHERE t >= ''t2''']) q;

-- A collation that takes different spellings for equal keeps the spellings.
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE word (w text COLLATE ci);
INSERT INTO word SELECT ('{apple,APPLE,Apple,pear,Pear}'::text[])[1 + g % 5] FROM generate_series(1, 300) g;
CREATE INDEX word_w ON word USING numa_btree (w);
VACUUM ANALYZE word;
SELECT nm_test.compare('SELECT w COLLATE "C" FROM word WHERE w = ''aPPLE''');
SELECT nm_test.compare('SELECT w COLLATE "C" FROM word WHERE w > ''apple''');

-- The key may be longer than what the query needs; an INCLUDE column may be wide and NULL.
SET client_min_messages = error; -- before 18 a unique index comes with a warning
CREATE TABLE inc (k int, v text, w int);
INSERT INTO inc SELECT g % 50, CASE WHEN g % 3 = 0 THEN NULL ELSE repeat(md5(g::text), 20) END, g FROM generate_series(1, 1000) g;
CREATE UNIQUE INDEX inc_i ON inc USING numa_btree (k, w) INCLUDE (v);
VACUUM ANALYZE inc;
SELECT nm_test.compare('SELECT k, md5(v), w FROM inc WHERE k BETWEEN 10 AND 19 ORDER BY k, w');
SELECT nm_test.compare('SELECT count(v), count(*) FROM inc WHERE k = 7');
-- An INCLUDE column is no scan key and does not make rows distinct.
SELECT nm_test.compare('SELECT * FROM inc WHERE v IS NULL AND k = 3');
SELECT nm_test.err($$INSERT INTO inc VALUES (1, 'other', 1)$$);
SELECT nm_test.err($$CREATE INDEX ON inc USING numa_btree (k) INCLUDE (v DESC)$$);

-- After deletes and updates the visibility map is not trusted too long.
DELETE FROM inc WHERE k % 2 = 0;
SELECT nm_test.compare('SELECT k, w FROM inc WHERE k < 10 ORDER BY k, w');
UPDATE inc SET k = k + 100 WHERE k < 5;
SELECT nm_test.compare('SELECT k, w FROM inc WHERE k < 10 ORDER BY k, w');
SELECT nm_test.compare('SELECT k, w FROM inc WHERE k > 100 ORDER BY k, w');
VACUUM inc;
INSERT INTO inc SELECT 4, 'reused', g FROM generate_series(2001, 2300) g;
SELECT nm_test.compare('SELECT k, w FROM inc WHERE k < 10 ORDER BY k, w');

-- Partial and expression indexes.
CREATE TABLE pe (a int, b text);
INSERT INTO pe SELECT g, CASE WHEN g % 4 = 0 THEN NULL ELSE 'Text' || g % 97 END FROM generate_series(1, 2000) g;
CREATE INDEX pe_part ON pe USING numa_btree (a) WHERE a % 10 = 3;
CREATE INDEX pe_expr ON pe USING numa_btree (lower(b), (a + 1));
CREATE UNIQUE INDEX pe_puniq ON pe USING numa_btree (b) WHERE a > 1990;
VACUUM ANALYZE pe;
SELECT q, nm_test.compare(q) FROM unnest(ARRAY[
	'SELECT a FROM pe WHERE a % 10 = 3 AND a > 100 ORDER BY a', 'SELECT a FROM pe WHERE a % 10 = 3',
	'SELECT a, b FROM pe WHERE lower(b) = ''text42''', 'SELECT a, b FROM pe WHERE lower(b) = ''text42'' AND a + 1 > 1000',
	'SELECT a, b FROM pe WHERE lower(b) IS NULL AND a + 1 < 50', 'SELECT b FROM pe WHERE a > 1990 AND b > ''A''']) q;
SELECT nm_test.err($$INSERT INTO pe SELECT 5000, b FROM pe WHERE a = 1999$$);
INSERT INTO pe SELECT 1, b FROM pe WHERE a = 1999;
UPDATE pe SET a = a + 10 WHERE a % 10 = 3 AND a < 200;
UPDATE pe SET a = a + 1 WHERE a % 10 = 3 AND a > 1500;
SELECT nm_test.compare('SELECT a FROM pe WHERE a % 10 = 3 ORDER BY a');
-- Several partial indexes of one table under updates: https://github.com/postgrespro/rum/issues/62
CREATE INDEX pe_p0 ON pe USING numa_btree (a) WHERE b IS NULL;
CREATE INDEX pe_p1 ON pe USING numa_btree (b) WHERE a < 500;
UPDATE pe SET b = CASE WHEN b IS NULL THEN 'now' || a END, a = a + 7 WHERE a % 3 = 0;
SELECT nm_test.compare('SELECT a FROM pe WHERE b IS NULL ORDER BY a');
SELECT nm_test.compare('SELECT b FROM pe WHERE a < 500 ORDER BY b');
-- An expression that raises stops the insert and leaves no entry.
CREATE TABLE raising (a int);
CREATE INDEX raising_i ON raising USING numa_btree ((100 / a));
SELECT nm_test.err('INSERT INTO raising VALUES (5), (0)');
INSERT INTO raising VALUES (5), (4);
SELECT nm_test.compare('SELECT a FROM raising WHERE 100 / a >= 20');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

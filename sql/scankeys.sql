-- Scan keys: arrays, cross-type comparisons, NULL tests, contradictions, bitmap scans.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE s (a int, b bigint, c text, n int);
INSERT INTO s SELECT CASE WHEN i % 10 = 0 THEN NULL ELSE i % 300 END,
	CASE WHEN i % 9 = 0 THEN NULL ELSE i % 13 END, 'v' || i % 31, i FROM generate_series(1, 3000) i;
CREATE INDEX s_a ON s USING numa_btree (a);
CREATE INDEX s_ba ON s USING numa_btree (b, a);
CREATE INDEX s_c ON s USING numa_btree (c);
ANALYZE s;

-- Every contradictory or redundant pair must say what a sequential scan says.
-- https://github.com/orioledb/orioledb/pull/874 and /877: "a IS NULL AND a > 500" gave the table.
SELECT q, nm_test.compare('SELECT * FROM s WHERE ' || q) FROM unnest(ARRAY[
	'a IS NULL', 'a IS NOT NULL', 'a IS NULL AND a IS NOT NULL', 'a IS NULL AND a > 500',
	'a IS NULL AND a < 500', 'a IS NULL AND a = 5', 'a IS NULL AND a = ANY (''{1,2,NULL}'')',
	'a IS NOT NULL AND a > 290', 'a IS NOT NULL AND a < 5', 'a = 5 AND a = ANY (''{6,7}'')', 'a = 5 AND a = 5', 'a > 10 AND a < 10',
	'a > 10 AND a < 11', 'a >= 10 AND a <= 10', 'a > 5 AND a > 290', 'a < 5 AND a <= 5', 'a = 7 AND a < 7',
	'a = 7 AND a >= 7', 'a = NULL::int', 'a > NULL::int', 'b = 3 AND a IS NULL', 'b IS NULL AND a = 9',
	'b IS NULL AND a IS NULL', 'b IS NULL AND a IS NOT NULL', 'b > 5 AND a IS NULL', 'b IS NULL AND b = 1 AND a = 1']) q;

-- Of two bounds on one side the tighter one counts, in text too, whichever comes first.
SELECT q, nm_test.compare('SELECT * FROM s WHERE ' || q) FROM unnest(ARRAY[
	'c > ''v1'' AND c > ''v29''', 'c > ''v29'' AND c >= ''v1''', 'c < ''v2'' AND c < ''v12''', 'c <= ''v12'' AND c < ''v12''',
	'c >= ''v10'' AND c > ''v2'' AND c < ''v5'' AND c < ''v29''', 'c > ''v1'' AND c > ANY (''{v28,v3}'')', 'c <= ANY (''{v11,v14,NULL}'') AND c <= ''v13''']) q;

-- Arrays: duplicates, NULLs, not sorted, empty, not there, with other bounds, in both columns.
SELECT q, nm_test.compare('SELECT * FROM s WHERE ' || q) FROM unnest(ARRAY[
	'a = ANY (''{1,2,3}'')', 'a = ANY (''{3,1,2,1,3}'')', 'a = ANY (''{NULL,5,NULL}'')', 'a = ANY (''{NULL}'')',
	'a = ANY (''{}'')', 'a = ANY (NULL::int[])', 'a = ANY (''{-1,1000000}'')', 'a IN (299, 0, 150)',
	'a = ANY (''{1,2,3,4,5}'') AND a > 3', 'a = ANY (''{1,2,3,4,5}'') AND a < 3', 'a = ANY (''{1,2,3}'') AND a = ANY (''{3,4}'')',
	'a = ANY (''{1,2}'') AND a = 2', 'a < ANY (''{3,5}'')', 'a > ANY (''{297,298}'')', 'a <= ALL (''{4,5}'')', 'a = ANY (''{7}'') AND a IS NOT NULL',
	'b = ANY (''{1,3,5}'') AND a = ANY (''{10,20,31}'')', 'b = ANY (''{1,3,5}'') AND a < 20', 'b < 3 AND a = ANY (''{10,27}'')',
	'b = ANY (''{5,1,NULL}'') AND a IS NULL', 'b IS NULL AND a = ANY (''{9,18,1}'')', 'c = ANY (''{v1,v30,zz}'')', 'c IN (''v2'', ''v10'')']) q;
-- Order is kept through an array.
SELECT q, nm_test.compare(q) FROM unnest(ARRAY[
	'SELECT a FROM s WHERE a = ANY (''{30,10,20,10}'') ORDER BY a',
	'SELECT a FROM s WHERE a = ANY (''{30,10,20,10}'') ORDER BY a DESC',
	'SELECT b, a FROM s WHERE b = ANY (''{7,3,5}'') AND a = ANY (''{30,1,20}'') ORDER BY b, a',
	'SELECT b, a FROM s WHERE b = ANY (''{7,3,5}'') AND a > 280 ORDER BY b DESC, a DESC']) q;
-- A thousand elements, most of them absent.
SELECT nm_test.compare('SELECT * FROM s WHERE a = ANY (ARRAY(SELECT g * 7 - 3000 FROM generate_series(1, 1000) g))');

-- Cross-type: out of the key type's range on either side.
SELECT q, nm_test.compare('SELECT * FROM s WHERE ' || q) FROM unnest(ARRAY[
	'a = 5::bigint', 'a < 3000000000::bigint', 'a > 3000000000::bigint', 'a >= -3000000000::bigint', 'a < -3000000000::bigint',
	'a = 3000000000::bigint', 'a = 5::smallint', 'a > 297::smallint', 'b = 4::int', 'b < 2::smallint',
	'a = ANY (''{5,3000000000,6}''::bigint[])', 'b = ANY (''{4,5}''::int[])', 'b = 3 AND a = 16::bigint', 'b > 11::int AND a < 30::bigint']) q;

-- Bitmap AND and OR of two indexes; a lossy bitmap is rechecked.
SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM s WHERE a < 30 AND c = 'v5';
SELECT count(*) FROM s WHERE a < 30 AND c = 'v5';
SELECT count(*) FROM s WHERE a < 30 OR c = 'v5';
CREATE TABLE lossy AS SELECT i % 100 AS a, repeat('x', 200) FROM generate_series(1, 40000) i;
CREATE INDEX ON lossy USING numa_btree (a);
SET work_mem = '64kB';
SELECT count(*) FROM lossy WHERE a < 50;
RESET ALL; SET search_path = scratch;

-- Row comparison: a condition on its first column, and a filter (more in implied.sql).
SELECT nm_test.compare('SELECT * FROM s WHERE (b, a) > (11, 250)');
SELECT nm_test.compare('SELECT * FROM s WHERE (b, a) > (11, 250) AND b >= 11');

-- Parameters of a rescanned inner side: NULL among them, and arrays that change.
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT v.x, s.n FROM (VALUES (1), (NULL), (3), (1)) v(x) JOIN s ON s.a = v.x;
SELECT v.x, count(s.n) FROM (VALUES (1), (NULL), (3), (1)) v(x) LEFT JOIN s ON s.a = v.x GROUP BY 1 ORDER BY 1;
SELECT v.x, count(s.n) FROM (VALUES ('{1,2}'::int[]), (NULL), ('{}'), ('{3}')) v(x) LEFT JOIN s ON s.a = ANY (v.x) GROUP BY 1 ORDER BY 1;
RESET ALL; SET search_path = scratch;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

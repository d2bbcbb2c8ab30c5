-- Index conditions that follow from clauses which core takes apart for btree only
-- (src/am/implied.c): row comparisons, patterns on text_pattern_ops, inet <<, bare booleans.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE r (id int, a int, b bigint, c text, flag bool, p text, v varchar(30), bp char(20), n inet);
INSERT INTO r SELECT i, CASE WHEN i % 10 = 0 THEN NULL ELSE i % 200 END, CASE WHEN i % 7 = 0 THEN NULL ELSE i % 13 END, 'v' || i % 31,
	CASE WHEN i % 50 = 0 THEN true WHEN i % 51 = 0 THEN NULL ELSE false END, (ARRAY['abc', 'abd', 'ab', 'Abc', 'ab%c', 'äbc'])[1 + i % 6] || i % 97,
	'user' || i, 'pad' || i % 500, '10.0.0.0'::inet + i
FROM generate_series(1, 3000) i;
CREATE INDEX r_ab ON r USING numa_btree (a, b, id);
CREATE INDEX r_ca ON r USING numa_btree (c, a DESC, id);
CREATE INDEX r_flag ON r USING numa_btree (flag, id);
CREATE INDEX r_p ON r USING numa_btree (p text_pattern_ops);
CREATE INDEX r_v ON r USING numa_btree (v varchar_pattern_ops DESC);
CREATE INDEX r_bp ON r USING numa_btree (bp bpchar_pattern_ops);
CREATE INDEX r_n ON r USING numa_btree (n);
VACUUM ANALYZE r;

-- Each operator, either side, with NULLs, with other conditions, types mixed, in order.
SELECT q, nm_test.compare('SELECT id FROM r WHERE ' || q) FROM unnest(ARRAY[
	'(a, b) > (150, 5)', '(a, b) >= (150, 5)', '(a, b) < (20, 5)', '(a, b) <= (20, 5)', '(150, 5) < (a, b)', '(20::bigint, 5) >= (a, b)',
	'(a, b) > (150, NULL)', '(a, b) >= (150, NULL::int)', '(a, b) < (NULL, 5)', '(a, b) = (150, 5)', '(a, b) <> (150, 5)', '(a, b, id) > (199, 11, 2000)',
	'(c, a) > (''v30'', 20)', '(c, a) < (''v10'', 20)', '(a, c) > (150, ''v1'')', '(a, b) > (150, 5) AND (a, b) < (160, 3)', 'a = 33 AND (b, id) > (7, 1000)',
	'a IN (33, 35) AND (b, id) <= (7, 1000)', '(a + 0, b) > (150, 5) AND (a, id) > (100, 3)', '(a, b) > (SELECT 150, 5)', '(a, b) > ((SELECT 150), 5)',
	'NOT (a, b) > (20, 5)', '(a, b) > (150, 5) OR a = 3', '(a, b) > ((random() * 0)::int + 195, 5)', '(a, b) > (195, (random() * 0)::int + 5)']) q;
SELECT q, nm_test.compare(q) FROM unnest(ARRAY[
	'SELECT id FROM r WHERE (a, b, id) > (150, 5, 40) ORDER BY a, b, id LIMIT 10', 'SELECT id FROM r WHERE (a, b, id) < (150, 5, 40) ORDER BY a DESC, b DESC, id DESC LIMIT 10',
	'SELECT c, a, id FROM r WHERE (c, id) > (''v5'', 40) ORDER BY c, a DESC, id LIMIT 40', 'SELECT a, b FROM r WHERE (a, b) >= (198, 2) ORDER BY a, b']) q;
-- As a page after page of a list is asked for, by a plan made once.
SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off;
PREPARE page(int, bigint, int) AS SELECT a, b, id FROM r WHERE (a, b, id) > ($1, $2, $3) ORDER BY a, b, id LIMIT 3;
EXPLAIN (COSTS OFF) EXECUTE page(33, 7, 1033);
EXECUTE page(33, 7, 1033);
EXECUTE page(NULL, 7, 1033);
RESET ALL; SET search_path = scratch;

-- A join's row comparison is core's business, and a filter.
SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT count(*) FROM (VALUES (198, 3), (199, 9), (NULL, 1)) x(a, b) JOIN r ON (r.a, r.b) > (x.a, x.b);
RESET ALL; SET search_path = scratch;
SELECT count(*) FROM (VALUES (198, 3), (199, 9), (NULL, 1)) x(a, b) JOIN r ON (r.a, r.b) > (x.a, x.b);

-- Booleans.
SELECT q, nm_test.compare('SELECT id FROM r WHERE ' || q) FROM unnest(ARRAY[
	'flag', 'NOT flag', 'flag IS TRUE', 'flag IS FALSE', 'flag IS NOT TRUE', 'flag IS UNKNOWN', 'flag = true', 'flag AND id > 2000', 'flag IS NOT NULL AND flag']) q;
SELECT nm_test.compare('SELECT id FROM r WHERE flag AND id > 500 ORDER BY flag, id LIMIT 7');

-- Patterns, whatever the database's collation, and networks.
SELECT q, nm_test.compare('SELECT id FROM r WHERE ' || q) FROM unnest(ARRAY[
	'p LIKE ''abc9%''', 'p LIKE ''abc9''', 'p LIKE ''ab\%c%''', 'p LIKE ''äbc%''', 'p LIKE ''%bc9''', 'p LIKE ''''', 'p LIKE NULL', 'p NOT LIKE ''a%''', 'p ~ ''^abc[12]''', 'p ~ ''abc1''',
	'p ~* ''^abc1''', 'starts_with(p, ''abd'')', 'p LIKE ''ab_9%'' AND p ~>=~ ''abd''', 'v LIKE ''user29%''', 'v LIKE ''user29'' || ''_''', 'bp LIKE ''pad49%''', 'bp LIKE ''pad49''',
	'n << inet ''10.0.1.0/24''', 'n <<= inet ''10.0.1.7''', 'inet ''10.0.11.0/24'' >> n', 'n && inet ''10.0.1.0/24''']) q;

-- Nothing may be looked at before a security barrier's own condition, and rows of others are not shown.
CREATE FUNCTION leak(int) RETURNS bool LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN IF $1 IS DISTINCT FROM 199 AND $1 <> 198 THEN RAISE NOTICE 'saw %', $1; END IF; RETURN true; END $$;
CREATE VIEW barrier WITH (security_barrier) AS SELECT * FROM r WHERE (a, id) > (198, 2900);
SELECT nm_test.compare('SELECT id FROM barrier WHERE flag IS FALSE AND (c, a) > (''v1'', 0)');
SELECT count(*) FROM barrier WHERE leak(a) AND (a, id) > (150, 0);

-- Partitions, inheritance, partial and expression indexes.
CREATE TABLE parts (a int, b int, s text) PARTITION BY RANGE (a);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (500);
CREATE TABLE parts2 (s text, b int, a int);
ALTER TABLE parts ATTACH PARTITION parts2 FOR VALUES FROM (500) TO (1000);
INSERT INTO parts SELECT i % 1000, i, 'x' || i FROM generate_series(1, 4000) i;
CREATE INDEX ON parts USING numa_btree (a, b);
CREATE INDEX ON parts USING numa_btree ((s || 'y') text_pattern_ops) WHERE b > 10;
VACUUM ANALYZE parts;
SELECT q, nm_test.compare('SELECT b FROM parts WHERE ' || q) FROM unnest(ARRAY[
	'(a, b) > (990, 3992)', '(a, b) < (3, 2000)', 's || ''y'' LIKE ''x399%'' AND b > 10', 's || ''y'' LIKE ''x399%''', '(a, b) > (490, 0) AND (a, b) < (510, 2000)']) q;
SELECT nm_test.compare('SELECT a, b FROM parts WHERE (a, b) > (480, 3481) ORDER BY a, b LIMIT 60');

SELECT * FROM nm_test.check_all();
SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

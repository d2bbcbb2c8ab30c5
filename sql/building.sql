-- CREATE INDEX sorts by heads, word after word, by abbreviated keys, in memory or in runs on disk:
-- the tree's own check (order of all entries, every row there once) is the judge, and a scan's
-- order is compared with a sort's.
SET client_min_messages = error;
CREATE EXTENSION IF NOT EXISTS numa_migrate;
SET search_path = public;

CREATE TABLE build_t (id int, s text, b bytea, c char(40), n numeric, f float8, u text COLLATE "en-x-icu", d int);
-- long common beginnings, one string the beginning of another, empty strings, NULLs, many equal
INSERT INTO build_t
SELECT g,
	CASE WHEN g % 50 = 0 THEN NULL WHEN g % 49 = 0 THEN '' ELSE repeat('same beginning ', g % 4) || (g * 7919 % 10007) END,
	CASE WHEN g % 40 = 0 THEN NULL ELSE decode(repeat('00', g % 20), 'hex') || decode(lpad(to_hex(g * 31 % 256), 2, '0'), 'hex') END,
	repeat('ab ', g % 9),
	CASE WHEN g % 97 = 0 THEN 'NaN' ELSE (g * 7919 % 10007)::numeric / (1 + g % 3) END,
	CASE WHEN g % 89 = 0 THEN 'NaN' WHEN g % 87 = 0 THEN '-0' WHEN g % 86 = 0 THEN '-Infinity' ELSE (g * 7919 % 10007) - 5000.5 END,
	CASE WHEN g % 50 = 0 THEN NULL ELSE (ARRAY['a', 'A', 'ä', 'b', 'B', 'Z', 'résumé', 'resume', 'Resume'])[1 + g % 9] || (g * 31 % 1000) END,
	g % 3
FROM generate_series(1, 12000) g;
-- values that are compressed in the index tuple, and some that differ only far behind
INSERT INTO build_t (id, s, b) SELECT 20000 + g, repeat('x', 2000) || g % 100, decode(repeat('7878', 1200) || lpad(to_hex(g % 256), 2, '0'), 'hex') FROM generate_series(1, 300) g;
INSERT INTO build_t (id, s) SELECT 30000 + g, repeat('0123456789abcdef', 17) || g % 100 FROM generate_series(1, 300) g;
ANALYZE build_t;

-- Builds an index on the columns, checks it, and compares the rows' order with a sort's.
CREATE FUNCTION build_and_check(columns text, memory text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	scanned int[];
	sorted int[];
	order_by text := columns || ', id';
BEGIN
	PERFORM set_config('maintenance_work_mem', memory, true);
	EXECUTE format('CREATE INDEX build_i ON build_t USING numa_btree (%s, id)', columns);
	PERFORM numa.btree_check('build_i');
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_sort = off;
	SET LOCAL enable_bitmapscan = off;
	EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM build_t ORDER BY %s) x', order_by) INTO scanned;
	SET LOCAL enable_seqscan = on;
	SET LOCAL enable_sort = on;
	SET LOCAL enable_indexscan = off;
	SET LOCAL enable_indexonlyscan = off;
	EXECUTE format('SELECT array_agg(id) FROM (SELECT id FROM build_t ORDER BY %s) x', order_by) INTO sorted;
	DROP INDEX build_i;
	SET LOCAL enable_indexscan = on;
	SET LOCAL enable_indexonlyscan = on;
	RETURN CASE WHEN scanned = sorted AND cardinality(sorted) = 12600 THEN 'same order' ELSE 'DIFFERENT' END;
END $$;

SELECT c AS columns, build_and_check(c, '64MB') AS in_memory, build_and_check(c, '1MB') AS in_runs
FROM unnest(ARRAY['s', 's COLLATE "C" DESC NULLS LAST', 's COLLATE "C"', 'b', 'c COLLATE "C"', 'c COLLATE "C" DESC', 'n', 'f',
	'f DESC', 'u', 'u NULLS FIRST', 'd, s', 's, n DESC', 'd, b NULLS FIRST, n']) c;

-- ICU: by the collation's sort keys, of 16 bytes, of 64 where strings begin alike, of 8 where these do not help.
CREATE COLLATION build_ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION build_kn (provider = icu, locale = 'en-u-kn-true');
SELECT c AS columns, build_and_check(c, '64MB') AS in_memory, build_and_check(c, '1MB') AS in_runs
FROM unnest(ARRAY['s COLLATE "en-x-icu"', 's COLLATE "en-x-icu" DESC NULLS LAST', 's COLLATE build_kn', 'u COLLATE build_ci', 'u DESC, d',
	'c COLLATE "en-x-icu"', 'c COLLATE "en-x-icu" DESC', 'u, s COLLATE "en-x-icu"',
	'(repeat(''z'', 70) || s) COLLATE "en-x-icu"', '(repeat(''z'', 70) || s) COLLATE "en-x-icu" DESC']) c;
ALTER TABLE build_t SET (parallel_workers = 2);
SELECT c AS columns, build_and_check(c, '1MB') AS by_several
FROM unnest(ARRAY['s COLLATE "en-x-icu"', 's COLLATE "en-x-icu" DESC NULLS LAST', '(repeat(''z'', 70) || s) COLLATE "en-x-icu"', 'n']) c;
ALTER TABLE build_t RESET (parallel_workers);
DROP COLLATION build_ci, build_kn;

-- Equal keys only differ in their rows: the index on one column keeps them in the rows' order.
CREATE INDEX build_i ON build_t USING numa_btree (d);
CREATE INDEX build_j ON build_t USING numa_btree (u);
CREATE INDEX build_k ON build_t USING numa_btree (c COLLATE "C");
SELECT numa.btree_check('build_i'), numa.btree_check('build_j'), numa.btree_check('build_k');
DROP INDEX build_i, build_j, build_k;

-- Duplicates are found in runs, too, also when only dead rows or NULLs stand between.
CREATE TABLE build_u (s text, n int);
INSERT INTO build_u SELECT 'user ' || lpad((g * 7919 % 40009)::text, 12, '0'), g FROM generate_series(1, 40000) g;
INSERT INTO build_u SELECT NULL, g FROM generate_series(1, 10) g;
SET maintenance_work_mem = '1MB';
CREATE UNIQUE INDEX build_v ON build_u USING numa_btree (s COLLATE "C");
SELECT numa.btree_check('build_v');
DROP INDEX build_v;
INSERT INTO build_u SELECT s, 0 FROM build_u WHERE n = 77;
CREATE UNIQUE INDEX build_v ON build_u USING numa_btree (s COLLATE "C");
CREATE UNIQUE INDEX build_v ON build_u USING numa_btree (s COLLATE "en-x-icu");
SET maintenance_work_mem = '64MB';
CREATE UNIQUE INDEX build_v ON build_u USING numa_btree (s COLLATE "C");
DELETE FROM build_u WHERE n = 0;
CREATE UNIQUE INDEX build_v ON build_u USING numa_btree (s COLLATE "C");
SELECT numa.btree_check('build_v');
RESET maintenance_work_mem;
-- A value too long says which row.
INSERT INTO build_u SELECT string_agg(md5(g::text), ''), 99 FROM generate_series(1, 200) g;
SELECT count(*) FROM build_u WHERE length(s) > 5000;
DROP TABLE build_u;
DROP TABLE build_t;
DROP FUNCTION build_and_check;

-- Big keys, many duplicates, and what does not fit.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- The largest key nbtree takes is 2704 bytes: the entry, headers and all.
CREATE TABLE big (b bytea);
ALTER TABLE big ALTER b SET STORAGE PLAIN;
CREATE INDEX big_b ON big USING numa_btree (b);
CREATE TABLE nbig (b bytea);
ALTER TABLE nbig ALTER b SET STORAGE PLAIN;
CREATE INDEX nbig_b ON nbig USING btree (b);
CREATE FUNCTION try(n int) RETURNS TABLE (len int, numa text, nbtree text) LANGUAGE plpgsql AS $$
BEGIN
	len := n;
	numa := (SELECT left(min(e), 5) FROM nm_test.err(format($i$INSERT INTO big VALUES (convert_to(rpad('', %s, 'x'), 'UTF8'))$i$, n)) e WHERE e !~ '^(DETAIL|HINT)');
	nbtree := (SELECT left(min(e), 5) FROM nm_test.err(format($i$INSERT INTO nbig VALUES (convert_to(rpad('', %s, 'x'), 'UTF8'))$i$, n)) e WHERE e !~ '^(DETAIL|HINT)');
	RETURN NEXT;
END $$;
-- Both take and refuse the same lengths.
SELECT t.* FROM unnest('{2000,2600,2680,2684,2685,2688,2689,2692,2696,2697,2700,2704,2705,3000}'::int[]) n, try(n) t;
SELECT n FROM generate_series(2660, 2720) n, try(n) t WHERE t.numa IS DISTINCT FROM t.nbtree;
SELECT * FROM nm_test.err($$INSERT INTO big VALUES (convert_to(rpad('', 5000, 'x'), 'UTF8'))$$);
SELECT count(*), count(*) = (SELECT count(*) FROM nbig) AS as_nbtree FROM big;
-- One by one, between one another, far from one another; all found again.
TRUNCATE big;
INSERT INTO big
SELECT convert_to(rpad(md5((g * 7919 % 1000)::text), 100 + g * 37 % 2500, md5(g::text)), 'UTF8') FROM generate_series(1, 1000) g;
SELECT nm_test.compare('SELECT md5(b) FROM big ORDER BY b');
SELECT nm_test.compare('SELECT md5(b) FROM big WHERE b > ''\x64'' ORDER BY b DESC');
-- Long common prefixes: the difference is in the last bytes.
CREATE TABLE pre (t text COLLATE "C");
ALTER TABLE pre ALTER t SET STORAGE PLAIN;
CREATE INDEX pre_t ON pre USING numa_btree (t);
INSERT INTO pre SELECT repeat('same', 600) || lpad((g * 577 % 1009)::text, 5, '0') FROM generate_series(1, 1009) g;
SELECT nm_test.compare('SELECT right(t, 5) FROM pre ORDER BY t');
SELECT nm_test.compare($$SELECT right(t, 5) FROM pre WHERE t >= repeat('same', 600) || '00500' AND t < repeat('same', 600) || '00510' ORDER BY t$$);
DELETE FROM pre WHERE right(t, 5)::int % 3 <> 0;
VACUUM pre;
INSERT INTO pre SELECT repeat('same', 600) || lpad(g::text, 5, '0') || 'x' FROM generate_series(1, 500) g;
SELECT nm_test.compare('SELECT right(t, 6) FROM pre ORDER BY t');
-- Big keys in several columns and in INCLUDE count together.
CREATE TABLE multi (a text, b text, c text);
ALTER TABLE multi ALTER a SET STORAGE PLAIN, ALTER b SET STORAGE PLAIN, ALTER c SET STORAGE PLAIN;
CREATE INDEX multi_i ON multi USING numa_btree (a, b) INCLUDE (c);
INSERT INTO multi SELECT rpad('a' || g % 3, 800, 'a'), rpad('b' || g, 900, 'b'), rpad('c', 900, 'c') FROM generate_series(1, 100) g;
SELECT nm_test.compare('SELECT left(a, 2), left(b, 4), length(c) FROM multi ORDER BY a, b');
SELECT left(e, 5) FROM nm_test.err($$INSERT INTO multi VALUES (rpad('', 1000), rpad('', 1000), rpad('', 1000))$$) e WHERE e !~ '^(DETAIL|HINT)';
-- Compressible and toasted values are stored as the key needs them.
CREATE TABLE toasted (t text);
CREATE INDEX toasted_t ON toasted USING numa_btree (t);
INSERT INTO toasted SELECT repeat(g::text || '-', 8000) FROM generate_series(1, 30) g;
INSERT INTO toasted SELECT repeat(g::text || '-', 3) FROM generate_series(1, 30) g;
SELECT nm_test.compare('SELECT length(t), left(t, 10) FROM toasted ORDER BY t');
SELECT nm_test.compare($$SELECT length(t) FROM toasted WHERE t = repeat('7-', 8000)$$);
VACUUM toasted;
SELECT nm_test.compare($$SELECT md5(t) FROM toasted WHERE t > '2' ORDER BY t$$);
-- The build meets the same limit as an insert and leaves nothing behind.
CREATE TABLE tobuild (b bytea);
ALTER TABLE tobuild ALTER b SET STORAGE EXTERNAL;
INSERT INTO tobuild SELECT convert_to(repeat(md5(g::text), 3), 'UTF8') FROM generate_series(1, 500) g;
INSERT INTO tobuild VALUES (convert_to(repeat(md5('x'), 100), 'UTF8'));
SELECT left(e, 5) FROM nm_test.err('CREATE INDEX tobuild_i ON tobuild USING numa_btree (b)') e WHERE e !~ '^(DETAIL|HINT)';
SELECT to_regclass('tobuild_i');

-- Many duplicates: ten values and NULL, inserted and built, both layouts of keys.
CREATE TABLE dup (a int, t text);
CREATE INDEX dup_a ON dup USING numa_btree (a);
CREATE INDEX dup_t ON dup USING numa_btree (t);
INSERT INTO dup SELECT nullif(g % 10, 9), 'value' || g % 10 FROM generate_series(1, 30000) g;
CREATE INDEX dup_a2 ON dup USING numa_btree (a DESC);
CREATE INDEX dup_ta ON dup USING numa_btree (t, a);
ANALYZE dup;
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM dup WHERE a = 4');
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM dup WHERE t = ''value7''');
SELECT nm_test.compare('SELECT a FROM dup ORDER BY a DESC');
SELECT nm_test.compare('SELECT t FROM dup WHERE t > ''value4'' ORDER BY t DESC');
SELECT nm_test.compare('SELECT t, a FROM dup WHERE a IS NULL ORDER BY t, a');
-- One value only, then every other row goes.
UPDATE dup SET a = 1;
DELETE FROM dup WHERE hashtext(ctid::text) > 0;
VACUUM dup;
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM dup WHERE a = 1');
SELECT nm_test.compare('SELECT count(*) FROM dup WHERE a <> 1 OR a IS NULL');
INSERT INTO dup SELECT 1, 'value1' FROM generate_series(1, 20000);
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM dup WHERE a = 1');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

-- Equal keys are stored once: size against nbtree, and every spelling kept.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- Ten values in 200,000 rows, an index of each kind on each column: built, then grown by inserts.
CREATE TABLE dup (i4 int4, i8 int8, t text, u uuid, tz timestamptz);
CREATE FUNCTION fill(first int, last int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO dup
	SELECT k * 1000, k * 10000000000, 'value number ' || k, lpad(k::text, 32, '0')::uuid,
		'2020-01-01'::timestamptz + k * interval '1 hour'
	FROM (SELECT (hashint4(g) & 2147483647) % 10 AS k FROM generate_series(first, last) g) x
$$;
CREATE FUNCTION indexes() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT attname::text FROM pg_attribute WHERE attrelid = 'dup'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
$$;
CREATE FUNCTION make(fillfactor int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE c text;
BEGIN
	FOR c IN SELECT * FROM indexes() LOOP
		IF to_regclass('numa_' || c) IS NOT NULL THEN
			EXECUTE format('DROP INDEX %I, %I', 'numa_' || c, 'nb_' || c);
		END IF;
		EXECUTE format('CREATE INDEX %I ON dup USING numa_btree (%I) WITH (fillfactor = %s)', 'numa_' || c, c, fillfactor);
		EXECUTE format('CREATE INDEX %I ON dup USING btree (%I) WITH (fillfactor = %s)', 'nb_' || c, c, fillfactor);
	END LOOP;
END $$;
-- nbtree's metapage does not count.
CREATE FUNCTION sizes() RETURNS TABLE (col text, layout text, entries bigint, smaller bool, bytes_per_entry numeric) LANGUAGE plpgsql AS $$
DECLARE s record; nb bigint;
BEGIN
	FOR col IN SELECT * FROM indexes() LOOP
		s := numa.btree_stats(('numa_' || col)::regclass);
		nb := pg_relation_size(('nb_' || col)::regclass) - 8192;
		layout := s.layout;
		entries := s.entries;
		smaller := s.bytes < nb;
		bytes_per_entry := round(s.bytes::numeric / s.entries, 1);
		RETURN NEXT;
	END LOOP;
END $$;
SELECT fill(1, 200000);
SELECT make(90);
SELECT * FROM sizes();
SELECT make(100);
SELECT * FROM sizes();
TRUNCATE dup;
SELECT make(90);
SELECT fill(1, 120000);
SELECT col, layout, entries, smaller FROM sizes();
-- deduplicate_items as in nbtree.
CREATE INDEX plain_i8 ON dup USING numa_btree (i8) WITH (deduplicate_items = off);
SELECT bytes / entries FROM numa.btree_stats('plain_i8');
DROP INDEX plain_i8;
-- Rows go from the middle, their places are used again.
SELECT numa.btree_check(('numa_' || c)::regclass) FROM indexes() c;
DELETE FROM dup WHERE (ctid::text::point)[0]::int % 7 IN (2, 3, 4);
VACUUM (INDEX_CLEANUP on) dup;
SELECT fill(120001, 170000);
SELECT col, layout, entries = (SELECT count(*) FROM dup) AS all_there, smaller FROM sizes();
SELECT numa.btree_check(('numa_' || c)::regclass, true) FROM indexes() c;
DO $$ DECLARE c text; BEGIN
	FOR c IN SELECT * FROM indexes() LOOP EXECUTE format('DROP INDEX %I', 'nb_' || c); END LOOP;
END $$;
ANALYZE dup;
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM dup WHERE i8 = 30000000000');
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM dup WHERE t = ''value number 7''');
SELECT nm_test.compare('SELECT count(*), min(tz), max(tz) FROM dup WHERE tz >= ''2020-01-01 05:00''');
SELECT nm_test.compare('SELECT count(*), count(DISTINCT u) FROM dup WHERE u > lpad(''8'', 32, ''0'')::uuid');
-- Scrolling turns round inside a run.
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_bitmapscan = off;
SET LOCAL enable_sort = off;
DECLARE c SCROLL CURSOR FOR SELECT i4, ctid FROM dup ORDER BY i4;
MOVE 25000 IN c;
FETCH FORWARD 0 FROM c \gset f_
MOVE FORWARD 5000 IN c;
MOVE BACKWARD 5000 IN c;
FETCH FORWARD 0 FROM c \gset b_
SELECT :'f_ctid' = :'b_ctid' AS same_row;
COMMIT;

-- Equal is not the same: each row's spelling comes back from an index-only scan.
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE sp (id int, n numeric, f float8, t text COLLATE ci, c char(8), j jsonb, a numeric[], iv interval);
INSERT INTO sp SELECT g, ('{1,1.0,1.00,2,2.50,2.5,NaN}'::text[])[1 + g % 7]::numeric, ('{0,-0,1,NaN}'::text[])[1 + g % 4]::float8,
	('{abc,ABC,Abc,xyz}'::text[])[1 + g % 4], ('{ab,cd}'::text[])[1 + g % 2], (ARRAY['1', '1.0', '{"a": 1}', '{"a": 1.0}'])[1 + g % 4]::jsonb,
	(ARRAY['{1}', '{1.0}', '{2}'])[1 + g % 3]::numeric[], ('{1 day,24 hours,1 mon,30 days}'::text[])[1 + g % 4]::interval
FROM (SELECT hashint4(g) & 65535 AS g FROM generate_series(1, 3000) g) x;
CREATE FUNCTION each_spelling() RETURNS TABLE (q text, compare text) LANGUAGE plpgsql AS $$
BEGIN
	FOR q IN SELECT format(x, c) FROM unnest('{n,f,t,c,j,a,iv}'::text[]) c, unnest(ARRAY[
		'SELECT %1$s::text COLLATE "C" AS x FROM sp WHERE %1$s IS NOT NULL',
		'SELECT DISTINCT %1$s::text COLLATE "C" AS x FROM sp WHERE %1$s IS NOT NULL']) x
	LOOP
		compare := nm_test.compare(q);
		RETURN NEXT;
	END LOOP;
END $$;
CREATE INDEX ON sp USING numa_btree (n);
CREATE INDEX ON sp USING numa_btree (f);
CREATE INDEX ON sp USING numa_btree (t);
CREATE INDEX ON sp USING numa_btree (c);
CREATE INDEX ON sp USING numa_btree (j);
CREATE INDEX ON sp USING numa_btree (a);
CREATE INDEX ON sp USING numa_btree (iv);
VACUUM ANALYZE sp;
SELECT * FROM each_spelling();
-- The same with the rows inserted between one another, and with INCLUDE.
CREATE INDEX sp_inc ON sp USING numa_btree (n) INCLUDE (t);
INSERT INTO sp SELECT id, trim_scale(n), -f, upper(t), c, j, a, justify_interval(iv) FROM sp;
DELETE FROM sp WHERE id % 3 = 0;
VACUUM ANALYZE sp;
INSERT INTO sp SELECT id, n, f, lower(t), c, j, a, iv FROM sp WHERE id % 2 = 0;
VACUUM ANALYZE sp;
SELECT * FROM each_spelling();
SELECT nm_test.compare('SELECT n::text || t COLLATE "C" AS x FROM sp WHERE n > 0');
-- Dead rows that a scan has met are marked one by one, and their places are used again.
CREATE TABLE kt (k int, t text) WITH (autovacuum_enabled = off);
CREATE INDEX kt_k ON kt USING numa_btree (k);
CREATE INDEX kt_t ON kt USING numa_btree (t);
INSERT INTO kt SELECT g % 5, 'value ' || g % 5 FROM generate_series(1, 5000) g;
DELETE FROM kt WHERE k = 3 AND (ctid::text::point)[0]::int % 2 = 0;
DO $$
BEGIN
	SET LOCAL enable_seqscan = off;
	SET LOCAL enable_bitmapscan = off;
	-- somebody's snapshot may keep the rows for a while
	FOR i IN 1 .. 500 LOOP
		PERFORM count(ctid) FROM kt WHERE k = 3;
		PERFORM count(ctid) FROM kt WHERE t = 'value 3';
		EXIT WHEN (SELECT min(s.killed) FROM unnest('{kt_k,kt_t}'::regclass[]) x, numa.btree_stats(x) s) > 100;
		PERFORM pg_sleep(0.01);
	END LOOP;
END $$;
SELECT x, s.killed = 5000 - (SELECT count(*) FROM kt) AS all_marked FROM unnest('{kt_k,kt_t}'::regclass[]) x, numa.btree_stats(x) s;
INSERT INTO kt SELECT g % 5, 'value ' || g % 5 FROM generate_series(1, 20000) g;
SELECT x, s.entries - s.killed = (SELECT count(*) FROM kt) AS as_rows FROM unnest('{kt_k,kt_t}'::regclass[]) x, numa.btree_stats(x) s;
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM kt WHERE k = 3');
SELECT nm_test.compare('SELECT count(*), sum(hashtext(ctid::text)::bigint) FROM kt WHERE t >= ''value 3''');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

-- Collations.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE co (t text);
INSERT INTO co SELECT ('{a,A,b,B,é,e,ä,z,Z,"a b","a-b",ab,_a,ss,ß}'::text[])[1 + g % 15] || (g % 4) FROM generate_series(1, 300) g;
CREATE FUNCTION try(coll text) RETURNS TABLE (q text, compare text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE INDEX co_i ON co USING numa_btree (t COLLATE %s)', coll);
	FOR q IN SELECT format(x, coll) FROM unnest(ARRAY[
		'SELECT t FROM co ORDER BY t COLLATE %s', 'SELECT t FROM co WHERE t < ''b'' COLLATE %s',
		'SELECT t FROM co WHERE t >= ''é'' COLLATE %s', 'SELECT t FROM co WHERE t = ''a b1'' COLLATE %s']) x
	LOOP
		compare := nm_test.compare(q);
		RETURN NEXT;
	END LOOP;
	DROP INDEX co_i;
END $$;
SELECT * FROM try('"C"');
SELECT * FROM try('"POSIX"');
SELECT * FROM try('"en-x-icu"');
SELECT * FROM try('"de-x-icu"');
-- A query in another collation than the index's does not use it.
CREATE INDEX co_c ON co USING numa_btree (t COLLATE "C");
SELECT nm_test.compare('SELECT t FROM co WHERE t < ''b'' COLLATE "en-x-icu"');
-- LIKE with a fixed prefix goes through C or a pattern class.
SELECT nm_test.compare('SELECT t FROM co WHERE t COLLATE "C" LIKE ''a%''');
CREATE INDEX co_p ON co USING numa_btree (t COLLATE "en-x-icu" text_pattern_ops);
DROP INDEX co_c;
SELECT nm_test.compare('SELECT t FROM co WHERE t COLLATE "en-x-icu" LIKE ''a%''');
SELECT nm_test.compare('SELECT t FROM co WHERE t COLLATE "en-x-icu" ~<~ ''b''');

-- Nondeterministic: fine for the ordinary classes, refused for the pattern classes, whose
-- answers would be wrong.  Core refuses it by btree's own OID only.
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE nd (t text COLLATE ci, v varchar COLLATE ci, c char(10) COLLATE ci);
INSERT INTO nd SELECT x, x, x FROM (SELECT ('{Straße,STRASSE,straße,Ärger,ärger,plain}'::text[])[1 + g % 6] AS x FROM generate_series(1, 60) g) y;
CREATE INDEX nd_t ON nd USING numa_btree (t);
SELECT nm_test.compare('SELECT t COLLATE "C" AS t FROM nd WHERE t = ''ÄRGER''');
SELECT nm_test.compare('SELECT t COLLATE "C" AS t FROM nd WHERE t > ''plain''');
SELECT * FROM nm_test.err('CREATE INDEX ON nd USING numa_btree (t text_pattern_ops)');
SELECT left(e, 5) FROM nm_test.err('CREATE INDEX ON nd USING numa_btree (v varchar_pattern_ops)') e WHERE e !~ '^(DETAIL|HINT)';
SELECT left(e, 5) FROM nm_test.err('CREATE INDEX ON nd USING numa_btree (c bpchar_pattern_ops)') e WHERE e !~ '^(DETAIL|HINT)';
SELECT left(e, 5) FROM nm_test.err('CREATE INDEX ON nd USING btree (t text_pattern_ops)') e WHERE e !~ '^(DETAIL|HINT)';
-- The same by a change of the column's type under an index that is there.
CREATE TABLE nd2 (t text);
CREATE INDEX ON nd2 USING numa_btree (t text_pattern_ops);
SELECT left(e, 5) FROM nm_test.err('ALTER TABLE nd2 ALTER t TYPE text COLLATE ci') e WHERE e !~ '^(DETAIL|HINT)';
SET client_min_messages = error;
CREATE TABLE ndu (t text COLLATE ci);
CREATE UNIQUE INDEX ndu_t ON ndu USING numa_btree (t);
INSERT INTO ndu VALUES ('One'), ('two');
SELECT * FROM nm_test.err($$INSERT INTO ndu VALUES ('ONE')$$);
-- Building a unique index: other bytes may be equal there, and only there.
CREATE TABLE u (t text, k int);
INSERT INTO u VALUES ('One', 1), ('two', 2), ('ONE', 3);
CREATE UNIQUE INDEX u_det ON u USING numa_btree (t COLLATE "en-x-icu");
SELECT * FROM nm_test.err('CREATE UNIQUE INDEX ON u USING numa_btree (t COLLATE ci)');
SELECT * FROM nm_test.err($$INSERT INTO u VALUES ('two', 4)$$);
DROP INDEX u_det;
INSERT INTO u VALUES ('two', 4);
SELECT * FROM nm_test.err('CREATE UNIQUE INDEX ON u USING numa_btree (t COLLATE "en-x-icu")');
CREATE UNIQUE INDEX ON u USING numa_btree (t COLLATE "en-x-icu" DESC, k);
-- Strings with all kinds of headers, compressed ones too, and bounds that no index could hold.
CREATE TABLE long (t text COLLATE "en-x-icu");
INSERT INTO long SELECT repeat(x, n) || g FROM unnest('{a,B,é-}'::text[]) x, unnest('{1,60,130,1200,3000}'::int[]) n, generate_series(1, 3) g;
CREATE INDEX long_t ON long USING numa_btree (t);
SELECT b, nm_test.compare('SELECT t FROM long WHERE t > ' || b || ' ORDER BY t') FROM unnest(ARRAY[$$'a'$$, $$repeat('a', 60)$$, $$repeat('B', 130) || '2'$$,
	$$repeat('é-', 1200) || '1'$$, $$repeat('a', 100000)$$]) b;
SELECT nm_test.compare($$SELECT t FROM long WHERE t = repeat('é-', 3000) || '2'$$);
INSERT INTO long SELECT t || '!' FROM long;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

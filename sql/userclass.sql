-- Types, operator classes and families of other makers.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- A user-made class with an order of its own: by last digit, then by value.
CREATE FUNCTION digit_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS
	$$ SELECT CASE WHEN $1 % 10 <> $2 % 10 THEN sign($1 % 10 - $2 % 10)::int ELSE sign($1 - $2)::int END $$;
CREATE FUNCTION digit_lt(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN scratch.digit_cmp($1, $2) < 0; END $$;
CREATE FUNCTION digit_le(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN scratch.digit_cmp($1, $2) <= 0; END $$;
CREATE FUNCTION digit_eq(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN scratch.digit_cmp($1, $2) = 0; END $$;
CREATE FUNCTION digit_ge(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN scratch.digit_cmp($1, $2) >= 0; END $$;
CREATE FUNCTION digit_gt(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN scratch.digit_cmp($1, $2) > 0; END $$;
CREATE OPERATOR <# (LEFTARG = int, RIGHTARG = int, FUNCTION = digit_lt, COMMUTATOR = ># , NEGATOR = >=#);
CREATE OPERATOR <=# (LEFTARG = int, RIGHTARG = int, FUNCTION = digit_le, COMMUTATOR = >=#, NEGATOR = >#);
CREATE OPERATOR =# (LEFTARG = int, RIGHTARG = int, FUNCTION = digit_eq, COMMUTATOR = =#, MERGES);
CREATE OPERATOR >=# (LEFTARG = int, RIGHTARG = int, FUNCTION = digit_ge, COMMUTATOR = <=#, NEGATOR = <#);
CREATE OPERATOR ># (LEFTARG = int, RIGHTARG = int, FUNCTION = digit_gt, COMMUTATOR = <#, NEGATOR = <=#);
CREATE OPERATOR CLASS digit_ops FOR TYPE int USING btree AS OPERATOR 1 <#, OPERATOR 2 <=#, OPERATOR 3 =#, OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 digit_cmp(int, int);
CREATE OPERATOR CLASS digit_ops FOR TYPE int USING numa_btree AS OPERATOR 1 <#, OPERATOR 2 <=#, OPERATOR 3 =#, OPERATOR 4 >=#, OPERATOR 5 >#, FUNCTION 1 digit_cmp(int, int);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'digit_ops' AND opcmethod = (SELECT oid FROM pg_am WHERE amname = 'numa_btree');
CREATE TABLE d (a int);
INSERT INTO d SELECT g * 7 % 500 FROM generate_series(1, 1000) g;
CREATE INDEX d_a ON d USING numa_btree (a digit_ops);
INSERT INTO d SELECT g * 7 % 500 FROM generate_series(1001, 1500) g;
DELETE FROM d WHERE a % 9 = 0; VACUUM d;
SELECT q, nm_test.compare(q) FROM unnest(ARRAY['SELECT a FROM d ORDER BY a USING <#', 'SELECT a FROM d ORDER BY a USING >#',
	'SELECT a FROM d WHERE a <# 13', 'SELECT a FROM d WHERE a >=# 488 ORDER BY a USING >#', 'SELECT a FROM d WHERE a =# 77',
	'SELECT a FROM d WHERE a >=# 3 AND a <=# 103 ORDER BY a USING <#']) q;
-- Rows that the order does not tell apart keep their own values.
CREATE FUNCTION mod_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT sign($1 % 5 - $2 % 5)::int $$;
CREATE FUNCTION mod_eq(int, int) RETURNS bool LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT $1 % 5 = $2 % 5 $$;
CREATE OPERATOR =% (LEFTARG = int, RIGHTARG = int, FUNCTION = mod_eq, COMMUTATOR = =%);
CREATE OPERATOR CLASS mod_ops FOR TYPE int USING numa_btree AS OPERATOR 3 =%, FUNCTION 1 mod_cmp(int, int);
CREATE TABLE m AS SELECT generate_series(0, 99) AS a;
CREATE INDEX m_a ON m USING numa_btree (a mod_ops);
VACUUM m;
SELECT nm_test.compare('SELECT a FROM m WHERE a =% 3');
-- A class must have its comparison function.
CREATE OPERATOR CLASS bad_ops FOR TYPE int USING numa_btree AS OPERATOR 3 =;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'bad_ops';
SELECT left(e, 5) FROM nm_test.err('CREATE TABLE bad (a int); CREATE INDEX ON bad USING numa_btree (a bad_ops)') e WHERE e !~ '^(DETAIL|HINT)';
-- A comparison function that raises: the statement fails, the index stays sound.
CREATE FUNCTION touchy_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT AS
	$$ BEGIN IF $1 = 13 OR $2 = 13 THEN RAISE 'unlucky'; END IF; RETURN sign($1 - $2); END $$;
CREATE OPERATOR CLASS touchy_ops FOR TYPE int USING numa_btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 touchy_cmp(int, int);
CREATE TABLE touchy (a int);
CREATE INDEX touchy_a ON touchy USING numa_btree (a touchy_ops);
INSERT INTO touchy SELECT g FROM generate_series(20, 400) g;
SELECT * FROM nm_test.err('INSERT INTO touchy VALUES (13)');
INSERT INTO touchy SELECT g FROM generate_series(14, 19) g;
SELECT nm_test.compare('SELECT a FROM touchy WHERE a > 15 ORDER BY a');
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT * FROM nm_test.err('SELECT count(*) FROM touchy WHERE a = 13');
RESET enable_seqscan; RESET enable_bitmapscan;
SELECT nm_test.compare('SELECT a FROM touchy WHERE a > 15 ORDER BY a');
-- A class of reversed order is no btree family's to core: the index counts as unordered, and its estimate has no direction.
CREATE FUNCTION down_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT sign($2::int8 - $1)::int';
CREATE OPERATOR CLASS down_ops FOR TYPE int USING numa_btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 down_cmp(int, int);
CREATE TABLE down (a int, b int);
INSERT INTO down SELECT g, g % 7 FROM generate_series(1, 500) g;
CREATE INDEX down_a ON down USING numa_btree (a down_ops);
CREATE INDEX down_ba ON down USING numa_btree (b, a down_ops);
VACUUM ANALYZE down;
SELECT q, nm_test.compare(q) FROM unnest(ARRAY['SELECT a FROM down WHERE a < 13', 'SELECT a FROM down WHERE a >= 480', 'SELECT a FROM down WHERE a = 77',
	'SELECT a, b FROM down WHERE b = 3 AND a > 450']) q;
-- A domain and an array of composites take the class of what they are made of.
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE TYPE comp AS (x int, y text);
CREATE TABLE dom (p posint, c comp[]);
INSERT INTO dom SELECT g, ARRAY[ROW(g % 7, 'y')::comp] FROM generate_series(1, 200) g;
CREATE INDEX dom_p ON dom USING numa_btree (p);
CREATE INDEX dom_c ON dom USING numa_btree (c);
SELECT nm_test.compare('SELECT p FROM dom WHERE p > 190 ORDER BY p');
SELECT nm_test.compare('SELECT c FROM dom WHERE c > ARRAY[ROW(5, ''y'')::comp]');
-- A type without a class is refused as btree refuses it.
SELECT * FROM nm_test.err('CREATE TABLE pt (p point); CREATE INDEX ON pt USING numa_btree (p)');

-- clone_opclass brings a class of another extension, refresh_opclasses what came later.
CREATE EXTENSION citext SCHEMA scratch;
CREATE TABLE ct (c citext);
INSERT INTO ct SELECT ('{alpha,ALPHA,Beta,beta,gamma}'::text[])[1 + g % 5] FROM generate_series(1, 100) g;
SELECT numa.clone_opclass('citext_ops') IS NOT NULL AS cloned;
CREATE INDEX ct_c ON ct USING numa_btree (c);
SELECT nm_test.compare('SELECT c::text FROM ct WHERE c = ''BETA''');
SELECT nm_test.compare('SELECT c::text COLLATE "C" AS c FROM ct WHERE c > ''alpha''');
SELECT numa.btree_check('ct_c');
-- The other way round: citext is there before numa_migrate. Its class is not taken unasked;
-- core then takes that of text, and we say so.
BEGIN;
SET LOCAL client_min_messages = error;
DROP EXTENSION numa_migrate CASCADE;
CREATE EXTENSION numa_migrate;
SET LOCAL client_min_messages = warning;
CREATE INDEX ct_c ON ct USING numa_btree (c);
SELECT nm_test.compare('SELECT c::text FROM ct WHERE c = ''BETA''');
DROP INDEX ct_c;
CREATE INDEX ct_explicit ON ct USING numa_btree (c COLLATE "C" text_pattern_ops);
SELECT numa.clone_opclass('scratch.citext_ops') > 0 AS cloned, numa.clone_opclass('citext_ops') AS again;
CREATE INDEX ct_c ON ct USING numa_btree (c);
SELECT nm_test.compare('SELECT c::text FROM ct WHERE c = ''BETA''');
ROLLBACK;
SELECT nm_test.compare('SELECT c::text FROM ct WHERE c = ''BETA''');
-- The class goes with the other extension, and takes the index along.
SELECT left(e, 5) FROM nm_test.err('DROP EXTENSION citext') e WHERE e !~ '^(DETAIL|HINT)';
BEGIN;
DROP EXTENSION citext CASCADE;
SELECT to_regclass('ct_c'), count(*) FROM pg_opclass WHERE opcname = 'citext_ops';
ROLLBACK;
SET client_min_messages = error;
SELECT nm_test.compare('SELECT c::text FROM ct WHERE c = ''BETA''');
-- Members that one of btree's families gets later reach ours by refresh_opclasses.
CREATE FUNCTION int_oid_cmp(int, oid) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT btint8cmp($1, $2::bigint)';
CREATE FUNCTION int_oid_eq(int, oid) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS 'BEGIN RETURN $1 = $2::bigint; END';
CREATE OPERATOR =@ (LEFTARG = int, RIGHTARG = oid, FUNCTION = int_oid_eq);
CREATE TABLE later AS SELECT generate_series(1, 500) AS a;
CREATE INDEX later_a ON later USING numa_btree (a);
SELECT numa.refresh_opclasses();
BEGIN;
ALTER OPERATOR FAMILY integer_ops USING btree ADD OPERATOR 3 =@ (int, oid), FUNCTION 1 (int, oid) int_oid_cmp(int, oid);
SELECT nm_test.compare('SELECT a FROM later WHERE a =@ ''77''::oid');
SELECT numa.refresh_opclasses();
SELECT nm_test.compare('SELECT a FROM later WHERE a =@ ''77''::oid');
SELECT numa.refresh_opclasses();
ROLLBACK;
-- Options of an operator class: kept with the index, checked by the class.
CREATE EXTENSION pg_trgm SCHEMA scratch;
CREATE OPERATOR CLASS opt_ops FOR TYPE text USING numa_btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 bttextcmp(text, text), FUNCTION 5 gtrgm_options(internal);
SELECT amvalidate(oid) FROM pg_opclass WHERE opcname = 'opt_ops';
CREATE TABLE op AS SELECT 'o' || g AS t FROM generate_series(1, 500) g;
CREATE INDEX op_t ON op USING numa_btree (t opt_ops (siglen = 100));
SELECT indexdef FROM pg_indexes WHERE indexname = 'op_t';
SELECT nm_test.compare('SELECT t FROM op WHERE t > ''o9'' ORDER BY t');
SELECT o, nm_test.err(format('CREATE INDEX ON op USING numa_btree (t %s)', o)) FROM unnest('{opt_ops (siglen = 0),opt_ops (no_such = 1),text_ops (siglen = 9)}'::text[]) o;

-- What members of a family depend on, and how hard, is as with btree.
DO $$
DECLARE am text;
BEGIN
	FOREACH am IN ARRAY '{btree,numa_btree}'::text[] LOOP
		EXECUTE format('CREATE OPERATOR FAMILY fam USING %s', am);
		EXECUTE format('CREATE OPERATOR CLASS fam_ops FOR TYPE int USING %s FAMILY fam AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp(int, int), FUNCTION 4 btequalimage(oid)', am);
		EXECUTE format('ALTER OPERATOR FAMILY fam USING %s ADD OPERATOR 1 < (int, bigint), FUNCTION 1 (int, bigint) btint48cmp(int, bigint), OPERATOR 3 = (bigint, bigint), FUNCTION 1 (bigint, bigint) btint8cmp(bigint, bigint), FUNCTION 2 (int, int) btint4sortsupport(internal)', am);
	END LOOP;
END $$;
CREATE VIEW needs AS
	SELECT a.amname, replace(pg_describe_object(d.classid, d.objid, 0), a.amname, 'AM') AS member,
		replace(pg_describe_object(d.refclassid, d.refobjid, 0), a.amname, 'AM') AS of, d.deptype
	FROM pg_depend d LEFT JOIN pg_amop o ON d.classid = 'pg_amop'::regclass AND d.objid = o.oid
		LEFT JOIN pg_amproc p ON d.classid = 'pg_amproc'::regclass AND d.objid = p.oid
		JOIN pg_opfamily f ON f.oid = coalesce(o.amopfamily, p.amprocfamily) JOIN pg_am a ON a.oid = f.opfmethod
	WHERE f.opfname = 'fam';
SELECT deptype, count(*) > 0 AS some FROM needs WHERE amname = 'numa_btree' GROUP BY deptype ORDER BY deptype;
SELECT member, of, b.deptype AS btree, n.deptype AS numa_btree
FROM (SELECT * FROM needs WHERE amname = 'btree') b FULL JOIN (SELECT * FROM needs WHERE amname = 'numa_btree') n USING (member, of)
WHERE b.deptype IS DISTINCT FROM n.deptype;
RESET client_min_messages;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

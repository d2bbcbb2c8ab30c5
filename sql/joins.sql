-- Merge joins (mark and restore), nested loops, scroll cursors, WITH HOLD, LIMIT.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE l (a int, t text);
CREATE TABLE r (a int, t text);
-- Runs of duplicates much longer than a leaf on either side, so that marks lie leaves back.
INSERT INTO l SELECT g / 700, 'l' || g FROM generate_series(0, 3499) g;
INSERT INTO r SELECT g / 900, 'r' || g FROM generate_series(0, 4499) g;
INSERT INTO l SELECT 100 + g, 'l' FROM generate_series(1, 500) g;
INSERT INTO r SELECT 100 + 3 * g, 'r' FROM generate_series(1, 500) g;
INSERT INTO l VALUES (NULL, 'l'), (NULL, 'l');
INSERT INTO r VALUES (NULL, 'r');
CREATE INDEX l_a ON l USING numa_btree (a);
CREATE INDEX r_a ON r USING numa_btree (a DESC);
CREATE INDEX r_at ON r USING numa_btree (a, t);
VACUUM ANALYZE l, r;
SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_sort = off; SET enable_seqscan = off;
SET enable_material = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT count(*), sum(l.a::bigint * 31 + r.a) FROM l JOIN r USING (a);
SELECT count(*), sum(l.a::bigint * 31 + r.a) FROM l JOIN r USING (a);
SELECT count(*), sum(hashtext(l.t)::bigint), sum(hashtext(r.t)::bigint) FROM l JOIN r USING (a);
SELECT count(*) FROM l JOIN r USING (a) WHERE l.a BETWEEN 1 AND 3 AND r.a < 3;
SELECT count(*), count(l.a), count(r.a) FROM l FULL JOIN r USING (a);
SELECT count(*) FROM l WHERE NOT EXISTS (SELECT FROM r WHERE r.a = l.a);
SELECT count(*) FROM (SELECT l.a FROM l JOIN r ON l.a = r.a ORDER BY l.a DESC) x;
RESET ALL; SET search_path = scratch;
-- The same by hash join.
SET enable_mergejoin = off; SET enable_nestloop = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
SELECT count(*), sum(l.a::bigint * 31 + r.a) FROM l JOIN r USING (a);
SELECT count(*), sum(hashtext(l.t)::bigint), sum(hashtext(r.t)::bigint) FROM l JOIN r USING (a);
SELECT count(*) FROM l JOIN r USING (a) WHERE l.a BETWEEN 1 AND 3 AND r.a < 3;
SELECT count(*), count(l.a), count(r.a) FROM l FULL JOIN r USING (a);
SELECT count(*) FROM l WHERE NOT EXISTS (SELECT FROM r WHERE r.a = l.a);
RESET ALL; SET search_path = scratch;

-- EvalPlanQual over an inner index scan (bug #15032) is in specs/evalplanqual.spec.

-- A scroll cursor may turn at any row, also at both ends and at the edges of a leaf.
-- Reference: a list of the same rows.
CREATE FUNCTION wander(q text, seed float8, steps int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	want text[] := nm_test.rows(q); c refcursor := 'wander'; x record; pos int := 0; target int; d int; i int;
BEGIN
	PERFORM setseed(seed);
	OPEN c SCROLL FOR EXECUTE q;
	FOR i IN 1 .. steps LOOP
		IF random() < 0.1 THEN
			d := (random() * 1000 - 500)::int;		-- a long move
		ELSE
			d := (random() * 6 - 3)::int;
		END IF;
		MOVE RELATIVE d FROM c;
		target := greatest(0, least(cardinality(want) + 1, pos + d));
		-- Read one row in either direction.
		IF random() < 0.5 THEN
			FETCH NEXT FROM c INTO x;
			target := least(cardinality(want) + 1, target + 1);
		ELSE
			FETCH PRIOR FROM c INTO x;
			target := greatest(0, target - 1);
		END IF;
		IF (x IS NULL) <> (target NOT BETWEEN 1 AND cardinality(want)) OR x::text IS DISTINCT FROM want[target] AND x IS NOT NULL THEN
			CLOSE c;
			RETURN format('step %s: at %s got %s instead of %s', i, target, x, want[target]);
		END IF;
		pos := target;
	END LOOP;
	CLOSE c;
	RETURN 'same';
END $$;
SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;
SELECT q, nm_test.plan(q) ~ 'Index.* Scan .*using' AS by_index, wander(q, 0.25, 500) FROM unnest(ARRAY[
	'SELECT a, t FROM r WHERE a >= 0 ORDER BY a, t', 'SELECT a, t FROM r WHERE a >= 0 ORDER BY a DESC, t DESC',
	'SELECT a FROM l WHERE a > 2 ORDER BY a', 'SELECT a, t FROM r WHERE a = ANY (''{1,3,106,4}'') ORDER BY a, t',
	'SELECT a FROM l WHERE a = 103 ORDER BY a', 'SELECT a FROM l WHERE a = 77 ORDER BY a']) q;

-- The classic end-of-scan turns, spelled out.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a FROM l WHERE a BETWEEN 101 AND 105 ORDER BY a;
FETCH BACKWARD 1 FROM c;
FETCH ALL FROM c;
FETCH FORWARD 1 FROM c;
FETCH BACKWARD ALL FROM c;
FETCH BACKWARD 1 FROM c;
FETCH 2 FROM c;
FETCH ABSOLUTE 4 FROM c;
FETCH RELATIVE -2 FROM c;
FETCH LAST FROM c;
FETCH FIRST FROM c;
MOVE BACKWARD ALL IN c;
FETCH NEXT FROM c;
COMMIT;
-- A cursor's rows are those of its snapshot although its own transaction changes the table.
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT a, t FROM r WHERE a BETWEEN 103 AND 109 ORDER BY a, t;
FETCH 1 FROM c;
INSERT INTO r SELECT 104, 'new' FROM generate_series(1, 1000);
DELETE FROM r WHERE a = 106;
FETCH ALL FROM c;
FETCH BACKWARD ALL FROM c;
SELECT count(*) FROM r WHERE a BETWEEN 103 AND 109;
ROLLBACK;
-- WITH HOLD outlives its transaction, and the index it came from.
BEGIN;
DECLARE h SCROLL CURSOR WITH HOLD FOR SELECT a FROM l WHERE a > 595 ORDER BY a;
FETCH 1 FROM h;
COMMIT;
BEGIN; DROP INDEX l_a; COMMIT;
FETCH ALL FROM h;
FETCH BACKWARD 2 FROM h;
CLOSE h;
-- UPDATE and DELETE through a cursor position.
CREATE INDEX l_a ON l USING numa_btree (a);
BEGIN;
DECLARE u CURSOR FOR SELECT a FROM l WHERE a > 590 ORDER BY a FOR UPDATE;
FETCH 2 FROM u;
UPDATE l SET a = a + 1000 WHERE CURRENT OF u;
FETCH 1 FROM u;
DELETE FROM l WHERE CURRENT OF u;
SELECT a FROM l WHERE a > 590 ORDER BY a;
ROLLBACK;
RESET ALL; SET search_path = scratch;
SELECT nm_test.compare('SELECT a FROM l WHERE a > 590 ORDER BY a');
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

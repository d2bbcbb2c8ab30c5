-- Parallel index scans: every entry once, in both directions, with arrays, NULLs and large keys,
-- scanned again, and under the predicate locks of a serializable transaction.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE p (id int, grp int, t text, big text, n int) WITH (parallel_workers = 3);
INSERT INTO p SELECT g, g % 100, 'text' || g, repeat(md5(g::text), 20 + g / 20 % 63), nullif(g % 5, 0) * 7 FROM generate_series(1, 20000) g;
INSERT INTO p SELECT NULL, g % 3, NULL, NULL, NULL FROM generate_series(1, 600) g;
ALTER TABLE p ALTER big SET STORAGE external;
UPDATE p SET big = big || id WHERE id % 20 = 0;
UPDATE p SET big = NULL WHERE id % 20 <> 0;
CREATE INDEX p_id ON p USING numa_btree (id);
CREATE INDEX p_grp ON p USING numa_btree (grp, id DESC NULLS LAST);
CREATE INDEX p_t ON p USING numa_btree (t) INCLUDE (n);
CREATE INDEX p_big ON p USING numa_btree (big) WHERE big IS NOT NULL;
CREATE INDEX p_n ON p USING numa_btree (n);
VACUUM ANALYZE p;
-- Dear enough to be worth workers, and lets everything through.
CREATE FUNCTION dear(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE COST 10000 AS 'BEGIN RETURN true; END';

-- The rows of q by a sequential scan without workers, then by a parallel index scan, which the
-- plan must be: first by workers alone, then with the leader's help.
CREATE FUNCTION par(q text, way text = 'index') RETURNS text LANGUAGE plpgsql AS $$
DECLARE want text[]; got text[]; p text; res text; in_order bool := q ~* 'order by';
BEGIN
	SET LOCAL max_parallel_workers_per_gather = 0;
	PERFORM nm_test.only('seq');
	want := nm_test.rows(q);
	SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;
	SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0;
	SET LOCAL max_parallel_workers_per_gather = 3;
	PERFORM nm_test.only(way);
	SET LOCAL enable_sort = off;
	p := nm_test.plan(q);
	IF p !~ 'Parallel (Index|Bitmap Heap)' THEN RETURN E'no parallel plan:\n' || p; END IF;
	res := cardinality(want) || ' rows: ' || substring(p FROM 'Parallel [^\n(]*') || CASE WHEN p ~ 'Gather Merge' THEN ' (merged)' ELSE '' END;
	FOR leader IN 0 .. 1 LOOP
		PERFORM set_config('parallel_leader_participation', leader::text, true);
		got := nm_test.rows(q);
		IF NOT in_order THEN
			SELECT array_agg(x ORDER BY x COLLATE "C") INTO want FROM unnest(want) x;
			SELECT array_agg(x ORDER BY x COLLATE "C") INTO got FROM unnest(got) x;
		END IF;
		res := res || CASE WHEN got IS NOT DISTINCT FROM want THEN ' same' ELSE ' DIFFERS (' || coalesce(cardinality(got), 0) || ')' END;
	END LOOP;
	RETURN res;
END $$;

SELECT par('SELECT id FROM p WHERE id > 50 AND dear(id)', 'index-only');
SELECT par('SELECT id, t FROM p WHERE id > 50 AND dear(id)');
SELECT par('SELECT id, t FROM p WHERE id > 50', 'bitmap');
SELECT par('SELECT count(*), sum(id), sum(length(t)) FROM p WHERE id BETWEEN 10 AND 19000');
SELECT par('SELECT id, t FROM p WHERE id > 50 AND dear(id) ORDER BY id');
SELECT par('SELECT id, t FROM p WHERE id > 50 AND dear(id) ORDER BY id DESC');
SELECT par('SELECT id FROM p WHERE id > 50 AND dear(id) ORDER BY id DESC', 'index-only');
SELECT par('SELECT t, n FROM p WHERE t > ''text5'' AND dear(n) ORDER BY t DESC', 'index-only');
SELECT par('SELECT t, id FROM p WHERE t > ''text5'' AND dear(id) ORDER BY t');
SELECT par('SELECT grp, id FROM p WHERE grp > 20 AND dear(grp) ORDER BY grp, id DESC NULLS LAST', 'index-only');
SELECT par('SELECT grp, id FROM p WHERE grp > 20 AND dear(grp) ORDER BY grp DESC, id NULLS FIRST', 'index-only');
-- Many equal keys, NULLs.
SELECT par('SELECT n, id FROM p WHERE n = 14 AND dear(id)');
SELECT par('SELECT id, t FROM p WHERE n IS NULL AND dear(id)');
SELECT par('SELECT count(*), sum(id) FROM p WHERE n IS NOT NULL');
SELECT par('SELECT count(*) FROM p WHERE id IS NULL', 'index-only');
SELECT par('SELECT n FROM p WHERE dear(n) ORDER BY n', 'index-only');
-- Arrays: the elements are shared out with the place.
SELECT par('SELECT grp, id FROM p WHERE grp = ANY (''{5,77,1,2,500,-3,2,NULL,99}'') AND dear(grp)');
SELECT par('SELECT grp, id FROM p WHERE grp = ANY (''{5,77,1,2,500,-3,2,NULL,99}'') AND dear(grp) ORDER BY grp, id DESC NULLS LAST', 'index-only');
SELECT par('SELECT id FROM p WHERE grp = ANY (ARRAY(SELECT generate_series(0, 99, 2))) AND dear(id)');
BEGIN; DROP INDEX p_id;
SELECT par('SELECT grp, id FROM p WHERE grp IN (1, 2, 3) AND id IN (1, 101, 201, 102, 5000, 19903) AND dear(id) ORDER BY grp, id DESC NULLS LAST');
ROLLBACK;
SELECT par('SELECT id, t FROM p WHERE id = ANY (ARRAY(SELECT generate_series(1, 20000, 7))) AND dear(id) ORDER BY id DESC');
SELECT par('SELECT id FROM p WHERE id = ANY (''{}'') AND dear(id)');
SELECT par('SELECT t FROM p WHERE t = ANY (ARRAY(SELECT ''text'' || generate_series(1, 20000, 11))) AND dear(n)');
-- Filters that are no bounds, and nothing to find.
SELECT par('SELECT id FROM p WHERE id > 50 AND id < 100000 AND dear(id) AND id % 1000 = 7');
SELECT par('SELECT grp, id FROM p WHERE id + 0 < 300 AND grp >= 0 AND dear(id)', 'index-only');
SELECT par('SELECT id FROM p WHERE id > 30000 AND dear(id)');
-- A place is a key of up to 2,704 bytes.
SELECT max(length(big)) > 2500 AS large FROM p;
SELECT par('SELECT big FROM p WHERE big > ''0'' AND dear(id)');
SELECT par('SELECT big FROM p WHERE big >= ''3'' AND dear(id) ORDER BY big DESC');
SELECT par('SELECT big FROM p WHERE big IS NOT NULL AND dear(length(big)) ORDER BY big', 'index-only');
-- The same scan again and again; a join on top of it; a prepared statement.
BEGIN;
SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0; SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0;
SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_material = off; SET LOCAL max_parallel_workers_per_gather = 3;
EXPLAIN (COSTS OFF) SELECT * FROM (SELECT count(id), sum(grp) FROM p WHERE id > 100) s RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
SELECT * FROM (SELECT count(id), sum(grp) FROM p WHERE id > 100) s RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
SELECT * FROM (SELECT count(id), sum(id) FROM p WHERE grp IN (5, 6, 50) AND id < 7000) s RIGHT JOIN (VALUES (1), (2), (3)) v (x) ON true;
SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off;
SELECT nm_test.plan('SELECT count(*) FROM p a JOIN p b USING (id) WHERE a.id > 1000') ~ 'Parallel Index' AS parallel;
SELECT count(*) FROM p a JOIN p b USING (id) WHERE a.id > 1000;
SET LOCAL enable_mergejoin = on; SET LOCAL enable_nestloop = off;
SELECT nm_test.plan('SELECT count(*) FROM p a JOIN p b USING (id) WHERE a.id > 1000') ~ 'Parallel Index' AS parallel;
SELECT count(*) FROM p a JOIN p b USING (id) WHERE a.id > 1000;
PREPARE pp (int) AS SELECT count(*) FROM p WHERE id > $1;
EXECUTE pp (10); EXECUTE pp (19990); EXECUTE pp (NULL);
-- A LIMIT ends it early.
SELECT count(*) FROM (SELECT id FROM p WHERE id > 0 AND dear(id) ORDER BY id LIMIT 10) x;
COMMIT;
-- Workers lock the leaves they read for the transaction.
BEGIN ISOLATION LEVEL SERIALIZABLE;
SET LOCAL parallel_leader_participation = off;
SELECT par('SELECT id FROM p WHERE id BETWEEN 1000 AND 2500 AND dear(id)', 'index-only');
SELECT locktype, count(*) > 3 AS several FROM pg_locks WHERE mode = 'SIReadLock' AND relation = 'p_id'::regclass GROUP BY 1;
COMMIT;
-- An error in the middle of a comparison leaves nobody waiting.
CREATE FUNCTION bad_cmp(int, int) RETURNS int LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$ BEGIN IF $2 = 9999 AND $1 > 5000 THEN RAISE 'no comparison with 9999'; END IF; RETURN btint4cmp($1, $2); END $$;
CREATE OPERATOR CLASS bad_ops FOR TYPE int USING numa_btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 bad_cmp(int, int);
CREATE TABLE bad (a int) WITH (parallel_workers = 3);
INSERT INTO bad SELECT generate_series(1, 8000);
CREATE INDEX bad_a ON bad USING numa_btree (a bad_ops);
ANALYZE bad;
SELECT par('SELECT a FROM bad WHERE a < 9998 AND dear(a)');
SELECT nm_test.err($$SELECT par('SELECT a FROM bad WHERE a < 9999 AND dear(a)')$$);
SELECT par('SELECT a FROM bad WHERE a < 9998 AND dear(a)');
DROP TABLE bad;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

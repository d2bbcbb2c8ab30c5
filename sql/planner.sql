-- Plans: chosen as for btree, with the true size of the tree although the file is one block.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE n (id int, grp int, t text, flag bool, f float8);
INSERT INTO n SELECT g, g % 1000, 'text' || g, g % 500 = 0, hashint4(g) / 2147483648.0 FROM generate_series(1, 50000) g;
-- Both kinds on one table, so that they share its statistics.
CREATE INDEX n_id ON n USING numa_btree (id);		CREATE INDEX b_id ON n USING btree (id);
CREATE INDEX n_grp ON n USING numa_btree (grp, id);	CREATE INDEX b_grp ON n USING btree (grp, id);
CREATE INDEX n_t ON n USING numa_btree (t);			CREATE INDEX b_t ON n USING btree (t);
CREATE INDEX n_p ON n USING numa_btree (id) WHERE flag;	CREATE INDEX b_p ON n USING btree (id) WHERE flag;
CREATE INDEX n_e ON n USING numa_btree ((id % 100));	CREATE INDEX b_e ON n USING btree ((id % 100));
-- A sample of all rows, so that estimates are the same in each run.
SET default_statistics_target = 1000;
VACUUM ANALYZE n;
RESET default_statistics_target;
-- Plan and cost of every query with the indexes of one kind only: those of the other kind
-- are dropped and the drop undone.
CREATE FUNCTION plans(other text, q text[], OUT plans text[], OUT costs float8[], OUT n float8[]) LANGUAGE plpgsql AS $$
DECLARE x text; j json;
BEGIN
	BEGIN
		EXECUTE format('DROP INDEX %s_id, %1$s_grp, %1$s_t, %1$s_p, %1$s_e', other);
		FOREACH x IN ARRAY q LOOP
			plans := plans || regexp_replace(nm_test.plan(replace(x, '@', 'n')), '\m[nb]_', 'x_', 'g');
			EXECUTE 'EXPLAIN (FORMAT json) ' || replace(x, '@', 'n') INTO j;
			costs := costs || (j -> 0 -> 'Plan' ->> 'Total Cost')::float8;
			n := n || (j -> 0 -> 'Plan' ->> 'Plan Rows')::float8;
		END LOOP;
		RAISE EXCEPTION USING ERRCODE = 'NM000';
	EXCEPTION WHEN SQLSTATE 'NM000' THEN NULL;
	END;
END $$;
CREATE TABLE q (q text);
INSERT INTO q SELECT unnest(ARRAY[
	'SELECT * FROM @ WHERE id = 5', 'SELECT id FROM @ WHERE id = 5', 'SELECT * FROM @ WHERE id < 100', 'SELECT * FROM @ WHERE id < 1000',
	'SELECT * FROM @ WHERE id < 25000', 'SELECT * FROM @ WHERE id < 49000', 'SELECT id FROM @ WHERE id > 49990 ORDER BY id DESC', 'SELECT * FROM @ ORDER BY id', 'SELECT * FROM @ ORDER BY id LIMIT 10',
	'SELECT * FROM @ ORDER BY id DESC LIMIT 1', 'SELECT min(id) FROM @', 'SELECT max(id) FROM @', 'SELECT max(t) FROM @', 'SELECT count(*) FROM @', 'SELECT count(*) FROM @ WHERE id < 5000',
	'SELECT * FROM @ WHERE grp = 7', 'SELECT grp, id FROM @ WHERE grp = 7', 'SELECT * FROM @ WHERE grp = 7 AND id > 20000', 'SELECT * FROM @ WHERE grp < 5', 'SELECT * FROM @ WHERE grp = 7 ORDER BY id',
	'SELECT * FROM @ ORDER BY grp, id LIMIT 5', 'SELECT * FROM @ ORDER BY grp DESC, id DESC LIMIT 5', 'SELECT * FROM @ ORDER BY grp, t LIMIT 5', 'SELECT DISTINCT grp FROM @', 'SELECT grp, count(*) FROM @ GROUP BY grp', 'SELECT grp, max(id) FROM @ WHERE grp < 10 GROUP BY grp',
	'SELECT * FROM @ WHERE t = ''text77''', 'SELECT * FROM @ WHERE t > ''text9''', 'SELECT t FROM @ WHERE t BETWEEN ''text10'' AND ''text11''', 'SELECT * FROM @ WHERE t IN (''text1'', ''text2'', ''text3'')',
	'SELECT * FROM @ WHERE id IN (1, 50, 900, 4000)', 'SELECT * FROM @ WHERE id = ANY (ARRAY(SELECT generate_series(1, 10)))', 'SELECT * FROM @ WHERE grp IN (1, 2) AND id < 500', 'SELECT * FROM @ WHERE flag', 'SELECT id FROM @ WHERE flag', 'SELECT * FROM @ WHERE flag AND id < 10000', 'SELECT * FROM @ WHERE flag ORDER BY id',
	'SELECT * FROM @ WHERE id % 100 = 3', 'SELECT * FROM @ WHERE id % 100 IN (3, 4)', 'SELECT * FROM @ WHERE id % 100 = 3 AND grp = 3', 'SELECT * FROM @ WHERE id IS NULL', 'SELECT * FROM @ WHERE id IS NOT NULL', 'SELECT * FROM @ WHERE id < 100 OR t = ''text500''', 'SELECT * FROM @ WHERE id < 500 AND grp = 3',
	'SELECT * FROM @ x JOIN @ y USING (id) WHERE x.id < 100', 'SELECT count(*) FROM @ x JOIN @ y ON x.id = y.grp', 'SELECT * FROM @ x JOIN @ y USING (id) ORDER BY id', 'SELECT * FROM @ x WHERE EXISTS (SELECT FROM @ y WHERE y.id = x.id + 1 AND y.grp = 5)', 'SELECT * FROM @ x JOIN @ y ON y.id = x.id WHERE x.t = ''text9''',
	'SELECT * FROM @ x LEFT JOIN @ y ON y.grp = x.id WHERE x.id BETWEEN 10 AND 20', 'SELECT * FROM (SELECT * FROM @ ORDER BY id LIMIT 100) x JOIN @ y ON y.grp = x.grp', 'SELECT * FROM @ WHERE id > 100 AND id < 90', 'SELECT * FROM @ WHERE f < 0.5 ORDER BY id LIMIT 3', 'SELECT id FROM @ ORDER BY id OFFSET 49990',
	'UPDATE @ SET f = 1 WHERE id = 3', 'DELETE FROM @ WHERE id < 3']);
-- Conditions, what is asked for, order and limit, in every combination.
INSERT INTO q SELECT format('SELECT %s FROM @ WHERE %s%s%s', t, w, o, l)
FROM unnest(ARRAY['*', 'id', 'grp, id']) t,
	unnest(ARRAY['id BETWEEN 100 AND 120', 'id > 45000', 'grp = 77', 'grp BETWEEN 5 AND 60', 'grp IN (3, 30, 300)', 'grp = 9 AND id BETWEEN 9 AND 20000',
		't >= ''text40'' AND t < ''text41''', 'flag AND id > 40000', 'id % 100 = 42', 'id IN (7, 70, 700, 7000) AND f > 0', 'grp > 990 AND t > ''text3''']) w,
	unnest(ARRAY['', ' ORDER BY id', ' ORDER BY grp, id DESC']) o, unnest(ARRAY['', ' LIMIT 20']) l;
SELECT x.q, x.n AS numa, x.b AS btree
FROM (SELECT array_agg(q) AS q FROM q) q, plans('b', q.q) n, plans('n', q.q) b, unnest(q.q, n.plans, b.plans) x(q, n, b)
WHERE x.n <> x.b;
SELECT count(*) AS queries FROM q;
-- What core does for btree's families only: a row comparison gives a condition on all its columns
-- (here on the first), and (before 18) a range estimate looks up the true ends.
SELECT nm_test.plan('SELECT * FROM n WHERE (id, grp) > (49000, 5)') ~ 'n_id|b_id' AS by_an_index;
-- Row estimates are the same but for those ends, and costs are near, also where the plan had
-- no choice.
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT x.q, x.nn AS numa_rows, x.bn AS btree_rows, round(x.nc) AS numa_cost, round(x.bc) AS btree_cost
FROM (SELECT array_agg(q) AS q FROM q) q, plans('b', q.q) n, plans('n', q.q) b, unnest(q.q, n.n, b.n, n.costs, b.costs) x(q, nn, bn, nc, bc)
WHERE x.nn NOT BETWEEN 0.95 * x.bn AND 1.05 * x.bn OR x.nc / x.bc NOT BETWEEN 0.5 AND 1.5;
RESET enable_seqscan; RESET enable_bitmapscan;
DROP INDEX b_id, b_grp, b_t, b_p, b_e;
-- An index that is not in memory is not planned with load = eager, and is again afterwards.
SELECT numa.btree_unload('n_id');
SELECT nm_test.plan('SELECT * FROM n WHERE id = 5') ~ 'n_id' AS planned;
SELECT * FROM n WHERE id = 5 AND grp = 5 LIMIT 0;
SELECT numa.btree_load('n_id');
SELECT nm_test.plan('SELECT * FROM n WHERE id = 5') ~ 'n_id' AS planned;
-- A cached plan follows.
PREPARE p AS SELECT grp FROM n WHERE id = 5;
EXECUTE p; EXECUTE p;
SELECT numa.btree_unload('n_id');
EXECUTE p;
SELECT numa.btree_load('n_id');
EXECUTE p;
DEALLOCATE p;
-- Forced parallel mode (https://github.com/orioledb/orioledb/issues/220: a crash).
SELECT set_config(name, CASE vartype WHEN 'enum' THEN 'on' END, false) IS NOT NULL AS set FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query');
SELECT nm_test.compare('SELECT id FROM n WHERE id < 3000 ORDER BY id');
SELECT nm_test.compare('SELECT grp, id FROM n WHERE grp = ANY (''{1,5,9}'') ORDER BY grp, id');
SELECT nm_test.compare('SELECT count(*) FROM n WHERE t > ''text4''');
RESET ALL; SET search_path = scratch;
-- Parallel plans over the index, with and without workers' help.
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 2;
SELECT nm_test.compare('SELECT count(*), sum(id) FROM n WHERE id > 100');
SELECT nm_test.compare('SELECT count(*), sum(f)::numeric(20,6) FROM n WHERE grp < 500');
SELECT nm_test.compare('SELECT id FROM n WHERE id BETWEEN 1000 AND 9000 ORDER BY id');
RESET ALL; SET search_path = scratch;
-- Usage counters are core's.
SELECT pg_stat_force_next_flush();
SELECT pg_stat_reset_single_table_counters('n_t'::regclass);
SET enable_seqscan = off; SELECT count(*) FROM n WHERE t = 'text1'; RESET enable_seqscan;
SELECT pg_stat_force_next_flush();
SELECT idx_scan, idx_tup_read FROM pg_stat_all_indexes WHERE indexrelid = 'n_t'::regclass;
-- From 18 on EXPLAIN ANALYZE shows what the index itself counts.
SET enable_seqscan = off;
SELECT current_setting('server_version_num')::int < 180000 OR string_agg(l, E'\n') ~ 'Index Searches: 1\D' AS counted
FROM unnest(nm_test.rows('EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM n WHERE t = ''text1''')) l;
RESET enable_seqscan;
-- A small index has as many pages as nbtree's, whose metapage counts: the plans of core's select
-- and partition_join hang on that.
CREATE TABLE small AS SELECT i AS a, i % 25 AS b FROM generate_series(300, 399) i;
CREATE FUNCTION costs(am text) RETURNS TABLE (query text, cost text) LANGUAGE plpgsql AS $$
DECLARE plan json;
BEGIN
	EXECUTE format('CREATE INDEX small_a ON small USING %s (a)', am);
	EXECUTE format('CREATE INDEX small_b ON small USING %s (b) WHERE a < 350', am);
	ANALYZE small;
	FOREACH query IN ARRAY '{SELECT * FROM small ORDER BY a, SELECT * FROM small WHERE a = 310, SELECT * FROM small WHERE a < 350 ORDER BY b, SELECT * FROM small s JOIN small t ON t.a = s.b + 300}'::text[] LOOP
		EXECUTE 'EXPLAIN (FORMAT json) ' || query INTO plan;
		cost := plan -> 0 -> 'Plan' ->> 'Total Cost';
		RETURN NEXT;
	END LOOP;
	DROP INDEX small_a, small_b;
END $$;
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SELECT query, ours.cost = nbtree.cost AS same FROM costs('numa_btree') ours FULL JOIN costs('btree') nbtree USING (query) ORDER BY query;
RESET ALL; SET search_path = scratch;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

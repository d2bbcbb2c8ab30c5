-- The table "Limits" of the README, row by row: what this version does must be what its column
-- says, in either direction. The foreign key row is oncore's, parallel scans are parallel's and
-- t/013_parallel.pl's, logical replication is t/021_logical.pl's.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE said (id int, what text, pg15 text, pg16 text, pg17 text, pg18 text);
INSERT INTO said VALUES
	(1, 'PRIMARY KEY by it', 'no', 'no', 'no', 'no'),
	(2, 'UNIQUE constraint by it', 'no', 'no', 'no', 'no'),
	(3, 'CREATE UNIQUE INDEX', 'yes', 'yes', 'yes', 'yes'),
	(4, 'ON CONFLICT DO NOTHING', 'no', 'no', 'no', 'yes'),
	(5, 'ON CONFLICT DO UPDATE', 'no', 'no', 'no', 'yes'),
	(6, 'ON CONFLICT, a btree index is the arbiter', 'no', 'no', 'no', 'yes'),
	(7, 'MERGE', 'yes', 'yes', 'yes', 'yes'),
	(8, 'EXCLUDE', 'yes', 'yes', 'yes', 'yes'),
	(9, 'EXCLUDE, deferrable', 'yes', 'yes', 'yes', 'yes'),
	(10, 'REFRESH MATERIALIZED VIEW CONCURRENTLY', 'no', 'no', 'no', 'yes'),
	(11, 'UNIQUE on a partitioned table', 'no', 'no', 'no', 'yes'),
	(12, 'REPLICA IDENTITY USING INDEX', 'yes', 'yes', 'yes', 'yes'),
	(13, 'join removal, unique joins', 'no', 'no', 'no', 'yes'),
	(14, 'ends looked up for row estimates', 'no', 'no', 'no', 'yes'),
	(20, 'condition (a, b) > (1, 2)', 'no', 'no', 'no', 'no'),
	(37, 'condition a >= 1 out of it', 'yes', 'yes', 'yes', 'yes'),
	(21, 'condition LIKE ''abc%'', collation C', 'yes', 'yes', 'yes', 'yes'),
	(22, 'condition ~ ''^abc'', collation C', 'yes', 'yes', 'yes', 'yes'),
	(23, 'condition starts_with, collation C', 'yes', 'yes', 'yes', 'yes'),
	(34, 'condition LIKE ''abc%'', text_pattern_ops', 'yes', 'yes', 'yes', 'yes'),
	(35, 'condition ~ ''^abc'', text_pattern_ops', 'yes', 'yes', 'yes', 'yes'),
	(36, 'condition starts_with, text_pattern_ops', 'yes', 'yes', 'yes', 'yes'),
	(24, 'condition inet << net', 'yes', 'yes', 'yes', 'yes'),
	(25, 'condition on a bare boolean', 'yes', 'yes', 'yes', 'yes'),
	(26, 'condition NOT on a bare boolean', 'yes', 'yes', 'yes', 'yes'),
	(27, 'condition IS TRUE', 'yes', 'yes', 'yes', 'yes'),
	(30, 'CLUSTER by index scan', 'yes', 'yes', 'yes', 'yes'),
	(31, 'ORDER BY without a sort', 'yes', 'yes', 'yes', 'yes'),
	(32, 'merge join without a sort', 'yes', 'yes', 'yes', 'yes'),
	(33, 'min and max from the ends', 'yes', 'yes', 'yes', 'yes');
CREATE TABLE seen (id int, answer text, why text);

-- Does a statement go through? It is undone in any case.
CREATE FUNCTION goes(i int, sql text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	BEGIN
		EXECUTE sql;
		RAISE EXCEPTION USING ERRCODE = 'NM000';
	EXCEPTION
		WHEN SQLSTATE 'NM000' THEN INSERT INTO scratch.seen VALUES (i, 'yes');
		WHEN OTHERS THEN INSERT INTO scratch.seen VALUES (i, 'no', SQLSTATE || ' ' || SQLERRM);
	END;
END $$;
-- Is the plan such that this matches and that does not?
CREATE FUNCTION plans(i int, q text, this text, that text = 'such as there is none') RETURNS void LANGUAGE plpgsql AS $$
DECLARE p text := nm_test.plan(q);
BEGIN
	INSERT INTO scratch.seen VALUES (i, CASE WHEN p ~ this AND p !~ that THEN 'yes' ELSE 'no' END, p);
END $$;
-- Is a condition one on the index, so that less than all of it is read?
CREATE FUNCTION conditions(i int, q text, this text = 'Index Cond') RETURNS void LANGUAGE sql AS $$
	SELECT nm_test.only('index');
	SELECT scratch.plans(i, q, this, 'Seq Scan');
	SELECT nm_test.only('seq'), set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true), set_config('enable_bitmapscan', 'on', true);
$$;

SET client_min_messages = error;
CREATE TABLE u (a int NOT NULL, b int, t text);
CREATE UNIQUE INDEX u_a ON u USING numa_btree (a);
INSERT INTO u SELECT g, g, 'abc' || g FROM generate_series(1, 3000) g;
CREATE TABLE w (a int PRIMARY KEY, b int);
CREATE UNIQUE INDEX w_b ON w USING numa_btree (b);
CREATE TABLE part (a int, b int) PARTITION BY RANGE (a);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE MATERIALIZED VIEW mv AS SELECT a, b FROM u WHERE a < 10;
CREATE UNIQUE INDEX mv_a ON mv USING numa_btree (a);
CREATE TABLE l (a int, t text, p text, n inet, flag bool, b int);
INSERT INTO l SELECT g, 'abc' || g, 'abc' || g, '10.0.0.0'::inet + g, g % 100 = 0, g FROM generate_series(1, 3000) g;
CREATE INDEX l_a ON l USING numa_btree (a, b);
CREATE INDEX l_t ON l USING numa_btree (t COLLATE "C");
CREATE INDEX l_p ON l USING numa_btree (p text_pattern_ops);
CREATE INDEX l_n ON l USING numa_btree (n);
CREATE INDEX l_flag ON l USING numa_btree (flag);
VACUUM ANALYZE u, l;

SELECT goes(1, 'ALTER TABLE u ADD PRIMARY KEY USING INDEX u_a'),
	goes(2, 'ALTER TABLE u ADD CONSTRAINT uu UNIQUE USING INDEX u_a'),
	goes(3, 'CREATE UNIQUE INDEX ON u USING numa_btree (b)'),
	goes(4, 'INSERT INTO u VALUES (1), (-1) ON CONFLICT DO NOTHING'),
	goes(5, 'INSERT INTO u VALUES (1), (-1) ON CONFLICT (a) DO UPDATE SET b = 5'),
	goes(6, 'INSERT INTO w VALUES (1, 1) ON CONFLICT (a) DO NOTHING'),
	goes(7, 'MERGE INTO u USING (VALUES (1), (-1)) v(x) ON u.a = v.x WHEN MATCHED THEN UPDATE SET b = 7 WHEN NOT MATCHED THEN INSERT VALUES (v.x)'),
	goes(8, 'CREATE TABLE e (a int, EXCLUDE USING numa_btree (a WITH =)); INSERT INTO e VALUES (1), (2)'),
	goes(9, 'CREATE TABLE e (a int, EXCLUDE USING numa_btree (a WITH =) DEFERRABLE INITIALLY DEFERRED); INSERT INTO e VALUES (1), (2); UPDATE e SET a = 3 - a; SET CONSTRAINTS ALL IMMEDIATE'),
	goes(10, 'REFRESH MATERIALIZED VIEW CONCURRENTLY mv'),
	goes(11, 'CREATE UNIQUE INDEX ON part USING numa_btree (a)'),
	goes(12, 'ALTER TABLE u REPLICA IDENTITY USING INDEX u_a')
\g /dev/null
-- What goes through is right as well: rows, conflicts and changes are those of btree.
SELECT plans(13, 'SELECT l.a FROM l LEFT JOIN u ON u.a = l.b', '.', '\mu\M'),
	conditions(20, 'SELECT * FROM l WHERE (a, b) > (2900, 5)', 'Index Cond: [^\n]*ROW'),
	conditions(37, 'SELECT * FROM l WHERE (a, b) > (2900, 5)', 'Index Cond: .*a >= 2900'),
	conditions(21, 'SELECT * FROM l WHERE t COLLATE "C" LIKE ''abc29%'''),
	conditions(22, 'SELECT * FROM l WHERE t COLLATE "C" ~ ''^abc29'''),
	conditions(23, 'SELECT * FROM l WHERE starts_with(t COLLATE "C", ''abc29'')'),
	conditions(34, 'SELECT * FROM l WHERE p LIKE ''abc29%'''),
	conditions(35, 'SELECT * FROM l WHERE p ~ ''^abc29'''),
	conditions(36, 'SELECT * FROM l WHERE starts_with(p, ''abc29'')'),
	conditions(24, 'SELECT * FROM l WHERE n << inet ''10.0.1.0/24'''),
	conditions(25, 'SELECT * FROM l WHERE flag'),
	conditions(26, 'SELECT * FROM l WHERE NOT flag'),
	conditions(27, 'SELECT * FROM l WHERE flag IS TRUE'),
	plans(31, 'SELECT * FROM l ORDER BY a, b LIMIT 5', 'l_a', 'Sort'),
	plans(33, 'SELECT max(a) FROM u', 'u_a')
\g /dev/null
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT plans(32, 'SELECT count(*) FROM l JOIN u USING (a)', 'Merge Join', 'Sort') \g /dev/null
RESET enable_hashjoin; RESET enable_nestloop;
-- The histogram ends at 3000. A higher end that is looked up spreads its last part.
INSERT INTO u SELECT g, g FROM generate_series(3001, 4000) g;
DO $$
DECLARE j json;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT json) SELECT * FROM u WHERE a > 3200' INTO j;
	INSERT INTO scratch.seen VALUES (14, CASE WHEN (j -> 0 -> 'Plan' ->> 'Plan Rows')::float8 > 5 THEN 'yes' ELSE 'no' END, j::text);
END $$;
-- CLUSTER says how (19 in other words: limits_1.out). With a btree index it would sort here.
SET client_min_messages = info;
\set VERBOSITY terse
CLUSTER VERBOSE l USING l_t;
\set VERBOSITY default
SET client_min_messages = warning;
INSERT INTO seen SELECT 30, CASE WHEN count(*) = 0 THEN 'yes' ELSE 'no' END
FROM (SELECT t COLLATE "C" < lag(t COLLATE "C") OVER (ORDER BY ctid) AS down FROM l) x WHERE down;

-- Each row once, and as it says.
SELECT count(*) AS rows, count(DISTINCT id) AS different FROM seen;
SELECT what, answer, why FROM said LEFT JOIN seen USING (id)
WHERE answer IS DISTINCT FROM CASE current_setting('server_version_num')::int / 10000 WHEN 15 THEN pg15 WHEN 16 THEN pg16 WHEN 17 THEN pg17 ELSE pg18 END
ORDER BY id;
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

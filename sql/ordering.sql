-- Order: both directions, NULLS FIRST and LAST, DESC, several columns.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE TABLE o (a int, b text, c numeric, d timestamptz);
INSERT INTO o
SELECT CASE WHEN i % 11 = 0 THEN NULL ELSE i * 37 % 50 END,
	CASE WHEN i % 7 = 0 THEN NULL ELSE 'k' || (i * 13 % 23) END,
	CASE WHEN i % 5 = 0 THEN NULL ELSE (i % 40) / 8.0 END,
	CASE WHEN i % 13 = 0 THEN NULL ELSE '2000-01-01 00:00+00'::timestamptz + (i % 17) * interval '1 h' END
FROM generate_series(1, 2000) i;
ANALYZE o;

-- One column, the four ways of ordering it, each read both ways.
CREATE FUNCTION try(def text, OUT forward text, OUT backward text) LANGUAGE plpgsql AS $$
DECLARE fwd text := def; bwd text;
BEGIN
	EXECUTE format('CREATE INDEX o_i ON o USING numa_btree (%s)', def);
	-- Reverse every column's direction and place of NULLs.
	bwd := replace(replace(replace(def, 'ASC', '#'), 'DESC', 'ASC'), '#', 'DESC');
	bwd := replace(replace(replace(bwd, 'FIRST', '#'), 'LAST', 'FIRST'), '#', 'LAST');
	forward := nm_test.compare(format('SELECT %s FROM o ORDER BY %s', regexp_replace(def, '( ASC| DESC| NULLS FIRST| NULLS LAST)', '', 'g'), fwd));
	backward := nm_test.compare(format('SELECT %s FROM o ORDER BY %s', regexp_replace(def, '( ASC| DESC| NULLS FIRST| NULLS LAST)', '', 'g'), bwd));
	PERFORM numa.btree_check('o_i');
	DROP INDEX o_i;
END $$;
SELECT def, (try(def)).* FROM unnest(ARRAY[
	'a ASC NULLS LAST', 'a ASC NULLS FIRST', 'a DESC NULLS LAST', 'a DESC NULLS FIRST',
	'b ASC NULLS LAST', 'b ASC NULLS FIRST', 'b DESC NULLS LAST', 'b DESC NULLS FIRST',
	'c ASC NULLS LAST', 'c DESC NULLS FIRST', 'd ASC NULLS FIRST', 'd DESC NULLS LAST',
	'a ASC NULLS LAST, b ASC NULLS LAST', 'a DESC NULLS LAST, b ASC NULLS FIRST',
	'b ASC NULLS FIRST, a DESC NULLS FIRST', 'c DESC NULLS LAST, d ASC NULLS FIRST, a DESC NULLS LAST',
	'd ASC NULLS LAST, c ASC NULLS LAST, b DESC NULLS FIRST, a ASC NULLS FIRST']) def;

-- Bounds in the first and in later columns, with the direction of the column against the
-- direction of the scan (https://github.com/postgrespro/rum/pull/164: wrong order from an index).
CREATE INDEX o_ab ON o USING numa_btree (a DESC NULLS LAST, b, c NULLS FIRST);
SELECT q, nm_test.compare(q) FROM unnest(ARRAY[
	'SELECT a, b, c FROM o WHERE a > 10 AND a <= 30 ORDER BY a DESC NULLS LAST, b, c NULLS FIRST',
	'SELECT a, b, c FROM o WHERE a >= 10 AND a < 30 ORDER BY a NULLS FIRST, b DESC, c DESC NULLS LAST',
	'SELECT a, b, c FROM o WHERE a = 7 AND b > ''k2'' ORDER BY a DESC NULLS LAST, b, c NULLS FIRST',
	'SELECT a, b, c FROM o WHERE a = 7 AND b <= ''k2'' ORDER BY a NULLS FIRST, b DESC, c DESC NULLS LAST',
	'SELECT a, b, c FROM o WHERE a = 7 AND b = ''k2'' AND c >= 1 ORDER BY b, c NULLS FIRST',
	'SELECT a, b, c FROM o WHERE a IS NULL AND b > ''k1'' ORDER BY a DESC NULLS LAST, b, c NULLS FIRST',
	'SELECT a, b, c FROM o WHERE a = 3 AND b IS NULL AND c < 3',
	'SELECT a, b, c FROM o WHERE b = ''k3''',
	'SELECT a, b, c FROM o WHERE c = 1.5 AND a > 5',
	'SELECT a, b, c FROM o WHERE a BETWEEN 5 AND 9 AND b BETWEEN ''k1'' AND ''k3'' AND c IS NOT NULL',
	'SELECT a FROM o WHERE a > 40 ORDER BY a DESC NULLS LAST LIMIT 7',
	'SELECT a FROM o ORDER BY a DESC NULLS LAST LIMIT 7 OFFSET 1500',
	'SELECT a FROM o ORDER BY a NULLS FIRST LIMIT 200',
	'SELECT min(a) FROM o', 'SELECT max(a) FROM o',
	'SELECT min(b) FROM o WHERE a = 9', 'SELECT max(c) FROM o WHERE a = 9 AND b = ''k0''',
	'SELECT DISTINCT a FROM o ORDER BY a DESC NULLS LAST']) q;
-- Incremental sort on the first column's order.
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT * FROM o WHERE a = 5 ORDER BY b, d;
RESET enable_seqscan; RESET enable_bitmapscan;

-- amproperty: what the planner and psql are told equals what btree says.
CREATE INDEX o_bt ON o USING btree (a DESC NULLS LAST, b, c NULLS FIRST);
SELECT p, c FROM unnest('{asc,desc,nulls_first,nulls_last,orderable,distance_orderable,returnable,search_array,search_nulls}'::text[]) p,
	generate_series(1, 3) c
WHERE pg_index_column_has_property('o_ab', c, p) IS DISTINCT FROM pg_index_column_has_property('o_bt', c, p);
SELECT p, pg_index_has_property('o_ab', p) FROM unnest('{clusterable,index_scan,bitmap_scan,backward_scan}'::text[]) p;
SELECT p, pg_indexam_has_property(oid, p) FROM pg_am, unnest('{can_order,can_unique,can_multi_col,can_exclude,can_include}'::text[]) p
WHERE amname = 'numa_btree';
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

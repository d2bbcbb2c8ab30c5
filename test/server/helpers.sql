\set ECHO none
-- Helpers of the pg_regress files; each of them includes this one, so that any
-- file can be run alone.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS numa_migrate;
DROP SCHEMA IF EXISTS nm_test CASCADE;
CREATE SCHEMA nm_test;
-- A scratch schema for the file's own objects: nothing is left for the next file.
DROP SCHEMA IF EXISTS scratch CASCADE;
CREATE SCHEMA scratch;
SET search_path = scratch;

-- What a statement answers: its rows, or its error with everything a user sees.
CREATE FUNCTION nm_test.err(q text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE state text; msg text; det text; hnt text;
BEGIN
	EXECUTE q;
	RETURN NEXT 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, msg = MESSAGE_TEXT,
		det = PG_EXCEPTION_DETAIL, hnt = PG_EXCEPTION_HINT;
	RETURN NEXT state || ': ' || msg;
	IF det <> '' THEN RETURN NEXT 'DETAIL: ' || det; END IF;
	IF hnt <> '' THEN RETURN NEXT 'HINT: ' || hnt; END IF;
END $$;

-- The plan of a query as one text.
CREATE FUNCTION nm_test.plan(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE l text; r text := '';
BEGIN
	FOR l IN EXECUTE 'EXPLAIN (COSTS OFF) ' || q LOOP r := r || l || E'\n'; END LOOP;
	RETURN r;
END $$;

-- The rows of a query as text, in the order they come.
CREATE FUNCTION nm_test.rows(q text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE x record; r text[] := '{}';
BEGIN
	FOR x IN EXECUTE q LOOP r := r || x::text; END LOOP;
	RETURN r;
END $$;

-- Allow one way of reading a table until the end of the transaction.
CREATE FUNCTION nm_test.only(way text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', (way = 'seq')::text, true),
		set_config('enable_indexscan', (way IN ('index', 'index-only'))::text, true),
		set_config('enable_indexonlyscan', (way = 'index-only')::text, true),
		set_config('enable_bitmapscan', (way = 'bitmap')::text, true),
		set_config('enable_sort', (way IN ('seq', 'bitmap'))::text, true),
		set_config('enable_incremental_sort', 'off', true);
$$;

-- Run q by sequential scan and by each kind of index scan and compare the rows:
-- as lists when the query fixes the order, as multisets when it doesn't.  A kind
-- that the planner can't use for q is 'n/a', so that expected output shows
-- whether an index answered at all.
CREATE FUNCTION nm_test.compare(q text, in_order bool = NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	want text[]; got text[]; way text; res text; p text;
BEGIN
	in_order := coalesce(in_order, q ~* 'order by');
	PERFORM nm_test.only('seq');
	want := nm_test.rows(q);
	IF NOT in_order THEN SELECT array_agg(x ORDER BY x COLLATE "C") INTO want FROM unnest(want) x; END IF;
	res := coalesce(cardinality(want), 0) || ' rows:';
	FOREACH way IN ARRAY '{index,index-only,bitmap}'::text[] LOOP
		PERFORM nm_test.only(way);
		p := nm_test.plan(q);
		IF p !~ (CASE way WHEN 'index' THEN 'Index Scan (Backward )?using'
				WHEN 'index-only' THEN 'Index Only Scan' ELSE 'Bitmap Index Scan' END) THEN
			res := res || ' ' || way || ' n/a,';
			CONTINUE;
		END IF;
		got := nm_test.rows(q);
		IF NOT in_order THEN SELECT array_agg(x ORDER BY x COLLATE "C") INTO got FROM unnest(got) x; END IF;
		res := res || ' ' || way || CASE WHEN got IS NOT DISTINCT FROM want THEN ' same,' ELSE
			' DIFFERS (' || coalesce(cardinality(got), 0) || ' rows),' END;
	END LOOP;
	PERFORM nm_test.only('seq');
	PERFORM set_config(n, 'on', true) FROM unnest('{enable_seqscan,enable_indexscan,enable_indexonlyscan,enable_bitmapscan,enable_sort,enable_incremental_sort}'::text[]) n;
	RETURN rtrim(res, ',');
END $$;

-- Wait until the background has loaded an index again (load = eager): a query that could
-- use it asks for it when it is planned.
CREATE FUNCTION nm_test.wait_loaded(i regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text;
BEGIN
	FOR n IN 1 .. 3000 LOOP
		SELECT state INTO s FROM numa.btree_stats(i);
		EXIT WHEN s = 'loaded';
		PERFORM nm_test.plan(format('SELECT FROM %s', (SELECT indrelid::regclass FROM pg_index WHERE indexrelid = i)));
		PERFORM pg_sleep(0.01);
	END LOOP;
	RETURN s;
END $$;

-- btree_check of every numa_btree index in the scratch schema.
CREATE FUNCTION nm_test.check_all() RETURNS TABLE (indexes_checked int) LANGUAGE plpgsql AS $$
DECLARE i regclass;
BEGIN
	indexes_checked := 0;
	FOR i IN SELECT c.oid FROM pg_class c JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'numa_btree' AND c.relkind = 'i' AND c.relnamespace = 'scratch'::regnamespace
	LOOP
		PERFORM numa.btree_check(i, true);
		indexes_checked := indexes_checked + 1;
	END LOOP;
	RETURN NEXT;
END $$;
RESET client_min_messages;
\set ECHO all

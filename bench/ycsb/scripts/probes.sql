-- Tables and functions of bench/ycsb/probes. The runner puts in :key_type (of
-- columns), :plain_type (without collation), :key_of (a query over n), :rows,
-- :lookups, :singles (newcomers inserted one by one) and :newcomers (all of them).
-- Every function does n operations on `probe`, whose one index is the subject.

CREATE FUNCTION probe_key(n bigint) RETURNS :plain_type LANGUAGE sql IMMUTABLE AS :'key_of';

-- In an order that has nothing to do with the keys: heap and index disagree.
CREATE TABLE probe (id :key_type NOT NULL, pad text) WITH (autovacuum_enabled = off);
INSERT INTO probe SELECT probe_key(2 * n), 'payload of ' || n
  FROM generate_series(1, :rows) AS n ORDER BY hashint8(n), n;

-- Keys that are there, at random, with repetition.
CREATE TABLE lookup (i int PRIMARY KEY, id :key_type NOT NULL);
INSERT INTO lookup
  SELECT i, probe_key(2 * (1 + (hashint8extended(i, 1) & x'7fffffffffffffff'::bigint) % :rows))
  FROM generate_series(1, :lookups) AS i;

-- The same, a thousand in each row, so that making a list is not measured.
CREATE TABLE list (i int PRIMARY KEY, keys :plain_type[] NOT NULL);
ALTER TABLE list ALTER COLUMN keys SET STORAGE EXTERNAL;
INSERT INTO list SELECT (i - 1) / 1000, array_agg(id ORDER BY i) FROM lookup GROUP BY 1;

-- Keys that aren't, between those that are, each once, in random order.
CREATE TABLE newcomer (i int PRIMARY KEY, id :key_type NOT NULL);
INSERT INTO newcomer
  SELECT row_number() OVER (ORDER BY hashint8(n), n), probe_key(2 * n + 1)
  FROM generate_series(1, :newcomers) AS n;
VACUUM (FREEZE, ANALYZE) probe, lookup, list, newcomer;

-- Inner side of a nested loop: one descent per outer row, no heap access.
CREATE FUNCTION nested_loop(n int) RETURNS bigint LANGUAGE plpgsql
  SET enable_hashjoin = off SET enable_mergejoin = off SET enable_memoize = off
  SET enable_bitmapscan = off SET enable_material = off SET max_parallel_workers_per_gather = 0
AS $$ BEGIN
  RETURN (SELECT count(p.id) FROM (SELECT id FROM lookup WHERE i <= n OFFSET 0) l JOIN probe p ON p.id = l.id);
END $$;

-- A prepared point SELECT, without network and parser.
CREATE FUNCTION point_select(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE k record; v text; found_rows bigint := 0;
BEGIN
  FOR k IN SELECT id FROM lookup WHERE i <= n LOOP
    SELECT pad INTO v FROM probe WHERE id = k.id;
    found_rows := found_rows + (v IS NOT NULL)::int;
  END LOOP;
  RETURN found_rows;
END $$;

-- id IN (1000 values), n / 1000 times, as an index or a bitmap scan.
CREATE FUNCTION in_list(n int) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE k record; found_rows bigint := 0; c bigint;
BEGIN
  FOR k IN SELECT keys FROM list WHERE i < n / 1000 LOOP
    SELECT count(pad) INTO c FROM probe WHERE id = ANY (k.keys);
    found_rows := found_rows + c;
  END LOOP;
  RETURN found_rows;
END $$;

-- The same out of the index alone.
CREATE FUNCTION in_list_only(n int) RETURNS bigint LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE k record; found_rows bigint := 0; c bigint;
BEGIN
  FOR k IN SELECT keys FROM list WHERE i < n / 1000 LOOP
    SELECT count(id) INTO c FROM probe WHERE id = ANY (k.keys);
    found_rows := found_rows + c;
  END LOOP;
  RETURN found_rows;
END $$;

-- 100 rows from a start key on, out of the index alone; n / 100 times.
CREATE FUNCTION range_100(n int) RETURNS bigint LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE k record; found_rows bigint := 0; c bigint;
BEGIN
  FOR k IN SELECT id FROM lookup WHERE i <= n / 100 LOOP
    SELECT count(*) INTO c FROM (SELECT id FROM probe WHERE id >= k.id ORDER BY id LIMIT 100) s;
    found_rows := found_rows + c;
  END LOOP;
  RETURN found_rows;
END $$;

-- One row per statement. The first of the newcomers.
CREATE FUNCTION single_insert(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE k record;
BEGIN
  FOR k IN SELECT id FROM newcomer WHERE i <= n LOOP
    INSERT INTO probe VALUES (k.id, 'newcomer');
  END LOOP;
  RETURN n;
END $$;

-- All in one statement. The rest of them.
CREATE FUNCTION bulk_insert(n int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE c bigint;
BEGIN
  INSERT INTO probe SELECT id, 'newcomer' FROM newcomer
    WHERE i > :singles AND i <= :singles + n;
  GET DIAGNOSTICS c = ROW_COUNT;
  RETURN c;
END $$;

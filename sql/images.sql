--
-- Stored images of keys: whatever goes into an index comes back byte by byte, in order
--
SET client_min_messages = warning;
SET enable_bitmapscan = off;

-- Rows of the table, read by an index-only scan and by a sequential one; then ranges
-- that begin or end at each of some values.
CREATE FUNCTION compare_images(indexed text, probes text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    columns text;
    plan text;
    line text;
    wanted text[];
    got text[];
    n bigint := 0;
BEGIN
    PERFORM numa.btree_check('images_i', true);
    SELECT string_agg(pg_get_indexdef(attrelid, attnum, true), ', ' ORDER BY attnum) INTO columns
      FROM pg_attribute WHERE attrelid = 'images_i'::regclass;
    PERFORM set_config('enable_seqscan', 'off', true);
    plan := '';
    FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT %s FROM images ORDER BY %s', columns, indexed) LOOP
        plan := plan || line;
    END LOOP;
    IF plan NOT LIKE 'Index Only Scan%' THEN
        RETURN plan;
    END IF;
    -- record_image_send shows the bytes: -0 and 0, 1.0 and 1.00
    EXECUTE format('SELECT array_agg(r::text || pg_column_size(r) ORDER BY n) FROM (SELECT row_number() OVER () AS n, r FROM (SELECT ROW(%s) AS r FROM images ORDER BY %s) x) y', columns, indexed) INTO got;
    PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
    EXECUTE format('SELECT array_agg(r::text || pg_column_size(r) ORDER BY n) FROM (SELECT row_number() OVER () AS n, r FROM (SELECT ROW(%s) AS r FROM images ORDER BY %s, ctid) x) y', columns, indexed) INTO wanted;
    PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
    IF got IS DISTINCT FROM wanted THEN
        RETURN format('got %s, wanted %s', got, wanted);
    END IF;
    FOREACH line IN ARRAY probes LOOP
        PERFORM set_config('enable_seqscan', 'off', true);
        EXECUTE format('SELECT array_agg(x::text ORDER BY x::text) FROM (SELECT %s FROM images WHERE %s) x', columns, line) INTO got;
        PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true);
        EXECUTE format('SELECT array_agg(x::text ORDER BY x::text) FROM (SELECT %s FROM images WHERE %s) x', columns, line) INTO wanted;
        PERFORM set_config('enable_indexscan', 'on', true), set_config('enable_indexonlyscan', 'on', true);
        IF got IS DISTINCT FROM wanted THEN
            RETURN format('%s: got %s, wanted %s', line, got, wanted);
        END IF;
        n := n + coalesce(array_length(got, 1), 0);
    END LOOP;
    RETURN format('%s rows, %s probes with %s rows', (SELECT count(*) FROM images), array_length(probes, 1), n);
END $$;

-- All that by an index that was built, by one that was inserted into, and the other way round.
CREATE FUNCTION try(columns text, rows text, tried text[], probes text[] = '{}', alter text = '') RETURNS TABLE (orders text, how text, result text) LANGUAGE plpgsql AS $$
BEGIN
    FOREACH orders IN ARRAY tried LOOP
        FOREACH how IN ARRAY '{built,inserted}'::text[] LOOP
            DROP TABLE IF EXISTS images;
            EXECUTE format('CREATE TABLE images (%s)', columns);
            IF alter <> '' THEN
                EXECUTE format('ALTER TABLE images %s', alter);
            END IF;
            IF how = 'built' THEN
                EXECUTE format('INSERT INTO images %s', rows);
            END IF;
            EXECUTE format('CREATE INDEX images_i ON images USING numa_btree (%s) %s', split_part(orders, ' INCLUDE ', 1),
                           CASE WHEN orders LIKE '% INCLUDE %' THEN 'INCLUDE ' || split_part(orders, ' INCLUDE ', 2) END);
            IF how = 'inserted' THEN
                EXECUTE format('INSERT INTO images %s', rows);
            END IF;
            result := compare_images(split_part(orders, ' INCLUDE ', 1), probes);
            RETURN NEXT;
        END LOOP;
    END LOOP;
END $$;

CREATE FUNCTION around(col text, vals text[]) RETURNS text[] LANGUAGE sql AS
$$ SELECT array_agg(format('%s %s %s', col, op, v)) FROM unnest(vals) v, unnest('{<,<=,=,>=,>}'::text[]) op $$;

-- Integers packed into heads: extremes of their widths, NULLs beside them, all four orders,
-- arguments of a wider type that no value of the column's can equal.
SELECT * FROM try('a int, b int',
    'SELECT x, y FROM unnest(ARRAY[-2147483648, -1, 0, 1, 2147483647, NULL]) x, unnest(ARRAY[-2147483648, -1, 0, 1, 2147483647, NULL]) y, generate_series(1, 2)',
    ARRAY['a, b', 'a DESC, b', 'a NULLS FIRST, b DESC NULLS LAST', 'a DESC NULLS LAST, b NULLS FIRST'],
    around('a', ARRAY['-2147483648', '0', '2147483647', '2147483648', '-2147483649', '9223372036854775807']) ||
    around('a = 2147483647 AND b', ARRAY['-2147483648', '1', '2147483647', '2147483648', '-2147483649']) ||
    around('a IS NULL AND b', ARRAY['-2147483648', '-1', '2147483647', '99999999999']) ||
    ARRAY['a IS NULL', 'a IS NULL AND b IS NULL', 'a = 1 AND b IS NULL', 'a IS NOT NULL AND b IS NULL',
          'a IN (-1, 2147483647, 2147483648) AND b IN (-2147483648, 0, 5)', 'b = 1', 'b > 2147483647::bigint']);
SELECT * FROM try('a int2, b bool, c "char", d oid, e int8, f text',
    $$SELECT a, b, c, d, a * 1000000007::int8, 'f' || d FROM unnest('{-32768,-1,0,32767,NULL}'::int2[]) a, unnest('{t,f,NULL}'::bool[]) b,
      unnest(ARRAY['a', NULL, '\377', '']::"char"[]) c, unnest('{0,1,4294967295,NULL}'::oid[]) d$$,
    ARRAY['a, b, c, d, e, f', 'd DESC, c DESC NULLS LAST, b, a, f, e', 'b, e, a INCLUDE (c, d, f)', 'c, f DESC, a, b, d, e'],
    around('a', ARRAY['-32768', '32767', '32768', '-40000', '70000000000']) || around('d = 4294967295 AND c', ARRAY['''a''', '''''', '''\377''']) ||
    ARRAY['a = -1 AND b AND c = ''a'' AND d > 1', 'a = 32767 AND b IS NULL AND c IS NULL AND d IS NULL', 'd IS NULL AND c IS NULL']);

-- Strings: shorter and longer than a head, with zeros, blanks and lengths of every kind.
SELECT * FROM try('a text COLLATE "C", b int8',
    $$SELECT x, length(x) * 1000 FROM unnest(ARRAY['', 'a', 'ab', 'abcdefg', 'abcdefgh', 'abcdefghi', 'abcdefgh' || repeat('x', 110), 'abcdefgh' || repeat('x', 119),
      'abcdefgh' || repeat('xy', 60), repeat('long', 600), repeat('a', 2000) || 'b', E'\x01\x01', NULL]) x, generate_series(1, 3)$$,
    ARRAY['a, b', 'a DESC, b', 'a INCLUDE (b)', 'b, a', 'a'],
    around('a', ARRAY['''''', '''ab''', '''abcdefgh''', '''abcdefghi''', 'repeat(''a'', 2000) || ''b''', '''abcdefgh'' || repeat(''x'', 119)']) ||
    around('a = ''abcdefgh'' AND b', ARRAY['8000']) || ARRAY['a IN (''abcdefg'', ''abcdefghi'', ''b'')', 'a IS NULL']);
SELECT * FROM try('a bytea',
    $$SELECT x FROM unnest(ARRAY['', '\x00', '\x0000', '\x61', '\x6100', '\x61000000000000', '\x6100000000000000', '\x610000000000000000', '\x61000000000000000000000000000000000000',
      '\x610000000000000001', '\x61000000000000000100000000000000', '\xffffffffffffffff', '\xffffffffffffffffff', NULL]::bytea[]) x, generate_series(1, 2)$$,
    ARRAY['a', 'a DESC'], around('a', ARRAY['''''', '''\x00''', '''\x6100''', '''\x6100000000000000''', '''\x610000000000000000''', '''\xffffffffffffffff''']));
SELECT * FROM try('a bytea, b bytea',
    $$SELECT x, y FROM unnest(ARRAY['', '\x00', '\x6100', '\x6100000000000000', '\x610000000000000000', '\xff00000000000000000000']::bytea[]) x, unnest(ARRAY['', '\x00', NULL]::bytea[]) y$$,
    ARRAY['a, b', 'a DESC', 'b, a'], around('a', ARRAY['''\x00''', '''\x6100000000000000''']), 'ALTER a SET STORAGE PLAIN');
SELECT * FROM try('a char(12), b char(3)',
    $$SELECT x, y FROM unnest(ARRAY['', 'a', 'abcdefg', 'abcdefgh', 'abcdefgh b', 'abcdefghijkl', NULL]) x, unnest(ARRAY['', 'x', 'xyz']) y$$,
    ARRAY['a, b', 'a DESC, b', 'b, a'], around('a', ARRAY['''''', '''a  ''', '''abcdefgh''', '''abcdefgh '' || '' ''', '''abcdefghijkl''']));

-- Values that a head does not give back: they are stored whole.
SELECT * FROM try('a float8, b float4',
    $$SELECT x, y FROM unnest('{0,-0,1,-1,1e300,NaN,inf,-inf,NULL}'::float8[]) x, unnest('{0,-0,1.5,NaN,inf,-inf,1e-40,NULL}'::float4[]) y$$,
    ARRAY['a, b', 'b DESC, a', 'b INCLUDE (a)', 'a DESC'], around('a', ARRAY['0', '''-0''', '''NaN''', '''inf''', '1']) || around('b', ARRAY['''0''::float4', '1.5', '''NaN''', '''-inf''']));
-- Fixed widths: bytes at the end that are zero need not be stored.
SELECT * FROM try('a uuid, b macaddr, c name, d interval, e int8',
    $$SELECT ('00000000-0000-0000-' || x)::uuid, ('01:02:03:04:05:0' || n)::macaddr, CASE WHEN n > 1 THEN repeat('n', n * 20)::name ELSE '' END, n * interval '1 month', CASE WHEN n = 3 THEN NULL ELSE 0 END
      FROM unnest(ARRAY['0000-000000000000', 'ff00-000000000000', '0000-000000000001']) x, generate_series(0, 3) n$$,
    ARRAY['a', 'a, e', 'b', 'b, a', 'c', 'c DESC, b', 'e, c', 'd, e', 'e, a INCLUDE (b, c, d)'],
    around('a', ARRAY['''00000000-0000-0000-0000-000000000000''', '''00000000-0000-0000-ff00-000000000000''']) || around('b', ARRAY['''01:02:03:04:05:01''']) || around('c', ARRAY['''''', 'repeat(''n'', 40)']));
SELECT * FROM try('a numeric, b int[], c text',
    $$SELECT x, y, z FROM unnest('{1.0,1.00,1,0,-5,123456789.123456789,NaN,NULL}'::numeric[]) x, unnest(ARRAY['{}', '{1}', '{1,2,NULL}']) y0, LATERAL (SELECT y0::int[] AS y) q, unnest(ARRAY[NULL, 'z']) z$$,
    ARRAY['a, b, c', 'c, b, a', 'b DESC, a'], around('a', ARRAY['1', '0', '''NaN''']));
-- Many columns, NULLs among them; the bitmap has two bytes.
SELECT * FROM try('a int, b int, c int, d int, e int, f int, g int, h int, i int, j text',
    $$SELECT nullif(n & 1, 0), nullif(n & 2, 0), n, n, n, nullif(n & 4, 0), n, n, nullif(n & 8, 0), nullif((n & 16)::text, '0') FROM generate_series(0, 31) n$$,
    ARRAY['a, b, c, d, e, f, g, h, i, j', 'i, a, j, b, f, c, d, e, g, h'], around('a = 1 AND b', ARRAY['2']) || ARRAY['a IS NULL AND b IS NULL', 'i = 8 AND a IS NULL AND j = ''16''']);

DROP FUNCTION try, compare_images, around;
DROP TABLE images;

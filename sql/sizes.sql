-- An entry takes no more memory than nbtree's: unique values, built by CREATE INDEX.
-- Grown by inserts in random order a tree's leaves are half to full, as nbtree's, but
-- not at the same moments, so ten percent are left for that.  (The figures are told as notices.)
SET client_min_messages = warning;

CREATE FUNCTION sizes(columns text, vals text, n int = 20000) RETURNS TABLE (columns_ text, built text, grown text) LANGUAGE plpgsql AS $$
DECLARE
    cols text;
    ours numeric;
    nbtrees numeric;
BEGIN
    columns_ := columns;
    DROP TABLE IF EXISTS sized;
    EXECUTE format('CREATE TABLE sized (%s)', columns);
    SELECT string_agg(attname, ', ' ORDER BY attnum) INTO cols FROM pg_attribute WHERE attrelid = 'sized'::regclass AND attnum > 0;
    FOR i IN 1 .. 2 LOOP
        IF i = 1 THEN
            EXECUTE format('INSERT INTO sized SELECT %s FROM generate_series(1, %s) n', vals, n);
        END IF;
        EXECUTE format('CREATE INDEX sized_ours ON sized USING numa_btree (%s)', cols);
        EXECUTE format('CREATE INDEX sized_nbtrees ON sized USING btree (%s)', cols);
        IF i = 2 THEN
            EXECUTE format('INSERT INTO sized SELECT %s FROM generate_series(1, %s) n ORDER BY hashint8(n), n', vals, n);
        END IF;
        PERFORM numa.btree_check('sized_ours', true);
        SELECT bytes INTO ours FROM numa.btree_stats('sized_ours');
        nbtrees := pg_relation_size('sized_nbtrees');
        RAISE NOTICE '%: % bytes an entry, nbtree %', columns, round(ours / n, 1), round(nbtrees / n, 1);
        IF i = 1 THEN
            built := CASE WHEN ours <= nbtrees THEN 'no more' ELSE format('%s bytes, nbtree %s', ours, nbtrees) END;
            TRUNCATE sized;
            DROP INDEX sized_ours, sized_nbtrees;
        ELSE
            grown := CASE WHEN ours <= nbtrees * 1.1 THEN 'no more' ELSE format('%s bytes, nbtree %s', ours, nbtrees) END;
        END IF;
    END LOOP;
    RETURN NEXT;
END $$;

-- RAISE NOTICE shows the figures whatever the level of messages; not here.
\set VERBOSITY terse
\! true
SELECT * FROM sizes('a text COLLATE "C"', 'left(md5(n::text), 20)');
SELECT * FROM sizes('a text COLLATE "C"', 'n::text');
SELECT * FROM sizes('a text COLLATE "C"', 'repeat(md5(n::text), 3)');
SELECT * FROM sizes('a text', 'left(md5(n::text), 20)');
SELECT * FROM sizes('a uuid', 'md5(n::text)::uuid');
SELECT * FROM sizes('a numeric', 'n::numeric * 7919 / 100');
SELECT * FROM sizes('a int8, b int8', 'hashint8extended(n, 0), hashint8extended(n, 1)');
SELECT * FROM sizes('a int4, b int4', 'hashint8(n), n');
SELECT * FROM sizes('a int4, b text', 'n % 1000, left(md5(n::text), 20)');
SELECT * FROM sizes('a text COLLATE "C", b int8', 'left(md5(n::text), 20), hashint8extended(n, 0)');
SELECT * FROM sizes('a int4, b text', 'NULL::int, left(md5(n::text), 20)');
SELECT * FROM sizes('a name', 'left(md5(n::text), 20)::name');
SELECT * FROM sizes('a timestamptz', 'timestamptz ''2020-01-01'' + n * interval ''1 s''');
SELECT * FROM sizes('a timestamptz, b int8', 'timestamptz ''2020-01-01'' + n * interval ''1 s'', n');
SELECT * FROM sizes('a inet', 'inet ''0.0.0.0'' + (hashint8(n)::bigint + 2147483648)');
SELECT * FROM sizes('a float8', 'sin(n)');
SELECT * FROM sizes('a char(20)', 'left(md5(n::text), 15)');
SELECT * FROM sizes('a bytea', 'decode(md5(n::text), ''hex'')');
SELECT * FROM sizes('a bool, b int8', 'n % 2 = 0, n');
SELECT * FROM sizes('a macaddr', 'left(md5(n::text), 12)::macaddr');
SELECT * FROM sizes('a interval', 'n * interval ''1 s''');

DROP FUNCTION sizes;
DROP TABLE sized;

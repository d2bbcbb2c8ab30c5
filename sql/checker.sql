-- numa.btree_check() finds what is wrong: each kind of fault is made and must be reported. What can be
-- wrong with pages is made in test/unit/test_tree_check.c and test_tree_model.c.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- An index that is not "ready" hears of no insert and no VACUUM.
CREATE FUNCTION deaf(i regclass, yes bool) RETURNS void LANGUAGE sql AS $$
	UPDATE pg_index SET indisready = NOT yes WHERE indexrelid = i;
$$;
-- The first fault, without the hint, and page numbers aside.
CREATE FUNCTION fault(i regclass, heapallindexed bool = true) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT regexp_replace(e, 'page \d+', 'page N') FROM nm_test.err(format('SELECT numa.btree_check(%L, %L)', i, heapallindexed)) e WHERE e !~ '^HINT';
$$;
CREATE TABLE t (a int, b text) WITH (autovacuum_enabled = off);
CREATE INDEX t_a ON t USING numa_btree (a);
CREATE INDEX t_b ON t USING numa_btree (b);
INSERT INTO t SELECT g, 'text' || g FROM generate_series(1, 3000) g;
SELECT fault('t_a'), fault('t_b');

-- A row without an entry. Only the comparison with the heap can tell.
SELECT deaf('t_a', true), deaf('t_b', true);
INSERT INTO t VALUES (5000, 'five thousand');
SELECT deaf('t_a', false), deaf('t_b', false);
SELECT fault('t_a', false), fault('t_a'), fault('t_b');
-- Also one of the own transaction, and no longer when that is gone.
REINDEX TABLE t;
SELECT fault('t_a'), fault('t_b');
BEGIN;
SELECT deaf('t_a', true);
INSERT INTO t VALUES (5001, 'not for long');
SELECT deaf('t_a', false);
SELECT fault('t_a'), fault('t_b');
ROLLBACK;
VACUUM t;
SELECT fault('t_a'), fault('t_b');

-- An entry that outlives its row: the line pointer is free, then in use again for another row,
-- then beyond the end of the table.
SELECT deaf('t_b', true);
DELETE FROM t WHERE a = 7;
VACUUM t;
SELECT deaf('t_b', false);
SELECT fault('t_b', false);
SELECT * FROM fault('t_b');
INSERT INTO t VALUES (7, 'another');
SELECT * FROM fault('t_b');
REINDEX INDEX t_b;
SELECT fault('t_b');
SELECT deaf('t_b', true);
DELETE FROM t WHERE a > 2000;
VACUUM t;
SELECT deaf('t_b', false);
SELECT e ~ 'is not there' AS fault, e FROM fault('t_b') e WHERE e !~ 'DETAIL';
REINDEX INDEX t_b;
SELECT deaf('t_b', true);
DELETE FROM t;
VACUUM t;
SELECT deaf('t_b', false);
SELECT e ~ 'beyond the end' AS fault FROM fault('t_b') e WHERE e ~ 'DETAIL';
REINDEX INDEX t_b;
SELECT fault('t_a'), fault('t_b');

-- Keys and predicates that are no longer what the row gives.
INSERT INTO t SELECT g, 'text' || g FROM generate_series(1, 500) g;
CREATE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN i; END $$;
CREATE FUNCTION p(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN i > 100; END $$;
CREATE INDEX t_f ON t USING numa_btree (scratch.f(a));
CREATE INDEX t_p ON t USING numa_btree (b) WHERE scratch.p(a);
SELECT fault('t_f'), fault('t_p');
CREATE OR REPLACE FUNCTION f(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN CASE i WHEN 300 THEN 301 ELSE i END; END $$;
CREATE OR REPLACE FUNCTION p(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN i > 90; END $$;
SELECT fault('t_f', false), fault('t_f'), fault('t_p');
CREATE OR REPLACE FUNCTION p(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN i > 110; END $$;
SELECT e ~ 'does not match its row' AS fault FROM fault('t_p') e WHERE e !~ 'DETAIL';

-- Another order than that of the entries.
CREATE FUNCTION c(a int, b int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN pg_catalog.btint4cmp(a, b); END $$;
CREATE OPERATOR CLASS turned FOR TYPE int USING numa_btree AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 scratch.c(int, int);
CREATE INDEX t_c ON t USING numa_btree (a turned);
SELECT fault('t_c');
CREATE OR REPLACE FUNCTION c(a int, b int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN pg_catalog.btint4cmp(b, a); END $$;
SELECT * FROM fault('t_c', false);

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

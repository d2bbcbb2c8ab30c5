-- Every operator class that btree has in pg_catalog exists for numa_btree under
-- the same name and gives the same order and the same answers.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- Same classes, same members: nothing left out, nothing added.
SELECT b.opcname, b.opcintype::regtype
FROM pg_opclass b
WHERE b.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
  AND b.opcnamespace = 'pg_catalog'::regnamespace
  AND NOT EXISTS (SELECT FROM pg_opclass n
		WHERE n.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'numa_btree')
		  AND (n.opcname, n.opcnamespace, n.opcintype, n.opcdefault) =
			  (b.opcname, b.opcnamespace, b.opcintype, b.opcdefault));
WITH member AS (
	SELECT am.amname, f.opfname, o.amoplefttype AS l, o.amoprighttype AS r,
		o.amopstrategy AS num, o.amopopr AS what, 'operator' AS kind
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am am ON am.oid = f.opfmethod
	WHERE f.opfnamespace = 'pg_catalog'::regnamespace
	UNION ALL
	SELECT am.amname, f.opfname, p.amproclefttype, p.amprocrighttype, p.amprocnum, p.amproc, 'function'
	FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily JOIN pg_am am ON am.oid = f.opfmethod
	WHERE f.opfnamespace = 'pg_catalog'::regnamespace AND p.amprocnum <= 3)
SELECT opfname, l::regtype, r::regtype, kind, num, what
FROM ((SELECT opfname, l, r, kind, num, what FROM member WHERE amname = 'btree'
	   EXCEPT SELECT opfname, l, r, kind, num, what FROM member WHERE amname = 'numa_btree')
	  UNION ALL
	  (SELECT opfname, l, r, kind, num, what FROM member WHERE amname = 'numa_btree'
	   EXCEPT SELECT opfname, l, r, kind, num, what FROM member WHERE amname = 'btree')) d
ORDER BY 1, 2, 3, 4, 5;
SELECT opcname FROM pg_opclass
WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'numa_btree') AND NOT amvalidate(oid);

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok';	-- sorts by position, not by OID
CREATE TYPE pair AS (a int, b text);

-- The values of one type; spellings that are equal but not identical are in on purpose.
CREATE TABLE sample (type text, type_used text, vals text[]);
INSERT INTO sample VALUES
	('anyarray', 'int[]', '{"{}","{1}","{1,2}","{1,NULL}","{NULL}","{2}","{{1,2},{3,4}}","[5:6]={1,2}"}'),
	('bit', 'bit(4)', '{0000,0001,1000,1111,0110}'),
	('boolean', 'boolean', '{t,f}'),
	('character', 'char(5)', '{a,"a ",B,b,"",zz,é,"a b"}'),
	('bytea', 'bytea', E'{"\\\\\\\\x","\\\\\\\\x00","\\\\\\\\x0001","\\\\\\\\xff","\\\\\\\\x7f80","\\\\\\\\x8000000000000000","\\\\\\\\x7fffffffffffffffff"}'),
	('"char"', '"char"', E'{a,b,"","~","\\\\\\\\377","\\\\\\\\200"}'),
	('inet', 'inet', '{10.0.0.1,10.0.0.1/8,10.0.0.0/8,::1,192.168.1.0/24,10.0.0.1/32,fe80::1/64,255.255.255.255}'),
	('date', 'date', '{2000-01-01,1999-12-31,infinity,-infinity,"4713-01-01 BC",5874897-12-31,2026-11-30}'),
	('anyenum', 'mood', '{sad,ok,happy,meh}'),
	('real', 'real', '{0,-0,1,-1,NaN,Infinity,-Infinity,1e-45,3.4e38,0.1}'),
	('double precision', 'float8', '{0,-0,1,-1,NaN,Infinity,-Infinity,5e-324,1.7e308,0.1}'),
	('smallint', 'smallint', '{0,1,-1,32767,-32768}'),
	('integer', 'integer', '{0,1,-1,2147483647,-2147483648}'),
	('bigint', 'bigint', '{0,1,-1,9223372036854775807,-9223372036854775808,32767,2147483648}'),
	('interval', 'interval', '{"1 day","24 hours","1 mon","30 days","-1 day",0,"178000000 years","1 mon -30 days"}'),
	('jsonb', 'jsonb', '{"{}","[]","null","1","1.0",true,"\"a\"","{\"a\":1}","[1,2]","[[]]","{\"a\":{\"b\":[]}}"}'),
	('macaddr8', 'macaddr8', '{08:00:2b:01:02:03:04:05,08:00:2b:01:02:03,ff:ff:ff:ff:ff:ff:ff:ff,00:00:00:00:00:00:00:00}'),
	('macaddr', 'macaddr', '{08:00:2b:01:02:03,ff:ff:ff:ff:ff:ff,00:00:00:00:00:00,80:00:00:00:00:00}'),
	('money', 'money', '{0,1,-1,92233720368547758.07,-92233720368547758.08,0.01}'),
	('anymultirange', 'int4multirange', '{"{}","{[1,2)}","{[1,2),[5,6)}","{(,1)}","{(,)}","{[5,)}"}'),
	('name', 'name', '{a,b,"",A,pg_class,zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz,é}'),
	('numeric', 'numeric', '{1.0,1.00,1,0,-0.0,NaN,Infinity,-Infinity,1e-100,1e100,-1.5,123456789012345678901234567890.123}'),
	('oid', 'oid', '{0,1,4294967295,2147483648}'),
	('oid8', 'oid8', '{0,1,4294967296,9223372036854775808,18446744073709551615}'),	-- from 19 on
	('oidvector', 'oidvector', '{"","1","1 2","2","4294967295"}'),
	('pg_lsn', 'pg_lsn', '{0/0,0/1,1/0,FFFFFFFF/FFFFFFFF,80000000/0}'),
	('anyrange', 'int4range', '{empty,"[1,2)","[1,3)","(,1)","(,)","[5,)","[1,1)"}'),
	('record', 'pair', '{"(1,a)","(1,b)","(1,)","(,a)","(,)","(0,z)"}'),
	('text', 'text', E'{"",a,A,b,B,"a b",ab,zz,é,"\\t",aaaaaaaa,aaaaaaaaa,aaaaaaaab,"a_","a-"}'),
	('tid', 'tid', '{"(0,1)","(0,2)","(1,1)","(4294967295,65535)","(0,0)","(2147483648,1)"}'),
	('time without time zone', 'time', '{00:00,24:00,12:34:56.789,23:59:59.999999}'),
	('timestamp without time zone', 'timestamp', '{2000-01-01,infinity,-infinity,"4713-01-01 BC","1999-12-31 23:59:59.999999","294276-12-31"}'),
	('timestamp with time zone', 'timestamptz', '{"2000-01-01 00:00+00","2000-01-01 01:00+01",infinity,-infinity,"1999-12-31 23:59:59.999999+00"}'),
	('time with time zone', 'timetz', '{00:00+00,24:00+00,12:00+01,11:00+00,13:00+02,00:00-15:59}'),
	('tsquery', 'tsquery', '{a,"a & b","a | b","!a","a <-> b"}'),
	('tsvector', 'tsvector', '{"",a,"a b","a:1","a:1A b:2","b"}'),
	('uuid', 'uuid', '{00000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff,80000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000001}'),
	('bit varying', 'varbit', '{"",0,1,00,01,10,11111111,111111110}'),
	('xid8', 'xid8', '{0,1,18446744073709551615,9223372036854775808}');

-- Per class: ordered output forward and backward, and the rows of every operator of the
-- family with the class's type on the left (cross-type ones too) against every sample,
-- through the index and by sequential scan.
CREATE FUNCTION try_opclass(opc record) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	used text; vals text[]; op record; v text; q text; cmp text; n int := 0; bad int := 0; unused int := 0;
	lt text; gt text;
BEGIN
	SELECT type_used, s.vals INTO STRICT used, vals FROM sample s WHERE type = opc.opcintype::regtype::text;
	EXECUTE format('CREATE TABLE oc (k %s, n int)', used);
	-- Every sample several times, in an order that is none, with NULLs; half of them come
	-- after the index is there.
	EXECUTE format('INSERT INTO oc SELECT x::%s, i FROM generate_series(1, 3) i, unnest($1 || NULL::text) WITH ORDINALITY u(x, o) ORDER BY md5(o::text || i)', used) USING vals;
	EXECUTE format('CREATE INDEX oc_k ON oc USING numa_btree (k %I)', opc.opcname);
	EXECUTE format('INSERT INTO oc SELECT x::%s, i FROM generate_series(4, 6) i, unnest($1 || NULL::text) WITH ORDINALITY u(x, o) ORDER BY md5(o::text || i)', used) USING vals;
	FOR op IN
		SELECT o.oprname, o.oprnamespace::regnamespace AS nsp, a.amopstrategy,
			a.amoprighttype::regtype::text AS rt, a.amoprighttype = opc.opcintype AS same
		FROM pg_amop a JOIN pg_operator o ON o.oid = a.amopopr
		WHERE a.amopfamily = opc.opcfamily AND a.amoplefttype = opc.opcintype
		ORDER BY a.amoprighttype, a.amopstrategy
	LOOP
		IF op.same THEN
			lt := CASE WHEN op.amopstrategy = 1 THEN format('OPERATOR(%s.%s)', op.nsp, op.oprname) ELSE lt END;
			gt := CASE WHEN op.amopstrategy = 5 THEN format('OPERATOR(%s.%s)', op.nsp, op.oprname) ELSE gt END;
		END IF;
		FOREACH v IN ARRAY CASE WHEN op.same THEN vals ELSE (SELECT s.vals FROM sample s WHERE type = op.rt) END LOOP
			-- name brings its own collation, C: say which one is meant.
			q := format('SELECT k, n FROM oc WHERE k OPERATOR(%s.%s) %L::%s %s', op.nsp, op.oprname, v,
						CASE WHEN op.same THEN used ELSE op.rt END,
						CASE WHEN used = 'text' AND op.rt = 'name' THEN 'COLLATE "default"'
							 WHEN used = 'name' AND op.rt = 'text' THEN 'COLLATE "C"' END);
			cmp := nm_test.compare(q);
			n := n + 1;
			IF cmp ~ 'DIFFERS' THEN bad := bad + 1; RAISE NOTICE '% %', q, cmp; END IF;
			-- "flag = true" is simplified to "flag", which core matches to btree's own family
			-- alone before 16.
			CONTINUE WHEN used = 'boolean' AND op.amopstrategy = 3 AND current_setting('server_version_num')::int < 160000;
			IF cmp !~ 'index same' THEN unused := unused + 1; RAISE NOTICE 'not used: % %', q, cmp; END IF;
		END LOOP;
	END LOOP;
	-- What the loader makes of the heap must be the same as what build and inserts made.
	PERFORM numa.btree_unload('oc_k');
	PERFORM numa.btree_load('oc_k');
	-- The rank of each row is compared, not the value: equal values may come in any order.
	cmp := nm_test.compare(format('SELECT k IS NULL AS isnull, d FROM (SELECT k, dense_rank() OVER (ORDER BY k USING %s) AS d FROM oc) x', lt), true);
	n := n + 1;
	IF cmp !~ 'index same' OR cmp ~ 'DIFFERS' THEN bad := bad + 1; RAISE NOTICE 'forward: %', cmp; END IF;
	cmp := nm_test.compare(format('SELECT k IS NULL AS isnull, d FROM (SELECT k, dense_rank() OVER (ORDER BY k USING %s) AS d FROM oc) x', gt), true);
	n := n + 1;
	IF cmp !~ 'index same' OR cmp ~ 'DIFFERS' THEN bad := bad + 1; RAISE NOTICE 'backward: %', cmp; END IF;
	FOREACH v IN ARRAY '{IS NULL,IS NOT NULL}'::text[] LOOP
		CONTINUE WHEN used = 'pair';	-- a row IS NULL is about its columns: no index can answer
		cmp := nm_test.compare('SELECT k, n FROM oc WHERE k ' || v);
		n := n + 1;
		IF cmp !~ 'index same' OR cmp ~ 'DIFFERS' THEN bad := bad + 1; RAISE NOTICE '%: %', v, cmp; END IF;
	END LOOP;
	PERFORM numa.btree_check('oc_k');
	DROP TABLE oc;
	RETURN format('%s queries, %s differ, %s without the index', n, bad, unused);
END $$;

DO $$
DECLARE opc record; n int := 0; r text;
BEGIN
	FOR opc IN SELECT * FROM pg_opclass
			   WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'numa_btree')
				 AND opcnamespace = 'pg_catalog'::regnamespace
			   ORDER BY opcname
	LOOP
		r := try_opclass(opc);
		n := n + 1;
		IF r !~ ' 0 differ, 0 without' OR r ~ '^[0-9] queries' THEN
			RAISE NOTICE '% %', opc.opcname, r;
		END IF;
	END LOOP;
	RAISE NOTICE 'every class was tried: %', n = (SELECT count(*) FROM pg_opclass
		WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree') AND opcnamespace = 'pg_catalog'::regnamespace);
END $$;

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

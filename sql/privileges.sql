-- Who may do what.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

CREATE ROLE nm_owner; CREATE ROLE nm_other; CREATE ROLE nm_monitor; GRANT pg_monitor TO nm_monitor;
GRANT ALL ON SCHEMA scratch TO PUBLIC; GRANT USAGE ON SCHEMA nm_test TO PUBLIC;
SET ROLE nm_owner;
CREATE TABLE mine (a int);
INSERT INTO mine SELECT generate_series(1, 1000);
CREATE INDEX mine_a ON mine USING numa_btree (a);
RESET ROLE;
SELECT node AS target FROM numa.topology() WHERE allowed AND total_bytes > 0 ORDER BY node LIMIT 1 \gset
CREATE FUNCTION may(who text) RETURNS TABLE (call text, answer text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET ROLE %I', who);
	FOREACH call IN ARRAY ARRAY['topology()', 'get_mode()', 'get_batch()', 'set_batch(3)', 'btree_stats(''mine_a'')', 'doctor()', 'buffer_placement()',
		'relation_placement(''mine'')', 'move_relation(''mine'', ' || current_setting('scratch.target') || ')', 'spread_relation(''mine'')',
		'move_relation(''mine_a'', ' || current_setting('scratch.target') || ')',
		'btree_check(''mine_a'')', 'btree_unload(''mine_a'')', 'btree_load(''mine_a'')', 'balance_buffers()', 'stat_reset()', 'refresh_opclasses()',
		'set_batch(3, true)', 'set_mode(''sync'', true)']
	LOOP
		SELECT left(min(e), 5) INTO answer FROM nm_test.err('SELECT * FROM numa.' || call) e WHERE e !~ '^(DETAIL|HINT)';
		RETURN NEXT;
	END LOOP;
	FOREACH call IN ARRAY '{stat_migrator,stat_moves,stat_btree,stat_access}'::text[] LOOP
		SELECT left(min(e), 5) INTO answer FROM nm_test.err('SELECT * FROM numa.' || call) e WHERE e !~ '^(DETAIL|HINT)';
		RETURN NEXT;
	END LOOP;
	RESET ROLE;
END $$;
SELECT set_config('scratch.target', :'target', false) IS NOT NULL AS set;
SET client_min_messages = error;
SELECT replace(o.call, current_setting('scratch.target') || ')', 'N)') AS call, o.answer AS owner, n.answer AS other, m.answer AS monitor
FROM may('nm_owner') WITH ORDINALITY o(call, answer, i) JOIN may('nm_other') WITH ORDINALITY n(call, answer, i) USING (i) JOIN may('nm_monitor') WITH ORDINALITY m(call, answer, i) USING (i) ORDER BY i;
-- The refusal names the relation. From 17 on it names MAINTAIN, too.
SET ROLE nm_other;
SELECT replace(err, 'owner, a superuser and roles with MAINTAIN on the table may', 'owner and superusers may') AS err FROM nm_test.err('SELECT numa.btree_load(''mine_a'')') err;
SELECT replace(err, 'owner, a superuser and roles with MAINTAIN on the table may', 'owner and superusers may') AS err FROM nm_test.err('SELECT numa.move_relation(''mine'', ' || :'target' || ')') err;
SELECT * FROM nm_test.err('SELECT * FROM numa.doctor()');
SELECT * FROM nm_test.err('SELECT * FROM numa.balance_buffers()');
-- A creator without rights on the extension can still use the access method.
CREATE TABLE theirs (a int);
CREATE INDEX ON theirs USING numa_btree (a);
INSERT INTO theirs VALUES (1);
RESET ROLE;

-- An index's expressions run as the table's owner, whoever loads, checks or reads: see
-- t/009_owner.pl for loads by the background.  Here build, check, load and reindex by a superuser.
SET ROLE nm_owner;
CREATE TABLE spylog (who text);
CREATE FUNCTION spy(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user <> 'nm_owner' THEN RAISE 'ran as %', current_user; END IF;
	RETURN $1;
END $$;
CREATE TABLE trap (a int);
INSERT INTO trap SELECT generate_series(1, 100);
CREATE INDEX trap_i ON trap USING numa_btree (spy(a));
RESET ROLE;
SELECT numa.btree_check('trap_i');
SELECT numa.btree_unload('trap_i'), numa.btree_load('trap_i');
REINDEX INDEX trap_i;
SELECT numa.btree_unload('trap_i'), numa.btree_check('trap_i');
SELECT * FROM nm_test.check_all();
DROP TABLE mine, theirs, trap, spylog;
DROP FUNCTION spy, may;
REVOKE ALL ON SCHEMA scratch FROM PUBLIC;
DROP ROLE nm_owner, nm_other, nm_monitor;

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

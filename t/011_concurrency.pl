# Many sessions at once: CREATE INDEX CONCURRENTLY against writers, also of two-phase
# commit, as core tests it for btree (contrib/amcheck/t/002_cic.pl and 003_cic_2pc.pl, fixes
# https://postgr.es/m/20210730022548.GA1940096@gust.leadboat.com,
# https://postgr.es/m/2E712143-97F7-4890-B470-4A35142ABC82@yandex-team.ru,
# https://postgr.es/m/01824242-AA92-4FE9-9BA7-AEBAFFEA3D0C@yandex-team.ru), and a churned
# table of constant size beside VACUUM (https://github.com/pgvector/pgvector/issues/181).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "max_prepared_transactions = 20\nnuma_migrate.naptime = 50ms\nnuma_migrate.policy = affinity\nlock_timeout = 60s\nclient_min_messages = error\nlog_statement = none");
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, n int);
CREATE SEQUENCE ids;
-- scattered, and never the same twice: any violation of t_u is a fault
CREATE FUNCTION new_id() RETURNS int LANGUAGE sql AS $$ SELECT (nextval('ids') * 1103515245 % 2147483648)::int - 1073741824 $$;
CREATE UNIQUE INDEX t_u ON t USING numa_btree (id);
CREATE TABLE churn (a int, b text);
INSERT INTO churn SELECT g, 'k' || g FROM generate_series(1, 5000) g;
CREATE INDEX churn_a ON churn USING numa_btree (a);
CREATE INDEX churn_b ON churn USING numa_btree (b);
CREATE TABLE counter (k int, n int);
INSERT INTO counter SELECT generate_series(0, 9), 0;
CREATE INDEX counter_k ON counter USING numa_btree (k);
CREATE FUNCTION same() RETURNS void LANGUAGE plpgsql AS $$
DECLARE by_a bigint; by_b bigint; heap bigint;
BEGIN
	SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
	SELECT count(*) INTO by_a FROM churn WHERE a >= 0;
	SELECT count(*) INTO by_b FROM churn WHERE b > '';
	SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = on;
	SELECT count(*) INTO heap FROM churn;
	IF by_a <> heap OR by_b <> heap THEN RAISE 'indexes % and %, heap %', by_a, by_b, heap; END IF;
END $$;
));
my $secs = 6;

# 1. CIC, REINDEX CONCURRENTLY and DROP beside inserts, updates and deletes.
$node->pgbench("--no-vacuum --client=5 --time=$secs", 0, [qr{actually processed}], [qr{^$}], 'concurrent index builds beside writers', {
	'011_insert@8' => q(
		INSERT INTO t SELECT new_id(), 0 FROM generate_series(1, 10);
		UPDATE t SET n = n + 1 WHERE id IN (SELECT id FROM t LIMIT 5);
		DELETE FROM t WHERE id IN (SELECT id FROM t OFFSET 3000 LIMIT 10);
	),
	'011_cic@2' => q(
		SELECT pg_try_advisory_lock(7)::integer AS gotlock \gset
		\if :gotlock
			DROP INDEX CONCURRENTLY IF EXISTS t_cic;
			CREATE INDEX CONCURRENTLY t_cic ON t USING numa_btree (n, id);
			SELECT numa.btree_check('t_cic', true);
			REINDEX INDEX CONCURRENTLY t_u;
			SELECT numa.btree_check('t_u', true);
			SELECT pg_advisory_unlock(7);
		\endif
	) });
check_all($node, 'after concurrent builds');

# 2. The same with two-phase commit.
$node->pgbench("--no-vacuum --client=4 --time=$secs", 0, [qr{actually processed}], [qr{^$}], 'concurrent index builds beside prepared transactions', {
	'011_2pc@4' => q(
		BEGIN;
		INSERT INTO t SELECT new_id(), 5 FROM generate_series(1, 5);
		PREPARE TRANSACTION 'c:client_id';
		COMMIT PREPARED 'c:client_id';
	),
	'011_2pc_abort@2' => q(
		BEGIN;
		INSERT INTO t SELECT new_id(), 5 FROM generate_series(1, 5);
		DELETE FROM t WHERE n = 3;
		PREPARE TRANSACTION 'c:client_id';
		ROLLBACK PREPARED 'c:client_id';
	),
	'011_cic2@1' => q(
		SELECT pg_try_advisory_lock(7)::integer AS gotlock \gset
		\if :gotlock
			DROP INDEX CONCURRENTLY IF EXISTS t_cic;
			CREATE INDEX CONCURRENTLY t_cic ON t USING numa_btree (n, id);
			SELECT numa.btree_check('t_cic', true);
			SELECT pg_advisory_unlock(7);
		\endif
	) });
check_all($node, 'after builds beside prepared transactions');

# 3. A table of constant size under churn: within one snapshot index and heap agree.
$node->pgbench("--no-vacuum --client=6 --time=$secs", 0, [qr{actually processed}], [qr{^$}], 'churn beside VACUUM, unload and load', {
	'011_churn@10' => q(
		\set a random(1, 5000)
		BEGIN;
		UPDATE churn SET a = a, b = 'k' || :a || 'x' WHERE a = :a;
		DELETE FROM churn WHERE a = :a;
		INSERT INTO churn VALUES (:a, 'k' || :a);
		COMMIT;
	),
	'011_same@3' => q(
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT same();
		COMMIT;
	),
	'011_vacuum@1' => q(
		SELECT pg_try_advisory_lock(8)::integer AS gotlock \gset
		\if :gotlock
			VACUUM churn;
			SELECT pg_advisory_unlock(8);
		\endif
	),
	'011_unload@1' => q(
		SELECT pg_try_advisory_lock(9)::integer AS gotlock \gset
		\if :gotlock
			SELECT numa.btree_unload('churn_a');
			SELECT numa.btree_load('churn_a');
			SELECT numa.move_relation('churn_b', (SELECT node FROM numa.topology() WHERE allowed AND total_bytes > 0 ORDER BY random() LIMIT 1));
			SELECT pg_advisory_unlock(9);
		\endif
	) });
check_all($node, 'after churn');
same_rows($node, 'SELECT a FROM churn WHERE a > 0 ORDER BY a', 'churn_a', 'after churn');

# 4. One key inserted by everybody: exactly one gets it.
$node->safe_psql('postgres', q(CREATE TABLE race (k int, who int); SET client_min_messages = error; CREATE UNIQUE INDEX race_k ON race USING numa_btree (k); CREATE SEQUENCE rounds;
CREATE FUNCTION try(k int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN INSERT INTO race VALUES (k, pg_backend_pid()); EXCEPTION WHEN unique_violation THEN NULL; END $$;));
$node->pgbench("--no-vacuum --client=8 --time=4", 0, [qr{actually processed}], [qr{^$}], 'everybody inserts the same keys', {
	'011_race@9' => q(
		\set k random(1, 100)
		SELECT try((SELECT last_value::int FROM rounds) * 100 + :k);
	),
	'011_race_abort@2' => q(
		\set k random(1, 100)
		BEGIN;
		SELECT try((SELECT last_value::int FROM rounds) * 100 + :k);
		ROLLBACK;
	),
	'011_race_free@3' => q(
		\set k random(1, 100)
		DELETE FROM race WHERE k = (SELECT last_value::int FROM rounds) * 100 + :k;
	),
	'011_round@1' => q(SELECT nextval('rounds');) });
is(by_seq($node, 'SELECT count(*) FROM (SELECT k FROM race GROUP BY k HAVING count(*) > 1) x'), '0', 'no key twice');
cmp_ok(by_seq($node, 'SELECT count(*) FROM race'), '>', 100, 'many keys once');
check_all($node, 'after the race');

# 5. Readers see a counter grow by one at a time through the index (no lost update, no row
# missed while its entry is replaced).
$node->pgbench("--no-vacuum --client=4 --time=3", 0, [qr{actually processed}], [qr{^$}], 'updates of few rows', {
	'011_count@5' => q(
		\set k random(0, 9)
		UPDATE counter SET n = n + 1, k = k WHERE k = :k;
	),
	'011_key@2' => q(
		\set k random(0, 9)
		BEGIN;
		UPDATE counter SET k = k + 100 WHERE k = :k;
		UPDATE counter SET k = k - 100 WHERE k = :k + 100;
		COMMIT;
	),
	'011_see@2' => q(
		SELECT 1 / (count(*) = 10)::int FROM counter WHERE k BETWEEN 0 AND 9;
	) });
check_all($node, 'after the updates');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|FATAL: (?!.*due to administrator command)/, 'nothing crashed');
done_testing();

# Parallel index scans and parallel VACUUM beside writers: within one snapshot a parallel scan
# finds every row once, whatever splits, is unlinked, moved, unloaded and loaded meanwhile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# load = lazy: a scan that finds its tree gone loads it, in a worker if need be.
my $node = new_node('main', conf => "numa_migrate.load = lazy\nnuma_migrate.naptime = 50ms\nlock_timeout = 60s\nclient_min_messages = error\nmax_worker_processes = 16\nmax_parallel_workers = 8");
my $force = q(parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 3;);
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE churn (a int, b text) WITH (parallel_workers = 3);
INSERT INTO churn SELECT g * 2, 'k' || g FROM generate_series(1, 20000) g;
CREATE INDEX churn_a ON churn USING numa_btree (a);
CREATE INDEX churn_b ON churn USING numa_btree (b);
VACUUM ANALYZE churn;
-- Counts and sums by parallel scans of each kind against a sequential one.
CREATE FUNCTION same() RETURNS void LANGUAGE plpgsql AS $$
DECLARE fwd record; few record; text_ record; heap record; heap_few record; elems int[] := ARRAY(SELECT generate_series(1, 40000, 39));
BEGIN
	SET LOCAL max_parallel_workers_per_gather = 0;
	SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
	SELECT count(*) AS n, sum(a) AS s, min(a) AS lo, max(a) AS hi INTO heap FROM churn WHERE a >= 0;
	SELECT count(*) AS n, sum(a) AS s INTO heap_few FROM churn WHERE a = ANY (elems);
	SET LOCAL ) . $force =~ s/SET /SET LOCAL /gr . q(
	SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_custom_plan;
	SELECT count(*) AS n, sum(a) AS s, min(a) AS lo, max(a) AS hi INTO fwd FROM churn WHERE a >= 0;
	SELECT count(*) AS n, sum(a) AS s, min(a) AS lo, max(a) AS hi INTO text_ FROM churn WHERE b > '';
	SELECT count(*) AS n, sum(a) AS s INTO few FROM churn WHERE a = ANY (elems);
	IF fwd <> heap OR text_ <> heap OR few <> heap_few THEN RAISE 'heap % and %, indexes % % and %', heap, heap_few, fwd, text_, few; END IF;
END $$;
-- In order, without a gap in what one snapshot sees.
CREATE FUNCTION in_order() RETURNS void LANGUAGE plpgsql AS $$
DECLARE r record; last int; n int := 0; want int;
BEGIN
	SELECT count(*) INTO want FROM churn WHERE a >= 0;
	SET LOCAL ) . $force =~ s/SET /SET LOCAL /gr . q(
	SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off;
	CREATE TEMP TABLE seen ON COMMIT DROP AS SELECT row_number() OVER () AS i, a FROM (SELECT a FROM churn WHERE a >= 0 ORDER BY a DESC) x;
	PERFORM FROM (SELECT a, lag(a) OVER (ORDER BY i) AS before FROM seen) x WHERE a > before;
	IF FOUND THEN RAISE 'out of order'; END IF;
	SELECT count(*) INTO n FROM seen;
	IF n <> want THEN RAISE '% rows in order, % in all', n, want; END IF;
END $$;
));

# The plans are what they should be, and workers do start.
foreach my $q ('SELECT count(*), sum(a), min(a), max(a) FROM churn WHERE a >= 0', q(SELECT count(*), sum(a), min(a), max(a) FROM churn WHERE b > ''),
	q|SELECT count(*), sum(a) FROM churn WHERE a = ANY ('{| . join(',', map { $_ * 39 + 1 } 0 .. 999) . q|}')|)
{
	like($node->safe_psql('postgres', "SET $force SET enable_seqscan = off; SET enable_bitmapscan = off; EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $q"),
		qr/Workers Launched: [1-9].*Parallel Index (Only )?Scan using churn_/s, "parallel: " . substr($q, 0, 60));
}
$node->safe_psql('postgres', 'SELECT same(); SELECT in_order()');

$node->pgbench("--no-vacuum --client=6 --time=8", 0, [qr{actually processed}], [qr{^$}], 'parallel scans beside writers, VACUUM, unload and relocation', {
	'013_same@6' => q(
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT same();
		COMMIT;
	),
	'013_order@2' => q(
		BEGIN ISOLATION LEVEL REPEATABLE READ;
		SELECT in_order();
		COMMIT;
	),
	'013_spread@10' => q(
		\set a random(1, 40000)
		INSERT INTO churn SELECT (:a + g * 97) % 40000, 'k' || :a || g FROM generate_series(1, 20) g;
		DELETE FROM churn WHERE a IN (SELECT (:a + g * 89) % 40000 FROM generate_series(1, 60) g);
	),
	'013_range@4' => q(
		\set a random(1, 39000)
		INSERT INTO churn SELECT :a + g % 20, 'r' || :a || g FROM generate_series(1, 300) g;
		DELETE FROM churn WHERE a BETWEEN :a + 100 AND :a + 600;
	),
	'013_vacuum@1' => q(
		SELECT pg_try_advisory_lock(8)::integer AS gotlock \gset
		\if :gotlock
			SET min_parallel_index_scan_size = 0;
			VACUUM (PARALLEL 2) churn;
			SELECT pg_advisory_unlock(8);
		\endif
	),
	'013_unload@1' => q(
		SELECT pg_try_advisory_lock(9)::integer AS gotlock \gset
		\if :gotlock
			SELECT numa.btree_unload('churn_a');
			SELECT numa.move_relation('churn_b', (SELECT node FROM numa.topology() WHERE allowed AND total_bytes > 0 ORDER BY random() LIMIT 1));
			SELECT pg_advisory_unlock(9);
		\endif
	) });
check_all($node, 'after parallel scans');
same_rows($node, 'SELECT a FROM churn WHERE a > 0 ORDER BY a', 'churn_a', 'after parallel scans');

# The tree is gone when the scan begins: whoever takes the scan first loads it.
$node->safe_psql('postgres', q(SELECT numa.btree_unload('churn_a'); SELECT numa.btree_unload('churn_b')));
$node->safe_psql('postgres', q(SET parallel_leader_participation = off; SELECT same()));
is($node->safe_psql('postgres', q(SELECT string_agg(state, ',') FROM numa.stat_btree WHERE "table" = 'churn'::regclass)), 'loaded,loaded', 'loaded by parallel scans');

# Parallel VACUUM: core goes by the size of the index's file, one page, so that only a zero
# threshold gets there.
foreach my $size ('0', '512kB')
{
	my ($rc, $out, $err);
	$node->safe_psql('postgres', 'DELETE FROM churn WHERE a % 7 = 0; INSERT INTO churn SELECT g * 7, g FROM generate_series(1, 1000) g');
	$rc = $node->psql('postgres', qq(SET client_min_messages = info; SET min_parallel_index_scan_size = '$size'; VACUUM (PARALLEL 2, VERBOSE, INDEX_CLEANUP on) churn), stdout => \$out, stderr => \$err);
	my ($workers) = $err =~ /launched (\d+) parallel vacuum workers? for index vacuuming/;
	is(($workers // 0) > 0 ? 'yes' : 'no', $size eq '0' ? 'yes' : 'no', "parallel VACUUM with min_parallel_index_scan_size = $size") or diag($err);
	like($err, qr/index "churn_a": pages: \d+ in total/, 'index statistics come back from the worker');
}
is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_class WHERE relname IN ('churn_a', 'churn_b') AND reltuples = (SELECT count(*) FROM churn))), '2', 'and are right');
check_all($node, 'after parallel VACUUM');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|FATAL: (?!.*due to administrator command)/, 'nothing crashed');
done_testing();

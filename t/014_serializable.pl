# Predicate locks under load and over a restart: no two serializable transactions both see a
# range as empty and put a row into it, whatever happens to the leaves meanwhile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "max_prepared_transactions = 10\nnuma_migrate.load = lazy\nnuma_migrate.naptime = 50ms\nnuma_migrate.policy = affinity\nlock_timeout = 60s\nclient_min_messages = error\nmax_pred_locks_per_transaction = 256\nmax_pred_locks_per_relation = 1000");
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t (a int, n int);
CREATE INDEX t_a ON t USING numa_btree (a) WITH (deduplicate_items = off);
-- A row for range k unless there is one.
CREATE FUNCTION put(k int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
	PERFORM FROM t WHERE a BETWEEN k * 10 AND k * 10 + 9 AND n = 0;
	IF NOT FOUND THEN
		PERFORM pg_sleep(0.005);
		INSERT INTO t VALUES (k * 10 + (random() * 9)::int, 0);
	END IF;
END $$;
));
my %scripts = (
	'014_put@20' => q(
		\set k random(1, 200)
		BEGIN ISOLATION LEVEL SERIALIZABLE;
		SELECT put(:k);
		COMMIT;
	),
	'014_take@10' => q(
		\set k random(1, 200)
		BEGIN ISOLATION LEVEL SERIALIZABLE;
		DELETE FROM t WHERE a BETWEEN :k * 10 AND :k * 10 + 9 AND n = 0;
		COMMIT;
	),
	# leaves fill and split, become empty and are unlinked
	'014_fill@4' => q(
		\set k random(1, 200)
		INSERT INTO t SELECT :k * 10 + g % 40, 1 FROM generate_series(1, 400) g;
	),
	'014_empty@4' => q(
		\set k random(1, 400)
		DELETE FROM t WHERE a BETWEEN :k * 10 - 200 AND :k * 10 + 500 AND n = 1;
	),
	'014_vacuum@2' => q(
		SELECT pg_try_advisory_lock(8)::integer AS gotlock \gset
		\if :gotlock
			VACUUM t;
			SELECT numa.move_relation('t_a', (SELECT node FROM numa.topology() WHERE allowed AND total_bytes > 0 ORDER BY random() LIMIT 1));
			SELECT pg_advisory_unlock(8);
		\endif
	),
	'014_unload@1' => q(
		SELECT pg_try_advisory_lock(9)::integer AS gotlock \gset
		\if :gotlock
			SELECT numa.btree_unload('t_a');
			SELECT pg_advisory_unlock(9);
		\endif
	));
my $unload = delete $scripts{'014_unload@1'};
foreach my $run ('', ' and unload')
{
	if ($run)
	{
		$scripts{'014_unload@1'} = $unload;
		# with equal keys stored once, too: there are fewer leaves then, and they seldom become empty
		$node->safe_psql('postgres', 'ALTER INDEX t_a SET (deduplicate_items = on); REINDEX INDEX t_a');
	}
	# as often as it takes for leaves to be split and to become empty; the counters begin anew with each load
	my $churned = 'f';
	foreach my $try (1 .. 5)
	{
		# each run writes its scripts to files of its own
		my %now = map { $_ =~ s/^014/014$run$try/r =~ s/ and //r => $scripts{$_} } keys %scripts;
		$node->pgbench('--no-vacuum --client=12 --time=5 --max-tries=200', 0, [qr{actually processed}], [qr{^$}], "serializable transactions beside splits, VACUUM, relocation$run", \%now);
		last if $run;
		$node->safe_psql('postgres', 'DELETE FROM t WHERE n = 1; VACUUM t') if $try > 1;
		$churned = $node->safe_psql('postgres', q(SELECT splits > 100 AND deleted_pages > 0 FROM numa.btree_stats('t_a')));
		last if $churned eq 't';
	}
	cmp_ok(by_seq($node, 'SELECT count(DISTINCT a / 10) FROM t WHERE n = 0'), '>', 50, 'many ranges have a row');
	is(by_seq($node, 'SELECT count(*) FROM (SELECT a / 10 FROM t WHERE n = 0 GROUP BY 1 HAVING count(*) > 1) x'), '0', 'none has two');
	is($churned, 't', 'leaves were split and unlinked') unless $run;
}
check_all($node, 'after serializable transactions');

# The range that a prepared transaction has read stays locked over a restart, although the
# tree is another one then, if it is there at all.  Whoever inserts there, having read what a
# third one has overwritten since, must not commit.  btree shows what must come out.
my $connstr = $node->connstr('postgres');
foreach my $how ('btree', 'numa_btree', 'numa_btree, loaded')
{
	my ($am, $load) = split /, /, $how;
	my ($out, $err);
	$node->safe_psql('postgres', qq(
		DROP TABLE IF EXISTS p, y; CREATE TABLE p (a int, b text); CREATE TABLE y (n int); INSERT INTO y VALUES (0);
		CREATE INDEX p_a ON p USING $am (a);
		-- downwards, so that a load numbers the leaves in another way
		INSERT INTO p SELECT g, repeat('x', 100) FROM generate_series(20000, 1, -1) g;));
	$node->safe_psql('postgres', 'VACUUM (FREEZE, ANALYZE) p');
	my $way = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
	$node->safe_psql('postgres', "$way BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM p WHERE a BETWEEN 30000 AND 30010; PREPARE TRANSACTION 'p'");
	$node->restart;
	$node->safe_psql('postgres', q(SELECT numa.btree_load('p_a'))) if $load;
	$node->psql('postgres', qq(SET client_min_messages = error;
		BEGIN ISOLATION LEVEL SERIALIZABLE;
		SELECT n FROM y;
		\\! psql -XAtq -d "$connstr" -c "BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE y SET n = n + 1; COMMIT"
		INSERT INTO p VALUES (30005, 'new');
		COMMIT), on_error_stop => 0, stdout => \$out, stderr => \$err);
	like($err, qr/could not serialize access/, "$how: an insert into what a prepared transaction has read");
	is(by_seq($node, q(SELECT n FROM y)), '1', "$how: the third one got through");
	$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
}
check_all($node, 'after the restart');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|FATAL: (?!.*due to administrator command)/, 'nothing crashed');
done_testing();

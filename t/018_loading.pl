# Loads that stand still at a known step, where several databases or prepared transactions are
# needed, which isolationtester does not do:
# - DROP, RENAME and CREATE ... TEMPLATE of a database whose index the background is loading
#   return in less than two seconds, whatever step the load is at (CREATE in two seconds more
#   than it needs to copy the files when nobody loads);
# - CREATE INDEX CONCURRENTLY, standing in each of its phases, against transactions that are
#   prepared meanwhile.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('main', conf => "numa_migrate.naptime = 50ms\nmax_prepared_transactions = 10\nclient_min_messages = error");

# Wait until somebody stands at the point, in that database.
sub stands
{
	my ($point, $db) = @_;
	my $q = qq(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = 1
		AND classid::bigint = (hashtext('$point')::bigint & 4294967295)
		AND database = (SELECT oid FROM pg_database WHERE datname = '$db'));
	foreach (1 .. 1000)
	{
		return 1 if $node->safe_psql('postgres', $q) > 0;
		sleep(0.02);
	}
	return 0;
}

# ---- databases
$node->safe_psql('postgres', 'CREATE EXTENSION numa_migrate; CREATE DATABASE src');
$node->safe_psql('src', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, v text);
CREATE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_v ON t USING numa_btree (v);
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 20000) g;
));
my $q = 'SELECT id FROM t WHERE id > 0 ORDER BY id';
my $longest = 0;

sub timed
{
	my ($point, $db, $sql, $allow) = @_;
	ok(stands($point, $db), "$point: the loader stands there in $db");
	my $start = time;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	my $took = time - $start - ($allow // 0);
	is($rc, 0, "$point: $sql") or diag($err);
	cmp_ok($took, '<', 2, sprintf('%s: %s: %.3f s', $point, $sql, $took) . ($allow ? sprintf(' more than %.3f s', $allow) : ''));
	$longest = $took if $took > $longest;
	return;
}

my $start = time;
$node->safe_psql('postgres', 'CREATE DATABASE quiet TEMPLATE src');
my $copying = time - $start;
$node->safe_psql('postgres', 'DROP DATABASE quiet');

foreach my $point (qw(load-published load-scanned load-built load-open load-drained))
{
	# 60 s, so that who waits for the load's end fails.
	$node->safe_psql('postgres', "ALTER DATABASE src SET numa_migrate.debug_stop = '$point\@60'");
	# After a start the background loads what there is.
	$node->restart;
	timed($point, 'src', 'CREATE DATABASE copy TEMPLATE src', $copying);
	timed($point, 'src', 'ALTER DATABASE src RENAME TO other');
	timed($point, 'other', 'ALTER DATABASE other RENAME TO src');
	$node->safe_psql('postgres', 'ALTER DATABASE src RESET numa_migrate.debug_stop');
	$node->safe_psql('postgres', "ALTER DATABASE copy SET numa_migrate.debug_stop = '$point\@60'");
	# The loader stands in src, still; then the copy's turn comes.
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'numa_migrate loader'");
	foreach (1 .. 200)
	{
		$node->safe_psql('copy', "EXPLAIN $q");
		last if $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'numa_migrate loader' AND datname = 'copy'") > 0;
		sleep(0.1);
	}
	timed($point, 'copy', 'DROP DATABASE copy');
	same_rows($node, $q, 't_id', "$point: the index answers", 'src');
	check_all($node, "$point", 'src');
}
note(sprintf('the longest of them took %.3f s', $longest));
is($node->safe_psql('postgres', "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE datallowconn"), 'postgres src template1', 'no half-dropped database');

# ---- prepared transactions
my $ctl = $node->background_psql('postgres', on_error_stop => 0);
foreach my $point (qw(build-begun build-scanned vacuum-copied))
{
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		$node->safe_psql('postgres', q(
DROP TABLE IF EXISTS c;
CREATE TABLE c (a int, n int) WITH (autovacuum_enabled = off);
INSERT INTO c SELECT g, 0 FROM generate_series(1, 1300) g;
));
		$ctl->query("SELECT pg_advisory_lock(hashtext('$point'), 0)");
		my $cic = $node->background_psql('postgres', on_error_stop => 0);
		$cic->query_until(qr/begins/, "SET numa_migrate.debug_stop = '$point';\n\\echo begins\nCREATE INDEX CONCURRENTLY c_a ON c USING numa_btree (a);\n");
		ok(stands($point, 'postgres'), "$point: the build stands there");
		$node->safe_psql('postgres', qq(
BEGIN;
INSERT INTO c SELECT g, 2 FROM generate_series(2001, 2300) g;
UPDATE c SET a = a + 5000 WHERE a BETWEEN 300 AND 310;
UPDATE c SET n = 3 WHERE a BETWEEN 400 AND 410;
DELETE FROM c WHERE a BETWEEN 500 AND 509;
PREPARE TRANSACTION 'p'));
		$ctl->query('SELECT pg_advisory_unlock_all()');
		if ($point ne 'vacuum-copied')
		{
			# The later phases wait for it.
			ok($node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND locktype IN ('virtualxid', 'transactionid')"),
				"$point: the build waits for the prepared transaction");
		}
		$node->safe_psql('postgres', "$end PREPARED 'p'");
		end_session($cic);
		ok($node->poll_query_until('postgres', "SELECT indisvalid FROM pg_index WHERE indexrelid = 'c_a'::regclass"), "$point, $end PREPARED: the index is valid");
		same_rows($node, 'SELECT a, n FROM c WHERE a > 0 ORDER BY a', 'c_a', "$point, $end PREPARED");
		is($node->safe_psql('postgres', 'SELECT count(*) FROM c'), $end eq 'COMMIT' ? '1590' : '1300', "$point, $end PREPARED: rows");
		check_all($node, "$point, $end PREPARED");
	}
}
end_session($ctl);
# A table that a prepared transaction has locked, for who knows how long, keeps no other index out after a restart.
$node->safe_psql('postgres', q(
CREATE TABLE held (a int); CREATE INDEX held_a ON held USING numa_btree (a); INSERT INTO held SELECT generate_series(1, 1000);
CREATE TABLE beside (a int); CREATE INDEX beside_a ON beside USING numa_btree (a); INSERT INTO beside SELECT generate_series(1, 1000);
CREATE DATABASE far;
));
$node->safe_psql('far', 'CREATE EXTENSION numa_migrate; CREATE TABLE far AS SELECT generate_series(1, 1000) AS a; CREATE INDEX far_a ON far USING numa_btree (a)');
$node->safe_psql('postgres', q(BEGIN; LOCK TABLE held IN ACCESS EXCLUSIVE MODE; INSERT INTO held VALUES (1001); PREPARE TRANSACTION 'hold'));
$node->restart;
same_rows($node, 'SELECT a FROM beside WHERE a > 0 ORDER BY a', 'beside_a', 'a locked table: another is loaded');
same_rows($node, 'SELECT a FROM far WHERE a > 0 ORDER BY a', 'far_a', 'a locked table: one of another database is loaded', 'far');
$node->safe_psql('postgres', q(COMMIT PREPARED 'hold'));
same_rows($node, 'SELECT a FROM held WHERE a > 0 ORDER BY a', 'held_a', 'and it is when the lock is gone');

$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

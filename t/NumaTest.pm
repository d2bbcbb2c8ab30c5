# Common parts of the TAP tests.
package NumaTest;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(new_node by_index by_seq same_rows planned wait_planned check_all
  worker_pid wait_worker committed fails_like
  end_session);

# A server with numa_migrate preloaded, small and quiet. install_path: of another version.
sub new_node
{
	my ($name, %opt) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $opt{install_path} ? (install_path => $opt{install_path}) : ());

	$node->init(%{ $opt{init} // {} });
	$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'numa_migrate'
shared_buffers = 32MB
autovacuum = off
numa_migrate.max_memory = 512MB
log_line_prefix = '%m [%p] %b '
));
	$node->append_conf('postgresql.conf', $opt{conf}) if $opt{conf};
	$node->start unless $opt{nostart};
	return $node;
}

my %way = (
	index => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;',
	seq => 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;');

# The answer of a query, forced through an index or past it.
sub by_index { my ($node, $q, $db) = @_; return $node->safe_psql($db // 'postgres', "$way{index} $q"); }
sub by_seq { my ($node, $q, $db) = @_; return $node->safe_psql($db // 'postgres', "$way{seq} $q"); }

# Whether a query's plan, forced towards indexes, uses this one.
sub planned
{
	my ($node, $q, $index, $db) = @_;
	my $plan = by_index($node, "EXPLAIN (COSTS OFF) $q", $db);
	return $plan =~ /\b(?:using|on) $index\b/ ? 1 : 0;
}

# Wait until the index is in plans (again), as after a start with load = eager.
sub wait_planned
{
	my ($node, $q, $index, $db) = @_;
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $end)
	{
		return 1 if planned($node, $q, $index, $db);
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

# One test: the query goes through the index and gives what a sequential scan gives.
sub same_rows
{
	my ($node, $q, $index, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	if (!wait_planned($node, $q, $index, $db))
	{
		fail("$what: $index is not used");
		return;
	}
	is(by_index($node, $q, $db), by_seq($node, $q, $db), $what);
}

# One test: numa.btree_check of every numa_btree index of the database.
sub check_all
{
	my ($node, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql($db // 'postgres', q(
SELECT count(numa.btree_check(c.oid::regclass, true) IS NULL)
FROM pg_class c JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'numa_btree' AND c.relkind = 'i' AND NOT pg_is_other_temp_schema(c.relnamespace)));
	ok($rc == 0 && $out > 0, "$what: btree_check") or diag("exit $rc, $out indexes\n$err");
}

# Wait for the end of a background psql whose backend is gone or about to go. What it had
# still to send may meet a closed pipe, which is no fault of what is tested.
sub end_session
{
	my ($session) = @_;
	eval { $session->{run}->finish; 1 } or diag("psql ended by itself: $@");
	return;
}

# Process ID of the background worker, '' if it does not run or the server does not answer.
sub worker_pid
{
	my ($node) = @_;
	my ($rc, $pid) = $node->psql('postgres', 'SELECT pid FROM numa.stat_migrator');
	return $rc == 0 ? $pid : '';
}

# Wait until a worker runs whose process is not $old; its PID, or ''. The server may
# be down, or about to notice that a process was killed.
sub wait_worker
{
	my ($node, $old) = @_;
	foreach my $i (1 .. 300)
	{
		my $pid = worker_pid($node);
		return $pid if $pid ne '' && $pid ne ($old // '') && kill(0, $pid);
		select(undef, undef, undef, 0.1);
	}
	return '';
}

# One test: a statement fails with this SQLSTATE and, if given, a message.
sub fails_like
{
	my ($node, $sql, $state, $re, $what, $db) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $out, $err) = $node->psql($db // 'postgres', "\\set VERBOSITY verbose\n$sql");
	if ($rc == 0) { fail("$what: no error"); return; }
	like($err, qr/ERROR:  $state: .*$re/s, $what);
}

1;

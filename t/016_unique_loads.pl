# Conflicting inserts that wait for the load of a table's first unique index, while the second has
# been loaded with both their rows: one gets in, the other hears of the duplicate, not of a deadlock.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "numa_migrate.load = lazy\nclient_min_messages = error\ndeadlock_timeout = 50ms\nlock_timeout = 60s\nmax_parallel_maintenance_workers = 0");
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE FUNCTION hold(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF a = 1 THEN PERFORM pg_advisory_lock_shared(88); PERFORM pg_advisory_unlock_shared(88); END IF;
	RETURN a;
END $$;
CREATE TABLE two (a int, b int, pad text);
INSERT INTO two SELECT g, g, repeat('x', 400) FROM generate_series(1, 200) g;
CREATE UNIQUE INDEX two_a ON two USING numa_btree (hold(a));
CREATE UNIQUE INDEX two_b ON two USING numa_btree (b);
));

sub start
{
	my ($sql) = @_;
	my %s = (out => '', err => '');
	$s{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', $sql ], '<', \undef, '>', \$s{out}, '2>', \$s{err});
	return \%s;
}
sub waiting
{
	my ($n) = @_;
	$node->poll_query_until('postgres', "SELECT count(*) = $n FROM pg_locks WHERE NOT granted") or die 'nobody waits';
}

foreach my $round (1 .. 5)
{
	my ($in, $out, $err) = ("SELECT pg_advisory_lock(88);\nSELECT 'held';\n", '', '');
	$node->safe_psql('postgres', q(SELECT numa.btree_unload('two_a'); SELECT numa.btree_unload('two_b')));
	my $holder = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
	$holder->pump until $out =~ /held/;

	# the loader stands still on the first page, the new rows go to the last one
	my $loader = start(q(SELECT numa.btree_load('two_a')));
	waiting(1);
	my @inserts = map { start("INSERT INTO two VALUES (-$round, -$round, 'by $_')") } 1 .. 3;
	waiting(4);
	is($node->safe_psql('postgres', q(SELECT numa.btree_load('two_b'))), 't', 'the second index is loaded');
	$in = "SELECT pg_advisory_unlock(88);\n\\q\n";
	$holder->finish;
	$_->{run}->finish foreach $loader, @inserts;

	my @errors = map { $_->{err} =~ /ERROR:  (\w+): / ? $1 : 'none' } @inserts;
	is(join(' ', sort @errors), '23505 23505 none', 'one insert gets in, the others are duplicates');
	is($node->safe_psql('postgres', "SELECT count(*) FROM two WHERE a = -$round"), '1', 'one row is there');
}
check_all($node, 'after conflicts');
$node->stop;
done_testing();

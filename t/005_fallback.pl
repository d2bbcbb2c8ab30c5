# Kernel calls: without move_pages2 the stock call is used, without CAP_SYS_NICE what can be
# moved is moved, and each time the user is told.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main');
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, pad text);
INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series(1, 20000) g;
CREATE INDEX t_id ON t USING numa_btree (id);
SELECT count(*) FROM t;
));
sub doctor { my ($item) = @_; return $node->safe_psql('postgres', "SELECT ok FROM numa.doctor() WHERE item = '$item'"); }
my $sums = 'asked = moved + already + busy + denied + absent + failed';
my $target = $node->safe_psql('postgres', 'SELECT max(node) FROM numa.topology() WHERE allowed AND total_bytes > 0');
my $nodes = $node->safe_psql('postgres', 'SELECT count(*) FROM numa.topology() WHERE allowed AND total_bytes > 0');

my $has_mp2 = doctor('move_pages2') eq 't';
my $has_cap = doctor('CAP_SYS_NICE') eq 't';
# The test's own view of what this process may do.
my $eff = slurp_file('/proc/self/status') =~ /^CapEff:\s*([0-9a-f]+)/m ? hex($1) : 0;
is($has_cap, !!($eff & (1 << 23)), 'the doctor sees the capability as it is');
is($has_mp2, -e '/sys/kernel/mm/move_pages2/abi' || glob('/sys/kernel/mm/*move_pages2*') ? !!1 : !!0, 'the doctor sees the kernel call as it is');

SKIP:
{
	skip 'this kernel has move_pages2', 4 if $has_mp2;
	is($node->safe_psql('postgres', q(SELECT hint <> '' FROM numa.doctor() WHERE item = 'move_pages2')), 't', 'without the call: a hint');
	like($node->safe_psql('postgres', q(SELECT detail FROM numa.doctor() WHERE item = 'engine')), qr/move_pages\b/, 'without the call: move_pages serves');
	$node->append_conf('postgresql.conf', 'numa_migrate.engine = move_pages2');
	$node->reload;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT $sums FROM numa.move_relation('t', $target)");
	is($out, 't', 'engine = move_pages2 without the call: falls back');
	like($err, qr/move_pages2 is not available/, 'and says so');
	$node->adjust_conf('postgresql.conf', 'numa_migrate.engine', 'auto');
	$node->reload;
}
SKIP:
{
	skip 'this server holds CAP_SYS_NICE', 1 if $has_cap;
	is($node->safe_psql('postgres', q(SELECT hint LIKE '%CAP_SYS_NICE%' FROM numa.doctor() WHERE item = 'CAP_SYS_NICE')), 't', 'without the capability: a hint');
}
SKIP:
{
	skip 'needs two memory nodes and no CAP_SYS_NICE', 2 if $nodes < 2 || $has_cap;
	# Another session has the pages mapped too.
	my $other = $node->background_psql('postgres');
	$other->query_safe('SELECT count(*) FROM t');
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT $sums, denied > 0 FROM numa.move_relation('t', $target)");
	is($out, 't|t', 'pages of several processes are denied and counted so');
	like($err, qr/CAP_SYS_NICE/, 'with the reason');
	$other->quit;
}
is($node->safe_psql('postgres', "SET client_min_messages = error; SELECT $sums, asked > 0 FROM numa.move_relation('t', $target)"), 't|t', 'every page asked for has an outcome');
# Tree pages move without any call or capability.
is($node->safe_psql('postgres', "SELECT asked > 0, denied, failed FROM numa.move_relation('t_id', $target)"), 't|0|0', 'tree pages need no privilege');
is($node->safe_psql('postgres', "SELECT bool_and(node = $target) FROM numa.relation_placement('t_id')"), 't', 'and all are there, by the kernel\'s word');

# engine = off: buffers stay, trees can move.
$node->append_conf('postgresql.conf', 'numa_migrate.engine = off');
$node->reload;
fails_like($node, "SELECT numa.move_relation('t', $target)", '55000', qr/engine.*HINT/s, 'engine off: a clear error for a table');
is($node->safe_psql('postgres', "SELECT asked > 0 FROM numa.move_relation('t_id', $target)"), 't', 'engine off: trees move');
check_all($node, 'after the moves');

# Settings that name what is not built are refused, the server keeps what it had.
foreach my $set ('snapshot = on', 'postcopy = next_touch', 'restore = on_demand')
{
	fails_like($node, "ALTER SYSTEM SET numa_migrate.$set", '22023', 'not supported', "$set is refused");
}

# old_snapshot_threshold prunes rows that a snapshot may still look for: no plan uses the
# index while it is on (before 17, which has no such setting).
SKIP:
{
	skip 'this version has no old_snapshot_threshold', 4 if $node->pg_version >= 17;
	$node->append_conf('postgresql.conf', 'old_snapshot_threshold = 10min');
	$node->restart;
	is($node->safe_psql('postgres', q(SELECT ok, hint <> '' FROM numa.doctor() WHERE item = 'old_snapshot_threshold')), 'f|t', 'old_snapshot_threshold: the doctor says so');
	is(planned($node, 'SELECT id FROM t WHERE id = 5', 't_id'), 0, 'old_snapshot_threshold: not planned');
	is(by_index($node, 'SELECT count(*) FROM t WHERE id < 100'), '99', 'old_snapshot_threshold: queries answer');
	is($node->psql('postgres', q(INSERT INTO t VALUES (0); SELECT numa.btree_check('t_id'))), 0, 'old_snapshot_threshold: inserts work');
}
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

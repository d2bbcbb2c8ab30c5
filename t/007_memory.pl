# numa_migrate.memory_limit reached: an error and nothing lost, or with when_full = unload
# the index goes out of memory and writes go on.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "numa_migrate.memory_limit = 16MB\nnuma_migrate.naptime = 50ms");
my $full = qr/out of memory for numa_btree pages.*HINT:  Raise numa_migrate.memory_limit/s;
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE small (a int); CREATE UNIQUE INDEX small_a ON small USING numa_btree (a); INSERT INTO small SELECT generate_series(1, 1000);
CREATE TABLE t (a int, t text); CREATE INDEX t_t ON t USING numa_btree (t);
));
my $q = q(SELECT t FROM t WHERE t > '' ORDER BY t);
my $text = q(INSERT INTO t SELECT g, md5(g::text) || repeat('x', 300) FROM generate_series(%d, %d) g);

# Insert until it is full: 53200, and what was committed before is all there.
my ($rc, $out, $err, $n) = (0, '', '', 0);
while ($rc == 0 && $n < 200)
{
	($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n" . sprintf($text, $n * 1000 + 1, ($n + 1) * 1000));
	$n++ if $rc == 0;
}
cmp_ok($n, '>', 5, "some inserts fit ($n)");
like($err, qr/ERROR:  53200: $full/, 'then 53200 with a hint');
is(by_seq($node, 'SELECT count(*) FROM t'), $n * 1000, 'the table has what was committed');
same_rows($node, $q, 't_t', 'the index too');
check_all($node, 'full');
# Reading, deleting, other statements go on; a big build is refused and leaves nothing.
is($node->psql('postgres', 'SELECT count(*) FROM small; DELETE FROM t WHERE a <= 100; VACUUM t'), 0, 'reads, deletes and VACUUM work');
fails_like($node, 'CREATE INDEX t_big ON t USING numa_btree (t, a)', '53200', $full, 'CREATE INDEX');
is($node->safe_psql('postgres', q(SELECT to_regclass('t_big') IS NULL)), 't', 'the failed index is not there');
same_rows($node, $q, 't_t', 'after the failed build');
# Raised by a reload: it goes on.
$node->adjust_conf('postgresql.conf', 'numa_migrate.memory_limit', '64MB');
$node->reload;
ok($node->poll_query_until('postgres', q(SELECT current_setting('numa_migrate.memory_limit') = '64MB')), 'reloaded');
is($node->psql('postgres', sprintf($text, 900001, 901000)), 0, 'inserts go on after the limit is raised');
same_rows($node, $q, 't_t', 'after the limit was raised');

# when_full = unload: the insert goes on, the index is out, queries find another way.
$node->adjust_conf('postgresql.conf', 'numa_migrate.memory_limit', '16MB');
$node->append_conf('postgresql.conf', 'numa_migrate.when_full = unload');
$node->restart;
$rc = 0;
foreach my $i (1 .. 40)
{
	($rc, $out, $err) = $node->psql('postgres', sprintf($text, 2000000 + $i * 1000, 2000999 + $i * 1000));
	last if $rc;
}
is($rc, 0, 'unload: inserts never fail') or diag($err);
# "failed" if a query has asked for it meanwhile.
like($node->safe_psql('postgres', q(SELECT state FROM numa.btree_stats('t_t'))), qr/^(not loaded|failed)$/, 'unload: the index is out of memory');
is(by_index($node, q(SELECT count(*) FROM t WHERE t > '')), by_seq($node, 'SELECT count(*) FROM t'), 'unload: queries answer');
is($node->psql('postgres', 'UPDATE t SET a = a + 1 WHERE a < 500; DELETE FROM t WHERE a > 2030000; VACUUM t'), 0, 'unload: updates, deletes and VACUUM work');
# A unique index is never unloaded for that: it would not be unique then.
fails_like($node, 'INSERT INTO small SELECT generate_series(2000, 5000000)', '53200', $full, 'unload: a unique index gives the error all the same');
fails_like($node, 'INSERT INTO small VALUES (5)', '23505', 'small_a', 'unload: and stays unique');
# A load that does not fit says so, and where it is seen.
fails_like($node, q(SELECT numa.btree_load('t_t')), '53200', $full, 'a load that does not fit');
is($node->safe_psql('postgres', q(SELECT state, fail_text <> '' FROM numa.stat_btree WHERE index = 't_t'::regclass)), 'failed|t', 'and the view has the reason');
is($node->psql('postgres', sprintf($text, 3000001, 3000100)), 0, 'inserts go on');
$node->adjust_conf('postgresql.conf', 'numa_migrate.memory_limit', '200MB');
$node->reload;
ok($node->poll_query_until('postgres', q(SELECT current_setting('numa_migrate.memory_limit') = '200MB')), 'reloaded');
is($node->psql('postgres', q(SELECT numa.btree_load('t_t'))), 0, 'a load after the limit is raised');
same_rows($node, $q, 't_t', 'loaded after the limit was raised');
check_all($node, 'after the limit was raised');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

# The background worker: it is there, comes back, follows the configuration, goes with the
# server, and can be gone without harm.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('main', conf => "numa_migrate.naptime = 50ms\nnuma_migrate.policy = affinity\nnuma_migrate.sample_rate = 1");
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int);
CREATE INDEX t_id ON t USING numa_btree (id);
INSERT INTO t SELECT generate_series(1, 20000);
));

my $pid = wait_worker($node);
ok($pid ne '', 'the worker runs');
like(slurp_file("/proc/$pid/cmdline"), qr/numa_migrate/, 'ps shows what it is');
is($node->safe_psql('postgres', q(SELECT ok FROM numa.doctor() WHERE item = 'worker slot')), 't', 'the doctor sees it');
ok($node->poll_query_until('postgres', 'SELECT rounds > 3 FROM numa.stat_migrator'), 'it works in rounds');

# SIGTERM: https://github.com/citusdata/pg_cron/issues/99 (exit 0 and never again).
kill('TERM', $pid);
my $again = wait_worker($node, $pid);
ok($again ne '' && $again ne $pid, 'it comes back after SIGTERM');

# Its session is no obstacle: https://github.com/citusdata/citus/issues/1579 and others.
$node->safe_psql('postgres', 'CREATE DATABASE a');
$node->safe_psql('a', q(CREATE EXTENSION numa_migrate; CREATE TABLE x AS SELECT generate_series(1, 20000) AS i; CREATE INDEX x_i ON x USING numa_btree (i)));
foreach my $sql ('ALTER DATABASE a RENAME TO b', 'CREATE DATABASE c TEMPLATE b', 'DROP DATABASE c', 'DROP DATABASE b')
{
	my $start = time;
	is($node->psql('postgres', $sql), 0, $sql);
	cmp_ok(time - $start, '<', 5, "$sql: in time");
}

# Queries and the worker at once, all of it sampled, the tree moved about.
my $b = $node->background_psql('postgres');
$b->query_safe('SET enable_seqscan = off; SET enable_bitmapscan = off');
foreach my $i (1 .. 20)
{
	$b->query_safe("SELECT count(*) FROM t WHERE id BETWEEN $i AND 15000");
	$node->safe_psql('postgres', "INSERT INTO t SELECT generate_series(1, 500); DELETE FROM t WHERE id = $i");
}
$b->quit;
same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'queries beside the worker');
check_all($node, 'beside the worker');
is($node->safe_psql('postgres', 'SELECT samples > 0 FROM numa.stat_migrator'), 't', 'it has got samples');

# Settings follow a reload; the worker is the same process.
$node->adjust_conf('postgresql.conf', 'numa_migrate.policy', 'off');
$node->adjust_conf('postgresql.conf', 'numa_migrate.naptime', '20ms');
$node->reload;
my $rounds = $node->safe_psql('postgres', 'SELECT rounds FROM numa.stat_migrator');
ok($node->poll_query_until('postgres', "SELECT rounds > $rounds + 10 FROM numa.stat_migrator"), 'it goes on after a reload');
is(worker_pid($node), $again, 'and is still the same process');
$node->adjust_conf('postgresql.conf', 'numa_migrate.naptime', '1h');
$node->reload;
sleep(0.3);
my $start = time;
$node->stop('fast');
# "Fix crash in autoprewarm" https://postgr.es/m/20240122204117.swton324xcoodnyi%40awork3.anarazel.de
cmp_ok(time - $start, '<', 10, 'a fast stop does not wait for a nap');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal|exited with exit code [^01]/, 'the worker ended cleanly');

# kill -9 of the worker restarts the server; everything comes back.
$node->adjust_conf('postgresql.conf', 'numa_migrate.naptime', '50ms');
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->start;
$pid = wait_worker($node);
kill('KILL', $pid);
$again = wait_worker($node, $pid);
ok($again ne '' && $again ne $pid, 'it comes back after kill -9');
same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'after kill -9 of the worker');
check_all($node, 'after kill -9 of the worker');

# The postmaster dies: https://github.com/citusdata/pg_cron/pull/15 (a sleep ignored it).
$pid = wait_worker($node);
$node->kill9;
my $gone = 0;
foreach (1 .. 100) { $gone = !kill(0, $pid); last if $gone; sleep(0.1); }
ok($gone, 'the worker goes with the postmaster');
$node->start;
same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'after the postmaster was killed');

# All worker slots taken: https://github.com/citusdata/pg_cron/issues/282, /253, /144 and
# https://github.com/timescale/timescaledb/issues/7602 (silence, or a flood in the log).
$node->append_conf('postgresql.conf', 'max_worker_processes = 0');
my $size = -s $node->logfile;
$node->restart;
is($node->safe_psql('postgres', q(SELECT ok, hint LIKE '%max_worker_processes%' FROM numa.doctor() WHERE item = 'worker slot')), 'f|t', 'no slot: the doctor says so');
is($node->safe_psql('postgres', q(SELECT pid IS NULL FROM numa.stat_migrator)), 't', 'no slot: the view shows no worker');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id = 30'), $node->safe_psql('postgres', 'SELECT count(*) FROM t WHERE id + 0 = 30'), 'no slot: queries work');
is($node->psql('postgres', q(SELECT numa.btree_load('t_id'))), 0, 'no slot: a load by hand works in the session itself');
same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'no slot: loaded all the same');
is($node->psql('postgres', 'INSERT INTO t VALUES (1)'), 0, 'no slot: inserts work');
check_all($node, 'no slot');
sleep(2);
my $log = substr(slurp_file($node->logfile), $size);
my $lines = () = $log =~ /worker/gi;
cmp_ok($lines, '<', 20, 'no slot: no flood in the log');
$node->stop;
done_testing();

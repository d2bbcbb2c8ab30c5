# Public reports about other extensions, and fixes of core, that have no better place; see
# "Public reports" in test/server/README.md for all.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# A server that uses its shared memory up: what we take must have been asked for.
# https://github.com/pgvector/pgvector/issues/602, https://github.com/pgroonga/pgroonga/issues/969
my $node = new_node('main', nostart => 1, conf => q(
max_connections = 400
max_locks_per_transaction = 1024
max_prepared_transactions = 200
max_worker_processes = 60
));
$node->start;
my ($version) = $node->safe_psql('postgres', 'SHOW server_version_num') =~ /^(\d+)\d{4}$/;
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (a int, b text);
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 30000) g;
CREATE INDEX t_a ON t USING numa_btree (a);
CREATE INDEX t_b ON t USING numa_btree (b);
));
same_rows($node, 'SELECT a FROM t WHERE a < 100 ORDER BY a', 't_a', 'a server with much shared memory');

# Memory of one's own that a process keeps, in kB.
sub own_memory
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /^RssAnon:\s+(\d+) kB/m;
	return $kb;
}

# One session builds, loads and vacuums again and again and does not grow.
# https://github.com/orioledb/orioledb/issues/294 (CREATE INDEX), https://github.com/postgrespro/rum/issues/19 (VACUUM)
my $s = $node->background_psql('postgres');
$s->set_query_timer_restart();
my $pid = $s->query_safe('SELECT pg_backend_pid()');
my %work = (
	'CREATE INDEX' => [ 'CREATE INDEX t_x ON t USING numa_btree (b, a)', 'DROP INDEX t_x' ],
	'load' => [ q(SELECT numa.btree_unload('t_b')), q(SELECT numa.btree_load('t_b')) ],
	'VACUUM' => [ 'UPDATE t SET a = a + 1', 'VACUUM t' ]);
foreach my $what (sort keys %work)
{
	my $round = sub { foreach my $sql (@{ $work{$what} }) { $s->query_safe($sql); } };
	$round->() foreach 1 .. 2;
	my $before = own_memory($pid);
	$round->() foreach 1 .. 8;
	my $grown = own_memory($pid) - $before;
	# A leak of what one round handles, 30,000 keys of 32 bytes, would be 8 MB in eight.
	cmp_ok($grown, '<', 4000, "$what again and again: the process does not grow ($grown kB)");
}
$s->quit;

# A build stays within maintenance_work_mem, and uses it. https://github.com/pgvector/pgvector/issues/7
# (builds that take what they like bring the server down)
$node->safe_psql('postgres', 'CREATE TABLE w AS SELECT g AS a, md5(g::text) AS b FROM generate_series(1, 300000) g');
sub build_memory
{
	my ($mb, $column) = @_;
	my $most = 0;
	my @sql = ("SET application_name = 'builder'", 'SET max_parallel_maintenance_workers = 0', "SET maintenance_work_mem = '${mb}MB'", "CREATE INDEX w_i ON w USING numa_btree ($column)", 'DROP INDEX w_i');
	my $build = IPC::Run::start([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), map { ('-c', $_) } @sql ], '>', \my $out, '2>', \my $err);
	my $pid = '';
	foreach (1 .. 100) { $pid = $node->safe_psql('postgres', q(SELECT pid FROM pg_stat_activity WHERE application_name = 'builder')); last if $pid ne ''; }
	# until it has ended
	while (my $now = eval { own_memory($pid) }) { $most = $now if $now > $most; select(undef, undef, undef, 0.003); }
	$build->finish or diag($err);
	return $most;
}
foreach my $column (qw(a b))
{
	my $small = build_memory(2, $column);
	# a session has some 3 MB without a build
	cmp_ok($small, '<', 8 * 1024, "build on $column with 2 MB: at most $small kB of its own");
	cmp_ok(build_memory(64, $column), '>', $small + 4 * 1024, 'with 64 MB it takes more') if $column eq 'b';
}

# What a VACUUM leaves does not slow inserts down: as many pages are read as before.
# https://github.com/pgvector/pgvector/issues/1025 (each insert walked the whole index)
$node->safe_psql('postgres', 'CREATE TABLE v (a int); CREATE INDEX v_a ON v USING numa_btree (a); INSERT INTO v SELECT generate_series(1, 200000)');
sub insert_ms
{
	my @ms;
	foreach my $from (300001, 310001, 320001)
	{
		push @ms, $node->safe_psql('postgres', "CREATE TEMP TABLE ms AS SELECT clock_timestamp() AS t0; INSERT INTO v SELECT generate_series($from, $from + 9999); SELECT extract(epoch FROM clock_timestamp() - t0) * 1000 FROM ms");
		$node->safe_psql('postgres', "DELETE FROM v WHERE a >= $from; VACUUM v");
	}
	return (sort { $a <=> $b } @ms)[0];
}
my $before = insert_ms();
$node->safe_psql('postgres', $_) foreach ('DELETE FROM v WHERE a < 199000', 'VACUUM v');
my $after = insert_ms();
# Walking the 800 leaves that were there would take hundreds of times as long.
cmp_ok($after, '<', 20 * $before + 100, "inserts after a VACUUM that emptied the index: $after ms, before $before ms");
check_all($node, 'vacuumed');

# A parallel scan over leaves that were emptied, some unlinked, some not.
# "Fix parallel index scan hang with deleted or half-dead pages"
# http://postgr.es/m/CAEepm=2xZUcOGP9V0O_G0=2P2wwXwPrkF=upWTCJSisUxMnuSg@mail.gmail.com
$node->safe_psql('postgres', $_) foreach ('INSERT INTO v SELECT generate_series(400001, 500000)', 'DELETE FROM v WHERE a BETWEEN 410000 AND 499000 AND a % 3000 <> 0', 'VACUUM v', 'DELETE FROM v WHERE a % 3000 = 0');
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0; SET max_parallel_workers_per_gather = 3; SET enable_seqscan = off; SET enable_bitmapscan = off; ALTER TABLE v SET (parallel_workers = 3);';
like($node->safe_psql('postgres', "$parallel EXPLAIN SELECT count(*), sum(a) FROM v WHERE a > 0"), qr/Parallel Index/, 'a parallel scan');
is($node->safe_psql('postgres', "$parallel SET statement_timeout = '60s'; SELECT count(*), sum(a) FROM v WHERE a > 0"), by_seq($node, 'SELECT count(*), sum(a) FROM v WHERE a > 0'), 'a parallel scan over emptied leaves');

# The planner asks an index for its ends (from 18 on also ours), whatever it can return.
# "Check that index can return in get_actual_variable_range()"
$node->safe_psql('postgres', q(
CREATE TABLE ends (t text, n numeric); INSERT INTO ends SELECT 'Row ' || g, g FROM generate_series(1, 2000) g;
CREATE INDEX ends_low ON ends USING numa_btree (lower(t)); CREATE INDEX ends_up ON ends USING numa_btree ((upper(t)) DESC) INCLUDE (n); CREATE INDEX ends_n ON ends USING numa_btree (n);
ANALYZE ends; INSERT INTO ends SELECT 'Rox ' || g, -g FROM generate_series(1, 100) g;));
is($node->psql('postgres', "EXPLAIN SELECT FROM ends WHERE $_"), 0, "planning with the ends of an index: $_")
  foreach (q(lower(t) > 'rox 5'), q(upper(t) < 'A'), 'n < -5', q(lower(t) < 'b' AND n > 10000), 'n > (SELECT max(n) FROM ends)');

# ON CONFLICT while its arbiter is built anew. Core: "Fix infer_arbiter_index during concurrent
# index operations". Before 18 there is no ON CONFLICT by an index of ours (sql/oncore.sql), so
# the arbiter is a btree there and ours is rebuilt beside it.
my $unique = $version >= 18 ? 'UNIQUE' : '';
$node->safe_psql('postgres', "SET client_min_messages = error; CREATE TABLE up (k int, n int); CREATE $unique INDEX up_k ON up USING numa_btree (k);" . ($unique ? '' : ' CREATE UNIQUE INDEX up_bt ON up (k);'));
my $rebuild = IPC::Run::start(
	[ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres') ],
	'<', \join("\n", ('REINDEX INDEX CONCURRENTLY up_k;') x 30), '>', \my $out, '2>', \my $err);
$node->pgbench('--no-vacuum --client=3 --transactions=500', 0, [qr/actually processed/], [qr/^$/], 'ON CONFLICT beside REINDEX CONCURRENTLY',
	{ '022_upsert' => q(
\set k random(1, 60)
INSERT INTO up VALUES (:k, 1) ON CONFLICT (k) DO UPDATE SET n = up.n + 1;
) });
ok($rebuild->finish, 'REINDEX CONCURRENTLY went through') or diag($err);
is($node->safe_psql('postgres', 'SELECT sum(n), count(*) = count(DISTINCT k) FROM up'), '1500|t', 'each counted once, no key twice');
check_all($node, 'ON CONFLICT beside REINDEX CONCURRENTLY');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

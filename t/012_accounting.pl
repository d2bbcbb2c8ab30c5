# Memory comes back: after each way in which an index can go, the pool is as large as before.
# https://github.com/tensorchord/pgvecto.rs/issues/432 (the list: committed drop, aborted
# create, killed session, temporary, unlogged, reindex), https://github.com/orioledb/orioledb/issues/591.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node('main', conf => "numa_migrate.naptime = 20ms\nmax_prepared_transactions = 5");
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE src AS SELECT g AS a, md5(g::text) AS b FROM generate_series(1, 40000) g;
CREATE TABLE keep (a int); CREATE INDEX keep_a ON keep USING numa_btree (a); INSERT INTO keep VALUES (1);
));

mkdir($node->basedir . '/sp') or die;
$node->safe_psql('postgres', "CREATE TABLESPACE sp LOCATION '" . $node->basedir . "/sp'");

# Bytes in pages that are in use, and bytes that are committed.
sub used { return $node->safe_psql('postgres', 'SELECT sum(used_bytes) FROM numa.stat_pool'); }
sub committed { return $node->safe_psql('postgres', 'SELECT sum(committed_bytes) FROM numa.stat_pool'); }
my $start = used();
# An arena may keep one idle chunk of 2 MB.
my $most = committed() + 2 * 1024 * 1024 * $node->safe_psql('postgres', 'SELECT count(*) FROM numa.stat_pool');
my $big = 'CREATE INDEX x_b ON x USING numa_btree (b); CREATE INDEX x_a ON x USING numa_btree (a)';
my $make = "CREATE TABLE x AS TABLE src; $big";

sub returns
{
	my ($what, $roots) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $now;
	# An empty tree is one page.
	my $want = $start + 4096 * ($roots // 0);
	foreach (1 .. 200) { $now = used(); last if $now <= $want && committed() <= $most; sleep(0.05); }
	is($now, $want, "$what: memory is back");
	cmp_ok(committed(), '<=', $most, "$what: also at the kernel");
}
sub grown
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok(used(), '>', $start, "$what: memory was in use");
}
# Each statement on its own, as VACUUM and others must be.
sub run
{
	$node->safe_psql('postgres', "SET client_min_messages = error; $_") foreach @_;
}

foreach my $case (
	[ 'DROP INDEX', [$make], ['DROP INDEX x_a, x_b'], ['DROP TABLE x'] ],
	[ 'DROP TABLE', [$make], ['DROP TABLE x'] ],
	[ 'TRUNCATE', [$make], ['TRUNCATE x'], ['DROP TABLE x'], 2 ],
	[ 'TRUNCATE in the creating transaction', [ "BEGIN; $make; TRUNCATE x; COMMIT; INSERT INTO x TABLE src" ], ['TRUNCATE x'], ['DROP TABLE x'], 2 ],
	[ 'unload', [$make], [q(SELECT numa.btree_unload('x_a'), numa.btree_unload('x_b'))], ['DROP TABLE x'] ],
	[ 'REINDEX of all kinds, then DROP', [$make], [ 'REINDEX TABLE x', 'REINDEX TABLE CONCURRENTLY x', 'VACUUM FULL x', 'DROP TABLE x' ] ],
	[ 'change of type, CLUSTER, change of persistence, then DROP', [$make], [ 'ALTER TABLE x ALTER a TYPE bigint', 'CLUSTER x USING x_a', 'ALTER TABLE x SET UNLOGGED', 'ALTER TABLE x SET LOGGED', 'DROP TABLE x' ] ],
	[ 'ALTER TABLE DROP COLUMN', [$make], [ 'ALTER TABLE x DROP COLUMN a, DROP COLUMN b' ], ['DROP TABLE x'] ],
	[ 'SET TABLESPACE, then DROP', [$make], [ 'ALTER INDEX x_a SET TABLESPACE sp', 'ALTER TABLE x SET TABLESPACE sp', 'ALTER INDEX x_b SET TABLESPACE sp', 'SELECT count(*) FROM x WHERE a > 5', 'ALTER INDEX x_a SET TABLESPACE pg_default', 'DROP TABLE x' ] ],
	[ 'RENAME, then DROP', [$make], [ 'ALTER INDEX x_a RENAME TO x_c; ALTER TABLE x RENAME TO y; ALTER TABLE y SET SCHEMA numa', 'DROP TABLE numa.y' ] ],
	[ 'a materialized view', [ 'CREATE MATERIALIZED VIEW x AS TABLE src; CREATE INDEX x_a ON x USING numa_btree (a)' ], [ 'REFRESH MATERIALIZED VIEW x', 'REFRESH MATERIALIZED VIEW x WITH NO DATA' ], ['DROP MATERIALIZED VIEW x'], 1 ],
	[ 'a partition', [ 'CREATE TABLE x (a int, b text) PARTITION BY RANGE (a); CREATE TABLE x1 PARTITION OF x DEFAULT; CREATE INDEX ON x USING numa_btree (b); INSERT INTO x TABLE src' ], ['DROP TABLE x1'], ['DROP TABLE x'] ],
	[ 'restored, then DROP', [$make], [ 'BEGIN; SAVEPOINT s; DROP TABLE x; ROLLBACK TO s; COMMIT', 'BEGIN; SAVEPOINT s; DROP TABLE x; RELEASE s; COMMIT' ] ],
	[ 'change of type, then DROP', [$make], [ 'ALTER TABLE x ALTER a TYPE bigint', 'DROP TABLE x' ] ],
	[ 'unlogged', [ "CREATE UNLOGGED TABLE x AS TABLE src; $big" ], ['DROP TABLE x'] ],
	[ 'DROP SCHEMA CASCADE', ['CREATE SCHEMA s; CREATE TABLE s.x AS TABLE src; CREATE INDEX ON s.x USING numa_btree (b)'], ['DROP SCHEMA s CASCADE'] ],
	[ 'prepared DROP', [$make], [ "BEGIN; DROP TABLE x; PREPARE TRANSACTION 'd'", "COMMIT PREPARED 'd'" ] ],
	[ 'prepared TRUNCATE', [$make], [ "BEGIN; TRUNCATE x; PREPARE TRANSACTION 'd'", "COMMIT PREPARED 'd'" ], ['DROP TABLE x'], 2 ])
{
	my ($what, $before, $end, $after, $roots) = @$case;
	run(@$before);
	grown($what);
	run(@$end);
	returns($what, $roots);
	run(@$after) if $after;
}
# Emptied by VACUUM, the tree keeps a few pages; most of it comes back.
run($make);
my $full = used();
run('DELETE FROM x', 'VACUUM x');
my $now;
foreach (1 .. 200) { $now = used(); last if $now - $start < ($full - $start) / 10; sleep(0.05); }
cmp_ok($now - $start, '<', ($full - $start) / 10, 'DELETE and VACUUM: most is back');
run('DROP TABLE x');
returns('DELETE, VACUUM and DROP');

# Undone: what was there before is there again, and no more than that.
run($make);
my $full2 = used();
foreach my $sql ('TRUNCATE x; INSERT INTO x TABLE src; ROLLBACK', 'SAVEPOINT s; TRUNCATE x; INSERT INTO x TABLE src; ROLLBACK TO s; COMMIT',
	'TRUNCATE x; TRUNCATE x; INSERT INTO x TABLE src; ROLLBACK', 'REINDEX TABLE x; ROLLBACK', 'SAVEPOINT s; REINDEX INDEX x_a; RELEASE s; REINDEX INDEX x_a; ROLLBACK',
	'DROP TABLE x; ROLLBACK', 'DROP INDEX x_a; CREATE INDEX x_a ON x USING numa_btree (a); ROLLBACK', 'CLUSTER x USING x_a; ROLLBACK',
	'ALTER TABLE x ALTER a TYPE bigint; ROLLBACK', 'ALTER TABLE x ALTER b TYPE varchar; ROLLBACK', 'ALTER TABLE x DROP COLUMN a; ROLLBACK', 'ALTER INDEX x_a SET TABLESPACE sp; ROLLBACK',
	'ALTER INDEX x_a RENAME TO y; ROLLBACK', 'ALTER TABLE x SET UNLOGGED; ROLLBACK', 'DROP EXTENSION numa_migrate CASCADE; ROLLBACK', 'CREATE INDEX ON x USING numa_btree (a, b); SELECT 1 / 0')
{
	$node->psql('postgres', "SET client_min_messages = error; BEGIN; $sql");
	foreach (1 .. 200) { $now = used(); last if $now == $full2; sleep(0.05); }
	is($now, $full2, "undone: $sql");
}
foreach my $end ('ROLLBACK', 'COMMIT')
{
	# The storage of before the transaction goes with COMMIT PREPARED, that of within with ROLLBACK PREPARED.
	run("BEGIN; TRUNCATE x; INSERT INTO x TABLE src; REINDEX TABLE x; PREPARE TRANSACTION 'p'", "$end PREPARED 'p'");
	foreach (1 .. 200) { $now = used(); last if $now == $full2; sleep(0.05); }
	is($now, $full2, "$end PREPARED of TRUNCATE and REINDEX");
}
check_all($node, 'undone');
# Concurrent builds that fail leave an invalid index, which is one like others when it is dropped.
run('INSERT INTO x SELECT * FROM src WHERE a = 1');
$node->psql('postgres', 'CREATE UNIQUE INDEX CONCURRENTLY x_bad ON x USING numa_btree (a)');
is($node->safe_psql('postgres', q(SELECT indisvalid FROM pg_index WHERE indexrelid = 'x_bad'::regclass)), 'f', 'an invalid index');
run('DROP INDEX CONCURRENTLY x_bad', 'DROP INDEX CONCURRENTLY x_a');
run('DROP TABLE x');
returns('DROP INDEX CONCURRENTLY and a build that failed');

# Never committed: rolled back, failed, a subtransaction, cancelled, prepared and rolled back.
$node->safe_psql('postgres', "BEGIN; $make; ROLLBACK");
returns('rolled back');
$node->psql('postgres', "BEGIN; $make; SELECT 1 / 0");
returns('failed');
$node->safe_psql('postgres', "BEGIN; SAVEPOINT s; $make; ROLLBACK TO s; COMMIT");
returns('rolled back subtransaction');
$node->psql('postgres', q(CREATE FUNCTION slow(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF a > 39000 THEN PERFORM pg_sleep(0.01); END IF; RETURN a; END $$));
$node->psql('postgres', q(SET statement_timeout = '1s'; CREATE INDEX src_slow ON src USING numa_btree (slow(a), b)));
returns('cancelled build');
$node->safe_psql('postgres', "BEGIN; $make; PREPARE TRANSACTION 'r'");
grown('prepared');
$node->safe_psql('postgres', "ROLLBACK PREPARED 'r'");
returns('prepared and rolled back');

# Temporary: with its session, whether that ends well or is terminated.
my $s = $node->background_psql('postgres', on_error_stop => 0);
$s->query("CREATE TEMP TABLE x AS TABLE src; $big");
grown('temporary');
$s->quit;
returns('temporary, end of session');
$s = $node->background_psql('postgres', on_error_stop => 0);
$s->query("CREATE TEMP TABLE x AS TABLE src; $big");
$node->safe_psql('postgres', q(SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()));
end_session($s);
returns('temporary, session terminated');
$node->safe_psql('postgres', "BEGIN; CREATE TEMP TABLE x ON COMMIT DROP AS TABLE src; $big; COMMIT");
returns('ON COMMIT DROP');
$s = $node->background_psql('postgres');
$s->query_safe('CREATE TEMP TABLE x (a int, b text) ON COMMIT DELETE ROWS; CREATE INDEX x_a ON x USING numa_btree (a); CREATE INDEX x_b ON x USING numa_btree (b)');
# Rows that were rolled back go with the next transaction that touches a temporary table.
foreach my $end ('COMMIT', 'ROLLBACK; SELECT count(*) FROM x', 'SAVEPOINT s; TRUNCATE x; INSERT INTO x TABLE src; COMMIT')
{
	$s->query_safe('BEGIN; INSERT INTO x TABLE src');
	grown('ON COMMIT DELETE ROWS');
	$s->query_safe($end);
	returns("ON COMMIT DELETE ROWS, $end", 2);
}
$s->quit;
returns('ON COMMIT DELETE ROWS, end of session');

# Another session's temporary table can't be moved or loaded.
$s = $node->background_psql('postgres');
$s->query_safe('CREATE TEMP TABLE tt AS SELECT generate_series(1, 1000) AS a; CREATE INDEX tt_a ON tt USING numa_btree (a)');
my $oid = $s->query_safe(q(SELECT 'tt'::regclass::oid));
my $ioid = $s->query_safe(q(SELECT 'tt_a'::regclass::oid));
fails_like($node, "SELECT numa.move_relation($oid, 0)", '0A000', 'HINT', 'move_relation of a temporary table of another session');
fails_like($node, "SELECT numa.relation_placement($oid)", '0A000', 'HINT', 'relation_placement of it');
fails_like($node, "SELECT numa.btree_$_($ioid)", '0A000', 'HINT', "btree_$_ of its index") foreach qw(load unload check);
$s->quit;

# A whole database.
$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', "SET client_min_messages = error; CREATE EXTENSION numa_migrate; CREATE TABLE x AS SELECT g AS a, md5(g::text) AS b FROM generate_series(1, 40000) g; $big");
grown('DROP DATABASE');
# Copies of it have trees of their own, once they are used.
$full = used();
foreach my $strategy ('WAL_LOG', 'FILE_COPY')
{
	$node->safe_psql('postgres', "CREATE DATABASE d2 TEMPLATE d STRATEGY $strategy");
	$node->safe_psql('d2', q(SELECT numa.btree_load('x_a'), numa.btree_load('x_b')));
	cmp_ok(used(), '>', $full, "a copy, $strategy: memory is in use");
	$node->safe_psql('postgres', 'DROP DATABASE d2');
	foreach (1 .. 200) { $now = used(); last if $now == $full; sleep(0.05); }
	is($now, $full, "a copy, $strategy: memory is back");
}
$node->safe_psql('postgres', 'ALTER DATABASE d SET TABLESPACE sp');
$node->safe_psql('postgres', 'ALTER DATABASE d RENAME TO e');
$node->safe_psql('e', q(SELECT numa.btree_load('x_a')));
$node->safe_psql('postgres', 'DROP DATABASE e');
returns('DROP DATABASE, copied, moved and renamed before');
# The access method alone.
$node->safe_psql('postgres', 'CREATE DATABASE d');
$node->safe_psql('d', "SET client_min_messages = error; CREATE EXTENSION numa_migrate; CREATE TABLE x AS SELECT g AS a, md5(g::text) AS b FROM generate_series(1, 40000) g; $big");
fails_like($node, 'DROP ACCESS METHOD numa_btree CASCADE', '2BP01', 'extension numa_migrate requires it', 'DROP ACCESS METHOD', 'd');
$node->safe_psql('d', 'SET client_min_messages = error; ALTER EXTENSION numa_migrate DROP ACCESS METHOD numa_btree; BEGIN; DROP ACCESS METHOD numa_btree CASCADE; ROLLBACK');
grown('DROP ACCESS METHOD, undone');
$node->safe_psql('d', 'SET client_min_messages = error; DROP ACCESS METHOD numa_btree CASCADE');
returns('DROP ACCESS METHOD');
is($node->safe_psql('d', q(SELECT count(*), to_regclass('x_a') IS NULL FROM x)), '40000|t', 'DROP ACCESS METHOD: the table stays');
# Its classes are the extension's, and take it along.
is($node->psql('d', 'SET client_min_messages = error; CREATE EXTENSION numa_migrate; CREATE INDEX x_a ON x USING numa_btree (a)'), 0, 'DROP ACCESS METHOD: the extension can be made anew');
$node->safe_psql('postgres', 'DROP DATABASE d');
returns('DROP DATABASE');

# A restart: what is there is loaded, and no more.
run($make);
$node->restart;
wait_planned($node, "SELECT a FROM x WHERE a = 5", 'x_a') && wait_planned($node, "SELECT b FROM x WHERE b = 'c'", 'x_b') && wait_planned($node, 'SELECT a FROM keep WHERE a = 1', 'keep_a');
grown('restart');
run('DROP TABLE x');
returns('restart');

# The extension.
$node->safe_psql('postgres', "SET client_min_messages = error; $make");
grown('DROP EXTENSION CASCADE');
$node->safe_psql('postgres', 'SET client_min_messages = error; DROP EXTENSION numa_migrate CASCADE; DROP TABLE x; CREATE EXTENSION numa_migrate; CREATE INDEX keep_a ON keep USING numa_btree (a)');
returns('DROP EXTENSION CASCADE');

# A crash: empty, whatever there was.
$node->safe_psql('postgres', "SET client_min_messages = error; $make");
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
$s = $node->background_psql('postgres', on_error_stop => 0);
my $pid = $s->query('SELECT pg_backend_pid()');
my $worker = wait_worker($node);
kill('KILL', $pid);
end_session($s);
isnt(wait_worker($node, $worker), '', 'the server is back');
$node->safe_psql('postgres', 'DROP TABLE x');
returns('crash');
$node->stop;
done_testing();

# Databases that are copied, renamed, moved and dropped while trees of theirs are in memory
# or being loaded.  https://github.com/orioledb/orioledb/issues/1026 (a template's copy had
# files but no trees), /591 (DROP DATABASE left things behind), and the reports of workers
# that stood in the way: https://github.com/citusdata/pg_cron/issues/318,
# https://github.com/timescale/timescaledb/issues/4838, https://github.com/supabase/pg_net/issues/78.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = new_node('main', conf => "numa_migrate.naptime = 50ms\nnuma_migrate.policy = affinity");
$node->safe_psql('postgres', 'CREATE EXTENSION numa_migrate; CREATE DATABASE src');
$node->safe_psql('src', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, n int);
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_n ON t USING numa_btree (n, id);
INSERT INTO t SELECT g, g % 10 FROM generate_series(1, 5000) g;
));
my $q = 'SELECT id FROM t WHERE id > 0 ORDER BY id';

my $key = 70000;
foreach my $strategy ('WAL_LOG', 'FILE_COPY')
{
	$key += 10;
	my $db = 'copy_' . lc($strategy);
	is($node->psql('postgres', "CREATE DATABASE $db TEMPLATE src STRATEGY $strategy"), 0, "CREATE DATABASE TEMPLATE $strategy");
	is($node->safe_psql($db, q(SELECT pg_relation_filenode('t_id'))), $node->safe_psql('src', q(SELECT pg_relation_filenode('t_id'))), "$strategy: the same file number in both");
	# Both go their own way under one file number.
	$node->safe_psql($db, qq(DELETE FROM t WHERE id <= 1000; INSERT INTO t VALUES ($key, 1)));
	$node->safe_psql('src', q(INSERT INTO t SELECT max(id) + 1, 2 FROM t));
	same_rows($node, $q, 't_id', "$strategy: the copy", $db);
	same_rows($node, $q, 't_id', "$strategy: the source", 'src');
	fails_like($node, "INSERT INTO t VALUES ($key)", '23505', 't_id', "$strategy: the copy is unique", $db);
	is($node->psql('src', "INSERT INTO t VALUES ($key)"), 0, "$strategy: the source does not know the copy's key");
	check_all($node, "$strategy: the copy", $db);
	check_all($node, "$strategy: the source", 'src');
}

# While a load is running: each statement has to come through in 5 s.  The expression is slow
# in background processes only.
$node->safe_psql('src', q(
CREATE FUNCTION slow(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()) <> 'client backend' THEN PERFORM pg_sleep(0.01); END IF;
	RETURN a;
END $$;
CREATE TABLE s (a int); INSERT INTO s SELECT generate_series(1, 6000);
CREATE INDEX s_slow ON s USING numa_btree (slow(a));
));
# After a start the background loads what there is.
sub loading
{
	my ($db) = @_;
	$node->restart;
	foreach (1 .. 200)
	{
		return 1 if $node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE datname = '$db' AND backend_type = 'numa_migrate loader'") > 0
			&& $node->safe_psql('postgres', "SELECT count(*) FROM pg_locks WHERE relation IS NOT NULL AND database = (SELECT oid FROM pg_database WHERE datname = '$db')") > 0;
		sleep(0.02);
	}
	return 0;
}
foreach my $case (
	[ 'src', 'CREATE DATABASE during TEMPLATE src', 'src' ],
	[ 'src', 'ALTER DATABASE src RENAME TO renamed', 'renamed' ],
	[ 'renamed', 'DROP DATABASE renamed', undef ])
{
	my ($db, $sql, $then) = @$case;
	ok(loading($db), "a load is running: $sql");
	my $start = time;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	is($rc, 0, $sql) or diag($err);
	cmp_ok(time - $start, '<', 5, "$sql: in time");
	same_rows($node, $q, 't_id', "$sql: the other index answers", $then) if $then;
	# Or the copy's own slow load would keep the background busy.
	$node->safe_psql('during', 'DROP INDEX IF EXISTS s_slow');
}
is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_database WHERE datname = 'renamed' OR NOT datallowconn AND datname <> 'template0')), '0', 'no half-dropped database');
same_rows($node, $q, 't_id', 'the copy made during a load', 'during');

# Into another tablespace and back.
$node->safe_psql('postgres', q(SET allow_in_place_tablespaces = on; CREATE TABLESPACE sp LOCATION ''));
is($node->psql('postgres', 'ALTER DATABASE copy_wal_log SET TABLESPACE sp'), 0, 'ALTER DATABASE SET TABLESPACE');
same_rows($node, $q, 't_id', 'in another tablespace', 'copy_wal_log');
is($node->psql('postgres', 'ALTER DATABASE copy_wal_log SET TABLESPACE pg_default'), 0, 'and back');
same_rows($node, $q, 't_id', 'back again', 'copy_wal_log');
check_all($node, 'back again', 'copy_wal_log');
# With connections, by force.
my $s = $node->background_psql('copy_file_copy', on_error_stop => 0);
$s->query('SET enable_seqscan = off; BEGIN; DECLARE c CURSOR FOR SELECT id FROM t ORDER BY id; FETCH 1 FROM c');
my $start = time;
is($node->psql('postgres', 'DROP DATABASE copy_file_copy WITH (FORCE)'), 0, 'DROP DATABASE WITH (FORCE)');
cmp_ok(time - $start, '<', 10, 'DROP DATABASE WITH (FORCE): in time');
end_session($s);
is($node->psql('postgres', "DROP DATABASE $_"), 0, "DROP DATABASE $_") foreach qw(copy_wal_log during);
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

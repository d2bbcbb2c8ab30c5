# Builds and loads by several processes give the tree that one process gives, and leave nothing
# behind when they are cancelled, fail, or lose a worker.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = new_node('main', conf => "numa_migrate.load = lazy\nlock_timeout = 60s\nclient_min_messages = error\nlog_min_messages = debug1\nmax_worker_processes = 16\nmin_parallel_table_scan_size = 0\nmaintenance_work_mem = 4MB\nlog_statement = none");
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, k int8, s text, n numeric, u text COLLATE "en-x-icu", f float8) WITH (parallel_workers = 2);
INSERT INTO t SELECT g, hashint4(g), CASE WHEN g % 50 = 0 THEN NULL ELSE repeat('same beginning ', g % 3) || hashint4(g) END, (g * 7919 % 10007)::numeric / (1 + g % 3),
	(ARRAY['a', 'A', 'b', 'resume', 'Resume'])[1 + g % 5] || (g * 31 % 1000), CASE WHEN g % 89 = 0 THEN float8 'NaN' ELSE g * 31 % 1007 END FROM generate_series(1, 20000) g;
-- dead, updated in place, updated elsewhere
DELETE FROM t WHERE id % 11 = 0;
UPDATE t SET f = f WHERE id % 13 = 0;
ANALYZE t;
CREATE FUNCTION safe(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS 'BEGIN RETURN $1 / 2; END';
CREATE FUNCTION unsafe(int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL UNSAFE AS 'BEGIN RETURN $1 / 2; END';
));

# What the server logged while a statement ran: how many workers each build or load had.
sub workers
{
	my ($sql) = @_;
	my $at = -s $node->logfile;
	$node->safe_psql('postgres', $sql);
	return join(' ', map { "$_" } slurp_file($node->logfile, $at) =~ /DEBUG: +((?:building|loading) numa_btree index "\w+" with \d) parallel workers/g);
}
sub shape { return $node->safe_psql('postgres', "SELECT height, entries, leaves, inner_pages, overflow_pages, round(fill::numeric, 6) FROM numa.btree_stats('$_[0]')"); }
sub used { return $node->safe_psql('postgres', 'SELECT sum(used_bytes) FROM numa.stat_pool'); }
sub files { return scalar(grep { !/^\./ } map { slurp_dir($_) } grep { -d $_ } $node->data_dir . '/base/pgsql_tmp'); }
sub others { return $node->safe_psql('postgres', q(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker')); }
# Pages in use, files and workers are what they were.
sub nothing_left
{
	my ($before, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $now;
	foreach (1 .. 200) { $now = join(' ', used(), files(), others()); last if $now eq "$before 0 0"; sleep(0.05); }
	is($now, "$before 0 0", "$what: memory, files and workers are gone");
}

# A statement in the background.
sub start
{
	my ($sql) = @_;
	my %s = (out => '', err => '');
	$s{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), '-c', $sql ], '<', \undef, '>', \$s{out}, '2>', \$s{err});
	return \%s;
}

# The same tree as a serial build's, in memory or in many runs.
foreach my $columns ('k', 'k DESC NULLS FIRST', 's COLLATE "C"', 'n', 'u', 'f, s COLLATE "C" DESC', 's COLLATE "C") INCLUDE (k', 'safe(id)', 'k) WHERE (id % 7 < 3', 'n) WITH (deduplicate_items = off')
{
	foreach my $memory ('1MB', '16MB')
	{
		$node->safe_psql('postgres', "SET max_parallel_maintenance_workers = 0; CREATE INDEX serial ON t USING numa_btree ($columns)");
		is(workers("SET maintenance_work_mem = '$memory'; CREATE INDEX parallel ON t USING numa_btree ($columns)"),
			'building numa_btree index "parallel" with 2', "($columns) is built by three");
		is(shape('parallel'), shape('serial'), "($columns) with $memory: the tree of a serial build");
		$node->safe_psql('postgres', q(SELECT numa.btree_check('parallel', true); DROP INDEX serial, parallel));
	}
}

# Unique, and the other ways to build.
is(workers('CREATE UNIQUE INDEX uniq ON t USING numa_btree (k, id)'), 'building numa_btree index "uniq" with 2', 'CREATE UNIQUE INDEX');
is(workers('REINDEX INDEX uniq'), 'building numa_btree index "uniq" with 2', 'REINDEX');
is(workers('REINDEX INDEX CONCURRENTLY uniq'), 'building numa_btree index "uniq_ccnew" with 2', 'REINDEX CONCURRENTLY');
is(workers('CREATE INDEX CONCURRENTLY conc ON t USING numa_btree (safe(id), k) WHERE id % 3 = 0'), 'building numa_btree index "conc" with 2', 'CREATE INDEX CONCURRENTLY');
is(workers('BEGIN; SAVEPOINT s; DELETE FROM t WHERE id % 17 = 0; CREATE INDEX own ON t USING numa_btree (k); COMMIT'), 'building numa_btree index "own" with 2', 'after changes by the own transaction');
check_all($node, 'ways to build');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_index WHERE indexrelid = \'own\'::regclass AND indisvalid'), '1', 'valid');
$node->safe_psql('postgres', 'DROP INDEX own, conc');

# Where core would not use workers.
is(workers('SET max_parallel_maintenance_workers = 0; CREATE INDEX x ON t USING numa_btree (k); DROP INDEX x'), '', 'serial: max_parallel_maintenance_workers = 0');
is(workers('SET max_parallel_workers = 0; CREATE INDEX x ON t USING numa_btree (k); SELECT numa.btree_check(\'x\'); DROP INDEX x'), '', 'serial: no worker is free');
is(workers('CREATE INDEX x ON t USING numa_btree (unsafe(id)); DROP INDEX x'), '', 'serial: an expression that is not parallel safe');
is(workers('CREATE INDEX x ON t USING numa_btree (k) WHERE unsafe(id) > 5; DROP INDEX x'), '', 'serial: a predicate that is not parallel safe');
is(workers('CREATE TEMP TABLE tt (a int) WITH (parallel_workers = 2); INSERT INTO tt SELECT generate_series(1, 1000); CREATE INDEX ON tt USING numa_btree (a)'), '', 'serial: temporary table');
is(workers('CREATE TABLE e (a int) WITH (parallel_workers = 2); CREATE INDEX e_a ON e USING numa_btree (a); INSERT INTO e VALUES (1); TRUNCATE e; DROP TABLE e'), '', 'serial: TRUNCATE, an empty table');
is(workers('CREATE INDEX x ON t USING btree (k); DROP INDEX x; CREATE INDEX x ON t USING brin (k); DROP INDEX x'), '', 'btree and brin are none of our business');

# Failures. Conflicting rows lie at the two ends of the table; errors come from a worker.
my $used = used();
$node->safe_psql('postgres', 'CREATE TABLE dup (a int, pad text) WITH (parallel_workers = 2); INSERT INTO dup SELECT CASE WHEN g = 40000 THEN 1 ELSE g END, repeat(\'x\', 50) FROM generate_series(1, 40000) g');
fails_like($node, 'CREATE UNIQUE INDEX dup_a ON dup USING numa_btree (a)', '23505', 'could not create unique index "dup_a"\nDETAIL:  Key \(a\)=\(1\) is duplicated', 'unique violation');
nothing_left($used, 'unique violation');
is(workers('DELETE FROM dup WHERE a = 1 AND ctid > \'(10,0)\'; CREATE UNIQUE INDEX dup_a ON dup USING numa_btree (a); DROP INDEX dup_a'), 'building numa_btree index "dup_a" with 2', 'a deleted row is no violation');

# Workers stand still at their first row, or raise; the leader is slow until one has begun.
$node->safe_psql('postgres', q(
CREATE FUNCTION in_worker() RETURNS bool LANGUAGE sql STABLE PARALLEL SAFE AS $$ SELECT backend_type = 'parallel worker' FROM pg_stat_get_activity(pg_backend_pid()) $$;
CREATE FUNCTION waiting() RETURNS bool LANGUAGE sql VOLATILE PARALLEL SAFE AS $$ SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted) $$;
CREATE FUNCTION stop_worker(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF a % 200 = 0 THEN
		IF public.in_worker() THEN
			PERFORM pg_advisory_lock_shared(77);
			PERFORM pg_advisory_unlock_shared(77);
		ELSE
			PERFORM pg_sleep(0.02) WHERE NOT public.waiting();
		END IF;
	END IF;
	RETURN a;
END $$;
CREATE FUNCTION fail_worker(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF a % 200 = 0 THEN
		IF public.in_worker() THEN RAISE EXCEPTION 'row % is bad', a USING ERRCODE = '22012'; END IF;
		PERFORM pg_sleep(0.05);
	END IF;
	RETURN a;
END $$;
));
fails_like($node, 'CREATE INDEX dup_f ON dup USING numa_btree (fail_worker(a))', '22012', 'row \d+ is bad\nCONTEXT: .*parallel worker', 'error in a worker');
nothing_left($used, 'error in a worker');

# A statement in the background, whose worker stands still as long as the holder has the lock.
{
	my ($in, $out, $err) = ('', '', '');
	my $holder = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
	$in = "SELECT pg_advisory_lock(77);\nSELECT 'held';\n";
	$holder->pump until $out =~ /held/;
	my $stopped = sub {
		my ($sql, $query) = @_;
		my $s = start($sql);
		ok($node->poll_query_until('postgres', 'SELECT waiting()'), "a worker stands still: $sql");
		$node->safe_psql('postgres', $query) if $query;
		return $s;
	};
	my $leader = q(SELECT DISTINCT leader_pid FROM pg_stat_activity WHERE backend_type = 'parallel worker');
	my $worker = q(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted LIMIT 1);

	my $s = $stopped->('CREATE INDEX dup_s ON dup USING numa_btree (stop_worker(a))', "SELECT pg_cancel_backend(($leader))");
	$s->{run}->finish;
	like($s->{err}, qr/57014/, 'cancelled');
	nothing_left($used, 'cancelled build');

	$s = $stopped->('CREATE INDEX dup_s ON dup USING numa_btree (stop_worker(a))', "SELECT pg_terminate_backend(($leader))");
	end_session($s);
	nothing_left($used, 'terminated build');

	$s = $stopped->('CREATE INDEX dup_s ON dup USING numa_btree (stop_worker(a))', "SELECT pg_terminate_backend(($worker))");
	$s->{run}->finish;
	like($s->{err}, qr/57P01.*parallel worker/s, 'a worker is terminated');
	nothing_left($used, 'terminated worker');

	# Concurrently: the index stays behind, invalid, as nbtree's does, without a tree.
	$s = $stopped->('CREATE INDEX CONCURRENTLY dup_c ON dup USING numa_btree (stop_worker(a))', "SELECT pg_cancel_backend(($leader))");
	$s->{run}->finish;
	like($s->{err}, qr/57014/, 'cancelled, concurrently');
	is($node->safe_psql('postgres', q(SELECT indisvalid FROM pg_index WHERE indexrelid = 'dup_c'::regclass)), 'f', 'left behind, not valid');
	$node->safe_psql('postgres', 'DROP INDEX dup_c');
	nothing_left($used, 'cancelled build, concurrently');

	# A load: cancelled, it is as before; with a lost worker, too, and the error says so.
	$holder->signal('TERM'); eval { $holder->finish };
	$node->safe_psql('postgres', q(CREATE INDEX dup_s ON dup USING numa_btree (stop_worker(a)); SELECT numa.btree_check('dup_s'); SELECT numa.btree_unload('dup_s')));
	$used = used();
	($in, $out) = ("SELECT pg_advisory_lock(77);\nSELECT 'held';\n", '');
	$holder = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
	$holder->pump until $out =~ /held/;

	$s = $stopped->(q(SELECT numa.btree_load('dup_s')), "SELECT pg_cancel_backend(($leader))");
	$s->{run}->finish;
	like($s->{err}, qr/57014/, 'load cancelled');
	is($node->safe_psql('postgres', q(SELECT state FROM numa.stat_btree WHERE index = 'dup_s'::regclass)), 'not loaded', 'load cancelled: not loaded');
	nothing_left($used, 'cancelled load');
	$s = $stopped->(q(SELECT numa.btree_load('dup_s')), "SELECT pg_terminate_backend(($worker))");
	$s->{run}->finish;
	like($s->{err}, qr/57P01/, 'load lost a worker');
	nothing_left($used, 'load that lost a worker');

	# Rows that come, change and go while it stands still.
	$s = $stopped->(q(SELECT numa.btree_load('dup_s')), q(
		INSERT INTO dup SELECT g FROM generate_series(50001, 51000) g;
		UPDATE dup SET pad = 'y' WHERE a % 10 = 3; UPDATE dup SET a = a + 100000 WHERE a % 10 = 4; DELETE FROM dup WHERE a % 10 = 5));
	$holder->signal('TERM'); eval { $holder->finish };
	$s->{run}->finish;
	is("$s->{out}$s->{err}", "t\n", 'load beside writers');
	check_all($node, 'load beside writers');
	is($node->safe_psql('postgres', q(SELECT load_blocks_done = load_blocks_total FROM numa.stat_btree WHERE index = 'dup_s'::regclass)), 't', 'progress adds up');
}

# A row of a running transaction whose expression raises is put off, by whomever it is met.
{
	$node->safe_psql('postgres', q(
CREATE TABLE div (a int, pad text) WITH (parallel_workers = 2);
INSERT INTO div SELECT 1 + g % 100, repeat('x', 200) FROM generate_series(1, 20000) g;
CREATE INDEX div_a ON div USING numa_btree ((1000 / a));
SELECT numa.btree_unload('div_a');
	));
	my ($in, $out, $err) = ("BEGIN; UPDATE div SET pad = 'z' WHERE ctid IN (SELECT ctid FROM div WHERE pad LIKE 'x%' AND a < 50);\nSAVEPOINT s; \nSELECT 'held';\n", '', '');
	my $writer = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err);
	$writer->pump until $out =~ /held/;
	is(workers(q(SELECT numa.btree_load('div_a'))), 'loading numa_btree index "div_a" with 2', 'load beside an open transaction');
	$in = "COMMIT;\n\\q\n";
	$writer->finish;
	check_all($node, 'rows put off');
	same_rows($node, 'SELECT 1000 / a FROM div WHERE 1000 / a > 0 ORDER BY 1', 'div_a', 'rows put off');
}

# Whoever builds or loads, workers evaluate expressions as the table's owner, with a safe search path.
$node->safe_psql('postgres', q(
CREATE ROLE own_er;
CREATE FUNCTION as_owner(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
	IF current_user <> 'own_er' OR current_setting('search_path') !~ '^pg_catalog, pg_temp$' THEN
		RAISE 'row % evaluated by % with %', a, current_user, current_setting('search_path');
	END IF;
	IF NOT public.in_worker() THEN PERFORM pg_sleep(0.001); END IF;
	RETURN a;
END $$;
CREATE TABLE theirs (a int) WITH (parallel_workers = 2);
INSERT INTO theirs SELECT generate_series(1, 3000);
ALTER TABLE theirs OWNER TO own_er;
));
is(workers(q(CREATE INDEX theirs_a ON theirs USING numa_btree (as_owner(a)))), 'building numa_btree index "theirs_a" with 2', 'built by a superuser');
is(workers(q(SELECT numa.btree_unload('theirs_a'); SELECT numa.btree_load('theirs_a'))), 'loading numa_btree index "theirs_a" with 2', 'loaded by a superuser');
is($node->safe_psql('postgres', q(SELECT numa.btree_check('theirs_a'); SELECT entries FROM numa.btree_stats('theirs_a'))), "\n3000", 'as the owner');
$node->safe_psql('postgres', 'DROP TABLE theirs');

# After a restart the launcher's worker loads with workers of its own, and DROP DATABASE is not
# kept waiting by them.
$node->safe_psql('postgres', 'DROP INDEX dup_s; CREATE DATABASE other');
$node->safe_psql('other', q(CREATE EXTENSION numa_migrate; CREATE TABLE o (a int8) WITH (parallel_workers = 2); INSERT INTO o SELECT generate_series(1, 500000); CREATE UNIQUE INDEX o_a ON o USING numa_btree (a)));
$node->append_conf('postgresql.conf', 'numa_migrate.load = eager');
my $at = -s $node->logfile;
$node->stop('immediate');
$node->start;
my %indexes = (postgres => 2, other => 1);
foreach my $db (sort keys %indexes)
{
	ok($node->poll_query_until($db, qq(SELECT count(*) = $indexes{$db} FROM numa.stat_btree WHERE state = 'loaded')), "loaded after a crash: $db")
	  or diag($node->safe_psql($db, 'SELECT * FROM numa.stat_btree'));
}
like(slurp_file($node->logfile, $at), qr/loading numa_btree index "o_a" with 2 parallel workers/, 'by the loader and two workers');
$node->safe_psql('other', q(SELECT numa.btree_check('o_a')));
check_all($node, 'loaded after a crash');
$node->stop('immediate');
$node->start;
{
	my $begin = time;
	$node->safe_psql('postgres', 'DROP DATABASE other');
	cmp_ok(time - $begin, '<', 10, 'DROP DATABASE does not wait for a load');
}
# A scanner may be started for the database just when that is gone.
my @bad = grep { /PANIC|TRAP|terminated by signal|leak|FATAL: / && !/FATAL: .*(due to administrator command|database "?\w+"? does not exist|cannot connect to invalid database)/ }
  split /\n/, slurp_file($node->logfile);
is("@bad", '', 'nothing crashed or leaked');

# A killed worker takes the server down, as any process does. What it had written is gone after that.
{
	$node->append_conf('postgresql.conf', "restart_after_crash = on\nnuma_migrate.load = lazy");
	$node->reload;
	my $holder = start(q(SELECT pg_advisory_lock(77), pg_sleep(300)));
	ok($node->poll_query_until('postgres', q(SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND granted))), 'the lock is held');
	my $build = start(q(SET maintenance_work_mem = '1MB'; CREATE INDEX dup_k ON dup USING numa_btree (stop_worker(a))));
	ok($node->poll_query_until('postgres', 'SELECT waiting()'), 'a worker stands still');
	kill('KILL', $node->safe_psql('postgres', q(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 77 AND NOT granted LIMIT 1)));
	end_session($_) foreach $build, $holder;
	ok($node->poll_query_until('postgres', q(SELECT to_regclass('dup_k') IS NULL)), 'the server is back, without the index');
	is(files() . ' ' . others(), '0 0', 'killed worker: files and workers are gone');
	is(workers('CREATE INDEX dup_k ON dup USING numa_btree (stop_worker(a))'), 'building numa_btree index "dup_k" with 2', 'and it can be built');
	check_all($node, 'after a killed worker');
}
$node->stop;
done_testing();

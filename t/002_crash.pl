# Crashes: immediate stop, kill -9 of a backend in the middle of inserts, of a builder.
# https://github.com/tensorchord/pgvecto.rs/issues/318 and /325 (after a crash "index not
# existing"), https://github.com/pgvector/pgvector/issues/7 and /50 (a killed build),
# https://github.com/citusdata/pg_cron/issues/53 (kill -9 restarts everything).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time sleep);

# With wal_level = minimal the init fork of an unlogged index must be logged all the same:
# https://github.com/pgvector/pgvector/pull/591, core fix "Log the creation of an init fork
# unconditionally".
my $node = new_node('main', conf => "wal_level = minimal\nmax_wal_senders = 0\nrestart_after_crash = on");
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, txt text);
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_txt ON t USING numa_btree (txt);
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 10000) g;
CHECKPOINT;
CREATE UNLOGGED TABLE ul (a int);
CREATE INDEX ul_a ON ul USING numa_btree (a);
INSERT INTO ul SELECT generate_series(1, 500);
));

sub all_same
{
	my ($when) = @_;
	same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', "t_id $when");
	same_rows($node, q(SELECT txt FROM t WHERE txt > 'r' ORDER BY txt), 't_txt', "t_txt $when");
	same_rows($node, 'SELECT a FROM ul WHERE a > 0 ORDER BY a', 'ul_a', "ul_a $when");
	check_all($node, $when);
}

# A session that inserts for ever, each row its own transaction; its backend's PID.
sub inserter
{
	my ($from) = @_;
	my $s = $node->background_psql('postgres', on_error_stop => 0);
	my $pid = $s->query('SELECT pg_backend_pid()');
	$s->{stdin} .= "DO \$\$ BEGIN FOR i IN $from .. 100000000 LOOP INSERT INTO t VALUES (i, 'row ' || i); UPDATE t SET id = -i WHERE id = i - 5; DELETE FROM t WHERE id = 5 - i; COMMIT; END LOOP; END \$\$;\n";
	$s->{run}->pump_nb;
	return ($s, $pid);
}

# 1. Immediate stop with an open transaction and unflushed work.
my $open = $node->background_psql('postgres', on_error_stop => 0);
$open->query(q(BEGIN; INSERT INTO t SELECT g, 'lost ' || g FROM generate_series(20001, 21000) g; DELETE FROM t WHERE id < 100; TRUNCATE ul;));
$node->safe_psql('postgres', q(INSERT INTO t SELECT g, 'kept ' || g FROM generate_series(30001, 31000) g; DELETE FROM t WHERE id BETWEEN 500 AND 600));
$node->stop('immediate');
end_session($open);
$node->start;
is(by_seq($node, 'SELECT count(*) FROM t'), 10000 + 1000 - 101, 'the heap is as committed');
all_same('after an immediate stop');
is(by_seq($node, 'SELECT count(*) FROM ul'), 0, 'the unlogged table is empty');
$node->safe_psql('postgres', 'INSERT INTO ul SELECT generate_series(1, 300)');
all_same('after inserts into the reset unlogged table');

# 2. kill -9 of a backend in the middle of inserts, several times.
foreach my $round (1 .. 3)
{
	my $worker = wait_worker($node);
	my ($s, $pid) = inserter(1000000 * $round);
	foreach (1 .. 5) { $s->{run}->pump_nb; sleep(0.1 * $round); }
	my $before = time;
	is(kill('KILL', $pid), 1, "round $round: killed a backend that inserts");
	end_session($s);
	my $new = wait_worker($node, $worker);
	ok($new ne '', "round $round: the worker is back");
	# "Fix background worker not restarting after crash-and-restart cycle",
	# https://postgr.es/m/CAF6JsWiO=i24qYitWe6ns1sXqcL86rYxdyU+pNYk-WueKPSySg@mail.gmail.com
	cmp_ok(time - $before, '<', 30, "round $round: within 30 s");
	fails_like($node, 'INSERT INTO t VALUES (700)', '23505', 't_id', "round $round: duplicate key straight after the crash");
	all_same("after crash $round");
	$node->safe_psql('postgres', "INSERT INTO ul SELECT generate_series(1, 100 * $round)");
}

# 3. A builder is killed, and a loader's caller.
my $b = $node->background_psql('postgres', on_error_stop => 0);
my $bpid = $b->query('SELECT pg_backend_pid()');
$b->query(q(CREATE FUNCTION slow(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM pg_sleep(0.002); RETURN $1; END $$));
$b->{stdin} .= "CREATE INDEX t_slow ON t USING numa_btree (slow(id));\n";
$b->{run}->pump_nb;
sleep(0.5);
my $worker = wait_worker($node);
is(kill('KILL', $bpid), 1, 'killed a backend that builds an index');
end_session($b);
isnt(wait_worker($node, $worker), '', 'the server is back');
is($node->safe_psql('postgres', q(SELECT to_regclass('t_slow') IS NULL)), 't', 'the killed index is not there');
all_same('after a killed build');
$node->safe_psql('postgres', 'CREATE INDEX t_again ON t USING numa_btree (id DESC)');
same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id DESC', 't_(?:again|id)', 'the next build');
$node->safe_psql('postgres', 'DROP INDEX t_again');

# 4. Crash again while loading after a crash: one right after the other.
$node->stop('immediate');
$node->start;
$node->stop('immediate');
$node->start;
all_same('after two crashes in a row');

# 5. TRUNCATE, then crash: https://github.com/orioledb/orioledb/issues/669
$node->safe_psql('postgres', q(TRUNCATE t; INSERT INTO t VALUES (1, 'after'), (2, 'truncate')));
$node->stop('immediate');
$node->start;
is(by_seq($node, 'SELECT count(*) FROM t'), 2, 'truncated');
all_same('after TRUNCATE and a crash');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (?!9)/, 'no other crash than those wanted');
done_testing();

# After a restart the trees are built again from the heap: all at once in the background
# (load = eager) or each when it is first used (load = lazy).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = new_node('main', conf => 'max_prepared_transactions = 5');
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, txt text, n numeric, ts timestamptz);
INSERT INTO t SELECT g, 'row ' || g % 1000, g / 7.0, '2020-01-01'::timestamptz + g * interval '1 min' FROM generate_series(1, 20000) g;
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_txt ON t USING numa_btree (txt, id DESC);
CREATE INDEX t_part ON t USING numa_btree (n) INCLUDE (txt) WHERE id % 2 = 0;
CREATE INDEX t_expr ON t USING numa_btree (lower(txt) COLLATE "C");
CREATE UNLOGGED TABLE ul (a int);
CREATE INDEX ul_a ON ul USING numa_btree (a);
INSERT INTO ul SELECT generate_series(1, 500);
DELETE FROM t WHERE id % 10 = 3;
UPDATE t SET ts = now() WHERE id % 10 = 4;
BEGIN; INSERT INTO t VALUES (30001, 'prepared', 1); UPDATE t SET txt = 'prepared update' WHERE id = 5; PREPARE TRANSACTION 'p';
));

my %query = (
	t_id => 'SELECT id FROM t WHERE id BETWEEN 100 AND 15000 ORDER BY id',
	t_txt => q(SELECT txt, id FROM t WHERE txt > 'row 5' ORDER BY txt, id DESC),
	t_part => 'SELECT n, txt FROM t WHERE id % 2 = 0 AND n > 100 ORDER BY n',
	t_expr => q(SELECT lower(txt) COLLATE "C" FROM t WHERE lower(txt) COLLATE "C" < 'row 3' COLLATE "C" ORDER BY 1),
	ul_a => 'SELECT a FROM ul WHERE a > 0 ORDER BY a');

sub all_same { my ($when) = @_; same_rows($node, $query{$_}, $_, "$_ $when") foreach sort keys %query; }

all_same('before');

# Eager: back in the plans by themselves.
$node->restart;
# A unique insert straight after the start waits for the load; it must see the old keys.
fails_like($node, 'INSERT INTO t VALUES (777)', '23505', 't_id', 'duplicate key straight after the start');
all_same('after an eager restart');
check_all($node, 'after an eager restart');
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
is(by_index($node, 'SELECT txt FROM t WHERE id IN (5, 30001) ORDER BY id'), "prepared update\nprepared", 'rows of a prepared transaction that outlived the restart');
check_all($node, 'after COMMIT PREPARED');

# Writes before, while and after the load of a restart.
$node->restart;
$node->safe_psql('postgres', q(INSERT INTO t SELECT g, 'new ' || g FROM generate_series(40001, 41000) g; DELETE FROM t WHERE id BETWEEN 1 AND 100; UPDATE t SET id = id + 100000 WHERE id BETWEEN 200 AND 300;));
all_same('after writes into a server just started');
check_all($node, 'after writes into a server just started');

# Lazy: an index stays in the plans, EXPLAIN does not load it, the first scan does.
$node->append_conf('postgresql.conf', 'numa_migrate.load = lazy');
$node->restart;
is(planned($node, $query{t_id}, 't_id'), 1, 'lazy: planned before it is loaded');
is($node->safe_psql('postgres', q(SELECT state FROM numa.btree_stats('t_id'))), 'not loaded', 'lazy: EXPLAIN does not load');
is(by_index($node, $query{t_id}), by_seq($node, $query{t_id}), 'lazy: the first scan');
is($node->safe_psql('postgres', q(SELECT state FROM numa.btree_stats('t_id'))), 'loaded', 'lazy: the first scan loads');
is($node->safe_psql('postgres', q(SELECT state FROM numa.btree_stats('t_txt'))), 'not loaded', 'lazy: the other index is not loaded');
# A statement that reads and writes at once.
$node->safe_psql('postgres', q(SET enable_seqscan = off; UPDATE t SET txt = txt || '!' WHERE txt > 'row 7'));
all_same('after a lazy restart');
check_all($node, 'after a lazy restart');

# A fast stop in the middle of a load is clean.
$node->adjust_conf('postgresql.conf', 'numa_migrate.load', 'eager');
$node->restart;
my $start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', 20, 'fast stop while loading');
$node->start;
all_same('after a stop in the middle of a load');
check_all($node, 'after a stop in the middle of a load');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

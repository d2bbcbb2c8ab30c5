# numa_migrate.max_trees reached: what would need one more tree in memory is refused with a hint and leaves
# nothing; a table with an index that cannot be loaded is read, written and vacuumed all the same. Nobody
# asks for its load every second (the log floods of https://github.com/citusdata/pg_cron/issues/282).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "numa_migrate.max_trees = 16\nnuma_migrate.naptime = 50ms\nmax_prepared_transactions = 5");
my $full = qr/too many numa_btree indexes in memory.*All 16 slots.*HINT:  Raise numa_migrate\.max_trees/s;
sub slots { return $node->safe_psql('postgres', "SELECT count(*) FROM numa.stat_btree WHERE state = 'loaded'"); }

$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
DO $$ BEGIN
	FOR i IN 1 .. 15 LOOP
		EXECUTE format('CREATE TABLE t%s (a int, b int)', i);
		EXECUTE format('CREATE INDEX t%s_a ON t%1$s USING numa_btree (a)', i);
		EXECUTE format('INSERT INTO t%s SELECT g, g FROM generate_series(1, 1000) g', i);
	END LOOP;
END $$;
CREATE TABLE u (a int); CREATE UNIQUE INDEX u_a ON u USING numa_btree (a); INSERT INTO u SELECT generate_series(1, 100);
));
is(slots(), 16, 'all slots are in use');

# One tree too many.
fails_like($node, $_, '53400', $full, $_) foreach (
	'CREATE INDEX t1_b ON t1 USING numa_btree (b)', 'REINDEX INDEX t2_a', 'TRUNCATE t3', 'VACUUM FULL t4', 'CLUSTER t5 USING t5_a',
	'ALTER TABLE t6 ALTER a TYPE bigint', 'CREATE TEMP TABLE tt (a int); CREATE INDEX ON tt USING numa_btree (a)',
	'BEGIN; DROP TABLE t15; CREATE INDEX t1_b ON t1 USING numa_btree (b)');
is($node->safe_psql('postgres', 'SELECT ' . join(' + ', map { "(SELECT count(*) FROM t$_)" } 1 .. 15)), 15000, 'nothing is lost');
is($node->safe_psql('postgres', q(SELECT to_regclass('t1_b') IS NULL)), 't', 'no index is left over');
is(slots(), 16, 'nor a slot');
is($node->psql('postgres', 'INSERT INTO t1 VALUES (0, 0); UPDATE t2 SET a = a + 1; DELETE FROM u WHERE a = 1; VACUUM t1; VACUUM t2; VACUUM u'), 0, 'what is in memory works');
is($node->psql('postgres', 'REINDEX INDEX CONCURRENTLY t7_a'), 3, 'REINDEX CONCURRENTLY is refused');
is($node->psql('postgres', 'DROP INDEX t7_a_ccnew'), 0, 'its invalid index can be dropped');
check_all($node, 'full');

# A slot comes back with its index, and with an unload.
is($node->psql('postgres', 'DROP TABLE t15'), 0, 'DROP');
is($node->psql('postgres', 'CREATE INDEX t1_b ON t1 USING numa_btree (b)'), 0, 'then there is room');
is($node->safe_psql('postgres', q(SELECT numa.btree_unload('t14_a'))), 't', 'unload');
is($node->psql('postgres', 'CREATE INDEX t2_b ON t2 USING numa_btree (b)'), 0, 'then there is room again');

# t14_a is in no slot and can't be in one.
fails_like($node, q(SELECT numa.btree_load('t14_a')), '53400', $full, 'no room to load it');
fails_like($node, q(SELECT numa.btree_check('t14_a')), '53400', $full, 'nor to check it');
is($node->safe_psql('postgres', q(SELECT state FROM numa.btree_stats('t14_a'))), 'not loaded', 'btree_stats says what it is');
is($node->safe_psql('postgres', q(SELECT numa.btree_unload('t14_a'))), 'f', 'it is not in memory');
is($node->psql('postgres', 'INSERT INTO t14 SELECT g, g FROM generate_series(1001, 3000) g; UPDATE t14 SET a = -a WHERE a <= 10; DELETE FROM t14 WHERE a > 2500'), 0, 'its table is written to');
is($node->psql('postgres', 'BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM t14; INSERT INTO t14 VALUES (2501, 0); COMMIT'), 0, 'by a serializable transaction, too');
is($node->psql('postgres', $_), 0, $_) foreach ('VACUUM t14', 'ANALYZE t14', 'VACUUM (PARALLEL 2) t14');
is(planned($node, 'SELECT a FROM t14 WHERE a = 5', 't14_a'), 0, 'it is in no plan');
is(by_index($node, 'SELECT count(*) FROM t14 WHERE a > 0'), 2491, 'queries find another way');
# A session that has the index open sees that it is loaded after all.
my $s = $node->background_psql('postgres');
$s->query_safe('INSERT INTO t14 VALUES (2502, 0)');
$node->safe_psql('postgres', 'DROP INDEX t2_b');
is($node->safe_psql('postgres', q(SELECT numa.btree_load('t14_a'))), 't', 'loaded when there is room');
$s->query_safe('INSERT INTO t14 VALUES (2503, 0)');
$s->quit;
same_rows($node, 'SELECT a FROM t14 WHERE a > 2490 ORDER BY a', 't14_a', 'complete');
check_all($node, 'room again');

# A unique index without a slot can't be unique, so it takes nothing in.
$node->safe_psql('postgres', q(SELECT numa.btree_unload('u_a')));
$node->safe_psql('postgres', 'CREATE INDEX t2_b ON t2 USING numa_btree (b)');
fails_like($node, 'INSERT INTO u VALUES (5)', '53400', $full, 'INSERT into a unique index that has no room');
is($node->psql('postgres', 'DELETE FROM u WHERE a = 50; VACUUM u'), 0, 'DELETE and VACUUM');

# More indexes than slots at a start: those that find room are loaded; the queries that would like
# to use another don't have it tried again and again.
$node->restart;
foreach (1 .. 100) { last if slots() == 16; select(undef, undef, undef, 0.1); }
is(slots(), 16, 'restarted: all slots are in use');
my $out = $node->safe_psql('postgres', q(
	SELECT c.oid::regclass, i.indrelid::regclass, a.attname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
	WHERE c.relam = (SELECT oid FROM pg_am WHERE amname = 'numa_btree') AND c.oid NOT IN (SELECT index FROM numa.stat_btree)));
like($out, qr/^\w+\|\w+\|\w+$/, 'but one index is out');
my ($index, $table, $column) = split(/\|/, $out);
my $log = -s $node->logfile;
foreach (1 .. 20) { $node->safe_psql('postgres', "SELECT FROM $table WHERE $column = 5"); select(undef, undef, undef, 0.2); }
my $complaints = () = substr(slurp_file($node->logfile), $log) =~ /too many numa_btree indexes/g;
cmp_ok($complaints, '<=', 1, "20 queries in 4 s that would use it: $complaints complaints in the log");
my $other = $table eq 't3' ? 't4' : 't3';
$node->safe_psql('postgres', "DROP TABLE $other");
ok(wait_planned($node, "SELECT $column FROM $table WHERE $column = 5", $index), 'loaded as soon as there is room');
check_all($node, 'restarted');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

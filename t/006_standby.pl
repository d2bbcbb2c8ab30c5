# On a standby nothing inserts into the tree: it is not planned, a direct use is refused,
# and promotion loads it.  https://github.com/tensorchord/pgvecto.rs/issues/577 (a standby
# with a catalog entry and no data), https://github.com/orioledb/orioledb/issues/561
# (TRUNCATE not seen there).
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = new_node('primary', init => { allows_streaming => 1 });
$primary->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, txt text);
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 5000) g;
CREATE TABLE cut (a int); CREATE INDEX cut_a ON cut USING numa_btree (a); INSERT INTO cut SELECT generate_series(1, 100);
));
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q(INSERT INTO t SELECT g, 'late ' || g FROM generate_series(5001, 6000) g; DELETE FROM t WHERE id <= 100; TRUNCATE cut; INSERT INTO cut VALUES (7);
CREATE TABLE made (a int); CREATE INDEX made_a ON made USING numa_btree (a); INSERT INTO made SELECT generate_series(1, 50); VACUUM t;));
$primary->wait_for_catchup($standby);

is(planned($standby, 'SELECT id FROM t WHERE id = 500', 't_id'), 0, 'not planned on a standby');
is(by_index($standby, 'SELECT count(*), sum(id) FROM t WHERE id > 0'), by_seq($primary, 'SELECT count(*), sum(id) FROM t WHERE id > 0'), 'queries answer from the heap');
is(by_index($standby, 'SELECT a FROM cut WHERE a > 0'), '7', 'TRUNCATE is seen');
is(by_index($standby, 'SELECT max(id) FROM t'), '6000', 'max');
fails_like($standby, "SELECT numa.btree_$_('t_id')", '25006', qr/during recovery.*promot/s, "btree_$_ is refused") foreach qw(load check);
is($standby->psql('postgres', 'SELECT count(*) FROM numa.doctor(), numa.stat_btree, numa.stat_migrator'), 0, 'views answer');
is($standby->safe_psql('postgres', q(SET client_min_messages = error; SELECT asked >= 0 FROM numa.move_relation('t', (SELECT min(node) FROM numa.topology() WHERE allowed)))), 't', 'buffers of a standby can be moved');

# A restart and a crash of the standby are harmless.
$standby->restart;
is(by_index($standby, 'SELECT count(*) FROM t'), '5900', 'after a restart of the standby');

# A cached plan made on the standby must not miss the promotion, nor the other way round.
my $s = $standby->background_psql('postgres');
$s->query_safe('SET enable_seqscan = off; PREPARE p AS SELECT count(*) FROM t WHERE id > 4000');
is($s->query_safe('EXECUTE p'), '2000', 'prepared on the standby');
$standby->promote;
is($s->query_safe('EXECUTE p'), '2000', 'executed after promotion');
$s->quit;
same_rows($standby, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'promotion loads');
same_rows($standby, 'SELECT a FROM made WHERE a > 0 ORDER BY a', 'made_a', 'promotion loads what was made meanwhile');
fails_like($standby, 'INSERT INTO t VALUES (5500)', '23505', 't_id', 'uniqueness after promotion');
is($standby->psql('postgres', q(INSERT INTO t VALUES (90000, 'new'); INSERT INTO cut VALUES (8))), 0, 'inserts after promotion');
same_rows($standby, 'SELECT a FROM cut WHERE a > 0 ORDER BY a', 'cut_a', 'the truncated one');
check_all($standby, 'promoted');
check_all($primary, 'primary');
$primary->stop;
$standby->stop;
unlike(slurp_file($standby->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

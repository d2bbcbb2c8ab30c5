# Without preload the index is of no use but never bricks the table.
# https://github.com/postgrespro/pg_wait_sampling/issues/1: used without preload it broke.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main');
$node->safe_psql('postgres', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, n int);
INSERT INTO t SELECT g, 0 FROM generate_series(1, 2000) g;
CREATE INDEX t_id ON t USING numa_btree (id);
CREATE TABLE u (id int, n int);
INSERT INTO u SELECT g, 0 FROM generate_series(1, 2000) g;
CREATE UNIQUE INDEX u_id ON u USING numa_btree (id);
CREATE INDEX u_bt ON u USING btree (n);
CREATE TABLE gone (a int); CREATE INDEX gone_a ON gone USING numa_btree (a);
CREATE TABLE away (a int); CREATE INDEX away_a ON away USING numa_btree (a); INSERT INTO away VALUES (1);
CREATE TABLE part (a int) PARTITION BY RANGE (a); CREATE TABLE part1 PARTITION OF part FOR VALUES FROM (0) TO (10); CREATE INDEX part_a ON part USING numa_btree (a);
));

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;

my $hint = qr/HINT:  Add numa_migrate to shared_preload_libraries/;
# Reading goes on.
is(by_index($node, 'SELECT count(*), sum(id) FROM t WHERE id > 1000'), '1000|1500500', 'SELECT by another plan');
is(planned($node, 'SELECT id FROM t WHERE id = 5', 't_id'), 0, 'the index is not planned');
is($node->safe_psql('postgres', 'SELECT max(id), min(id) FROM u'), '2000|1', 'min and max');
is($node->safe_psql('postgres', 'SELECT count(*) FROM t JOIN u USING (id) WHERE u.n = 0'), '2000', 'join');
# Settings of the server's start that are in the file are not known now; no session is told off for them.
is(($node->psql('postgres', q(LOAD 'numa_migrate'; SHOW numa_migrate.max_memory)))[2], '', 'no warnings about settings');

# What needs the index says so.
fails_like($node, 'INSERT INTO t VALUES (1)', '55000', $hint, 'INSERT');
fails_like($node, 'INSERT INTO u VALUES (5000)', '55000', $hint, 'INSERT, unique');
fails_like($node, 'UPDATE t SET id = 0 WHERE id = 1', '55000', $hint, 'UPDATE of the key');
fails_like($node, 'COPY t (id) FROM PROGRAM \'echo 1\'', '55000', $hint, 'COPY');
fails_like($node, 'CREATE INDEX ON t USING numa_btree (n)', '55000', $hint, 'CREATE INDEX');
fails_like($node, 'REINDEX INDEX t_id', '55000', $hint, 'REINDEX');
fails_like($node, 'VACUUM FULL t', '55000', $hint, 'VACUUM FULL');
fails_like($node, "SELECT numa.btree_$_('t_id')", '55000', $hint, "btree_$_") foreach qw(load unload check stats);
fails_like($node, "SELECT numa.move_relation('t_id', (SELECT min(node) FROM numa.topology() WHERE allowed))", '55000', $hint, 'move_relation of an index');
# What does not, works: deletes, updates that keep the key in place, VACUUM, TRUNCATE of others.
is($node->psql('postgres', 'DELETE FROM t WHERE id <= 500'), 0, 'DELETE');
is($node->psql('postgres', 'UPDATE t SET n = 1 WHERE id = 501'), 0, 'HOT update');
is($node->psql('postgres', 'VACUUM t'), 0, 'VACUUM');
is($node->psql('postgres', 'ANALYZE t'), 0, 'ANALYZE');
is($node->psql('postgres', 'ALTER INDEX t_id RENAME TO t_id2; ALTER INDEX t_id2 RENAME TO t_id'), 0, 'rename');
is($node->psql('postgres', 'DROP INDEX gone_a'), 0, 'DROP INDEX');
is($node->psql('postgres', 'DROP TABLE gone'), 0, 'DROP TABLE');
is($node->psql('postgres', 'DROP INDEX away_a; CREATE INDEX away_a ON away USING btree (a); INSERT INTO away VALUES (2)'), 0, 'to btree and on');
is($node->psql('postgres', 'DROP TABLE part'), 0, 'DROP of a partitioned table');
is($node->safe_psql('postgres', q(SELECT count(*) > 0 FROM numa.topology())), 't', 'topology answers');
is($node->safe_psql('postgres', q(SELECT ok, hint <> '' FROM numa.doctor() WHERE item = 'preload')), 'f|t', 'the doctor says what is missing');
is($node->safe_psql('postgres', q(SELECT count(*) >= 0 FROM numa.stat_btree, numa.stat_moves)), 't', 'views answer');
is($node->psql('postgres', q(LOAD 'numa_migrate'; SHOW numa_migrate.mode)), 0, 'LOAD and settings');
$node->command_ok(['pg_dump', '-f', '/dev/null', $node->connstr('postgres')], 'pg_dump');
is($node->psql('postgres', 'CREATE DATABASE other'), 0, 'CREATE DATABASE');
is($node->psql('other', 'CREATE EXTENSION numa_migrate; DROP EXTENSION numa_migrate'), 0, 'CREATE and DROP EXTENSION');
is($node->psql('postgres', 'DROP DATABASE other'), 0, 'DROP DATABASE');

# With preload again all is as it should be, also what changed meanwhile.
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'numa_migrate'");
$node->restart;
same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'preloaded again');
is($node->psql('postgres', q(INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (5000))), 0, 'inserts work again');
same_rows($node, 'SELECT id FROM u WHERE id > 0 ORDER BY id', 'u_id', 'preloaded again, unique');
check_all($node, 'preloaded again');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
is($node->psql('postgres', 'DROP EXTENSION numa_migrate CASCADE'), 0, 'DROP EXTENSION CASCADE without preload');
is($node->psql('postgres', 'INSERT INTO t VALUES (3)'), 0, 'and the table is free');
$node->stop;
done_testing();

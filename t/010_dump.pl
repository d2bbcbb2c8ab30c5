# pg_dump and restore, pg_basebackup: the index comes back as what it was, with rows.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', init => { allows_streaming => 1 });
my $dir = PostgreSQL::Test::Utils::tempdir();
$node->safe_psql('postgres', q(
CREATE DATABASE a; CREATE DATABASE b; CREATE DATABASE c;
));
$node->safe_psql('a', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE EXTENSION citext;
SELECT numa.clone_opclass('citext_ops');
CREATE TABLE t (id int, txt text, c citext);
INSERT INTO t SELECT g, 'row ' || g % 100, 'C' || g FROM generate_series(1, 3000) g;
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id) INCLUDE (txt) WITH (fillfactor = 70);
CREATE INDEX t_txt ON t USING numa_btree (txt text_pattern_ops DESC NULLS LAST, lower(txt) COLLATE "C") WHERE id > 10;
CREATE INDEX t_c ON t USING numa_btree (c);
CREATE TABLE ex (a int, CONSTRAINT ex_uni EXCLUDE USING numa_btree (a WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO ex SELECT generate_series(1, 10);
CREATE TABLE p (k int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE INDEX p_k ON p USING numa_btree (k);
INSERT INTO p SELECT generate_series(0, 99);
CREATE MATERIALIZED VIEW mv AS SELECT id FROM t WHERE id < 50;
CREATE INDEX mv_id ON mv USING numa_btree (id);
));
my $defs = q(SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef);
my $want = $node->safe_psql('a', $defs);
like($want, qr/USING numa_btree/, 'definitions name the access method');

sub restored
{
	my ($db, $what) = @_;
	is($node->safe_psql($db, $defs), $want, "$what: definitions");
	same_rows($node, 'SELECT id, txt FROM t WHERE id > 0 ORDER BY id', 't_id', "$what: rows", $db);
	same_rows($node, q(SELECT c FROM t WHERE c > 'c200' ORDER BY c), 't_c', "$what: a class of another extension", $db);
	fails_like($node, 'INSERT INTO t VALUES (7)', '23505', 't_id', "$what: unique", $db);
	fails_like($node, 'INSERT INTO ex VALUES (7)', '23P01', 'ex_uni', "$what: exclusion", $db);
	check_all($node, $what, $db);
}
foreach my $case ([ 'b', 'plain', [] ], [ 'c', 'custom', [] ])
{
	my ($db, $format) = @$case;
	my $file = "$dir/$format";
	$node->command_ok([ 'pg_dump', '-F', $format, '-f', $file, '-d', $node->connstr('a') ], "pg_dump $format");
	if ($format eq 'plain')
	{
		$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, '-d', $node->connstr($db) ], 'restore with psql');
	}
	else
	{
		$node->command_ok([ 'pg_restore', '-e', '-j', '2', '-d', $node->connstr($db), $file ], 'pg_restore with 2 jobs');
	}
	restored($db, $format);
}
# The restored database dumps the same.
command_ok([ 'pg_dump', '-f', "$dir/again", '-d', $node->connstr('b') ], 'pg_dump of the restored one');
# \restrict keys and the version comment differ by run.
my ($one, $two) = map { my $s = slurp_file($_); $s =~ s/^\\(un)?restrict .*\n//mg; $s } "$dir/plain", "$dir/again";
is($two, $one, 'and it is the same dump');

# A physical copy starts as any other start.
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy');
$copy->start;
same_rows($copy, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', 'pg_basebackup: rows', 'a');
check_all($copy, 'pg_basebackup', 'a');
$copy->stop;
$node->stop;
done_testing();

# numa_migrate.pool_page_size = 2MB: the pool lies on huge pages as far as the kernel has them,
# the doctor says how far, and everything else is as on small pages.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "numa_migrate.pool_page_size = '2MB'\nnuma_migrate.max_memory = 256MB");
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int, v text);
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 300000) g;
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_v ON t USING numa_btree (v);
INSERT INTO t SELECT g, md5(g::text) FROM generate_series(300001, 330000) g;
DELETE FROM t WHERE id % 7 = 0;
VACUUM ANALYZE t;
));
check_all($node, 'after changes');
is(by_index($node, 'SELECT count(*) FROM t WHERE id BETWEEN 1000 AND 1999'), '857', 'queries answer');

# "of the pool's N, M are known to lie on huge pages": (N, M), with their units
sub huge
{
	my $detail = $node->safe_psql('postgres', q(SELECT detail FROM numa.doctor() WHERE item = 'shmem THP'));
	like($detail, qr/of the pool's \d+ [kMG]B, \d+ [kMG]B are known to lie on huge pages/, "the doctor: $detail");
	return $detail =~ /of the pool's (\d+ .B), (\d+ .B) are known/;
}
my ($committed, $huge) = huge();
my ($ok, $hint) = split /\|/, $node->safe_psql('postgres', q(SELECT ok, hint FROM numa.doctor() WHERE item = 'shmem THP'));
if ($huge eq $committed)
{
	is($ok, 't', 'all of it is on huge pages');
}
else
{
	# an old kernel, or no free memory in pieces of 2 MB
	is($ok, 'f', "only $huge of $committed is on huge pages");
	like($hint, qr/small pages/, 'and the hint says what that means');
}
my $full = $node->safe_psql('postgres', 'SELECT sum(committed_bytes) / 1048576 FROM numa.stat_pool');
cmp_ok($full, '>=', 20, "$full MB committed");

# memory goes back, comes again, and survives a crash
$node->safe_psql('postgres', q(SELECT numa.btree_unload('t_id'), numa.btree_unload('t_v')));
my $left = $node->safe_psql('postgres', 'SELECT sum(committed_bytes) / 1048576 FROM numa.stat_pool');
cmp_ok($left, '<=', 4, "unloaded: $left MB left");
$node->safe_psql('postgres', q(SELECT numa.btree_load('t_id'), numa.btree_load('t_v')));
check_all($node, 'after unload and load');
$node->stop('immediate');
$node->start;
ok(wait_planned($node, 'SELECT id FROM t WHERE id = 5', 't_id'), 'after a crash the index is loaded');
is(by_index($node, 'SELECT count(*) FROM t WHERE id BETWEEN 1000 AND 1999'), '857', 'after a crash');
check_all($node, 'after a crash');
huge();
$node->stop;

# small pages: none of this
$node->append_conf('postgresql.conf', "numa_migrate.pool_page_size = '4kB'");
$node->start;
is($node->safe_psql('postgres', q(SELECT detail LIKE '%huge pages%' FROM numa.doctor() WHERE item = 'shmem THP')), 'f', '4kB: the doctor does not speak of it');
is(by_index($node, 'SELECT count(*) FROM t WHERE id BETWEEN 1000 AND 1999'), '857', '4kB: queries answer');
$node->stop;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
done_testing();

# load = lazy: an index that is not in memory is planned with a guess of its size. The guess goes by
# statistics, so what a plan costs is about the same before and after the load.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => "numa_migrate.load = lazy\nclient_min_messages = error");
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE TABLE t AS SELECT g AS id, g % 10 AS few, 'value ' || g % 7 AS word, CASE WHEN g % 3 = 0 THEN g END AS holes, md5(g::text) AS hash FROM generate_series(1, 30000) g;
CREATE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_few ON t USING numa_btree (few);
CREATE INDEX t_word ON t USING numa_btree (word);
CREATE INDEX t_both ON t USING numa_btree (few, word);
CREATE INDEX t_holes ON t USING numa_btree (holes);
CREATE INDEX t_hash ON t USING numa_btree (hash);
CREATE INDEX t_expr ON t USING numa_btree ((id % 4));
CREATE INDEX t_copies ON t USING numa_btree (few) WITH (deduplicate_items = off);
VACUUM ANALYZE t;
));

# Size of an index in a plan: the bitmap scan of all of it reads all of its pages, at 1000 each.
sub cost
{
	my ($index) = @_;
	my $plan = $node->safe_psql('postgres', qq(
BEGIN;
UPDATE pg_index SET indisvalid = indexrelid = '$index'::regclass WHERE indrelid = 't'::regclass;
SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
SET seq_page_cost = 1000; SET random_page_cost = 1000; SET cpu_index_tuple_cost = 0; SET cpu_operator_cost = 0;
EXPLAIN SELECT id FROM t WHERE ) . { t_id => 'id > 0', t_few => 'few >= 0', t_word => q(word > ''), t_both => 'few >= 0', t_holes => 'holes IS NULL OR holes > 0', t_hash => q(hash > ''), t_expr => 'id % 4 >= 0', t_copies => 'few >= 0' }->{$index} . q(; ROLLBACK));
	my $sum = 0;
	$sum += $1 foreach $plan =~ /Bitmap Index Scan on $index +\(cost=[\d.]+\.\.([\d.]+)/g;
	return $sum;
}

foreach my $index (qw(t_id t_few t_word t_both t_holes t_hash t_expr t_copies))
{
	my $loaded = cost($index);
	$node->safe_psql('postgres', "SELECT numa.btree_unload('$index')");
	my $guess = cost($index);
	is($node->safe_psql('postgres', "SELECT state FROM numa.stat_btree WHERE index = '$index'::regclass"), 'not loaded', "$index: planning does not load");
	ok($loaded > 0 && $guess > 0.7 * $loaded && $guess < 1.4 * $loaded, "$index: the guess is near the truth") or diag("loaded $loaded, guess $guess");
}
$node->stop;
done_testing();

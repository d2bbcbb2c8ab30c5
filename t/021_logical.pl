# Logical replication: what a numa_btree index does on the publisher and on the subscriber.
#
# The publisher only needs the columns of the index. The subscriber looks rows up through it;
# core of 17 finds the operator for that by names of access methods and knows btree and hash
# only, so its apply worker stops with an error; REPLICA IDENTITY FULL, or a btree index as
# identity, is the way there. Before and after 17 it works.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pub = new_node('pub', init => { allows_streaming => 'logical' });
my $sub = new_node('sub', init => { allows_streaming => 'logical' });
my ($version) = $pub->safe_psql('postgres', 'SHOW server_version_num') =~ /^(\d+)\d{4}$/;
my $schema = q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id int NOT NULL, txt text);
CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_txt ON t USING numa_btree (txt);
ALTER TABLE t REPLICA IDENTITY USING INDEX t_id;
CREATE TABLE f (a int, b text);
CREATE INDEX f_a ON f USING numa_btree (a);
ALTER TABLE f REPLICA IDENTITY FULL;
);
$pub->safe_psql('postgres', $schema);
$sub->safe_psql('postgres', $schema);
$pub->safe_psql('postgres', q(
INSERT INTO t SELECT g, 'row ' || g FROM generate_series(1, 3000) g;
INSERT INTO f SELECT g % 100, 'f' || g FROM generate_series(1, 1000) g;
CREATE PUBLICATION p FOR ALL TABLES;
));
my $connstr = $pub->connstr . ' dbname=postgres';
$sub->safe_psql('postgres', "CREATE SUBSCRIPTION s CONNECTION '$connstr' PUBLICATION p");
$sub->wait_for_subscription_sync($pub, 's');
sub in_step
{
	my ($what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $q ('SELECT id, txt FROM t ORDER BY id, txt', 'SELECT a, b FROM f ORDER BY a, b')
	{
		is(by_seq($sub, $q), by_seq($pub, $q), "$what: $q");
	}
	same_rows($sub, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', "$what: the subscriber's index");
	same_rows($sub, 'SELECT a FROM f WHERE a > 0 ORDER BY a', 'f_a', "$what: the subscriber's index, REPLICA IDENTITY FULL");
	check_all($sub, "$what, subscriber");
}
in_step('copied');

$pub->safe_psql('postgres', q(INSERT INTO t SELECT g, 'late ' || g FROM generate_series(3001, 3500) g; INSERT INTO f VALUES (7, 'seven');
UPDATE f SET b = b || ' changed', a = a + 1000 WHERE a = 42; DELETE FROM f WHERE a = 43; TRUNCATE f; INSERT INTO f SELECT g % 50, 'again' || g FROM generate_series(1, 300) g; UPDATE f SET a = -1 WHERE a = 3; DELETE FROM f WHERE a = 4));
$pub->wait_for_catchup('s');
in_step('inserted; REPLICA IDENTITY FULL');

my $changes = q(UPDATE t SET txt = 'changed' WHERE id % 7 = 0; UPDATE t SET id = -id WHERE id BETWEEN 100 AND 200; DELETE FROM t WHERE id > 3400);
my $offset = -s $sub->logfile;
$pub->safe_psql('postgres', $changes);
if ($version == 17)
{
	# If this ends, the README's row does, too.
	ok(eval { $sub->wait_for_log(qr/ERROR:  (?:[0-9A-Z]{5}: )?missing operator 0\(\d+,\d+\) in opfamily/, $offset) }, 'an update by an index of ours stops the apply worker of 17');
	is(by_seq($sub, 'SELECT count(*) FROM t WHERE id < 0'), 0, 'and is not applied');
	$sub->safe_psql('postgres', q(SET client_min_messages = error; CREATE UNIQUE INDEX t_bt ON t USING btree (id); ALTER TABLE t REPLICA IDENTITY USING INDEX t_bt));
}
$pub->wait_for_catchup('s');
in_step('updated and deleted');
# Each change looked its row up by the identity.
cmp_ok($sub->safe_psql('postgres', q(SELECT lookups FROM numa.btree_stats('t_id'))), '>', 500, 'by the index') unless $version == 17;
is(by_seq($sub, 'SELECT count(*) FROM t WHERE id < 0'), 101, 'keys were changed');

# The subscriber comes back from a crash with changes waiting for it.
$sub->stop('immediate');
$pub->safe_psql('postgres', q(UPDATE t SET txt = 'while it was down' WHERE id % 11 = 0; INSERT INTO t VALUES (9999, 'new')));
$sub->start;
$pub->wait_for_catchup('s');
in_step('after a crash of the subscriber');

# A row that is there already: the apply worker reports the conflict as a unique violation.
$sub->safe_psql('postgres', q(INSERT INTO t VALUES (5000, 'in the way')));
$offset = -s $sub->logfile;
$pub->safe_psql('postgres', q(INSERT INTO t VALUES (5000, 'published')));
ok(eval { $sub->wait_for_log(qr/duplicate key value violates unique constraint "t_id"|conflict detected on relation "public\.t": conflict=insert_exists/, $offset) }, 'a conflict is reported');
$sub->safe_psql('postgres', 'DELETE FROM t WHERE id = 5000');
$pub->wait_for_catchup('s');
in_step('after the conflict');
$sub->safe_psql('postgres', 'DROP SUBSCRIPTION s');
$_->stop foreach ($sub, $pub);
unlike(slurp_file($_->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed') foreach ($sub, $pub);
done_testing();

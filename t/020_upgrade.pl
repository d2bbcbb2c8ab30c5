# pg_upgrade, and pg_dump of an older server into a newer one.
#
# The old server is NM_OLD_INSTALL (a folder with bin, lib, ...) with numa_migrate installed;
# by default it is the server under test itself, as in core's own test of pg_upgrade.
# test/versions/run upgrades 15 to each newer version that way.
#
# pg_upgrade makes every index anew, empty, then puts the old file in its place. For us that
# file is one page with an identity, whatever the index holds: the trees come from the heap.
# Neither server has our processes while it runs, and the new one need not even have
# numa_migrate in shared_preload_libraries.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $old_install = $ENV{NM_OLD_INSTALL};
# The same on both sides, or pg_upgrade refuses.
my @initdb = ('--locale=C.UTF-8', '--encoding=UTF8');
sub init_options
{
	my ($version) = @_;
	return { force_initdb => 1, extra => [ @initdb, $version >= 18 ? '--no-data-checksums' : () ] };
}
sub major { my ($v) = `@_ --version` =~ /(\d+)/; return $v; }
my $new_major = major('postgres');
my $old_major = $old_install ? major("$old_install/bin/postgres") : $new_major;
note("from $old_major to $new_major");

my $old = new_node('old', init => init_options($old_major), $old_install ? (install_path => $old_install) : ());
$old->safe_psql('postgres', 'CREATE DATABASE a; CREATE DATABASE b');
$old->safe_psql('b', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE TABLE t (id bigint); CREATE UNIQUE INDEX t_id ON t USING numa_btree (id);
INSERT INTO t SELECT generate_series(1, 500);
));
$old->safe_psql('a', q(
SET client_min_messages = error;
CREATE EXTENSION numa_migrate;
CREATE EXTENSION citext;
SELECT numa.clone_opclass('citext_ops');
CREATE SCHEMA app;
-- Finds what it calls by the search path that the index was made with, or not at all.
CREATE FUNCTION app.norm(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN lower($1); END $$;
CREATE FUNCTION app.dig_cmp(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS
	$$ SELECT CASE WHEN $1 % 10 <> $2 % 10 THEN sign($1 % 10 - $2 % 10)::int ELSE sign($1 - $2)::int END $$;
CREATE FUNCTION app.dig_eq(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE STRICT AS $$ BEGIN RETURN $1 = $2; END $$;
CREATE OPERATOR app.=# (LEFTARG = int, RIGHTARG = int, FUNCTION = app.dig_eq, COMMUTATOR = OPERATOR(app.=#), RESTRICT = eqsel);
CREATE OPERATOR CLASS app.dig_ops FOR TYPE int USING numa_btree AS OPERATOR 3 app.=#, FUNCTION 1 app.dig_cmp(int, int);

CREATE TABLE t (id bigint, n int, txt text, c citext, big text);
INSERT INTO t SELECT g, g % 50, CASE g % 3 WHEN 0 THEN 'Row ' ELSE 'row-' END || g % 400, 'Ci' || g % 300,
	CASE WHEN g % 500 = 0 THEN (SELECT string_agg(md5((g * 100 + i)::text), '') FROM generate_series(1, 80) i) ELSE g::text END
FROM generate_series(1, 6000) g;
DELETE FROM t WHERE id % 11 = 0;
CREATE INDEX t_id ON t USING numa_btree (id);
CREATE INDEX t_txt ON t USING numa_btree (txt DESC NULLS LAST, id);
CREATE INDEX t_pat ON t USING numa_btree (txt text_pattern_ops);
CREATE UNIQUE INDEX t_uni ON t USING numa_btree (id DESC) INCLUDE (txt, n) WITH (fillfactor = 70);
CREATE INDEX t_part ON t USING numa_btree (n) WHERE id > 3000;
CREATE INDEX t_expr ON t USING numa_btree (app.norm(txt), (n + 1));
CREATE INDEX t_c ON t USING numa_btree (c) WITH (deduplicate_items = off);
CREATE INDEX t_dig ON t USING numa_btree (n app.dig_ops);
CREATE INDEX t_big ON t USING numa_btree (big) WITH (node = 0);
-- The order of a language may change with the library's version; ours is made anew.
DO $$ BEGIN
	IF EXISTS (SELECT FROM pg_collation WHERE collname = 'en-x-icu') THEN
		CREATE INDEX t_icu ON t USING numa_btree (txt COLLATE "en-x-icu");
	END IF;
END $$;
CREATE TABLE nnd (a int); CREATE UNIQUE INDEX nnd_a ON nnd USING numa_btree (a) NULLS NOT DISTINCT; INSERT INTO nnd VALUES (1), (NULL);
CREATE TABLE ex (a int, CONSTRAINT ex_uni EXCLUDE USING numa_btree (a WITH =) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO ex SELECT generate_series(1, 100);
CREATE UNLOGGED TABLE ul (a int); CREATE INDEX ul_a ON ul USING numa_btree (a); INSERT INTO ul SELECT generate_series(1, 700);
CREATE TABLE p (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200);
CREATE INDEX p_k ON p USING numa_btree (k); INSERT INTO p SELECT g, g::text FROM generate_series(0, 199) g;
CREATE MATERIALIZED VIEW mv AS SELECT id, txt FROM t WHERE id < 50; CREATE INDEX mv_id ON mv USING numa_btree (id);
CREATE TABLE cut (a int); CREATE INDEX cut_a ON cut USING numa_btree (a); INSERT INTO cut VALUES (1); TRUNCATE cut;
CREATE TABLE cl (a int, b int); CREATE INDEX cl_b ON cl USING numa_btree (b); INSERT INTO cl SELECT g, -g FROM generate_series(1, 300) g; CLUSTER cl USING cl_b;
CREATE TABLE ri (a int NOT NULL); CREATE UNIQUE INDEX ri_a ON ri USING numa_btree (a); ALTER TABLE ri REPLICA IDENTITY USING INDEX ri_a; INSERT INTO ri VALUES (1);
-- A build that failed left it behind, invalid; pg_upgrade does not take it along.
CREATE TABLE bad (a int); INSERT INTO bad VALUES (1), (1);
));
$old->psql('a', 'SET client_min_messages = error; CREATE UNIQUE INDEX CONCURRENTLY bad_a ON bad USING numa_btree (a)');
$old->psql('a', 'ALTER INDEX cl_b RENAME TO cl_b2; REINDEX INDEX t_id; VACUUM t; UPDATE t SET n = n WHERE id < 500');

# Query and index; a count and sums, since an order may differ by version.
my @queries = (
	[ 'SELECT count(*), sum(id) FROM t WHERE id BETWEEN 100 AND 150', 't_(?:id|uni)' ],
	[ q(SELECT count(*), sum(id) FROM t WHERE txt > 'row-396'), 't_txt' ],
	[ q(SELECT count(*), sum(id) FROM t WHERE txt ~>~ 'row-396'), 't_pat' ],
	[ 'SELECT sum(n), max(txt) FROM t WHERE id < 90', 't_(?:id|uni)' ],
	[ 'SELECT count(*), sum(id) FROM t WHERE n = 7 AND id > 3000', 't_(?:part|id|uni)' ],
	[ q(SELECT count(*), sum(id) FROM t WHERE app.norm(txt) = 'row 33'), 't_expr' ],
	[ q(SELECT count(*), sum(id) FROM t WHERE c = 'CI77'), 't_c' ],
	[ 'SELECT count(*), sum(id) FROM t WHERE n OPERATOR(app.=#) 17', 't_dig' ],
	[ q(SELECT count(*), sum(id) FROM t WHERE big > 'f'), 't_big' ],
	[ 'SELECT count(*) FROM nnd WHERE a IS NULL', 'nnd_a' ],
	[ 'SELECT count(*), sum(a) FROM ex WHERE a > 40', 'ex_uni' ],
	[ 'SELECT count(*), sum(a) FROM ul WHERE a > 40', 'ul_a' ],
	[ 'SELECT count(*), sum(k) FROM p WHERE k > 40', 'p1_k_idx' ],
	[ 'SELECT count(*), sum(id) FROM mv WHERE id > 40', 'mv_id' ],
	[ 'SELECT count(*), sum(a) FROM cl WHERE b < -40', 'cl_b2' ],
	[ 'SELECT count(*), sum(a) FROM cut WHERE a > 0', 'cut_a' ],
	[ 'SELECT count(*), sum(a) FROM ri WHERE a > 0', 'ri_a' ]);
my $icu = $old->safe_psql('a', q(SELECT count(*) FROM pg_class WHERE relname = 't_icu'));
push @queries, [ q(SELECT count(*) FROM t WHERE txt COLLATE "en-x-icu" > 'row-396'), 't_icu' ] if $icu;

# The answers to all of them, in one session.
sub answers
{
	my ($node, $way) = @_;
	my $sql = join(";\n", map { $_->[0] } @queries);
	return split(/\n/, $way eq 'index' ? by_index($node, $sql, 'a') : by_seq($node, $sql, 'a'));
}
# Is each index in the plan of its query? After a start they are loaded in the background.
sub all_planned
{
	my ($node) = @_;
	# Where all rows are visible, reading another index from end to end is cheaper for some of them
	my $sql = "SET enable_indexonlyscan = off;\n" . join("\\echo --\n", map { "EXPLAIN (COSTS OFF) $_->[0];\n" } @queries);
	my ($end, @missing) = time + $PostgreSQL::Test::Utils::timeout_default;
	do
	{
		my @plans = split(/^--$/m, by_index($node, $sql, 'a'));
		@missing = grep { $plans[$_] !~ /\b(?:using|on) $queries[$_]->[1]\b/ } 0 .. $#queries;
	} while (@missing && time < $end);
	diag("not used: $queries[$_]->[1]") foreach @missing;
	return !@missing;
}
my @want = answers($old, 'seq');
is(scalar(@want), scalar(@queries), 'every query has an answer');
# How the indexes are defined. An invalid one is not taken along.
my $defs = q(SELECT pg_get_indexdef(i.indexrelid), c.reloptions FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'public'::regnamespace AND i.indisvalid ORDER BY 1);
my $want_defs = $old->safe_psql('a', $defs);
my $files = q(SELECT relname, relfilenode, oid FROM pg_class WHERE relam = (SELECT oid FROM pg_am WHERE amname = 'numa_btree') AND relkind = 'i' AND relname !~ '^bad' ORDER BY 1);
my $want_files = $old->safe_psql('a', $files);

# What belongs to the extension; classes and family members beside btree's. 19 has taken support
# function 4 ("equal means equal images") from two types. It stays with ours, which never ask it.
my $members = q(SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'numa_migrate') ORDER BY 1);
my $lacking = q(
WITH member AS (
	SELECT am.amname, f.opfname, o.amoplefttype::regtype::text AS l, o.amoprighttype::regtype::text AS r, o.amopstrategy AS num, o.amopopr::regoperator::text AS what
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily JOIN pg_am am ON am.oid = f.opfmethod WHERE f.opfnamespace = 'pg_catalog'::regnamespace
	UNION ALL
	SELECT am.amname, f.opfname, p.amproclefttype::regtype::text, p.amprocrighttype::regtype::text, -p.amprocnum, p.amproc::regprocedure::text
	FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily JOIN pg_am am ON am.oid = f.opfmethod
	WHERE f.opfnamespace = 'pg_catalog'::regnamespace AND p.amprocnum <= (SELECT max(amprocnum) FROM pg_amproc x JOIN pg_opfamily y ON y.oid = x.amprocfamily JOIN pg_am z ON z.oid = y.opfmethod WHERE z.amname = 'numa_btree')
	UNION ALL
	SELECT am.amname, c.opcname, c.opcintype::regtype::text, c.opcdefault::text, 0, f.opfname FROM pg_opclass c JOIN pg_opfamily f ON f.oid = c.opcfamily
	JOIN pg_am am ON am.oid = c.opcmethod WHERE c.opcnamespace = 'pg_catalog'::regnamespace)
SELECT '-', opfname, l, r, num, what FROM (SELECT opfname, l, r, num, what FROM member WHERE amname = 'btree' EXCEPT SELECT opfname, l, r, num, what FROM member WHERE amname = 'numa_btree') x
UNION ALL
SELECT '+', opfname, l, r, num, what FROM (SELECT opfname, l, r, num, what FROM member WHERE amname = 'numa_btree' EXCEPT SELECT opfname, l, r, num, what FROM member WHERE amname = 'btree') x WHERE num <> -4);

# Everything is there and works, in a server that has numa_migrate preloaded.
sub verify
{
	my ($node, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	is($node->safe_psql('a', $defs), $want_defs, "$what: definitions");
	# Versions differ in what statistics they take along.
	$node->safe_psql('a', 'ANALYZE');
	ok(all_planned($node), "$what: every index is used");
	is_deeply([ answers($node, 'index') ], \@want, "$what: answers by the indexes");
	is_deeply([ answers($node, 'seq') ], \@want, "$what: answers without them");
	is(by_index($node, 'SELECT string_agg(id::text, \',\') FROM (SELECT id FROM t WHERE txt > \'Row 3\' ORDER BY txt DESC, id LIMIT 500) x', 'a'),
		by_seq($node, 'SELECT string_agg(id::text, \',\') FROM (SELECT id FROM t WHERE txt > \'Row 3\' ORDER BY txt DESC, id LIMIT 500) x', 'a'), "$what: order");
	check_all($node, $what, 'a');
	check_all($node, "$what, the other database", 'b');
	same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', 't_id', "$what: the other database", 'b');

	# Unique, and writable by all ways.
	fails_like($node, 'INSERT INTO t (id) VALUES (1000)', '23505', 't_uni', "$what: unique", 'a');
	fails_like($node, 'INSERT INTO nnd VALUES (NULL)', '23505', 'nnd_a', "$what: NULLS NOT DISTINCT", 'a');
	fails_like($node, 'INSERT INTO ex VALUES (7)', '23P01', 'ex_uni', "$what: exclusion", 'a');
	fails_like($node, 'INSERT INTO t VALUES (500)', '23505', 't_id', "$what: unique in the other database", 'b');
	is($node->psql('a', q(
SET client_min_messages = error;
INSERT INTO t SELECT g, g % 50, 'new' || g, 'New' || g, g::text FROM generate_series(10001, 11000) g;
UPDATE t SET txt = upper(txt), id = -id WHERE id < 300;
DELETE FROM t WHERE id BETWEEN 2000 AND 2500;
VACUUM ANALYZE t;
INSERT INTO ul VALUES (10000); INSERT INTO p VALUES (150, 'again'); INSERT INTO cut VALUES (5);
REFRESH MATERIALIZED VIEW mv;
UPDATE ri SET a = 2;
CLUSTER cl USING cl_b2;
REINDEX INDEX t_expr; REINDEX INDEX CONCURRENTLY t_big; REINDEX TABLE p;
CREATE INDEX t_more ON t USING numa_btree (n, id);
DROP INDEX t_part, t_dig;
ALTER TABLE t ALTER n TYPE bigint;)), 0, "$what: statements of all kinds");
	same_rows($node, 'SELECT n, id FROM t WHERE n = 3 ORDER BY n, id', 't_more', "$what: rows after that", 'a');
	same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', '(?:t_id|t_uni)', "$what: more rows after that", 'a');
	check_all($node, "$what, written to", 'a');

	# A crash, and what else a server goes through.
	$node->stop('immediate');
	$node->start;
	same_rows($node, 'SELECT id FROM t WHERE id > 0 ORDER BY id', '(?:t_id|t_uni)', "$what: after a crash", 'a');
	is(by_seq($node, 'SELECT count(*) FROM ul', 'a'), 0, "$what: the crash has emptied the unlogged table");
	is($node->psql('a', 'INSERT INTO ul SELECT generate_series(1, 10)'), 0, "$what: it takes rows");
	check_all($node, "$what, after a crash", 'a');

	# The extension is the same as one made here, once refreshed.
	is($node->psql('a', 'SELECT numa.refresh_opclasses(), numa.clone_opclass(\'citext_ops\')'), 0, "$what: refresh_opclasses");
	is($node->safe_psql('a', 'SELECT numa.refresh_opclasses()'), 0, "$what: and nothing is left to refresh");
	is($node->safe_psql('a', $lacking), '', "$what: no class or member is lacking, none is too many");
	is($node->safe_psql('a', q(SELECT opcname FROM pg_opclass WHERE opcmethod = (SELECT oid FROM pg_am WHERE amname = 'numa_btree') AND opcname <> 'dig_ops' AND NOT amvalidate(oid))),
		'', "$what: all classes are valid");
	is($node->psql('postgres', 'CREATE DATABASE fresh'), 0, "$what: a database");
	is($node->psql('fresh', 'CREATE EXTENSION numa_migrate'), 0, "$what: with the extension made anew");
	is($node->safe_psql('a', $members), $node->safe_psql('fresh', $members), "$what: the extension's members are the same");
	is($node->psql('a', 'SET client_min_messages = error; DROP EXTENSION numa_migrate CASCADE; CREATE EXTENSION numa_migrate'), 0, "$what: DROP and CREATE EXTENSION");
	is($node->safe_psql('a', q(SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'numa_btree')), 0, "$what: DROP EXTENSION takes the indexes");
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, "$what: nothing crashed");
	return;
}

# pg_dump of the version under test from the old server, into a new one.
my $file = PostgreSQL::Test::Utils::tempdir() . '/dump';
my $restored = new_node('restored', init => init_options($new_major));
foreach my $db ('a', 'b')
{
	$restored->command_ok([ 'pg_dump', '-F', 'c', '-f', "$file.$db", '-d', $old->connstr($db) ], "pg_dump of $db");
	$restored->safe_psql('postgres', "CREATE DATABASE $db");
	# bad_a would find its duplicates again.
	my $list = `pg_restore -l $file.$db`;
	$list =~ s/^.* INDEX public bad_a .*\n//mg;
	append_to_file("$file.$db.list", $list);
	$restored->command_ok([ 'pg_restore', '-e', '-L', "$file.$db.list", '-d', $restored->connstr($db), "$file.$db" ], "pg_restore of $db");
}
verify($restored, "dump of $old_major");
$restored->stop;
$old->stop;

# Each way of pg_upgrade, on a copy of the old server.
my $n = 0;
foreach my $case ([ '--copy', 1 ], [ '--link', 0 ], $new_major >= 18 ? [ '--swap', 1 ] : ())
{
	my ($how, $preload) = @$case;
	my $what = "$old_major to $new_major, $how" . ($preload ? '' : ' without preload');
	$n++;
	my $new = new_node("new$n", init => init_options($new_major), nostart => 1);
	$new->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''") unless $preload;
	my $from = $new->basedir . '/from';
	system_or_bail('cp', '-a', $old->data_dir, $from);
	my @arguments = ('--no-sync', '-d', $from, '-D', $new->data_dir, '-b', $old->config_data('--bindir'), '-B', $new->config_data('--bindir'),
		'-s', $new->host, '-p', $old->port, '-P', $new->port, $new_major >= 17 || $how ne '--copy' ? $how : ());
	# It writes scripts where it is.
	chdir($new->basedir) or die;
	command_ok([ 'pg_upgrade', @arguments ], "$what: pg_upgrade")
	  or diag(`grep -rhE -B2 -A3 'error:|ERROR:|FATAL:' @{[ $new->data_dir ]}/pg_upgrade_output.d | head -n 60`);
	$new->start;
	is($new->safe_psql('a', $files), $want_files, "$what: index files and OIDs are the old ones");
	if (!$preload)
	{
		is_deeply([ answers($new, 'index') ], \@want, "$what: answered without the indexes");
		fails_like($new, 'INSERT INTO t (id) VALUES (1000)', '55000', qr/HINT:  Add numa_migrate to shared_preload_libraries/, "$what: inserts say what is missing", 'a');
		$new->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'numa_migrate'");
		$new->restart;
	}
	verify($new, $what);
	$new->stop;
}
# The old server is as it was.
$old->start;
same_rows($old, 'SELECT id FROM t WHERE id > 0 ORDER BY id', '(?:t_id|t_uni)', 'the old server', 'a');
is($old->safe_psql('a', q(SELECT count(*) FROM pg_index WHERE indexrelid = 'bad_a'::regclass AND NOT indisvalid)), 1, 'the index whose build failed is there');
$old->stop;
done_testing();

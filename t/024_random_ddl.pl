# Random DDL and changes in random savepoints: after every few transactions each index must be sound and answer
# as a sequential scan does, and in the end the pool must be as full as in the beginning.
#
# NM_SEED repeats a run; statements that fail are part of it.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $seed = $ENV{NM_SEED} // int(rand(1 << 31));
srand($seed);
note("NM_SEED=$seed");
sub one_of { return $_[ int(rand(@_)) ]; }
sub chance { return rand() < $_[0]; }

# Statements for a transaction, and those that must stand alone; @ is a table.
my @statements = (
	'TRUNCATE @', 'REINDEX TABLE @', 'REINDEX INDEX @_a', 'DROP INDEX IF EXISTS @_a', 'DROP INDEX IF EXISTS @_b', 'DROP INDEX IF EXISTS @_u',
	'CREATE INDEX IF NOT EXISTS @_a ON @ USING numa_btree (a)', 'CREATE INDEX IF NOT EXISTS @_b ON @ USING numa_btree (b DESC, a) INCLUDE (c)',
	'CREATE INDEX IF NOT EXISTS @_b ON @ USING numa_btree (b, a) WITH (fillfactor = 40) WHERE c % 2 = 0', 'CREATE UNIQUE INDEX IF NOT EXISTS @_u ON @ USING numa_btree (c)',
	(map { "INSERT INTO @ SELECT g, 'b' || g % 7, nextval('s') FROM generate_series(1, $_) g" } 1, 50, 600),
	'DELETE FROM @ WHERE a % 3 = 1', 'UPDATE @ SET a = a + 1 WHERE c % 2 = 0', "UPDATE \@ SET b = left(b || 'y', 9) WHERE a % 5 = 1",
	(map { "ALTER TABLE \@ ALTER a TYPE $_" } 'int', 'bigint', 'numeric', 'int USING -a'), (map { "ALTER TABLE \@ ALTER b TYPE $_" } 'text', 'varchar(200)', 'text COLLATE "C"'),
	'CLUSTER @ USING @_a', 'ALTER TABLE @ SET UNLOGGED', 'ALTER TABLE @ SET LOGGED', 'ALTER INDEX @_a RENAME TO @_x', 'ALTER INDEX @_x RENAME TO @_a', 'ALTER TABLE @ RENAME TO tz; ALTER TABLE tz RENAME TO @',
	(map { ("ALTER INDEX \@_a SET TABLESPACE $_", "ALTER TABLE \@ SET TABLESPACE $_") } 'sp', 'pg_default'), 'DROP TABLE @; CREATE TABLE @ (a bigint, b text, c bigint)',
	'ALTER TABLE @ ADD d int DEFAULT 5; CREATE INDEX @_d ON @ USING numa_btree (d, a); ALTER TABLE @ DROP d',
	"SELECT numa.btree_unload('\@_a')", "SELECT numa.btree_load('\@_a')", 'SET enable_seqscan = off; SELECT count(*) FROM @ WHERE a > 5; RESET enable_seqscan', 'ALTER INDEX @_a SET (fillfactor = 70)', 'ANALYZE @', 'SELECT 1 / 0');
my @alone = (
	'VACUUM @', 'VACUUM FULL @', 'VACUUM (FREEZE, INDEX_CLEANUP OFF) @', 'REINDEX TABLE CONCURRENTLY @', 'CREATE INDEX CONCURRENTLY IF NOT EXISTS @_a ON @ USING numa_btree (a)', 'DROP INDEX CONCURRENTLY IF EXISTS @_b');
sub on_table { my ($sql) = @_; my $t = one_of('ta', 'tb'); $sql =~ s/@/$t/g; return $sql; }

sub transaction
{
	my ($n) = @_;
	my @sql = ('BEGIN');
	my $depth = 0;
	foreach (1 .. 1 + int(rand(8)))
	{
		if (chance(0.25)) { push @sql, 'SAVEPOINT s' . ++$depth; }
		elsif ($depth > 0 && chance(0.2)) { push @sql, 'ROLLBACK TO s' . (1 + int(rand($depth))); }
		elsif ($depth > 0 && chance(0.15)) { my $to = 1 + int(rand($depth)); push @sql, "RELEASE s$to"; $depth = $to - 1; }
		else { push @sql, on_table(one_of(@statements)); }
	}
	return (@sql, "PREPARE TRANSACTION 'g$n'", one_of('COMMIT', 'ROLLBACK') . " PREPARED 'g$n'") if chance(0.1);
	return (@sql, chance(0.7) ? 'COMMIT' : 'ROLLBACK');
}

my $node = new_node('main', conf => "numa_migrate.naptime = 20ms\nmax_prepared_transactions = 3\nallow_in_place_tablespaces = on\nclient_min_messages = error\nlog_statement = all");
$node->safe_psql('postgres', $_) foreach ("CREATE TABLESPACE sp LOCATION ''", q(
CREATE EXTENSION numa_migrate;
CREATE TABLE keep (a int); CREATE INDEX keep_a ON keep USING numa_btree (a);
CREATE SEQUENCE s;
-- What is wrong with any index.
CREATE FUNCTION faults() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE x record; way text; q text; n bigint[];
BEGIN
	FOR x IN SELECT c.oid::regclass AS i, indrelid::regclass AS t, pg_get_indexdef(c.oid, 1, false) AS k, coalesce(' AND ' || pg_get_expr(indpred, indrelid), '') AS p
		FROM pg_class c JOIN pg_index ON indexrelid = c.oid JOIN pg_am a ON a.oid = c.relam WHERE amname = 'numa_btree' AND indisvalid
	LOOP
		BEGIN
			PERFORM numa.btree_check(x.i, true);
		EXCEPTION WHEN OTHERS THEN
			RETURN NEXT format('%s: %s %s', x.i, SQLSTATE, SQLERRM);
		END;
		q := format('SELECT array_agg(n) FROM (SELECT count(*) AS n FROM %1$s WHERE %2$s IS NOT NULL %3$s UNION ALL SELECT sum(hashtext(%2$s::text)) FROM %1$s WHERE %2$s IS NOT NULL %3$s) x', x.t, x.k, x.p);
		PERFORM set_config('enable_seqscan', 'off', true);
		EXECUTE q INTO n;
		PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_indexscan', 'off', true), set_config('enable_indexonlyscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		EXECUTE q || format(' HAVING array_agg(n) IS DISTINCT FROM %L', n) INTO n;
		IF n IS NOT NULL THEN RETURN NEXT format('%s: answers are not those of a sequential scan', x.i); END IF;
		PERFORM set_config(s, 'on', true) FROM unnest('{enable_indexscan,enable_indexonlyscan,enable_bitmapscan}'::text[]) s;
	END LOOP;
END $$;
));
sub used { return $node->safe_psql('postgres', 'SELECT sum(used_bytes) FROM numa.stat_pool'); }
my $start = used();
$node->safe_psql('postgres', "CREATE TABLE $_ (a bigint, b text, c bigint); CREATE INDEX ${_}_a ON $_ USING numa_btree (a)") foreach ('ta', 'tb');

my $rounds = 40;
my $bad = '';
foreach my $round (1 .. $rounds)
{
	my @sql = map { chance(0.2) ? on_table(one_of(@alone)) : transaction("${round}_$_") } 1 .. 8;
	# With a savepoint around every statement a failed one does not end its transaction.
	my ($rc, $out, $err) = $node->psql('postgres', join(";\n", @sql) . ";\n\\echo faults:\nSELECT * FROM faults();\n", on_error_stop => 0, extra_params => [ '-v', 'ON_ERROR_ROLLBACK=' . one_of('on', 'off') ]);
	($bad) = $out =~ /faults:\n(.+)/s;
	$bad //= $out =~ /faults:/ ? '' : "no answer: $err";
	last if $bad ne '';
}
is($bad, '', "$rounds rounds of random DDL");
$node->safe_psql('postgres', 'DROP TABLE ta, tb');
my $now;
foreach (1 .. 200) { $now = used(); last if $now == $start; sleep(0.05); }
is($now, $start, 'memory is back');
is($node->safe_psql('postgres', 'SELECT string_agg(index::text, $$,$$) FROM numa.stat_btree'), 'keep_a', 'and nothing else is known');
$node->stop;
my $log = slurp_file($node->logfile);
unlike($log, qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');
# errors of the server's own insides, that is of ours
is(join("\n", grep { !/tuple concurrently updated/ } $log =~ /ERROR:  (?:XX\d{3}: )?((?:unexpected|could not (?:open|find|read)|cache lookup).*)/g), '', 'no internal errors');
my %seen = map { $_ => 1 } $log =~ /statement: (\w+ \w+)/g;
cmp_ok(scalar(grep { $seen{$_} } 'ALTER TABLE', 'ALTER INDEX', 'REINDEX TABLE', 'CREATE INDEX', 'DROP INDEX'), '==', 5, 'what it is about was done');
done_testing();

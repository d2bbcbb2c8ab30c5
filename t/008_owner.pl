# Index expressions are the table owner's code.  Whoever causes a load - a superuser's
# SELECT, a check, the background after a restart - runs them as the owner, in a
# security-restricted operation, with a search_path of its own and without leaving settings.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use NumaTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = new_node('main', conf => 'numa_migrate.load = lazy');
$node->safe_psql('postgres', q(
CREATE EXTENSION numa_migrate;
CREATE ROLE mallory LOGIN;
CREATE ROLE victim SUPERUSER LOGIN;
CREATE SCHEMA m AUTHORIZATION mallory;
CREATE SCHEMA evil AUTHORIZATION mallory;
GRANT USAGE ON SCHEMA m TO PUBLIC;
));
# What the expression finds when it runs is written to the log by a NOTICE-free way: RAISE LOG.
$node->safe_psql('postgres', q(
SET ROLE mallory;
CREATE FUNCTION m.helper() RETURNS text LANGUAGE sql AS $$ SELECT 'good' $$;
CREATE FUNCTION evil.helper() RETURNS text LANGUAGE sql AS $$ SELECT 'evil' $$;
CREATE FUNCTION m.trap(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF a = 1 THEN
		RAISE LOG 'trap: ran as %', current_user;
		BEGIN EXECUTE 'ALTER ROLE mallory SUPERUSER'; RAISE LOG 'trap: escalated'; EXCEPTION WHEN OTHERS THEN NULL; END;
		BEGIN EXECUTE 'CREATE ROLE mallory2 SUPERUSER'; RAISE LOG 'trap: escalated'; EXCEPTION WHEN OTHERS THEN NULL; END;
		BEGIN EXECUTE 'SET SESSION AUTHORIZATION DEFAULT'; EXECUTE 'ALTER ROLE mallory SUPERUSER'; RAISE LOG 'trap: escalated'; EXCEPTION WHEN OTHERS THEN NULL; END;
		BEGIN EXECUTE 'RESET ROLE'; EXECUTE 'ALTER ROLE mallory SUPERUSER'; RAISE LOG 'trap: escalated'; EXCEPTION WHEN OTHERS THEN NULL; END;
		-- Not allowed in a security-restricted operation: things that fire later as somebody else.
		BEGIN EXECUTE 'CREATE TEMP TABLE later (a int) ON COMMIT DROP'; RAISE LOG 'trap: temp table made'; EXCEPTION WHEN OTHERS THEN NULL; END;
		BEGIN EXECUTE 'DECLARE c CURSOR WITH HOLD FOR SELECT 1'; RAISE LOG 'trap: held cursor made'; EXCEPTION WHEN OTHERS THEN NULL; END;
		BEGIN EXECUTE 'PREPARE leftover AS SELECT 1'; RAISE LOG 'trap: prepared statement made'; EXCEPTION WHEN OTHERS THEN NULL; END;
	END IF;
	IF a = 2 THEN
		BEGIN
			RAISE LOG 'trap: helper is %', helper();
		EXCEPTION WHEN OTHERS THEN RAISE LOG 'trap: helper is not found';
		END;
	END IF;
	IF a = 100 THEN
		PERFORM set_config('work_mem', '77MB', false);
	END IF;
	RETURN a;
END $$;
CREATE TABLE m.t (a int);
INSERT INTO m.t SELECT generate_series(1, 100);
CREATE INDEX t_trap ON m.t USING numa_btree (m.trap(a));
GRANT SELECT ON m.t TO PUBLIC;
));

sub traps
{
	my ($from) = @_;
	my %seen;
	my $log = substr(slurp_file($node->logfile), $from);
	$seen{$1}++ while $log =~ /LOG:  trap: (.*)/g;
	return join(', ', sort keys %seen);
}
my $selects = q(SET search_path = evil, public; SET enable_seqscan = off; SELECT count(*) FROM m.t WHERE m.trap(a) > 90 AND a > 2;);
my $after = q(SELECT current_setting('work_mem'), current_setting('search_path'), current_user, (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors), (SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'));
my $clean = '4MB|evil, public|victim|0|0|f';

foreach my $case (
	[ 'SELECT that loads', $selects ],
	[ 'btree_load', q(SET search_path = evil, public; SELECT numa.btree_load('m.t_trap') IS NULL;) ],
	[ 'btree_check', q(SET search_path = evil, public; SELECT numa.btree_check('m.t_trap');) ],
	[ 'load in the own transaction', q(SET search_path = evil, public; BEGIN; LOCK TABLE m.t; SELECT numa.btree_load('m.t_trap') IS NULL; COMMIT;) ],
	[ 'REINDEX', q(SET search_path = evil, public; REINDEX INDEX m.t_trap;) ])
{
	my ($what, $sql) = @$case;
	$node->safe_psql('postgres', q(SELECT numa.btree_unload('m.t_trap')));
	my $from = -s $node->logfile;
	my $out = $node->safe_psql('postgres', "$sql $after", extra_params => [ '-U', 'victim' ]);
	is((split /\n/, $out)[-1], $clean, "$what: the superuser's session is as it was");
	my $seen = traps($from);
	like($seen, qr/ran as mallory/, "$what: the expression ran as the owner");
	unlike($seen, qr/ran as (?!mallory)|escalated|helper is evil|made/, "$what: and got nowhere") or diag($seen);
}
# The background, after a restart.
$node->adjust_conf('postgresql.conf', 'numa_migrate.load', 'eager');
my $from = -s $node->logfile;
$node->restart;
ok(wait_planned($node, 'SELECT count(*) FROM m.t WHERE m.trap(a) > 90', 't_trap'), 'loaded in the background');
my $seen = traps($from);
like($seen, qr/ran as mallory/, 'background: the expression ran as the owner');
unlike($seen, qr/ran as (?!mallory)|escalated|helper is evil|made/, 'background: and got nowhere') or diag($seen);
is($node->safe_psql('postgres', q(SELECT count(*) FROM pg_roles WHERE rolname LIKE 'mallory%' AND (rolsuper OR rolname <> 'mallory'))), '0', 'no superuser was made');

# An expression that fails while loading: the index is out, the reason is shown, inserts and
# other queries go on, and it is tried again when it can work.
$node->safe_psql('postgres', q(
CREATE TABLE m.sw (fail bool); INSERT INTO m.sw VALUES (false); GRANT ALL ON m.sw TO mallory;
SET ROLE mallory;
CREATE FUNCTION m.maybe(a int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF (SELECT fail FROM m.sw) AND a = 50 THEN RAISE 'not now'; END IF; RETURN a; END $$;
CREATE TABLE m.f (a int); INSERT INTO m.f SELECT generate_series(1, 100);
CREATE INDEX f_maybe ON m.f USING numa_btree (m.maybe(a));
RESET ROLE;
UPDATE m.sw SET fail = true;
SELECT numa.btree_unload('m.f_maybe');
));
fails_like($node, q(SELECT numa.btree_load('m.f_maybe')), 'P0001', 'not now', 'a load that fails gives its error');
is($node->safe_psql('postgres', q(SELECT state, fail_text LIKE '%not now%', failures > 0 FROM numa.stat_btree WHERE index = 'm.f_maybe'::regclass)), 'failed|t|t', 'the view shows it');
is($node->safe_psql('postgres', 'INSERT INTO m.f VALUES (500); SET enable_seqscan = off; SELECT count(*) FROM m.f WHERE a > 99'), '2', 'the table is free');
$node->safe_psql('postgres', 'UPDATE m.sw SET fail = false');
is($node->psql('postgres', q(SELECT numa.btree_load('m.f_maybe'))), 0, 'loaded when it can be');
same_rows($node, 'SELECT a FROM m.f WHERE m.maybe(a) > 0 ORDER BY m.maybe(a)', 'f_maybe', 'and right');
check_all($node, 'at the end');
$node->stop;
done_testing();

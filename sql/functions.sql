-- The SQL functions: what holds on one node holds on many; no absolute counts.
\getenv abs_srcdir PG_ABS_SRCDIR
\set helpers :abs_srcdir '/test/server/helpers.sql'
\i :helpers

-- topology: at least one allowed node with memory and with a CPU; a node is at its smallest
-- distance from itself; every list of distances has one entry per node.
SELECT count(*) >= 1 AS nodes, bool_or(allowed) AS one_allowed, bool_and(node >= 0) AS ids,
	sum(total_bytes) > 0 AS memory, bool_and(free_bytes <= total_bytes) AS free_sane, bool_or(cpus <> '') AS cpus,
	count(DISTINCT node) = count(*) AS distinct_nodes
FROM numa.topology();
SELECT bool_and(cardinality(distances) = (SELECT count(*) FROM numa.topology())) AS one_each,
	bool_and((SELECT min(d) FROM unnest(distances) d) >= 10) AS at_least_10
FROM numa.topology();

-- doctor: each promised item once; every failed item says what to do.
SELECT count(*) > 0 AS rows, count(DISTINCT item) = count(*) AS distinct_items,
	bool_and(ok IS NOT NULL AND detail <> '') AS complete, bool_and(ok OR coalesce(hint, '') <> '') AS failed_has_hint
FROM numa.doctor();
SELECT x AS missing FROM unnest('{preload,nodes,move_pages,move_pages2,CAP_SYS_NICE,seccomp,huge pages,page tables,shmem THP,kernel.numa_balancing,zone_reclaim,overcommit,memory cgroup,userfaultfd,old_snapshot_threshold,worker slot}'::text[]) x
WHERE NOT EXISTS (SELECT FROM numa.doctor() d WHERE replace(lower(d.item), '_', ' ') LIKE '%' || replace(lower(x), '_', ' ') || '%');
SELECT ok FROM numa.doctor() WHERE item = 'preload';

-- NOTICEs and WARNINGs of moves depend on the machine's kernel and privileges.
SET client_min_messages = error;
-- A table and an index with pages in shared buffers.
CREATE TABLE f (a int, pad text);
INSERT INTO f SELECT g, repeat('x', 100) FROM generate_series(1, 20000) g;
CREATE INDEX f_a ON f USING numa_btree (a);
SELECT count(*) FROM f;
CHECKPOINT;
-- buffer_placement: buffers of all nodes together are the pool; bytes are buffers in blocks.
SELECT sum(buffers) = (SELECT setting::bigint FROM pg_settings WHERE name = 'shared_buffers') AS whole_pool,
	bool_and(bytes = buffers * current_setting('block_size')::bigint) AS bytes, bool_and(dirty <= buffers AND pinned <= buffers) AS sane
FROM numa.buffer_placement();
SELECT sum(buffers) > 0 AS sampled FROM numa.buffer_placement(0.1);
-- relation_placement of a heap: the main fork is there, shares add up to one.
SELECT bool_or(fork = 'main') AS main, abs(sum(share) - 1) < 0.001 AS shares, sum(pages) > 0 AS pages FROM numa.relation_placement('f');
-- ... of a numa_btree index: its tree pages.
SELECT sum(pages) > 20 AS pages, sum(bytes) = sum(pages) * 4096 AS bytes, abs(sum(share) - 1) < 0.001 AS shares FROM numa.relation_placement('f_a');
SELECT s.* IS NOT NULL AS stats FROM numa.btree_stats('f_a') s;

-- Moving to an allowed node: every page asked for has one outcome.
SELECT node AS target FROM numa.topology() WHERE allowed AND total_bytes > 0 ORDER BY node LIMIT 1 \gset
SELECT asked = moved + already + busy + denied + absent + failed AS adds_up, asked > 0 AS asked, calls >= 0 AS calls, elapsed_ms >= 0 AS ms,
	failed AS failed FROM numa.move_relation('f', :target);
SELECT asked = moved + already + busy + denied + absent + failed AS adds_up, asked > 0 AS asked, failed FROM numa.move_relation('f_a', :target);
-- Where a tree page is, is its address: all of them are there now.
SELECT bool_and(node = :target) AS all_there FROM numa.relation_placement('f_a');
SELECT asked = moved + already + busy + denied + absent + failed AS adds_up, failed FROM numa.move_relation('f', :target, mode => 'sync', batch => 8);
SELECT asked = moved + already + busy + denied + absent + failed AS adds_up, failed FROM numa.spread_relation('f');
SELECT asked = moved + already + busy + denied + absent + failed AS adds_up, failed FROM numa.spread_relation('f_a', ARRAY[:target]);
SELECT bool_and(node = :target) AS all_there FROM numa.relation_placement('f_a');
SELECT asked = moved + already + busy + denied + absent + failed AS adds_up, failed FROM numa.balance_buffers();
-- Moves don't change what a query says.
SELECT nm_test.compare('SELECT a FROM f WHERE a BETWEEN 500 AND 520 ORDER BY a');
SELECT numa.btree_check('f_a');
-- An empty relation and one that is nowhere in memory.
CREATE TABLE empty (a int);
SELECT asked = 0 AS nothing FROM numa.move_relation('empty', :target);
SELECT coalesce(sum(pages), 0) AS pages FROM numa.relation_placement('empty');

-- Knobs.
SELECT numa.get_mode(), numa.get_batch();
SELECT numa.set_mode('sync_light'), numa.set_batch(64);
SELECT numa.get_mode(), numa.get_batch(), current_setting('numa_migrate.mode'), current_setting('numa_migrate.batch');
SELECT numa.set_mode('auto'), numa.set_batch(0);
SELECT numa.get_mode(), numa.get_batch();
-- Rolled back with the transaction, as a setting is.
BEGIN; SELECT numa.set_batch(7); ROLLBACK;
SELECT numa.get_batch();

-- load and unload say whether they changed anything.
SELECT numa.btree_load('f_a') AS loaded_again, numa.btree_unload('f_a') AS unloaded, numa.btree_unload('f_a') AS again, numa.btree_load('f_a') AS loaded;
SELECT nm_test.compare('SELECT a FROM f WHERE a BETWEEN 500 AND 520 ORDER BY a');
-- check loads by itself.
SELECT numa.btree_unload('f_a'); SELECT numa.btree_check('f_a', false); SELECT numa.btree_load('f_a') AS was_not_loaded;

-- Views answer, and are reset by superusers.
SELECT count(*) >= 1 AS rows FROM numa.stat_migrator;
SELECT count(*) >= 1 AS rows FROM numa.stat_moves;
SELECT count(*) >= 0 AS rows FROM numa.stat_access;
SELECT count(*) >= 1 AS rows FROM numa.stat_btree;
SELECT numa.stat_reset();
SELECT * FROM nm_test.check_all();

SET client_min_messages = warning;
DROP SCHEMA scratch, nm_test CASCADE;

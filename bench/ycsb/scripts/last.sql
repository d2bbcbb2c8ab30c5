-- The newest key number this client has seen acknowledged. A pgbench client
-- knows only its own inserts, so each is a YCSB client of its own (README.md).
\set last :records + :inserted - 1

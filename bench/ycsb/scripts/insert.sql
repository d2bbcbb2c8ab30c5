-- The next record in insertion order; 10 fields of 100 bytes. pgbench has no
-- string variables, so a number is padded on the server.
\set newkey abs(hash_fnv1a(:records + :inserted * :clients + :client_id, 0))
\set value random(0, 999999999999999999)
INSERT INTO usertable VALUES ('user' || :newkey::text, lpad(:value::text, 100, 'a'), lpad(:value::text, 100, 'b'), lpad(:value::text, 100, 'c'), lpad(:value::text, 100, 'd'), lpad(:value::text, 100, 'e'), lpad(:value::text, 100, 'f'), lpad(:value::text, 100, 'g'), lpad(:value::text, 100, 'h'), lpad(:value::text, 100, 'i'), lpad(:value::text, 100, 'j'));
\set inserted :inserted + 1

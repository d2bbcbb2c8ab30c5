-- YCSB's ScrambledZipfianGenerator: u -> key number in [0, items).
-- Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD
-- 1994), as ZipfianGenerator.java has it: theta 0.99, zeta 26.46902820178302.
-- ITEM_COUNT is 10^10 and the range is inclusive, so YCSB draws from 10^10 + 1.
--   99.99999999999991    alpha = 1 / (1 - 0.99) in doubles
--   0.21220003380967406  eta = (1 - (2 / (10^10+1))^(1-0.99)) / (1 - zeta(2) / zeta)
\set uz :u * 26.46902820178302
\set x 10000000001 * pow(0.21220003380967406 * :u - 0.21220003380967406 + 1, 99.99999999999991)
-- Java's cast truncates, pgbench's int() rounds to nearest.
\set z int(:x)
\set z case when :z > :x then :z - 1 else :z end
\set z case when :uz < 1 then 0 when :uz < 1 + pow(0.5, 0.99) then 1 else :z end
-- hash_fnv1a with seed 0 followed by abs is YCSB's fnvhash64 (README.md).
\set keynum abs(hash_fnv1a(:z, 0)) % :items

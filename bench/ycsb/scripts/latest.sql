-- YCSB's SkewedLatestGenerator: u -> last - zipfian over `last` items, with
-- `last` the newest key number, so the newest record is the most popular.
-- YCSB adds up zeta(last) = 1 + 2^-theta + ... + last^-theta as records arrive;
-- here it is Euler and Maclaurin's closed form, which agrees to the last few
-- bits for 1000 records and more:
--   zeta(n) = Z + n^(1-theta)/(1-theta) + n^-theta/2 - theta/12 n^-(1+theta)
--   Z = -99.4235129777281, the Riemann zeta function at theta
-- YCSB's eta keeps the item count it was constructed with (records - 1) and
-- follows only zeta; 1.5034777750283594 is zeta(2).
\set zetan -99.4235129777281 + pow(:last, 0.010000000000000009) / 0.010000000000000009 + 0.5 / pow(:last, 0.99) - 0.0825 / pow(:last, 1.99)
\set eta (1 - pow(2.0 / (:records - 1), 0.010000000000000009)) / (1 - 1.5034777750283594 / :zetan)
\set uz :u * :zetan
\set x :last * pow(:eta * :u - :eta + 1, 99.99999999999991)
-- Java's cast truncates, pgbench's int() rounds to nearest.
\set z int(:x)
\set z case when :z > :x then :z - 1 else :z end
\set z case when :uz < 1 then 0 when :uz < 1 + pow(0.5, 0.99) then 1 else :z end
\set keynum :last - :z

-- Key numbers from `records` on were inserted by this client: client c's i-th
-- insert is records + i * clients + c, so that no two clients collide.
\set keynum case when :keynum < :records then :keynum else :records + (:keynum - :records) * :clients + :client_id end
\set key abs(hash_fnv1a(:keynum, 0))

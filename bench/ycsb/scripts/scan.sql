\set len random(1, 100)
SELECT * FROM usertable WHERE ycsb_key >= 'user' || :key::text ORDER BY ycsb_key LIMIT :len;

SELECT * FROM usertable WHERE ycsb_key = 'user' || :key::text;

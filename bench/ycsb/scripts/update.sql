-- One field chosen uniformly (writeallfields = false). A column's name can't be
-- a parameter of a prepared statement, hence ten statements.
\set field random(0, 9)
\set value random(0, 999999999999999999)
\if :field = 0
UPDATE usertable SET field0 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 1
UPDATE usertable SET field1 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 2
UPDATE usertable SET field2 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 3
UPDATE usertable SET field3 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 4
UPDATE usertable SET field4 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 5
UPDATE usertable SET field5 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 6
UPDATE usertable SET field6 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 7
UPDATE usertable SET field7 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 8
UPDATE usertable SET field8 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\elif :field = 9
UPDATE usertable SET field9 = lpad(:value::text, 100, 'u') WHERE ycsb_key = 'user' || :key::text;
\endif

-- u in [0,1) is r / 2^53, exactly what java.util.Random.nextDouble() gives:
-- 53 random bits over 2^53.
\set r random(0, 9007199254740991)
\set u :r / 9007199254740992.0

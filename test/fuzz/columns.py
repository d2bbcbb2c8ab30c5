"""Column types: values that collide, that differ late, that are extreme; operators and classes.

A Kind is chosen for a column of a round; a Column holds its pool of values.
"""

from pq import quote

# Types, classes and collations of the fuzzer's own, made once in schema "own".
# %(lib)s is the test module.
SETUP = r"""
CREATE SCHEMA own;
SET search_path = own, public;
CREATE FUNCTION ask(text, int, text, int[] = NULL, text[] = NULL) RETURNS text AS '%(lib)s', 'fuzz_ask' LANGUAGE C CALLED ON NULL INPUT;
CREATE FUNCTION show(text, int, text) RETURNS text AS '%(lib)s', 'fuzz_show' LANGUAGE C STRICT;
CREATE FUNCTION use_way(int) RETURNS void AS '%(lib)s', 'fuzz_use_way' LANGUAGE C STRICT;
CREATE FUNCTION dawdle(int4) RETURNS int4 AS '%(lib)s', 'fuzz_dawdle' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION rev_cmp(int4, int4) RETURNS int AS '%(lib)s', 'fuzz_int4_reverse_cmp' LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE;
CREATE OPERATOR CLASS rev_ops FOR TYPE int4 USING btree AS
	OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <, FUNCTION 1 rev_cmp(int4, int4);
CREATE FUNCTION slow_cmp(int8, int8) RETURNS int LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE AS
	'SELECT CASE WHEN $1 < $2 THEN -1 WHEN $1 > $2 THEN 1 ELSE 0 END';
CREATE FUNCTION slow_cmp(int8, int4) RETURNS int LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE AS 'SELECT own.slow_cmp($1, $2::int8)';
CREATE FUNCTION slow_cmp(int4, int8) RETURNS int LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE AS 'SELECT own.slow_cmp($1::int8, $2)';
CREATE FUNCTION slow_cmp(int4, int4) RETURNS int LANGUAGE sql STRICT IMMUTABLE PARALLEL SAFE AS 'SELECT own.slow_cmp($1::int8, $2::int8)';
CREATE OPERATOR FAMILY slow_ops USING btree;
CREATE OPERATOR CLASS slow_ops FOR TYPE int8 USING btree FAMILY slow_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 slow_cmp(int8, int8);
CREATE OPERATOR CLASS slow4_ops FOR TYPE int4 USING btree FAMILY slow_ops AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 slow_cmp(int4, int4);
ALTER OPERATOR FAMILY slow_ops USING btree ADD
	OPERATOR 1 <(int8, int4), OPERATOR 2 <=(int8, int4), OPERATOR 3 =(int8, int4), OPERATOR 4 >=(int8, int4), OPERATOR 5 >(int8, int4), FUNCTION 1 slow_cmp(int8, int4),
	OPERATOR 1 <(int4, int8), OPERATOR 2 <=(int4, int8), OPERATOR 3 =(int4, int8), OPERATOR 4 >=(int4, int8), OPERATOR 5 >(int4, int8), FUNCTION 1 slow_cmp(int4, int8);
CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad', 'mad');
ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'ok';
CREATE TYPE pair AS (a int4, b text);
CREATE DOMAIN small AS int4 CHECK (VALUE > -100000);
CREATE DOMAIN word AS text COLLATE "C";
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
"""
SETUP_ICU = """
CREATE COLLATION own.nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION own.noaccent (provider = icu, locale = 'und-u-ks-level1-kc-true', deterministic = false);
"""
SETUP_NUMA = """
SELECT numa.clone_opclass('own.rev_ops'), numa.clone_opclass('own.slow_ops');
"""
# Its default class is a btree class that the extension has to be told of.
SETUP_CITEXT = """
CREATE EXTENSION citext SCHEMA own;
SELECT numa.clone_opclass('own.citext_ops');
"""

DEFAULT_OPS = ("<", "<=", "=", ">=", ">")
REVERSE_OPS = (">", ">=", "=", "<=", "<")
PATTERN_OPS = ("~<~", "~<=~", "=", "~>=~", "~>~")


class Kind:
    def __init__(self, name, sql, special, usual, collations=("",), opclasses=(("", DEFAULT_OPS),), cross=(), textual=False,
                 expressions=(), weight=2, bounded=None, minmax=True, number=False):
        self.name = name
        self.sql = sql
        self.special = special
        self.usual = usual              # (rnd, ordinal) -> text
        self.collations = collations
        self.opclasses = opclasses
        self.cross = cross              # types that operators of the family take at the right
        self.textual = textual
        self.expressions = expressions
        self.weight = weight
        self.bounded = bounded          # not more distinct values than this
        self.minmax = minmax
        self.number = number


def _word(r, n):
    # Common prefixes of some length, and a tail that tells apart.
    return ("", "abc", "abcdefgh", "prefix that is common to all ")[n % 4] + "%d" % (n * 7919 % 100003) + ("é", "E", "e", " ", "")[n % 5]


def _case(r, n):
    w = _word(r, n // 3)
    return (w, w.upper(), w.title())[n % 3]


def _long(r, n):
    """Up to what a btree takes in one key; not compressible at a glance, distinct late or early."""
    size = (30, 200, 870, 890, 1300, 2600)[n % 6]
    body = "".join("%x" % ((n * 2654435761 >> (i % 24)) & 15) if i % 3 else "%x" % ((i * i * 31 + i) % 16) for i in range(size - 8))
    return ("%08d" % n + body) if n % 2 else (body + "%08d" % n)


def _numeric(r, n):
    return ("%d", "%d.0", "%d.00", "-%d.5", "%d.000000000000000000001", "%de20")[r.randrange(6)] % n


def _interval(r, n):
    n //= 3
    return ("%d days" % n, "%d hours" % (24 * n), "%d min" % (n * 1440), "%d mons" % (n // 30))[r.randrange(4)]


def _array(r, n):
    if r.random() < 0.2:
        return "{NULL,%d}" % (n // 7)
    return "{%s}" % ",".join(str((n // d) % 10) for d in (100, 10, 1)[:1 + n % 3])


def _jsonb(r, n):
    return ('%d', '"%d"', '{"a": %d}', '[%d]', '%d.0')[n % 5] % (n // 5)


_INTS = ("int2", "int4", "int8")
_TIMES = ("date", "timestamp", "timestamptz")
_TEXT_CLASSES = (("", DEFAULT_OPS), ("", DEFAULT_OPS), ("", DEFAULT_OPS), ("text_pattern_ops", PATTERN_OPS))
_ICU = ('"en-x-icu"', '"de-x-icu"')
_NONDET = ("own.nocase", "own.noaccent")

KINDS = [
    Kind("int2", "int2", [-32768, 32767, 0, -1], lambda r, n: n % 30000 - 50, cross=_INTS, bounded=30000, number=True, weight=3),
    Kind("int4", "int4", [-2147483648, 2147483647, 0, -1], lambda r, n: n - 50, cross=_INTS, number=True, weight=8,
         expressions=("(%s / 3)", "abs(%s %% 7)", "(-(%s %% 1000))")),
    Kind("int4_own", "int4", [-2147483648, 2147483647, 0, -1], lambda r, n: n - 50, cross=_INTS, number=True, weight=3,
         opclasses=(("own.rev_ops", REVERSE_OPS), ("own.slow4_ops", DEFAULT_OPS), ("", DEFAULT_OPS))),
    Kind("int8", "int8", [-2 ** 63, 2 ** 63 - 1, 0, -1, 2 ** 32], lambda r, n: n * 2 ** (n % 3 * 20), cross=_INTS, number=True, weight=5),
    Kind("int8_own", "int8", [-2 ** 63, 2 ** 63 - 1, 0, -1, 2 ** 32], lambda r, n: n * 2 ** (n % 3 * 20), cross=("int4", "int8"), number=True,
         opclasses=(("own.slow_ops", DEFAULT_OPS),), weight=1),
    Kind("small", "own.small", [0, -99999, 2147483647], lambda r, n: n - 50, cross=_INTS, number=True),
    Kind("oid", "oid", [0, 4294967295, 2147483648], lambda r, n: n),
    Kind("bool", "bool", ["t"], lambda r, n: "tf"[n % 2], bounded=2, minmax=False),
    Kind("char", '"char"', ["", "~", "\\377"], lambda r, n: "abcxyzABC019"[n % 12], bounded=12, minmax=False),
    Kind("float8", "float8", ["NaN", "Infinity", "-Infinity", "-0", "0"], lambda r, n: n / 8 - 10, cross=("float4", "float8"), weight=3),
    Kind("float4", "float4", ["NaN", "Infinity", "-Infinity", "-0", "0"], lambda r, n: n / 8 - 10, cross=("float4", "float8")),
    Kind("numeric", "numeric", ["NaN", "Infinity", "-Infinity", "0.000", "0", "-0.0", "1e500", "1e-500"], _numeric, weight=4),
    Kind("numeric_10_2", "numeric(10,2)", ["NaN", "0"], lambda r, n: n / 4),
    Kind("text", "text", ["", " ", "\t", "zz" * 200], _word, textual=True, weight=4, opclasses=_TEXT_CLASSES, cross=("text", "name"),
         expressions=("lower(%s)", "length(%s)", "(%s || 'x')")),
    Kind("text_c", "text", ["", "\t", "zz" * 200], _word, ('"C"',), textual=True, weight=3, opclasses=_TEXT_CLASSES, cross=("text", "name")),
    Kind("text_icu", "text", ["", " ", "zz" * 200], _case, _ICU, textual=True, weight=4, opclasses=_TEXT_CLASSES),
    Kind("text_nondet", "text", ["", "A", "a", "É", "é"], _case, _NONDET, weight=4),
    Kind("text_long", "text", ["", "z" * 100], _long, ('"C"', "", '"C"'), weight=2),
    Kind("varchar", "varchar(40)", [""], _case, ("", '"C"') + _ICU, textual=True,
         opclasses=(("", DEFAULT_OPS), ("varchar_ops", DEFAULT_OPS), ("varchar_pattern_ops", PATTERN_OPS))),
    Kind("bpchar", "char(8)", [""], lambda r, n: "c%d" % n, ("", '"C"') + _ICU,
         opclasses=(("", DEFAULT_OPS), ("", DEFAULT_OPS), ("bpchar_pattern_ops", PATTERN_OPS))),
    Kind("word", "own.word", ["", "zz"], _word, textual=True),
    Kind("citext", "own.citext", ["", "A", "a"], _case, weight=2),
    Kind("name", "name", ["", "n" * 63], lambda r, n: "n%d" % n, cross=("text", "name"), minmax=False),
    Kind("bytea", "bytea", ["\\x", "\\x00", "\\xff", "\\x" + "ff" * 9], lambda r, n: "\\x%012x" % (n << (n % 3 * 8)), minmax=False),
    Kind("date", "date", ["infinity", "-infinity", "4713-01-01 BC"], lambda r, n: "20%02d-%02d-%02d" % (n % 20, 1 + n // 20 % 12, 1 + n // 240 % 28),
         cross=_TIMES, weight=3),
    Kind("timestamptz", "timestamptz", ["infinity", "-infinity"], lambda r, n: "2020-01-01 00:00:00.%06d+00" % (n * 37 % 1000000), cross=_TIMES, weight=3),
    Kind("timestamp", "timestamp", ["infinity", "-infinity"], lambda r, n: "2020-01-%02d 00:%02d:00" % (1 + n // 60 % 28, n % 60), cross=_TIMES),
    Kind("time", "time", ["24:00", "00:00"], lambda r, n: "00:%02d:%02d" % (n // 60 % 60, n % 60)),
    Kind("timetz", "timetz", ["24:00+00", "00:00+00"], lambda r, n: "00:%02d:00+%02d" % (n // 12 % 60, n % 12), minmax=False),
    Kind("interval", "interval", ["0", "-1 day", "178000000 years"], _interval, weight=3),
    Kind("uuid", "uuid", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
         lambda r, n: "%08x-0000-4000-8000-%012x" % (n * 2654435761 & 0xffffffff, n % 3), minmax=False, weight=3),
    Kind("inet", "inet", ["::1", "0.0.0.0/0", "10.0.0.0/8"], lambda r, n: "10.%d.%d.%d/%d" % (n % 3, n // 3 % 3, n // 9 % 256, (8, 24, 32)[n % 3])),
    Kind("macaddr", "macaddr", ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"], lambda r, n: "08:00:2b:%02x:%02x:%02x" % (n >> 16 & 255, n >> 8 & 255, n & 255), minmax=False),
    Kind("int4[]", "int4[]", ["{}", "{NULL}", "{{1,2},{3,4}}"], _array, weight=3),
    Kind("text[]", "text[]", ["{}", "{NULL}"], lambda r, n: "{a%d,%s}" % (n // 4, ("b", "B", "NULL", '""')[n % 4])),
    Kind("int4range", "int4range", ["empty", "(,)"], lambda r, n: "[%d,%s)" % (n // 5, ("", str(n // 5 + n % 5 + 1))[n % 2]), minmax=False, weight=2),
    Kind("numrange", "numrange", ["empty", "(,)"], lambda r, n: ("[%d,%d]", "(%d.0,%d.00)", "[%d,%d.0)")[n % 3] % (n // 5, n // 5 + 3), minmax=False),
    Kind("textrange", "own.textrange", ["empty", "(,)"], lambda r, n: "[a%d,b%d)" % (n // 5, n % 5), minmax=False, weight=1),
    Kind("int4multirange", "int4multirange", ["{}", "{(,)}"], lambda r, n: "{[%d,%d),[%d,%d)}" % (n // 5, n // 5 + 2, n // 5 + 4, n // 5 + 5 + n % 5), minmax=False, weight=1),
    Kind("jsonb", "jsonb", ["{}", "[]", "null"], _jsonb, minmax=False),
    Kind("money", "money", [0, "-92233720368547758.08", "92233720368547758.07"], lambda r, n: "%d.%02d" % (n, n % 100)),
    Kind("tid", "tid", ["(0,0)", "(4294967295,65535)"], lambda r, n: "(%d,%d)" % (n // 5, 1 + n % 5)),
    Kind("varbit", "varbit", ["", "0", "00"], lambda r, n: bin(n)[2:], minmax=False),
    Kind("mood", "own.mood", ["sad"], lambda r, n: ("sad", "so-so", "ok", "glad", "mad")[n % 5], bounded=5, weight=3),
    Kind("pair", "own.pair", ["(,)", '(,"")', "(-2147483648,z)"], lambda r, n: "(%d,%s)" % (n // 3, "xyz"[n % 3]), minmax=False, weight=2),
    Kind("pg_lsn", "pg_lsn", ["0/0", "FFFFFFFF/FFFFFFFF"], lambda r, n: "0/%X" % n),
    Kind("tsvector", "tsvector", [""], lambda r, n: "w%d:%d v" % (n // 3, 1 + n % 3), minmax=False, weight=1),
]


class Column:
    """A column of a round's table."""

    def __init__(self, rnd, name, kinds, wide, nulls):
        self.name = name
        self.kind = rnd.choices(kinds, [k.weight for k in kinds])[0]
        self.collation = rnd.choice(self.kind.collations)
        self.wide = min(wide, self.kind.bounded or wide)
        if self.kind.name == "text_long":
            self.wide = min(self.wide, 300)
        self.nulls = nulls
        self.base = rnd.randrange(1000)

    def text(self, rnd):
        """A value as text, None for NULL."""
        if rnd.random() < self.nulls:
            return None
        return self.known(rnd)

    def known(self, rnd):
        k = self.kind
        if rnd.random() < 0.04:
            return str(rnd.choice(k.special))
        return str(k.usual(rnd, self.base + rnd.randrange(self.wide)))

    def literal(self, rnd, sql=None):
        return "%s::%s" % (quote(self.known(rnd)), sql or self.kind.sql)

    def definition(self):
        return "%s %s%s" % (self.name, self.kind.sql, " COLLATE " + self.collation if self.collation else "")

"""Column types: values that collide, that differ late, that are extreme."""


def _pick(rnd, special, usual):
    return special[rnd.randrange(len(special))] if rnd.random() < 0.08 else usual()


class Column:
    """A type; value() is a literal with the type's cast.  wide: how many distinct values."""

    def __init__(self, name, sql, special, usual, collate="", opclass="", equal_is_same=True):
        self.name = name
        self.sql = sql
        self.special = special
        self.usual = usual
        self.collate = collate
        self.opclass = opclass
        # Whether equal values look the same; if not, "distinct" queries compare less.
        self.equal_is_same = equal_is_same

    def value(self, rnd, wide):
        text = _pick(rnd, self.special, lambda: self.usual(rnd, wide))
        return "'%s'::%s" % (str(text).replace("'", "''"), self.sql)


def _word(rnd, wide):
    n = rnd.randrange(wide)
    # Common prefixes of some length, and a tail that tells apart.
    return ("", "abc", "abcdefgh", "prefix that is common to all ")[n % 4] + ("%d" % (n * 7919 % wide)) + ("é", "E", "e", " ", "")[n % 5]


def _numeric(rnd, wide):
    n = rnd.randrange(wide)
    return ("%d", "%d.0", "%d.00", "-%d.5")[rnd.randrange(4)] % n


def _interval(rnd, wide):
    n = rnd.randrange(max(2, wide // 4))
    return ("%d days" % n, "%d hours" % (24 * n), "%d min" % n, "%d mons" % n)[rnd.randrange(4)]


def _array(rnd, wide):
    return "{%s}" % ",".join(rnd.choice(("NULL", str(rnd.randrange(wide)))) if rnd.random() < 0.2 else str(rnd.randrange(max(2, wide // 10)))
                             for _ in range(rnd.randrange(4)))


TYPES = [
    lambda: Column("int2", "int2", [-32768, 32767, 0, -1], lambda r, w: r.randrange(min(w, 30000))),
    lambda: Column("int4", "int4", [-2147483648, 2147483647, 0, -1], lambda r, w: r.randrange(w)),
    lambda: Column("int4", "int4", [-2147483648, 2147483647, 0, -1], lambda r, w: r.randrange(w)),
    lambda: Column("int8", "int8", [-2 ** 63, 2 ** 63 - 1, 0, -1, 2 ** 32], lambda r, w: r.randrange(w) * 2 ** r.choice((0, 20, 40))),
    lambda: Column("oid", "oid", [0, 4294967295, 2147483648], lambda r, w: r.randrange(w)),
    lambda: Column("bool", "bool", ["t"], lambda r, w: r.choice("tf")),
    lambda: Column("char", "\"char\"", ["", "~"], lambda r, w: r.choice("abcxyzABC019")),
    lambda: Column("float8", "float8", ["NaN", "Infinity", "-Infinity", "-0", "0"], lambda r, w: r.randrange(w) / 8 - 10, equal_is_same=False),
    lambda: Column("float4", "float4", ["NaN", "Infinity", "-Infinity", "-0", "0"], lambda r, w: r.randrange(w) / 8 - 10, equal_is_same=False),
    lambda: Column("numeric", "numeric", ["NaN", "Infinity", "-Infinity", "0.000", "1e50"], _numeric, equal_is_same=False),
    lambda: Column("text_c", "text", ["", "\t", "zz" * 200], _word, collate='"C"'),
    lambda: Column("text_icu", "text", ["", " ", "zz" * 200], _word, collate='"en-x-icu"'),
    lambda: Column("text", "text", ["", "zz" * 200], _word),
    lambda: Column("text_pattern", "text", ["", "zz" * 200], _word, opclass="text_pattern_ops"),
    lambda: Column("bpchar", "char(8)", [""], lambda r, w: "c%d" % r.randrange(w)),
    lambda: Column("name", "name", [""], lambda r, w: "n%d" % r.randrange(w)),
    lambda: Column("bytea", "bytea", ["\\x", "\\x00", "\\xff", "\\xffffffffffffffffff"], lambda r, w: "\\x%012x" % (r.randrange(w) << r.choice((0, 8, 16)))),
    lambda: Column("date", "date", ["infinity", "-infinity", "4713-01-01 BC"], lambda r, w: "20%02d-%02d-%02d" % (r.randrange(3), 1 + r.randrange(12), 1 + r.randrange(28))),
    lambda: Column("timestamptz", "timestamptz", ["infinity", "-infinity"], lambda r, w: "2020-01-01 00:00:00.%06d+00" % r.randrange(w)),
    lambda: Column("timestamp", "timestamp", ["infinity", "-infinity"], lambda r, w: "2020-01-01 00:%02d:00" % r.randrange(60)),
    lambda: Column("time", "time", ["24:00", "00:00"], lambda r, w: "00:%02d:%02d" % (r.randrange(60), r.randrange(60))),
    lambda: Column("interval", "interval", ["0", "-1 day"], _interval, equal_is_same=False),
    lambda: Column("uuid", "uuid", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
                   lambda r, w: "%08x-0000-4000-8000-%012x" % (r.randrange(w) << 14, r.randrange(3))),
    lambda: Column("inet", "inet", ["::1", "0.0.0.0/0"], lambda r, w: "10.%d.%d.%d/%d" % (r.randrange(3), r.randrange(3), r.randrange(256), r.choice((8, 24, 32)))),
    lambda: Column("int4[]", "int4[]", ["{}", "{NULL}"], _array),
    lambda: Column("int4range", "int4range", ["empty", "(,)"], lambda r, w: "[%d,%d)" % (r.randrange(20), 20 + r.randrange(w))),
    lambda: Column("jsonb", "jsonb", ["{}", "[]", "null"], lambda r, w: r.choice(('%d', '"%d"', '{"a": %d}', '[%d]')) % r.randrange(w)),
    lambda: Column("money", "money", [0], lambda r, w: "%d.%02d" % (r.randrange(w), r.randrange(100))),
    lambda: Column("tid", "tid", ["(0,0)", "(4294967295,65535)"], lambda r, w: "(%d,%d)" % (r.randrange(w), 1 + r.randrange(5))),
    lambda: Column("varbit", "varbit", [""], lambda r, w: bin(r.randrange(w))[2:]),
]

# Pairs that a family of operators connects.
CROSS = {
    "int2": ["int4", "int8"], "int4": ["int2", "int8"], "int8": ["int2", "int4"],
    "float4": ["float8"], "float8": ["float4"],
    "date": ["timestamp", "timestamptz"], "timestamp": ["date", "timestamptz"], "timestamptz": ["date", "timestamp"],
}
BY_NAME = {}
for _make in TYPES:
    _c = _make()
    BY_NAME.setdefault(_c.name, _c)

"""Random questions about a table, aimed at one of its indexes."""

from columns import DEFAULT_OPS, KINDS
from pq import quote

BY_SQL = {}
for _k in KINDS:
    BY_SQL.setdefault(_k.sql, _k)


class Question:
    def __init__(self, sql, nkeys, how, steps=None, args=None):
        self.sql = sql
        self.nkeys = nkeys
        self.how = how
        self.steps = steps
        self.args = args

    def values(self, n):
        """As a row of VALUES."""
        steps = "'{%s}'::int[]" % ",".join(map(str, self.steps)) if self.steps else "NULL::int[]"
        args = "ARRAY[%s]::text[]" % ", ".join("NULL" if a is None else quote(a) for a in self.args) if self.args else "NULL::text[]"
        return "(%d, %s, %d, %s, %s, %s)" % (n, quote(self.sql), self.nkeys, quote(self.how), steps, args)


class Asker:
    def __init__(self, table, rnd):
        self.table = table
        self.rnd = rnd
        self.args = None        # a list while a question takes parameters
        self.alias = ""

    # ---- values ----

    def value(self, text, sql):
        if self.args is not None:
            self.args += [sql, text]
            return "$%d" % (len(self.args) // 2)
        return "%s::%s" % ("NULL" if text is None else quote(text), sql)

    def literal(self, key):
        """A value to compare the key with, of its type or of another one in its family."""
        r = self.rnd
        c = key.column
        if c is None:
            return self.value(r.choice(("-1", "0")) if r.random() < 0.05 else str(r.randrange(self.table.next_id + 2)), r.choice(("int4", "int4", "int8", "int2"))
                              if self.table.next_id < 30000 else "int4")
        if key.integer:
            return self.value(str(r.randrange(-5, 50)), "int4")
        if c.kind.cross and not key.opclass.endswith("rev_ops") and r.random() < 0.2:
            other = BY_SQL[r.choice(c.kind.cross)]
            return self.value(str(r.choice(other.special) if r.random() < 0.1 else other.usual(r, c.base + r.randrange(c.wide))), other.sql)
        return self.value(c.known(r), c.kind.sql)

    # ---- conditions ----

    def condition(self, key):
        r = self.rnd
        e = self.expr(key)
        lt, le, eq, ge, gt = key.ops
        n = r.random()
        if n < 0.07:
            return "%s IS NULL" % e
        if n < 0.13:
            return "%s IS NOT NULL" % e
        if n < 0.33:
            return self.array(key, e)
        if n < 0.50:
            a, b = self.literal(key), self.literal(key)
            return "%s %s %s AND %s %s %s" % (e, r.choice((ge, gt)), a, e, r.choice((le, lt)), b)
        if n < 0.53:
            return "%s %s NULL" % (e, r.choice(key.ops)) if key.column is None or key.ops is DEFAULT_OPS else "%s IS NULL AND %s %s %s" % (e, e, eq, self.literal(key))
        if n < 0.56:
            return "%s %s %s" % (e, r.choice(("IS DISTINCT FROM", "IS NOT DISTINCT FROM", "<>")), self.literal(key))
        if n < 0.60:
            # redundant or contradictory
            return " AND ".join("%s %s %s" % (e, r.choice((eq, eq, ge, le, lt, gt)), self.literal(key)) for _ in range(r.choice((2, 3))))
        if n < 0.62:
            return "(%s %s %s OR %s)" % (e, r.choice((eq, lt, gt)), self.literal(key), r.choice(("%s IS NULL" % e, "%s %s %s" % (e, eq, self.literal(key)))))
        if n < 0.64 and key.column is not None and key.column.kind.textual and not key.integer:
            # the text itself, so that no parameter is in the way of a prefix
            word = key.column.known(r)[:r.randrange(1, 6)].replace("\\", "").replace("%", "").replace("_", "")
            return "%s %s %s" % (e, r.choice(("LIKE", "LIKE", "NOT LIKE")), quote(word + "%"))
        if n < 0.66 and key.column is not None and key.column.kind.name == "bool" and not key.integer:
            return r.choice(("%s", "NOT %s", "%s IS TRUE", "%s IS NOT FALSE", "%s IS UNKNOWN")) % e
        return "%s %s %s" % (e, r.choice((lt, le, eq, eq, eq, ge, gt)), self.literal(key))

    def array(self, key, e):
        r = self.rnd
        many = r.choice((0, 1, 2, 3, 3, 5, 8, 40, 150 if r.random() < 0.2 else 4))
        items = [self.literal(key) if r.random() > 0.06 else "NULL" for _ in range(many)]
        if key.column is not None and key.column.kind.sql.endswith("[]") and not key.integer:
            return "%s IN (%s)" % (e, ", ".join(items)) if items else "%s IS NULL" % e
        lt, le, eq, ge, gt = key.ops
        if key.column is None:
            sql = "int8"
        elif key.integer:
            sql = "int4"
        else:
            sql = key.column.kind.sql
            # elements of a type to which all those of the family go
            if "int8" in key.column.kind.cross:
                sql = "int8"
            elif "float8" in key.column.kind.cross:
                sql = "float8"
            elif "timestamptz" in key.column.kind.cross:
                sql = r.choice(("timestamp", "timestamptz", key.column.kind.sql))
            elif sql == "name":
                sql = "text"
        n = r.random()
        if n < 0.06:
            return "%s %s ALL (ARRAY[%s]::%s[])" % (e, r.choice(("<>", ge, lt)), ", ".join(items), sql)
        # core makes the list's elements unique in their own collation, not in the column's
        if n < 0.1 and items and not (key.column is not None and key.column.collation.startswith("own.")):
            return "%s IN (SELECT x FROM unnest(ARRAY[%s]::%s[]) x)" % (e, ", ".join(items), sql)
        return "%s %s ANY (ARRAY[%s]::%s[])" % (e, r.choice((eq, eq, eq, eq, eq, lt, le, ge, gt)), ", ".join(items), sql)

    def expr(self, key):
        """The key's expression, of the table's alias at hand."""
        if not self.alias:
            return key.expr
        name = key.column.name if key.column is not None else "id"
        return key.expr.replace(name, "%s.%s" % (self.alias, name))

    def where(self, index, more=True):
        """Conditions on an index's keys, more often on the first ones."""
        r = self.rnd
        parts = []
        chance = 0.85
        for k in index.keys:
            if r.random() < chance:
                parts.append(self.condition(k))
            chance *= r.choice((0.6, 0.9))
        if len(index.keys) > 1 and r.random() < 0.06:
            pair = [k for k in index.keys if k.ops is DEFAULT_OPS][:r.choice((2, 3))]
            if len(pair) > 1:
                parts.append("(%s) %s (%s)" % (", ".join(self.expr(k) for k in pair), r.choice(("<", "<=", ">", ">=", "=")), ", ".join(self.literal(k) for k in pair)))
        if more and r.random() < 0.12:
            i = r.choice(self.table.indexes)
            parts.append(self.condition(r.choice(i.keys)))
        if index.where and r.random() < 0.85:
            parts.append("(%s)" % (index.where if not self.alias else "%s.id IS NOT NULL" % self.alias))
        if r.random() < 0.05:
            parts.append("%sid %% 2 = %d" % (self.alias + "." if self.alias else "", r.randrange(2)))
        return " WHERE " + " AND ".join("(%s)" % p for p in parts) if parts else ""

    # ---- questions ----

    def ask(self):
        r = self.rnd
        index = r.choice(self.table.indexes)
        self.args = [] if r.random() < 0.08 else None
        self.alias = ""
        n = r.random()
        if n < 0.38:
            q = self.plain(index)
        elif n < 0.53:
            q = self.limited(index)
        elif n < 0.67:
            q = self.index_only(index)
        elif n < 0.83:
            q = self.aggregate(index)
        elif n < 0.90:
            q = self.join(index)
        elif n < 0.93:
            q = self.probe(index)
        elif n < 0.97:
            q = self.scroll(index)
        else:
            q = self.either(index)
        if self.args:
            q.args = self.args
            if r.random() < 0.7:
                q.how += "g"
        self.args = None
        if r.random() < 0.006 and not q.steps:
            q.how += "p"
        return q

    def how(self, *choices):
        return self.rnd.choice(choices or ("o", "o", "i", "i", "b", "b", "a"))

    def ordered(self, index):
        """Some of the index's keys: select list and ORDER BY, in its order or the reverse, rarely in neither."""
        r = self.rnd
        keys = index.keys[:r.randint(1, len(index.keys))]
        backward = r.random() < 0.5
        items = [k.order(backward if r.random() < 0.95 else not backward) for k in keys]
        return keys, items

    def plain(self, index):
        r = self.rnd
        where = self.where(index)
        columns = "id, " + ", ".join(c.name for c in self.table.columns) + (", pad" if r.random() < 0.1 else "")
        if r.random() < 0.5:
            return Question("SELECT %s FROM t%s" % (columns, where), 0, self.how())
        keys, items = self.ordered(index)
        total = r.random() < 0.15
        sql = "SELECT %s, %s FROM t%s ORDER BY %s%s" % (", ".join("%s AS k%d" % (k.expr, i) for i, k in enumerate(keys)), columns, where, ", ".join(items), ", id" if total else "")
        return Question(sql, len(keys), self.how("o", "i", "a"))

    def limited(self, index):
        r = self.rnd
        where = self.where(index)
        keys, items = self.ordered(index)
        sql = "SELECT %s FROM t%s ORDER BY %s LIMIT %d" % (", ".join("%s AS k%d" % (k.expr, i) for i, k in enumerate(keys)), where, ", ".join(items), r.choice((1, 1, 2, 10, 100)))
        if r.random() < 0.2:
            sql += " OFFSET %d" % r.choice((1, 5, 50))
        return Question(sql, len(keys), self.how("o", "i", "a") + "f")

    def index_only(self, index):
        """Only what the index has."""
        r = self.rnd
        where = self.where(index, more=False)
        columns = ["%s AS k%d" % (k.expr, i) for i, k in enumerate(index.keys)] + ([index.include] if index.include else [])
        if r.random() < 0.5:
            r.shuffle(columns)
            return Question("SELECT %s FROM t%s" % (", ".join(columns), where), 0, self.how("o", "o", "a"))
        keys, items = self.ordered(index)
        return Question("SELECT %s FROM t%s ORDER BY %s" % (", ".join(columns), where, ", ".join(items)), len(keys), self.how("o", "o", "a"))

    def aggregate(self, index):
        r = self.rnd
        where = self.where(index)
        key = r.choice(index.keys[:2])
        n = r.randrange(6)
        if n == 0 or (n == 1 and key.column is not None and not key.integer and not key.column.kind.minmax):
            return Question("SELECT count(*), sum(id::int8), count(%s) FROM t%s" % (key.expr, where), 0, self.how())
        if n == 1:
            which = r.choice(("min(%s)", "max(%s)", "min(%s), max(%s)"))
            return Question("SELECT %s FROM t%s" % (which.replace("%s", key.expr), where), 2, self.how("o", "i", "a") + "f")
        if n == 2:
            return Question("SELECT DISTINCT %s FROM t%s ORDER BY %s" % (key.expr, where, key.order(r.random() < 0.5)), 1, self.how("o", "i", "a") + "f")
        if n == 3:
            return Question("SELECT DISTINCT ON (%s) %s, id FROM t%s ORDER BY %s, id %s"
                            % (key.expr, key.expr, where, key.order(r.random() < 0.5), r.choice(("", "DESC"))), 1, self.how("o", "i", "a"))
        if n == 4:
            return Question("SELECT %s, count(*) FROM t%s GROUP BY %s ORDER BY %s" % (key.expr, where, key.expr, key.order(r.random() < 0.5)), 2, self.how("o", "i", "a") + "f")
        return Question("SELECT count(*) FROM t%s" % where, 0, self.how("o", "o", "i", "b"))

    def few(self, alias):
        """A condition that leaves some twenty rows."""
        m = max(1, self.table.next_id // 20)
        return "%s.id %% %d = %d" % (alias, m, self.rnd.randrange(m))

    def partner(self, key):
        """A key to join with: the same, or one of another type in its family."""
        c = key.column
        if c is not None and not key.integer and c.kind.cross and key.ops is DEFAULT_OPS and self.rnd.random() < 0.5:
            # of two collations neither would be taken: an error, or none if the plan compares nothing
            others = [i.keys[0] for i in self.table.indexes if i.keys[0].column is not None and not i.keys[0].integer and i.keys[0].ops is DEFAULT_OPS
                      and i.keys[0].column.kind.sql in c.kind.cross
                      and (i.keys[0].column.collation, i.keys[0].column.kind.sql == "name") == (c.collation, c.kind.sql == "name")]
            if others:
                return self.rnd.choice(others)
        return key

    def join(self, index):
        r = self.rnd
        key = index.keys[0]
        self.alias = "a"
        left = self.expr(self.partner(key))
        more = ""
        self.alias = "b"
        right = self.expr(key)
        if len(index.keys) > 1 and r.random() < 0.4:
            k = index.keys[1]
            self.alias = "a"
            e = self.expr(k)
            self.alias = "b"
            more = " AND %s %s %s" % (e, r.choice((k.ops[2], k.ops[2], k.ops[0], k.ops[3])), self.expr(k))
        where = self.where(index, more=False) if r.random() < 0.3 else ""
        few = self.few("a")
        kind = r.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if kind != "JOIN" or r.random() < 0.3:
            # both sides cut down: as an outer join it still has something to fill up with
            source = "(SELECT * FROM t a WHERE %s) a %s (SELECT * FROM t b%s) b" % (few, kind, where)
            where = ""
        else:
            source = "t a JOIN t b"
            where = (where + " AND " if where else " WHERE ") + few
        sql = "SELECT count(*), sum(a.id::int8 * 7 + b.id), count(a.id), count(b.id) FROM %s ON %s %s %s%s%s" % (source, left, key.ops[2], right, "" if kind == "FULL JOIN" else more, where)
        return Question(sql, 0, self.how("om", "im", "im", "in", "on", "a", "bn"))

    def probe(self, index):
        """The index asked again and again, inside a subplan."""
        r = self.rnd
        key = index.keys[0]
        self.alias = "a"
        outer = self.expr(key)
        few = self.few("a")
        self.alias = "b"
        inner = self.expr(key)
        op = r.choice(key.ops)
        n = r.randrange(4)
        if n == 0:
            return Question("SELECT a.id FROM t a WHERE %s AND %sEXISTS (SELECT FROM t b WHERE %s %s %s AND b.id <> a.id)"
                            % (few, r.choice(("", "NOT ")), inner, op, outer), 0, self.how("on", "in", "im", "a"))
        if n == 1:
            order = key.order(r.random() < 0.5).replace(key.expr, inner, 1)
            return Question("SELECT a.id, x.k, x.id FROM t a, LATERAL (SELECT %s AS k, b.id FROM t b WHERE %s %s %s ORDER BY %s, b.id LIMIT %d) x WHERE %s"
                            % (inner, inner, op, outer, order, r.choice((1, 3, 20)), few), 0, self.how("a", "on", "in"))
        if n == 2:
            if key.column is not None and key.column.kind.sql.endswith("[]"):
                return Question("SELECT a.id, (SELECT count(*) FROM t b WHERE %s = %s) FROM t a WHERE %s" % (inner, outer, few), 0, self.how("o", "i", "b"))
            return Question("SELECT a.id, (SELECT count(*) FROM t b WHERE %s = ANY (ARRAY[%s, %s]) AND %s %s %s) FROM t a WHERE %s"
                            % (inner, outer, outer, inner, op, outer, few), 0, self.how("o", "i", "b"))
        return Question("SELECT a.id FROM t a WHERE %s AND %s %sIN (SELECT %s FROM t b WHERE b.id %% 3 = 0)" % (few, outer, r.choice(("", "NOT ")), inner),
                        0, self.how("on", "in", "om", "a"))

    def scroll(self, index):
        r = self.rnd
        where = self.where(index, more=False)
        keys, items = self.ordered(index)
        steps = []
        for _ in range(r.randint(1, 12)):
            n = r.choice((1, 1, 2, 3, 10, 60, 400))
            steps.append(n if r.random() < 0.6 else -n)
        sql = "SELECT %s, id FROM t%s ORDER BY %s" % (", ".join("%s AS k%d" % (k.expr, i) for i, k in enumerate(keys)), where, ", ".join(items))
        return Question(sql, len(keys), self.how("o", "i"), steps)

    def either(self, index):
        """OR over two indexes: bitmaps combined."""
        other = self.rnd.choice(self.table.indexes)
        a, b = self.where(index, more=False)[7:], self.where(other, more=False)[7:]
        where = " %s " % self.rnd.choice(("OR", "OR", "AND")).join(("(%s)" % a, "(%s)" % b)) if a and b else a or b or "true"
        return Question("SELECT id, %s FROM t WHERE %s" % (", ".join(c.name for c in self.table.columns), where), 0, self.how("b", "b", "a"))

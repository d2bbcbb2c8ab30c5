"""The table of a round and its indexes: each one twice, by numa_btree and by btree."""

from columns import DEFAULT_OPS, KINDS, Column
from pq import HARMLESS, Error, quote


class Difference(Exception):
    """numa_btree did what it should not."""


class Key:
    """A key column of an index."""

    def __init__(self, expr, column, opclass="", ops=DEFAULT_OPS, integer=False):
        self.expr = expr            # as in queries, with its collation
        self.column = column        # for values; None: id
        self.opclass = opclass
        self.ops = ops
        self.integer = integer      # an expression that gives an integer
        self.down = False
        self.nulls_first = False

    def definition(self):
        return "%s %s %s NULLS %s" % (self.expr, self.opclass, "DESC" if self.down else "ASC", "FIRST" if self.nulls_first else "LAST")

    def order(self, backward):
        """As an item of ORDER BY."""
        down = self.down != backward
        nulls = "FIRST" if self.nulls_first != backward else "LAST"
        if self.ops is DEFAULT_OPS:
            return "%s %s NULLS %s" % (self.expr, "DESC" if down else "ASC", nulls)
        return "%s USING %s NULLS %s" % (self.expr, self.ops[4 if down else 0], nulls)


class Index:
    def __init__(self, number, keys, include, where, unique, nulls_not_distinct, exclude):
        self.number = number
        self.keys = keys
        self.include = include
        self.where = where
        self.unique = unique
        self.nulls_not_distinct = nulls_not_distinct
        self.exclude = exclude      # "", or how the exclusion constraint is deferred
        self.clusterable = not where and not exclude

    def ddl(self, am, table, options, concurrently=""):
        """The statement that makes it, named after the table and the access method."""
        name = "%s_%s%d" % (table, "n" if am == "numa_btree" else "b", self.number)
        include = " INCLUDE (%s)" % self.include if self.include else ""
        where = " WHERE (%s)" % self.where if self.where else ""
        if self.exclude:
            items = ", ".join("%s %s WITH %s" % (k.expr, k.opclass, k.ops[2]) for k in self.keys)
            return "ALTER TABLE %s ADD CONSTRAINT %s EXCLUDE USING %s (%s)%s WITH (%s)%s %s" % (table, name, am, items, include, options, where, self.exclude)
        return "CREATE %sINDEX %s %s ON %s USING %s (%s)%s%s WITH (%s)%s" % (
            "UNIQUE " if self.unique else "", concurrently, name, table, am, ", ".join(k.definition() for k in self.keys), include,
            " NULLS NOT DISTINCT" if self.nulls_not_distinct else "", options, where)


class Table:
    """Table t; and, where constraints are tested, its twin u that has btree indexes only."""

    def __init__(self, session, rnd, kinds):
        self.s = session
        self.rnd = rnd
        self.kinds = kinds
        self.indexes = []
        self.made = -1              # number of the last index
        self.next_id = 1
        self.ddl = []               # for the report
        self.in_doubt = False       # an interrupted statement may or may not have reached the twin
        self.concurrent = False
        self.slow_loads = False     # writers are to meet loads

    # ---- schema ----

    def create(self):
        r = self.rnd
        self.wide = r.choice((2, 5, 20, 20, 300, 300, 5000, 200000))
        self.constrained = r.random() < 0.25
        if self.constrained:
            # so that writers meet each other's keys
            self.wide = r.choice((20, 100, 300, 300, 5000))
        nulls = r.choice((0, 0, 0.05, 0.3))
        self.columns = [Column(r, "c%d" % i, self.kinds, self.wide, nulls) for i in range(r.choice((1, 2, 2, 3, 3, 4)))]
        self.twin = self.constrained
        unlogged = not self.twin and r.random() < 0.1
        options = "autovacuum_enabled = off, fillfactor = %d" % r.choice((100, 100, 70))
        self.names = ["t", "u"] if self.twin else ["t"]
        for t in self.names:
            self.do("CREATE %sTABLE %s (id int4 NOT NULL, pad text, %s) WITH (%s)"
                    % ("UNLOGGED " if unlogged else "", t, ", ".join(c.definition() for c in self.columns), options))
        self.rows = r.choices((0, 10, 100, 300, 600, 1500, 3000, 12000), (2, 5, 20, 35, 25, 8, 4, 0.6))[0]
        if self.wide == 2 or any(c.kind.name == "text_long" for c in self.columns):
            self.rows = min(self.rows, 1500)

    def do(self, sql, *may):
        """DDL: part of what a report shows."""
        self.ddl.append(sql)
        return self.s.may(sql, *may)

    def key(self):
        """A random key: a column or an expression, maybe with a class or a collation."""
        r = self.rnd
        if r.random() < 0.08:
            return Key("id", None)
        c = r.choice(self.columns)
        if c.kind.expressions and r.random() < 0.15:
            e = r.choice(c.kind.expressions)
            return Key("(%s)" % (e % c.name), c, integer=not e.startswith(("lower", "(%s ||")))
        opclass, ops = r.choice(c.kind.opclasses)
        if opclass.endswith("pattern_ops") and c.collation.startswith("own."):
            opclass, ops = "", DEFAULT_OPS
        expr = c.name
        if c.kind.textual and not opclass and r.random() < 0.1:
            expr = '(%s COLLATE "C")' % c.name
        return Key(expr, c, opclass, ops)

    def new_index(self, unique=False, exclude=""):
        r = self.rnd
        keys = []
        for _ in range(r.choice((1, 1, 2, 2, 3, 4) if not unique and not exclude else (1, 1, 1, 2))):
            k = self.key()
            if k.expr in [x.expr for x in keys]:
                continue
            if not exclude:
                k.down = r.random() < 0.35
                k.nulls_first = k.down if r.random() < 0.7 else not k.down
            keys.append(k)
        if self.slow_loads and not exclude and r.random() < 0.5:
            keys[r.randrange(len(keys))] = Key("own.dawdle(id)", None)
        where = ""
        if r.random() < 0.2:
            c = r.choice(self.columns)
            where = r.choice(("id % 3 <> 0", "id > 100", "%s IS NOT NULL" % c.name, "%s IS NULL OR id %% 2 = 0" % c.name))
        include = ""
        if r.random() < 0.25:
            include = r.choice(("id", "pad", r.choice(self.columns).name))
            if include in [k.expr for k in keys]:
                include = ""
        nnd = unique and self.version >= 150000 and r.random() < 0.4
        self.made += 1
        return Index(self.made, keys, include, where, unique, nnd, exclude)

    def options(self):
        r = self.rnd
        return "fillfactor = %d, deduplicate_items = %s" % (r.choice((50, 90, 90, 100)), r.choice(("on", "on", "off")))

    def add_index(self, concurrently=""):
        """A new index, in both ways; where it can't be made (duplicates, keys too large), in none."""
        r = self.rnd
        unique = exclude = False
        if self.constrained and (not self.indexes or r.random() < 0.3):
            unique = r.random() < 0.7
            if not unique:
                exclude = r.choice((" ", " ", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"))
        index = self.new_index(unique, exclude or "")
        if index.exclude:
            concurrently = ""
        failed = ("23505", "23P01", "54000", "57014") + HARMLESS
        options = self.options()
        how = [("t", "numa_btree", options), ("t", "btree", self.options())] + ([("u", "btree", options)] if self.twin else [])
        states = [self.do(index.ddl(am, t, o, concurrently if t == "t" else ""), *failed) for t, am, o in how]
        if any(s in HARMLESS for s in states):
            self.in_doubt = True
        elif len(set(states)) != 1 and not (self.concurrent and self.constrained):
            raise Difference("outcomes of CREATE INDEX differ: %s" % list(zip([h[1] for h in how], states)))
        if any(states):
            for t, am, _ in how:
                name = "%s_%s%d" % (t, "n" if am == "numa_btree" else "b", index.number)
                self.do(("ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s" if index.exclude else "DROP INDEX IF EXISTS %.0s%s") % (t, name))
            return False
        self.indexes.append(index)
        return True

    # ---- the same statement on t and on its twin ----

    def both(self, sql, *states):
        """Run a statement, "@" being the table. It must work or fail alike on both."""
        done = []
        for t in self.names:
            try:
                self.s.run(sql.replace("@", t))
                done.append(("00000", self.s.changed))
            except Error as e:
                self.judge(e, states)
                done.append((e.state, ""))
        if len(set(done)) != 1:
            # in doubt: one of the statements before was cut off on one of them
            if any(d[0] in HARMLESS for d in done) or self.in_doubt:
                self.in_doubt = True
            else:
                raise Difference("with numa_btree: %s, with btree only: %s\n  %s" % (done[0], done[1], sql))
        return done[0][0] == "00000"

    @staticmethod
    def judge(e, states):
        """An error of a change: whether numa_btree, whose index comes first, let it through to btree's."""
        if e.state in ("23505", "23P01") and e.constraint.startswith("t_b"):
            raise Difference("numa_btree let pass what btree refused: %s" % e)
        if e.state == "54000" and '"t_b' in e.message:
            raise Difference("numa_btree took a key that is too large: %s" % e)
        if e.state not in states + ("54000", "23505", "23P01") + HARMLESS:
            raise e

    def settle(self):
        """After an interruption: whatever was left half done goes, the twin follows the table."""
        for name, in self.s.run("SELECT gid FROM pg_prepared_xacts"):
            self.s.run("ROLLBACK PREPARED %s" % quote(name))
        for name, in self.s.run("SELECT indexrelid::regclass FROM pg_index i JOIN pg_class c ON c.oid = indrelid "
                                "WHERE relnamespace = current_schema()::regnamespace AND NOT indisvalid"):
            self.s.run("DROP INDEX IF EXISTS %s" % name)
        there = {name for name, in self.s.run("SELECT relname FROM pg_class WHERE relkind = 'i' AND relnamespace = current_schema()::regnamespace")}
        kept = []
        for i in self.indexes:
            names = ["%s_%s%d" % (t, b, i.number) for t, b in (("t", "n"), ("t", "b"), ("u", "b")) if t in self.names]
            if all(n in there for n in names):
                kept.append(i)
                continue
            for n in names:
                if n in there:
                    self.s.run("ALTER TABLE %s DROP CONSTRAINT %s" % (n[0], n) if i.exclude else "DROP INDEX %s" % n)
        self.indexes[:] = kept
        if self.twin:
            self.s.run("TRUNCATE u")
            self.s.run("INSERT INTO u SELECT * FROM t")
        self.in_doubt = False

    def check(self):
        """Every numa_btree index by its own checker; the twin by a comparison of all rows."""
        for name, in self.s.run("SELECT c.oid::regclass FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE amname = 'numa_btree' "
                                "AND relnamespace = current_schema()::regnamespace AND relkind = 'i'"):
            self.s.run("SELECT numa.btree_check(%s, true)" % quote(name))
        if self.twin and not self.concurrent and not self.in_doubt:
            cols = "id, pad, " + ", ".join(c.name for c in self.columns)
            rows = self.s.run("SELECT count(*) FROM (SELECT %s FROM t ORDER BY id) a FULL JOIN (SELECT %s FROM u) b ON a::text = b::text WHERE a IS NULL OR b IS NULL" % (cols, cols))
            if rows != [["0"]]:
                raise Difference("table and twin differ in %s rows" % rows[0][0])


def kinds_for(server):
    """The kinds that this server can have."""
    missing = set()
    if not server["icu"]:
        missing |= {"text_icu", "text_nondet"}
    if not server["citext"]:
        missing.add("citext")
    kinds = [k for k in KINDS if k.name not in missing]
    if not server["icu"]:
        for k in kinds:
            k.collations = tuple(c for c in k.collations if "icu" not in c) or ("",)
    return kinds

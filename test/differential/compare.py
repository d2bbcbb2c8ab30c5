"""One random table: its indexes, its changes, its questions."""

import time

from columns import BY_NAME, CROSS, TYPES
from session import HARMLESS


class Difference(Exception):
    pass


# Two tables get the same statements: _n with numa_btree indexes, _b with the same btree
# indexes.  What a sequential scan and the kinds of index scans may use:
SEQ = "SET enable_seqscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off; SET enable_sort = on"
INDEX = ("SET enable_seqscan = off; SET enable_indexscan = %s; SET enable_indexonlyscan = %s; SET enable_bitmapscan = %s; SET enable_sort = %s")
KINDS = [("on", "off", "off", "off"), ("on", "on", "off", "off"), ("off", "off", "on", "on")]


class Tester:
    def __init__(self, session, rnd, table):
        self.s = session
        self.rnd = rnd
        self.table = table
        self.columns = []
        self.indexes = []       # (list of (column, direction, nulls), definition with %(am)s ...)
        self.next_id = 0
        self.compared = 0
        self.concurrent = False

    # ---- schema ----

    def create(self):
        r, t = self.rnd, self.table
        self.columns = [r.choice(TYPES)() for _ in range(r.randint(1, 4))]
        self.wide = r.choice((3, 20, 300, 5000, 200000))
        self.nulls = r.choice((0, 0.05, 0.3))
        cols = ", ".join("c%d %s%s" % (i, c.sql, " COLLATE %s" % c.collate if c.collate else "") for i, c in enumerate(self.columns))
        fillfactor = r.choice((100, 100, 70))
        for am in ("n", "b"):
            self.s.run("DROP TABLE IF EXISTS %s_%s" % (t, am))
            self.s.run("CREATE TABLE %s_%s (id int, pad text, %s) WITH (autovacuum_enabled = off, fillfactor = %d)"
                       % (t, am, cols, fillfactor))
        self.insert(r.choice((0, 10, 200, 500, 3000)))
        for _ in range(r.randint(1, 3)):
            self.create_index()
        self.insert(r.choice((0, 10, 1000)))
        # Few values, many rows: leaves full of equal keys.
        if self.wide <= 20:
            for _ in range(r.choice((0, 1, 3))):
                self.double()

    def both(self, sql, *states):
        """One statement on both tables: it must work, or fail alike.

        With writers about, only _n is in use and a statement may lose a conflict."""
        if self.concurrent:
            return self.s.may(sql.replace("@", self.table + "_n"), *HARMLESS)
        done = [self.s.may(sql.replace("@", "%s_%s" % (self.table, am)), *states) for am in ("n", "b")]
        if done[0] != done[1]:
            raise Difference("only %s could do: %s" % ("numa_btree" if done[0] else "btree", sql))
        return done[0]

    def create_index(self):
        r = self.rnd
        keys = []
        for i in r.sample(range(len(self.columns)), r.randint(1, len(self.columns))):
            direction = r.choice(("ASC", "DESC"))
            nulls = r.choice(("FIRST", "LAST"))
            keys.append((i, direction, nulls))
        unique = r.random() < 0.15
        if unique:
            keys.append(("id", "ASC", "LAST"))
            if r.random() < 0.3:
                keys = [("id", "ASC", "LAST")]
        definition = ", ".join("%s %s %s NULLS %s" % (
            "id" if i == "id" else "c%d" % i, "" if i == "id" else self.columns[i].opclass, d, n) for i, d, n in keys)
        include = ""
        if r.random() < 0.25:
            include = " INCLUDE (id)" if r.random() < 0.5 and not unique else " INCLUDE (pad)"
        where = r.choice((" WHERE id % 3 <> 0", " WHERE id > 100")) if r.random() < 0.2 else ""
        n = len(self.indexes)
        for am, name in (("n", "numa_btree"), ("b", "btree")):
            self.s.run("CREATE %sINDEX %s_%s_i%d ON %s_%s USING %s (%s)%s WITH (fillfactor = %d, deduplicate_items = %s)%s"
                       % ("UNIQUE " if unique else "", self.table, am, n, self.table, am, name, definition, include,
                          r.choice((50, 90, 100)), r.choice(("on", "on", "off")), where))
        self.indexes.append((keys, where, unique))

    # ---- changes ----

    def value(self, i):
        if self.rnd.random() < self.nulls:
            return "NULL"
        return self.columns[i].value(self.rnd, self.wide)

    def insert(self, n):
        rows = []
        for _ in range(n):
            rows.append("(%d, %s, %s)" % (self.next_id, "repeat('p', %d)" % self.rnd.choice((0, 5, 100)),
                                          ", ".join(self.value(i) for i in range(len(self.columns)))))
            self.next_id += 1
        for i in range(0, len(rows), 250):
            self.both("INSERT INTO @ VALUES %s" % ", ".join(rows[i:i + 250]), "23505")

    def double(self):
        """Every row once more, under a new id."""
        if self.next_id <= 3000:
            cols = ", ".join("c%d" % i for i in range(len(self.columns)))
            self.both("INSERT INTO @ SELECT id + %d, pad, %s FROM @ ORDER BY id" % (self.next_id, cols), "23505")
            self.next_id *= 2

    def change(self):
        r = self.rnd
        if self.wide <= 20 and not self.concurrent and r.random() < 0.05:
            self.double()
        what = r.randrange(15)
        i = r.randrange(len(self.columns))
        ids = sorted(r.randrange(self.next_id + 1) for _ in range(2))
        if what <= 2:
            self.insert(r.choice((1, 5, 50, 600)))
        elif what <= 4:
            self.both("DELETE FROM @ WHERE id BETWEEN %d AND %d" % (ids[0], min(ids[1], ids[0] + r.choice((1, 20, 500)))))
        elif what == 5:
            self.both("DELETE FROM @ WHERE id %% %d = %d" % (r.choice((2, 3, 7)), r.randrange(2)))
        elif what == 6:
            self.both("UPDATE @ SET c%d = %s WHERE id BETWEEN %d AND %d" % (i, self.value(i), ids[0], min(ids[1], ids[0] + 100)))
        elif what == 7:
            self.both("UPDATE @ SET pad = pad || 'u' WHERE id BETWEEN %d AND %d" % (ids[0], min(ids[1], ids[0] + 300)))
        elif what == 8 and not self.concurrent:
            # A subtransaction that is undone, and one that is not.
            for am in ("n", "b"):
                t = "%s_%s" % (self.table, am)
                self.s.run("BEGIN")
                self.s.run("SAVEPOINT a")
                self.s.may("UPDATE %s SET id = id + 1000000 WHERE id %% 5 = 0" % t, "23505")
                self.s.run("ROLLBACK TO a")
                self.s.run("DELETE FROM %s WHERE id = %d" % (t, ids[0]))
                self.s.run("SAVEPOINT b")
                self.s.run("UPDATE %s SET pad = 'b' WHERE id = %d" % (t, ids[1]))
                self.s.run("RELEASE b")
                self.s.run("COMMIT" if ids[0] % 3 else "ROLLBACK")
        elif what in (9, 10):
            self.both(r.choice(("VACUUM @", "VACUUM @", "VACUUM (INDEX_CLEANUP off) @", "VACUUM ANALYZE @", "VACUUM (FREEZE) @")))
        elif what == 11:
            n = r.randrange(len(self.indexes))
            self.s.run("SELECT numa.btree_unload('%s_n_i%d')" % (self.table, n))
            if r.random() < 0.7:
                self.insert(r.choice((0, 3, 30)))
                self.both("DELETE FROM @ WHERE id = %d" % ids[0])
                if r.random() < 0.5:
                    self.both("VACUUM @")
            self.s.run("SELECT numa.btree_load('%s_n_i%d')" % (self.table, n))
        elif what == 12:
            self.s.run("SELECT count(*) FROM numa.topology() t, numa.move_relation('%s_n_i%d', t.node) WHERE allowed AND total_bytes > 0"
                       % (self.table, r.randrange(len(self.indexes))))
        elif what == 13 and not self.concurrent:
            self.both(r.choice(("REINDEX TABLE @", "VACUUM FULL @", "CLUSTER @ USING @_i0", "TRUNCATE @", "REINDEX TABLE CONCURRENTLY @",
                                "ALTER TABLE @ ALTER pad TYPE varchar", "DELETE FROM @")),
                      "0A000")     # CLUSTER does not take a partial index
        elif what == 14:
            n = r.randrange(len(self.indexes))
            self.s.run("SELECT numa.btree_check('%s_n_i%d')" % (self.table, n))

    # ---- questions ----

    def condition(self, i):
        """A condition on column i: any operator, also of another type, arrays, NULL tests."""
        r = self.rnd
        if i == "id":
            return "id %s %d" % (r.choice(("<", "<=", "=", ">=", ">")), r.randrange(self.next_id + 2))
        c = self.columns[i]
        n = r.random()
        if n < 0.1:
            return "c%d IS NULL" % i
        if n < 0.2:
            return "c%d IS NOT NULL" % i
        if n < 0.4:
            values = ", ".join(self.value(i) for _ in range(r.choice((0, 1, 2, 5, 40))))
            if c.sql == "int4[]":
                return "c%d IN (%s)" % (i, values) if values else "c%d IS NULL" % i
            return "c%d %s ANY (ARRAY[%s]::%s[])" % (i, r.choice(("=", "=", "=", "<", ">=")), values, c.sql)
        op = r.choice(("<", "<=", "=", "=", ">=", ">"))
        if c.opclass == "text_pattern_ops" and op != "=":
            op = {"<": "~<~", "<=": "~<=~", ">=": "~>=~", ">": "~>~"}[op]
        if c.name in CROSS and r.random() < 0.3:
            other = BY_NAME[r.choice(CROSS[c.name])]
            return "c%d %s %s" % (i, op, other.value(r, self.wide))
        return "c%d %s %s" % (i, op, self.value(i) if r.random() < 0.97 else "NULL::%s" % c.sql)

    def question(self):
        r = self.rnd
        keys, where, _ = r.choice(self.indexes)
        conditions = [self.condition(k[0]) for k in keys if r.random() < 0.6]
        if r.random() < 0.2:
            conditions.append(self.condition(r.choice(keys)[0]))
        if where and r.random() < 0.8:
            conditions.append(where.replace(" WHERE ", ""))
        if r.random() < 0.1:
            conditions.append("id %% 2 = %d" % r.randrange(2))
        text = ""
        if conditions:
            text = " WHERE " + " AND ".join(conditions)
        names = ["id" if k[0] == "id" else "c%d" % k[0] for k in keys]
        order = ""
        if r.random() < 0.6:
            flip = r.random() < 0.5
            part = keys[:r.randint(1, len(keys))]
            if any(k[0] != "id" and self.columns[k[0]].opclass for k in part):
                part = []
            items = []
            for k, d, n in part:
                if flip:
                    d, n = ("DESC" if d == "ASC" else "ASC"), ("LAST" if n == "FIRST" else "FIRST")
                items.append("%s %s NULLS %s" % ("id" if k == "id" else "c%d" % k, d, n))
            if items:
                order = " ORDER BY " + ", ".join(items)
        kind = r.random()
        if kind < 0.35:
            select = ", ".join(names) + (", id" if r.random() < 0.7 else "")
            ordered = names[:order.count(",") + 1] if order else []
        elif kind < 0.55:
            return "SELECT count(*), count(DISTINCT id), sum(id) FROM @" + text, [], None
        elif kind < 0.65:
            i = r.choice(keys)[0]
            name = "id" if i == "id" else "c%d" % i
            if i != "id" and (self.columns[i].name in ("bool", "char", "name", "bytea", "uuid", "inet", "int4[]", "int4range", "jsonb", "tid", "varbit", "oid") or not self.columns[i].equal_is_same or self.columns[i].opclass):
                name = "id"
            return "SELECT %s(%s) FROM @%s" % (r.choice(("min", "max")), name, text), [], None
        else:
            select = "id, " + ", ".join("c%d" % i for i in range(len(self.columns)))
            ordered = names[:order.count(",") + 1] if order else []
        limit = None
        if order and r.random() < 0.3:
            limit = r.choice((1, 3, 20, 500))
        return "SELECT %s FROM @%s%s" % (select, text, order), ordered, limit

    def rows(self, sql, table, limit):
        return self.s.run(sql.replace("@", table) + (" LIMIT %d" % limit if limit else ""))

    def ask(self):
        sql, ordered, limit = self.question()
        r = self.rnd
        if self.concurrent:
            self.s.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        answers = {}
        for how, table, settings in [("sequential scan", "n", SEQ)] + [
                ("numa_btree %d" % n, "n", INDEX % k) for n, k in enumerate(KINDS)] + (
                [] if self.concurrent else [("btree", "b", INDEX % KINDS[r.randrange(3)])]):
            self.s.run(settings)
            answers[how] = self.rows(sql, "%s_%s" % (self.table, table), limit)
        if self.concurrent:
            self.s.run("COMMIT")
        self.s.run("RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan; RESET enable_sort")
        want = answers.pop("sequential scan")
        for how, got in answers.items():
            self.agree(sql, limit, ordered, want, got, how)
        self.compared += 1

    def agree(self, sql, limit, ordered, want, got, how):
        """Same rows; and in order: the ordered columns come as the first select items."""
        text = sql + (" LIMIT %d" % limit if limit else "")
        if len(want) != len(got):
            raise Difference("%s: %d rows instead of %d\n  %s" % (how, len(got), len(want), text))
        if limit:
            # Which of equal rows comes within the limit is free: the keys are not, up to spelling.
            return
        if sorted(want) != sorted(got):
            missing = [x for x in want if x not in set(got)][:3]
            extra = [x for x in got if x not in set(want)][:3]
            raise Difference("%s: other rows\n  %s\n  missing: %s\n  extra: %s" % (how, text, missing, extra))

    def check_order(self):
        """ORDER BY through the index against the executor's own idea of the order."""
        r = self.rnd
        keys, where, _ = r.choice(self.indexes)
        if any(k[0] != "id" and self.columns[k[0]].opclass for k in keys):
            return
        flip = r.random() < 0.5
        items = []
        for k, d, n in keys:
            if flip:
                d, n = ("DESC" if d == "ASC" else "ASC"), ("LAST" if n == "FIRST" else "FIRST")
            items.append("%s %s NULLS %s" % ("id" if k == "id" else "c%d" % k, d, n))
        order = ", ".join(items)
        self.s.run(INDEX % KINDS[r.randrange(2)])
        # rank() sorts by itself; a row whose rank falls below its predecessor's is out of place.
        out = self.s.run(
            "SELECT count(*) FROM (SELECT rk < lag(rk) OVER (ORDER BY n) AS down FROM (SELECT x.n, rank() OVER (ORDER BY %s) AS rk FROM (SELECT *, row_number() OVER () AS n FROM (SELECT * FROM %s_n%s ORDER BY %s) o) x) y) z WHERE down"
            % (order, self.table, where, order))
        self.s.run("RESET enable_seqscan; RESET enable_indexscan; RESET enable_indexonlyscan; RESET enable_bitmapscan; RESET enable_sort")
        self.compared += 1
        if out != ["0"]:
            raise Difference("%s rows out of place in ORDER BY %s of %s_n%s" % (out, order, self.table, where))

    # ---- the run ----

    def work(self, end, concurrent):
        self.concurrent = concurrent
        rounds = self.rnd.choice((20, 60, 150))
        for _ in range(rounds):
            if time.monotonic() > end:
                break
            if not concurrent or self.rnd.random() < 0.3:
                self.change()
            for _ in range(self.rnd.randint(1, 5)):
                self.ask()
            if not concurrent and self.rnd.random() < 0.3:
                self.check_order()
        return self.compared

    def finish(self):
        for n in range(len(self.indexes)):
            self.s.run("SELECT numa.btree_check('%s_n_i%d', true)" % (self.table, n))
        self.s.run("DROP TABLE %s_n, %s_b" % (self.table, self.table))

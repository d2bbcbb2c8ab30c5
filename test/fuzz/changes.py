"""Random changes of a table and of its indexes."""

import threading

from pq import HARMLESS, Error, Lost, Session, quote
from table import Difference


def row(table, r, number):
    """One row as a list of texts, None for NULL."""
    return [str(number), "p" * r.choice((0, 0, 5, 100))] + [c.text(r) for c in table.columns]


def values(table, r, numbers):
    """Rows as a VALUES list."""
    types = ["int4", "text"] + [c.kind.sql for c in table.columns]
    return "VALUES " + ", ".join("(%s)" % ", ".join("NULL::%s" % t if v is None else "%s::%s" % (quote(v), t) for v, t in zip(row(table, r, n), types))
                                 for n in numbers)


def copy_line(fields):
    return "\t".join("\\N" if f is None else f.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n") for f in fields) + "\n"


def some_ids(r, limit):
    a = r.randrange(limit + 1)
    return "id BETWEEN %d AND %d" % (a, a + r.choice((0, 0, 5, 60, 400)))


def dml(table, r, numbers):
    """One statement that changes rows; numbers(n) gives n new ids."""
    n = r.random()
    c = r.choice(table.columns)
    if n < 0.35:
        return "INSERT INTO @ " + values(table, r, numbers(r.choice((1, 1, 2, 5, 30))))
    if n < 0.45:
        # rows made of others: more of the same keys
        first = numbers(200)[0]
        return "INSERT INTO @ SELECT %d + row_number() OVER (ORDER BY id), pad, %s FROM @ WHERE %s" % (
            first, ", ".join(c.name for c in table.columns), "id BETWEEN %d AND %d" % ((lambda a: (a, a + 150))(r.randrange(table.next_id + 1))))
    if n < 0.58:
        return "DELETE FROM @ WHERE " + some_ids(r, table.next_id)
    if n < 0.61:
        return "DELETE FROM @ WHERE id %% %d = %d" % (r.choice((2, 3, 7, 50)), r.randrange(2))
    if n < 0.64:
        return "DELETE FROM @ WHERE %s IS %s" % (c.name, r.choice(("NULL", "NOT DISTINCT FROM %s" % c.literal(r))))
    if n < 0.80:
        value = c.text(r)
        return "UPDATE @ SET %s = %s WHERE %s" % (c.name, "NULL" if value is None else "%s::%s" % (quote(value), c.kind.sql), some_ids(r, table.next_id))
    if n < 0.92:
        # HOT, unless an index has the column
        return "UPDATE @ SET pad = left(pad, 20) || 'u' WHERE " + some_ids(r, table.next_id)
    if table.constrained:
        return "UPDATE @ SET pad = NULL WHERE " + some_ids(r, table.next_id)
    other = r.choice([x for x in table.columns if x.kind is c.kind])
    return "UPDATE @ SET %s = %s, id = id + %d WHERE %s" % (c.name, other.name, r.choice((0, 0, 100000)), some_ids(r, table.next_id))


class Changer:
    """Changes by one session, in a fixed order: a seed makes the same ones each time."""

    def __init__(self, table, rnd, other):
        self.t = table
        self.rnd = rnd
        self.other = other          # a second session
        self.s = table.s

    def numbers(self, n):
        first = self.t.next_id
        self.t.next_id += n
        return range(first, first + n)

    def fill(self):
        """The first rows."""
        t, r = self.t, self.rnd
        if t.constrained and t.indexes:
            for _ in range(min(t.rows, 400)):
                t.both("INSERT INTO @ " + values(t, r, self.numbers(1)))
            return
        data = "".join(copy_line(row(t, r, n)) for n in self.numbers(t.rows))
        for name in t.names:
            try:
                self.s.copy("COPY %s FROM STDIN" % name, data)
            except Error as e:
                t.judge(e, ("54000",))

    def change(self):
        """A few statements."""
        t, r = self.t, self.rnd
        n = r.random()
        if n < 0.50:
            for _ in range(r.choice((1, 1, 3, 8))):
                t.both(dml(t, r, self.numbers))
        elif n < 0.58:
            self.subtransactions()
        elif n < 0.62:
            data = "".join(copy_line(row(t, r, i)) for i in self.numbers(r.choice((3, 50, 400))))
            if not t.constrained:
                try:
                    self.s.copy("COPY t FROM STDIN", data)
                except Error as e:
                    t.judge(e, ("54000",))
        elif n < 0.65 and not t.constrained:
            # a big transaction that is undone
            self.s.run("BEGIN")
            if self.s.may("INSERT INTO t SELECT id + 1000000, pad, %s FROM t LIMIT 2000" % ", ".join(c.name for c in t.columns), "54000") is None:
                self.s.run("UPDATE t SET id = id + 1 WHERE id % 3 = 0")
            self.s.run("ROLLBACK")
        elif n < 0.82:
            self.vacuum(t.s)
        else:
            self.maintain()

    def vacuum(self, session, patient=True):
        """patient: may wait for pins; a cursor that is open in this very program would never let go."""
        how = self.rnd.choice(("VACUUM t", "VACUUM t", "VACUUM (INDEX_CLEANUP on) t", "VACUUM (INDEX_CLEANUP off) t", "VACUUM ANALYZE t", "VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) t", "ANALYZE t"))
        session.may(how if patient else "VACUUM t", *HARMLESS)

    def subtransactions(self):
        t, r = self.t, self.rnd
        end = r.choice(("COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'fuzz'") if not t.twin else ("COMMIT", "ROLLBACK"))
        prepared = False
        for name in t.names:
            # the same choices for the twin
            again = r.getstate()
            next_id = t.next_id
            self.s.run("BEGIN")
            try:
                for depth in range(r.choice((1, 2, 2, 4))):
                    self.s.run("SAVEPOINT a%d" % depth)
                    try:
                        self.s.run(dml(t, r, self.numbers).replace("@", name))
                    except Error as e:
                        t.judge(e, ())
                        if e.state in HARMLESS:
                            raise
                        self.s.run("ROLLBACK TO a%d" % depth)
                    else:
                        if r.random() < 0.3:
                            self.s.run(r.choice(("ROLLBACK TO a%d", "RELEASE a%d")) % depth)
                            if r.random() < 0.5:
                                self.s.may("SAVEPOINT a%d" % depth)
                self.s.run(end)
                prepared = True
            except Error as e:
                # deferred constraints speak up at the end
                t.judge(e, ())
                self.s.surely("ROLLBACK")
                if e.state in HARMLESS:
                    t.in_doubt = True
            if name != t.names[-1]:
                after = r.getstate(), t.next_id
                r.setstate(again)
                t.next_id = next_id
            elif t.twin and (r.getstate(), t.next_id) != after and not t.in_doubt:
                raise Difference("a transaction took another course on the twin")
        if "PREPARE" in end and prepared:
            if r.random() < 0.7:
                self.vacuum(self.other)
            self.s.run("%s PREPARED 'fuzz'" % r.choice(("COMMIT", "ROLLBACK")))

    def maintain(self):
        t, r, s = self.t, self.rnd, self.s
        index = r.choice(t.indexes)
        name = "t_n%d" % index.number
        n = r.randrange(14)
        if n <= 2:
            s.may("SELECT numa.btree_unload('%s')" % name, *HARMLESS)
            if r.random() < 0.7:
                t.both(dml(t, r, self.numbers))
                if r.random() < 0.5:
                    self.vacuum(s)
            if r.random() < 0.9:
                s.may("SELECT numa.btree_load('%s')" % name, *HARMLESS)
        elif n == 3:
            s.may("SELECT count(*) FROM numa.topology() p, numa.move_relation('%s', p.node) WHERE allowed AND total_bytes > 0" % name, *HARMLESS)
        elif n == 4:
            s.may("SELECT count(*) FROM numa.spread_relation('%s')" % name, *HARMLESS)
        elif n == 5 and index.clusterable:
            self.rewrite("CLUSTER t USING %s" % name)
        elif n == 6:
            self.rewrite("VACUUM FULL t")
        elif n == 7:
            self.rewrite(r.choice(("REINDEX INDEX %s" % name, "REINDEX TABLE t")))
        elif n == 8:
            # a cancel between two swaps would turn the order of an index and its btree around
            self.rewrite("REINDEX TABLE CONCURRENTLY t" if not t.constrained else "REINDEX TABLE t")
        elif n == 9 and r.random() < 0.3:
            t.both("TRUNCATE @")
            self.fill()
        elif n == 10 and len(t.indexes) < 5:
            t.add_index(r.choice(("", "CONCURRENTLY")))
        elif n == 11 and len(t.indexes) > 1 and not index.exclude:
            t.indexes.remove(index)
            for x in ["t_n", "t_b"] + (["u_b"] if t.twin else []):
                if s.may("DROP INDEX %s%s%d" % (r.choice(("", "CONCURRENTLY ")), x, index.number), *HARMLESS):
                    t.in_doubt = True
        elif n == 12:
            s.may("SELECT numa.btree_check('%s', %s)" % (name, r.choice(("true", "false"))), *HARMLESS)
        elif n == 13 and r.random() < 0.3:
            self.rewrite("ALTER TABLE t ALTER pad TYPE varchar(%d)" % r.randint(200, 300))

    def rewrite(self, sql):
        """Something that must leave the rows as they are."""
        count = "SELECT count(*), sum(id::int8) FROM t"
        self.s.run("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off")
        before = None if self.t.concurrent else self.s.run(count)
        state = self.s.may(sql, *HARMLESS)
        if state == "57014":
            self.t.in_doubt = True
        if before and before != self.s.run(count):
            raise Difference("rows were lost: %s rows before, %s after %s" % (before, self.s.run(count), sql))
        self.s.run("RESET enable_indexscan; RESET enable_bitmapscan; RESET enable_indexonlyscan")


class Writers:
    """Sessions that change the table all the while, each with a seed of its own."""

    def __init__(self, connect, table, seed, count):
        self.table = table
        self.error = None
        self.over = threading.Event()
        self.sessions = [connect() for _ in range(count)]
        self.threads = [threading.Thread(target=self.work, args=(n, s, "%s/%d" % (seed, n)), daemon=True) for n, s in enumerate(self.sessions)]
        for t in self.threads:
            t.start()

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(timeout=130)
            if t.is_alive():
                raise Difference("a writer does not end: it hangs in a statement")
        for s in self.sessions:
            s.close()
        if self.error:
            raise self.error

    def work(self, n, session, seed):
        import random
        r = random.Random(seed)
        last = [(n + 1) * 10000000]

        def numbers(count):
            last[0] += count
            return range(last[0] - count, last[0])
        try:
            while not self.over.is_set():
                try:
                    for sql in self.step(r, numbers):
                        session.run(sql.replace("@", "t"))
                except Error as e:
                    # core's, of two who set the flags of one index in pg_index (README.md)
                    flags = e.state == "XX000" and "tuple concurrently updated" in e.message and sql.startswith(("CREATE INDEX", "DROP INDEX", "REINDEX"))
                    if not flags:
                        self.table.judge(e, ("42704", "42P01", "55000"))
                    # which somebody may cancel, too
                    session.surely("ROLLBACK")
        except (Error, Difference, Lost) as e:
            if self.error is None:
                self.error = e
            self.over.set()

    def step(self, r, numbers):
        t = self.table
        n = r.random()
        if n < (0.55 if not t.constrained else 0.3):
            return [dml(t, r, numbers)]
        if n < 0.75:
            return ["BEGIN", dml(t, r, numbers), "SAVEPOINT a", dml(t, r, numbers), r.choice(("ROLLBACK TO a", "RELEASE a")), dml(t, r, numbers),
                    r.choice(("COMMIT", "COMMIT", "ROLLBACK"))]
        if n < 0.85:
            return [r.choice(("VACUUM t", "VACUUM t", "VACUUM (INDEX_CLEANUP off) t", "VACUUM (FREEZE) t", "ANALYZE t"))]
        if n < 0.88:
            return ["SELECT pg_cancel_backend(%d)" % r.choice(self.sessions).pid]
        if n < 0.92:
            name = "t_n%d" % r.choice(t.indexes).number
            steps = r.choice((["SELECT numa.btree_unload('%s')", "SELECT numa.btree_load('%s')"],
                              # what a load lost would be found again by the next one
                              ["SELECT numa.btree_unload('%s')", "SELECT numa.btree_load('%s')", "SELECT numa.btree_check('%s', true)"],
                              ["SELECT numa.btree_unload('%s')", None, "SELECT numa.btree_load('%s')"], ["SELECT numa.btree_check('%s', true)"],
                              ["SELECT count(*) FROM numa.spread_relation('%s')", "SELECT count(*) FROM numa.move_relation('%s', 0)"]))
            return [s % name if s else dml(t, r, numbers) for s in steps]
        if n < 0.935 and not t.constrained:
            return [r.choice(("REINDEX TABLE CONCURRENTLY t", "REINDEX TABLE t", "CREATE INDEX CONCURRENTLY IF NOT EXISTS t_extra ON t USING numa_btree (%s)" % t.indexes[0].keys[0].expr,
                              "DROP INDEX CONCURRENTLY IF EXISTS t_extra"))]
        if n < 0.945:
            return [r.choice(("VACUUM FULL t", "CLUSTER t USING t_n%d" % t.indexes[0].number if t.indexes[0].clusterable else "ANALYZE t"))]
        # a reader that changes its mind about what it reads
        key = t.indexes[0].keys[0]
        return ["BEGIN", "DECLARE c SCROLL CURSOR FOR SELECT id FROM t ORDER BY %s" % key.order(False), "FETCH %d FROM c" % r.choice((1, 50, 300)), dml(t, r, numbers),
                "FETCH BACKWARD %d FROM c" % r.choice((1, 20)), "FETCH 500 FROM c", "COMMIT"]

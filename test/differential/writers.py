"""Sessions that change the tester's table all the while."""

import random
import threading

from session import HARMLESS, Error, Lost, Session


class Writers:
    def __init__(self, dbname, schema, table, count, seed):
        self.dbname = dbname
        self.schema = schema
        self.table = table + "_n"
        self.seed = seed
        self.error = None
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(n,), daemon=True) for n in range(count)]

    def start(self):
        for t in self.threads:
            t.start()

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(timeout=130)
            if t.is_alive():
                raise Lost("a writer does not end: it hangs in a statement")
        if self.error:
            raise Lost("a writer: %s" % self.error)

    def work(self, n):
        r = random.Random("%d/%s/%d" % (self.seed, self.table, n))
        try:
            with Session(self.dbname) as s:
                s.run("SET search_path = %s" % self.schema)
                s.run("SET lock_timeout = '20s'")
                while not self.over.is_set():
                    for sql in self.step(r):
                        try:
                            s.ask(sql)
                        except Error as e:
                            if e.state not in HARMLESS:
                                raise
                            s.ask("ROLLBACK")
                            break
        except (Error, Lost) as e:
            if self.error is None:
                self.error = str(e)
            self.over.set()

    def step(self, r):
        t = self.table
        a = r.randrange(4000)
        some = "id BETWEEN %d AND %d" % (a, a + r.choice((0, 5, 60)))
        what = r.randrange(9)
        if what == 0:
            return ["VACUUM %s" % t] if r.random() < 0.3 else ["SELECT count(*) FROM %s" % t]
        if what <= 2:
            return ["DELETE FROM %s WHERE %s" % (t, some)]
        if what <= 4:
            # Rows made of others: new ids, mixed columns.
            return ["INSERT INTO %s SELECT (x).* FROM (SELECT x FROM %s x ORDER BY random() LIMIT %d) y" % (t, t, r.choice((1, 10, 100)))]
        if what == 5:
            return ["UPDATE %s SET pad = pad || 'w' WHERE %s" % (t, some)]
        if what == 6:
            return ["UPDATE %s SET id = id + %d WHERE %s" % (t, r.choice((1, 5000)), some)]
        if what == 7:
            return ["BEGIN", "SAVEPOINT a", "DELETE FROM %s WHERE %s" % (t, some), "ROLLBACK TO a",
                    "UPDATE %s SET id = -id WHERE %s" % (t, some), r.choice(("COMMIT", "ROLLBACK"))]
        return ["BEGIN", "INSERT INTO %s SELECT (x).* FROM %s x WHERE %s" % (t, t, some), r.choice(("COMMIT", "ROLLBACK"))]

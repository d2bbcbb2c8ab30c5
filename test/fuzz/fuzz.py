#!/usr/bin/env python3
"""Random tables, changes and questions: numa_btree, btree and sequential scan must agree.

Started by test/fuzz/run, which makes a server for it.  A seed and a number make a round: a
table, its indexes, what happens to it and what is asked.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from changes import Changer, Writers                                        # noqa: E402
from columns import SETUP, SETUP_CITEXT, SETUP_ICU, SETUP_NUMA              # noqa: E402
from pq import HARMLESS, Error, Lost, Session, quote                        # noqa: E402
from questions import Asker                                                 # noqa: E402
from table import Difference, Table, kinds_for                              # noqa: E402

USED = ("numa_btree", "btree", "plain", "index-only", "bitmap", "backward", "bitmap and/or", "merge join", "inner side", "parallel",
        "scroll cursor", "array", "incremental sort")
WAYS = ("sequential scan", "btree", "numa_btree")


class Fuzzer:
    def __init__(self, args, seed):
        self.args = args
        self.seed = seed
        self.log = None
        self.queries = self.rows = self.with_index = self.failed_alike = 0
        self.rounds = Counter()
        self.used = Counter()
        self.alike = Counter()
        self.crashes = 0
        self.cancelled = 0

    # ---- sessions ----

    def connect(self, log=None, schema="round"):
        s = Session(self.args.conninfo, log)
        s.run("SET client_min_messages = error; SET search_path = %s, own, public" % schema)
        s.run("SET lock_timeout = '20s'; SET statement_timeout = '90s'")
        return s

    def connect_again(self, log=None):
        """After a crash: as soon as the server is back."""
        end = time.monotonic() + 60
        while True:
            try:
                return self.connect(log)
            except Lost:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def setup(self):
        s = Session(self.args.conninfo)
        s.run("SET client_min_messages = error")
        server = {"version": int(s.run("SHOW server_version_num")[0][0])}
        server["icu"] = s.run("SELECT count(*) FROM pg_collation WHERE collname = 'en-x-icu'") != [["0"]]
        server["citext"] = s.run("SELECT count(*) FROM pg_available_extensions WHERE name = 'citext'") != [["0"]]
        s.run("CREATE EXTENSION IF NOT EXISTS numa_migrate")
        s.run("DROP SCHEMA IF EXISTS own, round CASCADE")
        s.run(SETUP % {"lib": self.args.lib})
        if server["icu"]:
            s.run(SETUP_ICU)
        s.run(SETUP_NUMA)
        if server["citext"]:
            s.run(SETUP_CITEXT)
        s.close()
        Table.version = server["version"]
        self.kinds = kinds_for(server)

    # ---- a round ----

    def round(self, number):
        r = random.Random("%d/%d" % (self.seed, number))
        self.number = number
        self.cancels = r.random() < 0.12
        writers = r.randint(1, self.args.sessions - 1) if self.args.sessions > 1 and r.random() < 0.4 else 0
        crash = self.args.crash and r.random() < 0.25
        name = "writers" if writers else "cancels" if self.cancels else "one session"
        with open(os.path.join(self.args.dir, "round.sql"), "w") as log:
            self.log = log
            log.write("LOAD %s;\n" % quote(self.args.lib))
            self.s = self.connect(log)
            self.s.run("DROP SCHEMA IF EXISTS round CASCADE")
            self.s.run("CREATE SCHEMA round")
            self.other = self.connect()
            self.table = t = Table(self.s, r, self.kinds)
            t.slow_loads = writers > 0
            # a crash may lose the last commits, but not that there is a table
            self.s.run("SET synchronous_commit = on")
            t.create()
            self.s.run("RESET synchronous_commit")
            changer = Changer(t, r, self.other)
            first = r.random() < (0.8 if t.constrained else 0.3)
            if not first:
                changer.fill()
            wanted = r.randint(1, 3)
            for _ in range(12):
                if len(t.indexes) >= wanted:
                    break
                t.add_index()
            if not t.indexes:
                # nothing but duplicates or huge keys
                self.rounds["without index"] += 1
                return
            if first:
                changer.fill()
            if r.random() < 0.7:
                self.s.run("VACUUM ANALYZE t")
            asker = Asker(t, r)
            steps = r.choice((4, 10, 20)) if t.rows > 600 else r.choice((10, 20, 40))
            if writers:
                self.concurrent(asker, writers, steps, r)
            else:
                crash_at = r.randrange(steps) if crash else -1
                for step in range(steps):
                    if self.cancels:
                        self.s.in_a_hurry = True
                        self.s.run("SET statement_timeout = %d" % r.choice((1, 2, 5, 20)))
                    self.step(changer, asker, r)
                    if step == crash_at:
                        self.crash(r)
                        changer.s, changer.other = self.s, self.other
            if crash and writers:
                self.crash(r)
            self.s.surely("SET statement_timeout = '90s'")
            if t.in_doubt:
                t.settle()
            t.check()
            self.ask(asker, 20)
            self.s.close()
            self.other.close()
        self.rounds[name + (", constraints" if t.constrained else "")] += 1

    def step(self, changer, asker, r):
        t = self.table
        n = r.random()
        try:
            if n < 0.1 and not t.twin:
                # a transaction looks at what it did itself
                self.s.run("BEGIN")
                self.within(changer, asker, r)
                self.s.run(r.choice(("COMMIT", "COMMIT", "ROLLBACK")))
            elif n < 0.2:
                self.open_cursor(changer, r)
            else:
                changer.change()
            self.ask(asker, r.choice((10, 25, 40)))
        except Error as e:
            # nothing but a cancel is out of order here
            if not self.cancels or e.state != "57014":
                raise
            self.cancelled += 1
            self.s.surely("ROLLBACK")
            t.in_doubt = True
        if t.in_doubt:
            self.s.surely("SET statement_timeout = '90s'")
            t.settle()
            self.have_index()

    def have_index(self):
        """An interruption, or a crash that lost the last commits, may have left none."""
        t = self.table
        for attempt in range(1, 100):
            if t.indexes:
                return
            if attempt % 12 == 0:
                # nothing but duplicates or huge keys
                t.both("TRUNCATE @")
            t.add_index()
        raise Difference("no index can be made on an empty table")

    def within(self, changer, asker, r):
        from changes import dml
        t = self.table
        for depth in range(r.choice((1, 2, 3))):
            self.s.run("SAVEPOINT a")
            try:
                self.s.run(dml(t, r, changer.numbers).replace("@", "t"))
            except Error as e:
                t.judge(e, ())
                if e.state in HARMLESS:
                    raise
                self.s.run("ROLLBACK TO a")
            self.ask(asker, 10)
            if r.random() < 0.4:
                self.s.run("ROLLBACK TO a")
                self.ask(asker, 5)

    def open_cursor(self, changer, r):
        """Cursors by sequential scan and by index that are read while the table changes."""
        from changes import dml
        t, s = self.table, self.s
        index = r.choice(t.indexes)
        key = index.keys[0]
        where = " WHERE " + index.where if index.where else ""
        order = key.order(r.random() < 0.5)
        s.run("BEGIN ISOLATION LEVEL " + r.choice(("READ COMMITTED", "REPEATABLE READ")))
        s.run("SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = on")
        s.run("DECLARE q CURSOR FOR SELECT id, %s FROM t%s ORDER BY %s" % (key.expr, where, order))
        s.run("SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = %s; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off" % r.choice(("on", "off")))
        s.run("SELECT own.use_way(2)")
        s.run("DECLARE n SCROLL CURSOR FOR SELECT id, %s FROM t%s ORDER BY %s" % (key.expr, where, order))
        s.run("SELECT own.use_way(-1)")
        got = []
        # one of them: the other one would wait for what this one has locked
        who = self.other if r.random() < 0.6 else s
        for _ in range(r.choice((1, 3, 6))):
            got += s.run("FETCH %d FROM n" % r.choice((1, 7, 40, 200)))
            if who is s:
                s.run("SAVEPOINT a")
            try:
                who.run(dml(t, r, changer.numbers).replace("@", "t"))
            except Error as e:
                t.judge(e, ())
                if e.state in HARMLESS:
                    raise
                if who is s:
                    s.run("ROLLBACK TO a")
            else:
                # the twin would have to follow
                t.in_doubt = t.in_doubt or t.twin
            if who is self.other and r.random() < 0.5:
                changer.vacuum(self.other, patient=False)
        got += s.run("FETCH ALL FROM n")
        want = s.run("FETCH ALL FROM q")
        try:
            s.run("COMMIT")
        except Error as e:
            # a deferred constraint; or a COMMIT that was cut off, which leaves the transaction open
            t.judge(e, ())
            if e.state in HARMLESS:
                raise
        self.queries += 1
        self.with_index += 1
        self.used["open cursor"] += 1
        if sorted(x[0] for x in got) != sorted(x[0] for x in want):
            raise Difference("an open cursor gave %d rows, %d were there: SELECT id, %s FROM t%s ORDER BY %s" % (len(got), len(want), key.expr, where, order))

    def concurrent(self, asker, writers, steps, r):
        """Questions in snapshots, while others write."""
        t = self.table
        t.concurrent = True
        who = Writers(self.connect, t, "%d/%d" % (self.seed, self.number), writers)
        try:
            for _ in range(steps):
                if who.over.is_set():
                    break
                try:
                    self.s.run("BEGIN ISOLATION LEVEL " + r.choice(("REPEATABLE READ", "REPEATABLE READ", "SERIALIZABLE")))
                    for _ in range(r.choice((1, 3))):
                        self.ask(asker, r.choice((10, 30)))
                    self.s.run("COMMIT")
                except Error as e:
                    if e.state not in HARMLESS:
                        raise
                    self.s.surely("ROLLBACK")
        finally:
            who.stop()
        t.concurrent = False
        t.settle()

    def crash(self, r):
        """kill -9 of a backend: everybody starts anew."""
        victim = self.connect() if r.random() < 0.5 else self.other
        os.kill(victim.pid, 9)
        self.crashes += 1
        # until the server has noticed
        try:
            while True:
                self.s.run("SELECT 1")
                time.sleep(0.005)
        except Lost:
            pass
        for s in {victim, self.s, self.other}:
            s.close()
        self.s = self.connect_again(self.log)
        self.other = self.connect_again()
        self.table.s = self.s
        # commits are asynchronous: the last ones may have been lost, the twin's or the table's
        self.table.settle()
        self.table.check()
        self.have_index()

    # ---- questions ----

    def ask(self, asker, n):
        # the last one was dropped, and what makes it again was cut off
        if not self.table.indexes:
            return
        questions = [asker.ask() for _ in range(n)]
        sql = "SELECT n, own.ask(q, k, h, s, a) FROM (VALUES %s) v(n, q, k, h, s, a)" % ", ".join(q.values(i) for i, q in enumerate(questions))
        for i, answer in self.s.run(sql):
            if answer[0] == "!":
                self.report(questions[int(i)], answer[1:])
            self.queries += 1
            if answer[0] in "EB":
                self.failed_alike += 1
                self.alike[answer[1:80]] += 1
                continue
            rows, used = map(int, answer.split())
            self.rows += rows
            if used & 1:
                self.with_index += 1
            elif used & 2:
                # unloaded, or one of the README's limits
                self.used["btree alone"] += 1
            for bit, name in enumerate(USED):
                if used >> bit & 1:
                    self.used[name] += 1

    def report(self, q, answers):
        """The question, what each way answers, and the rows that differ."""
        lines = ["question: %s" % q.sql, "  ordered columns: %d, how: %s, steps: %s, args: %s" % (q.nkeys, q.how, q.steps, q.args), answers]
        try:
            self.s.surely("SET statement_timeout = '90s'") if not self.cancels else None
            again = self.s.run("SELECT own.ask(q, k, h, s, a) FROM (VALUES %s) v(n, q, k, h, s, a)" % q.values(0))[0][0]
            lines.append("asked again: %s" % ("the same answers" if again == "!" + answers else again.lstrip("!")))
            if not q.args:
                shown = [self.s.run("SELECT own.show(%s, %d, %s)" % (quote(q.sql), way, quote(q.how)))[0][0].splitlines() for way in range(3)]
                for way in range(3):
                    lines.append("plan by %s:\n    %s" % (WAYS[way], self.s.run("SELECT own.show(%s, %d, %s)" % (quote("EXPLAIN (COSTS OFF) " + q.sql), way, quote(q.how)))[0][0].replace("\n", "\n    ").rstrip()))
                    gone, more = Counter(shown[0]) - Counter(shown[way]), Counter(shown[way]) - Counter(shown[0])
                    lines.append("rows by %s: %d, missing %s, too many %s, first %s" % (WAYS[way], len(shown[way]), sorted(gone)[:5], sorted(more)[:5], shown[way][:3]))
        except (Error, Lost) as e:
            lines.append("(%s)" % e)
        raise Difference("\n  ".join(lines))

    # ---- all rounds ----

    def counts(self):
        return "%d queries compared, %d used a numa_btree index (%.1f %%), %d rounds" % (
            self.queries, self.with_index, 100.0 * self.with_index / max(1, self.queries), sum(self.rounds.values()))

    def run(self):
        a = self.args
        start = shown = time.monotonic()
        number = a.round if a.round is not None else 0
        while True:
            try:
                self.round(number)
            except (Difference, Error, Lost) as e:
                print("%s in round %d of seed %d" % ("DIFFERENCE" if isinstance(e, Difference) else "ERROR", number, self.seed))
                print("  " + str(e)[:20000])
                t = getattr(self, "table", None)
                if t:
                    print("  schema:\n    " + ";\n    ".join(t.ddl))
                print("  replay: test/fuzz/run --seed %d --round %d --sessions %d%s" % (self.seed, number, a.sessions, " --crash" if a.crash else ""))
                print("  statements of the round: %s/round.sql" % a.dir)
                return False
            number += 1
            now = time.monotonic()
            if now - shown > 30:
                shown = now
                print("# %4d s: %s" % (now - start, self.counts()), flush=True)
            if a.round is not None or (a.queries and self.queries >= a.queries) or (a.seconds and now - start > a.seconds):
                return True


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int)
    p.add_argument("--queries", type=int)
    p.add_argument("--seconds", type=float)
    p.add_argument("--sessions", type=int, default=1)
    p.add_argument("--crash", action="store_true")
    p.add_argument("--round", type=int)
    p.add_argument("--conninfo", default="")
    p.add_argument("--lib", required=True)
    p.add_argument("--dir", required=True)
    a = p.parse_args()
    if a.queries is None and a.seconds is None and a.round is None:
        a.queries = 20000
    seed = a.seed if a.seed is not None else random.SystemRandom().randrange(2 ** 31)
    print("# seed %d" % seed, flush=True)
    f = Fuzzer(a, seed)
    f.setup()
    start = time.monotonic()
    good = f.run()
    took = time.monotonic() - start
    print("# seed %d: %s, %.0f s" % (seed, f.counts(), took))
    print("# rounds: %s; %d crashes, %d statements cancelled" % (", ".join("%s %d" % x for x in sorted(f.rounds.items())), f.crashes, f.cancelled))
    print("# used: %s" % ", ".join("%s %d" % (n, f.used[n]) for n in USED + ("open cursor", "btree alone")))
    print("# rows %d, questions that failed alike %d" % (f.rows, f.failed_alike))
    for text, n in f.alike.most_common(5):
        print("#   %d times %s" % (n, text))
    passed = sum(f.rounds.values())
    if good and (passed == 0 or f.with_index < f.queries * 0.6 or f.queries == 0):
        print("too few questions used an index")
        good = False
    print("%d passed, %d failed, 0 skipped" % (passed, 0 if good else 1))
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

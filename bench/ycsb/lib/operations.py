"""The index operations that bench/ycsb/probes measures, on a table `probe` with
one index of some access method, or none. scripts/probes.sql has the SQL.
"""

import re

import callgrind
import server as servers
import workload

# Type of the column, type of values (without collation), a query for key number n.
KEY_TYPES = {
    "int8": ("int8", "int8", "SELECT n"),
    "text": ('text COLLATE "C"', "text", "SELECT 'user' || hashint8extended(n, 0)"),
    # Deterministic: equal means the same bytes. Order is the library's.
    "icu": ('text COLLATE "en-x-icu"', "text", "SELECT 'user' || hashint8extended(n, 0)"),
}

# The label of the table without any index. What an INSERT costs there is not
# the index's doing.
NO_INDEX = "no index"

# function of scripts/probes.sql: what one of its operations is
READS = {
    "nested_loop": "nested-loop index-only probe",
    "point_select": "point SELECT in a PL/pgSQL loop",
    "in_list": "value of an IN (1000 values)",
    "in_list_only": "value of an index-only IN (1000 values)",
    "range_100": "row of an index-only range of 100",
}
WRITES = {
    "single_insert": "single-row INSERT",
    "bulk_insert": "row of a bulk INSERT",
}
NAMES = dict(READS, **WRITES, create_index="row of CREATE INDEX")
# Rows of a range cost so little that it takes more of them to be measurable.
TIMES = {"range_100": 10}


def wanted(names, args):
    """Those of these operations that are to be measured."""
    return [name for name in names if name in args.only]


def how_many(name, args):
    """Operations per measurement of this kind."""
    if name == "create_index":
        return args.rows
    if name == "bulk_insert":
        return args.bulk
    return args.n * TIMES.get(name, 1)


def set_up(server, args):
    key_type, plain_type, key_of = KEY_TYPES[args.key]
    lookups = max(args.n, args.callgrind_n if args.callgrind else 0)
    text = workload.piece("probes")
    for name, value in (
        ("'key_of'", "'%s'" % key_of.replace("'", "''")), ("key_type", key_type), ("plain_type", plain_type),
        ("rows", str(args.rows)), ("lookups", str(lookups)), ("singles", str(args.n)),
        ("newcomers", str(args.n + args.bulk)),
    ):  # fmt: skip
        text = re.sub(r"(?<!:):%s\b" % name if name[0] != "'" else ":" + name, lambda _, v=value: v, text)
    clean_up(server)
    server.sql(text)


def clean_up(server):
    drop = ["DROP FUNCTION IF EXISTS %s(int);" % function for function in list(READS) + list(WRITES)]
    drop += ["DROP FUNCTION IF EXISTS probe_key(bigint);", "DROP TABLE IF EXISTS probe, lookup, list, newcomer, probe_part;"]
    server.sql("SET client_min_messages = warning;\n" + "\n".join(drop))


# What the kernel charged to this backend, in nanoseconds, as of the last
# scheduler tick. Other work on its CPU leaves it nearly alone.
CPU = "SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1) AS cpu{} \\gset\n"

TIMED = """
\\o /dev/null
{cpu_before}SELECT clock_timestamp() AS t0 \\gset
{statement}
SELECT round((1000 * extract(epoch FROM clock_timestamp() - :'t0'))::numeric, 3) AS ms \\gset
{cpu_after}\\o
SELECT '{name}', :'ms', round((:'cpu1'::numeric - :'cpu0'::numeric) / 1000000, 3), :'answer';
"""


def timed(name, statement, charged):
    before, after = (CPU.format(0), CPU.format(1)) if charged else ("\\set cpu0 0\n", "\\set cpu1 0\n")
    return TIMED.format(name=name, statement=statement, cpu_before=before, cpu_after=after)


def cpu_is_known(server):
    """Can a backend of this server read what the kernel charged to it?"""
    try:
        server.value("SELECT length(pg_read_file('/proc/self/schedstat'))")
    except servers.ServerError:
        return False
    return True


def create(method, unique, table="probe"):
    return "CREATE %s INDEX %s_id ON %s USING %s (id);" % ("UNIQUE" if unique else "", table, table, method)


def build(server, method, args):
    """A fresh index of this method, alone on a clean table; returns (milliseconds,
    CPU milliseconds). Without a method the table is left without index."""
    server.sql("DROP INDEX IF EXISTS probe_id; DELETE FROM probe WHERE pad = 'newcomer';")
    server.sql("VACUUM probe; CHECKPOINT; SELECT count(*) FROM probe;")
    took = None
    if method:
        statement = create(method, not args.non_unique)
        ((_, ms, cpu, _),) = server.sql("\\set answer ''\n" + timed("create_index", statement, args.charged))
        took = (float(ms), float(cpu))
    server.sql("VACUUM (ANALYZE) probe; CHECKPOINT;")
    return took


def measure(server, method, args):
    """{operation: (milliseconds, CPU milliseconds, answer)} with a fresh index of
    this method; only what writes, if there is none."""
    took = build(server, method, args)
    found = {"create_index": took + ("",)} if took and wanted(["create_index"], args) else {}
    script = ""
    for name in wanted(READS, args) if method else ():
        # Once beforehand: caches and plans, which a session pays for once.
        script += "\\o /dev/null\nSELECT %s(1000);\n\\o\n" % name
        script += timed(name, "SELECT %s(%d) AS answer \\gset" % (name, how_many(name, args)), args.charged)
    for name in wanted(WRITES, args):
        script += timed(name, "SELECT %s(%d) AS answer \\gset" % (name, how_many(name, args)), args.charged)
    for name, ms, cpu, answer in server.sql(script) if script else ():
        found[name] = (float(ms), float(cpu), answer)
    return found


def explain(server, log, label):
    """The plans, in the log. auto_explain shows what the functions really run."""
    script = (
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;\n"
        "SET client_min_messages = log; SET auto_explain.log_level = log; SET log_min_messages = fatal;\n"
    )
    for name in READS:
        notices = server.notices(script + "SELECT %s(1000);" % name)
        plans = [p for p in notices.split("LOG:") if re.search(r"using probe_id\b|on probe_id\b", p)]
        if not plans:
            raise servers.ServerError("%s does not use the index with %s:\n%s" % (name, label, notices[-3000:]))
        short = re.sub(r"'\{[^}]{60,}\}'", "'{...}'", plans[-1])
        log("%s, %s:%s" % (label, name, short.rstrip()))


def instructions(server, scratch, method, args):
    """{operation: instructions each}: what callgrind counts in a single-user
    backend for n operations more. The difference of two runs leaves out start,
    loading and planning; a pass before counting leaves out cold caches. CREATE
    INDEX is of a table `probe_part` of callgrind_build rows, with it and without."""
    build(server, method, args)
    rows = min(args.callgrind_build, args.rows)
    server.sql("DROP TABLE IF EXISTS probe_part; CREATE TABLE probe_part AS SELECT id FROM probe LIMIT %d; VACUUM probe_part;" % rows)
    few, many = args.callgrind_n // 5 // 1000 * 1000 or 1000, args.callgrind_n // 1000 * 1000
    if few == many:
        many += 1000
    found = {}
    server.halt()
    try:
        for name in wanted(READS, args) * bool(method) + wanted(WRITES, args):
            warm = "SELECT count(pad) FROM probe"
            if method:
                warm = "SELECT %s(%d)" % (name if name in READS else "nested_loop", many)
            counted = [
                count(server, scratch, "%s\nBEGIN\nSELECT %s(%d)\nROLLBACK\n" % (warm, name, operations))
                for operations in (few, many)
            ]
            found[name] = (counted[1] - counted[0]) / (many - few)
        if method and wanted(["create_index"], args):
            warm = "SELECT count(*) FROM probe_part\n"
            statement = create(method, not args.non_unique, "probe_part").rstrip(";")
            without = count(server, scratch, warm)
            found["create_index"] = (count(server, scratch, warm + statement + "\n") - without) / rows
    finally:
        server.boot()
    return found


def count(server, scratch, script):
    """Instructions of a single-user backend that runs the script."""
    callgrind.forget(scratch)
    # No worker loads trees there: the first scan has to. And a plan without the
    # index would not end under valgrind.
    settings = {"numa_migrate.load": "lazy", "statement_timeout": "10min"}
    server.single_user(script, callgrind.command(scratch), settings)
    return sum(callgrind.counts(scratch).values())

"""One run of one workload: prepare the table and its index, run pgbench, read
its log, put the table back."""

import collections
import contextlib
import glob
import os
import re
import shlex

import callgrind
import stats
import table
import workload

Run = collections.namedtuple("Run", "tps latencies by_operation inserted script_counts cpu")


class RunFailed(Exception):
    pass


def build_index(server, method, unique=True, analyze=True):
    """Leave the table with one index, of this method, and nothing to clean up."""
    server.sql(
        "DROP INDEX IF EXISTS {index};\n"
        "VACUUM {table};\n"
        "CREATE {unique} INDEX {index} ON {table} USING {method} (ycsb_key);\n"
        "VACUUM {analyze} {table};\n"
        "CHECKPOINT;".format(
            index=table.INDEX, table=table.TABLE, method=method,
            unique="UNIQUE" if unique else "", analyze="(ANALYZE)" if analyze else "",
        )  # fmt: skip
    )


def explain(server, name):
    """The plans that prepared statements of a workload settle on: EXPLAIN after
    enough executions for the plan cache to have made its choice."""
    key = "'%d'" % workload.fnvhash64(1)
    sample = {"key": key, "value": "'1'", "len": "50"}
    plans = []
    seen = set()
    for operation in workload.WORKLOADS[name][0]:
        for sql, variables in workload.statements(operation):
            # Ten statements differ in the field they set; one shows the plan.
            general = re.sub(r"SET field\d", "SET field", sql)
            if operation == "insert" or general in seen:
                continue
            seen.add(general)
            execute = "EXECUTE s(%s)" % ", ".join(sample[v] for v in variables)
            # \g to the null device: the rows themselves don't matter here.
            script = "BEGIN;\nPREPARE s AS %s;\n" % sql + (execute + " \\g /dev/null\n") * 6
            script += "EXPLAIN (COSTS OFF) %s;\nROLLBACK;\n" % execute
            plan = [row[0] for row in server.sql(script)]
            if not any("using " + table.INDEX in line or "on " + table.INDEX in line for line in plan):
                raise RunFailed("%s does not use the index:\n%s\n%s" % (operation, sql, "\n".join(plan)))
            plans.append((operation, sql, plan))
    return plans


# A backend reports its statistics when it ends, which is after its client has
# gone; once it is no longer listed it has.
SETTLED = """
DO $$ BEGIN
  FOR i IN 1 .. 500 LOOP
    PERFORM pg_stat_clear_snapshot();
    EXIT WHEN NOT EXISTS (
      SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
      AND application_name IN ('psql', 'pgbench'));
    PERFORM pg_sleep(0.01);
  END LOOP;
END $$;
"""


def usage(server):
    """(sequential scans of the table, index scans, rows the index scans fetched)"""
    row = server.sql(
        SETTLED + "SELECT t.seq_scan, i.idx_scan, i.idx_tup_fetch FROM pg_stat_user_tables t"
        " JOIN pg_stat_user_indexes i USING (relid) WHERE i.indexrelid = '%s'::regclass" % table.INDEX
    )[0]
    return tuple(int(n) for n in row)


def pgbench(server, name, records, operations, directory, options, log=None, around=None):
    """Run a workload on the table as it is; returns a Run.

    options: clients, seed, time (seconds, or None for a fixed count), rate.
    around: a context to run pgbench, and nothing else, in.
    """
    scripts = workload.write_scripts(name, directory, records, operations)
    prefix = os.path.join(directory, "latency")
    for old in glob.glob(prefix + ".*"):
        os.unlink(old)
    args = ["-n", "-M", "prepared", "-c", str(options["clients"]), "-j", str(options["clients"])]
    args += ["--random-seed=%d" % options["seed"], "-l", "--log-prefix=" + prefix]
    if options.get("time"):
        args += ["-T", str(options["time"])]
    else:
        args += ["-t", str(operations // options["clients"])]
    if options.get("rate"):
        args += ["-R", str(options["rate"])]
    for variable, value in workload.variables(name, records, operations, options["clients"]).items():
        args += ["-D", "%s=%d" % (variable, value)]
    for _, path, weight in scripts:
        args += ["-f", "%s@%d" % (path, weight)]

    before = usage(server)
    cpu = server.backend_cpu()
    with around or contextlib.nullcontext():
        command, done = server.pgbench(args)
    if cpu is not None:
        cpu = server.backend_cpu() - cpu
    if log:
        log(" ".join(shlex.quote(os.path.basename(a) if "/" in a else a) for a in command))
    check(done, options)
    after = usage(server)
    if after[0] != before[0]:
        raise RunFailed(
            "the planner chose to scan the table, %d times in workload %s:"
            " use more records, or set random_page_cost to 1.1" % (after[0] - before[0], name)
        )
    if after[1] == before[1]:
        raise RunFailed("workload %s did not use the index" % name)

    tps = float(re.search(r"^tps = ([0-9.]+)", done.stdout, re.M).group(1))
    return read_log(prefix, tps, cpu, [operation for operation, _, _ in scripts])


def check(done, options):
    """pgbench must have finished everything it was asked to, without a failure."""
    failed = re.search(r"^number of failed transactions: (\d+)", done.stdout, re.M)
    counted = re.search(r"transactions actually processed: (\d+)(?:/(\d+))?", done.stdout)
    short = counted and counted.group(2) and counted.group(1) != counted.group(2)
    aborted = "aborted" in done.stderr
    if done.returncode != 0 or not failed or failed.group(1) != "0" or not counted or short or aborted:
        raise RunFailed("pgbench failed:\n%s\n%s" % (done.stdout, done.stderr))
    if options.get("rate") and re.search(r"^number of transactions skipped: [1-9]", done.stdout, re.M):
        raise RunFailed("pgbench skipped transactions:\n" + done.stdout)


def read_log(prefix, tps, cpu, operations):
    """pgbench's per-transaction log. Columns: client, transaction, latency in
    microseconds, script, ..."""
    latencies = []
    by_operation = collections.defaultdict(list)
    inserted = collections.Counter()
    for path in glob.glob(prefix + ".*"):
        with open(path, encoding="ascii") as f:
            for line in f:
                client, _, latency, script = line.split(" ", 4)[:4]
                operation = operations[int(script)]
                latencies.append(int(latency))
                by_operation[operation].append(int(latency))
                if operation == "insert":
                    inserted[int(client)] += 1
        os.unlink(path)
    counts = {operation: len(values) for operation, values in by_operation.items()}
    return Run(tps, latencies, dict(by_operation), dict(inserted), counts, cpu)


def instructions(server, name, method, unique, records, operations, directory, seed):
    """Backend instructions per operation: what `operations` cost beyond the
    tenth part that goes before, which leaves out connecting and planning."""
    few, many = operations // 10, operations // 10 + operations
    counted = []
    server.halt()
    callgrind.forget(directory)
    server.boot(callgrind.command(directory))
    try:
        for count in (few, many):
            # ANALYZE takes long here, and was done when the table was loaded.
            build_index(server, method, unique, analyze=False)
            counter = callgrind.Counter(directory)
            run = pgbench(server, name, records, count, directory, {"clients": 1, "seed": seed}, around=counter)
            take_back_inserts(server, run, records, 1)
            counted.append(counter.instructions)
    finally:
        server.halt()
        server.boot()
    return (counted[1] - counted[0]) / operations


def take_back_inserts(server, run, records, clients):
    """Delete what a run inserted, by its keys, so that the next one finds the
    records it expects. The index goes first: it is rebuilt anyway."""
    if not run.inserted:
        return
    keys = [
        workload.key_name(records + i * clients + client)
        for client, count in run.inserted.items()
        for i in range(count)
    ]
    left = server.sql(
        "DROP INDEX {index};\nCREATE TEMP TABLE gone (k text COLLATE \"C\");\n"
        "COPY gone FROM STDIN;\n{keys}\n\\.\n"
        "WITH d AS (DELETE FROM {table} USING gone WHERE ycsb_key = k RETURNING 1)"
        " SELECT count(*), (SELECT count(*) FROM {table}) FROM d;\n".format(
            index=table.INDEX, table=table.TABLE, keys="\n".join(keys)
        )
    )[0]
    # The subquery sees the table before the deletion.
    if left != [str(len(keys)), str(records + len(keys))]:
        raise RunFailed(
            "expected %d inserted rows over %d records, found %s" % (len(keys), records, " of ".join(left))
        )


def summary(latencies):
    """p50, p95, p99 and maximum, in microseconds."""
    return [stats.percentile(latencies, p) for p in (50, 95, 99)] + [max(latencies)]

"""The six core workloads of YCSB as pgbench scripts.

Proportions and distributions: workloads/workload[a-f] of YCSB. The rest:
site.ycsb.workloads.CoreWorkload. scripts/ holds the pieces; this module puts
them together, because pgbench has no include and no loop.
"""

import math
import os
import re

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "scripts")
FIELDS = 10
FIELD_BYTES = 100

# name: ({operation: percent}, request distribution)
WORKLOADS = {
    "A": ({"read": 50, "update": 50}, "zipfian"),
    "B": ({"read": 95, "update": 5}, "zipfian"),
    "C": ({"read": 100}, "zipfian"),
    "D": ({"read": 95, "insert": 5}, "latest"),
    "E": ({"scan": 95, "insert": 5}, "zipfian"),
    "F": ({"read": 50, "rmw": 50}, "zipfian"),
}

# The closed form of zeta in latest.sql is good to the last bits from here on.
MIN_RECORDS = 1000


def piece(name):
    with open(os.path.join(SCRIPTS, name + ".sql"), encoding="ascii") as f:
        return f.read()


def fnvhash64(value):
    """site.ycsb.Utils.fnvhash64 of a non-negative value."""
    h = 0xCBF29CE484222325
    for octet in value.to_bytes(8, "little"):
        h = ((h ^ octet) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h if h < 1 << 63 else (1 << 64) - h


def key_name(keynum):
    """CoreWorkload.buildKeyName for insertorder=hashed, zeropadding=1."""
    return "user%d" % fnvhash64(keynum)


def expected_new_keys(workload, operations):
    """CoreWorkload's prediction of inserts, with its fudge factor of 2."""
    return int(operations * (WORKLOADS[workload][0].get("insert", 0) / 100) * 2.0)


def zipfian_items(workload, records, operations):
    """How many key numbers the scrambled zipfian generator draws from.

    CoreWorkload gives it the range 0 .. records + expected new keys, and that
    range is inclusive: one more than the sum. The surplus keys don't exist
    (yet); a draw that hits one is drawn again.
    """
    return records + expected_new_keys(workload, operations) + 1


def redraws(records, items):
    """How many redraws to unroll so that running out of them is no event.

    A draw misses with probability of about (items - records) / items; the
    chance that all of them miss is kept below 1e-12.
    """
    miss = (items - records) / items
    return max(1, math.ceil(math.log(1e-12) / math.log(miss)) - 1)


def chooser(distribution, redraw):
    """Script that sets :keynum and :key."""
    draw = piece("uniform") + piece(distribution)
    text = piece("last") + draw
    if distribution == "zipfian":
        again = "\\if :keynum > :last\n" + without_comments(draw) + "\\endif\n"
        text += "-- CoreWorkload.nextKeynum: draw again while the key isn't there yet.\n"
        text += again * redraw
    return text + piece("key")


def script(operation, distribution, redraw):
    """The whole pgbench script of one operation."""
    if operation == "insert":
        return piece("insert")
    text = chooser(distribution, redraw)
    if operation == "rmw":
        return text + "BEGIN;\n" + piece("read") + piece("update") + "COMMIT;\n"
    return text + piece(operation)


def write_scripts(workload, directory, records, operations):
    """Write the workload's scripts; returns [(operation, file, weight)]."""
    if records < MIN_RECORDS:
        raise ValueError("at least %d records" % MIN_RECORDS)
    mix, distribution = WORKLOADS[workload]
    redraw = redraws(records, zipfian_items(workload, records, operations))
    made = []
    for operation, weight in mix.items():
        path = os.path.join(directory, "%s_%s.sql" % (workload.lower(), operation))
        with open(path, "w", encoding="ascii") as f:
            f.write(script(operation, distribution, redraw))
        made.append((operation, path, weight))
    return made


def variables(workload, records, operations, clients):
    """The -D settings that the scripts want."""
    return {
        "records": records,
        "items": zipfian_items(workload, records, operations),
        "clients": clients,
        "inserted": 0,
    }


def without_comments(text):
    return "".join(line for line in text.splitlines(True) if not line.startswith("--"))


def statements(operation):
    """The SQL of an operation with $1, $2 for pgbench's variables: what
    -M prepared sends. Returns [(sql, [variable, ...])], data statements only."""
    names = {"rmw": ("read", "update")}.get(operation, (operation,))
    found = []
    for name in names:
        for line in piece(name).splitlines():
            if line.startswith(("--", "\\")):
                continue
            used = []

            def number(match):
                used.append(match.group(1))
                return "$%d" % len(used)

            found.append((re.sub(r"(?<!:):([a-z]\w*)", number, line.rstrip(";")), used))
    return found

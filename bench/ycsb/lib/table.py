"""The table: YCSB's usertable, loaded the same way every time.

Rows depend on (seed, key number) alone, so any row can be computed without
the others and two loads give the same bytes.
"""

import hashlib

import workload

TABLE = "usertable"
INDEX = "usertable_key"

# Printable ASCII without backslash, which COPY would want escaped; 256 bytes
# map onto 94 characters. YCSB's RandomByteIterator stays in that range, too.
_PRINTABLE = bytes(c for c in range(0x20, 0x7F) if c != 0x5C)
_TO_PRINTABLE = bytes(_PRINTABLE[i % len(_PRINTABLE)] for i in range(256))

# No primary key: the index is what is compared, and it is made by the runner.
# Collation C because YCSB compares keys as bytes, and because otherwise the
# system's collation function is what one measures.
SCHEMA = """
DROP TABLE IF EXISTS {table};
CREATE TABLE {table} (
    ycsb_key text COLLATE "C" NOT NULL,
    {fields}
) WITH (autovacuum_enabled = off);
""".format(table=TABLE, fields=",\n    ".join("field%d text" % i for i in range(workload.FIELDS)))


def row(keynum, seed):
    """One line of COPY input."""
    size = workload.FIELDS * workload.FIELD_BYTES
    source = hashlib.shake_128(b"%d:%d" % (seed, keynum)).digest(size)
    text = source.translate(_TO_PRINTABLE)
    fields = [text[i : i + workload.FIELD_BYTES] for i in range(0, size, workload.FIELD_BYTES)]
    return b"\t".join([workload.key_name(keynum).encode()] + fields) + b"\n"


def load(server, records, seed, log=None):
    """(Re)create the table and fill it with key numbers 0 .. records - 1, in
    that order: hashed keys, so the index sees them at random."""
    server.sql(SCHEMA)
    with server.copy_into(TABLE) as pipe:
        for keynum in range(records):
            pipe.write(row(keynum, seed))
    server.sql("VACUUM (FREEZE, ANALYZE) %s" % TABLE)
    if log:
        log("loaded %d records into %s, seed %d" % (records, TABLE, seed))

"""A connection through libpq, which every installation of psql brings along."""

import ctypes
import ctypes.util
import os
import subprocess

# SQLSTATEs of conflicts between sessions and of interruptions: somebody has to bear them.
HARMLESS = ("40001", "40P01", "55P03", "57014")


def _load():
    names = []
    if "PG_CONFIG" in os.environ:
        libdir = subprocess.run([os.environ["PG_CONFIG"], "--libdir"], capture_output=True, text=True, check=True).stdout.strip()
        names.append(libdir + "/libpq.so.5")
    names.append(ctypes.util.find_library("pq") or "libpq.so.5")
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    raise SystemExit("no libpq.so.5 (Debian: libpq5, a dependency of postgresql-client)")


_pq = _load()
for _name, _result, *_args in (
        ("PQconnectdb", ctypes.c_void_p, ctypes.c_char_p), ("PQstatus", ctypes.c_int, ctypes.c_void_p),
        ("PQerrorMessage", ctypes.c_char_p, ctypes.c_void_p), ("PQfinish", None, ctypes.c_void_p),
        ("PQexec", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p), ("PQclear", None, ctypes.c_void_p),
        ("PQresultStatus", ctypes.c_int, ctypes.c_void_p), ("PQresultErrorField", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int),
        ("PQntuples", ctypes.c_int, ctypes.c_void_p), ("PQnfields", ctypes.c_int, ctypes.c_void_p),
        ("PQgetvalue", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
        ("PQgetisnull", ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
        ("PQcmdTuples", ctypes.c_char_p, ctypes.c_void_p), ("PQbackendPID", ctypes.c_int, ctypes.c_void_p),
        ("PQputCopyData", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int),
        ("PQputCopyEnd", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p), ("PQgetResult", ctypes.c_void_p, ctypes.c_void_p)):
    _f = getattr(_pq, _name)
    _f.restype = _result
    _f.argtypes = _args

_COMMAND_OK, _TUPLES_OK, _COPY_IN = 1, 2, 4
_SQLSTATE, _MESSAGE, _DETAIL, _CONTEXT, _CONSTRAINT = (ord(c) for c in "CMDWn")


class Lost(Exception):
    """The server closed the connection."""


class Error(Exception):
    """A statement failed; the connection is fine."""

    def __init__(self, state, message, constraint, sql):
        super().__init__("%s: %s\n  in: %s" % (state, message, sql if len(sql) < 2000 else sql[:2000] + "..."))
        self.state = state
        self.message = message
        self.constraint = constraint


class Session:
    """One session; log, if given, gets every statement as psql would take it."""

    def __init__(self, conninfo, log=None):
        self.conn = _pq.PQconnectdb(conninfo.encode())
        if _pq.PQstatus(self.conn) != 0:
            message = _pq.PQerrorMessage(self.conn).decode(errors="replace")
            _pq.PQfinish(self.conn)
            self.conn = None
            raise Lost(message)
        self.pid = _pq.PQbackendPID(self.conn)
        self.in_a_hurry = False     # a statement timeout is what was wanted
        self.log = log

    def close(self):
        if self.conn:
            _pq.PQfinish(self.conn)
            self.conn = None

    def _raise(self, result, sql):
        def field(code):
            value = _pq.PQresultErrorField(result, code) if result else None
            return value.decode(errors="replace") if value else ""
        state = field(_SQLSTATE)
        message = "\n    ".join(x for x in (field(_MESSAGE), field(_DETAIL), field(_CONTEXT)) if x)
        constraint = field(_CONSTRAINT)
        if result:
            _pq.PQclear(result)
        if _pq.PQstatus(self.conn) != 0 or not state:
            raise Lost(message or _pq.PQerrorMessage(self.conn).decode(errors="replace"))
        if "statement timeout" in message and not self.in_a_hurry:
            state = "hangs"
        raise Error(state, message, constraint, sql)

    def _answer(self, result, sql):
        """Rows of the result; how many rows a command changed is in self.changed."""
        status = _pq.PQresultStatus(result) if result else -1
        if status not in (_COMMAND_OK, _TUPLES_OK):
            self._raise(result, sql)
        fields = range(_pq.PQnfields(result))
        rows = []
        for i in range(_pq.PQntuples(result)):
            rows.append([None if _pq.PQgetisnull(result, i, k) else _pq.PQgetvalue(result, i, k).decode() for k in fields])
        self.changed = _pq.PQcmdTuples(result).decode()
        _pq.PQclear(result)
        return rows

    def run(self, sql):
        """The rows that a statement gives; Error if it fails."""
        if self.log:
            self.log.write(sql + ";\n")
            self.log.flush()
        return self._answer(_pq.PQexec(self.conn, sql.encode()), sql)

    def copy(self, sql, data):
        """COPY ... FROM STDIN."""
        if self.log:
            self.log.write("%s;\n%s\\.\n" % (sql, data))
            self.log.flush()
        result = _pq.PQexec(self.conn, sql.encode())
        if not result or _pq.PQresultStatus(result) != _COPY_IN:
            self._raise(result, sql)
        _pq.PQclear(result)
        raw = data.encode()
        _pq.PQputCopyData(self.conn, raw, len(raw))
        _pq.PQputCopyEnd(self.conn, None)
        result = _pq.PQgetResult(self.conn)
        while True:
            more = _pq.PQgetResult(self.conn)
            if not more:
                break
            _pq.PQclear(more)
        return self._answer(result, sql)

    def may(self, sql, *states):
        """None if the statement worked, its SQLSTATE if it failed with one of these."""
        try:
            self.run(sql)
            return None
        except Error as e:
            if e.state in states:
                return e.state
            raise

    def surely(self, sql):
        """A statement that must have been run, however often it is cancelled."""
        while self.may(sql, "57014"):
            pass


def quote(text):
    """A string as an SQL literal."""
    text = str(text)
    if "\\" in text:
        return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    return "'" + text.replace("'", "''") + "'"

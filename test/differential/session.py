"""A psql process that is spoken to through pipes, one statement at a time."""

import subprocess
import uuid

# SQLSTATEs of conflicts between sessions: one of them has to bear it.
HARMLESS = ("23505", "40001", "40P01", "55P03", "57014")


class Lost(Exception):
    """The session is gone or a statement failed that must not."""


class Error(Exception):
    """A statement failed; the session is fine."""

    def __init__(self, state, message):
        super().__init__("%s: %s" % (state, message))
        self.state = state


class Session:
    def __init__(self, dbname, log=None):
        self.log = log
        self.process = subprocess.Popen(
            ["psql", "-X", "-q", "-A", "-t", "-F", "\t", "-d", dbname],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, bufsize=1, encoding="utf-8")
        self.run("SET statement_timeout = '120s'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()

    def ask(self, sql):
        """The rows of a statement, as lines.  Raises Error when it fails."""
        if self.log:
            self.log.write(sql + ";\n")
            self.log.flush()
        mark = uuid.uuid4().hex
        try:
            self.process.stdin.write("%s;\n\\echo %s :SQLSTATE\n" % (sql, mark))
            self.process.stdin.flush()
        except OSError:
            raise Lost("connection lost before: %s" % sql)
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line.startswith(mark):
                state = line[len(mark) + 1:]
                if state != "00000":
                    raise Error(state, " / ".join(lines)[-2000:])
                return lines
            lines.append(line)
        raise Lost("connection lost in: %s\n%s" % (sql, "\n".join(lines[-5:])))

    def run(self, sql):
        """A statement that must not fail."""
        try:
            return self.ask(sql)
        except Error as e:
            raise Lost("%s\n  in: %s" % (e, sql))

    def may(self, sql, *states):
        """A statement that may fail with one of these SQLSTATEs; whether it worked."""
        try:
            self.ask(sql)
            return True
        except Error as e:
            if e.state in states:
                return False
            raise Lost("%s\n  in: %s" % (e, sql))

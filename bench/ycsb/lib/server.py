"""A PostgreSQL server to measure or test on: a temporary one of our own, or one
that is there already. Everything goes through psql and pgbench.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

EXTENSION = "numa_migrate"


class ServerError(Exception):
    pass


def bindir():
    pg_config = os.environ.get("PG_CONFIG", "pg_config")
    return _pg_config(pg_config, "--bindir")


def extension_installed():
    """Both the library and the control file are where this server looks."""
    pg_config = os.environ.get("PG_CONFIG", "pg_config")
    library = os.path.join(_pg_config(pg_config, "--pkglibdir"), EXTENSION + ".so")
    control = os.path.join(_pg_config(pg_config, "--sharedir"), "extension", EXTENSION + ".control")
    return os.path.exists(library) and os.path.exists(control)


def _pg_config(pg_config, what):
    try:
        return subprocess.run([pg_config, what], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as e:
        raise ServerError("cannot run %s %s: %s" % (pg_config, what, e)) from None


class Server:
    """A server reached through libpq. With no host given, libpq's defaults."""

    def __init__(self, host=None, port=None, user=None, dbname="postgres"):
        self.bin = bindir()
        self.dbname = dbname
        self.args = ["-d", dbname]
        for flag, value in (("-h", host), ("-p", port), ("-U", user)):
            if value:
                self.args += [flag, str(value)]

    def sql(self, text):
        """Run SQL in one session; returns rows as lists of strings."""
        done = self._psql(["-f", "-"], input=text)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def value(self, text):
        """The single value that a query returns."""
        rows = self.sql(text)
        if len(rows) != 1 or len(rows[0]) != 1:
            raise ServerError("not a single value: %s\n%s" % (text, rows))
        return rows[0][0]

    def notices(self, text):
        """Run SQL; returns the messages that the server sent with it."""
        return self._psql(["-f", "-"], input=text).stderr

    def _psql(self, args, **kwargs):
        command = [os.path.join(self.bin, "psql")] + self.args
        command += ["-X", "-q", "-A", "-t", "-F", "\t", "-v", "ON_ERROR_STOP=1"] + args
        done = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
        if done.returncode != 0:
            raise ServerError("psql: %s" % done.stderr.strip())
        return done

    @contextlib.contextmanager
    def copy_into(self, target):
        """Yields a binary stream that goes into COPY target FROM STDIN."""
        command = [os.path.join(self.bin, "psql")] + self.args
        command += ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", "COPY %s FROM STDIN" % target]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            try:
                yield process.stdin
                process.stdin.close()
            except BrokenPipeError:
                pass  # psql gave up; it says why
            message = process.stderr.read().decode(errors="replace")
            if process.wait() != 0:
                raise ServerError("COPY: %s" % message.strip())
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stderr.close()

    def pgbench(self, args):
        """Run pgbench; returns (command as typed, finished process)."""
        command = [os.path.join(self.bin, "pgbench")]
        # pgbench takes the database as its last argument; -d meant debug to it.
        command += self.args[2:] + args + [self.dbname]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return command, done

    def backend_cpu(self):
        """CPU seconds that finished backends have used, or None if not known."""
        return None

    def has_access_method(self, name):
        """Is the index access method there, if need be by CREATE EXTENSION?"""
        query = "SELECT count(*) FROM pg_am WHERE amtype = 'i' AND amname = '%s'" % name
        if self.value(query) == "1":
            return True
        offered = "SELECT count(*) FROM pg_available_extensions WHERE name = '%s'" % EXTENSION
        if name != "numa_btree" or self.value(offered) == "0":
            return False
        self.sql("CREATE EXTENSION %s" % EXTENSION)
        return self.value(query) == "1"


class TemporaryServer(Server):
    """initdb into a temporary directory, reachable by a socket in it only.

    The settings keep what is not the index's business out of the figures:
    no autovacuum and no timed checkpoint in the middle of a run, no wait for
    the disk at commit. Both sides of a comparison get the same.
    """

    SETTINGS = {
        "listen_addresses": "''",
        "shared_buffers": "1GB",
        "max_wal_size": "8GB",
        "checkpoint_timeout": "1h",
        "synchronous_commit": "off",
        "autovacuum": "off",
        "jit": "off",
        # All is in memory, where a random page costs no more; with 4.0 the
        # planner reads a small table through rather than scan 100 keys.
        "random_page_cost": "1.1",
    }

    def __init__(self, settings=None, port=6107):
        self.process = None
        self.directory = None
        self.as_postgres = _unprivileged()
        self.settings = dict(self.SETTINGS, **(settings or {}))
        if extension_installed():
            self.settings.setdefault("shared_preload_libraries", EXTENSION)
        self.port = port

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        with _uninterrupted():
            self.directory = tempfile.mkdtemp(prefix="nm-ycsb-")
        self.data = os.path.join(self.directory, "data")
        self.logfile = os.path.join(self.directory, "log")
        owner = "postgres" if self.as_postgres else pwd.getpwuid(os.geteuid()).pw_name
        if self.as_postgres:
            shutil.chown(self.directory, "postgres")
        super().__init__(host=self.directory, port=self.port, user=owner)
        self._run(["initdb", "-D", self.data, "-A", "trust", "-N", "--no-locale", "-E", "UTF8"])
        settings = dict(self.settings, unix_socket_directories="'%s'" % self.directory, port=self.port)
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="ascii") as conf:
            for name, value in settings.items():
                conf.write("%s = %s\n" % (name, value))
        self.boot()

    def boot(self, prefix=()):
        """Start the server on the data directory that is there; `prefix` is the
        command line of a program to run it under."""
        command = self.as_postgres + list(prefix) + [os.path.join(self.bin, "postgres"), "-D", self.data]
        with open(self.logfile, "ab") as log, _uninterrupted():
            # A session of its own: Ctrl-C at the terminal is ours to handle.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True
            )
        self._wait_until_ready()

    def halt(self):
        """Stop the server in good order and keep its data directory."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(120)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait(30)
        self.process = None

    def stop(self):
        with _uninterrupted():
            self.halt()
            if self.directory:
                shutil.rmtree(self.directory, ignore_errors=True)
                self.directory = None

    def backend_cpu(self):
        """The postmaster's account of its children that have ended, in steps of
        a clock tick (10 ms as a rule). It is what a busy machine disturbs least."""
        time.sleep(0.1)  # let the postmaster notice who has just left
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def single_user(self, text, prefix=(), settings=None):
        """Run SQL, one statement a line, in a single-user backend that
        `prefix` (a wrapper's command line) starts. The server must be halted."""
        command = self.as_postgres + list(prefix)
        command += [os.path.join(self.bin, "postgres"), "--single", "-D", self.data]
        for name, value in (settings or {}).items():
            command += ["-c", "%s=%s" % (name, value)]
        command.append(self.dbname)
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, cwd=self.directory
        )
        if done.returncode != 0 or "ERROR:" in done.stderr:
            raise ServerError("single-user backend: %s" % done.stderr.strip()[-2000:])
        return done

    def _run(self, args):
        command = self.as_postgres + [os.path.join(self.bin, args[0])] + args[1:]
        process = None
        try:
            with _uninterrupted():
                process = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                    cwd=self.directory, start_new_session=True,
                )  # fmt: skip
            message = process.communicate()[1]
        except BaseException:
            # With its children, which would go on writing where we clean up.
            if process and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
            raise
        if process.returncode != 0:
            raise ServerError("%s: %s" % (args[0], message.strip()))

    def _wait_until_ready(self):
        deadline = time.monotonic() + 300  # slow under valgrind
        ready = [os.path.join(self.bin, "pg_isready"), "-q"] + self.args
        while subprocess.run(ready, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.logfile, encoding="utf-8", errors="replace") as log:
                    raise ServerError("the server did not start:\n" + log.read()[-3000:])
            time.sleep(0.1)


def _unprivileged():
    """Command prefix that sheds root, which PostgreSQL refuses."""
    if os.geteuid() != 0:
        return []
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        raise ServerError("run as root, but there is no user postgres to run the server as") from None
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


@contextlib.contextmanager
def _uninterrupted():
    """Put off SIGINT and SIGTERM until the block is done, so that nothing is
    started without being remembered and nothing is left half stopped."""
    came = []
    old = {s: signal.signal(s, lambda n, _: came.append(n)) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    for number in came:
        os.kill(os.getpid(), number)


def exit_on_signals():
    """SIGTERM and Ctrl-C end the program through its finally clauses."""

    def leave(number, _frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)


def add_options(parser):
    """Command line options that name an existing server."""
    group = parser.add_argument_group("an existing server (default: a temporary one, removed afterwards)")
    group.add_argument("--host")
    group.add_argument("--port", type=int)
    group.add_argument("--user")
    group.add_argument("--dbname", help="using one of these means: this server")


@contextlib.contextmanager
def from_options(args, settings=None):
    if args.host or args.port or args.user or args.dbname:
        yield Server(args.host, args.port, args.user, args.dbname or "postgres")
    else:
        with TemporaryServer(settings) as server:
            yield server

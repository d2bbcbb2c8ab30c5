"""Counting instructions with valgrind. They hardly depend on what else the
machine does: two runs differ by a few in ten thousand.
"""

import os
import re
import shutil
import time


def available():
    return shutil.which("valgrind") is not None


def command(directory):
    """Command line prefix; every process leaves its count in the directory,
    also one that was forked, as backends are."""
    os.chmod(directory, 0o777)  # the server's user writes there
    log = "--log-file=" + os.path.join(directory, "valgrind.%p")
    return ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", log]


def forget(directory):
    for name in os.listdir(directory):
        if name.startswith("valgrind."):
            os.unlink(os.path.join(directory, name))


def counts(directory):
    """{process: instructions} of processes that have ended."""
    found = {}
    for name in os.listdir(directory):
        if name.startswith("valgrind."):
            with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as f:
                match = re.search(r"Collected : (\d+)", f.read())
            if match:
                found[name] = int(match.group(1))
    return found


def processes(directory):
    """Those that have a log: all that were started, ended or not."""
    return {name for name in os.listdir(directory) if name.startswith("valgrind.")}


class Counter:
    """Context: `instructions` of the processes that start while it lasts. They
    end a little after their client, on a busy machine a good while after it;
    those of earlier clients, too."""

    PATIENCE = 600  # seconds

    def __init__(self, directory):
        self.directory = directory
        self.instructions = None

    def __enter__(self):
        self.before = processes(self.directory)
        return self

    def __exit__(self, failed, *_):
        if not failed:
            self.instructions = sum(self._ended().values())

    def _ended(self):
        """{process: instructions} of the new ones, once all have ended and none
        has come in for a second."""
        deadline = time.monotonic() + self.PATIENCE
        last = None
        while time.monotonic() < deadline:
            new = processes(self.directory) - self.before
            ended = {name: n for name, n in counts(self.directory).items() if name in new}
            if new and set(ended) == new and ended == last:
                return ended
            last = ended
            time.sleep(1)
        raise RuntimeError("valgrind counted nothing, or a process did not end: %s" % (new - set(ended)))

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


class Counter:
    """Context: `instructions` of the processes that end while it lasts."""

    def __init__(self, directory):
        self.directory = directory
        self.instructions = None

    def __enter__(self):
        self.before = self._settled({})
        return self

    def __exit__(self, failed, *_):
        if not failed:
            now = self._settled(self.before)
            self.instructions = sum(n for process, n in now.items() if process not in self.before)

    def _settled(self, known):
        """counts() once nothing has come in for a second, and, with something
        known, once something new has. A process ends a little after its client."""
        deadline = time.monotonic() + 60
        last = None
        while time.monotonic() < deadline:
            now = counts(self.directory)
            if now == last and (not known or now != known):
                return now
            last = now
            time.sleep(1)
        raise RuntimeError("valgrind counted nothing")

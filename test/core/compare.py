#!/usr/bin/env python3
"""Compare the output of PostgreSQL's own tests with what is expected of it.

	compare.py [--update] EXPECTED RESULTS LISTED TEST...

EXPECTED holds TEST.out and, where core has several answers, TEST_1.out and so on;
RESULTS what came out; LISTED a file TEST.diff for each test whose output differs:
hunks of a unified diff, without line numbers, each below a line "# reason", which holds
for the hunks after it as well.  A hunk below "#? reason" may be missing: its test's
output is not the same every time.

Before comparing, the name numa_btree becomes btree, so that index definitions are equal.
A hunk that is not listed, a listed one that is not there and a hunk without a reason are
failures.  --update writes the lists anew: known hunks keep their reason, others get
"# UNEXPLAINED", which is a failure as well until somebody explains it.

Ends with "N passed, N failed, N skipped"; a test is a file.
"""

import difflib
import os
import sys

UNEXPLAINED = "# UNEXPLAINED"


def read(path):
	with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
		return [line.rstrip("\n").replace("numa_btree", "btree") for line in f]


def hunks(expected, result):
	"""Hunks of a unified diff as tuples of lines."""
	found = []
	for line in difflib.unified_diff(expected, result, lineterm="", n=2):
		if line.startswith(("---", "+++")) and not found:
			continue
		if line.startswith("@@"):
			found.append([])
		else:
			found[-1].append(line)
	return [tuple(h) for h in found]


def closest(directory, test, result):
	"""Hunks against the expected file that is nearest, as pg_regress chooses."""
	best = None
	for name in [test] + [f"{test}_{i}" for i in range(10)]:
		path = os.path.join(directory, name + ".out")
		if os.path.exists(path):
			h = hunks(read(path), result)
			size = sum(len(x) for x in h)
			if best is None or size < best[0]:
				best = (size, h)
	return best[1] if best else None


def read_list(path):
	"""[(reason line, hunk)]; a hunk starts at "@@"."""
	listed = []
	reason = None
	if not os.path.exists(path):
		return listed
	with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as f:
		for line in f:
			line = line.rstrip("\n")
			if line.startswith("#"):
				reason = line
			elif line == "@@":
				listed.append((reason, []))
			else:
				listed[-1][1].append(line)
	return [(r, tuple(h)) for r, h in listed]


def write_list(path, entries):
	if not entries:
		if os.path.exists(path):
			os.unlink(path)
		return
	last = None
	with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="\n") as f:
		for reason, hunk in entries:
			if reason != last:
				f.write(reason + "\n")
				last = reason
			f.write("@@\n" + "".join(line + "\n" for line in hunk))


def check(test, expected, results, listdir, update):
	"""True if the test's output is expected or its differences are listed."""
	out = os.path.join(results, test + ".out")
	path = os.path.join(listdir, test + ".diff")
	if not os.path.exists(out):
		print(f"{test}: no output")
		return False
	actual = closest(expected, test, read(out))
	if actual is None:
		print(f"{test}: nothing is expected of it")
		return False
	listed = read_list(path)

	if update:
		reasons = {}
		for reason, hunk in listed:
			reasons[hunk] = reason
		entries = [(reasons.get(h) or UNEXPLAINED, h) for h in actual]
		entries += [(r, h) for r, h in listed if r.startswith("#?") and h not in actual]
		write_list(path, entries)
		listed = read_list(path)

	ok = True
	left = list(listed)
	for hunk in actual:
		match = next((e for e in left if e[1] == hunk), None)
		if match is None:
			ok = False
			print(f"{test}: not listed:")
			print("\n".join(hunk))
			continue
		left.remove(match)
		if match[0] is None or match[0] == UNEXPLAINED:
			ok = False
			print(f"{test}: listed without a reason")
	for reason, hunk in left:
		if not (reason or "").startswith("#?"):
			ok = False
			print(f"{test}: listed, but it is not there any more ({reason}):")
			print("\n".join(hunk))
	return ok


def main():
	args = sys.argv[1:]
	update = args[:1] == ["--update"]
	if update:
		args = args[1:]
	if len(args) < 4:
		sys.exit(__doc__)
	sys.stdout.reconfigure(errors="surrogateescape")
	expected, results, listdir = args[:3]
	passed = failed = 0
	for test in args[3:]:
		if check(test, expected, results, listdir, update):
			passed += 1
		else:
			failed += 1
			print(f"test {test} FAILED")
	print(f"{passed} passed, {failed} failed, 0 skipped")
	return failed != 0


if __name__ == "__main__":
	sys.exit(main())

"""Fair order for two access methods on one table.

Runs go A B B A A B B A ...: what drifts in a straight line (growing table,
warming caches, a busier host) falls on both alike. Only one of the two indexes
exists at a time, and each run gets a new one, so neither pays for the other's
upkeep and neither starts with an index that earlier runs have worn.
"""


def order(labels, pairs):
    """[(pair number, label)] for `pairs` pairs."""
    runs = []
    for pair in range(pairs):
        both = list(labels) if pair % 2 == 0 else list(reversed(labels))
        runs += [(pair, label) for label in both]
    return runs


def labels(methods):
    """Names to report by; comparing a method with itself is how to see the noise."""
    first, second = methods
    return (first, second) if first != second else (first + "#1", second + "#2")

"""Medians, percentiles, intervals."""

import random
import statistics

median = statistics.median


def percentile(values, percent):
    """Nearest rank: the smallest value that at least `percent` of all don't exceed."""
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)  # ceiling
    return ordered[max(1, int(rank)) - 1]


def bootstrap_median(values, level=0.95, rounds=10000, seed=1):
    """Percentile bootstrap interval of the median. The pairs are resampled, so
    what two runs of a pair have in common stays out of the interval."""
    rng = random.Random(seed)
    medians = sorted(median(rng.choices(values, k=len(values))) for _ in range(rounds))
    tail = (1 - level) / 2
    low = medians[int(tail * rounds)]
    high = medians[min(rounds - 1, int((1 - tail) * rounds))]
    return low, high


class Ratio:
    """Paired ratios of one figure: median, spread, bootstrap interval."""

    def __init__(self, pairs):
        self.ratios = [first / second for first, second in pairs]
        self.median = median(self.ratios)
        self.low, self.high = min(self.ratios), max(self.ratios)
        self.interval = bootstrap_median(self.ratios)

    def __str__(self):
        return "%.3f [%.3f..%.3f], 95 %% %.3f..%.3f" % (self.median, self.low, self.high, *self.interval)

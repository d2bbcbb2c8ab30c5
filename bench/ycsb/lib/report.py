"""Results on paper: CSV rows, a Markdown table, a plot."""

import csv
import shutil
import subprocess


def write_csv(path, rows):
    with open(path, "w", newline="", encoding="ascii") as f:
        writer = csv.DictWriter(f, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def table(header, rows):
    """A Markdown table."""
    lines = [header, ["---"] * len(header)] + rows
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def facts(found):
    return "".join("- %s: %s\n" % (name, value) for name, value in found.items())


def have_gnuplot():
    return shutil.which("gnuplot") is not None


def plot_ratios(path, title, ylabel, groups):
    """SVG: every paired ratio as a point, and their median with its interval.
    `groups` maps a name to a stats.Ratio."""
    names = list(groups)
    tics = ", ".join('"%s" %d' % (name, i) for i, name in enumerate(names))
    points = "".join(
        "%.3f %.6f\n" % (i + 0.3 * (j / max(1, len(r.ratios) - 1) - 0.5), value)
        for i, r in enumerate(groups.values())
        for j, value in enumerate(r.ratios)
    )
    medians = "".join(
        "%d %.6f %.6f %.6f\n" % (i, r.median, *r.interval) for i, r in enumerate(groups.values())
    )
    script = (
        'set terminal svg noenhanced size %d,420 font "sans,12" background "white"\n' % max(480, 90 * len(names) + 120)
        + 'set output "%s"\nset title "%s"\nset ylabel "%s"\n' % (path, title, ylabel)
        + "set xtics (%s)\nset xrange [-0.7:%.1f]\nset grid ytics\nset key outside bottom center horizontal\n" % (tics, len(names) - 0.3)
        + "$points << EOD\n%sEOD\n$medians << EOD\n%sEOD\n" % (points, medians)
        + 'plot 1 with lines lc rgb "black" dt 2 notitle,'
        + ' $points using 1:2 with points pt 7 ps 0.4 lc rgb "#8888cc" title "one pair",'
        + ' $medians using 1:2:3:4 with yerrorbars pt 5 lc rgb "#aa0000" title "median, 95 % interval"\n'
    )
    subprocess.run(["gnuplot"], input=script, text=True, check=True)

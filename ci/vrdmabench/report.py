# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The page: bars first, then every family as a picture and a table. It needs no other file."""

from collections.abc import Iterable
from html import escape

from .bars import Verdict
from .compare import Change
from .families import FAMILIES
from .plots import plot
from .point import Point
from .programs import DISTRIBUTION
from .results import Results

HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>vrdma: benchmarks</title><style>
body { font: 15px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .15em .8em; border-bottom: 1px solid #ccc; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.missed, .WORSE { color: #b00; font-weight: bold; } .met, .better { color: #070; }
svg { max-width: 100%; height: auto; }
</style></head><body>
"""
NOTE = """<p>Ours and its baseline take turns within one run, placed alike: what counts is their ratio. Times of what
spins are the tenth percentile of short batches, as others may use this machine too; the distribution (min, p50, p99,
…) is of single operations, the clock's own cost included. Spread is that of the ratio, or else the value, between
repetitions.</p>
"""
TWO_CORES = """<p>This machine has {cores} cores, fewer than the two programs and the poller that spin in
ib_write_lat. So the bar is measured with one thread that plays both ends, against a floor with as many threads.</p>
"""


def page(results: Results, verdicts: list[Verdict], changes: list[Change]) -> str:
    parts = [HEAD, "<h1>vrdma: benchmarks</h1>", _facts(results.machine), NOTE]
    if int(results.machine["cores"]) < 3:
        parts.append(TWO_CORES.format(cores=results.machine["cores"]))
    parts += ["<h2>Bars</h2>", _bars(verdicts)]
    if changes:
        parts += ["<h2>Beside the saved run</h2>", _changes(changes)]
    for family in FAMILIES:
        points = [point for point in results.points if point.family == family.name]
        if points:
            parts += [f'<h2 id="{family.name}">{family.title}</h2><p>{family.text}</p>', plot(points), _points(points)]
    return "\n".join([*parts, "</body></html>\n"])


def bars_text(verdicts: list[Verdict]) -> str:
    """The same table for a terminal."""
    rows = [("bar", "", "ours", "baseline", "ratio", ""), *(_verdict(verdict) for verdict in verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                     for row in rows)


def _verdict(verdict: Verdict) -> tuple[str, ...]:
    point, bar = verdict.point, verdict.bar
    return (bar.title, bar.limit_text, f"{point.value:.4g} {point.unit}", _number(point.baseline, point.unit),
            _number(point.ratio), "met" if verdict.met else "missed")  # fmt: skip


def _bars(verdicts: list[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        *cells, met = _verdict(verdict)
        rows.append(_row(cells, f'<td class="{met}">{met}</td>'))
    return _table(("bar", "", "ours", "baseline", "ratio", "met/missed"), rows)


def _changes(changes: list[Change]) -> str:
    rows = [_row((f"{change.after.family}: {change.after.name}", f"{change.before.value:.4g}",
                  f"{change.after.value:.4g}",
                  change.after.unit, _number(change.factor), f"{change.noise:.0%}"),
                 f'<td class="{change.verdict}">{change.verdict}</td>') for change in changes]  # fmt: skip
    return _table(("", "before", "now", "", "worse by", "noise", ""), rows)


def _points(points: list[Point]) -> str:
    columns = [name for name in DISTRIBUTION if any(name in point.distribution for point in points)]
    rows = [_row((point.name, f"{point.value:.4g} {point.unit}", _number(point.baseline), _number(point.ratio),
                  f"{point.spread:.0%}", *(_number(point.distribution.get(name)) for name in columns)))
            for point in points]  # fmt: skip
    return _table(("", "ours", "baseline", "ratio", "spread", *columns), rows)


def _facts(machine: dict[str, str | int]) -> str:
    return "<p>" + ", ".join(f"{escape(name)}: {escape(str(value))}" for name, value in machine.items()) + "</p>"


def _number(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.4g} {unit}".rstrip()


def _row(cells: Iterable[str], last: str = "") -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + last + "</tr>"


def _table(headings: Iterable[str], rows: list[str]) -> str:
    return "<table><tr>" + "".join(f"<th>{escape(text)}</th>"
                                   for text in headings) + "</tr>" + "\n".join(rows) + "</table>"

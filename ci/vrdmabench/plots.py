# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A family's points as a picture."""

import io
import re

import matplotlib

matplotlib.use("svg")
# Text stays text in the SVG, which is smaller and can be searched.
matplotlib.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

from .point import Point, size  # noqa: E402


def plot(points: list[Point]) -> str:
    """An SVG element for each unit: series with several x as curves, the rest as bars."""
    units = sorted({point.unit for point in points})
    figure, all_axes = pyplot.subplots(1, len(units), squeeze=False, figsize=(6.5 * len(units), _height(points)))
    for unit, axes in zip(units, all_axes[0], strict=True):
        _draw(axes, unit, [point for point in points if point.unit == unit])
    figure.tight_layout()
    picture = io.StringIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    # An element within a page must not have a prologue.
    return re.sub(r"^.*?(?=<svg)", "", picture.getvalue(), flags=re.DOTALL)


def _height(points: list[Point]) -> float:
    """The height in inches, which grows with the number of bars."""
    return max(3.8, 0.22 * len({point.name for point in points}))


def _draw(axes: Axes, unit: str, points: list[Point]) -> None:
    series: dict[str, list[Point]] = {}
    for point in points:
        series.setdefault(point.series, []).append(point)
    lines = {name: found for name, found in series.items() if len(found) > 1}
    if lines:
        for name, found in lines.items():
            _line(axes, name, found)
        axes.set_xscale("log", base=2)
        axes.set_ylabel(unit)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
        ticks = sorted({point.x for found in lines.values() for point in found if point.x is not None})
        axes.set_xticks(ticks, [size(x) for x in ticks], rotation=60, fontsize="small")
    else:
        _bars(axes, points)
        axes.set_xlabel(unit)
    if all(point.value > 0 for point in points):
        (axes.set_yscale if lines else axes.set_xscale)("log")


def _bars(axes: Axes, points: list[Point]) -> None:
    """Bars with a mark at the baseline, and a line from the median to the maximum."""
    names = [point.name for point in points]
    axes.barh(names, [point.value for point in points], alpha=0.6)
    based = [point for point in points if point.baseline]
    if based:
        axes.scatter([point.baseline for point in based], [point.name for point in based], marker="|", s=120,
                     color="black",
                     label="baseline", zorder=3)  # fmt: skip
    spread = [point for point in points if "max" in point.distribution]
    if spread:
        axes.hlines([point.name for point in spread], [point.distribution["p50"] for point in spread],
                    [point.distribution["max"] for point in spread], color="black", linewidth=1,
                    label="p50 to max")  # fmt: skip
    if based or spread:
        axes.legend(fontsize="small")


def _line(axes: Axes, name: str, points: list[Point]) -> None:
    points = sorted(points, key=lambda point: point.key)
    (line,) = axes.plot([point.x for point in points], [point.value for point in points], marker="o", label=name)
    based = [point for point in points if point.baseline]
    if based:
        axes.plot([point.x for point in based], [point.baseline for point in based], linestyle="--",
                  color=line.get_color(),
                  label=f"{name}: baseline")  # fmt: skip
    spread = [point for point in points if "p99" in point.distribution]
    if spread:
        axes.fill_between([point.x for point in spread], [point.distribution["p50"] for point in spread],
                          [point.distribution["p99"] for point in spread], alpha=0.15, color=line.get_color(),
                          label=f"{name}: p50 to p99")  # fmt: skip

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Compares this run with a saved one."""

from dataclasses import dataclass

from .point import LESS_IS_BETTER, Point

# Smaller differences cannot be distinguished from noise, however close the repetitions are.
LEAST_NOISE = 0.1


@dataclass(frozen=True)
class Change:
    before: Point
    after: Point

    @property
    def factor(self) -> float | None:
        """The factor by which it is worse: above 1 is worse. Results with baselines are compared by their ratios."""
        both = self.before.baseline and self.after.baseline
        before, after = (point.measure if both else point.value for point in (self.before, self.after))
        if not before or not after:
            return None
        return after / before if self.after.unit in LESS_IS_BETTER else before / after

    @property
    def noise(self) -> float:
        return max(LEAST_NOISE, self.before.spread, self.after.spread)

    @property
    def verdict(self) -> str:
        if self.factor is None:
            return "no comparison"
        if self.factor > 1 + self.noise:
            return "WORSE"
        return "better" if self.factor < 1 / (1 + self.noise) else ""


def compare(before: list[Point], after: list[Point]) -> list[Change]:
    known = {point.key: point for point in before}
    return [Change(known[point.key], point) for point in after if point.key in known]


def table(changes: list[Change]) -> str:
    lines = [f"{'':42} {'before':>10} {'now':>10} {'':5} {'worse by':>9} {'noise':>6}"]
    for change in changes:
        factor = "" if change.factor is None else f"{change.factor:.2f}"
        lines.append(f"{change.after.family + ': ' + change.after.name:42} {change.before.value:10.4g} "
                     f"{change.after.value:10.4g}"
                     f" {change.after.unit:5} {factor:>9} {change.noise:6.0%} {change.verdict}")  # fmt: skip
    worse = sum(change.verdict == "WORSE" for change in changes)
    return "\n".join([*lines, f"{worse} of {len(changes)} are worse by more than the noise"])

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Results: points, each with its baseline if there is one."""

from dataclasses import dataclass, field

# For other units, more is better.
LESS_IS_BETTER = {"ns", "us", "ms", "%", "instructions", "B per QP"}


@dataclass(frozen=True)
class Point:
    family: str
    series: str
    x: int | None  # bytes, QPs, …; None if a series has only one point
    unit: str
    value: float
    baseline: float | None = None
    spread: float = 0.0  # of the measure between repetitions, as a fraction of it
    distribution: dict[str, float] = field(default_factory=dict)  # in the same unit: min, p50, p99, p99.9, max

    @property
    def key(self) -> tuple[str, str, int]:
        return self.family, self.series, -1 if self.x is None else self.x

    @property
    def name(self) -> str:
        return self.series if self.x is None else f"{self.series} {size(self.x)}"

    @property
    def ratio(self) -> float | None:
        return self.value / self.baseline if self.baseline else None

    @property
    def measure(self) -> float:
        """The value that counts. Ratios differ less between machines and over time."""
        return self.value if self.ratio is None else self.ratio


def size(number: int) -> str:
    """A power of two for readers: 4096 is 4Ki."""
    for suffix, unit in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{suffix}"
    return str(number)

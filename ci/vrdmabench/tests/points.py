# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Points to test with."""

from typing import Any

from vrdmabench.point import Point


def latency(value: float, baseline: float | None = None, **changes: Any) -> Point:
    fields: dict[str, Any] = {"family": "latency", "series": "write_latency", "x": 8, "unit": "ns"}
    fields |= {"value": value, "baseline": baseline}
    return Point(**(fields | changes))


def bandwidth(value: float, baseline: float | None = None, **changes: Any) -> Point:
    fields: dict[str, Any] = {"family": "bandwidth", "series": "write_bandwidth", "x": 65536, "unit": "GB/s"}
    return latency(value, baseline, **(fields | changes))

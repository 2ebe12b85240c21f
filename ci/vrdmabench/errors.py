# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Errors that end a run."""


class BenchError(Exception):
    """An error for the operator: printed without a traceback."""

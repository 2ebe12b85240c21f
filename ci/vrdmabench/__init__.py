# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Measures vrdma natively, relative to baselines of the same machine in the same run."""

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Measures vrdma natively, beside what the same machine gives in the same run."""

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Checks the sources against the table of permitted includes in ARCHITECTURE.md."""

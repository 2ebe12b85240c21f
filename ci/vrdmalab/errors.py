# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""Errors of a lab, with messages that tell their reader what to do."""

CONSOLE_END_LINES = 40


class LabError(Exception):
    """An error for the operator: printed without a traceback."""


class VmError(LabError):
    """A VM has died, hangs or cannot be reached. The error contains the end of its console."""

    def __init__(self, name: str, what: str, console: str = "") -> None:
        end = "\n".join(f"  {name}| {line}" for line in console.splitlines()[-CONSOLE_END_LINES:])
        super().__init__(f"{name}: {what}" + (f"; the end of its console:\n{end}" if end else ""))

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A vrdmad of a test's own on a host of the lab, beside the one of the unit: they share /run/vrdma, and so the user."""

_CAPABILITIES = "+net_admin,+net_raw,+bpf,+sys_nice"  # for uplinks, and for a poller that is a real-time thread


def vrdmad(config: str) -> str:
    """The command that serves this configuration."""
    return ("setpriv --reuid=vrdma --regid=vrdma --clear-groups "
            f"--inh-caps={_CAPABILITIES} --ambient-caps={_CAPABILITIES} vrdmad --config {config}")

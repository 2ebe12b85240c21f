# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A second vrdmad on a host of the lab, for one test. It shares /run/vrdma and the user with the unit's."""

_CAPABILITIES = "+net_admin,+net_raw,+bpf,+sys_nice"  # for uplinks, and for a poller that is a real-time thread


def vrdmad(config: str) -> str:
    """The command that serves this configuration."""
    return ("setpriv --reuid=vrdma --regid=vrdma --clear-groups "
            f"--inh-caps={_CAPABILITIES} --ambient-caps={_CAPABILITIES} vrdmad --config {config}")

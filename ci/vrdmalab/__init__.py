# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The virtual laboratory: hosts as emulated VMs, with guests as real KVM VMs inside them."""

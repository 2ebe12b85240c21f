# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The base of the tests: the lab, commands in its VMs, verbs by remote control, the watch over kernels and vrdmad."""

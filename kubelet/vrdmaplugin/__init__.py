# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A plug-in that gives vrdma's devices to Kubernetes' kubelet: see vrdma-device-plugin(8)."""

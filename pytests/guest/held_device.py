#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""A VM monitor that holds a mediated device until it is killed, and does nothing with it.

held_device.py UUID
"""

import signal
import sys

from admin_queue import READY, await_status
from moving_device import Machine

machine = Machine(sys.argv[1])
await_status(machine, READY)
print("held", flush=True)
signal.pause()

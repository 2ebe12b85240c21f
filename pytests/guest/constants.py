# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The constants of verbs by their names in C. A release's pyverbs has them as attributes of one module, or in
enumerations of another one."""

from enum import EnumMeta
from types import SimpleNamespace
from typing import Any


def _constants() -> Any:
    try:
        from pyverbs import enums  # until rdma-core 56
    except ImportError:
        from pyverbs import libibverbs_enums
    else:
        return enums
    constants = dict(vars(libibverbs_enums))
    for each in vars(libibverbs_enums).values():
        if isinstance(each, EnumMeta):
            constants.update(each.__members__)
    return SimpleNamespace(**constants)


e = _constants()

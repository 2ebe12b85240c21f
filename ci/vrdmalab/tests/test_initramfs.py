# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
"""The modules that the initramfs contains."""

import pytest
from vrdmalab.initramfs import MODULES, closure, wanted

MODULES_DEP = """\
kernel/fs/ext4/ext4.ko: kernel/fs/mbcache.ko kernel/fs/jbd2/jbd2.ko kernel/lib/crc32c.ko
kernel/fs/mbcache.ko:
kernel/fs/jbd2/jbd2.ko: kernel/lib/crc32c.ko
kernel/lib/crc32c.ko:
kernel/drivers/misc/pvpanic-pci.ko:
kernel/sound/unwanted.ko: kernel/fs/mbcache.ko
"""


def names(lines: list[str]) -> set[str]:
    return {line.partition(":")[0].rpartition("/")[2] for line in lines}


def test_what_is_wanted_comes_with_all_it_needs() -> None:
    assert names(closure(MODULES_DEP, ("ext4", "mbcache"))) == {"ext4.ko", "mbcache.ko", "jbd2.ko", "crc32c.ko"}


def test_an_optional_module_is_wanted_where_there_is_one() -> None:
    assert wanted(MODULES_DEP, "") == MODULES
    assert wanted(MODULES_DEP + "kernel/crypto/crc32c_generic.ko:\n", "") == ("crc32c_generic", *MODULES)
    assert wanted(MODULES_DEP + "kernel/drivers/net/vmxnet3/vmxnet3.ko:\n", "") == ("vmxnet3", *MODULES)


def test_a_built_in_module_is_not_wanted() -> None:
    built_in = "kernel/drivers/virtio/virtio_pci.ko\nkernel/drivers/misc/pvpanic/pvpanic-pci.ko\n"
    assert set(MODULES) - set(wanted(MODULES_DEP, built_in)) == {"virtio_pci", "pvpanic-pci"}


def test_a_module_is_found_by_either_spelling() -> None:
    assert closure(MODULES_DEP, ("pvpanic_pci",)) == closure(MODULES_DEP, ("pvpanic-pci",))


def test_a_module_that_the_kernel_lacks_is_an_error() -> None:
    with pytest.raises(KeyError):
        closure(MODULES_DEP, ("nonesuch",))

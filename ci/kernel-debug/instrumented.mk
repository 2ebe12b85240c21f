# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# The kernel's scripts/Makefile.lib includes this. The compiler instruments only vrdma's modules, which are built
# outside of the tree, and the kernel code that calls them. If all of the kernel is instrumented, a host of the
# laboratory takes three minutes to boot, and a guest more than five. Memory that the rest of the kernel frees is
# poisoned nevertheless.

ifneq ($(filter-out /% drivers/infiniband% drivers/vfio% drivers/nvme% net/rds% net/smc% net/sunrpc/xprtrdma%,$(obj)),)
KASAN_SANITIZE := n
KCSAN_SANITIZE := n
UBSAN_SANITIZE := n
endif

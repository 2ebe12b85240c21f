# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# What each folder of unit tests begins with. They are compiled anew more often than they run long:
# without optimizing, which takes half of the time with sanitizers.
find_package(GTest REQUIRED)
include(GoogleTest)
add_compile_options(-O0)
# ci/test gives ctest two slots for each processor. A program has PROCESSORS 2 if some of its tests spin, or
# count on a thread's turn to come soon.

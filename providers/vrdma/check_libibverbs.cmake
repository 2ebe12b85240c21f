# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# Finds libibverbs, VRDMA_LIBIBVERBS, and compares it with what rdma_core.h says of it. Sets major,
# private_abi, first_major, last_major and context_ops_size. A plug-in that was built for one of the
# versions from first_major to last_major fits all of them.

find_library(VRDMA_LIBIBVERBS NAMES libibverbs.so REQUIRED)
find_library(VRDMA_LIBIBVERBS_STATIC NAMES libibverbs.a REQUIRED)
mark_as_advanced(VRDMA_LIBIBVERBS VRDMA_LIBIBVERBS_STATIC)

# The versions of rdma-core, their private ABI, and the size of verbs_context_ops.
set(layouts "44 56 34 608" "57 58 57 608" "59 61 59 632" "62 63 59 648" "64 64 64 664" "65 65 65 744")

file(REAL_PATH ${VRDMA_LIBIBVERBS} file)
get_filename_component(file ${file} NAME)
if(NOT file MATCHES "^libibverbs\\.so\\.1\\.[0-9]+\\.([0-9]+)\\.")
  message(FATAL_ERROR "The name of ${file} does not contain the version of its rdma-core")
endif()
set(major ${CMAKE_MATCH_1})

set(context_ops_size)
foreach(layout IN LISTS layouts)
  string(REPLACE " " ";" layout ${layout})
  list(GET layout 0 first)
  list(GET layout 1 last)
  if(major GREATER_EQUAL first AND major LESS_EQUAL last)
    set(first_major ${first} CACHE INTERNAL "first rdma-core that the plug-in fits") # debian/rules
    set(last_major ${last} CACHE INTERNAL "last rdma-core that the plug-in fits")
    list(GET layout 2 private_abi)
    list(GET layout 3 context_ops_size)
  endif()
endforeach()
if(NOT context_ops_size)
  message(FATAL_ERROR "rdma_core.h does not describe the rdma-core ${major} of ${file}: "
                      "set VRDMA_RDMA_CORE to the tree of that rdma-core, built")
endif()

execute_process(COMMAND ${CMAKE_NM} -S ${VRDMA_LIBIBVERBS_STATIC} OUTPUT_VARIABLE symbols ERROR_QUIET)
string(REGEX MATCH "0*([0-9a-f]+) D [a-z0-9_]*verbs_dummy_ops" _ "${symbols}")
math(EXPR known_size ${context_ops_size} OUTPUT_FORMAT HEXADECIMAL)
if(NOT "0x${CMAKE_MATCH_1}" STREQUAL known_size)
  message(FATAL_ERROR "verbs_dummy_ops in ${VRDMA_LIBIBVERBS_STATIC} is of 0x${CMAKE_MATCH_1} bytes, "
                      "not of ${known_size}: rdma_core.h does not fit")
endif()

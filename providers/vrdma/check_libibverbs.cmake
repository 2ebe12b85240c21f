# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# Finds libibverbs, VRDMA_LIBIBVERBS, and compares it with what rdma_core.h says of it.

find_library(VRDMA_LIBIBVERBS NAMES libibverbs.so REQUIRED)
find_library(VRDMA_LIBIBVERBS_STATIC NAMES libibverbs.a REQUIRED)
mark_as_advanced(VRDMA_LIBIBVERBS VRDMA_LIBIBVERBS_STATIC)

file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/rdma_core.h known REGEX "^#define VRDMA_(LIBIBVERBS_FILE|CONTEXT_OPS_SIZE) ")
string(REGEX MATCH "LIBIBVERBS_FILE \"([^\"]+)\"" _ "${known}")
set(known_file ${CMAKE_MATCH_1})
string(REGEX MATCH "CONTEXT_OPS_SIZE ([0-9]+)" _ "${known}")
math(EXPR known_size ${CMAKE_MATCH_1} OUTPUT_FORMAT HEXADECIMAL)

file(REAL_PATH ${VRDMA_LIBIBVERBS} file)
get_filename_component(file ${file} NAME)
if(NOT file STREQUAL known_file)
  message(FATAL_ERROR "rdma_core.h describes ${known_file}, but ${file} is installed: "
                      "set VRDMA_RDMA_CORE to the tree of that rdma-core, built")
endif()

execute_process(COMMAND ${CMAKE_NM} -S ${VRDMA_LIBIBVERBS_STATIC} OUTPUT_VARIABLE symbols ERROR_QUIET)
string(REGEX MATCH "0*([0-9a-f]+) D [a-z0-9_]*verbs_dummy_ops" _ "${symbols}")
if(NOT "0x${CMAKE_MATCH_1}" STREQUAL known_size)
  message(FATAL_ERROR "verbs_dummy_ops in ${VRDMA_LIBIBVERBS_STATIC} is of 0x${CMAKE_MATCH_1} bytes, "
                      "not of ${known_size}: rdma_core.h does not fit")
endif()

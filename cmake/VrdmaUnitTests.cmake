# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# What each folder of unit tests begins with. They are compiled anew more often than they run long:
# without optimizing, which takes half of the time with sanitizers.
find_package(GTest REQUIRED)
add_compile_options(-O0)
set(CMAKE_UNITY_BUILD ${VRDMA_UNITY})

# vrdma_unit_tests(PROGRAM [NAME name] [SHARDS count] [FILTER filter] [PROPERTIES property value ...])
#
# Gives ctest the tests of a program, or those that the filter names, in so many shards: a process for each test
# would start longer than it tests, with sanitizers. A program that takes more than some seconds has several.
# ci/test gives ctest two slots for each processor. A program has PROCESSORS 2 if some of its tests spin, or
# count on a thread's turn to come soon. The environment of other variants goes into PROPERTIES, too.
function(vrdma_unit_tests program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;SHARDS;FILTER" "PROPERTIES")
  if(NOT arg_NAME)
    set(arg_NAME ${program})
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_FILTER)
    set(arg_FILTER "*")
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${arg_NAME}.${shard} COMMAND ${program} --gtest_brief=1 --gtest_filter=${arg_FILTER})
    set_tests_properties(${arg_NAME}.${shard} PROPERTIES TIMEOUT 300 ${arg_PROPERTIES})
    set_property(TEST ${arg_NAME}.${shard} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${arg_SHARDS}
                 GTEST_SHARD_INDEX=${shard})
  endforeach()
endfunction()

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
#
# Builds a kernel module through kbuild, away from the source tree. Kbuild 6.1 writes its objects
# beside the sources, so it runs in a directory of links to them.

# The newest installed headers; a version sort, so that 6.1.0-56 comes after 6.1.0-9.
file(GLOB headers LIST_DIRECTORIES true /usr/src/linux-headers-*-amd64)
list(SORT headers COMPARE NATURAL ORDER DESCENDING)
list(POP_FRONT headers newest)
set(VRDMA_KERNEL_DIR "${newest}" CACHE PATH "Prepared kernel tree that the modules are built for")
unset(headers)
unset(newest)

# vrdma_kernel_module(MODULE COMPONENT component SOURCES file...)
#
# MODULE is built from the SOURCES, which include its headers and its Kbuild file. Makes the target
# MODULE_ko, and installs MODULE.ko with the component. The Kbuild file gets VRDMA_INCLUDE, the directory
# above the shared formats, beside which it looks for compat. For newer kernels, and with sparse,
# ci/kernels builds modules.
function(vrdma_kernel_module module)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPONENT" "SOURCES")
    # Not include/config/kernel.release, which in Debian's headers lacks the ABI number.
    set(release_file "${VRDMA_KERNEL_DIR}/include/generated/utsrelease.h")
    if(NOT EXISTS "${release_file}")
        message(FATAL_ERROR
            "no prepared kernel in VRDMA_KERNEL_DIR='${VRDMA_KERNEL_DIR}': install linux-headers-amd64")
    endif()
    file(STRINGS "${release_file}" release REGEX "UTS_RELEASE")
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" release "${release}")

    foreach(source IN LISTS arg_SOURCES)
        set(link "${CMAKE_CURRENT_BINARY_DIR}/kbuild/${source}")
        get_filename_component(parent "${link}" DIRECTORY)
        file(MAKE_DIRECTORY "${parent}")
        file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}/${source}" "${link}" SYMBOLIC)
    endforeach()

    set(make make -C "${VRDMA_KERNEL_DIR}" "VRDMA_INCLUDE=${PROJECT_SOURCE_DIR}/include"
        "VRDMA_RELEASE=${VRDMA_RELEASE}")
    add_custom_target(${module}_ko ALL
        COMMAND ${make} "M=${CMAKE_CURRENT_BINARY_DIR}/kbuild" modules
        COMMENT "Building ${module}.ko for ${release}"
        VERBATIM)
    install(FILES "${CMAKE_CURRENT_BINARY_DIR}/kbuild/${module}.ko"
        DESTINATION "lib/modules/${release}/extra"
        COMPONENT ${arg_COMPONENT})
endfunction()

# SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB

# vrdma_library_table(LIBRARY USER)
#
# Makes a module of LIBRARY_module.cpp, whose only symbol is a table of the library's functions (base/library_table.h).
# USER loads it at run time, by the name in the macro VRDMA_LIBRARY. All programs of the build find it where it is built.
function(vrdma_library_table library user)
  add_library(vrdma_${library} MODULE ${library}_module.cpp)
  target_link_libraries(vrdma_${library} PRIVATE vrdma_mediator_base PkgConfig::${library})
  set_target_properties(vrdma_${library} PROPERTIES PREFIX "" OUTPUT_NAME vrdma-${library})
  install(TARGETS vrdma_${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/vrdma COMPONENT host)
  add_dependencies(${user} vrdma_${library})
  # A sanitizer's dlopen() does not know the RUNPATH of its caller.
  set(module vrdma-${library}.so)
  if(VRDMA_SANITIZE OR VRDMA_FUZZ)
    set(module $<TARGET_FILE:vrdma_${library}>)
  endif()
  string(TOUPPER VRDMA_${library} macro)
  target_link_libraries(${user} PRIVATE ${CMAKE_DL_LIBS})
  target_compile_definitions(${user} PRIVATE ${macro}="${module}")
endfunction()

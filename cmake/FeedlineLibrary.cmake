# SPDX-License-Identifier: MIT
# feedline_library(<target> <form> <links> <header>...)
#
# Adds a library of the definitions in the headers feedline/.../implementation.hpp, each of which is a file to compile. It is
# compiled with the flags of the project that calls this, and only if something links it. <form> is STATIC, or empty to
# follow BUILD_SHARED_LIBS. <links> are the targets that it needs.
function(feedline_library target form links)
  set(sources "")
  foreach(header IN LISTS ARGN)
    string(REPLACE "/" "_" file "${header}")
    string(REPLACE ".hpp" ".cpp" file "${file}")
    file(CONFIGURE OUTPUT ${file} CONTENT "#include <${header}>\n")
    list(APPEND sources "${CMAKE_CURRENT_BINARY_DIR}/${file}")
  endforeach()
  add_library(${target} ${form} EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${target} PUBLIC ${links})
  target_compile_definitions(${target} PUBLIC FEEDLINE_COMPILED)
  # Without the first, GCC inlines none of the functions into another one: a program could replace it. The second is a warning
  # that GCC 12 gives for many sums of strings without a reason (its bug 105329).
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition;-Wno-restrict>)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET default
    VISIBILITY_INLINES_HIDDEN OFF UNITY_BUILD OFF)
endfunction()

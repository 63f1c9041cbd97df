# SPDX-License-Identifier: MIT
# Compiles through ccache if it is installed, unless the caller has chosen a launcher. Precompiled headers are compared by
# content, not by time. Those of clang have paths, so with clang each path of a clone has objects of its own; with GCC all clones
# on a machine share them. ccache looks at the headers that the compiler names: preprocessing a precompiled header again would
# read the old one instead of them.
#
#   FEEDLINE_CACHE_ENVIRONMENT: variables of the environment with which another project's build uses the cache; empty without it
set(FEEDLINE_CACHE_ENVIRONMENT "")
find_program(FEEDLINE_CCACHE ccache)
mark_as_advanced(FEEDLINE_CCACHE)
if(FEEDLINE_CCACHE AND CMAKE_CXX_COMPILER_ID MATCHES "^(GNU|Clang)$" AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(variables CCACHE_DEPEND=true CCACHE_SLOPPINESS=pch_defines,time_macros)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH clone)
    list(APPEND variables "CCACHE_BASEDIR=${clone}")
  else()
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env ${variables} "${FEEDLINE_CCACHE}")
  set(FEEDLINE_CACHE_ENVIRONMENT ${variables} "CMAKE_CXX_COMPILER_LAUNCHER=${FEEDLINE_CCACHE}")
endif()

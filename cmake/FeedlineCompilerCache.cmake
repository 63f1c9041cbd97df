# SPDX-License-Identifier: MIT
# Compiles through ccache if it is installed, unless the caller has chosen a launcher. Not with clang: its precompiled
# headers contain paths and times, so that nothing would be found for another clone.
find_program(FEEDLINE_CCACHE ccache)
mark_as_advanced(FEEDLINE_CCACHE)
if(FEEDLINE_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # Compare precompiled headers by content, not by time stamp; let all clones on a machine share the cache. Look at the
  # headers that the compiler names: preprocessing a precompiled header again would read the old one instead of them.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_DEPEND=true CCACHE_SLOPPINESS=pch_defines,time_macros "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
    "${FEEDLINE_CCACHE}")
endif()

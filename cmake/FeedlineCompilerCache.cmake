# SPDX-License-Identifier: MIT
# Compiles through ccache where there is one, unless the caller has chosen a launcher.
find_program(FEEDLINE_CCACHE ccache)
mark_as_advanced(FEEDLINE_CCACHE)
if(FEEDLINE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header counts as its content, not as its time stamp.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${FEEDLINE_CCACHE}")
endif()

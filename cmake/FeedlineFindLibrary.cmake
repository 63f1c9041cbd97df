# SPDX-License-Identifier: MIT
# feedline_find_library(<package> TARGET <target> HEADER <file> NAMES <library>... DEBIAN <package>)
#
# The body of a find module for a library without a CMake package: finds the library and its header, and adds
# the target. It is a macro because find_package() reads the variables that the module sets.
include(FindPackageHandleStandardArgs)

macro(feedline_find_library package)
  cmake_parse_arguments(${package}_find "" "TARGET;HEADER;DEBIAN" "NAMES" ${ARGN})
  find_path(${package}_INCLUDE_DIR ${${package}_find_HEADER})
  find_library(${package}_LIBRARY NAMES ${${package}_find_NAMES})
  mark_as_advanced(${package}_INCLUDE_DIR ${package}_LIBRARY)

  set(${package}_NOT_FOUND_MESSAGE "On Debian its package is ${${package}_find_DEBIAN}.")

  find_package_handle_standard_args(${package} DEFAULT_MSG ${package}_LIBRARY ${package}_INCLUDE_DIR)
  if(${package}_FOUND AND NOT TARGET ${${package}_find_TARGET})
    add_library(${${package}_find_TARGET} UNKNOWN IMPORTED)
    set_target_properties(${${package}_find_TARGET} PROPERTIES
      IMPORTED_LOCATION "${${package}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${package}_INCLUDE_DIR}")
  endif()
endmacro()

# SPDX-License-Identifier: MIT
# Finds the headers of FlatBuffers, 2.0 or newer, and adds the target flatbuffers::headers. It doesn't use
# FlatBuffers' CMake package, whose name differs between versions; its library isn't needed.
find_path(FlatBuffers_INCLUDE_DIR flatbuffers/flatbuffers.h)
mark_as_advanced(FlatBuffers_INCLUDE_DIR)
if(FlatBuffers_INCLUDE_DIR)
  file(STRINGS "${FlatBuffers_INCLUDE_DIR}/flatbuffers/base.h" FlatBuffers_VERSION
    REGEX "#define FLATBUFFERS_VERSION_(MAJOR|MINOR|REVISION) [0-9]+")
  string(REGEX MATCHALL "[0-9]+" FlatBuffers_VERSION "${FlatBuffers_VERSION}")
  list(JOIN FlatBuffers_VERSION . FlatBuffers_VERSION)
endif()

set(FlatBuffers_NOT_FOUND_MESSAGE "On Debian its package is libflatbuffers-dev.")
if(FlatBuffers_VERSION VERSION_LESS 2)
  string(PREPEND FlatBuffers_NOT_FOUND_MESSAGE "Version 2.0 or newer is needed. ")
  unset(FlatBuffers_INCLUDE_DIR CACHE)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(FlatBuffers
  REQUIRED_VARS FlatBuffers_INCLUDE_DIR VERSION_VAR FlatBuffers_VERSION)
if(FlatBuffers_FOUND AND NOT TARGET flatbuffers::headers)
  add_library(flatbuffers::headers INTERFACE IMPORTED)
  target_include_directories(flatbuffers::headers INTERFACE "${FlatBuffers_INCLUDE_DIR}")
endif()

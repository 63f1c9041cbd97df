# SPDX-License-Identifier: MIT
# Finds libdeflate, whose older versions have no CMake package, and adds the target LibDeflate::libdeflate.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(LibDeflate TARGET LibDeflate::libdeflate HEADER libdeflate.h NAMES deflate DEBIAN libdeflate-dev)

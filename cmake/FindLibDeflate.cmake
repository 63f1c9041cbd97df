# SPDX-License-Identifier: MIT
# Finds libdeflate, whose CMake package its older versions lack, and makes the target LibDeflate::libdeflate.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(LibDeflate TARGET LibDeflate::libdeflate HEADER libdeflate.h NAMES deflate DEBIAN libdeflate-dev)

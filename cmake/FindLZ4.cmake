# SPDX-License-Identifier: MIT
# Finds liblz4 and adds the target LZ4::LZ4.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(LZ4 TARGET LZ4::LZ4 HEADER lz4frame.h NAMES lz4 DEBIAN liblz4-dev)

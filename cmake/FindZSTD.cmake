# SPDX-License-Identifier: MIT
# Finds libzstd and adds the target ZSTD::ZSTD.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(ZSTD TARGET ZSTD::ZSTD HEADER zstd.h NAMES zstd DEBIAN libzstd-dev)

# SPDX-License-Identifier: MIT
# Finds libwebp and adds the target WebP::WebP.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(WebP TARGET WebP::WebP HEADER webp/decode.h NAMES webp DEBIAN libwebp-dev)

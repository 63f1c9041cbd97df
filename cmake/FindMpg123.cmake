# SPDX-License-Identifier: MIT
# Finds libmpg123, which decodes MP3, and adds the target Mpg123::Mpg123.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(Mpg123 TARGET Mpg123::Mpg123 HEADER mpg123.h NAMES mpg123 DEBIAN libmpg123-dev)

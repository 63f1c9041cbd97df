# SPDX-License-Identifier: MIT
# Finds the SoX resampler library, which has no CMake package, and adds the target Soxr::soxr.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(Soxr TARGET Soxr::soxr HEADER soxr.h NAMES soxr DEBIAN libsoxr-dev)

# SPDX-License-Identifier: MIT
# Finds single-precision FFTW 3, whose CMake package distributions leave out, and adds the target
# FFTW3::fftw3f.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(FFTW3f TARGET FFTW3::fftw3f HEADER fftw3.h NAMES fftw3f fftw3f-3 DEBIAN libfftw3-dev)

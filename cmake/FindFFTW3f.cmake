# SPDX-License-Identifier: MIT
# Finds FFTW 3 of single precision, whose CMake package distributions leave out, and makes the target FFTW3::fftw3f.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(FFTW3f TARGET FFTW3::fftw3f HEADER fftw3.h NAMES fftw3f fftw3f-3 DEBIAN libfftw3-dev)

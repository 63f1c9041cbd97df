# SPDX-License-Identifier: MIT
# Finds libsndfile, which reads audio files, and makes the target SndFile::sndfile, as its own CMake package would.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(SndFile TARGET SndFile::sndfile HEADER sndfile.h NAMES sndfile sndfile-1 DEBIAN libsndfile1-dev)

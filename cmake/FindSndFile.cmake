# SPDX-License-Identifier: MIT
# Finds libsndfile, which reads audio files, and adds the target SndFile::sndfile, the name in its own CMake
# package.
include("${CMAKE_CURRENT_LIST_DIR}/FeedlineFindLibrary.cmake")
feedline_find_library(SndFile TARGET SndFile::sndfile HEADER sndfile.h NAMES sndfile sndfile-1 DEBIAN libsndfile1-dev)

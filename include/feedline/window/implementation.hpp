// SPDX-License-Identifier: MIT
#pragma once
// All definitions of window/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/window/chunk_file.ipp>
#include <feedline/window/record_sampling.ipp>
#include <feedline/window/stream_shuffler.ipp>
#include <feedline/window/watch_directory.ipp>

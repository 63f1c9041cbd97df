// SPDX-License-Identifier: MIT
#pragma once
// All definitions of window/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_WINDOW
#include <feedline/detail/definitions.hpp>

#include <feedline/window/chunk_file.hpp>
#include <feedline/window/record_sampling.hpp>
#include <feedline/window/stream_shuffler.hpp>
#include <feedline/window/watch_directory.hpp>

// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::window: data that grow while a run reads them.
#include <feedline/window/chunk_file.hpp>
#include <feedline/window/pool_chunk.hpp>
#include <feedline/window/pool_options.hpp>
#include <feedline/window/record_sampling.hpp>
#include <feedline/window/sliding_window_pool.hpp>
#include <feedline/window/stream_shuffler.hpp>
#include <feedline/window/watch_directory.hpp>

// SPDX-License-Identifier: MIT
#pragma once
// All definitions of source/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_SOURCE
#include <feedline/detail/definitions.hpp>

#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/detail/indexed_tar.hpp>
#include <feedline/source/detail/line_index.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/files.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/records.hpp>
#include <feedline/source/tar.hpp>
#include <feedline/source/tar_sample.hpp>
#include <feedline/source/with_replacement.hpp>

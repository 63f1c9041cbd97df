// SPDX-License-Identifier: MIT
#pragma once
// All definitions of source/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/source/detail/file_order.ipp>
#include <feedline/source/detail/index_file.ipp>
#include <feedline/source/detail/indexed_tar.ipp>
#include <feedline/source/detail/line_index.ipp>
#include <feedline/source/detail/read_ahead.ipp>
#include <feedline/source/detail/shard_store.ipp>
#include <feedline/source/detail/tar_in_order.ipp>
#include <feedline/source/detail/tar_shards.ipp>
#include <feedline/source/files.ipp>
#include <feedline/source/lines.ipp>
#include <feedline/source/records.ipp>
#include <feedline/source/tar.ipp>
#include <feedline/source/tar_sample.ipp>
#include <feedline/source/with_replacement.ipp>

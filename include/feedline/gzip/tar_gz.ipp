// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/gzip/tar_gz.hpp>

#include <memory>

#include <feedline/detail/given_size.hpp>
#include <feedline/gzip/gunzip.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_gz_samples::tar_gz_samples(const file_patterns& shards, tar_gz_options options)
    : tar_in_order(detail::file_order(shards, traits.kind), detail::tar_shards(nullptr, checked(options))) {}

FEEDLINE_INLINE detail::tar_settings tar_gz_samples::checked(const tar_gz_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_gz_samples: max_sample_bytes");
  return {options.max_sample_bytes, options.hidden,
          options.concatenated,     std::make_shared<detail::tar_notice>(options.on_notice),
          {gunzip_stream},          true};
}

} // namespace feedline::inline FEEDLINE_ABI

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/gzip/tar_gz.hpp>

#include <feedline/detail/given_size.hpp>
#include <feedline/gzip/gunzip.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_gz_samples::tar_gz_samples(const file_patterns& shards, tar_gz_options options)
    : tar_in_order(detail::file_order(shards, traits.kind), detail::tar_shards(nullptr, checked(options))),
      names_(std::make_shared<detail::tar_names>(opener().settings())) {}

FEEDLINE_INLINE std::uint64_t tar_gz_samples::fingerprint(std::uint64_t extent) const {
  const std::uint64_t hash = files().fingerprint(extent);
  return opener().settings().hidden ? detail::key(hash) : hash;
}

FEEDLINE_INLINE std::size_t tar_gz_samples::bytes_held() const { return opener().settings().bytes_held(); }

FEEDLINE_INLINE detail::tar_settings tar_gz_samples::checked(const tar_gz_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_gz_samples: max_sample_bytes");
  return {options.max_sample_bytes,
          options.hidden,
          options.on_notice ? std::make_shared<detail::tar_notice>(options.on_notice) : nullptr,
          {gunzip_stream},
          true};
}

FEEDLINE_INLINE std::optional<std::size_t> tar_gz_samples::max_item_bytes() const noexcept {
  return sizeof(tar_sample) + opener().settings().max_sample_bytes;
}

FEEDLINE_INLINE std::string tar_gz_samples::origin(std::uint64_t index) const {
  return files().origin_of(index, names_->at(files().name_of(index), detail::file_order::place_of(index)));
}

} // namespace feedline::inline FEEDLINE_ABI

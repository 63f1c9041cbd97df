// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/tar.hpp>

#include <stdexcept>

#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_samples::tar_samples(const file_patterns& shards, tar_options options)
    : tar_samples(detail::list_shards(shards, traits.kind, options.remote), options) {}

FEEDLINE_INLINE detail::indexed_tar tar_samples::indexed(const std::stop_token& stop) const {
  if (!settings().decompress.empty())
    throw std::invalid_argument(
        "feedline::tar_samples: compressed shards can only be read in order: for access by "
        "position, as by global_shuffle, use plain shards and no tar_options::decompress");
  files().expect_files();
  return {{files(), objects()}, keep_index_, settings(), stop};
}

FEEDLINE_INLINE std::string tar_samples::outage() const {
  return objects() ? objects()->outage() : std::string();
}

FEEDLINE_INLINE tar_samples::tar_samples(detail::listed_shards all, const tar_options& options)
    : tar_in_order(std::move(all.files), detail::tar_shards(std::move(all.objects), checked(options))),
      keep_index_(options.keep_index) {}

FEEDLINE_INLINE detail::tar_settings tar_samples::checked(const tar_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_samples: max_sample_bytes");
  return {options.max_sample_bytes, options.hidden, options.concatenated,
          std::make_shared<detail::tar_notice>(options.on_notice), options.decompress};
}

} // namespace feedline::inline FEEDLINE_ABI

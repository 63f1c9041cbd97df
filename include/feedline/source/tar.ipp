// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/tar.hpp>

#include <stdexcept>

#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_samples::tar_samples(const file_patterns& shards, tar_options options)
    : tar_samples(detail::list_files_and_objects(shards, traits.kind, options.remote), options) {}

FEEDLINE_INLINE detail::indexed_tar tar_samples::indexed(const std::stop_token& stop) const {
  if (!opener().settings().decompress.empty())
    throw std::invalid_argument(
        "feedline::tar_samples: compressed shards can only be read in order: for access by "
        "position, as by global_shuffle, use plain shards and no tar_options::decompress");
  files().expect_files();
  return {{files(), objects()}, keep_index_, opener().settings(), stop};
}

FEEDLINE_INLINE object_store& tar_samples::store() const noexcept { return objects()->store(); }

FEEDLINE_INLINE double tar_samples::seconds_waited() const noexcept { return objects()->seconds_waited(); }

FEEDLINE_INLINE std::uint64_t tar_samples::fingerprint(std::uint64_t extent,
                                                       const std::stop_token& stop) const {
  const std::uint64_t hash = objects() ? objects()->fingerprint(extent, stop) : files().fingerprint(extent);
  return opener().settings().hidden ? detail::key(hash) : hash;
}

FEEDLINE_INLINE std::string tar_samples::outage() const {
  return objects() ? store().outage() : std::string();
}

FEEDLINE_INLINE std::optional<std::size_t> tar_samples::max_item_bytes() const noexcept {
  return sizeof(tar_sample) +
         (objects() || !opener().settings().decompress.empty() ? opener().settings().max_sample_bytes : 0);
}

FEEDLINE_INLINE std::size_t tar_samples::bytes_held() const {
  return (objects() ? store().bytes_ahead() : 0) + opener().settings().bytes_held();
}

FEEDLINE_INLINE std::string tar_samples::origin(std::uint64_t index) const {
  const std::string name = files().name_of(index);
  const bool is_file = !name.empty() && !(objects() && objects()->has(detail::file_order::file_of(index)));
  return files().origin_of(index,
                           is_file ? names_->at(name, detail::file_order::place_of(index)) : std::string());
}

FEEDLINE_INLINE tar_samples::tar_samples(detail::listed_files all, const tar_options& options)
    : tar_in_order(std::move(all.files), detail::tar_shards(std::move(all.objects), checked(options))),
      keep_index_(options.keep_index),
      names_(std::make_shared<detail::tar_names>(opener().settings())) {}

FEEDLINE_INLINE detail::tar_settings tar_samples::checked(const tar_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_samples: max_sample_bytes");
  return {options.max_sample_bytes, options.hidden,
          options.on_notice ? std::make_shared<detail::tar_notice>(options.on_notice) : nullptr,
          options.decompress};
}

} // namespace feedline::inline FEEDLINE_ABI

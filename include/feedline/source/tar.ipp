// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/tar.hpp>

#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::uint64_t tar_samples::fingerprint(std::uint64_t extent,
                                                       const std::stop_token& stop) const {
  return objects() ? objects()->fingerprint(extent, stop) : files().fingerprint(extent);
}

FEEDLINE_INLINE std::string tar_samples::outage() const {
  return objects() ? objects()->store().outage() : std::string();
}

FEEDLINE_INLINE std::optional<std::size_t> tar_samples::max_item_bytes() const noexcept {
  return sizeof(tar_sample) + (objects() ? max_sample_bytes_ : 0);
}

FEEDLINE_INLINE std::size_t tar_samples::bytes_held() const {
  return objects() ? objects()->store().bytes_ahead() : 0;
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
      max_sample_bytes_(options.max_sample_bytes) {}

} // namespace feedline::inline FEEDLINE_ABI

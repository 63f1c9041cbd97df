// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the samples of TAR shards, which are files or objects.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class objects_by_position;
struct listed_shards;
struct tar_index;

/// Access to the samples of shards by position, counted over all shards. Shards that are files are mapped when first
/// needed.
class indexed_tar : public places_in_files {
 public:
  indexed_tar(const listed_shards& all, bool keep_index, const tar_settings& how,
              const std::stop_token& stop);

  // A copy has announced nothing.
  indexed_tar(const indexed_tar& other);

  indexed_tar& operator=(const indexed_tar&) = delete;

  ~indexed_tar() = default;

  /// Throws tar_error as reading the shard in order would, and for a shard that has changed since it was
  /// indexed.
  tar_sample at(std::uint64_t place, const std::stop_token& stop = {}) const;

  /// Has the system or the store start to read a sample's bytes, if they are worth the request.
  void will_need(std::uint64_t place) const noexcept;

  /// Whether at() would return without waiting for an object.
  bool ready(std::uint64_t place) const;

 private:
  bool is_object(std::size_t number) const noexcept;

  std::shared_ptr<const mapped_file> map(std::size_t number) const;

  std::shared_ptr<const std::vector<tar_index>> shards_; // of files
  std::shared_ptr<lazy_maps> maps_;
  tar_settings how_;
  std::shared_ptr<const objects_by_position> objects_; // null: all shards are files
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/indexed_tar.ipp>
#endif

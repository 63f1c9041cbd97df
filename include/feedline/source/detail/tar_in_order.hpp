// SPDX-License-Identifier: MIT
#pragma once
// Reads TAR shards one after another: mapped, compressed or from an object store.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class shard_objects;
class tar_names;

/// The samples of shards, one shard after another.
class tar_in_order {
 public:
  /// The shards in listed order.
  const std::vector<std::string>& shards() const noexcept { return files_.names(); }

  void start_epoch(const epoch& e);

  std::optional<tar_sample> next();

  void state(auto& archive) {
    tar_place now = place();
    files_.state(archive);
    archive(now);
    if (!shard_) place_ = std::move(now);
  }

  /// Opens the current shard at the saved place, or reads up to it.
  void resumed();

  void seek(std::uint64_t index);

  /// The shards and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  /// Of the options and of the shards' names, sizes and contents or, for objects, versions. Throws if the store can't say
  /// which version an object has, also after a stop, and outage_error.
  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const;

  /// The index of the last sample that next() returned, or for which it threw.
  std::uint64_t index() const noexcept { return index_; }

  /// The sample object and, if it may come from an object or a compressed shard, its data.
  std::optional<std::size_t> max_item_bytes() const noexcept;

  /// The parts of objects that are requested ahead, and what decompressing and looking for members that aren't
  /// neighbours take.
  std::size_t bytes_held() const;

  /// "photos-0003.tar: dir/17.jpg, .cls", found by reading the shard's headers again, or a compressed shard; "photos-0003.tar:
  /// sample #17" if that fails, and for objects.
  std::string origin(std::uint64_t index) const;

 protected:
  tar_in_order(file_order files, tar_shards opener);

  // A copy opens the current shard again and continues at its position.
  tar_in_order(const tar_in_order& other);

  tar_in_order(tar_in_order&&) noexcept;
  tar_in_order& operator=(const tar_in_order& other);
  tar_in_order& operator=(tar_in_order&&) noexcept;
  ~tar_in_order();

  const tar_settings& settings() const noexcept { return opener_.settings(); }

  /// Null if all shards are files.
  const std::shared_ptr<shard_objects>& objects() const noexcept { return opener_.objects(); }

  /// Whether next() would return a sample, or end the epoch, without waiting for an object.
  bool is_ready() const { return opener_.ready(files_, shard_.get()); }

 private:
  tar_place place() const { return shard_ ? shard_->place() : place_; }

  file_order files_;
  tar_shards opener_;
  std::unique_ptr<open_tar_shard> shard_; // the current shard
  std::size_t number_ = 0;                // of the current shard in the list
  std::uint64_t index_ = 0;
  tar_place place_; // where to continue in the current shard after opening it again
  std::shared_ptr<tar_names> names_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/tar_in_order.ipp>
#endif

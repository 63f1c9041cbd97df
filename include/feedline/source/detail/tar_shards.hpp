// SPDX-License-Identifier: MIT
#pragma once
// Opens TAR shards that are files or objects, for tar_in_order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include <feedline/core/epoch.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_settings.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The opener for a shard that begins with these bytes; null for one that isn't compressed.
const text_opener* opener_for(const tar_settings& how, std::span<const std::byte> begin);

/// Decompresses a shard from its beginning.
std::unique_ptr<open_tar_shard> open_compressed(const std::shared_ptr<const mapped_file>& file,
                                                const text_opener& opener, const tar_settings& how,
                                                const std::stop_token& stop);

/// Maps shards that are files, and reads them ahead; opens objects. Compressed ones are read from their beginning,
/// also to continue in the middle.
class tar_shards {
 public:
  using shard = open_tar_shard;

  /// `objects`: null if all shards are files.
  tar_shards(std::shared_ptr<shard_objects> objects, tar_settings how);

  // A copy requests its own parts.
  tar_shards(const tar_shards& other);

  tar_shards(tar_shards&&) noexcept = default;

  tar_shards& operator=(tar_shards&&) noexcept = default;

  ~tar_shards() = default;

  /// To be called at the start of an epoch.
  void start(const epoch& e);

  /// Opens a shard at that place if that is possible and `from` is open, otherwise at its beginning.
  std::unique_ptr<shard> open(const file_order& files, std::size_t number, const tar_place& from);

  /// To be called after each sample.
  void yielded_sample(const file_order& files, const shard& from);

  /// Whether a stop may have cut the shard off: not one that is mapped.
  bool is_stopped() const noexcept;

  const std::shared_ptr<shard_objects>& objects() const noexcept { return objects_; }

  const tar_settings& settings() const noexcept { return how_; }

  /// Whether `open` (null: none), and then the shards after it, would yield a sample without waiting for an object.
  bool ready(const file_order& files, const shard* open) const;

 private:
  std::shared_ptr<shard_objects> objects_;
  tar_settings how_;
  std::stop_token stop_;
  std::shared_ptr<const mapped_file> file_; // the file that was opened last
  read_ahead files_ahead_;
  std::shared_ptr<objects_in_order> objects_in_order_;
  bool is_object_ = false;        // the shard that was opened last
  bool is_compressed_ = false;    // that shard
  std::uint64_t last_offset_ = 0; // where its last sample ends
  std::uint64_t last_bytes_ = 0;  // of that sample
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/tar_shards.ipp>
#endif

// SPDX-License-Identifier: MIT
#pragma once
// Opens TAR shards that are files or objects, for tar_in_order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <variant>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/object_ahead.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/object_stream.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

using object_archive = basic_stream_archive<object_stream>;
using object_shard = basic_tar_shard<object_archive>;
using tar_globals = std::shared_ptr<const std::vector<tar_global>>;

/// Reads the headers at these offsets of an object, as far as they are what they were. Throws tar_error.
tar_globals read_tar_globals(const std::shared_ptr<object_list>& objects, std::size_t number,
                             const std::vector<std::uint64_t>& offsets, std::size_t most_bytes,
                             const std::stop_token& stop);

/// The samples of a shard that is a file or an object.
class any_tar_shard {
 public:
  template <class Shard, class... Arguments>
  explicit any_tar_shard(std::in_place_type_t<Shard> type, Arguments&&... arguments)
      : shard_(type, std::forward<Arguments>(arguments)...) {}

  std::optional<tar_sample> next();

  std::uint64_t position() const noexcept;

  std::uint64_t begin() const noexcept;

  tar_place place() const;

  /// Null if it is a file.
  const object_shard* object() const noexcept;

 private:
  std::variant<tar_shard, object_shard> shard_;
};

/// Maps shards that are files, and requests objects in parts; reads both ahead.
class tar_shards {
 public:
  using shard = any_tar_shard;

  /// `objects`: null if all shards are files.
  tar_shards(std::shared_ptr<object_list> objects, tar_settings how);

  // A copy requests its own parts.
  tar_shards(const tar_shards& other);

  tar_shards(tar_shards&&) noexcept = default;

  tar_shards& operator=(tar_shards&&) noexcept = default;

  ~tar_shards() = default;

  void start(const epoch& e);

  std::unique_ptr<shard> open(const file_order& files, std::size_t number, const tar_place& from);

  void yielded_sample(const file_order& files, const shard& from) {
    if (!is_object_) [[likely]]
      return files_ahead_.announce(files, file_, from.begin());
    last_bytes_ = from.begin() - std::exchange(last_begin_, from.begin());
  }

  /// Whether a stop may have cut the shard off: not one that is mapped.
  bool is_stopped() const noexcept;

  const std::shared_ptr<object_list>& objects() const noexcept { return objects_; }

  const tar_settings& settings() const noexcept { return how_; }

  /// Whether `open` (null: none), and then the shards after it, would yield a sample without waiting for an object.
  bool ready(const file_order& files, const shard* open) const;

 private:
  std::unique_ptr<shard> open_object(const file_order& files, std::size_t number, const tar_place& from);

  std::shared_ptr<object_list> objects_;
  tar_settings how_;
  std::stop_token stop_;
  std::shared_ptr<const mapped_file> file_; // the file that was opened last
  read_ahead files_ahead_;
  std::shared_ptr<object_ahead> objects_ahead_;
  bool is_object_ = false;       // the shard that was opened last
  std::uint64_t last_begin_ = 0; // where its last sample ends
  std::uint64_t last_bytes_ = 0; // of that sample
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/tar_shards.ipp>
#endif

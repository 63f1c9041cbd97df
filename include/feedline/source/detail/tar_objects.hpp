// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the samples of TAR shards in an object store: each is read as a range of its shard.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/object_shard.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/object_store.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The index of an object, and what its samples need besides.
struct object_index {
  tar_index samples;
  tar_globals globals{};
  std::shared_ptr<const named_version> version{};
};

/// Finds the samples of objects.
class object_indexer {
 public:
  object_indexer(std::shared_ptr<object_list> objects, tar_settings how, const std::stop_token& stop);

  /// The indices of all objects, by their numbers; many objects are read at once. Throws object_error after a stop, and
  /// outage_error.
  std::vector<object_index> all();

 private:
  static constexpr std::size_t step = 64 << 10; // bytes of a read

  // An object that can't be read has one sample, which is an error.
  object_index of(std::size_t number) const;

  // From an object SHARD.index, if there is one and it belongs to this version of the shard.
  std::optional<tar_index> kept(std::size_t number) const;

  // Offsets of an archive of that size.
  static bool is_ascending(const std::vector<std::uint64_t>& offsets, std::uint64_t bytes);

  // By a pass over the headers. Throws tar_error if they can't be read.
  tar_index scan(std::size_t number) const;

  std::shared_ptr<object_list> objects_;
  const tar_settings how_;
  const std::stop_token& stop_;
};

/// Reads samples of objects by their position. Any thread may use it.
class tar_objects {
 public:
  tar_objects(std::shared_ptr<object_list> objects, const tar_settings& how,
              std::vector<object_index> indices);

  // A copy has announced nothing.
  tar_objects(const tar_objects& other);

  tar_objects& operator=(const tar_objects&) = delete;

  ~tar_objects() = default;

  bool has(std::size_t number) const noexcept;

  const tar_index& index(std::size_t number) const noexcept;

  /// Throws the same tar_error as reading the shard in order would for this sample.
  tar_sample at(std::size_t number, std::size_t position, const std::stop_token& stop) const;

  /// Whether at() would return without waiting.
  bool ready(std::size_t number, std::size_t position) const;

  /// Begins to read a sample, unless too many bytes were announced and not yet read.
  void will_need(std::size_t number, std::size_t position) const;

 private:
  struct range {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t step; // bytes of each read

    bool is_one_read() const noexcept { return step >= end - begin; }

    std::size_t first_bytes() const noexcept {
      return static_cast<std::size_t>(std::min<std::uint64_t>(step, end - begin));
    }
  };

  struct announced_read {
    std::shared_ptr<object_read> read;
    std::size_t bytes = 0;
  };

  // What belongs to a sample: the next one's begin ends it. After the last one anything may follow, and a larger
  // range than a sample may have is not read into memory as a whole.
  range range_of(const tar_index& samples, std::size_t position) const;

  std::shared_ptr<object_read> take_announced(std::size_t number, std::size_t position) const;

  const std::shared_ptr<object_list> objects_;
  const tar_settings how_;
  const std::shared_ptr<const std::vector<object_index>> indices_;
  mutable std::mutex mutex_; // guards the members below
  mutable std::map<std::pair<std::size_t, std::size_t>, announced_read> announced_;
  mutable std::size_t announced_bytes_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/tar_objects.ipp>
#endif

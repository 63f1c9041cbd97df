// SPDX-License-Identifier: MIT
#pragma once
// Reads TAR shards one after another: mapped, compressed or from an object store.
#include <feedline/core/contract.hpp>
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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_index.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_in_order::tar_in_order(file_order files, tar_shards opener)
    : files_(std::move(files)),
      opener_(std::move(opener)),
      names_(std::make_shared<tar_names>(opener_.settings())) {}

FEEDLINE_INLINE tar_in_order::tar_in_order(tar_in_order&&) noexcept = default;
FEEDLINE_INLINE tar_in_order& tar_in_order::operator=(tar_in_order&&) noexcept = default;
FEEDLINE_INLINE tar_in_order::~tar_in_order() = default;

FEEDLINE_INLINE tar_in_order& tar_in_order::operator=(const tar_in_order& other) {
  return *this = tar_in_order(other);
}

FEEDLINE_INLINE tar_in_order::tar_in_order(const tar_in_order& other)
    : files_(other.files_),
      opener_(other.opener_),
      number_(other.number_),
      index_(other.index_),
      place_(other.place()),
      names_(other.names_) {}

FEEDLINE_INLINE void tar_in_order::start_epoch(const epoch& e) {
  files_.start(e);
  opener_.start(e);
  shard_.reset();
  place_ = {};
}

FEEDLINE_INLINE std::optional<tar_sample> tar_in_order::next() {
  if (place_.is_open()) resumed();
  for (;;) {
    if (!shard_) {
      const auto file = files_.next();
      if (!file) return {};
      number_ = *file;
      index_ = files_.index_of(number_, 0);
      shard_ = opener_.open(files_, number_, {});
    }
    const std::uint64_t last = std::exchange(index_, files_.index_of(number_, shard_->position()));
    std::optional<tar_sample> sample;
    try {
      sample = shard_->next();
    } catch (const tar_error&) {
      if (opener_.is_stopped()) return {}; // the stop may have cut the shard off
      throw;
    } catch (...) {
      // Only this sample is lost; but after an outage, nothing is known about the rest of the shard.
      if (is_outage(std::current_exception())) shard_.reset();
      throw;
    }
    if (sample) {
      opener_.yielded_sample(files_, *shard_);
      return sample;
    }
    index_ = last;
    shard_.reset();
  }
}

FEEDLINE_INLINE void tar_in_order::resumed() {
  const tar_place from = std::exchange(place_, {});
  if (!from.is_open()) return;
  number_ = files_.last();
  shard_ = opener_.open(files_, number_, from);
  while (shard_->position() < from.position) {
    try {
      if (!shard_->next()) break;
    } catch (const tar_error&) { // was thrown before the checkpoint
    }
  }
}

FEEDLINE_INLINE void tar_in_order::seek(std::uint64_t index) {
  const std::size_t number = file_order::file_of(index);
  if (shard_ && number_ == number && shard_->position() <= file_order::place_of(index)) return;
  files_.go_to(number);
  shard_.reset();
  place_ = {};
}

FEEDLINE_INLINE std::uint64_t tar_in_order::fingerprint(std::uint64_t extent,
                                                        const std::stop_token& stop) const {
  return settings().fingerprint(objects() ? objects()->fingerprint(extent, stop)
                                          : files_.fingerprint(extent));
}

FEEDLINE_INLINE std::optional<std::size_t> tar_in_order::max_item_bytes() const noexcept {
  return sizeof(tar_sample) + (objects() || !settings().decompress.empty() ? settings().max_sample_bytes : 0);
}

FEEDLINE_INLINE std::size_t tar_in_order::bytes_held() const {
  return (objects() ? objects()->bytes_ahead() : 0) + settings().bytes_held();
}

FEEDLINE_INLINE std::string tar_in_order::origin(std::uint64_t index) const {
  const std::string name = files_.name_of(index);
  const bool is_file = !name.empty() && !(objects() && objects()->has(file_order::file_of(index)));
  return files_.origin_of(index, is_file ? names_->at(name, file_order::place_of(index)) : std::string());
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

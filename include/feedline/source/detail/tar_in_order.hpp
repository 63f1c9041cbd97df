// SPDX-License-Identifier: MIT
#pragma once
// Reads TAR shards one after another: mapped, compressed or from an object store.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The samples of shards, one shard after another. `Opener` has the type of a shard, `Opener::shard`, and
/// - `void start(const epoch&)`, called at the start of an epoch;
/// - `std::unique_ptr<shard> open(const file_order&, std::size_t number, const tar_place& from)`: from there if that is
///   possible and `from` is open, otherwise from its beginning;
/// - `void yielded_sample(const file_order&, const shard&)`, called after each sample;
/// - `bool is_stopped() const`: whether a stop may have cut a shard off.
template <class Opener>
class tar_in_order {
 public:
  /// The shards in listed order.
  const std::vector<std::string>& shards() const noexcept { return files_.names(); }

  void start_epoch(const epoch& e) {
    files_.start(e);
    opener_.start(e);
    shard_.reset();
    place_ = {};
  }

  std::optional<tar_sample> next() {
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

  void state(auto& archive) {
    tar_place now = place();
    files_.state(archive);
    archive(now);
    if (!shard_) place_ = std::move(now);
  }

  /// Opens the current shard at the saved place, or reads up to it.
  void resumed() {
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

  void seek(std::uint64_t index) {
    const std::size_t number = file_order::file_of(index);
    if (shard_ && number_ == number && shard_->position() <= file_order::place_of(index)) return;
    files_.go_to(number);
    shard_.reset();
    place_ = {};
  }

  /// The shards and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return files_.fingerprint(extent); }

  /// The index of the last sample that next() returned, or for which it threw.
  std::uint64_t index() const noexcept { return index_; }

 protected:
  tar_in_order(file_order files, Opener opener) : files_(std::move(files)), opener_(std::move(opener)) {}

  // A copy opens the current shard again and continues at its position.
  tar_in_order(const tar_in_order& other)
      : files_(other.files_),
        opener_(other.opener_),
        number_(other.number_),
        index_(other.index_),
        place_(other.place()) {}

  tar_in_order(tar_in_order&&) noexcept = default;

  tar_in_order& operator=(const tar_in_order& other) { return *this = tar_in_order(other); }

  tar_in_order& operator=(tar_in_order&&) noexcept = default;

  ~tar_in_order() = default;

  const Opener& opener() const noexcept { return opener_; }

  /// The shard that next() goes on with; null if it opens the next one.
  const typename Opener::shard* shard() const noexcept { return shard_.get(); }

 private:
  tar_place place() const { return shard_ ? shard_->place() : place_; }

  file_order files_;
  Opener opener_;
  std::unique_ptr<typename Opener::shard> shard_; // the current shard
  std::size_t number_ = 0;                        // of the current shard in the list
  std::uint64_t index_ = 0;
  tar_place place_; // where to continue in the current shard after opening it again
};

} // namespace feedline::inline FEEDLINE_ABI::detail

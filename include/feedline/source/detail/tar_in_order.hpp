// SPDX-License-Identifier: MIT
#pragma once
// Reads TAR shards one after another, whatever way each is read.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0::detail {

/// The samples of shards, one shard after another. `Opener` says what a shard is, `Opener::shard`, and has
/// - `void start(const epoch&)`: an epoch begins;
/// - `std::unique_ptr<shard> open(const file_order&, std::size_t number)`;
/// - `void gave_sample(const file_order&, const shard&)`;
/// - `bool is_stopped() const`: a stop may have made a shard end.
template <class Opener>
class tar_in_order {
 public:
  /// The shards in listed order.
  const std::vector<std::string>& shards() const noexcept { return files_.names(); }

  void start_epoch(const epoch& e) {
    files_.start(e);
    opener_.start(e);
    shard_.reset();
    to_position_ = closed;
  }

  std::optional<tar_sample> next() {
    if (to_position_ != closed) resumed();
    for (;;) {
      if (!shard_) {
        const auto file = files_.next();
        if (!file) return {};
        number_ = *file;
        index_ = files_.index_of(number_, 0);
        shard_ = opener_.open(files_, number_);
      }
      const std::uint64_t last = std::exchange(index_, files_.index_of(number_, shard_->position()));
      std::optional<tar_sample> sample;
      try {
        sample = shard_->next();
      } catch (const tar_error&) {
        if (opener_.is_stopped()) return {}; // which may have cut it off
        throw;
      }
      if (sample) {
        opener_.gave_sample(files_, *shard_);
        return sample;
      }
      index_ = last;
      shard_.reset();
    }
  }

  void state(auto& archive) {
    std::uint64_t position = this->position();
    files_.state(archive);
    archive(position);
    if (!shard_) to_position_ = position;
  }

  /// Reads the shard that was being read up to where that was.
  void resumed() {
    const std::uint64_t position = std::exchange(to_position_, closed);
    if (position == closed) return;
    number_ = files_.last();
    shard_ = opener_.open(files_, number_);
    while (shard_->position() < position) {
      try {
        if (!shard_->next()) break;
      } catch (const tar_error&) { // was told before
      }
    }
  }

  void go_near(std::uint64_t index) {
    const std::size_t number = file_order::file_of(index);
    if (shard_ && number_ == number && shard_->position() <= file_order::place_of(index)) return;
    files_.go_to(number);
    shard_.reset();
    to_position_ = closed;
  }

  /// In which order its shards come.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return files_.fingerprint(extent); }

  /// The index of the sample that next() gave last, or in whose place it threw.
  std::uint64_t index() const noexcept { return index_; }

 protected:
  tar_in_order(file_order files, Opener opener) : files_(std::move(files)), opener_(std::move(opener)) {}

  // A copy opens the shard again, where it goes on.
  tar_in_order(const tar_in_order& other)
      : files_(other.files_),
        opener_(other.opener_),
        number_(other.number_),
        index_(other.index_),
        to_position_(other.position()) {}

  tar_in_order(tar_in_order&&) noexcept = default;

  tar_in_order& operator=(const tar_in_order& other) { return *this = tar_in_order(other); }

  tar_in_order& operator=(tar_in_order&&) noexcept = default;

  ~tar_in_order() = default;

 private:
  static constexpr std::uint64_t closed = ~std::uint64_t{0};

  std::uint64_t position() const noexcept { return shard_ ? shard_->position() : to_position_; }

  file_order files_;
  Opener opener_;
  std::unique_ptr<typename Opener::shard> shard_; // the one being read
  std::size_t number_ = 0;                        // of that one, as listed
  std::uint64_t index_ = 0;
  std::uint64_t to_position_ = closed; // in the file given last, where that is to be opened again
};

} // namespace feedline::inline v0::detail

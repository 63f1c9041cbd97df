// SPDX-License-Identifier: MIT
#pragma once
// The files of a source: which one comes next, and how their samples are numbered.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/random.hpp>
#include <feedline/detail/file_patterns.hpp>

namespace feedline::detail {

/// Lists files once; goes through them in listed order or, in an epoch that is shuffled, in a keyed one.
/// The index of a sample is `number of its file << 40 | place in the file`, files counted in listed order.
class file_order {
 public:
  /// Throws std::runtime_error for wildcards that match nothing, std::length_error for more than 2^24 files.
  explicit file_order(const std::vector<std::string>& patterns) {
    std::vector<std::string> names;
    for (const std::string& pattern : patterns) {
      append_files(names, pattern);
      if (names.size() > most_files) too_many_files(pattern);
    }
    names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
  }

  void start(const epoch& e) {
    order_.clear();
    reached_ = 0;
    if (!e.shuffled) return;
    for (std::uint32_t i = 0; i < names_->size(); ++i) order_.push_back(i);
    shuffle_range(order_.begin(), order_.size(), random_generator(key(e.seed, e.number)));
  }

  /// The number of the next file; nothing behind the last one.
  std::optional<std::size_t> next() {
    if (reached_ == names_->size()) return std::nullopt;
    const std::size_t place = reached_++;
    return order_.empty() ? place : order_[place];
  }

  const std::vector<std::string>& names() const noexcept { return *names_; }

  static std::uint64_t index_of(std::size_t file, std::uint64_t place) noexcept {
    return std::uint64_t{file} << place_bits | place;
  }

  static std::size_t file_of(std::uint64_t index) noexcept {
    return static_cast<std::size_t>(index >> place_bits);
  }

  static std::uint64_t place_of(std::uint64_t index) noexcept {
    return index & ((std::uint64_t{1} << place_bits) - 1);
  }

  /// The name of the file that a sample is in; empty for an index that none has.
  std::string name_of(std::uint64_t index) const {
    return file_of(index) < names_->size() ? (*names_)[file_of(index)] : std::string();
  }

 private:
  static constexpr unsigned place_bits = 40;

  std::shared_ptr<const std::vector<std::string>> names_;
  std::vector<std::uint32_t> order_; // empty: as listed
  std::size_t reached_ = 0;
};

/// Samples counted through all files in listed order: in which file a place is, and the index of its sample.
class places_in_files {
 public:
  /// The next file has so many.
  void add_file(std::uint64_t samples) { firsts_.push_back(size() + samples); }

  std::uint64_t size() const noexcept { return firsts_.back(); }

  std::size_t file_of(std::uint64_t place) const {
    return static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), place) -
                                    firsts_.begin()) -
           1;
  }

  /// The first place of a file.
  std::uint64_t first_of(std::size_t file) const { return firsts_[file]; }

  std::uint64_t index_at(std::uint64_t place) const {
    const std::size_t file = file_of(place);
    return file_order::index_of(file, place - firsts_[file]);
  }

 private:
  std::vector<std::uint64_t> firsts_{0}; // of each file; then the number of all
};

} // namespace feedline::detail

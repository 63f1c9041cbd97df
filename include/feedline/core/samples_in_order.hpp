// SPDX-License-Identifier: MIT
#pragma once
// The source made from a class that has only size() and at().
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Yields the samples in order of position.
template <only_indexed D>
class samples_in_order {
 public:
  static constexpr source_traits traits = source_traits_of<D>();

  explicit samples_in_order(D samples) : samples_(std::move(samples)) {}

  void start_epoch(const epoch& e) {
    stop_ = e.stop;
    size_ = samples_.size();
    if constexpr (requires { samples_.size_of_first(e.extent); }) size_ = samples_.size_of_first(e.extent);
    else if constexpr (!requires { samples_.extent(); }) size_ = std::min(size_, e.extent);
  }

  /// Passes over a sample. False at the end.
  bool advance() { return next_ < size_ && (++next_, true); }

  // The position advances before the sample is read, so that a failed sample isn't read again.
  auto next() -> std::optional<std::decay_t<decltype(std::declval<const D&>().at(0))>> {
    if (!advance()) return std::nullopt;
    if (next_ < size_) announce_sample(samples_, next_);
    return sample_at(samples_, next_ - 1, stop_);
  }

  std::uint64_t index() const { return index_at(samples_, next_ - 1); }

  void skip(std::uint64_t count) { next_ += std::min(count, size_ - next_); }

  void seek(std::uint64_t index) { next_ = find_index(samples_, index).value_or(size_); }

  D indexed() const { return samples_; }

  std::uint64_t extent() const {
    if constexpr (requires { samples_.extent(); }) return samples_.extent();
    else return samples_.size();
  }

  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop = {}) const {
    const std::uint64_t own = fingerprint_of(samples_, extent, stop);
    return own != 0 ? own : extent;
  }

  std::optional<std::size_t> max_item_bytes() const {
    if constexpr (requires { samples_.max_item_bytes(); }) return samples_.max_item_bytes();
    else return std::nullopt;
  }

  std::string origin(std::uint64_t index) const {
    if constexpr (requires { samples_.origin(index); }) return samples_.origin(index);
    else return {};
  }

 private:
  D samples_;
  std::uint64_t next_ = 0; // position
  std::uint64_t size_ = 0; // number of samples in the epoch
  std::stop_token stop_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

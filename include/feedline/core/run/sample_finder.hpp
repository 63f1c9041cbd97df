// SPDX-License-Identifier: MIT
#pragma once
// Finds samples of an epoch again: those that stages held at a checkpoint, or one to replay.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A wanted sample, and how many times it is wanted.
struct wanted_sample {
  std::uint64_t index;
  std::uint32_t repetition;
  std::size_t often;

  bool is(std::uint64_t i, std::uint32_t r) const noexcept { return index == i && repetition == r; }
};

/// The held samples by epoch, with ascending indices. A sample that was held several times is wanted as often.
std::map<std::uint32_t, std::vector<wanted_sample>> wanted_by_epoch(std::vector<sample_id> ids);

/// Yields the wanted samples of one epoch, in any order, to any number of threads.
template <source Source>
class sample_finder {
 public:
  using item = source_item_t<Source>;

  /// `source` must have started the epoch. `wanted` is sorted by index. The finder gives up after `most_others`
  /// unwanted samples in a row, as the source may never end.
  sample_finder(Source source, std::vector<wanted_sample> wanted, std::uint32_t epoch,
                const std::atomic<bool>& stopped, std::uint64_t most_others = ~std::uint64_t{0})
      : source_(std::move(source)),
        wanted_(std::move(wanted)),
        left_(wanted_.size()),
        epoch_(epoch),
        stopped_(stopped),
        most_others_(most_others) {}

  /// Returns the next wanted sample; nothing if there are no more, or if the run was stopped. Leaves out
  /// samples that can't be read: it calls `failed(id)` while their exception is being handled, which may rethrow it.
  template <class Failed>
  std::optional<sample<item>> next(Failed failed) {
    if constexpr (dealt_source<Source>) return next_by_place(failed);
    else if constexpr (can_seek<Source>) return next_nearby(failed);
    else return next_in_order(failed);
  }

  /// Why it gave up, such as "has yielded 100 million other samples"; null if it didn't.
  const char* gave_up() const noexcept { return gave_up_; }

 private:
  static constexpr std::uint64_t most_failures = 100'000; // in a row

  bool is_stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  // The position in wanted_ of the next sample to find; nothing if all were found.
  std::optional<std::size_t> take_wanted() {
    while (at_ < wanted_.size() && wanted_[at_].often == 0) ++at_;
    if (at_ == wanted_.size() || is_stopped()) return std::nullopt;
    --wanted_[at_].often;
    return at_;
  }

  // Several threads read at the same time.
  template <class Failed>
  std::optional<sample<item>> next_by_place(Failed& failed) {
    for (;;) {
      sample_id id{.epoch = epoch_};
      {
        const std::lock_guard lock(mutex_);
        const auto wanted = take_wanted();
        if (!wanted) return std::nullopt;
        id.index = wanted_[*wanted].index;
        id.repetition = wanted_[*wanted].repetition;
      }
      try {
        const Source& source = source_;
        if (const auto place = source.find(id.index)) return sample<item>{source.sample_at(*place), id};
      } catch (...) {
        failed(id);
      }
    }
  }

  template <class Failed>
  std::optional<sample<item>> next_nearby(Failed& failed) {
    const std::lock_guard lock(mutex_);
    while (const auto wanted = take_wanted()) {
      const wanted_sample& w = wanted_[*wanted];
      try {
        seek_sample(source_, w.index, w.repetition);
        if (auto found =
                read_until([&](const sample_id& id) { return w.is(id.index, id.repetition); }, failed))
          return found;
        wanted_[*wanted].often = 0;
      } catch (...) { // its file can't be read
        failed({.epoch = epoch_});
      }
    }
    return std::nullopt;
  }

  template <class Failed>
  std::optional<sample<item>> next_in_order(Failed& failed) {
    const std::lock_guard lock(mutex_);
    if (left_ == 0) return std::nullopt;
    return read_until(
        [&](const sample_id& id) {
          const auto found = std::lower_bound(
              wanted_.begin(), wanted_.end(), id, [](const wanted_sample& w, const sample_id& i) {
                return std::pair(w.index, w.repetition) < std::pair(i.index, i.repetition);
              });
          if (found == wanted_.end() || !found->is(id.index, id.repetition) || found->often == 0)
            return false;
          left_ -= --found->often == 0;
          return true;
        },
        failed);
  }

  template <class IsWanted, class Failed>
  std::optional<sample<item>> read_until(IsWanted is_wanted, Failed& failed) {
    std::uint64_t others = 0, failures = 0; // those in a row
    while (!gave_up_ && !is_stopped()) {
      try {
        auto value = source_.next();
        if (!value) break;
        const sample_id id = id_of(source_, given_++, epoch_);
        failures = 0;
        if (is_wanted(id)) return sample<item>{std::move(*value), id};
        if (++others == most_others_) gave_up_ = "has yielded 100 million other samples";
      } catch (...) { // an unwanted sample, or one that can't be read
        if (++failures == most_failures) gave_up_ = "has failed 100,000 times in a row";
        failed({.epoch = epoch_});
      }
    }
    return std::nullopt;
  }

  Source source_;
  std::mutex mutex_; // guards the members below and, except in next_by_place(), the source
  std::vector<wanted_sample> wanted_;
  std::size_t left_;   // indices of which samples are still wanted
  std::size_t at_ = 0; // position in wanted_
  std::uint32_t epoch_;
  std::uint64_t given_ = 0;
  const std::atomic<bool>& stopped_;
  std::uint64_t most_others_;
  const char* gave_up_ = nullptr;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/sample_finder.ipp>
#endif

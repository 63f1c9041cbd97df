// SPDX-License-Identifier: MIT
#pragma once
// Finds samples of an epoch again: those that stages held at a checkpoint, or one to replay.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/detail/share.hpp>

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

/// Yields the wanted samples of one epoch of any source of such items, in any order, to any number of threads.
template <class Item>
class item_finder {
 public:
  virtual ~item_finder() = default;

  /// Called while the exception of a sample that can't be read is being handled, which it may rethrow.
  using if_failed = function_ref<void(const sample_id& id)>;

  /// Returns the next wanted sample; nothing if there are no more, or if the run was stopped. Leaves out samples that can't be
  /// read.
  virtual std::optional<sample<Item>> next(if_failed failed) = 0;

  /// Why it gave up, such as "has yielded 100 million other samples"; null if it didn't.
  const char* gave_up() const noexcept { return gave_up_; }

 protected:
  const char* gave_up_ = nullptr;
};

template <source Source>
class sample_finder final : public item_finder<source_item_t<Source>> {
 public:
  using item = source_item_t<Source>;
  using typename item_finder<item>::if_failed;

  /// `wanted` is sorted by index.
  sample_finder(const Source& described, const epoch& e, std::vector<wanted_sample> wanted,
                const std::atomic<bool>& stopped)
      : source_(described),
        wanted_(std::move(wanted)),
        left_(wanted_.size()),
        epoch_(e.number),
        stopped_(stopped) {
    start_source(source_, e);
  }

  std::optional<sample<item>> next(if_failed failed) override {
    if constexpr (dealt_source<Source>) {
      return next_by_place(failed);
    } else {
      if constexpr (can_seek<Source>)
        if (seeks(source_)) return next_nearby(failed);
      return next_in_order(failed);
    }
  }

 private:
  using item_finder<item>::gave_up_;

  static constexpr std::uint64_t most_failures = 100'000;   // in a row
  static constexpr std::uint64_t most_others = 100'000'000; // in a row, as the source may never end

  bool is_stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  // The position in wanted_ of the next sample to find; nothing if all were found.
  std::optional<std::size_t> take_wanted() {
    while (at_ < wanted_.size() && wanted_[at_].often == 0) ++at_;
    if (at_ == wanted_.size() || is_stopped()) return std::nullopt;
    --wanted_[at_].often;
    return at_;
  }

  // Several threads read at the same time.
  std::optional<sample<item>> next_by_place(if_failed failed) {
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

  std::optional<sample<item>> next_nearby(if_failed failed) {
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

  std::optional<sample<item>> next_in_order(if_failed failed) {
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

  template <class IsWanted>
  std::optional<sample<item>> read_until(IsWanted is_wanted, if_failed failed) {
    std::uint64_t others = 0, failures = 0; // those in a row
    while (!gave_up_ && !is_stopped()) {
      try {
        auto value = source_.next();
        if (!value) break;
        const sample_id id = id_of(source_, given_++, epoch_);
        failures = 0;
        if (is_wanted(id)) return sample<item>{std::move(*value), id};
        if (++others == most_others) gave_up_ = "has yielded 100 million other samples";
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
};

/// The samples of an epoch of the source.
template <class Source, class Item>
std::shared_ptr<item_finder<Item>> find_samples(const void* source, const epoch& e,
                                                std::vector<wanted_sample> wanted,
                                                const std::atomic<bool>& stopped) {
  return owned<item_finder<Item>>(
      new sample_finder<Source>(*static_cast<const Source*>(source), e, std::move(wanted), stopped));
}

template <class Item>
using start_search = std::shared_ptr<item_finder<Item>> (*)(const void* source, const epoch& e,
                                                            std::vector<wanted_sample> wanted,
                                                            const std::atomic<bool>& stopped);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <tuple>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::map<std::uint32_t, std::vector<wanted_sample>>
wanted_by_epoch(std::vector<sample_id> ids) {
  const auto by_sample = [](const sample_id& id) {
    return std::tuple(id.epoch, id.index, id.repetition, id.sub_index);
  };
  std::sort(ids.begin(), ids.end(),
            [&](const sample_id& a, const sample_id& b) { return by_sample(a) < by_sample(b); });
  std::map<std::uint32_t, std::vector<wanted_sample>> all;
  std::size_t same = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    same = i > 0 && ids[i] == ids[i - 1] ? same + 1 : 1;
    std::vector<wanted_sample>& of_epoch = all[ids[i].epoch];
    if (of_epoch.empty() || !of_epoch.back().is(ids[i].index, ids[i].repetition))
      of_epoch.push_back({ids[i].index, ids[i].repetition, 0});
    of_epoch.back().often = std::max(of_epoch.back().often, same);
  }
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

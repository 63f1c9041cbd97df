// SPDX-License-Identifier: MIT
#pragma once
// Samples of an epoch that are wanted once more: those that stages held when a run was left, or one to replay.
#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/source.hpp>

namespace feedline::inline v0::detail {

/// A sample that is wanted, so many times.
struct wanted_index {
  std::uint64_t index;
  std::size_t often;
};

/// Samples that were held, epoch by epoch, by rising index. Of one that was held several times as the same, all are
/// wanted.
inline std::map<std::uint32_t, std::vector<wanted_index>> indices_of(std::vector<sample_id> ids) {
  const auto by_sample = [](const sample_id& id) { return std::tuple(id.epoch, id.index, id.part); };
  std::sort(ids.begin(), ids.end(),
            [&](const sample_id& a, const sample_id& b) { return by_sample(a) < by_sample(b); });
  std::map<std::uint32_t, std::vector<wanted_index>> all;
  std::size_t same = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    same = i > 0 && ids[i] == ids[i - 1] ? same + 1 : 1;
    std::vector<wanted_index>& of_epoch = all[ids[i].epoch];
    if (of_epoch.empty() || of_epoch.back().index != ids[i].index) of_epoch.push_back({ids[i].index, 0});
    of_epoch.back().often = std::max(of_epoch.back().often, same);
  }
  return all;
}

/// Gives the samples of one epoch that are wanted, in any order, to any number of threads.
template <source Source>
class sample_finder {
 public:
  using item = source_item_t<Source>;

  /// `source` has started the epoch. `wanted`: by rising index. It gives up before a sample that is wanted behind so
  /// many others in a row, as the source may never end.
  sample_finder(Source source, std::vector<wanted_index> wanted, std::uint32_t epoch,
                const std::atomic<bool>& stopped, std::uint64_t most_others = ~std::uint64_t{0})
      : source_(std::move(source)),
        wanted_(std::move(wanted)),
        left_(wanted_.size()),
        epoch_(epoch),
        stopped_(stopped),
        most_others_(most_others) {}

  /// The next one. Nothing: there are no more, or the run was stopped. What can't be had is left out; `failed(id)` is
  /// called while its error is being handled.
  template <class Failed>
  std::optional<sample<item>> next(Failed failed) {
    if constexpr (dealt_source<Source>) return next_by_place(failed);
    else if constexpr (requires(Source& s) { s.go_near(epoch_); }) return next_nearby(failed);
    else return next_in_order(failed);
  }

  /// Null, or why it gave up: "has given 100 million others".
  const char* gave_up() const noexcept { return gave_up_; }

 private:
  static constexpr std::uint64_t most_failures = 100'000; // in a row

  bool is_stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }

  // The place in wanted_ that is to be found next. Nothing: all were.
  std::optional<std::size_t> take_wanted() {
    while (at_ < wanted_.size() && wanted_[at_].often == 0) ++at_;
    if (at_ == wanted_.size() || is_stopped()) return std::nullopt;
    --wanted_[at_].often;
    return at_;
  }

  // Its threads read at once.
  template <class Failed>
  std::optional<sample<item>> next_by_place(Failed& failed) {
    for (;;) {
      sample_id id{.epoch = epoch_};
      {
        const std::lock_guard lock(mutex_);
        const auto wanted = take_wanted();
        if (!wanted) return std::nullopt;
        id.index = wanted_[*wanted].index;
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
      const std::uint64_t index = wanted_[*wanted].index;
      try {
        source_.go_near(index);
        if (auto found = read_until([&](std::uint64_t i) { return i == index; }, failed)) return found;
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
        [&](std::uint64_t index) {
          const auto found =
              std::lower_bound(wanted_.begin(), wanted_.end(), index,
                               [](const wanted_index& w, std::uint64_t i) { return w.index < i; });
          if (found == wanted_.end() || found->index != index || found->often == 0) return false;
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
        const std::uint64_t index = index_of(source_, given_++);
        failures = 0;
        if (is_wanted(index)) return sample<item>{std::move(*value), {index, 0, epoch_}};
        if (++others == most_others_) gave_up_ = "has given 100 million others";
      } catch (...) { // a sample that nobody wants, or that can't be had
        if (++failures == most_failures) gave_up_ = "has failed 100,000 times in a row";
        failed({.epoch = epoch_});
      }
    }
    return std::nullopt;
  }

  Source source_;
  std::mutex mutex_; // of what follows and, but for a source that deals places, of the source
  std::vector<wanted_index> wanted_;
  std::size_t left_;   // indices that some sample is still wanted of
  std::size_t at_ = 0; // of wanted_
  std::uint32_t epoch_;
  std::uint64_t given_ = 0;
  const std::atomic<bool>& stopped_;
  std::uint64_t most_others_;
  const char* gave_up_ = nullptr;
};

} // namespace feedline::inline v0::detail

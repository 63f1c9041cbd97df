// SPDX-License-Identifier: MIT
#pragma once
// join: a source of the items of several runs.
//
//     a run ───────▶ thread ─▶ [buffer] ─┐
//                                        ├─▶ a run
//     another run ─▶ thread ─▶ [buffer] ─┘
#include <atomic>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/live/detail/pump.hpp>
#include <feedline/queue/queue_status.hpp>
#include <feedline/source/push_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of join.
struct join_options {
  bool round_robin = false;  ///< yield an item of each run in turn; otherwise in arrival order
  std::size_t capacity = 16; ///< the most items of each run that wait in the buffer
  std::size_t max_item_bytes =
      0; ///< the most bytes of an item, for a memory_budget if its type doesn't limit them; 0: unknown
};

/// A source of the items of several runs. It serves one run, whose end stops the upstream runs.
///
/// Gives:   the items of all upstream runs; the stream ends when all of them have, also in infinite mode
/// Throws:  what an upstream run throws, after the items before it, as a failure of the source. Then the
///          stream ends
/// Stops:   at once
/// Order:   each run's order is kept. Between runs it is the arrival order, or round robin among the runs
///          that have not ended. A run of it can't be resumed: its checkpoint() doesn't compile
template <class T>
class joined_runs {
 public:
  using feedline_part = void;
  static constexpr source_traits traits{.kind = "join", .live = true};

  /// For join().
  joined_runs(std::vector<any_loader<T>> runs, const join_options& options)
      : all_(std::make_shared<const all>(std::move(runs), options)) {}

  // Called by the run.

  std::shared_ptr<const void> in_run(const std::stop_token&) const {
    return std::make_shared<const detail::closing<T>>(all_->buffers);
  }

  void start_epoch(const epoch& e) {
    open_ = all_->buffers;
    for (push_source<T>& buffer : open_) buffer.start_epoch(e);
    stop_ = e.stop;
    in_run_ = in_run(stop_); // it wasn't called if the source is read without a run
    turn_ = 0;
  }

  bool ready() const { return open_.empty() || open_[turn_].ready(); }

  std::optional<T> next() {
    while (!open_.empty()) {
      if (std::optional<T> item = next_of_turn()) {
        turn_ = (turn_ + 1) % open_.size();
        return item;
      }
      if (stop_.stop_requested()) break;
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(turn_));
      if (turn_ == open_.size()) turn_ = 0;
    }
    return std::nullopt;
  }

  std::size_t items_held() const noexcept { return all_->capacity; }

  std::optional<std::size_t> max_item_bytes() const noexcept {
    return all_->buffers.front().max_item_bytes();
  }

 private:
  std::optional<T> next_of_turn() {
    try {
      return open_[turn_].next();
    } catch (...) {
      open_.clear();
      throw;
    }
  }

  // A buffer of several runs. It is closed when the last of them ends.
  class shared_buffer {
   public:
    shared_buffer(push_source<T> buffer, std::size_t users) : buffer_(std::move(buffer)), users_(users) {}

    void leave() {
      if (users_.fetch_sub(1) == 1) buffer_.close();
    }

   private:
    push_source<T> buffer_;
    std::atomic<std::size_t> users_;
  };

  struct all {
    all(std::vector<any_loader<T>> runs, const join_options& o) : capacity(o.capacity * runs.size()) {
      const std::size_t count = o.round_robin ? runs.size() : 1;
      const std::size_t room = o.round_robin ? o.capacity : capacity;
      for (std::size_t i = 0; i < count; ++i)
        buffers.emplace_back(push_options{.capacity = room, .max_item_bytes = o.max_item_bytes});
      const auto give = [](T&& item, std::span<push_source<T>> to) {
        return to.front().push(std::move(item)) != queue_status::closed;
      };
      const auto shared = std::make_shared<shared_buffer>(buffers.front(), runs.size());
      for (std::size_t i = 0; i < runs.size(); ++i) {
        const auto at_end = [shared, own = o.round_robin](std::span<push_source<T>> to,
                                                          const std::exception_ptr& error) {
          if (error) to.front().fail(error);
          else if (own) to.front().close();
          else shared->leave();
        };
        pumps.push_back(std::make_unique<detail::pump<T>>(std::move(runs[i]), std::vector{buffers[i % count]},
                                                          give, at_end));
      }
    }

    std::size_t capacity;
    std::vector<push_source<T>> buffers; // one for each run, or one for all
    std::vector<std::unique_ptr<detail::pump<T>>> pumps;
  };

  std::shared_ptr<const all> all_;
  std::vector<push_source<T>> open_; // buffers whose runs have not ended
  std::size_t turn_ = 0;
  std::stop_token stop_;
  std::shared_ptr<const void> in_run_;
};

/// Makes one source of several runs:
///
///     (fl::join({.round_robin = true}, fresh.infinite(), old.infinite()) | fl::batch(256)).infinite()
///
/// If the data can be read again, prefer `mix` or `concat`: they can be resumed.
///
/// Takes:   options; loaders whose items have the same type
/// Throws:  std::invalid_argument for a capacity of 0
template <class First, class... Rest>
auto join(const join_options& options, First first, Rest... rest) {
  using item = detail::loader_item<First>;
  static_assert(
      (std::same_as<item, detail::loader_item<Rest>> && ...),
      "feedline::join: the runs have items of different types: convert them to one type with a map");
  std::vector<any_loader<item>> all;
  all.emplace_back(std::move(first));
  (all.emplace_back(std::move(rest)), ...);
  return joined_runs<item>(std::move(all), options);
}

} // namespace feedline::inline FEEDLINE_ABI

// SPDX-License-Identifier: MIT
#pragma once
// broadcast, split: one run whose items several others read.
//
//                      ┌─▶ [buffer] ─▶ a run
//     a run ─▶ thread ─┤
//                      └─▶ [buffer] ─▶ another run
#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/parts.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/queue/queue_status.hpp>
#include <feedline/source/detail/pump.hpp>
#include <feedline/source/push_source.hpp>

namespace feedline::inline v0 {

/// A source of what broadcast() or split() give one of several pipelines, for one run.
///
/// Until that run begins, items wait in the branch's buffer; when it ends, or when all handles of the branch are gone, the
/// others go on without it. Once no branch wants more, the run that feeds them is stopped.
///
/// Gives:   items in the order of the run that feeds it; the stream ends when that does, also in infinite mode
/// Throws:  what that run throws, behind what it gave before, as a failure of the source
/// Stops:   at once
/// Order:   kept. A run of a branch can't be resumed: the compiler refuses its checkpoint()
template <class T>
class branch {
 public:
  static constexpr source_traits traits{.kind = "branch", .live = true};

  branch(push_source<T> buffer, std::shared_ptr<detail::pump<T>> upstream)
      : end_(std::make_shared<end>(std::move(buffer), std::move(upstream))) {}

  /// How many items were dropped so far as the buffer was full.
  std::uint64_t dropped() const { return end_->buffer.dropped(); }

  /// How many items wait in the buffer, about.
  std::size_t size_approx() const { return end_->buffer.size_approx(); }

  /// The metrics of the run that feeds all branches. From any thread.
  feedline::metrics upstream_metrics() const { return end_->upstream->metrics(); }

  // What follows is for the run.

  void start_epoch(const epoch& e) {
    source_.emplace(end_->buffer);
    source_->start_epoch(e);
    in_run_ = std::make_shared<const detail::closing<T>>(std::vector{*source_});
  }

  bool ready() const { return source_->ready(); }

  std::optional<T> next() { return source_->next(); }

  std::size_t items_held() const noexcept { return end_->buffer.items_held(); }

  std::optional<std::size_t> largest_item() const noexcept { return end_->buffer.largest_item(); }

 private:
  struct end {
    end(push_source<T> b, std::shared_ptr<detail::pump<T>> u)
        : buffer(std::move(b)), upstream(std::move(u)), at_end({buffer}) {}

    push_source<T> buffer;
    std::shared_ptr<detail::pump<T>> upstream;
    detail::closing<T> at_end; // of the last handle
  };

  std::shared_ptr<end> end_;
  std::optional<push_source<T>> source_; // of the run
  std::shared_ptr<const detail::closing<T>> in_run_;
};

namespace detail {

/// Branches that a loader feeds by `give`.
template <class Loader, class Give>
auto branches(Loader from, std::size_t count, const push_options& options, Give give) {
  using item = loader_item<Loader>;
  std::vector<push_source<item>> buffers;
  for (std::size_t i = 0; i < count; ++i) buffers.emplace_back(options);
  const auto close_all = [](std::span<push_source<item>> all, const std::exception_ptr& error) {
    for (push_source<item>& buffer : all) error ? buffer.fail(error) : buffer.close();
  };
  const auto upstream =
      std::make_shared<pump<item>>(any_loader<item>(std::move(from)), buffers, std::move(give), close_all);
  std::vector<branch<item>> all;
  for (push_source<item>& buffer : buffers) all.emplace_back(std::move(buffer), upstream);
  return all;
}

} // namespace detail

/// Gives `count` sources, each of which has every item of a run:
///
///     auto branches = fl::broadcast(decoded.infinite({.seed = 7}), 2);
///     auto train = (branches[0] | fl::batch(256)).infinite();
///     auto preview = (branches[1] | fl::map(thumbnail) | fl::prefetch(8)).infinite();
///
/// With `overflow::block` a branch that lags makes the others wait once its buffer is full; else it drops items. Where the
/// data can be read again, two pipelines over it don't wait for each other, and can be resumed.
///
/// Takes:   a loader whose items can be copied (let them be std::shared_ptr if copies cost too much); options of each
///          branch's buffer
/// Throws:  std::invalid_argument for no branches or a buffer without room
template <class Loader>
auto broadcast(Loader from, std::size_t count, const push_options& options = {}) {
  using item = detail::loader_item<Loader>;
  static_assert(std::copy_constructible<item>,
                "feedline::broadcast: the items that `Loader` gives can't be copied, and each branch needs "
                "its own: make them std::shared_ptr");
  if (count == 0) throw std::invalid_argument("feedline::broadcast: there must be at least one branch");
  detail::refuse_negative(count, "feedline::broadcast: the number of branches");
  return detail::branches(
      std::move(from), count, options, [](item&& one, std::span<push_source<item>> buffers) {
        bool is_wanted = false;
        for (push_source<item>& buffer : buffers) {
          if (buffer.is_closed()) continue;
          const bool is_last = &buffer == &buffers.back();
          const queue_status status = is_last ? buffer.push(std::move(one)) : buffer.push(one);
          is_wanted |= status != queue_status::closed;
        }
        return is_wanted;
      });
}

/// Gives as many sources as there are weights, and each item of a run to one of them, by a hash of its key:
///
///     auto parts = fl::split(games.infinite(), {90, 10}, [](const game& g) { return g.name; });
///
/// The parts are those that `partition` makes of the same keys. Where the data can be read again, two pipelines with
/// `partition` don't wait for each other, and can be resumed.
///
/// Takes:   a loader; how large the parts are, in any unit; a function that gives an item's key, a whole number or
///          something that converts to std::string_view; options of each branch's buffer
/// Throws:  std::invalid_argument for weights that `partition` refuses, or a buffer without room. What the function throws
///          ends all branches
template <class Loader, class Key>
auto split(Loader from, const std::vector<double>& weights, Key key, const push_options& options = {}) {
  using item = detail::loader_item<Loader>;
  const parts all(weights);
  return detail::branches(std::move(from), all.size(), options,
                          [all, key = std::move(key)](item&& one, std::span<push_source<item>> buffers) {
                            if (buffers[all(detail::hash_of_key(key(one)))].push(std::move(one)) !=
                                queue_status::closed)
                              return true;
                            for (const push_source<item>& buffer : buffers)
                              if (!buffer.is_closed()) return true;
                            return false;
                          });
}

} // namespace feedline::inline v0

// SPDX-License-Identifier: MIT
#pragma once
// broadcast, split: pass the items of one run to several others.
//
//                      ┌─▶ [buffer] ─▶ a run
//     a run ─▶ thread ─┤
//                      └─▶ [buffer] ─▶ another run
#include <feedline/core/any_loader.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/live/detail/pump.hpp>
#include <feedline/queue/queue_status.hpp>
#include <feedline/source/push_source.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A source of the items that broadcast() or split() passes to one of several pipelines. It serves one run.
///
/// Items wait in the branch's buffer until that run begins. When it ends, or when all handles of the branch
/// are gone, the other branches continue. When no branch needs more items, the upstream run is stopped.
///
/// Gives:   the items of the upstream run; the stream ends when that run does, also in infinite mode
/// Throws:  what the upstream run throws, after the items before it, as a failure of the source
/// Stops:   at once
/// Order:   that of the upstream run. A run of a branch can't be resumed: its checkpoint() doesn't compile
template <class T>
class branch {
 public:
  using feedline_part = void;
  static constexpr source_traits traits{.kind = "branch", .live = true};

  /// For broadcast() and split().
  branch(push_source<T> buffer, std::shared_ptr<detail::pump<T>> upstream)
      : end_(std::make_shared<end>(std::move(buffer), std::move(upstream))) {}

  /// How many items were dropped so far because the buffer was full.
  std::uint64_t dropped() const { return end_->buffer.dropped(); }

  /// About how many items wait in the buffer.
  std::size_t size_approx() const { return end_->buffer.size_approx(); }

  /// The metrics of the upstream run, which feeds all branches. Any thread may call this.
  feedline::metrics upstream_metrics() const { return end_->upstream->metrics(); }

  // Called by the run.

  std::shared_ptr<const void> in_run(const std::stop_token&) const {
    return std::make_shared<const detail::closing<T>>(std::vector{end_->buffer});
  }

  void start_epoch(const epoch& e) {
    source_.emplace(end_->buffer);
    source_->start_epoch(e);
    in_run_ = in_run(e.stop); // it wasn't called if the source is read without a run
  }

  bool ready() const { return source_->ready(); }

  std::optional<T> next() { return source_->next(); }

  std::size_t items_held() const noexcept { return end_->buffer.items_held(); }

  std::optional<std::size_t> max_item_bytes() const noexcept { return end_->buffer.max_item_bytes(); }

 private:
  struct end {
    end(push_source<T> b, std::shared_ptr<detail::pump<T>> u)
        : buffer(std::move(b)), upstream(std::move(u)), at_end({buffer}) {}

    push_source<T> buffer;
    std::shared_ptr<detail::pump<T>> upstream;
    detail::closing<T> at_end; // when the last handle is gone
  };

  std::shared_ptr<end> end_;
  std::optional<push_source<T>> source_; // that the run reads
  std::shared_ptr<const void> in_run_;
};

namespace detail {

/// Makes branches. `give` passes each item of the loader to their buffers.
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

/// Makes `count` sources that each yield every item of a run:
///
///     auto branches = fl::broadcast(decoded.infinite({.seed = 7}), 2);
///     auto train = (branches[0] | fl::batch(256)).infinite();
///     auto preview = (branches[1] | fl::map(thumbnail) | fl::prefetch(8)).infinite();
///
/// With `overflow::block` a slow branch makes the others wait once its buffer is full; otherwise it drops
/// items. If the data can be read again, prefer two pipelines over it: they don't wait for each other, and
/// can be resumed.
///
/// Takes:   a loader whose items can be copied (use std::shared_ptr if copies cost too much); options of each
///          branch's buffer
/// Throws:  std::invalid_argument for no branches or a buffer without room
template <class Loader>
auto broadcast(Loader from, std::size_t count, const push_options& options = {}) {
  using item = detail::loader_item<Loader>;
  static_assert(std::copy_constructible<item>,
                "feedline::broadcast: each branch needs a copy of every item, and the items of this Loader "
                "can't be copied: make them std::shared_ptr");
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

/// Makes one source per weight, and passes each item of a run to one of them, chosen by a hash of its key:
///
///     auto parts = fl::split(games.infinite(), {90, 10}, [](const game& g) { return g.name; });
///
/// It divides the keys as `partition` does. If the data can be read again, prefer two pipelines with
/// `partition`: they don't wait for each other, and can be resumed.
///
/// Takes:   a loader; the relative sizes of the parts, in any unit; a function that returns an item's key, an
///          integer or something that converts to std::string_view; options of each branch's buffer
/// Throws:  std::invalid_argument for weights that `partition` refuses, or a buffer without room. An
///          exception of the function ends all branches
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

} // namespace feedline::inline FEEDLINE_ABI

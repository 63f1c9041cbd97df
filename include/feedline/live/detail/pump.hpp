// SPDX-License-Identifier: MIT
#pragma once
// Connects runs: buffers that one run fills and another reads.
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/source/push_source.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Moves the items of a run into buffers, on its own thread.
template <class T>
class pump {
 public:
  using buffers = std::span<push_source<T>>;

  /// `give(item, buffers)` returns false if no buffer accepts items any more. `at_end(buffers, error)` is
  /// called when the run has ended or failed. The pump's thread calls both.
  template <class Give, class AtEnd>
  pump(any_loader<T> from, std::vector<push_source<T>> to, Give give, AtEnd at_end)
      : from_(std::move(from)),
        to_(std::move(to)),
        thread_([this, give = std::move(give), at_end = std::move(at_end)]() mutable {
          try {
            while (std::optional<T> item = from_.next())
              if (!give(std::move(*item), buffers(to_))) break;
            at_end(buffers(to_), nullptr);
          } catch (...) {
            at_end(buffers(to_), std::current_exception());
          }
          from_.stop();
        }) {}

  pump(const pump&) = delete;

  ~pump() {
    for (push_source<T>& buffer : to_) buffer.close();
    from_.stop();
    thread_.join();
  }

  feedline::metrics metrics() { return from_.metrics(); }

 private:
  any_loader<T> from_;
  std::vector<push_source<T>> to_;
  std::thread thread_;
};

/// Closes buffers when it is destroyed. Their items are lost, and a push to them returns closed.
template <class T>
class closing {
 public:
  explicit closing(std::vector<push_source<T>> buffers) : buffers_(std::move(buffers)) {}

  closing(const closing&) = delete;

  ~closing() {
    for (push_source<T>& buffer : buffers_) buffer.close();
  }

 private:
  std::vector<push_source<T>> buffers_;
};

template <class Loader>
using loader_item = typename std::remove_cvref_t<Loader>::value_type;

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// generate: a source that calls a function for each sample.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <class F>
class generate_source {
  static constexpr bool takes_context = std::is_invocable_v<F&, context&>;

  using result = typename std::conditional_t<takes_context, std::invoke_result<F&, context&>,
                                             std::invoke_result<F&>>::type;

 public:
  static constexpr source_traits traits{.kind = "generate"};

  generate_source(F f, feedline::max_item_bytes limit) : f_(std::move(f)), limit_(limit) {
    refuse_negative(limit.bytes, "feedline: the max_item_bytes");
  }

  void start_epoch(const epoch& e) {
    seed_ = e.seed;
    epoch_ = e.number;
    stop_ = e.stop;
  }

  result next() {
    if (next_ > last_) return std::nullopt;
    result value = make();
    if (value) check_largest(*value, limit_);
    return value;
  }

  std::optional<std::size_t> max_item_bytes() const noexcept {
    return limit_.bytes > 0 ? std::optional(limit_.bytes) : std::nullopt;
  }

  std::uint64_t index() const noexcept { return next_ - 1; }

  /// The calls up to this index must be repeated; later ones are not needed.
  void seek(std::uint64_t index) noexcept { last_ = index; }

 private:
  result make() {
    const std::uint64_t index = next_++;
    if constexpr (takes_context) {
      context c = make_context({.index = index, .epoch = epoch_}, key(seed_), stop_);
      return f_(c);
    } else {
      return f_();
    }
  }

  F f_;
  feedline::max_item_bytes limit_;
  std::uint64_t seed_ = 0;
  std::uint64_t next_ = 0;
  std::uint64_t last_ = sample_id::no_index; // the last index that is needed
  std::uint32_t epoch_ = 0;
  std::stop_token stop_;
};

} // namespace detail

/// Calls a function for each sample.
///
/// Takes:   `f()` or `f(context&)` that returns a std::optional: a sample, or nothing at the end of the
///          epoch. It may have mutable state; each epoch of each run calls a fresh copy of it. The context
///          has the sample's index, the epoch, a random generator for this sample, and the run's stop token
///          for a function that waits. Optionally max_item_bytes{bytes} for a memory_budget, as for map
/// Gives:   what f returns; a sample's index counts the calls. Nothing ends the epoch: an infinite run begins the next one,
///          with a fresh copy. Data that ends once is for finite(), whose epoch may have any length; to end an infinite run after
///          what was made has been delivered, use a push_source and close() it
/// Order:   that of the calls
/// Throws:  what f throws, as a failure of the source
/// Example: `generate([n = 0]() mutable { return n < 10 ? std::optional(n++) : std::nullopt; })`
template <class F>
auto generate(F f, max_item_bytes limit = {}) {
  using source = detail::generate_source<F>;
  static_assert(
      detail::is_optional<decltype(std::declval<source&>().next())>,
      "feedline::generate: the function must return a std::optional: a sample, or nothing at the end");
  return detail::as_pipeline(source(std::move(f), limit));
}

} // namespace feedline::inline FEEDLINE_ABI

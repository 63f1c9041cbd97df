// SPDX-License-Identifier: MIT
#pragma once
// skip: all but the first items of each epoch.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

struct skip_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{.kind = "skip",
                                       .data_independent_count = true,
                                       .unchanged = true,
                                       .resets_each_epoch = true,
                                       .checkpoints_mid_call = true};

  template <class In>
  struct running {
    using output = In;

    void operator()(sample<In>&& s, auto& emit) {
      if (left > 0) --left;
      else emit(std::move(s));
    }

    void end_epoch() { left = count; }

    void state(auto& archive) { archive(left); }

    std::uint64_t count;
    std::uint64_t left = count;
  };

  template <class In>
  running<In> bind(const stage_info&) const {
    return {count};
  }

  std::uint64_t output_count(std::uint64_t items, bool) const noexcept {
    return items - std::min(items, count);
  }

  std::uint64_t fingerprint() const noexcept { return count; }

  std::uint64_t count;
};

} // namespace detail

/// Leaves out the first items of each epoch.
///
/// Takes:   any item
/// Gives:   every item of an epoch except the first `count`, unchanged
/// Order:   kept
/// Throws:  std::invalid_argument for a negative number
/// Stops:   at once
/// Example: `source | skip(1'000)`
inline auto skip(std::uint64_t count) {
  detail::refuse_negative(count, "feedline::skip: the number of items");
  return detail::skip_stage{count};
}

} // namespace feedline::inline FEEDLINE_ABI

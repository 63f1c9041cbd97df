// SPDX-License-Identifier: MIT
#pragma once
// enumerate: numbers the items.
#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// An item, and the number of items before it in its epoch.
template <class T>
struct enumerated {
  std::uint64_t number; ///< from 0
  T value;              ///< the item
};

namespace detail {

struct enumerate_stage {
  using feedline_part = void;
  static constexpr stage_traits traits{
      .kind = "enumerate", .one_to_one = true, .resets_each_epoch = true, .checkpoints_mid_call = true};

  template <class In>
  struct running {
    using output = enumerated<In>;

    void operator()(sample<In>&& s, auto& emit) { emit(sample<output>{{next++, std::move(s.value)}, s.id}); }

    void end_epoch() { next = 0; }

    void state(auto& archive) { archive(next); }

    std::uint64_t next = 0;
  };

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return sum_of(sizeof(enumerated<In>) - sizeof(In), in);
  }

  template <class In>
  running<In> bind(const stage_info&) const {
    return {};
  }
};

} // namespace detail

/// Numbers the items of each epoch from 0, in arrival order.
///
/// Takes:   any item
/// Gives:   enumerated<item>: {number, value}
/// Order:   kept
/// Throws:  nothing
/// Stops:   at once
/// Example: `source | enumerate() | map([](const auto& e) { return e.number % 2; })`
inline auto enumerate() { return detail::enumerate_stage{}; }

} // namespace feedline::inline FEEDLINE_ABI

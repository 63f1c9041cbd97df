// SPDX-License-Identifier: MIT
#pragma once
// Stages in a row, as a pipeline stores them.
#include <cstddef>
#include <utility>

namespace feedline::detail {

struct no_stages {
  static constexpr std::size_t size = 0;
};

/// Like a tuple, but nested to the left: a list with one stage more contains the shorter list as it is, so
/// that a pipeline of n stages costs the compiler n small classes and not n tuples of up to n members.
template <class Front, class Last>
struct longer_list {
  static constexpr std::size_t size = Front::size + 1;

  template <std::size_t I>
  const auto& get() const {
    if constexpr (I + 1 == size) return last;
    else return front.template get<I>();
  }

  Front front;
  Last last;
};

template <class List, class... Stages>
struct append_to {
  using type = List;
};

template <class List, class S, class... Rest>
struct append_to<List, S, Rest...> : append_to<longer_list<List, S>, Rest...> {};

template <class... Stages>
using stage_list = typename append_to<no_stages, Stages...>::type;

/// Calls f with each stage in order.
template <class F>
void for_each_stage(const no_stages&, F&) {}

template <class Front, class Last, class F>
void for_each_stage(const longer_list<Front, Last>& list, F& f) {
  for_each_stage(list.front, f);
  f(list.last);
}

/// `front` with the stages of another list behind it.
template <class Front>
Front joined(Front front, const no_stages&) {
  return front;
}

template <class Front, class Before, class Last>
auto joined(Front front, const longer_list<Before, Last>& behind) {
  auto all = joined(std::move(front), behind.front);
  return longer_list<decltype(all), Last>{std::move(all), behind.last};
}

} // namespace feedline::detail

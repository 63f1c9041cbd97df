// SPDX-License-Identifier: MIT
#pragma once
// flat_map: emits any number of items for each item.
#include <iterator>

#include <feedline/core/contract.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

template <class R>
concept iterable = requires(R& r) {
  r.begin() != r.end();
  *r.begin();
};

/// The type of a range's elements: the values, not the proxies that some iterators return, such as references
/// to bits.
template <class R>
struct element_of {
  using iterator = decltype(std::declval<R&>().begin());
  using type = std::decay_t<decltype(*std::declval<iterator&>())>;
};

template <class R>
  requires requires { typename std::iter_value_t<decltype(std::declval<R&>().begin())>; }
struct element_of<R> {
  using type = std::iter_value_t<decltype(std::declval<R&>().begin())>;
};

template <class R>
using element_of_t = typename element_of<std::remove_cvref_t<R>>::type;

template <class R>
inline constexpr bool is_std_array = false;
template <class T, std::size_t N>
inline constexpr bool is_std_array<std::array<T, N>> = true;

/// Whether a range returned by value owns its elements, so that they may be moved out of it. A container
/// does, known by its allocator; a view doesn't, even if it is deeply const. From all other ranges elements
/// are copied, unless they can't be copied.
template <class R>
inline constexpr bool owns_elements = false;
template <class R>
  requires(!std::is_reference_v<R> && requires(const R& r) { *r.begin(); })
inline constexpr bool owns_elements<R> =
    !std::is_same_v<decltype(*std::declval<const R&>().begin()), decltype(*std::declval<R&>().begin())> &&
    (requires { typename R::allocator_type; } || is_std_array<R> ||
     (!std::is_copy_constructible_v<element_of_t<R>> && !std::is_trivially_destructible_v<R>));

template <class Held>
class flat_map_stage : public limited_function_stage<Held> {
 public:
  using limited_function_stage<Held>::limited_function_stage;

  static constexpr stage_traits traits{.kind = "flat_map", .stateless = true, .checkpoints_mid_call = true};

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return this->template bytes_of_one<stage_output_t<flat_map_stage, In>>(in);
  }

  template <class In>
  static consteval fit fits() {
    if constexpr (fit_of_call<Held, In&>() != fit::yes) {
      return fit_of_call<Held, In&>();
    } else {
      using result = call_result_t<typename Held::called, In&>;
      if constexpr (std::is_void_v<result>) return fit::returns_void;
      else if constexpr (!iterable<std::remove_cvref_t<result>>) return fit::returns_no_range;
      else return movable_item<element_of_t<result>> ? fit::yes : fit::item_cannot_move;
    }
  }

  template <class In>
  class running {
   public:
    using function = decltype(std::declval<const Held&>().bind());
    using result = call_result_t<typename Held::called, In&>;
    using output = element_of_t<result>;

    // The item outlives the range, which may therefore be a view of the item.
    void operator()(sample<In>&& s, auto& emit, context& c) {
      const struct leave {
        bool& is_in_range;

        ~leave() { is_in_range = false; }
      } leave{is_in_range};

      const sample_id whole = s.id;
      std::uint64_t k = 0;
      auto&& range = call(f.get(), s.value, c);
      for (auto&& item : range) {
        is_in_range = true;
        const auto emit_one = [&](output&& value) {
          check_largest(value, limit);
          return emit(sample<output>{std::move(value), part_of(whole, k++)});
        };
        if constexpr (owns_elements<result>) {
          if (!emit_one(output(std::move(item)))) return;
        } else {
          if (!emit_one(output(std::forward<decltype(item)>(item)))) return;
        }
      }
    }

    /// Whether it is between two ranges.
    bool at_rest() const noexcept { return !is_in_range; }

   private:
    friend flat_map_stage;

    running(function function_of_items, max_item_bytes largest)
        : f(std::move(function_of_items)), limit(largest) {}

    function f;
    max_item_bytes limit;
    bool is_in_range = false;
  };

  template <class In>
    requires(flat_map_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info&) const {
    return running<In>(this->f_.bind(), this->limit_);
  }
};

} // namespace detail

/// Calls a function with each item and emits every element of the range that it returns, such as the records
/// of a file.
///
/// Takes:   any item; the function is `f(item&)` or `f(item&, context&)` and returns something with begin()
///          and end(): a container, or a view, which may refer to the item; options, and bytes_given() of one
///          element, as map
/// Gives:   the elements one by one, possibly none; if a range fails in the middle, the elements before the
///          failure are emitted
/// Order:   kept; with unordered, runs of elements in the order in which they are finished
/// Throws:  what the function or its range throws, as a failure of its sample
/// Stops:   after the element in hand
/// Example: `files | flat_map(read_records, workers{4}) | shuffle({.capacity = 100'000})`; for a function
///          that emits only some of the records in each epoch see sampled_records
template <class F, class... Options>
auto flat_map(F&& f, Options... options) {
  return detail::make_function_stage<detail::flat_map_stage>(std::forward<F>(f), std::move(options)...);
}

} // namespace feedline::inline FEEDLINE_ABI

// SPDX-License-Identifier: MIT
#pragma once
// map: emits one item for each item.
#include <feedline/core/contract.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Whether an item has elements of that type, which are destroyed with it.
template <class Item, class Element>
inline constexpr bool owns = false;
template <class T, class Traits, class Allocator, class Element>
inline constexpr bool owns<std::basic_string<T, Traits, Allocator>, Element> = std::is_same_v<T, Element>;
template <class T, class Allocator, class Element>
inline constexpr bool owns<std::vector<T, Allocator>, Element> =
    std::is_same_v<T, Element> || owns<T, Element>;
template <class T, std::size_t N, class Element>
inline constexpr bool owns<std::array<T, N>, Element> = std::is_same_v<T, Element> || owns<T, Element>;
template <class T, std::size_t... Extents, class Element>
inline constexpr bool owns<tensor<T, Extents...>, Element> = std::is_same_v<T, Element>;

/// Whether a result is a view, or a vector of views, of elements that the item owns. A view of other elements, or of an
/// item that is a view itself or shares a mapped file, may well be valid.
template <class Result, class Item>
inline constexpr bool views_item = false;
template <class T, class Traits, class Item>
inline constexpr bool views_item<std::basic_string_view<T, Traits>, Item> = owns<Item, T>;
template <class T, std::size_t N, class Item>
inline constexpr bool views_item<std::span<T, N>, Item> = owns<Item, std::remove_cv_t<T>>;
template <class T, class Allocator, class Item>
inline constexpr bool views_item<std::vector<T, Allocator>, Item> = views_item<T, Item>;

template <class Held>
class map_stage : public limited_function_stage<Held> {
 public:
  using limited_function_stage<Held>::limited_function_stage;

  static constexpr stage_traits traits{.kind = "map",
                                       .stateless = true,
                                       .one_to_one = true,
                                       .position_from_last_sample = true,
                                       .checkpoints_mid_call = true};

  template <class In>
  known_bytes bytes_given(known_bytes in) const {
    return this->template bytes_of_one<stage_output_t<map_stage, In>>(in);
  }

  template <class In>
  static consteval fit fits() {
    if constexpr (fit_of_call<Held, In>() != fit::yes) {
      return fit_of_call<Held, In>();
    } else {
      using result = call_result_t<typename Held::called, In>;
      if constexpr (std::is_void_v<result>) return fit::returns_void;
      else if constexpr (std::is_reference_v<result> && !is_member) return fit::returns_reference;
      else if constexpr (views_item<std::decay_t<result>, In>) return fit::returns_view;
      else return movable_item<std::decay_t<result>> ? fit::yes : fit::item_cannot_move;
    }
  }

  template <class In>
  struct running {
    using feedline_rows = void;
    using function = decltype(std::declval<const Held&>().bind());
    using output = std::decay_t<call_result_t<typename Held::called, In>>;

    static constexpr bool has_one_size = std::is_trivially_copyable_v<output> && !has_capacity<output>;

    output convert(In&& in, context& c) {
      if constexpr (has_one_size) { // bind() checks it
        return call(f.get(), std::move(in), c);
      } else {
        output made = call(f.get(), std::move(in), c);
        check_largest(made, limit);
        return made;
      }
    }

    auto hold_row()
      requires requires(function& own) { own.get().hold_row(); }
    {
      return f.get().hold_row();
    }

    [[gnu::always_inline]] void operator()(In&& in, auto& emit, context& c) {
      if constexpr (is_large_item<output>) {
        sample<slot<output>> made{make(std::move(in), c), c.id()};
        // Not whether it can be called: a value may be constructible from anything.
        if constexpr (requires { emit.takes_slots; }) emit(std::move(made));
        else emit(std::move(made.value.named(made.id)));
      } else {
        emit(convert(std::move(in), c));
      }
    }

    // Not inlined, so that its stack frame is gone before the item is emitted.
    [[gnu::noinline]] slot<output> make(In&& in, context& c)
      requires is_large_item<output>
    {
      return slot<output>([&] { return convert(std::move(in), c); });
    }

    function f;
    max_item_bytes limit;
  };

  template <class In>
    requires(map_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info&) const {
    using output = typename running<In>::output;
    if constexpr (running<In>::has_one_size)
      if (this->limit_.bytes > 0 && sizeof(output) > this->limit_.bytes)
        throw_too_large(sizeof(output), this->limit_);
    return {this->f_.bind(), this->limit_};
  }

 private:
  // A member is copied out of the item at once, so a reference to it is safe.
  static constexpr bool is_member = std::is_member_object_pointer_v<std::remove_cv_t<typename Held::called>>;
};

} // namespace detail

/// Calls a function with each item and emits what it returns.
///
/// Takes:   any item; the function is `f(item)` or `f(item, context&)`. All workers call it at once, as const
///          (use per_worker for one that changes its own state); options name{…}, workers{n}, unordered,
///          max_item_bytes{bytes}
/// Gives:   one item for each, of the function's return type. A std::string_view or std::span of an item that owns its
///          elements (a string, vector, array or tensor) doesn't compile: it would dangle
/// Order:   kept, with any number of workers; with unordered, the order in which they are finished
/// Rows:    several small items may pass at once: if the function is an object with `hold_row()`, what that returns exists while
///          the function is called with them, a lock for example
/// Memory:  for a memory_budget, without max_item_bytes: `bytes_given(std::optional<std::size_t> of_item) const` of an object that is
///          the function: the most bytes of what it makes with everything it owns, or nothing if unknown
/// Throws:  what the function throws, as a failure of its sample
/// Stops:   after the item in hand; a slow function can check `context.stop`
/// Example: `source | map([](const tar_sample& s) { return decode_jpeg(s["jpg"]); }, workers{8},
///          name{"decode"})`
template <class F, class... Options>
auto map(F&& f, Options... options) {
  return detail::make_function_stage<detail::map_stage>(std::forward<F>(f), std::move(options)...);
}

} // namespace feedline::inline FEEDLINE_ABI

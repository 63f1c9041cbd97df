// SPDX-License-Identifier: MIT
#pragma once
// map: one item in, one item out.
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <feedline/core/item_bytes.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/stage/detail/function.hpp>

namespace feedline::inline v0 {

namespace detail {

template <class Held>
class map_stage {
 public:
  using feedline_part = void;
  static constexpr stage_traits traits{
      .kind = "map", .stateless = true, .one_to_one = true, .keeps_place = true, .saves_in_calls = true};

  map_stage(Held f, std::string name) : f_(std::move(f)), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  void limit_items(largest_item limit) {
    refuse_negative(limit.bytes, "feedline: the largest_item");
    limit_ = limit;
  }

  template <class In>
  known_bytes bytes_given(known_bytes) const {
    if (limit_.bytes > 0) return limit_.bytes;
    return bytes_of_type<stage_output_t<map_stage, In>>();
  }

  template <class In>
  static consteval fit fits() {
    if constexpr (fit_of_call<Held, In>() != fit::yes) {
      return fit_of_call<Held, In>();
    } else {
      using result = call_result_t<typename Held::called, In>;
      if constexpr (std::is_void_v<result>) return fit::returns_void;
      else if constexpr (std::is_reference_v<result> && !is_member) return fit::returns_reference;
      else return movable_item<std::decay_t<result>> ? fit::yes : fit::item_cannot_move;
    }
  }

  template <class In>
  struct running {
    using feedline_rows = void;
    using function = decltype(std::declval<const Held&>().bind());
    using output = std::decay_t<call_result_t<typename Held::called, In>>;

    output convert(In&& in, context& c) {
      output made = call(f.get(), std::move(in), c);
      check_largest(made, limit);
      return made;
    }

    [[gnu::always_inline]] void operator()(In&& in, auto& emit, context& c) {
      if constexpr (is_large) {
        make(std::move(in), c);

        const struct leave {
          sample<output>& made;

          ~leave() { std::destroy_at(&made); }
        } leave{room->made};

        emit(std::move(room->made));
      } else {
        emit(convert(std::move(in), c));
      }
    }

    // The stack has room for few large items, but a chain of stages has one of each in hand.
    static constexpr bool is_large = sizeof(output) > 4096;

    union room_for_one {
      room_for_one() {}

      ~room_for_one() {}

      sample<output> made;
    };

    // In a frame of its own, which is gone before the item is handed on.
    [[gnu::noinline]] void make(In&& in, context& c) {
      if (!room) room = std::make_unique<room_for_one>();
      ::new (static_cast<void*>(&room->made))
          sample<output>{convert(std::move(in), c), {c.index, c.part, c.epoch}};
    }

    function f;
    largest_item limit;
    std::conditional_t<is_large, std::unique_ptr<room_for_one>, std::nullptr_t> room{};
  };

  template <class In>
    requires(map_stage::template fits<In>() == fit::yes)
  running<In> bind(const stage_info&) const {
    return {f_.bind(), limit_, {}};
  }

 private:
  // A member of the item is copied out of it at once, so a reference to it is welcome.
  static constexpr bool is_member = std::is_member_object_pointer_v<std::remove_cv_t<typename Held::called>>;

  Held f_;
  std::string name_;
  largest_item limit_{};
};

} // namespace detail

/// Calls a function with each item and gives what it returns.
///
/// Takes:   any item; the function is `f(item)` or `f(item, context&)` and is called as const, by all workers
///          at once (see per_worker for one that must change itself); options name{…}, workers{n}, unordered,
///          largest_item{bytes}
/// Gives:   one item for each, of the function's return type
/// Order:   kept, with any number of workers; with unordered, as they are done
/// Throws:  what the function throws, as a failure of its sample
/// Stops:   behind the item in hand; a function that takes long can ask `context.stop`
/// Example: `source | map([](const tar_sample& s) { return decode_jpeg(s["jpg"]); }, workers{8},
///          name{"decode"})`
template <class F, class... Options>
auto map(F&& f, Options... options) {
  return detail::make_function_stage<detail::map_stage>(std::forward<F>(f), std::move(options)...);
}

} // namespace feedline::inline v0

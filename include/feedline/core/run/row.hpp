// SPDX-License-Identifier: MIT
#pragma once
// Values that pass a chain of stages together, so that what a stage costs for each call is paid once for all of them.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A running stage of the library that accepts rows of samples: it makes one value from each, as map does, …
template <class Stage, class In>
concept converts = requires(Stage& stage, In&& in, context& c) {
  typename Stage::feedline_rows;
  { stage.convert(std::move(in), c) } -> std::same_as<typename Stage::output>;
};

/// … leaves some of them out, as filter does, …
template <class Stage, class In>
concept selects = requires(Stage& stage, const In& in, context& c) {
  typename Stage::feedline_rows;
  { stage.keeps(in, c) } -> std::same_as<bool>;
};

/// … or lends the space for its next values, so that the producer writes them directly into it.
template <class Stage, class In>
concept lends_room = requires(Stage& stage) {
  typename Stage::feedline_rows;
  { stage.room() } -> std::same_as<std::span<In>>;
};

/// What the user's function in a stage wants to exist while a row passes it; see map().
template <class Stage>
auto hold_row_of(Stage& stage) {
  if constexpr (requires { stage.hold_row(); }) return stage.hold_row();
  else return std::false_type();
}

/// The row of values that a chain receives from outside, and how much of it was taken.
struct row_origin {
  row_ids ids;         // of the values in hand
  const watch& wanted; // whether more are
  std::size_t& taken;  // of the row from outside
  // When the values in hand were made, if nothing was done since; else 0.
  std::uint64_t& made_at;

  /// Notes that the first `count` values in hand were taken.
  void take(std::size_t count) const noexcept { taken = ids.place(count - 1) + 1; }

  /// When work on them begins.
  std::uint64_t begin_work() const noexcept {
    const std::uint64_t at = std::exchange(made_at, 0);
    return at != 0 ? at : now_ns();
  }

  row_origin part(std::size_t begin, std::size_t count) const noexcept {
    return {ids.part(begin, count), wanted, taken, made_at};
  }

  /// Some of the values in hand, by their places.
  row_origin selected(std::span<const std::uint32_t> places) const noexcept {
    return {ids.selected(places), wanted, taken, made_at};
  }
};

/// How many values of a row are worked on between two looks at whether more are wanted: several if the row is long, as the
/// last one of that kind was, and there each value took less than 32 ns.
class burst_length {
 public:
  std::size_t burst(std::size_t count) const noexcept { return count < long_row ? 1 : burst_; }

  /// `count` values took that time.
  void adapt(std::size_t count, std::uint64_t ns) noexcept {
    if (count < long_row && ns < count * slow_ns) return; // mostly the time of reading the clock
    burst_ = std::clamp<std::size_t>(longest_ns * count / std::max<std::uint64_t>(ns, 1), 1, most);
  }

 private:
  static constexpr std::size_t long_row = 32, most = 16;
  static constexpr std::uint64_t longest_ns = 64; // a look takes 1 to 2 ns
  static constexpr std::uint64_t slow_ns = 1'000; // for a value

  std::size_t burst_ = 1;
};

/// Memory for the values that a stage makes of a row.
template <class T>
class row_memory : public burst_length {
 public:
  /// Room for as many as may be made before the first of them is passed on. Empty if it can't be allocated.
  std::span<T> memory() noexcept {
    if (!memory_) memory_.reset(static_cast<T*>(::operator new(most * sizeof(T), alignment, std::nothrow)));
    return {memory_.get(), memory_ ? size_ : 0};
  }

  /// `count` values were made in that time.
  void adapt(std::size_t count, std::uint64_t ns) noexcept {
    burst_length::adapt(count, ns);
    size_ = std::clamp<std::size_t>(longest_ns * count / std::max<std::uint64_t>(ns, 1), 1, most);
  }

 private:
  static_assert(std::is_trivially_copyable_v<T>); // so that none needs to be destroyed
  static constexpr std::size_t most = std::clamp<std::size_t>(16384 / sizeof(T), 1, 1024);
  static constexpr auto alignment = static_cast<std::align_val_t>(std::max<std::size_t>(alignof(T), 64));
  static constexpr std::uint64_t longest_ns = 20'000;

  struct release {
    void operator()(T* memory) const noexcept { ::operator delete(memory, alignment); }
  };

  std::unique_ptr<T, release> memory_;
  std::size_t size_ = 1;
};

/// For a stage that writes into the space of the next one.
template <>
class row_memory<void> : public burst_length {};

/// Pushes a row by a function that pushes the first values of those it gets, sets the result and returns how many.
template <class T, class PushPart>
flow push_in_parts(std::span<T> values, const row_origin& from, PushPart push_part) {
  flow result = flow::more;
  for (std::size_t done = 0; done < values.size() && result == flow::more;)
    if (result = from.wanted(); result == flow::more)
      done += push_part(values.subspan(done), from.part(done, values.size() - done), result);
  return result;
}

/// How many values a stage or a packer lends space for. 0: none, or no more are wanted.
template <class T, class Lender>
std::size_t room_left_in(Lender& lender) {
  std::span<T> lent;
  return lender.room(lent) == flow::more ? lent.size() : 0;
}

/// Moves the first of the values into the space that a stage lends; sets `result` and returns how many.
template <class To, class T>
std::size_t move_row(To& to, std::span<T> values, const row_origin& from, flow& result) {
  std::span<T> target;
  if (result = to.room(target); result != flow::more) return 0;
  if (target.empty()) {
    from.take(1);
    result = to.push(sample<T>{std::move(values.front()), from.ids[0]});
    return 1;
  }
  const std::size_t count = std::min(values.size(), target.size());
  std::uninitialized_move_n(values.begin(), count, target.begin());
  from.take(count);
  result = to.commit(from.ids.part(0, count));
  return count;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// How a checkpoint stores the state of a source or a stage.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/snapshot/state_types.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Writes the state of a source or a stage: the `archive` of its `state(auto& archive)`, which calls
/// `archive(x, y, …)` with everything that makes up its state. That may be
/// - whole numbers, bool and enums;
/// - floating-point numbers, with all of their bits;
/// - strings, std::vector, std::deque and std::list;
/// - std::array, std::pair, std::tuple and std::optional;
/// - samples of such values, and their identities;
/// - classes with their own `state`;
/// - held_samples, whose samples a resumed run reads again;
///
/// and any of these inside each other. The state is written often, about once for each packet of samples: put
/// large data that doesn't change into `fingerprint()` instead.
///
/// A checkpoint stores words of 64 bits, without the zeros at its end. A 1 therefore follows each list: the
/// words before it are complete, so that the list's length can be checked against them.
class state_writer {
 public:
  /// Appends to `words`.
  explicit state_writer(std::vector<std::uint64_t>& words) : words_(words) {}

  /// For the run: the contents of sample buffers go to `buffers`, as those of the stage at that position.
  state_writer(std::vector<std::uint64_t>& words, detail::held_parts& buffers, std::size_t place,
               bool with_values)
      : words_(words), buffers_(&buffers), place_(place), with_values_(with_values) {}

  /// For the run: how many samples the buffers hold, and how many they have room for.
  std::size_t held() const noexcept { return held_; }

  /// For the run: how many samples the buffers have room for.
  std::size_t capacity() const noexcept { return capacity_; }

  /// For the run: whether a checkpoint can contain the values of all those samples.
  bool can_save_values() const noexcept { return can_save_values_; }

  /// Writes the values one after another.
  template <class... Value>
  void operator()(const Value&... values) {
    (write(values), ...);
  }

 private:
  template <class Value>
  void write(const Value& value) {
    static_assert(
        detail::can_be_state<Value>(),
        "feedline: a state can't store a `Value`: use numbers, strings, lists, arrays, pairs or optionals of "
        "those, or give Value a state(auto& archive)");
    if constexpr (detail::holds_samples<Value>) {
      write_held(value);
    } else if constexpr (detail::word_like<Value>) {
      words_.push_back(static_cast<std::uint64_t>(value));
    } else if constexpr (detail::state_float<Value>) {
      std::array<std::uint64_t, detail::words_of_float<Value>> bits{};
      // A long double of x86 has 10 bytes and then padding.
      constexpr std::size_t size =
          std::is_same_v<Value, long double> && std::numeric_limits<Value>::digits == 64 ? 10 : sizeof(Value);
      std::memcpy(bits.data(), &value, size);
      for (const std::uint64_t word : bits) words_.push_back(word);
    } else if constexpr (detail::has_state<Value>) {
      const_cast<Value&>(value).state(*this); // state() also reads, and so isn't const
    } else if constexpr (detail::is_state_optional<Value>) {
      words_.push_back(value ? 1 : 0);
      if (value) write(*value);
    } else if constexpr (detail::is_state_tuple<Value>) {
      std::apply(*this, value);
    } else if constexpr (detail::is_state_sample<Value>) {
      std::apply(*this, detail::members_of_sample(value));
    } else if constexpr (detail::is_state_array<Value>) {
      for (const auto& element : value) write(element);
    } else if constexpr (detail::state_list<Value>) {
      write_list(value);
    }
  }

  template <class Buffer>
  void write_held(const Buffer& buffer) {
    const std::size_t number = buffer_++;
    if constexpr (requires { buffer.capacity(); }) capacity_ += buffer.capacity();
    if (buffer.empty()) return;
    held_ += buffer.size();
    can_save_values_ &= Buffer::can_save_values;
    if (!buffers_) return;
    detail::held& h = buffers_->add();
    h.place = place_;
    h.buffer = number;
    buffer.save(h, with_values_);
  }

  template <class List>
  void write_list(const List& list) {
    using element = typename List::value_type;
    constexpr std::size_t in_word = detail::elements_in_word<element>;
    words_.push_back(list.size());
    if (list.size() == 0) return;
    if constexpr (in_word > 1) {
      std::size_t number = 0;
      for (const element value : list) {
        if (number % in_word == 0) words_.push_back(0);
        words_.back() |= static_cast<std::uint64_t>(static_cast<unsigned char>(value))
                         << (number % in_word * (64 / in_word));
        ++number;
      }
    } else if constexpr (std::is_integral_v<element>) {
      words_.insert(words_.end(), list.begin(), list.end()); // at once, as there may be many
    } else {
      const std::size_t begin = words_.size();
      for (const element& value : list) write(value);
      // Elements without any state: pad them, as a reader accepts at most one element per word.
      if (words_.size() - begin < list.size()) words_.resize(begin + list.size());
    }
    words_.push_back(1);
  }

  std::vector<std::uint64_t>& words_;
  detail::held_parts* buffers_ = nullptr;
  std::size_t place_ = 0;
  std::size_t buffer_ = 0; // number of the next one
  bool with_values_ = false;
  std::size_t held_ = 0;
  std::size_t capacity_ = 0;
  bool can_save_values_ = true;
};

/// Reads a state that a state_writer wrote, in the same order. Throws std::invalid_argument for words that no
/// state_writer has written, before it allocates memory for them.
class state_reader {
 public:
  /// Reads what a state_writer has written.
  explicit state_reader(std::span<const std::uint64_t> words) : words_(words) {}

  /// Whether all words have been read.
  bool is_empty() const noexcept { return words_.empty(); }

  /// How many words are left.
  std::size_t left() const noexcept { return words_.size(); }

  /// For the run: from now on buffers of samples are those of the stage at that position, which held the
  /// samples `found`.
  void begin_stage(const detail::held_parts& buffers, std::size_t place, detail::read_again* found) noexcept {
    buffers_ = &buffers;
    place_ = place;
    buffer_ = 0;
    found_ = found;
    loaded_ = 0;
  }

  /// For the run: how many buffers of that stage it has restored.
  std::size_t loaded_buffers() const noexcept { return loaded_; }

  /// Reads the values in the order in which they were written.
  template <class... Value>
  void operator()(Value&... values) {
    (read(values), ...);
  }

 private:
  std::uint64_t next() {
    if (words_.empty()) {
      if (lists_ > 0) detail::throw_state_not_whole();
      return 0; // a zero at the end, which wasn't stored
    }
    const std::uint64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  template <class Value>
  void read(Value& value) {
    static_assert(!std::is_const_v<Value>,
                  "feedline: a member of a state can't be const: a resumed run writes to it");
    static_assert(
        detail::can_be_state<Value>(),
        "feedline: a state can't store a `Value`: use numbers, strings, lists, arrays, pairs or optionals of "
        "those, or give Value a state(auto& archive)");
    if constexpr (detail::holds_samples<Value>) {
      const std::size_t number = buffer_++;
      if (!buffers_ || !found_) return;
      for (const detail::held& h : *buffers_)
        if (h.place == place_ && h.buffer == number) {
          value.load(h.ids(), *found_);
          ++loaded_;
        }
    } else if constexpr (detail::word_like<Value>) {
      value = word_as<Value>(next());
    } else if constexpr (detail::state_float<Value>) {
      std::array<std::uint64_t, detail::words_of_float<Value>> bits{};
      for (std::uint64_t& word : bits) word = next();
      if constexpr (sizeof(Value) < sizeof(std::uint64_t))
        if (bits[0] >> (8 * sizeof(Value)) != 0) detail::throw_state_not_whole();
      std::memcpy(static_cast<void*>(&value), bits.data(), sizeof(Value));
    } else if constexpr (detail::has_state<Value>) {
      value.state(*this);
    } else if constexpr (detail::is_state_optional<Value>) {
      if (!word_as<bool>(next())) value.reset();
      else read(value.emplace());
    } else if constexpr (detail::is_state_tuple<Value>) {
      std::apply(*this, value);
    } else if constexpr (detail::is_state_sample<Value>) {
      std::apply(*this, detail::members_of_sample(value));
    } else if constexpr (detail::is_state_array<Value>) {
      for (auto& element : value) read(element);
    } else if constexpr (detail::state_list<Value>) {
      read_list(value);
    }
  }

  template <class Value>
  static Value word_as(std::uint64_t word) {
    const auto value = static_cast<Value>(word);
    if (static_cast<std::uint64_t>(value) != word) detail::throw_state_not_whole();
    return value;
  }

  // Elements are added one by one, so that a wrong length allocates no more than the existing words need.
  template <class List>
  void read_list(List& list) {
    using element = typename List::value_type;
    constexpr std::size_t in_word = detail::elements_in_word<element>;
    list.clear();
    const std::uint64_t size = next();
    if (size == 0) return;
    const std::uint64_t least = size / in_word + (size % in_word != 0);
    if (least >= words_.size()) detail::throw_state_not_whole();
    ++lists_;
    const std::size_t words_before = words_.size();
    if constexpr (in_word > 1) {
      std::uint64_t word = 0;
      for (std::uint64_t number = 0; number < size; ++number) {
        if (number % in_word == 0) word = next();
        constexpr std::uint64_t mask = in_word == 8 ? 0xff : 1;
        list.push_back(static_cast<element>(static_cast<unsigned char>(word & mask)));
        word >>= 64 / in_word;
      }
      if (word != 0) detail::throw_state_not_whole();
    } else {
      for (std::uint64_t number = 0; number < size; ++number) {
        element value{};
        read(value);
        list.push_back(std::move(value));
      }
      while (words_before - words_.size() < size) next();
    }
    if (next() != 1) detail::throw_state_not_whole();
    --lists_;
  }

  std::span<const std::uint64_t> words_;
  const detail::held_parts* buffers_ = nullptr;
  std::size_t place_ = 0;
  std::size_t buffer_ = 0; // number of the next one
  detail::read_again* found_ = nullptr;
  std::size_t loaded_ = 0;
  std::size_t lists_ = 0; // being read: the zeros inside them were stored
};

namespace detail {

/// Restores a part's state.
template <has_state Part>
void read_state(Part& part, state_reader& reader) {
  part.state(reader);
  if constexpr (requires { part.resumed(); }) part.resumed();
}

/// Writes a part's state. The part isn't const in it, because state() also reads.
template <has_state Part>
void save_state(const void* part, state_writer& writer) {
  const_cast<Part*>(static_cast<const Part*>(part))->state(writer);
}

} // namespace detail

} // namespace feedline::inline FEEDLINE_ABI

// SPDX-License-Identifier: MIT
#pragma once
// What a run was at one moment, part by part: from that it can go on in another process.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>

namespace feedline::detail {

/// What a stage holds: numbers of its own, and samples in its order.
struct held_list {
  std::vector<std::uint64_t> words;
  std::vector<sample_id> ids;
};

/// What is wrong where a sample that some stage held can't be had again.
inline std::runtime_error lost_sample(const sample_id& id) {
  return std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                            std::to_string(id.epoch) +
                            ", which the run held when the checkpoint was taken, can't be had again");
}

/// A stage's notes of what it held, for any moment since it began them. Read while the stage goes on noting.
class held_log {
 public:
  held_log() = default;
  held_log(held_log&&) = delete;
  virtual ~held_log() = default;

  virtual held_list at(std::uint64_t moment) const = 0;
};

/// What the stage in some place holds: what its notes say of a moment, or a list.
struct held {
  std::size_t place = 0;
  std::shared_ptr<const held_log> log; // null: there is a list
  std::uint64_t moment = 0;
  held_list listed;

  held_list list() const { return log ? log->at(moment) : listed; }

  void clear() noexcept {
    log.reset();
    listed.words.clear();
    listed.ids.clear();
  }
};

/// What the stages hold, one after another. It keeps its memory for what is held next.
class held_parts {
 public:
  held_parts() = default;

  held_parts(const held_parts& other) { *this = other; }

  held_parts(held_parts&& other) noexcept
      : parts_(std::move(other.parts_)), size_(std::exchange(other.size_, 0)) {}

  held_parts& operator=(const held_parts& other) {
    if (this == &other) return *this;
    clear();
    for (const held& h : other) add() = h;
    return *this;
  }

  held_parts& operator=(held_parts&& other) noexcept {
    parts_.swap(other.parts_);
    std::swap(size_, other.size_);
    return *this;
  }

  /// One more, which holds nothing yet.
  held& add() {
    if (size_ == parts_.size()) parts_.emplace_back();
    return parts_[size_++];
  }

  void drop_last() noexcept { parts_[--size_].clear(); }

  void clear() noexcept {
    while (size_ > 0) drop_last();
  }

  std::size_t size() const noexcept { return size_; }

  const held* begin() const noexcept { return parts_.data(); }

  const held* end() const noexcept { return parts_.data() + size_; }

 private:
  std::vector<held> parts_; // those behind the first size_ hold nothing
  std::size_t size_ = 0;
};

/// Everything up to some queue at one moment. Its words are the number of the first segment that has some
/// (those before it are at their beginning), and from there on a section for each segment: how many words,
/// zeros at the end left out, and those words.
struct cut {
  std::vector<std::uint64_t> words; // none: the beginning of the run
  held_parts held;

  void clear() noexcept {
    words.clear();
    held.clear();
  }
};

/// A word of the source's section, 0 if there is none.
inline std::uint64_t source_word(const cut& c, std::size_t number) noexcept {
  return c.words.size() > 2 + number && c.words[0] == 0 && c.words[1] > number ? c.words[2 + number] : 0;
}

/// The epoch that the source has come to.
inline std::uint64_t epoch_of(const cut& c) noexcept { return source_word(c, 0); }

/// A value that fits into a word.
template <class T>
concept word_like = std::integral<T> || std::is_enum_v<T>;

/// Takes down the state of a source or a stage: what its `state(archive)` names.
class state_writer {
 public:
  explicit state_writer(std::vector<std::uint64_t>& words) : words_(words) {}

  template <word_like... Value>
  void operator()(const Value&... values) {
    (words_.push_back(static_cast<std::uint64_t>(values)), ...);
  }

 private:
  std::vector<std::uint64_t>& words_;
};

/// Gives it back to another one in the same order.
class state_reader {
 public:
  explicit state_reader(std::span<const std::uint64_t> words) : words_(words) {}

  bool is_empty() const noexcept { return words_.empty(); }

  /// How many words are left.
  std::size_t left() const noexcept { return words_.size(); }

  template <word_like... Value>
  void operator()(Value&... values) {
    ((values = static_cast<Value>(next())), ...);
  }

 private:
  std::uint64_t next() noexcept {
    if (words_.empty()) return 0; // was left out
    const std::uint64_t word = words_.front();
    words_ = words_.subspan(1);
    return word;
  }

  std::span<const std::uint64_t> words_;
};

/// A part of a run, source or stage, that names its state.
template <class T>
concept has_state = requires(T& part, state_writer& writer, state_reader& reader) {
  part.state(writer);
  part.state(reader);
};

/// Gives a part the state that another one named.
template <has_state Part>
void read_state(Part& part, state_reader& reader) {
  part.state(reader);
  if constexpr (requires { part.resumed(); }) part.resumed();
}

/// A stage that keeps samples for later: it tells which, if there are any, and takes them back when a run is
/// resumed.
template <class Stage>
concept holds_samples = requires(Stage& stage, const Stage& same, held& into, const held_list& list) {
  { same.held_now(into) } -> std::same_as<bool>;
  stage.expect(list);
  stage.has_all();
};

/// Writes one section of a cut.
template <class Write>
void write_section(cut& target, Write write) {
  const std::size_t begin = target.words.size();
  target.words.push_back(0);
  state_writer writer(target.words);
  write(writer);
  while (target.words.size() > begin + 1 && target.words.back() == 0) target.words.pop_back();
  target.words[begin] = target.words.size() - begin - 1;
}

} // namespace feedline::detail

// SPDX-License-Identifier: MIT
#pragma once
// The samples that stages hold, as checkpoints store them: by their identities.
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The content of a buffer at one moment, and notes of all changes since. A reader finds the content at a later
/// moment by applying the notes to the identities, while the buffer continues to add notes.
class held_log {
 public:
  explicit held_log(std::size_t max_size);

  held_log(held_log&&) = delete;

  /// The capacity, in notes, of the log of a buffer for `capacity` samples.
  static constexpr std::size_t most_notes(std::size_t capacity) noexcept {
    return capacity < 4096 ? 4096 : capacity;
  }

  static constexpr std::size_t bytes_of_note() noexcept { return sizeof(note); }

  /// Starts the log with what the buffer holds now.
  template <class Samples>
  void begin(const Samples& samples) {
    size_ = 0;
    ids_.clear();
    for (const auto& s : samples) ids_.push_back(s.id);
  }

  bool is_full() const noexcept { return size_ == max_size_; }

  /// The number of notes, which identifies a moment.
  std::size_t size() const noexcept { return size_; }

  void added(const sample_id& id) noexcept { notes_[size_++] = {id, after_last}; }

  void replaced(std::size_t place, const sample_id& id) noexcept { notes_[size_++] = {id, place}; }

  void taken(std::size_t place) noexcept { notes_[size_++] = {{}, place}; }

  void cleared() noexcept { notes_[size_++] = {{}, after_last}; }

  std::vector<sample_id> at(std::size_t moment) const;

 private:
  static constexpr std::size_t after_last = ~std::size_t{0};

  struct note {
    sample_id id;
    std::size_t place;
  };

  std::vector<sample_id> ids_;
  std::size_t max_size_;
  std::vector<note> notes_; // one thread appends, others read earlier ones
  std::size_t size_ = 0;
};

/// The content of one buffer of one stage: a moment of its log, or a list. If the samples can't be read again by their
/// identities, it has their values too.
struct held {
  std::size_t place = 0;               // of the stage
  std::size_t buffer = 0;              // its number, in the order in which the stage's state names them
  std::shared_ptr<const held_log> log; // null: `listed` is used
  std::size_t moment = 0;
  std::vector<sample_id> listed;
  std::shared_ptr<const std::vector<std::byte>> values; // of those listed, as store() writes them; null: none
  std::shared_ptr<const void> in_run;                   // as long as the run itself has these values

  std::vector<sample_id> ids() const;

  void clear() noexcept;
};

/// What the stages hold, in order. It keeps its memory for reuse.
class held_parts {
 public:
  held_parts();
  held_parts(const held_parts& other);
  held_parts(held_parts&& other) noexcept;
  held_parts& operator=(const held_parts& other);
  held_parts& operator=(held_parts&& other) noexcept;
  ~held_parts();

  /// Adds an empty entry.
  held& add();

  void drop_last() noexcept;

  void clear() noexcept {
    while (size_ > 0) drop_last();
  }

  std::size_t size() const noexcept { return size_; }

  held& last() noexcept { return parts_[size_ - 1]; }

  /// The contents leave the run, for a checkpoint.
  void leave_run() noexcept;

  const held* begin() const noexcept { return parts_.data(); }

  const held* end() const noexcept { return parts_.data() + size_; }

 private:
  std::vector<held> parts_; // those after the first size_ are empty
  std::size_t size_ = 0;
};

/// The samples that a stage held, after they were read again.
class read_again {
 public:
  read_again() = default;
  read_again(read_again&&) = delete;
  virtual ~read_again() = default;

  /// After the last sample was added, and before take_place().
  void all_added();

  /// Discards the samples that weren't used.
  void clear() noexcept;

  /// The place of the first sample with this identity that wasn't taken. Throws std::runtime_error if there is none.
  std::size_t take_place(const sample_id& id);

  std::string why_lost; ///< the first failure while reading them; empty if there was none

 protected:
  // Lets one thread add so many samples, while it holds the lock.
  std::unique_lock<std::mutex> begin_add(std::size_t count);

  // The identity of the next one. Users' stages in a row may give several items the same.
  void note(const sample_id& id) noexcept { places_.push_back({id, places_.size()}); }

 private:
  virtual void clear_values() noexcept = 0;

  struct noted {
    sample_id id;
    std::size_t place;
    bool is_taken = false;

    bool operator<(const noted& other) const noexcept {
      return std::pair(id, place) < std::pair(other.id, other.place);
    }
  };

  std::mutex mutex_;          // guards adding
  std::vector<noted> places_; // sorted
};

/// A buffer of samples that is part of a stage's state: held_samples.
template <class T>
concept holds_samples = requires { typename T::feedline_held_samples; };

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <stdexcept>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE held_log::held_log(std::size_t max_size) : max_size_(max_size), notes_(max_size) {}

FEEDLINE_INLINE std::vector<sample_id> held_log::at(std::size_t moment) const {
  std::vector<sample_id> ids = ids_;
  for (std::size_t i = 0; i < moment; ++i) {
    const note& n = notes_[i];
    const bool is_sample = n.id.index != sample_id::no_index;
    if (is_sample && n.place == after_last) {
      ids.push_back(n.id);
    } else if (is_sample) {
      ids[n.place] = n.id;
    } else if (n.place == after_last) {
      ids.clear();
    } else {
      ids[n.place] = ids.back();
      ids.pop_back();
    }
  }
  return ids;
}

FEEDLINE_INLINE std::vector<sample_id> held::ids() const { return log ? log->at(moment) : listed; }

FEEDLINE_INLINE void held::clear() noexcept {
  log.reset();
  listed.clear();
  values.reset();
  in_run.reset();
}

FEEDLINE_INLINE held_parts::held_parts() = default;

FEEDLINE_INLINE held_parts::~held_parts() = default;

FEEDLINE_INLINE held_parts::held_parts(const held_parts& other) { *this = other; }

FEEDLINE_INLINE held_parts::held_parts(held_parts&& other) noexcept
    : parts_(std::move(other.parts_)), size_(std::exchange(other.size_, 0)) {}

FEEDLINE_INLINE held_parts& held_parts::operator=(const held_parts& other) {
  if (this == &other) return *this;
  clear();
  for (const held& h : other) add() = h;
  return *this;
}

FEEDLINE_INLINE held_parts& held_parts::operator=(held_parts&& other) noexcept {
  parts_.swap(other.parts_);
  std::swap(size_, other.size_);
  return *this;
}

FEEDLINE_INLINE held& held_parts::add() {
  if (size_ == parts_.size()) parts_.emplace_back();
  return parts_[size_++];
}

FEEDLINE_INLINE void held_parts::drop_last() noexcept { parts_[--size_].clear(); }

FEEDLINE_INLINE void held_parts::leave_run() noexcept {
  for (held& h : parts_) h.in_run.reset();
}

FEEDLINE_INLINE std::unique_lock<std::mutex> read_again::begin_add(std::size_t count) {
  std::unique_lock lock(mutex_);
  places_.reserve(places_.size() + count);
  return lock;
}

FEEDLINE_INLINE void read_again::all_added() { std::sort(places_.begin(), places_.end()); }

FEEDLINE_INLINE void read_again::clear() noexcept {
  clear_values();
  std::vector<noted>().swap(places_);
}

FEEDLINE_INLINE std::size_t read_again::take_place(const sample_id& id) {
  for (auto i = std::lower_bound(places_.begin(), places_.end(), noted{id, 0});
       i != places_.end() && i->id == id; ++i)
    if (!std::exchange(i->is_taken, true)) return i->place;
  throw std::runtime_error("feedline: sample " + std::to_string(id.index) + " of epoch " +
                           std::to_string(id.epoch) +
                           ", which the run held when the checkpoint was taken, can't be read again");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

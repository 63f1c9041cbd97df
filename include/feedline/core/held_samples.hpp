// SPDX-License-Identifier: MIT
#pragma once
// held_samples: a buffer of samples that checkpoints save and restore by themselves.
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>
#include <feedline/core/slot.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/stored_value.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Samples of type T that were read again, in any order, for the buffers that held them.
template <class T>
class samples_read_again : public read_again {
 public:
  using list = std::vector<sample<carried<T>>>;

  samples_read_again() = default;

  /// All of them.
  explicit samples_read_again(list all) {
    add(std::move(all));
    all_added();
  }

  /// Adds samples; several threads may do so at once, before all_added().
  void add(list found) {
    const auto lock = begin_add(found.size());
    all_.reserve(all_.size() + found.size());
    for (auto& one : found) {
      all_.push_back(std::move(one));
      note(all_.back().id);
    }
  }

  /// Throws std::runtime_error if the sample wasn't found.
  sample<carried<T>> take(const sample_id& id) { return std::move(all_[take_place(id)]); }

 private:
  void clear_values() noexcept override { list().swap(all_); }

  list all_;
};

/// Those of buffers whose values a checkpoint contains. Throws std::invalid_argument if they aren't whole.
template <storable T>
std::shared_ptr<read_again> stored_samples(const held_parts& all, std::size_t place) {
  typename samples_read_again<T>::list found;
  for (const held& h : all) {
    if (h.place != place) continue;
    stored_bytes from(h.values ? std::span(*h.values) : std::span<const std::byte>());
    for (const sample_id& id : h.ids()) {
      sample<T> one{T(), id};
      if (!take_stored(from, one.value)) throw_state_not_whole();
      found.push_back(carry(std::move(one)));
    }
    if (from.left() > 0) throw_state_not_whole();
  }
  return owned<read_again>(new samples_read_again<T>(std::move(found)));
}

/// The samples of a stage that receives items of type T. Throws std::logic_error if it receives another type.
template <class T>
samples_read_again<T>& samples_of(read_again& found) {
  if (auto* const all = dynamic_cast<samples_read_again<T>*>(&found)) return *all;
  throw std::logic_error("feedline: the T of held_samples<T> must be the type of the stage's input");
}

class held_logs;

/// A log that no checkpoint needs any more, or a new one: most runs never read their logs, but all of them keep starting
/// new ones. `used`: those of one buffer; null at first.
std::shared_ptr<held_log> take_log(std::shared_ptr<held_logs>& used, std::size_t max_notes);

/// Notes for checkpoints: each takes `bytes` and covers the changes of `samples` samples. A note stays in
/// memory while a sample that it covers is still in the pipeline.
struct note_size {
  std::size_t bytes;
  std::size_t samples;
};

/// The notes of a buffer with that capacity.
inline note_size notes_of_buffer(std::size_t capacity) noexcept {
  const std::size_t max_notes = held_log::most_notes(capacity);
  return {sizeof(held_log) + max_notes * held_log::bytes_of_note() + capacity * sizeof(sample_id) + 128,
          max_notes};
}

} // namespace detail

/// Samples that a stage keeps for later. If a stage names such a buffer in its `state(archive)`, a resumed
/// run restores exactly the samples that it held: a checkpoint lists their indices, and the run reads them
/// again. Downstream of a stage that makes an item of several samples, they can't be read by an index: then the
/// checkpoint contains their values, if T is a number, string, array, tensor or vector, or a plain struct of
/// those. Otherwise the run works through the samples once more that came before.
///
/// `T` is the type of the stage's input items; the samples keep the identities that they arrived with. A copy
/// of a buffer is empty, because a run begins with empty buffers. The buffer allocates all of its memory with
/// the first sample or with reserve().
template <class T>
class held_samples {
  using value =
      std::remove_reference_t<decltype(detail::value_in(std::declval<T&>()))>; // even if T is a slot

 public:
  using feedline_held_samples = void;

  /// Throws std::invalid_argument for a capacity of 0.
  explicit held_samples(std::size_t capacity) : capacity_(capacity) {
    if (capacity == 0) throw std::invalid_argument("feedline::held_samples: the capacity must be at least 1");
    detail::refuse_negative(capacity, "feedline::held_samples: the capacity");
  }

  /// A copy has the same capacity and holds no samples.
  held_samples(const held_samples& other) : held_samples(other.capacity_) {}

  held_samples(held_samples&&) noexcept = default;

  held_samples& operator=(held_samples&&) noexcept = default;

  /// The most samples that it can hold.
  std::size_t capacity() const noexcept { return capacity_; }

  /// How many samples it holds.
  std::size_t size() const noexcept { return samples_.size(); }

  /// Whether it holds no samples.
  bool empty() const noexcept { return samples_.empty(); }

  /// The sample at a position below size().
  const sample<T>& operator[](std::size_t position) const noexcept { return samples_[position]; }

  /// The samples in order of position.
  auto begin() const noexcept { return samples_.begin(); }

  auto end() const noexcept { return samples_.end(); }

  /// Throws std::bad_alloc.
  void reserve() {
    if (capacity_ > samples_.max_size()) throw std::bad_alloc(); // the vector would throw std::length_error
    samples_.reserve(capacity_);
  }

  /// Adds a sample at the end. Throws std::length_error if the buffer is full.
  void push_back(sample<T>&& s) {
    if (samples_.size() == capacity_)
      throw std::length_error("feedline::held_samples: the buffer is full: its capacity is " +
                              std::to_string(capacity_) + " samples");
    if (samples_.capacity() == 0) reserve();
    const sample_id id = s.id;
    samples_.push_back(std::move(s));
    note([&](detail::held_log& log) { log.added(id); });
  }

  /// Removes and returns the sample at that position, and moves the last one there.
  sample<T> take(std::size_t position) {
    sample<T> taken = std::move(samples_[position]);
    if (position + 1 != samples_.size()) samples_[position] = std::move(samples_.back());
    samples_.pop_back();
    note([&](detail::held_log& log) { log.taken(position); });
    return taken;
  }

  /// Replaces the sample at that position and returns the old one.
  sample<T> exchange(std::size_t position, sample<T>&& s) {
    const sample_id id = s.id;
    sample<T> taken = std::exchange(samples_[position], std::move(s));
    note([&](detail::held_log& log) { log.replaced(position, id); });
    return taken;
  }

  /// Drops all samples.
  void clear() noexcept {
    samples_.clear();
    note([](detail::held_log& log) { log.cleared(); });
  }

  /// Whether checkpoints can contain the values of its samples.
  static constexpr bool can_save_values = detail::storable<value>;

  /// For the run: notes its current contents.
  void save(detail::held& into, bool with_values) const {
    if (samples_.size() <= few || with_values) {
      for (const sample<T>& s : samples_) into.listed.push_back(s.id);
      if constexpr (can_save_values)
        if (with_values) into.values = values();
      return;
    }
    if (!log_) {
      auto next = detail::take_log(logs_, detail::held_log::most_notes(capacity_));
      next->begin(samples_);
      log_ = std::move(next); // only now: begin() may run out of memory
    }
    into.log = log_;
    into.moment = log_->size();
  }

  /// For the run: restores its contents. Throws std::runtime_error if a sample wasn't found, and
  /// std::invalid_argument if there are too many.
  void load(const std::vector<sample_id>& ids, detail::read_again& found) {
    if (ids.size() > capacity_)
      throw std::invalid_argument(
          "feedline: the checkpoint holds more samples than the buffer's capacity of " +
          std::to_string(capacity_));
    detail::samples_read_again<value>& all = detail::samples_of<value>(found);
    samples_.clear();
    for (const sample_id& id : ids) {
      sample<detail::carried<value>> s = all.take(id);
      if constexpr (std::is_same_v<T, detail::carried<value>>) samples_.push_back(std::move(s));
      else samples_.push_back({std::move(detail::value_in(s.value)), id});
    }
    log_.reset();
  }

 private:
  // Listing this many samples is as fast as noting their changes.
  static constexpr std::size_t few = 16;

  std::shared_ptr<const std::vector<std::byte>> values() const
    requires can_save_values
  {
    detail::byte_count size;
    for (const sample<T>& s : samples_) detail::store(size, detail::value_in(s.value));
    auto bytes = std::make_shared<std::vector<std::byte>>(size.size());
    detail::byte_copy to(bytes->data());
    for (const sample<T>& s : samples_) detail::store(to, detail::value_in(s.value));
    return bytes;
  }

  template <class Note>
  void note(Note what) noexcept {
    if (!log_) return;
    if (log_->is_full()) log_.reset(); // the next checkpoint starts another one
    else what(*log_);
  }

  std::size_t capacity_;
  std::vector<sample<T>> samples_;
  mutable std::shared_ptr<detail::held_logs> logs_;
  mutable std::shared_ptr<detail::held_log> log_; // null: no checkpoint has needed one since it was full
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <array>
#include <mutex>

namespace feedline::inline FEEDLINE_ABI::detail {

class held_logs : public std::enable_shared_from_this<held_logs> {
 public:
  std::shared_ptr<held_log> take(std::size_t max_notes) {
    std::unique_ptr<held_log> log;
    {
      const std::lock_guard lock(mutex_);
      for (std::unique_ptr<held_log>& spare : spares_)
        if (!log) log = std::move(spare);
    }
    if (!log) log = std::make_unique<held_log>(max_notes);
    return {log.release(), [all = shared_from_this()](held_log* used) { all->give_back(used); }};
  }

 private:
  void give_back(held_log* used) noexcept {
    std::unique_ptr<held_log> log(used);
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<held_log>& spare : spares_)
      if (!spare) {
        spare = std::move(log);
        return;
      }
  }

  std::mutex mutex_;
  std::array<std::unique_ptr<held_log>, 2> spares_; // not a vector: returning a log must not allocate
};

FEEDLINE_INLINE std::shared_ptr<held_log> take_log(std::shared_ptr<held_logs>& used, std::size_t max_notes) {
  if (!used) used = std::make_shared<held_logs>();
  return used->take(max_notes);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

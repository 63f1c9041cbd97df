// SPDX-License-Identifier: MIT
#pragma once
// held_samples: a buffer of samples that checkpoints understand by themselves.
#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0 {

namespace detail {

/// Samples of type T that were read again, in any order, for the buffers that held them.
template <class T>
class samples_read_again : public read_again {
 public:
  explicit samples_read_again(std::vector<sample<T>> all) : all_(std::move(all)), is_taken_(all_.size()) {
    std::sort(all_.begin(), all_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  }

  void clear() noexcept override { std::vector<sample<T>>().swap(all_); }

  /// Throws std::runtime_error if it can't be had.
  sample<T> take(const sample_id& id) {
    const auto first = std::lower_bound(all_.begin(), all_.end(), id,
                                        [](const auto& s, const sample_id& i) { return s.id < i; });
    for (auto i = static_cast<std::size_t>(first - all_.begin()); i < all_.size() && all_[i].id == id; ++i) {
      if (is_taken_[i]) continue;
      is_taken_[i] = true;
      return std::move(all_[i]);
    }
    throw lost_sample(id);
  }

 private:
  std::vector<sample<T>> all_; // by identity
  std::vector<bool> is_taken_;
};

/// Those of a stage that gets items of type T. Throws std::logic_error if it gets others.
template <class T>
samples_read_again<T>& samples_of(read_again& found) {
  if (auto* const all = dynamic_cast<samples_read_again<T>*>(&found)) return *all;
  throw std::logic_error("feedline: held_samples<T> holds what the stage gets: T must be that type");
}

/// Logs that no checkpoint needs any more serve again: most runs never look into one, and all begin them steadily.
class held_logs : public std::enable_shared_from_this<held_logs> {
 public:
  std::shared_ptr<held_log> take(std::size_t most) {
    std::unique_ptr<held_log> log;
    {
      const std::lock_guard lock(mutex_);
      for (std::unique_ptr<held_log>& spare : spares_)
        if (!log) log = std::move(spare);
    }
    if (!log) log = std::make_unique<held_log>(most);
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
  std::array<std::unique_ptr<held_log>, 2> spares_; // no vector: giving back must not need memory
};

/// Notes for checkpoints, of so many bytes each, of which each covers what becomes of so many samples. Those that
/// cover a sample on its way stay.
struct note_size {
  std::size_t bytes;
  std::size_t samples;
};

/// Those of a buffer for so many samples.
inline note_size notes_of_buffer(std::size_t capacity) noexcept {
  const std::size_t most = held_log::most_notes(capacity);
  return {sizeof(held_log) + most * held_log::bytes_of_note() + capacity * sizeof(sample_id) + 128, most};
}

} // namespace detail

/// Samples that a stage keeps for later. A stage that names such a buffer in its `state(archive)` is resumed with just
/// what it held: a checkpoint lists the samples' indices, and they are read again.
///
/// `T` is the type of the items that the stage gets, and the samples are kept with the identities that they came with.
/// A copy of a buffer holds nothing, as a run begins with empty ones. The buffer takes its memory with the first sample
/// or, all at once, with reserve().
template <class T>
class held_samples {
 public:
  using feedline_held_samples = void;

  /// Throws std::invalid_argument for a capacity of 0.
  explicit held_samples(std::size_t capacity) : capacity_(capacity) {
    if (capacity == 0)
      throw std::invalid_argument("feedline::held_samples: a buffer needs room for at least one sample");
    detail::refuse_negative(capacity, "feedline::held_samples: the capacity");
  }

  held_samples(const held_samples& other) : held_samples(other.capacity_) {}

  held_samples(held_samples&&) noexcept = default;

  held_samples& operator=(held_samples&&) noexcept = default;

  /// The most samples that it may hold.
  std::size_t capacity() const noexcept { return capacity_; }

  std::size_t size() const noexcept { return samples_.size(); }

  bool empty() const noexcept { return samples_.empty(); }

  const sample<T>& operator[](std::size_t place) const noexcept { return samples_[place]; }

  auto begin() const noexcept { return samples_.begin(); }

  auto end() const noexcept { return samples_.end(); }

  /// Throws std::bad_alloc.
  void reserve() {
    if (capacity_ > samples_.max_size()) throw std::bad_alloc(); // the vector would call that a wrong length
    samples_.reserve(capacity_);
  }

  /// Adds a sample behind the last one. Throws std::length_error if the buffer is full.
  void push_back(sample<T>&& s) {
    if (samples_.size() == capacity_)
      throw std::length_error("feedline::held_samples: the buffer is full: it was made for " +
                              std::to_string(capacity_) + " samples");
    if (samples_.capacity() == 0) reserve();
    const sample_id id = s.id;
    samples_.push_back(std::move(s));
    note([&](detail::held_log& log) { log.added(id); });
  }

  /// Gives the sample in some place, where the last one comes to lie.
  sample<T> take(std::size_t place) {
    sample<T> taken = std::move(samples_[place]);
    if (place + 1 != samples_.size()) samples_[place] = std::move(samples_.back());
    samples_.pop_back();
    note([&](detail::held_log& log) { log.taken(place); });
    return taken;
  }

  /// Gives the sample in some place and puts another one there.
  sample<T> exchange(std::size_t place, sample<T>&& s) {
    const sample_id id = s.id;
    sample<T> taken = std::exchange(samples_[place], std::move(s));
    note([&](detail::held_log& log) { log.replaced(place, id); });
    return taken;
  }

  void clear() noexcept {
    samples_.clear();
    note([](detail::held_log& log) { log.cleared(); });
  }

  /// Notes what it holds now; for the run.
  void save(detail::held& into) const {
    if (samples_.size() <= few) {
      for (const sample<T>& s : samples_) into.listed.push_back(s.id);
      return;
    }
    if (!log_) {
      if (!logs_) logs_ = std::make_shared<detail::held_logs>();
      auto next = logs_->take(detail::held_log::most_notes(capacity_));
      next->begin(samples_);
      log_ = std::move(next); // a begin that ran out of memory leaves none that is half begun
    }
    into.log = log_;
    into.moment = log_->size();
  }

  /// Holds again what it held; for the run. Throws std::runtime_error if a sample can't be had, and
  /// std::invalid_argument if there are too many.
  void load(const std::vector<sample_id>& ids, detail::read_again& found) {
    if (ids.size() > capacity_)
      throw std::invalid_argument(
          "feedline: the checkpoint holds more samples than the buffer, which was made for " +
          std::to_string(capacity_));
    detail::samples_read_again<T>& all = detail::samples_of<T>(found);
    samples_.clear();
    for (const sample_id& id : ids) samples_.push_back(all.take(id));
    log_.reset();
  }

 private:
  // So many are listed as quickly as noted.
  static constexpr std::size_t few = 16;

  template <class Note>
  void note(Note what) noexcept {
    if (!log_) return;
    if (log_->is_full()) log_.reset(); // the next checkpoint begins another one
    else what(*log_);
  }

  std::size_t capacity_;
  std::vector<sample<T>> samples_;
  mutable std::shared_ptr<detail::held_logs> logs_;
  mutable std::shared_ptr<detail::held_log> log_; // null: nobody has asked since it was full
};

} // namespace feedline::inline v0

// SPDX-License-Identifier: MIT
#pragma once
// shuffle: a buffer out of which items come in a random order.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/detail/cut.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/stage.hpp>
#include <feedline/detail/given_size.hpp>

namespace feedline {

struct shuffle_options {
  std::size_t capacity;     ///< the most items that the buffer holds
  std::size_t min_fill = 0; ///< nothing comes out before so many are in; 0: no minimum
};

namespace detail {

/// The buffer itself, of samples or, to work out what it held, of their identities alone. What it does depends
/// on (key, counts) and on what is in, never on time.
template <class Item>
class shuffle_buffer {
 public:
  shuffle_buffer(const shuffle_options& o, std::uint64_t key) : options_(o), key_(key) {
    if (o.capacity > items_.max_size()) throw std::bad_alloc(); // reserve() would call that a wrong length
    items_.reserve(o.capacity);
  }

  /// True: one shall leave, see pick().
  bool enter(Item&& item) {
    items_.push_back(std::move(item));
    if (items_.size() < options_.min_fill) return false;
    if (items_.size() >= options_.capacity) return true;
    growing_ = !growing_;
    return !growing_;
  }

  Item pick() {
    const auto i =
        static_cast<std::size_t>(random_generator(detail::key(key_, rounds_, picks_++)).below(items_.size()));
    Item picked = std::move(items_[i]);
    if (i + 1 != items_.size()) items_[i] = std::move(items_.back());
    items_.pop_back();
    return picked;
  }

  /// As if nothing had been, but with other picks than before.
  void begin_anew() {
    items_.clear();
    growing_ = false;
    picks_ = 0;
    ++rounds_;
  }

  std::vector<Item>& items() noexcept { return items_; }

  const std::vector<Item>& items() const noexcept { return items_; }

  void state(auto& archive) { archive(growing_, picks_, rounds_); }

 private:
  shuffle_options options_;
  std::uint64_t key_;
  std::vector<Item> items_;
  // Until it is full the buffer gives one item for two that come, so that it grows while it already feeds.
  bool growing_ = false;
  std::uint64_t picks_ = 0;
  std::uint64_t rounds_ = 0;
};

/// What a shuffle buffer held at some time and what it did since: who asks for a later moment does that again,
/// on identities.
class shuffle_log : public held_log {
 public:
  shuffle_log(const shuffle_options& o, std::uint64_t key)
      : options_(o), key_(key), most_(most_notes(o)), notes_(new sample_id[most_]) {}

  /// The notes begin with a buffer as it is now.
  template <class In>
  void begin(shuffle_buffer<sample<In>>& buffer) {
    size_ = 0;
    ids_.clear();
    ids_.reserve(options_.capacity);
    for (const sample<In>& s : buffer.items()) ids_.push_back(s.id);
    words_.clear();
    state_writer writer(words_);
    buffer.state(writer);
  }

  bool is_full() const noexcept { return size_ == most_; }

  static std::size_t most_notes(const shuffle_options& o) noexcept {
    return std::max<std::size_t>(o.capacity, 4096);
  }

  std::uint64_t size() const noexcept { return size_; }

  void entered(const sample_id& id) noexcept { notes_[size_++] = id; }

  /// One left although none entered.
  void left() noexcept { entered({.part = leaves}); }

  void began_anew() noexcept { entered({.part = begins}); }

  held_list at(std::uint64_t moment) const override {
    shuffle_buffer<sample_id> buffer(options_, key_);
    buffer.items() = ids_;
    state_reader reader(words_);
    buffer.state(reader);
    for (std::uint64_t i = 0; i < moment; ++i) {
      const sample_id& note = notes_[i];
      if (note.index != sample_id::no_index) {
        if (buffer.enter(sample_id(note))) buffer.pick();
      } else if (note.part == leaves) {
        buffer.pick();
      } else {
        buffer.begin_anew();
      }
    }
    held_list list;
    state_writer writer(list.words);
    buffer.state(writer);
    list.ids = std::move(buffer.items());
    return list;
  }

 private:
  static constexpr std::uint32_t leaves = 1, begins = 2;

  shuffle_options options_;
  std::uint64_t key_;
  std::vector<sample_id> ids_;
  std::vector<std::uint64_t> words_;
  std::size_t most_;
  std::unique_ptr<sample_id[]> notes_; // written by one thread at its end, read by others before that
  std::uint64_t size_ = 0;
};

/// Logs that no cut needs any more serve again: most runs never look into one, and all begin them steadily.
class shuffle_logs : public std::enable_shared_from_this<shuffle_logs> {
 public:
  std::shared_ptr<shuffle_log> take(const shuffle_options& o, std::uint64_t key) {
    std::unique_ptr<shuffle_log> log;
    {
      const std::lock_guard lock(mutex_);
      for (std::unique_ptr<shuffle_log>& spare : spares_)
        if (!log) log = std::move(spare);
    }
    if (!log) log = std::make_unique<shuffle_log>(o, key);
    return {log.release(), [all = shared_from_this()](shuffle_log* used) { all->give_back(used); }};
  }

 private:
  void give_back(shuffle_log* used) noexcept {
    std::unique_ptr<shuffle_log> log(used);
    const std::lock_guard lock(mutex_);
    for (std::unique_ptr<shuffle_log>& spare : spares_)
      if (!spare) {
        spare = std::move(log);
        return;
      }
  }

  std::mutex mutex_;
  std::array<std::unique_ptr<shuffle_log>, 2> spares_; // no vector: giving back must not need memory
};

struct shuffle_stage {
  using feedline_part = void;
  static constexpr const char* kind = "shuffle";
  static constexpr bool gives_by_count = true;
  static constexpr bool hands_on_unchanged = true;

  template <class In>
  static consteval fit fits() {
    return std::is_nothrow_move_assignable_v<In> ? fit::yes : fit::item_cannot_move;
  }

  template <class In>
  class running {
   public:
    using output = In;
    static constexpr bool hands_on_unchanged = true;

    running(const shuffle_options& o, std::uint64_t key) : options_(o), key_(key), buffer_(o, key) {}

    void operator()(sample<In>&& s, auto& emit) {
      log().entered(s.id);
      if (buffer_.enter(std::move(s))) emit(buffer_.pick());
    }

    // The next epoch begins as if nothing had been: how far this one was wanted must not matter to it.
    void finish(auto& emit) {
      for (bool wanted = true; wanted && !buffer_.items().empty();) {
        log().left();
        wanted = emit(buffer_.pick());
      }
      log().began_anew();
      buffer_.begin_anew();
    }

    bool held_now(held& into) const {
      if (!log_) return false;
      into.log = log_;
      into.moment = log_->size();
      return true;
    }

    void expect(const held_list& list) {
      if (list.ids.size() > options_.capacity)
        throw std::invalid_argument("feedline: the checkpoint holds more samples than the shuffle buffer");
      state_reader reader(list.words);
      buffer_.state(reader);
      for (std::size_t i = 0; i < list.ids.size(); ++i) missing_.push_back({list.ids[i], i});
      std::sort(missing_.begin(), missing_.end(),
                [](const missing& a, const missing& b) { return a.id < b.id; });
      returned_.resize(list.ids.size());
    }

    // They come in the source's order.
    void hold(sample<In>&& s, auto&, context&) {
      auto found = std::lower_bound(missing_.begin(), missing_.end(), s.id,
                                    [](const missing& m, const sample_id& id) { return m.id < id; });
      while (found != missing_.end() && found->id == s.id && returned_[found->place]) ++found;
      if (found != missing_.end() && found->id == s.id) returned_[found->place].emplace(std::move(s));
    }

    void has_all() {
      for (const missing& m : missing_)
        if (!returned_[m.place]) throw lost_sample(m.id);
      for (auto& s : returned_) buffer_.items().push_back(*std::move(s));
      decltype(missing_)().swap(missing_);
      decltype(returned_)().swap(returned_);
      log();
    }

   private:
    struct missing {
      sample_id id;
      std::size_t place; // in the buffer
    };

    shuffle_log& log() {
      if (!log_ || log_->is_full()) {
        auto next = logs_->take(options_, key_);
        next->begin(buffer_);
        log_ = std::move(next); // a begin that ran out of memory leaves none that is half begun
      }
      return *log_;
    }

    shuffle_options options_;
    std::uint64_t key_;
    shuffle_buffer<sample<In>> buffer_;
    std::shared_ptr<shuffle_logs> logs_ = std::make_shared<shuffle_logs>();
    std::shared_ptr<shuffle_log> log_; // null: nothing has been done yet
    std::vector<missing> missing_;     // what a resumed run waits for
    std::vector<std::optional<sample<In>>> returned_;
  };

  template <class In>
  running<In> bind(const stage_info& info) const {
    return {options, info.key};
  }

  std::uint64_t fingerprint() const noexcept { return key(options.capacity, options.min_fill); }

  std::size_t items_held() const noexcept { return options.capacity; }

  /// Logs of what came and went, for checkpoints.
  note_size notes() const noexcept {
    const std::size_t most = shuffle_log::most_notes(options);
    return {sizeof(shuffle_log) + (most + options.capacity) * sizeof(sample_id) + 128, most};
  }

  shuffle_options options;
};

inline void check_shuffle(const shuffle_options& o) {
  if (o.capacity == 0)
    throw std::invalid_argument("feedline::shuffle: a buffer needs room for at least one item");
  refuse_negative(o.capacity, "feedline::shuffle: the capacity");
  refuse_negative(o.min_fill, "feedline::shuffle: the min_fill");
  if (o.min_fill > o.capacity)
    throw std::invalid_argument("feedline::shuffle: min_fill " + std::to_string(o.min_fill) +
                                " is more than the capacity of " + std::to_string(o.capacity));
}

} // namespace detail

/// Gives items in a random order within the reach of a buffer.
///
/// Nothing comes out before `min_fill` items are in. From then on one item, each of those inside equally
/// likely, leaves for every second one that enters, until the buffer holds `capacity`; then one for each. In
/// the steady state an item is displaced by `capacity - 1` places on average (geometrically distributed). At
/// the end of each epoch of finite mode the buffer is emptied, in random order; in infinite mode epochs pass
/// through it without a seam.
///
/// Takes:   any item that can be move-assigned
/// Gives:   every item, unchanged
/// Order:   random, the same for the same seed
/// Throws:  std::invalid_argument for a capacity of 0 or a min_fill above it
/// Stops:   at once
/// Example: `train | shuffle({.capacity = 10'000, .min_fill = 8'000}) | batch(256)`
inline auto shuffle(const shuffle_options& options) {
  detail::check_shuffle(options);
  return detail::shuffle_stage{options};
}

} // namespace feedline

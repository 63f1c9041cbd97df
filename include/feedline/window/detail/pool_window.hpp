// SPDX-License-Identifier: MIT
#pragma once
// The window of a pool: the newest chunks of the chunk sources that were added to it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/window/stream_shuffler.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A source of chunks in a pool.
template <class Source>
struct pooled_source {
  std::shared_ptr<const Source> source;
  std::uint64_t first; // number of its first chunk
  std::uint64_t count;
  bool is_counted_as_gone = false;

  std::uint64_t last() const noexcept { return first + count; }
};

/// Counts the chunks that are newer than the one with a key.
class anchor_count {
 public:
  const std::string& key() const noexcept { return key_; }

  std::uint64_t since() const noexcept { return since_; }

  /// Adds chunks that are newer than all added before.
  template <class Source>
  void add_newer(const Source& source, std::uint64_t count) {
    if (const auto newer = newer_than_key(source, count)) {
      since_ = *newer;
      found_ = true;
    } else {
      since_ += count;
    }
  }

  /// Adds chunks that are older than all added before.
  template <class Source>
  void add_older(const Source& source, std::uint64_t count) {
    if (found_) return;
    const auto newer = newer_than_key(source, count);
    since_ += newer.value_or(count);
    found_ = newer.has_value();
  }

  /// Counts from that chunk on. `sources`: the newest of the `came` chunks that were added.
  template <class Sources>
  void set(std::string key, const Sources& sources, std::uint64_t came) {
    anchor_count other;
    other.key_ = std::move(key);
    for (auto s = sources.rbegin(); s != sources.rend() && !other.found_; ++s)
      other.add_older(*s->source, s->count);
    if (!other.found_) other.since_ = came;
    *this = std::move(other);
  }

  /// Counts from now on, after the chunk with that key; empty: no chunk was added, and all will count.
  void reset(std::string key) {
    key_ = std::move(key);
    since_ = 0;
    found_ = !key_.empty();
  }

 private:
  // How many of them are newer than the one with the key.
  template <class Source>
  std::optional<std::uint64_t> newer_than_key(const Source& source, std::uint64_t count) const {
    if (!key_.empty())
      for (std::uint64_t i = count; i > 0; --i)
        if (std::string_view(source.key(i - 1)) == key_) return count - i;
    return {};
  }

  std::string key_; // empty: count all
  std::uint64_t since_ = 0;
  bool found_ = false; // older chunks don't count
};

/// Sources of chunks; draws their newest chunks in random order. Numbers are those of pool_chunk plus 2^63. One thread at a
/// time may use it.
template <class Chunks>
class pool_window {
 public:
  /// A chunk that was drawn.
  struct place {
    std::shared_ptr<const Chunks> source;
    std::uint64_t position;
    std::int64_t number;
  };

  pool_window(std::uint64_t room, std::uint64_t seed, std::string anchor) : room_(room), shuffler_(seed) {
    set_anchor(std::move(anchor));
  }

  /// Adds a source that is older than all before, or newer.
  void add(std::shared_ptr<const Chunks> source, std::uint64_t count, bool is_older) {
    if (is_older) {
      anchor_.add_older(*source, count);
      first_ -= count;
      sources_.push_front({std::move(source), first_, count});
      older_ += count;
    } else {
      anchor_.add_newer(*source, count);
      sources_.push_back({std::move(source), last_, count});
      last_ += count;
    }
    indexed_ += count;
    const std::uint64_t begin = std::max(first_, last_ - room_);
    while (sources_.front().last() <= begin) sources_.pop_front();
    first_ = std::max(first_, sources_.front().first);
    shuffler_.set_range(begin, last_);
  }

  /// Whether the sources added as older ones would fill it.
  bool is_full() const noexcept { return older_ >= room_; }

  /// Draws the next chunk of the pass, which must have some left. Nothing: its file is gone, and `passes_over_gone`.
  std::optional<place> draw(bool passes_over_gone) {
    const std::uint64_t number = *shuffler_.draw();
    const auto found =
        std::upper_bound(sources_.begin(), sources_.end(), number,
                         [](std::uint64_t n, const pooled_source<Chunks>& s) { return n < s.last(); });
    if (passes_over_gone && is_gone(*found)) return std::nullopt;
    return place{found->source, number - found->first, static_cast<std::int64_t>(number - middle)};
  }

  /// Begins a pass, in which data that is back takes part.
  void start_pass() {
    if constexpr (requires(const Chunks& c) { c.look_again(); })
      for (const pooled_source<Chunks>& s : sources_)
        if (s.is_counted_as_gone) s.source->look_again();
    shuffler_.start_pass();
  }

  std::uint64_t pass() const noexcept { return shuffler_.pass(); }

  /// Chunks left in the pass.
  std::uint64_t left() const noexcept { return shuffler_.left(); }

  /// Chunks in the window.
  std::uint64_t size() const noexcept { return shuffler_.size(); }

  /// Sources that cover it.
  std::size_t sources() const noexcept { return sources_.size(); }

  /// Chunks added in total.
  std::uint64_t indexed() const noexcept { return indexed_; }

  /// Chunks that were passed over, each once for each time that its file was gone.
  std::uint64_t gone() const noexcept { return gone_; }

  std::uint64_t since_anchor() const noexcept { return anchor_.since(); }

  void set_anchor(std::string key) { anchor_.set(std::move(key), sources_, indexed_); }

  /// Returns the key of the newest chunk; empty if there is none.
  std::string reset_anchor() {
    anchor_.reset(newest_key());
    return anchor_.key();
  }

  /// The key of the newest chunk; empty if there is none.
  std::string newest_key() const {
    if (sources_.empty()) return {};
    const auto& newest = sources_.back();
    return newest.source->key(newest.count - 1);
  }

 private:
  static constexpr std::uint64_t middle = std::uint64_t{1} << 63; // number of the first chunk after the start

  bool is_gone(pooled_source<Chunks>& s) {
    if constexpr (requires { s.source->is_gone(); }) {
      const bool is_gone = s.source->is_gone();
      if (!std::exchange(s.is_counted_as_gone, is_gone) && is_gone)
        gone_ += s.last() - std::max(s.first, shuffler_.first());
      return is_gone;
    } else {
      return false;
    }
  }

  const std::uint64_t room_;
  std::deque<pooled_source<Chunks>> sources_; // the oldest first
  std::uint64_t first_ = middle;              // their numbers
  std::uint64_t last_ = middle;
  std::uint64_t older_ = 0;
  std::uint64_t indexed_ = 0;
  std::uint64_t gone_ = 0;
  anchor_count anchor_;
  stream_shuffler shuffler_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

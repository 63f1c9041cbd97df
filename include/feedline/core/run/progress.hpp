// SPDX-License-Identifier: MIT
#pragma once
// The progress of a run's parts, which snapshots save and resumed runs restore.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/run/stream_position.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The progress of the source's thread.
struct source_place {
  std::uint64_t epoch = 0;
  std::uint64_t given = 0;  // samples of this epoch
  std::uint64_t failed = 0; // samples of this epoch that failed
  // If the source divides positions among the ranks: this rank's first one in the epoch. If the source doesn't
  // know ranks: how many samples of other ranks precede this one's next.
  std::uint64_t first = 0;
  std::uint64_t next_first = 0; // in the next epoch

  /// The number of calls of next(), or of positions taken if the source divides them.
  std::uint64_t calls() const noexcept { return given + failed; }
};

/// Whether each stage times its work on the current item.
struct timed_item {
  bool is_timed = false;
  std::uint64_t downstream_ns = 0; // taken by the stages downstream of the timed one
};

/// One thread's part of the snapshots. A snapshot has the state of a stage directly after it emitted an item
/// or, for a user's stage, after its call returned.
class segment_progress {
 public:
  explicit segment_progress(std::size_t segment, const rank& r = {}, std::uint32_t first_epoch = 0);

  ~segment_progress();

  segment_progress(segment_progress&&) = delete;

  stream_position input;  ///< in the packets from upstream; unused in the source's segment
  source_place source;    ///< used only in the source's segment
  std::size_t ending = 0; ///< at the end of an epoch: the stage that emits what it holds; else 0
  bool enough = false;    ///< some stage wants no more of this epoch
  timed_item timed_stages;
  std::size_t calls = 0;   ///< of users' stages that haven't returned: their state is unknown
  bool is_resumed = false; ///< the current epoch began in the earlier run
  bool has_failed = false; ///< the current epoch: its last snapshot is from before the failure

  /// The source, or a stage whose state belongs to this segment's.
  struct part {
    const void* object;
    std::size_t place;
    bool can_read_again;                               // the samples that it holds, by their identities
    bool (*at_rest)(const void*);                      // null: it always is
    void (*save)(const void*, state_writer&);          // null: it has no state
    std::array<std::weak_ptr<const void>, 2> copies{}; // of the values, in the run
    std::uint64_t copy_due_at = 0;                     // in ns
  };

  /// The source is added last.
  void add(part p);

  /// Some stage's state can't be saved: a resumed run repeats this segment from the beginning of the run.
  void cannot_save() noexcept { can_save_ = false; }

  /// Writes the progress of everything up to here. Returns false, and writes nothing, if it isn't known now.
  bool save(snapshot& target, bool ends_epoch) const;

  /// Restores the numbers that save() writes before those of the parts. `is_after_state`: everything upstream
  /// must be recomputed exactly, even if none of it is wanted.
  void load(state_reader& reader, snapshot before, bool is_after_state);

  /// Writes the numbers that follow the position. Rare ones share one word.
  static void write_ending(state_writer& writer, std::size_t ending = 0, bool enough = false) {
    writer((enough ? 1u : 0u) | (ending != 0 ? 2u : 0u));
    if (ending != 0) writer(ending);
  }

 private:
  // Whether a snapshot may contain the part now. If its samples must be saved by value, that is as expensive as it holds
  // many: then it takes at most a twentieth of the time, and a run has no more than two such copies.
  bool may_save(const part& p) const;

  void read_ending(state_reader& reader) {
    unsigned what = 0;
    reader(what);
    enough = (what & 1) != 0;
    if ((what & 2) != 0) reader(ending);
  }

  std::size_t segment_;
  bool can_save_ = true;
  mutable std::vector<part> parts_;
  mutable std::vector<std::uint64_t> scratch_; // used by may_save()
};

/// A snapshot that was read from a checkpoint, divided into the segments of a run. The caller's thread counts
/// as one more segment.
class resumption {
 public:
  /// For a run that isn't resumed.
  resumption() = default;

  /// Throws std::invalid_argument if the snapshot is inconsistent.
  resumption(snapshot from, std::size_t segments);

  /// Whether the segment saved anything; otherwise it starts at its beginning.
  bool has(std::size_t segment) const noexcept;

  /// What the segment saved.
  std::span<const std::uint64_t> words(std::size_t segment) const;

  /// The state of everything upstream of the segment whose first stage is at that position.
  snapshot before(std::size_t segment, std::size_t first_place) const;

  const held_parts& held() const noexcept { return snapshot_.held; }

  /// In how many buffers the stage at that position held samples.
  std::size_t buffers_of(std::size_t place) const noexcept;

  /// The samples that the stage at that position held.
  std::vector<sample_id> held_by(std::size_t place) const;

  /// Whether the checkpoint has the values of the samples that the stage at that position held.
  bool has_values_of(std::size_t place) const noexcept;

  /// The samples that the stage at that position held, read again; null if it held none, or if they weren't read.
  read_again* samples_of(std::size_t place) const noexcept;

  void found_again(std::size_t place, std::shared_ptr<read_again> samples);

  /// The last epoch that any part of the earlier run, which began with epoch `first`, had reached.
  std::uint64_t last_epoch(std::uint64_t first) const;

  /// The failures of the earlier run among the samples that are recomputed.
  std::vector<failed_call> failures() const;

  bool is_beginning() const;

 private:
  // The progress of each segment and of the caller in the stream from upstream.
  std::vector<stream_place> places() const;

  struct section {
    std::size_t begin = 0; // index of its length in the snapshot's words; 0: none
    std::size_t size = 0;
  };

  snapshot snapshot_;
  std::vector<section> sections_;
  std::vector<std::shared_ptr<read_again>> read_again_; // by the position of the stage that held them
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <utility>

#include <feedline/core/metrics/thread_counters.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE segment_progress::segment_progress(std::size_t segment, const rank& r,
                                                   std::uint32_t first_epoch)
    : segment_(segment) {
  source.epoch = first_epoch;
  source.first = r.number;
}

FEEDLINE_INLINE segment_progress::~segment_progress() = default;

FEEDLINE_INLINE void segment_progress::add(part p) { parts_.push_back(std::move(p)); }

FEEDLINE_INLINE bool segment_progress::save(snapshot& target, bool ends_epoch) const {
  if (!can_save_ || calls > 0 || has_failed) return false;
  for (const part& p : parts_)
    if ((p.at_rest && !p.at_rest(p.object)) || (!p.can_read_again && !may_save(p))) return false;
  stream_place since;
  if (segment_ == 0) {
    target.words.assign(1, 0);
    target.held.clear();
  } else {
    auto [base, place] = input.now(ends_epoch);
    since = std::move(place);
    target = *base;
    if (target.words.empty()) target.words.push_back(segment_);
  }
  write_section(target, [&](state_writer& writer) {
    if (segment_ > 0) write_place(writer, since);
    else if (ends_epoch) writer(source.epoch + 1, 0, 0, source.next_first);
    else writer(source.epoch, source.calls(), source.failed, source.first);
    if (ends_epoch) write_ending(writer);
    else write_ending(writer, ending, enough);
    for (part& p : parts_) {
      if (p.place == 0 && ends_epoch) continue; // a fresh source begins the next epoch
      const std::size_t held_before = target.held.size();
      const std::uint64_t began = p.can_read_again ? 0 : now_ns();
      state_writer writer_of_part(target.words, target.held, p.place, !p.can_read_again);
      if (p.save) p.save(p.object, writer_of_part);
      if (p.can_read_again || target.held.size() == held_before) continue;
      const auto copy = std::make_shared<char>();
      target.held.last().in_run = copy;
      p.copies[p.copies[0].expired() ? 0 : 1] = copy;
      const std::uint64_t now = now_ns();
      p.copy_due_at = now + 20 * (now - began);
    }
  });
  return true;
}

FEEDLINE_INLINE void segment_progress::load(state_reader& reader, snapshot before, bool is_after_state) {
  is_resumed = true;
  if (segment_ > 0) {
    stream_place taken = read_place(reader);
    read_ending(reader);
    // The rest of the epoch is left out, however much it is.
    if (enough || (ending != 0 && !is_after_state)) taken = {.epochs = taken.epochs};
    input.resume(std::move(before), std::move(taken));
  } else {
    if (reader.is_empty()) return;
    reader(source.epoch, source.given, source.failed, source.first);
    read_ending(reader);
    source.given -= source.failed;
  }
}

FEEDLINE_INLINE bool segment_progress::may_save(const part& p) const {
  scratch_.clear();
  state_writer writer(scratch_);
  if (p.save) p.save(p.object, writer);
  if (writer.held() == 0) return true;
  return writer.can_save_values() && (p.copies[0].expired() || p.copies[1].expired()) &&
         now_ns() >= p.copy_due_at;
}

FEEDLINE_INLINE resumption::resumption(snapshot from, std::size_t segments) : snapshot_(std::move(from)) {
  const std::vector<std::uint64_t>& words = snapshot_.words;
  bool fits = !words.empty() && words[0] <= segments;
  for (std::size_t at = 1, segment = fits ? words[0] : 0; fits && segment <= segments; ++segment) {
    sections_.resize(segment);
    fits = at < words.size() && words[at] < words.size() - at;
    if (!fits) break;
    sections_.push_back({at, words[at]});
    at += words[at] + 1;
    if (segment == segments) fits = at == words.size();
  }
  const detail::held* before = nullptr;
  for (const detail::held& h : snapshot_.held) {
    fits = fits && h.place > 0;
    if (before)
      fits = fits && (h.place > before->place || (h.place == before->place && h.buffer > before->buffer));
    before = &h;
  }
  if (!fits) throw_state_not_whole();
}

FEEDLINE_INLINE bool resumption::has(std::size_t segment) const noexcept {
  return segment < sections_.size() && sections_[segment].begin > 0;
}

FEEDLINE_INLINE std::span<const std::uint64_t> resumption::words(std::size_t segment) const {
  if (!has(segment)) return {};
  const section& s = sections_[segment];
  return std::span(snapshot_.words).subspan(s.begin + 1, s.size);
}

FEEDLINE_INLINE snapshot resumption::before(std::size_t segment, std::size_t first_place) const {
  snapshot part;
  if (!has(segment) || sections_[segment].begin == 1) return part;
  part.words.assign(snapshot_.words.begin(),
                    snapshot_.words.begin() + static_cast<std::ptrdiff_t>(sections_[segment].begin));
  for (const detail::held& h : snapshot_.held)
    if (h.place < first_place) part.held.add() = h;
  return part;
}

FEEDLINE_INLINE std::size_t resumption::buffers_of(std::size_t place) const noexcept {
  std::size_t count = 0;
  for (const detail::held& h : snapshot_.held) count += h.place == place;
  return count;
}

FEEDLINE_INLINE bool resumption::has_values_of(std::size_t place) const noexcept {
  bool has = false;
  for (const detail::held& h : snapshot_.held) has |= h.place == place && h.values;
  return has;
}

FEEDLINE_INLINE std::uint64_t resumption::last_epoch(std::uint64_t first) const {
  std::uint64_t epoch = epoch_of(snapshot_, first);
  for (const stream_place& p : places()) epoch += p.epochs;
  return epoch;
}

FEEDLINE_INLINE std::vector<sample_id> resumption::held_by(std::size_t place) const {
  std::vector<sample_id> all;
  for (const detail::held& h : snapshot_.held) {
    if (h.place != place) continue;
    const std::vector<sample_id> ids = h.ids();
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

FEEDLINE_INLINE read_again* resumption::samples_of(std::size_t place) const noexcept {
  return place < read_again_.size() ? read_again_[place].get() : nullptr;
}

FEEDLINE_INLINE void resumption::found_again(std::size_t place, std::shared_ptr<read_again> samples) {
  if (place >= read_again_.size()) read_again_.resize(place + 1);
  read_again_[place] = std::move(samples);
}

FEEDLINE_INLINE std::vector<failed_call> resumption::failures() const {
  std::vector<failed_call> all;
  for (const stream_place& p : places()) all.insert(all.end(), p.failures.begin(), p.failures.end());
  return all;
}

FEEDLINE_INLINE bool resumption::is_beginning() const {
  if (has_source(snapshot_)) return false;
  for (const stream_place& p : places())
    if (!p.is_beginning()) return false;
  return true;
}

FEEDLINE_INLINE std::vector<stream_place> resumption::places() const {
  std::vector<stream_place> all;
  for (std::size_t segment = 1; segment < sections_.size(); ++segment) {
    state_reader reader(words(segment));
    all.push_back(read_place(reader));
  }
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

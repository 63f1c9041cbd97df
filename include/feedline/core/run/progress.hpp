// SPDX-License-Identifier: MIT
#pragma once
// How far the parts of a run have come: what is put down in snapshots, and where a resumed run takes it up again.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <feedline/core/rank.hpp>
#include <feedline/core/run/stream_position.hpp>
#include <feedline/core/snapshot/snapshot.hpp>

namespace feedline::inline v0::detail {

/// How far the source's thread has come.
struct source_place {
  std::uint64_t epoch = 0;
  std::uint64_t given = 0;  // samples of this epoch
  std::uint64_t failed = 0; // … and samples that it could not give
  // Of a source that shares out places: the epoch's first one that is this rank's. Of others that know nothing of
  // ranks: how many samples of other ranks come before this one's next.
  std::uint64_t first = 0;
  std::uint64_t next_first = 0; // in the next epoch
  bool without_state =
      false; // what the source says of its own state is not to be had: its calls are repeated

  /// Of next(); of a source that shares out places: how many were taken.
  std::uint64_t calls() const noexcept { return given + failed; }
};

/// Whether each stage times what it does with the item in hand.
struct timed_item {
  bool is_timed = false;
  std::uint64_t behind_ns = 0; // that stages behind the one that is timed have taken
};

/// One thread's share in snapshots. A stage's state belongs to a snapshot as it is when an item has just been handed on, or, of
/// a user's own, when its call has returned.
class segment_progress {
 public:
  explicit segment_progress(std::size_t segment, const rank& r = {}) : segment_(segment) {
    source.first = r.number;
  }

  segment_progress(segment_progress&&) = delete;

  stream_position input;  ///< in what stands before; not in the source's segment
  source_place source;    ///< in the source's segment
  std::size_t ending = 0; ///< at the end of an epoch: the stage that gives what it holds; else 0
  bool enough = false;    ///< some stage wants no more of this epoch
  timed_item timed_stages;
  std::size_t calls = 0;      ///< of stages of a user's own that have not returned: their state can't be told
  std::uint64_t failures = 0; ///< skipped so far, of all that passed here
  bool is_in_order = true;    ///< false: a worker, which can't say how many failures come before one
  bool is_resumed = false;    ///< the epoch in hand was begun by an earlier run
  bool can_repeat = true; ///< the source can be asked again for its last sample, by the number of its call

  /// Tells of the source or a stage whose state belongs to this segment's. The source comes last.
  /// `can_read_again`: the samples that it holds can be read again by their identities.
  template <class Part>
  void add(const Part& object, std::size_t place, bool can_read_again) {
    parts_.push_back({&object, place, can_read_again, &is_at_rest<Part>, &write<Part>});
  }

  /// Some stage's state can't be put down: this segment is taken up from the beginning of the run.
  void cannot_save() noexcept { can_save_ = false; }

  /// One sample more was left out. False: that is one more than the limit.
  bool skip_one(std::uint64_t limit) noexcept {
    if (!is_in_order) return true;
    if (failures >= limit) return false;
    ++failures;
    return true;
  }

  /// The stream ends with the failure of the sample in hand in the stage of that place, or with one that came from
  /// before, place 0. What is saved from now on is the moment before it, so that a run that is resumed tries that
  /// sample again. `can_go_back`: to before the sample in hand.
  /// False: one had begun before.
  bool begin_failure(std::size_t place, bool can_go_back) {
    if (std::exchange(failed_, true)) return false;
    failed_place_ = place;
    samples_back_ = place == 0 ? 0 : 1;
    can_save_failure_ = can_go_back && can_repeat;
    // What stands before the stage that failed has seen the sample.
    for (const part& p : parts_)
      if (p.place != 0 && p.place < place) can_save_failure_ = false;
    return true;
  }

  void end_failure() noexcept { failed_ = false; }

  /// Whether the stage in that place has given what it held in this epoch already, because of a failure.
  bool was_drained(std::size_t place) const noexcept { return failed_ && place >= failed_place_; }

  /// Writes how far everything up to here has come. False, and nothing written: that can't be said now.
  bool save(snapshot& target, bool ends_epoch) const {
    if (!can_save_ || calls > 0 || (failed_ && !can_save_failure_)) return false;
    for (const part& p : parts_)
      if (!p.is_at_rest(p.object) || (!p.can_read_again && holds_some(p))) return false;
    const std::size_t back = failed_ ? samples_back_ : 0;
    stream_place since;
    if (segment_ == 0) {
      target.words.assign(1, 0);
      target.held.clear();
    } else {
      auto [base, place] = input.now(ends_epoch, back);
      since = std::move(place);
      target = *base;
      if (target.words.empty()) target.words.push_back(segment_);
    }
    write_section(target, [&](state_writer& writer) {
      const bool without_state = failed_ && segment_ == 0;
      if (segment_ > 0) write_place(writer, since);
      else if (ends_epoch) writer(source.epoch + 1, 0, 0, source.next_first);
      else writer(source.epoch, source.calls() - back, source.failed, source.first);
      if (ends_epoch) write_ending(writer, failures);
      else write_ending(writer, failures, ending, enough, without_state);
      for (const part& p : parts_) {
        const bool is_source = p.place == 0;
        if (is_source && (ends_epoch || without_state)) continue; // a fresh one begins the next epoch
        state_writer writer_of_part(target.words, target.held, p.place);
        p.write(p.object, writer_of_part);
      }
    });
    return true;
  }

  /// Takes up the numbers that save() puts in front of those of the parts. `is_behind_state`: what comes before must
  /// be worked out exactly, even if none of it is wanted.
  void load(state_reader& reader, snapshot before, bool is_behind_state) {
    is_resumed = true;
    if (segment_ > 0) {
      stream_place taken = read_place(reader);
      read_ending(reader);
      // The rest of the epoch is left out, whatever it is.
      if (enough || (ending != 0 && !is_behind_state)) taken = {.epochs = taken.epochs};
      input.resume(std::move(before), std::move(taken));
    } else {
      if (reader.is_empty()) return;
      reader(source.epoch, source.given, source.failed, source.first);
      read_ending(reader);
      source.given -= source.failed;
    }
  }

  /// What save() writes behind the place. What is rare takes one word together.
  static void write_ending(state_writer& writer, std::uint64_t failures, std::size_t ending = 0,
                           bool enough = false, bool without_state = false) {
    writer((enough ? 1u : 0u) | (without_state ? 2u : 0u) | (ending != 0 ? 4u : 0u) |
           (failures != 0 ? 8u : 0u));
    if (ending != 0) writer(ending);
    if (failures != 0) writer(failures);
  }

 private:
  struct part {
    const void* object;
    std::size_t place;
    bool can_read_again;
    bool (*is_at_rest)(const void*);
    void (*write)(const void*, state_writer&);
  };

  bool holds_some(const part& p) const {
    scratch_.clear();
    state_writer writer(scratch_);
    p.write(p.object, writer);
    return writer.held() > 0;
  }

  void read_ending(state_reader& reader) {
    unsigned what = 0;
    reader(what);
    enough = (what & 1) != 0;
    source.without_state = (what & 2) != 0;
    if ((what & 4) != 0) reader(ending);
    if ((what & 8) != 0) reader(failures);
  }

  template <class Part>
  static bool is_at_rest(const void* object) {
    if constexpr (requires(const Part& p) { p.at_rest(); })
      return static_cast<const Part*>(object)->at_rest();
    else return true;
  }

  // state() serves both directions, and so isn't const.
  template <class Part>
  static void write(const void* object, state_writer& writer) {
    if constexpr (has_state<Part>) const_cast<Part*>(static_cast<const Part*>(object))->state(writer);
  }

  std::size_t segment_;
  bool can_save_ = true;
  bool failed_ = false;
  std::size_t failed_place_ = 0;
  bool can_save_failure_ = false;
  std::size_t samples_back_ = 0; // from the sample that failed to the place that is saved
  std::vector<part> parts_;
  mutable std::vector<std::uint64_t> scratch_; // of holds_some()
};

/// A snapshot, read: what each segment of a run finds there, and the caller, thread counts as one more segment.
class resumption {
 public:
  /// Of a run that begins at its beginning.
  resumption() = default;

  /// Throws std::invalid_argument if the snapshot doesn't hold together.
  resumption(snapshot from, std::size_t segments) : snapshot_(std::move(from)) {
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
    if (!fits) throw std::invalid_argument("feedline: the checkpoint is not whole");
  }

  /// Whether the segment put down anything; else it begins at its beginning.
  bool has(std::size_t segment) const noexcept {
    return segment < sections_.size() && sections_[segment].begin > 0;
  }

  /// What the segment put down.
  std::span<const std::uint64_t> words(std::size_t segment) const {
    if (!has(segment)) return {};
    const section& s = sections_[segment];
    return std::span(snapshot_.words).subspan(s.begin + 1, s.size);
  }

  /// How far all had come that stands before the segment whose first stage is in that place.
  snapshot before(std::size_t segment, std::size_t first_place) const {
    snapshot part;
    if (!has(segment) || sections_[segment].begin == 1) return part;
    part.words.assign(snapshot_.words.begin(),
                      snapshot_.words.begin() + static_cast<std::ptrdiff_t>(sections_[segment].begin));
    for (const detail::held& h : snapshot_.held)
      if (h.place < first_place) part.held.add() = h;
    return part;
  }

  const held_parts& held() const noexcept { return snapshot_.held; }

  /// How many buffers the stage in that place held samples in.
  std::size_t buffers_of(std::size_t place) const noexcept {
    std::size_t count = 0;
    for (const detail::held& h : snapshot_.held) count += h.place == place;
    return count;
  }

  /// The samples that the stage in that place held.
  std::vector<sample_id> held_by(std::size_t place) const {
    std::vector<sample_id> all;
    for (const detail::held& h : snapshot_.held) {
      if (h.place != place) continue;
      const std::vector<sample_id> ids = h.ids();
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }

  /// What the stage in that place held, read again; null: it held nothing, or it wasn't.
  read_again* samples_of(std::size_t place) const noexcept {
    const auto found = read_again_.find(place);
    return found == read_again_.end() ? nullptr : found->second.get();
  }

  void found_again(std::size_t place, std::unique_ptr<read_again> samples) {
    read_again_[place] = std::move(samples);
  }

  /// The last epoch of which anybody had seen anything.
  std::uint64_t last_epoch() const {
    std::uint64_t epoch = epoch_of(snapshot_);
    for (const stream_place& p : places()) epoch += p.epochs;
    return epoch;
  }

  /// The failures that the earlier run had met in what is worked out again.
  std::vector<failed_call> failures() const {
    std::vector<failed_call> all;
    for (const stream_place& p : places()) all.insert(all.end(), p.failures.begin(), p.failures.end());
    return all;
  }

  bool is_beginning() const {
    if (!snapshot_.words.empty() && snapshot_.words[0] == 0) return false;
    for (const stream_place& p : places())
      if (!p.is_beginning()) return false;
    return true;
  }

 private:
  // What the segments and the caller had taken of what stands before each.
  std::vector<stream_place> places() const {
    std::vector<stream_place> all;
    for (std::size_t segment = 1; segment < sections_.size(); ++segment) {
      state_reader reader(words(segment));
      all.push_back(read_place(reader));
    }
    return all;
  }

  struct section {
    std::size_t begin = 0; // of its length in the snapshot's words; 0: there is none
    std::size_t size = 0;
  };

  snapshot snapshot_;
  std::vector<section> sections_;
  std::map<std::size_t, std::unique_ptr<read_again>> read_again_; // by the place of the stage that held them
};

} // namespace feedline::inline v0::detail

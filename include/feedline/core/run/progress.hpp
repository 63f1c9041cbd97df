// SPDX-License-Identifier: MIT
#pragma once
// The progress of a run's parts, which snapshots save and resumed runs restore.
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

/// The progress of the source's thread.
struct source_place {
  std::uint64_t epoch = 0;
  std::uint64_t given = 0;  // samples of this epoch
  std::uint64_t failed = 0; // samples of this epoch that failed
  // If the source divides positions among the ranks: this rank's first one in the epoch. If the source doesn't
  // know ranks: how many samples of other ranks precede this one's next.
  std::uint64_t first = 0;
  std::uint64_t next_first = 0; // in the next epoch
  bool without_state = false;   // the source's state wasn't saved: its calls are repeated

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
  explicit segment_progress(std::size_t segment, const rank& r = {}) : segment_(segment) {
    source.first = r.number;
  }

  segment_progress(segment_progress&&) = delete;

  stream_position input;  ///< in the packets from upstream; unused in the source's segment
  source_place source;    ///< used only in the source's segment
  std::size_t ending = 0; ///< at the end of an epoch: the stage that emits what it holds; else 0
  bool enough = false;    ///< some stage wants no more of this epoch
  timed_item timed_stages;
  std::size_t calls = 0;      ///< of users' stages that haven't returned: their state is unknown
  std::uint64_t failures = 0; ///< skipped so far, of all that passed here
  bool is_in_order = true;    ///< false: a worker, which doesn't know how many failures precede its own
  bool is_resumed = false;    ///< the current epoch began in the earlier run
  bool can_repeat = true;     ///< the source's last sample can be read again by the number of its call

  /// Registers the source or a stage whose state belongs to this segment's. The source is registered last.
  /// `can_read_again`: the samples that it holds can be read again by their identities.
  template <class Part>
  void add(const Part& object, std::size_t place, bool can_read_again) {
    parts_.push_back({&object, place, can_read_again, &is_at_rest<Part>, &write<Part>});
  }

  /// Some stage's state can't be saved: a resumed run repeats this segment from the beginning of the run.
  void cannot_save() noexcept { can_save_ = false; }

  /// Counts one more skipped sample. False if that exceeds the limit.
  bool skip_one(std::uint64_t limit) noexcept {
    if (!is_in_order) return true;
    if (failures >= limit) return false;
    ++failures;
    return true;
  }

  /// Called when the stream will end with a failure: of the current sample in the stage at `place`, or one from
  /// upstream if it is 0. From now on the moment before the failure is saved, so that a resumed run tries that
  /// sample again. `can_go_back`: to before the current sample. False if another failure had begun before.
  bool begin_failure(std::size_t place, bool can_go_back) {
    if (std::exchange(failed_, true)) return false;
    failed_place_ = place;
    samples_back_ = place == 0 ? 0 : 1;
    can_save_failure_ = can_go_back && can_repeat;
    // The stages before the one that failed have seen the sample.
    for (const part& p : parts_)
      if (p.place != 0 && p.place < place) can_save_failure_ = false;
    return true;
  }

  void end_failure() noexcept { failed_ = false; }

  /// Whether the stage at that position has already emitted what it held in this epoch, because of a failure.
  bool was_drained(std::size_t place) const noexcept { return failed_ && place >= failed_place_; }

  /// Writes the progress of everything up to here. Returns false, and writes nothing, if it isn't known now.
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

  /// Restores the numbers that save() writes before those of the parts. `is_after_state`: everything upstream
  /// must be recomputed exactly, even if none of it is wanted.
  void load(state_reader& reader, snapshot before, bool is_after_state) {
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

  /// Writes the numbers that follow the position. Rare ones share one word.
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

  // state() both reads and writes, and so isn't const.
  template <class Part>
  static void write(const void* object, state_writer& writer) {
    if constexpr (has_state<Part>) const_cast<Part*>(static_cast<const Part*>(object))->state(writer);
  }

  std::size_t segment_;
  bool can_save_ = true;
  bool failed_ = false;
  std::size_t failed_place_ = 0;
  bool can_save_failure_ = false;
  std::size_t samples_back_ = 0; // from the failed sample to the position that is saved
  std::vector<part> parts_;
  mutable std::vector<std::uint64_t> scratch_; // used by holds_some()
};

/// A snapshot that was read from a checkpoint, divided into the segments of a run. The caller's thread counts
/// as one more segment.
class resumption {
 public:
  /// For a run that isn't resumed.
  resumption() = default;

  /// Throws std::invalid_argument if the snapshot is inconsistent.
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

  /// Whether the segment saved anything; otherwise it starts at its beginning.
  bool has(std::size_t segment) const noexcept {
    return segment < sections_.size() && sections_[segment].begin > 0;
  }

  /// What the segment saved.
  std::span<const std::uint64_t> words(std::size_t segment) const {
    if (!has(segment)) return {};
    const section& s = sections_[segment];
    return std::span(snapshot_.words).subspan(s.begin + 1, s.size);
  }

  /// The state of everything upstream of the segment whose first stage is at that position.
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

  /// In how many buffers the stage at that position held samples.
  std::size_t buffers_of(std::size_t place) const noexcept {
    std::size_t count = 0;
    for (const detail::held& h : snapshot_.held) count += h.place == place;
    return count;
  }

  /// The samples that the stage at that position held.
  std::vector<sample_id> held_by(std::size_t place) const {
    std::vector<sample_id> all;
    for (const detail::held& h : snapshot_.held) {
      if (h.place != place) continue;
      const std::vector<sample_id> ids = h.ids();
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }

  /// The samples that the stage at that position held, read again; null if it held none, or if they weren't read.
  read_again* samples_of(std::size_t place) const noexcept {
    const auto found = read_again_.find(place);
    return found == read_again_.end() ? nullptr : found->second.get();
  }

  void found_again(std::size_t place, std::unique_ptr<read_again> samples) {
    read_again_[place] = std::move(samples);
  }

  /// The last epoch that any part of the earlier run had reached.
  std::uint64_t last_epoch() const {
    std::uint64_t epoch = epoch_of(snapshot_);
    for (const stream_place& p : places()) epoch += p.epochs;
    return epoch;
  }

  /// The failures of the earlier run among the samples that are recomputed.
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
  // The progress of each segment and of the caller in the stream from upstream.
  std::vector<stream_place> places() const {
    std::vector<stream_place> all;
    for (std::size_t segment = 1; segment < sections_.size(); ++segment) {
      state_reader reader(words(segment));
      all.push_back(read_place(reader));
    }
    return all;
  }

  struct section {
    std::size_t begin = 0; // index of its length in the snapshot's words; 0: none
    std::size_t size = 0;
  };

  snapshot snapshot_;
  std::vector<section> sections_;
  std::map<std::size_t, std::unique_ptr<read_again>>
      read_again_; // by the position of the stage that held them
};

} // namespace feedline::inline v0::detail

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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/progress.ipp>
#endif

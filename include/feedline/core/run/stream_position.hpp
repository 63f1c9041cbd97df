// SPDX-License-Identifier: MIT
#pragma once
// The position of a reader of packets, and how a resumed reader returns to it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/failure.hpp>
#include <feedline/core/random.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/packet.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A position in a stream relative to an earlier one: the epoch ends in between, then the samples, then the
/// failures.
struct stream_place {
  std::uint64_t epochs = 0;
  std::uint64_t items = 0;
  std::uint64_t events = 0;            // after the last of these items
  std::uint64_t last = 0;              // hash of the last item's identity
  std::vector<failed_call> failures{}; // all in between

  bool is_beginning() const noexcept { return epochs == 0 && items == 0 && events == 0; }
};

void write_place(state_writer& writer, const stream_place& p);

/// The part of an identity that a checkpoint stores: three bytes.
inline std::uint64_t hash_of(const sample_id& id) noexcept {
  return key(id.index, id.sub_index, std::uint64_t{id.repetition} << 32 | id.epoch) >> 43;
}

stream_place read_place(state_reader& reader);

/// The position of a reader of packets since the last snapshot in them.
///
/// A resumed reader passes over what the earlier run had taken since that snapshot. It checks that it ends at
/// the same sample, after the same failures: if anything else arrives, the stream fails there.
class stream_position {
 public:
  std::size_t items = 0;  ///< samples taken from the current packet
  std::size_t events = 0; ///< events taken from the current packet

  /// Restarts the stream at `before`. The reader will pass over `taken`, which was taken since then.
  void resume(snapshot before, stream_place taken);

  /// True until the reader has reached its position.
  bool passes_over() const noexcept { return !to_pass_over_.is_beginning(); }

  /// True while whole epochs must be passed over.
  bool passes_over_epoch() const noexcept { return to_pass_over_.epochs > 0; }

  /// True while it must read the samples, as the same failures must occur again.
  bool expects_failures() const noexcept { return !to_pass_over_.failures.empty(); }

  /// Starts on the next packet: `items` and `events` are then where to start in it. `may_have_enough`: epochs
  /// may end early, so failures in epochs that are passed over may have had no effect.
  void begin(packet& p, bool may_have_enough = false);

  /// Called when the whole packet was processed.
  void end();

  /// The last snapshot, and the position since then. `ends_epoch`: the current packet, which ends an epoch, was
  /// processed.
  std::pair<const snapshot*, stream_place> now(bool ends_epoch = false) const;

 private:
  std::pair<const snapshot*, stream_place> place(bool ends_epoch) const;

  void pass_over(packet& p);

  void pass_over_samples(packet& p);

  bool was_met(const event& e);

  // The sample that fails here didn't fail in the earlier run.
  void unexpected(packet& p);

  void lost(packet& p, const std::string& why);

  packet* packet_ = nullptr;
  bool ignores_failures_ = false;
  std::size_t first_item_ = 0;  // of the packet; earlier ones were passed over
  std::size_t first_event_ = 0; // likewise
  snapshot before_;
  stream_place since_;        // from before_ to the current packet
  stream_place taken_before_; // by the earlier run, since before_
  stream_place to_pass_over_; // the rest of that
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <stdexcept>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void write_place(state_writer& writer, const stream_place& p) {
  writer(p.epochs, p.items, p.events << 1 | (p.failures.empty() ? 0u : 1u));
  if (p.items > 0) writer(p.last);
  if (!p.failures.empty()) writer(p.failures.size());
  for (const failed_call& f : p.failures) writer(f.place, f.id);
}

FEEDLINE_INLINE stream_place read_place(state_reader& reader) {
  stream_place p;
  std::size_t failures = 0;
  reader(p.epochs, p.items, p.events);
  if (p.items > 0) reader(p.last);
  if ((p.events & 1) != 0) reader(failures);
  p.events >>= 1;
  // Each has a word, except the first call of all: its zeros aren't stored at the end of a section.
  if (failures > reader.left() + 1) throw_state_not_whole();
  for (; failures > 0; --failures) {
    failed_call& f = p.failures.emplace_back();
    reader(f.place, f.id);
  }
  return p;
}

FEEDLINE_INLINE void stream_position::resume(snapshot before, stream_place taken) {
  before_ = std::move(before);
  taken_before_ = to_pass_over_ = std::move(taken);
}

FEEDLINE_INLINE std::pair<const snapshot*, stream_place> stream_position::now(bool ends_epoch) const {
  if (!to_pass_over_.is_beginning()) return {&before_, taken_before_};
  return place(ends_epoch);
}

FEEDLINE_INLINE void stream_position::begin(packet& p, bool may_have_enough) {
  ignores_failures_ = may_have_enough;
  packet_ = &p;
  items = events = first_item_ = first_event_ = 0;
  if (to_pass_over_.is_beginning()) return;
  pass_over(p);
  if (!to_pass_over_.is_beginning()) return;
  since_ = taken_before_;
  first_item_ = items;
  first_event_ = events;
}

FEEDLINE_INLINE void stream_position::end() {
  if (to_pass_over_.is_beginning()) {
    auto [base, since] = place(packet_->ends_epoch());
    since_ = std::move(since);
    if (base != &before_) std::swap(before_, packet_->snapshot);
  }
  packet_ = nullptr;
}

FEEDLINE_INLINE std::pair<const snapshot*, stream_place> stream_position::place(bool ends_epoch) const {
  if (!packet_) return {&before_, since_};
  const std::vector<event>& all = packet_->events();
  const bool covered = ends_epoch ? packet_->snapshot_events == all.size()
                                  : items >= packet_->snapshot_items && events >= packet_->snapshot_events;
  std::pair<const snapshot*, stream_place> result{&before_, {}};
  stream_place& since = result.second;
  std::size_t item = first_item_, event = first_event_;
  if (packet_->has_snapshot && covered) {
    result.first = &packet_->snapshot;
    item = packet_->snapshot_items;
    event = packet_->snapshot_events;
  } else {
    since = since_;
  }
  const std::size_t end = ends_epoch ? all.size() : events;
  if (items > item && !ends_epoch) {
    since.items += items - item;
    since.events = 0;
    since.last = hash_of(packet_->ids()[items - 1]);
  }
  const bool passes_end = ends_epoch && event < end;
  for (; event < end; ++event) {
    if (all[event].kind == event_kind::skipped) since.failures.push_back(all[event].call);
    since.events += all[event].position == items && !ends_epoch;
  }
  if (passes_end) since = {.epochs = since.epochs + 1, .failures = std::move(since.failures)};
  return result;
}

FEEDLINE_INLINE void stream_position::pass_over(packet& p) {
  pass_over_samples(p);
  if (!to_pass_over_.is_beginning()) return;
  if (!to_pass_over_.failures.empty()) lost(p, "a sample that had failed was read this time");
}

FEEDLINE_INLINE void stream_position::pass_over_samples(packet& p) {
  const std::vector<event>& all = p.events();
  while (!to_pass_over_.is_beginning()) {
    const std::size_t next_event = events < all.size() ? all[events].position : p.size();
    if (events < all.size() && next_event == items) {
      const event& e = all[events];
      if (e.kind == event_kind::epoch_end) {
        if (to_pass_over_.epochs == 0) return lost(p, "the epoch ended before it");
        --to_pass_over_.epochs;
      } else if (!was_met(e) && !(ignores_failures_ && to_pass_over_.epochs > 0)) {
        return unexpected(p);
      } else if (to_pass_over_.epochs == 0 && to_pass_over_.items == 0) {
        --to_pass_over_.events;
      }
      ++events;
    } else if (items == p.size()) {
      return;
    } else if (to_pass_over_.epochs > 0) {
      items = next_event;
    } else if (to_pass_over_.items > 0) {
      const auto step = std::min<std::uint64_t>(to_pass_over_.items, next_event - items);
      items += static_cast<std::size_t>(step);
      to_pass_over_.items -= step;
      if (to_pass_over_.items == 0 && hash_of(p.ids()[items - 1]) != to_pass_over_.last)
        return lost(
            p, "there is another sample than before, so the data has changed since, or a function depends on "
               "more than its item and its context");
    } else {
      return lost(p, "a sample that had failed was read this time");
    }
  }
}

FEEDLINE_INLINE bool stream_position::was_met(const event& e) {
  std::vector<failed_call>& all = to_pass_over_.failures;
  const auto found = std::find(all.begin(), all.end(), e.call);
  if (e.kind != event_kind::skipped || found == all.end()) return false;
  all.erase(found);
  return true;
}

FEEDLINE_INLINE void stream_position::unexpected(packet& p) {
  event& e = p.events()[events];
  e.kind = event_kind::failed;
  if (!e.cause->ends_at_once) e.cause->message += " (the earlier run had read this sample)";
  e.cause->ends_at_once = true;
  to_pass_over_ = {};
}

FEEDLINE_INLINE void stream_position::lost(packet& p, const std::string& why) {
  sample_id id;
  if (!to_pass_over_.failures.empty()) id = to_pass_over_.failures.front().id;
  else if (items > 0) id = p.ids()[items - 1];
  failure_ptr f = note_failure("resuming", id, {},
                               std::make_exception_ptr(std::runtime_error(
                                   "the run can't return to the checkpoint's position: " + why)));
  f->ends_at_once = true;
  p.events().insert(p.events().begin() + static_cast<std::ptrdiff_t>(events),
                    event{items, event_kind::failed, id.epoch, std::move(f), {}});
  to_pass_over_ = {};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

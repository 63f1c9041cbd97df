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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/stream_position.ipp>
#endif

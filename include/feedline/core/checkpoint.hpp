// SPDX-License-Identifier: MIT
#pragma once
// The position of a run: a small value from which another process continues.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/held.hpp>
#include <feedline/core/snapshot/snapshot.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

struct stage_identity {
  std::uint8_t hash = 0;  // 8 bits of it
  std::uint64_t size = 0; // of a batch or a buffer, for messages
};

/// Facts that must be the same in the run that a checkpoint was taken from and in the one that resumes it.
struct run_identity {
  std::uint64_t seed = 0;
  bool for_ever = false;
  bool several_epochs = false;                // then each epoch has its own order of shards
  std::optional<std::uint32_t> first_epoch{}; // of a finite run, if it was given
  std::vector<stage_identity> stages;         // the source is the first
  std::uint16_t pipeline = 0;                 // hash of all stages
  std::uint64_t extent = 0;                   // of the data set: its number of files, say
  std::uint64_t old_extent = 0;               // before the data set grew, …
  std::uint64_t old_extent_until = 0;         // … for the epochs before this one
  static constexpr std::uint32_t unknown_data = 0;
  std::uint32_t data = unknown_data; // hash of its files or elements; unknown: an outage prevented it
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  feedline::remainder remainder = feedline::remainder::drop;
  bool by_sample = false; // its ranks divide the samples of files
  std::string parameters; // of the source; older checkpoints have none
};

/// The samples that a run has skipped: their indices, ascending, and how many had none.
struct failed_before {
  std::vector<std::uint64_t> indices;
  std::uint64_t unknown = 0;

  std::uint64_t count() const noexcept { return indices.size() + unknown; }
};

/// The contents of a checkpoint.
struct checkpoint_state {
  run_identity run;
  failed_before failed;
  std::uint64_t digest = 0;
  snapshot at;           // with a section for the caller
  bool is_common = true; // see elastic_place
};

class byte_writer;
class byte_reader;

std::uint32_t checksum_of_bytes(std::span<const std::byte> bytes) noexcept;

} // namespace detail

/// The position of a run: `loader.checkpoint()` returns it, and the options of another run accept it as `resume`. A value that
/// owns everything it needs; it may outlive its loader.
///
/// It is the position of the consumer: after the last item that next() returned, and after the failures that the loader has
/// recorded since. What the run had read or made beyond that is made again, so nothing is lost and nothing comes twice, at
/// whatever moment the checkpoint is taken and however the run has ended:
///
/// | taken                                                                   | a resumed run continues with         |
/// |-------------------------------------------------------------------------|--------------------------------------|
/// | before the first item                                                   | the beginning                        |
/// | between two items, after a `break`, or after next_for() without an item | the next item or failure             |
/// | after a stop by any thread, a stop token or a signal                    | likewise                             |
/// | after an error that next() threw: also an outage, or too many failures  | what failed                          |
/// | after an exception of `on_failure`                                      | what follows the failure             |
/// | after the end                                                           | the end                              |
///
/// It takes about 50 bytes for a source whose samples are read by position, besides the text of the source's parameters, such as
/// weights, and at most 12 more for each sample that a shuffle buffer held or that failed. Samples that a buffer held and that
/// can't be read again by an index are in it with their values: to_json() says how many bytes they take.
class checkpoint {
 public:
  /// The version that from_bytes() reads.
  static constexpr unsigned version = 4;

  /// For the library: use loader.checkpoint() or one of the functions below.
  explicit checkpoint(detail::checkpoint_state state) : state_(std::move(state)) {}

  checkpoint(const checkpoint&);
  checkpoint(checkpoint&&) noexcept;
  checkpoint& operator=(const checkpoint&);
  checkpoint& operator=(checkpoint&&) noexcept;
  ~checkpoint();

  /// The bytes, for a file or a database. They are the same on every platform.
  std::vector<std::byte> to_bytes() const;

  /// Throws std::invalid_argument, whose what() says what is wrong: not a checkpoint, another version,
  /// truncated or changed bytes.
  static checkpoint from_bytes(std::span<const std::byte> bytes);

  /// The same as text for people: a summary and all of its bytes.
  std::string to_json() const;

  /// Reads the text of to_json(). Only its bytes count; the summary is ignored. Throws std::invalid_argument.
  static checkpoint from_json(std::string_view text);

  /// Writes the bytes to a file: all of them or, on failure, none, so that an older checkpoint with that name
  /// isn't lost. Throws std::system_error.
  void save(const std::string& path) const;

  /// Reads a file that save() wrote. Throws std::system_error, or std::invalid_argument as from_bytes does.
  static checkpoint load(const std::string& path);

  /// The run's seed.
  std::uint64_t seed() const noexcept { return state_.run.seed; }

  /// For the run.
  const detail::checkpoint_state& state() const noexcept { return state_; }

  /// Whether both have the same bytes.
  bool operator==(const checkpoint& other) const;

 private:
  static constexpr std::uint64_t magic = 0x6b6c66; // "flk"

  // Splits an index into file and position in the file, as sources of files combine them. Rare fields are
  // written only if they aren't 0.
  static void write(detail::byte_writer& out, const detail::held& h);

  static void read(detail::byte_reader& in, detail::held& h);

  detail::checkpoint_state state_;
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/core/checkpoint.ipp>
#endif

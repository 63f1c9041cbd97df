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
  static constexpr unsigned version = 5;

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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <stdexcept>

#include <feedline/detail/file_draft.hpp>
#include <feedline/detail/open_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class byte_writer {
 public:
  /// Seven bits per byte, the low ones first.
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) bytes_.push_back(static_cast<std::byte>(n | 0x80));
    bytes_.push_back(static_cast<std::byte>(n));
  }

  void fixed(std::uint64_t n, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(n >> (8 * i)));
  }

  std::vector<std::byte>& bytes() noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Throws std::invalid_argument when there are no more bytes.
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t number() {
    std::uint64_t n = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = fixed(1);
      n |= (byte & 0x7f) << shift;
      if (byte < 0x80) return n;
    }
    throw_state_not_whole();
  }

  std::uint64_t fixed(std::size_t size) {
    expect(size);
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < size; ++i) n |= std::to_integer<std::uint64_t>(bytes_[i]) << (8 * i);
    bytes_ = bytes_.subspan(size);
    return n;
  }

  /// How many elements follow, each of at least one byte.
  std::size_t count() {
    const std::uint64_t n = number();
    expect(n);
    return static_cast<std::size_t>(n);
  }

  std::vector<std::byte> take(std::uint64_t size) {
    expect(size);
    const std::span<const std::byte> taken = bytes_.first(static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }

  std::size_t left() const noexcept { return bytes_.size(); }

 private:
  void expect(std::uint64_t bytes) const {
    if (bytes_.size() < bytes) throw_state_not_whole();
  }

  std::span<const std::byte> bytes_;
};

FEEDLINE_INLINE std::uint32_t checksum_of_bytes(std::span<const std::byte> bytes) noexcept {
  std::uint64_t sum = key(bytes.size());
  for (const std::byte b : bytes) sum = mix((sum ^ std::to_integer<std::uint64_t>(b)) + 0x9e3779b97f4a7c15);
  return static_cast<std::uint32_t>(sum);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE checkpoint::checkpoint(const checkpoint&) = default;
FEEDLINE_INLINE checkpoint::checkpoint(checkpoint&&) noexcept = default;
FEEDLINE_INLINE checkpoint& checkpoint::operator=(const checkpoint&) = default;
FEEDLINE_INLINE checkpoint& checkpoint::operator=(checkpoint&&) noexcept = default;
FEEDLINE_INLINE checkpoint::~checkpoint() = default;

FEEDLINE_INLINE bool checkpoint::operator==(const checkpoint& other) const {
  return to_bytes() == other.to_bytes();
}

FEEDLINE_INLINE std::vector<std::byte> checkpoint::to_bytes() const {
  detail::byte_writer out;
  out.fixed(magic, 3);
  out.fixed(version, 1);
  const detail::run_identity& run = state_.run;
  const bool is_alone = run.ranks == 1;
  out.number((run.for_ever ? 1u : 0u) | (run.several_epochs ? 2u : 0u) | (is_alone ? 4u : 0u) |
             (run.old_extent_until > 0 ? 8u : 0u) | (run.first_epoch ? 16u : 0u) |
             (run.by_sample ? 32u : 0u) | (state_.is_common ? 0u : 64u) |
             (run.parameters.empty() ? 0u : 128u));
  if (!run.parameters.empty()) {
    out.number(run.parameters.size());
    for (const char c : run.parameters) out.fixed(static_cast<unsigned char>(c), 1);
  }
  if (run.first_epoch) out.number(*run.first_epoch);
  out.fixed(run.seed, 8);
  out.number(run.stages.size());
  for (const detail::stage_identity& s : run.stages) {
    out.fixed(s.hash, 1);
    out.number(s.size);
  }
  out.fixed(run.pipeline, 2);
  out.number(run.extent);
  out.fixed(run.data, 4);
  if (run.old_extent_until > 0) {
    out.number(run.old_extent);
    out.number(run.old_extent_until);
  }
  if (!is_alone) {
    out.number(run.rank);
    out.number(run.ranks);
    out.number(static_cast<std::uint64_t>(run.remainder));
  }
  out.number(state_.failed.unknown);
  out.number(state_.failed.indices.size());
  std::uint64_t before = 0;
  for (const std::uint64_t index : state_.failed.indices) out.number(index - std::exchange(before, index));
  out.fixed(state_.digest, 8);
  out.number(state_.at.words.size());
  for (const std::uint64_t word : state_.at.words) out.number(word);
  out.number(state_.at.held.size());
  for (const detail::held& h : state_.at.held) write(out, h);
  out.fixed(detail::checksum_of_bytes(out.bytes()), 4);
  return std::move(out.bytes());
}

FEEDLINE_INLINE checkpoint checkpoint::from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() < 8 || detail::byte_reader(bytes).fixed(3) != magic)
    throw std::invalid_argument("feedline: these " + std::to_string(bytes.size()) +
                                " bytes are not a checkpoint");
  const std::uint64_t written = detail::byte_reader(bytes.subspan(3)).fixed(1);
  if (written != version)
    throw std::invalid_argument("feedline: the checkpoint has version " + std::to_string(written) +
                                ", this library reads version " + std::to_string(version));
  const auto body = bytes.first(bytes.size() - 4);
  if (detail::byte_reader(bytes.last(4)).fixed(4) != detail::checksum_of_bytes(body))
    throw std::invalid_argument("feedline: the checkpoint's bytes were changed or cut off: its checksum "
                                "doesn't match");
  detail::byte_reader in(body.subspan(4));
  detail::checkpoint_state state;
  detail::run_identity& run = state.run;
  const std::uint64_t flags = in.number();
  run.for_ever = (flags & 1) != 0;
  run.several_epochs = (flags & 2) != 0;
  run.by_sample = (flags & 32) != 0;
  state.is_common = (flags & 64) == 0;
  if ((flags & 128) != 0)
    for (const std::byte b : in.take(in.number())) run.parameters += std::to_integer<char>(b);
  if ((flags & 16) != 0) run.first_epoch = static_cast<std::uint32_t>(in.number());
  run.seed = in.fixed(8);
  for (std::size_t n = in.count(); n > 0; --n) {
    const auto hash = static_cast<std::uint8_t>(in.fixed(1));
    run.stages.push_back({hash, in.number()});
  }
  run.pipeline = static_cast<std::uint16_t>(in.fixed(2));
  run.extent = in.number();
  run.data = static_cast<std::uint32_t>(in.fixed(4));
  if ((flags & 8) != 0) {
    run.old_extent = in.number();
    run.old_extent_until = in.number();
  }
  if ((flags & 4) == 0) {
    run.rank = static_cast<std::uint32_t>(in.number());
    run.ranks = static_cast<std::uint32_t>(in.number());
    run.remainder = static_cast<remainder>(in.number());
  }
  if (run.rank >= run.ranks) detail::throw_state_not_whole();
  state.failed.unknown = in.number();
  std::uint64_t index = 0;
  for (std::size_t n = in.count(); n > 0; --n) state.failed.indices.push_back(index += in.number());
  state.digest = in.fixed(8);
  for (std::size_t n = in.count(); n > 0; --n) state.at.words.push_back(in.number());
  for (std::size_t n = in.count(); n > 0; --n) read(in, state.at.held.add());
  if (in.left() != 0) throw std::invalid_argument("feedline: the checkpoint is followed by other bytes");
  return checkpoint(std::move(state));
}

FEEDLINE_INLINE std::string checkpoint::to_json() const {
  const auto bytes = to_bytes();
  std::string hex;
  for (const std::byte b : bytes)
    for (const int shift : {4, 0}) hex += "0123456789abcdef"[std::to_integer<unsigned>(b) >> shift & 15];
  std::size_t held = 0, bytes_of_held = 0;
  for (const detail::held& h : state_.at.held) {
    held += h.ids().size();
    if (h.values) bytes_of_held += h.values->size();
  }
  const auto field = [](const char* name, std::uint64_t value) {
    return std::string("  \"") + name + "\": " + std::to_string(value) + ",\n";
  };
  return "{\n" + field("feedline_checkpoint", version) + field("seed", state_.run.seed) + "  \"mode\": \"" +
         (state_.run.for_ever ? "infinite" : "finite") + "\",\n" + field("rank", state_.run.rank) +
         field("ranks", state_.run.ranks) +
         field("epoch", detail::epoch_of(state_.at, state_.run.first_epoch.value_or(0))) +
         field("position", detail::source_word(state_.at, 1)) + field("held_samples", held) +
         field("held_bytes", bytes_of_held) + field("failures", state_.failed.count()) +
         field("digest", state_.digest) + "  \"bytes\": \"" + hex + "\"\n}\n";
}

FEEDLINE_INLINE checkpoint checkpoint::from_json(std::string_view text) {
  constexpr std::string_view field = "\"bytes\": \"";
  const std::size_t begin = text.find(field);
  if (begin == std::string_view::npos)
    throw std::invalid_argument("feedline: the text is not a checkpoint: it has no field \"bytes\"");
  std::vector<std::byte> bytes;
  unsigned digits = 1;
  for (const char c : text.substr(begin + field.size())) {
    constexpr std::string_view hex = "0123456789abcdef";
    const std::size_t digit = hex.find(c);
    if (digit == std::string_view::npos) break;
    digits = digits << 4 | static_cast<unsigned>(digit);
    if (digits < 0x100) continue;
    bytes.push_back(static_cast<std::byte>(digits));
    digits = 1;
  }
  return from_bytes(bytes);
}

FEEDLINE_INLINE void checkpoint::save(const std::string& path) const {
  detail::replace_file(path, to_bytes());
}

FEEDLINE_INLINE checkpoint checkpoint::load(const std::string& path) {
  const std::vector<std::byte> bytes = detail::contents_of_file(path);
  try {
    return from_bytes(bytes);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

FEEDLINE_INLINE void checkpoint::write(detail::byte_writer& out, const detail::held& h) {
  const std::vector<sample_id> ids = h.ids();
  out.number(h.place);
  out.number(h.buffer);
  std::uint32_t first_epoch = ~std::uint32_t{0};
  for (const sample_id& id : ids) first_epoch = std::min(first_epoch, id.epoch);
  out.number(ids.size());
  out.number(first_epoch);
  for (const sample_id& id : ids) {
    const std::uint32_t epochs = id.epoch - first_epoch;
    out.number(id.index >> 40 << 3 | (id.repetition != 0 ? 4u : 0u) | (epochs != 0 ? 2u : 0u) |
               (id.sub_index != 0 ? 1u : 0u));
    out.number(id.index & ((std::uint64_t{1} << 40) - 1));
    if (id.sub_index != 0) out.number(id.sub_index);
    if (epochs != 0) out.number(epochs);
    if (id.repetition != 0) out.number(id.repetition);
  }
  out.number(h.values ? h.values->size() + 1 : 0);
  if (h.values) out.bytes().insert(out.bytes().end(), h.values->begin(), h.values->end());
}

FEEDLINE_INLINE void checkpoint::read(detail::byte_reader& in, detail::held& h) {
  h.place = static_cast<std::size_t>(in.number());
  h.buffer = static_cast<std::size_t>(in.number());
  std::size_t n = in.count();
  const auto first_epoch = static_cast<std::uint32_t>(in.number());
  for (; n > 0; --n) {
    sample_id id;
    const std::uint64_t head = in.number();
    id.index = head >> 3 << 40 | in.number();
    if ((head & 1) != 0) id.sub_index = in.number();
    id.epoch = first_epoch;
    if ((head & 2) != 0) id.epoch += static_cast<std::uint32_t>(in.number());
    if ((head & 4) != 0) id.repetition = static_cast<std::uint32_t>(in.number());
    h.listed.push_back(id);
  }
  if (const std::uint64_t size = in.number(); size > 0)
    h.values = std::make_shared<const std::vector<std::byte>>(in.take(size - 1));
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

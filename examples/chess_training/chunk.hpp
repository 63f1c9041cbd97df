// SPDX-License-Identifier: MIT
#pragma once
// Training chunks of Leela Chess Zero: a game as records of equal size, one per position, usually compressed with gzip.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/gzip.hpp>

#include "packed_position.hpp"

namespace chess {

/// The versions of records to read: all known ones, or a single one.
enum class record_format { any, v6, v7 };

/// A chunk that can't be used. cause() is one of a few short texts, for counters; what() has the details.
class chunk_error : public std::runtime_error {
 public:
  chunk_error(const char* cause, const std::string& what) : std::runtime_error(what), cause_(cause) {}

  const char* cause() const noexcept { return cause_; }

 private:
  const char* cause_;
};

/// The file of a game, or a member of a TAR archive.
struct chunk {
  std::string name;
  std::vector<std::byte> bytes;
  std::uint64_t pass = 0; ///< the pass over the chunks that yielded it

  /// Other chunks are plain records.
  bool is_compressed() const { return name.ends_with(".gz"); }
};

inline constexpr std::size_t max_chunk_bytes = std::size_t{128}
                                               << 20; ///< more than the longest possible game

/// The content of a chunk.
struct game {
  std::string name; ///< of the chunk
  std::vector<packed_position> positions;
  std::uint64_t pass = 0; ///< the pass over the chunks that yielded it
};

/// The layout of records of a version.
struct record_layout {
  std::size_t size;
  std::size_t probabilities; ///< their offset: after the version, or after version and input format
  std::size_t facts;         ///< bytes of position_facts in a record
};

inline constexpr std::size_t bytes_before_facts =
    moves * sizeof(float) + board_planes * sizeof(std::uint64_t);

/// Throws chunk_error for a version that can't be read exactly.
inline record_layout layout_of(std::uint32_t version) {
  switch (version) {
  case 3:
    throw chunk_error("wrong version",
                      "records of version 3 can't be used: they lack the value of the best move");
  case 4:
    return {8292, 4, 24};
  case 5:
    return {8308, 8, 36};
  case 6:
    return {8356, 8, 84};
  case 7:
    return {8396, 8, 124};
  default:
    throw chunk_error("wrong version", "records of version " + std::to_string(version) +
                                           " can't be read: only versions 4 to 7 are supported");
  }
}

/// Of a game: its positions take more than in the smallest records if most moves are legal.
inline constexpr std::size_t max_game_bytes = max_chunk_bytes / 8292 * packed_position::max_bytes;

namespace detail {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Reads positions of one version.
class record_reader {
 public:
  explicit record_reader(std::uint32_t version) : version_(version), layout_(layout_of(version)) {}

  /// Throws chunk_error without the chunk's name and the record's number.
  packed_position read(const std::byte* record) {
    if (const auto version = load<std::uint32_t>(record); version != version_)
      throw chunk_error("wrong version",
                        "it has version " + std::to_string(version) + ", not " + std::to_string(version_));
    const auto input_format = version_ < 5 ? 1 : load<std::uint32_t>(record + 4);
    if ((input_format < 1 || input_format > 5) && input_format != 132 && input_format != 133)
      throw chunk_error("wrong input format",
                        "its input format is " + std::to_string(input_format) + ", not 1 to 5, 132 or 133");
    const std::size_t legal = find_legal(record + layout_.probabilities);
    const std::byte* const planes = record + layout_.probabilities + moves * sizeof(float);
    const position_facts facts = read_facts(planes + board_planes * sizeof(std::uint64_t));
    return {input_format, planes, facts, std::span(probabilities_.data(), legal), indices_.data()};
  }

 private:
  // Most moves are illegal: they are skipped sixteen at a time.
  std::size_t find_legal(const std::byte* from) {
    constexpr std::size_t step = 16;
    std::size_t legal = 0, move = 0;
    for (; move + step <= moves; move += step)
      if (!are_illegal<step>(from + move * sizeof(float))) legal = add_legal<step>(from, move, legal);
    return add_legal<moves % step>(from, move, legal);
  }

  template <std::size_t Count>
  static bool are_illegal(const std::byte* from) {
    constexpr std::uint64_t two = std::uint64_t{0x100000001} * std::bit_cast<std::uint32_t>(illegal);
    std::uint64_t differences = 0;
    for (std::size_t i = 0; i < Count / 2; ++i)
      differences |= load<std::uint64_t>(from + i * sizeof(std::uint64_t)) ^ two;
    return differences == 0;
  }

  // Appends the legal ones of `Count` moves after the first `legal` ones. It has no branches, which would be
  // unpredictable: an illegal move is overwritten by the next one.
  template <std::size_t Count>
  std::size_t add_legal(const std::byte* from, std::size_t begin, std::size_t legal) {
    bool are_fine = true;
    for (std::size_t move = begin; move < begin + Count; ++move) {
      const auto probability = load<float>(from + move * sizeof(float));
      const bool is_legal = !is_illegal(probability);
      are_fine &= !is_legal | is_probability(probability);
      probabilities_[legal] = probability;
      indices_[legal] = static_cast<std::uint16_t>(move);
      legal += is_legal;
    }
    if (!are_fine) refuse_probability(from, begin);
    return legal;
  }

  static bool is_illegal(float p) {
    return std::bit_cast<std::uint32_t>(p) == std::bit_cast<std::uint32_t>(illegal);
  }

  static bool is_probability(float p) { return (p >= 0) & (p <= 1); }

  // The first move from `move` on whose value is neither that of an illegal move nor a probability.
  [[noreturn]] static void refuse_probability(const std::byte* from, std::size_t move) {
    float p = load<float>(from + move * sizeof(float));
    while (is_illegal(p) || is_probability(p)) p = load<float>(from + ++move * sizeof(float));
    const std::string which = "the probability of move " + std::to_string(move) + " is ";
    if (std::isnan(p)) throw chunk_error("not a number", which + "NaN");
    throw chunk_error("out of range", which + std::to_string(p) + ", not from 0 to 1 or -1");
  }

  position_facts read_facts(const std::byte* from) const {
    position_facts f;
    if (layout_.facts < sizeof f) {
      f = {};
      f.root_m = f.best_m = unknown;
      f.played_q = f.played_d = f.played_m = unknown;
      f.orig_q = f.orig_d = f.orig_m = unknown;
      f.short_term_q = f.short_term_d = f.policy_kld = unknown;
      f.opponent_played_index = f.next_played_index = 65535;
      f.played_index = f.best_index = 65535;
    }
    std::memcpy(&f, from, layout_.facts);
    if (version_ < 6) {
      const auto result = static_cast<std::int8_t>(f.dep_result);
      if (result < -1 || result > 1)
        throw chunk_error("out of range", "the result is " + std::to_string(result) + ", not -1, 0 or 1");
      f.result_q = static_cast<float>(result);
      f.result_d = result == 0 ? 1.0f : 0.0f;
    }
    check(f);
    return f;
  }

  void check(const position_facts& f) const {
    check("root_q", f.root_q, -1, 1);
    check("root_d", f.root_d, 0, 1);
    check("best_q", f.best_q, -1, 1);
    check("best_d", f.best_d, 0, 1);
    check("result_q", f.result_q, -1, 1);
    check("result_d", f.result_d, 0, 1);
    check("plies_left", f.plies_left, 0, most_moves);
    if (version_ < 5) return;
    check("root_m", f.root_m, -most_moves, most_moves);
    check("best_m", f.best_m, -most_moves, most_moves);
    if (version_ < 6) return;
    check("played_q", f.played_q, -1, 1);
    check("played_d", f.played_d, 0, 1);
    check("played_m", f.played_m, -most_moves, most_moves);
    if (version_ < 7) return; // the bytes after these are reserved
    check("q_st", f.short_term_q, -1, 1);
    check("d_st", f.short_term_d, 0, 1);
  }

  static void check(const char* name, float value, float least, float most) {
    constexpr float rounding = 1e-3f;
    if (value >= least - rounding && value <= most + rounding) [[likely]]
      return;
    if (std::isnan(value)) throw chunk_error("not a number", std::string(name) + " is NaN");
    throw chunk_error("out of range", std::string(name) + " is " + std::to_string(value) + ", not from " +
                                          std::to_string(static_cast<int>(least)) + " to " +
                                          std::to_string(static_cast<int>(most)));
  }

  static constexpr float most_moves = 100'000;

  std::uint32_t version_;
  record_layout layout_;
  // One more than there are moves, because an illegal move is written after the last legal one.
  std::array<float, moves + 1> probabilities_;
  std::array<std::uint16_t, moves + 1> indices_;
};

} // namespace detail

/// The positions of decompressed records. Throws chunk_error.
inline std::vector<packed_position> read_records(std::span<const std::byte> records,
                                                 record_format format = record_format::any) {
  if (records.size() < sizeof(std::uint32_t))
    throw chunk_error("wrong size", std::to_string(records.size()) + " bytes are too few for a record");
  const auto version = detail::load<std::uint32_t>(records.data());
  if ((format == record_format::v6 && version != 6) || (format == record_format::v7 && version != 7))
    throw chunk_error("wrong version", "its records have version " + std::to_string(version) +
                                           ", but the requested version is " +
                                           (format == record_format::v6 ? "6" : "7"));
  const std::size_t size = layout_of(version).size;
  if (records.size() % size != 0)
    throw chunk_error("wrong size", std::to_string(records.size()) + " bytes are not a multiple of " +
                                        std::to_string(size) + ", the size of a record of version " +
                                        std::to_string(version));
  detail::record_reader reader(version);
  std::vector<packed_position> positions;
  positions.reserve(records.size() / size);
  for (std::size_t at = 0; at < records.size(); at += size) {
    try {
      positions.push_back(reader.read(records.data() + at));
    } catch (const chunk_error& error) {
      throw chunk_error(error.cause(), "record " + std::to_string(at / size) + ": " + error.what());
    }
  }
  return positions;
}

/// Returns the records of a chunk, decompressed if necessary, as a view of the chunk or of this thread's memory. It is
/// valid until the next call in this thread. Throws chunk_error.
inline std::span<const std::byte> records_of(const chunk& c) {
  const std::span<const std::byte> bytes = c.bytes;
  if (!c.is_compressed()) return bytes;
  if (bytes.size() < 2 || bytes[0] != std::byte{0x1f} || bytes[1] != std::byte{0x8b})
    throw chunk_error("not gzip", "it is not a gzip file");
  try {
    return feedline::gunzip_view(bytes, {.max_output_bytes = max_chunk_bytes});
  } catch (const feedline::gzip_error& error) {
    const bool is_large = std::string_view(error.what()).find("larger than") != std::string_view::npos;
    throw chunk_error(is_large ? "too large" : "damaged gzip", error.what());
  }
}

/// The game of a chunk. Throws chunk_error, whose what() names the chunk.
inline game read_game(const chunk& c, record_format format = record_format::any) {
  try {
    return {c.name, read_records(records_of(c), format), c.pass};
  } catch (const chunk_error& error) {
    throw chunk_error(error.cause(), c.name + ": " + error.what());
  }
}

} // namespace chess

// SPDX-License-Identifier: MIT
#pragma once
// Generated games, as chunks of records of version 6 or 7. They aren't chess: the pieces are placed at random, the side
// with more of them wins, and the king's square determines the move. But a network can learn these rules.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <feedline/core/random.hpp>
#include <libdeflate.h>

#include "packed_position.hpp"

namespace chess {

namespace detail {

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Six kinds of pieces per side, the king last.
struct random_board {
  std::array<std::uint64_t, 13> planes{};
  unsigned king = 0;
  int balance = 0;

  explicit random_board(feedline::random_generator& random) {
    std::uint64_t taken = 0;
    const auto free_square = [&] {
      std::uint64_t square = 0;
      do square = random.below(64);
      while (taken >> square & 1);
      taken |= std::uint64_t{1} << square;
      return static_cast<unsigned>(square);
    };
    king = free_square();
    planes[5] = std::uint64_t{1} << king;
    planes[11] = std::uint64_t{1} << free_square();
    for (std::uint64_t pieces = 4 + random.below(20); pieces > 0; --pieces) {
      const auto plane = static_cast<std::size_t>(random.below(10));
      planes[plane < 5 ? plane : plane + 1] |= std::uint64_t{1} << free_square();
      balance += plane < 5 ? 1 : -1;
    }
  }
};

inline std::string gzip(std::string_view contents) {
  const std::unique_ptr<libdeflate_compressor, decltype(&::libdeflate_free_compressor)> compressor(
      ::libdeflate_alloc_compressor(6), ::libdeflate_free_compressor);
  if (!compressor) throw std::bad_alloc();
  std::string file(::libdeflate_gzip_compress_bound(compressor.get(), contents.size()), '\0');
  file.resize(::libdeflate_gzip_compress(compressor.get(), contents.data(), contents.size(), file.data(),
                                         file.size()));
  return file;
}

} // namespace detail

struct synthetic_options {
  std::size_t positions = 40; ///< per game
  std::uint32_t version = 6;  ///< or 7
  std::uint32_t input_format = 1;
};

/// The records of a game; they depend only on the seed and the settings.
inline std::string synthetic_records(std::uint64_t seed, const synthetic_options& options = {}) {
  feedline::random_generator random(seed);
  std::string records;
  for (std::size_t i = 0; i < options.positions; ++i) {
    const detail::random_board board(random);
    const double q = board.balance == 0 ? 0 : std::tanh(0.5 * board.balance);
    const double d = 0.2 * (1 - std::abs(q));

    std::array<float, moves> probabilities;
    probabilities.fill(illegal);
    const auto best = static_cast<std::uint16_t>(board.king * 29 % moves);
    double rest = 0.3;
    for (std::uint64_t legal = 20 + random.below(20); legal > 0; --legal) {
      const double p = rest * random.uniform(0.0, 0.2);
      probabilities[static_cast<std::size_t>(random.below(moves))] = static_cast<float>(p);
      rest -= p;
    }
    probabilities[best] = static_cast<float>(0.7 + rest);

    detail::append(records, options.version);
    detail::append(records, options.input_format);
    detail::append(records, probabilities);
    for (std::size_t plane = 0; plane < board_planes; ++plane)
      detail::append(records, plane < board.planes.size() ? board.planes[plane] : std::uint64_t{0});
    position_facts f{};
    f.us_oo = f.them_oo = 1;
    f.side_to_move_or_en_passant = static_cast<std::uint8_t>(i % 2);
    f.rule50_count = static_cast<std::uint8_t>(i % 50);
    f.result_q = board.balance > 0 ? 1.0f : board.balance < 0 ? -1.0f : 0.0f;
    f.result_d = board.balance == 0 ? 1.0f : 0.0f;
    f.root_q = f.best_q = f.played_q = f.orig_q = f.short_term_q = static_cast<float>(q);
    f.root_d = f.best_d = f.played_d = f.orig_d = f.short_term_d = static_cast<float>(d);
    f.plies_left = static_cast<float>(options.positions - i);
    f.root_m = f.best_m = f.played_m = f.orig_m = f.plies_left;
    f.visits = 800;
    f.played_index = f.best_index = best;
    f.opponent_played_index = f.next_played_index = 65535;
    records.append(reinterpret_cast<const char*>(&f), options.version == 6 ? 84 : sizeof f);
  }
  return records;
}

/// Writes `count` games of 20 to 60 positions into a folder, as training.NUMBER.gz.
inline void write_games(const std::string& folder, std::size_t count, std::uint64_t seed) {
  feedline::random_generator seeds(seed);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = folder + "/training." + std::to_string(i) + ".gz";
    const std::size_t positions = 20 + static_cast<std::size_t>(seeds.below(41));
    std::ofstream file(name, std::ios::binary);
    file << detail::gzip(synthetic_records(seeds(), {.positions = positions}));
    file.close();
    if (!file) throw std::runtime_error("can't write " + name);
  }
}

} // namespace chess

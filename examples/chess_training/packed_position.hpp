// SPDX-License-Identifier: MIT
#pragma once
// A position of a game with its search results, in little memory: of the 1858 probabilities it stores only those of legal
// moves, about thirty. A shuffle buffer holds seven times as many of them as of records.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>

#include "position_memory.hpp"

static_assert(std::endian::native == std::endian::little,
              "records are little-endian and are copied as they are");

namespace chess {

inline constexpr std::size_t moves = 1858;       ///< outputs of the network's policy
inline constexpr std::size_t board_planes = 104; ///< eight positions of thirteen planes
inline constexpr float illegal = -1;             ///< the probability of a move that isn't legal
inline constexpr float unknown = std::numeric_limits<float>::quiet_NaN();

/// The fields of a record after its planes, in their order. q, d and m are the expected result from -1 to 1, the
/// probability of a draw and the moves left, for the player to move.
struct position_facts {
  std::uint8_t us_ooo, us_oo, them_ooo, them_oo; ///< castling
  std::uint8_t side_to_move_or_en_passant;
  std::uint8_t rule50_count;
  std::uint8_t invariance_info; ///< in V4 and V5: the moves left, if plies_left is 0
  std::uint8_t dep_result;      ///< the result in V5 and earlier: -1, 0, 1
  float root_q, best_q, root_d, best_d, root_m, best_m;
  float plies_left;
  float result_q, result_d;
  float played_q, played_d, played_m;
  float orig_q, orig_d, orig_m; ///< from the network without a search; may be NaN
  std::uint32_t visits;
  std::uint16_t played_index, best_index;
  float policy_kld;
  float short_term_q, short_term_d;
  std::uint16_t opponent_played_index, next_played_index; ///< 65535: none
  std::array<float, 8> reserved;
};

static_assert(sizeof(position_facts) == 124 && std::is_trivially_copyable_v<position_facts>);

/// Move-only: owns one block of memory, which moves between threads with it.
class packed_position {
  struct head {
    std::array<std::uint64_t, board_planes> planes;
    position_facts facts;
    std::uint32_t input_format;
    std::uint32_t legal;
  };

 public:
  static constexpr std::size_t max_bytes =
      sizeof(void*) + sizeof(head) +
      moves * (sizeof(float) + sizeof(std::uint16_t)); ///< if all moves are legal

  packed_position() = default;

  /// `planes`: the bytes of 104 numbers. `probabilities`: those of `legal` moves, which have these indices.
  packed_position(std::uint32_t input_format, const std::byte* planes, const position_facts& facts,
                  std::span<const float> probabilities, const std::uint16_t* indices)
      : block_(allocate(probabilities.size())) {
    head* const h = ::new (block_.get()) head;
    std::memcpy(h->planes.data(), planes, sizeof h->planes);
    h->facts = facts;
    h->input_format = input_format;
    h->legal = static_cast<std::uint32_t>(probabilities.size());
    if (probabilities.empty()) return;
    std::memcpy(block_.get() + sizeof(head), probabilities.data(), probabilities.size_bytes());
    std::memcpy(block_.get() + sizeof(head) + probabilities.size_bytes(), indices,
                probabilities.size() * sizeof(std::uint16_t));
  }

  /// Prefetches it into the processor's cache.
  void prefetch() const noexcept {
    for (std::size_t at = 0; at < sizeof(head) + 128; at += 64) __builtin_prefetch(block_.get() + at);
  }

  const std::array<std::uint64_t, board_planes>& planes() const noexcept { return begin()->planes; }

  std::uint32_t input_format() const noexcept { return begin()->input_format; }

  const position_facts& facts() const noexcept { return begin()->facts; }

  position_facts& facts() noexcept { return begin()->facts; }

  /// The probabilities of the legal moves, in the order of their indices.
  std::span<const float> probabilities() const noexcept { return {probabilities_begin(), begin()->legal}; }

  std::span<float> probabilities() noexcept { return {probabilities_begin(), begin()->legal}; }

  /// The indices of the legal moves, from 0 to 1857.
  std::span<const std::uint16_t> legal_moves() const noexcept {
    return {reinterpret_cast<const std::uint16_t*>(probabilities_begin() + begin()->legal), begin()->legal};
  }

 private:
  struct free_memory {
    void operator()(std::byte* block) const noexcept {
      if (const head* const h = reinterpret_cast<head*>(block); is_small(h->legal))
        position_memory::give_back(block);
      else delete[] block;
    }
  };

  using block_ptr = std::unique_ptr<std::byte[], free_memory>;

  static constexpr std::size_t size_with(std::size_t legal) {
    return sizeof(head) + legal * (sizeof(float) + sizeof(std::uint16_t));
  }

  static constexpr bool is_small(std::size_t legal) {
    return size_with(legal) <= position_memory::block_size;
  }

  static block_ptr allocate(std::size_t legal) {
    return block_ptr(is_small(legal) ? position_memory::take() : new std::byte[size_with(legal)]);
  }

  head* begin() const noexcept { return reinterpret_cast<head*>(block_.get()); }

  float* probabilities_begin() const noexcept {
    return reinterpret_cast<float*>(block_.get() + sizeof(head));
  }

  block_ptr block_;
};

} // namespace chess

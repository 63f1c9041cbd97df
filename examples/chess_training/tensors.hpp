// SPDX-License-Identifier: MIT
#pragma once
// Training tuples: the inputs and targets of a network, as float tensors.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <feedline/feedline.hpp>

#include "packed_position.hpp"

namespace chess {

inline constexpr std::size_t squares = 64, planes = 112;

/// The training tuples of B positions. Win, draw and loss are probabilities for the player to move.
struct batch_tensors {
  feedline::tensor<float> planes;        ///< [B, 112, 8, 8]: from the player's side, the first rank first
  feedline::tensor<float> probabilities; ///< [B, 1858]; -1: an illegal move
  feedline::tensor<float> winner;        ///< [B, 3]: win, draw and loss of the game
  feedline::tensor<float> best_q;        ///< [B, 3]: win, draw and loss of the search's best move
  feedline::tensor<float> plies_left;    ///< [B]
  /// [B, 6, 3], or without elements: q, d and m of the result, the best move, the played move, the network alone, the
  /// root of the search, and the short term. Unknown values are NaN.
  feedline::tensor<float> values;

  batch_tensors(std::size_t size, bool with_values)
      : planes({size, 112, 8, 8}),
        probabilities({size, moves}),
        winner({size, 3}),
        best_q({size, 3}),
        plies_left({size}),
        values({with_values ? size : 0, 6, 3}) {}
};

/// Tensors with the identities of their positions: the chunk, and the number among the positions used from it. Later
/// batches reuse its memory.
class training_batch {
 public:
  using pool = feedline::object_pool<batch_tensors>;

  training_batch(pool::lease tensors, std::vector<feedline::sample_id> ids)
      : tensors_(std::move(tensors)), ids_(std::move(ids)) {}

  training_batch(std::unique_ptr<batch_tensors> tensors, std::vector<feedline::sample_id> ids)
      : tensors_(std::move(tensors)), ids_(std::move(ids)) {}

  const batch_tensors* operator->() const noexcept {
    const auto* const leased = std::get_if<0>(&tensors_);
    return leased ? leased->get() : std::get_if<1>(&tensors_)->get();
  }

  /// References to the tensors, in the order of batch_tensors.
  auto fields() noexcept {
    batch_tensors& t =
        tensors_.index() == 0 ? *std::get_if<0>(&tensors_)->get() : **std::get_if<1>(&tensors_);
    return std::tie(t.planes, t.probabilities, t.winner, t.best_q, t.plies_left, t.values);
  }

  std::size_t size() const noexcept { return ids_.size(); }

  const std::vector<feedline::sample_id>& ids() const noexcept { return ids_; }

 private:
  std::variant<pool::lease, std::unique_ptr<batch_tensors>> tensors_;
  std::vector<feedline::sample_id> ids_;
};

namespace detail {

/// The eight squares of each byte, its most significant bit first.
inline constexpr auto rows_of_bytes = [] {
  std::array<std::array<float, 8>, 256> rows{};
  for (std::size_t byte = 0; byte < 256; ++byte)
    for (std::size_t file = 0; file < 8; ++file) rows[byte][file] = byte >> (7 - file) & 1 ? 1.0f : 0.0f;
  return rows;
}();

/// The least significant bit first.
inline void fill_row(float* row, std::uint8_t bits) {
  for (std::size_t file = 0; file < 8; ++file) row[file] = bits >> file & 1 ? 1.0f : 0.0f;
}

inline void fill_board(const std::array<std::uint64_t, board_planes>& from, float* to) {
  for (const std::uint64_t plane : from)
    for (unsigned shift = 0; shift < 64; shift += 8, to += 8)
      std::memcpy(to, rows_of_bytes[plane >> shift & 0xff].data(), 8 * sizeof(float));
}

/// The eight planes after those of the board.
inline void fill_state(std::uint32_t format, const position_facts& f, float* to) {
  const auto fill = [&](std::size_t plane, float value) {
    std::fill_n(to + (plane - board_planes) * squares, squares, value);
  };
  const auto row = [&](std::size_t plane, std::size_t rank, std::uint8_t bits) {
    fill_row(to + (plane - board_planes) * squares + rank * 8, bits);
  };
  if (format == 1) {
    fill(104, f.us_ooo);
    fill(105, f.us_oo);
    fill(106, f.them_ooo);
    fill(107, f.them_oo);
    fill(108, f.side_to_move_or_en_passant);
  } else {
    for (std::size_t plane = 104; plane <= 108; ++plane) fill(plane, 0);
    row(104, 0, f.us_ooo);
    row(104, 7, f.them_ooo);
    row(105, 0, f.us_oo);
    row(105, 7, f.them_oo);
    if (format == 2) fill(108, f.side_to_move_or_en_passant);
    else row(108, 7, f.side_to_move_or_en_passant);
  }
  fill(109, static_cast<float>(f.rule50_count) / (format > 3 ? 100.0f : 99.0f));
  fill(110, format >= 132 && f.invariance_info >= 128 ? 1 : 0);
  fill(111, 1);
}

/// The probabilities of win, draw and loss.
inline void fill_chances(double q, double d, std::span<float> to) {
  to[0] = static_cast<float>(0.5 * (1 - d + q));
  to[1] = static_cast<float>(d);
  to[2] = static_cast<float>(0.5 * (1 - d - q));
}

inline void fill_values(const position_facts& f, std::span<float> to) {
  const std::array<float, 18> values{f.result_q,     f.result_d,     f.plies_left, f.best_q,   f.best_d,
                                     f.best_m,       f.played_q,     f.played_d,   f.played_m, f.orig_q,
                                     f.orig_d,       f.orig_m,       f.root_q,     f.root_d,   f.root_m,
                                     f.short_term_q, f.short_term_d, unknown};
  std::copy(values.begin(), values.end(), to.begin());
}

} // namespace detail

/// The moves left; records of old versions store them in another field.
inline float plies_left_of(const position_facts& f) {
  return f.plies_left == 0 ? f.invariance_info : f.plies_left;
}

/// The output memory for one training tuple.
struct tuple_places {
  std::span<float> planes, probabilities, winner, best_q;
  float& plies_left;
  std::span<float> values{}; ///< none: not made
};

inline void fill_tuple(const packed_position& p, const tuple_places& to) {
  detail::fill_board(p.planes(), to.planes.data());
  const position_facts& f = p.facts();
  detail::fill_state(p.input_format(), f, to.planes.data() + board_planes * squares);

  std::fill(to.probabilities.begin(), to.probabilities.end(), illegal);
  const std::span<const float> known = p.probabilities();
  const std::span<const std::uint16_t> legal = p.legal_moves();
  for (std::size_t i = 0; i < known.size(); ++i) to.probabilities[legal[i]] = known[i];

  detail::fill_chances(f.result_q, f.result_d, to.winner);
  detail::fill_chances(f.best_q, f.best_d, to.best_q);
  to.plies_left = plies_left_of(f);
  if (!to.values.empty()) detail::fill_values(f, to.values);
}

inline void fill_tensors(std::span<const packed_position> positions, batch_tensors& to) {
  const auto row = [](feedline::tensor<float>& of, std::size_t i, std::size_t length) {
    return of.size() > 0 ? std::span(of.data() + i * length, length) : std::span<float>();
  };
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (i + 1 < positions.size()) positions[i + 1].prefetch(); // they are scattered in memory
    fill_tuple(positions[i],
               {row(to.planes, i, planes * squares), row(to.probabilities, i, moves), row(to.winner, i, 3),
                row(to.best_q, i, 3), to.plies_left[i], row(to.values, i, 18)});
  }
}

/// Makes batches. Those of the full `size` reuse the memory of released batches, as long as few are in use at once.
class tensor_generator {
 public:
  tensor_generator(std::size_t size, bool with_values, std::size_t in_use)
      : size_(size), with_values_(with_values), pool_(std::make_shared<training_batch::pool>(in_use, [=] {
          return batch_tensors(size, with_values);
        })) {}

  std::size_t bytes_of_position() const noexcept {
    constexpr std::size_t of_all = std::size_t{112} * 64 + moves + 3 + 3 + 1;
    return (of_all + (with_values_ ? 18 : 0)) * sizeof(float);
  }

  training_batch operator()(std::span<const packed_position> positions,
                            const feedline::sample_ids& ids) const {
    std::vector<feedline::sample_id> own_ids(ids.begin(), ids.end());
    if (positions.size() == size_)
      if (auto tensors = pool_->try_acquire()) {
        fill_tensors(positions, *tensors);
        return {std::move(tensors), std::move(own_ids)};
      }
    auto tensors = std::make_unique<batch_tensors>(positions.size(), with_values_);
    fill_tensors(positions, *tensors);
    return {std::move(tensors), std::move(own_ids)};
  }

 private:
  std::size_t size_;
  bool with_values_;
  std::shared_ptr<training_batch::pool> pool_; // shared by copies
};

} // namespace chess

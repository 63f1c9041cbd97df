// SPDX-License-Identifier: MIT
// Writes the training tuples of one chunk's positions, in their order, as floats.
//
//     chess_tuples --chunk training.187127055.gz --out tuples.f32
//
// Each position has 112 x 8 x 8 numbers for the board, 1858 probabilities, 3 probabilities of win, draw and loss in the
// game, 3 in the search, and the moves left: little-endian, without a header.
#include <cstddef>
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/feedline.hpp>

#include "../chess_training/chunk.hpp"
#include "../chess_training/tensors.hpp"

namespace {

constexpr std::size_t board_size = chess::planes * chess::squares;
constexpr std::size_t tuple_size = board_size + chess::moves + 3 + 3 + 1;

void write_tuples(const std::string& file, const std::string& to) {
  const chess::game game = chess::read_game({file, feedline::read_file(file)});
  std::ofstream out(to, std::ios::binary);
  std::vector<float> tuple(tuple_size);
  const std::span<float> all(tuple);
  const auto probabilities = all.subspan(board_size), chances = probabilities.subspan(chess::moves);
  const chess::tuple_places places{all.first(board_size), probabilities.first(chess::moves), chances.first(3),
                                   chances.subspan(3, 3), tuple.back()};
  for (const chess::packed_position& position : game.positions) {
    chess::fill_tuple(position, places);
    out.write(reinterpret_cast<const char*>(tuple.data()),
              static_cast<std::streamsize>(tuple.size() * sizeof(float)));
  }
  out.close();
  if (!out) throw std::runtime_error("can't write " + to);
}

constexpr const char* usage =
    "Usage: chess_tuples --chunk FILE --out FILE\n"
    "Writes the training tuples of a chunk's positions in order: float32, 112*64 + 1858 + 3 + 3 + 1 "
    "for each.\nFILE: a chunk of Leela Chess Zero, NAME.gz or plain records.\n";

} // namespace

int main(int count, char** arguments) {
  std::string chunk, out;
  for (int i = 1; i < count; i += 2) {
    const std::string_view flag = arguments[i];
    if (flag == "--help") return std::fputs(usage, stdout) < 0;
    if ((flag != "--chunk" && flag != "--out") || i + 1 == count) {
      std::fputs(usage, stderr);
      return 2;
    }
    (flag == "--chunk" ? chunk : out) = arguments[i + 1];
  }
  if (chunk.empty() || out.empty()) {
    std::fputs(usage, stderr);
    return 2;
  }
  try {
    write_tuples(chunk, out);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "chess_tuples: %s\n", error.what());
    return 1;
  }
}

// SPDX-License-Identifier: MIT
#pragma once
// A file format of one's own: blocks of 64 floats, each with a checksum.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>

/// A file begins with the eight bytes "blocks 1". Then come the blocks, each followed by its checksum. That is all that feedline
/// has to know to read such files in order and by position, on several ranks, and to resume anywhere.
struct checked_blocks {
  using block = std::array<float, 64>;

  static constexpr const char* kind = "checked_blocks"; ///< in messages and checkpoints
  static constexpr const char* sample_name = "block";   ///< "a.blk: block 3"
  static constexpr std::size_t head = 8, size = sizeof(block) + sizeof(std::uint64_t);

  /// FNV-1a.
  static std::uint64_t checksum(std::span<const std::byte> bytes) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte b : bytes) hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3;
    return hash;
  }

  /// The number of blocks. A last one that is cut off counts: reading it fails.
  std::uint64_t count(std::span<const std::byte> file) const {
    if (file.size() < head || std::memcmp(file.data(), "blocks 1", head) != 0)
      throw std::runtime_error("doesn't begin with \"blocks 1\"");
    return (file.size() - head + size - 1) / size;
  }

  /// Several threads call it at once, so it only reads.
  block at(std::span<const std::byte> file, std::uint64_t number) const {
    if (file.size() < offset(number + 1)) throw std::runtime_error("the last block is cut off");
    const auto bytes = file.subspan(offset(number), size);
    block values;
    std::memcpy(values.data(), bytes.data(), sizeof values);
    std::uint64_t expected = 0;
    std::memcpy(&expected, bytes.data() + sizeof values, sizeof expected);
    if (checksum(bytes.first(sizeof values)) != expected)
      throw std::runtime_error("a block has a wrong checksum");
    return values;
  }

  /// Where a block begins: the system reads ahead.
  std::uint64_t offset(std::uint64_t number) const { return head + number * size; }
};

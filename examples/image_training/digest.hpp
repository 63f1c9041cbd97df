// SPDX-License-Identifier: MIT
#pragma once
// A 64-bit hash of numbers in their order. Equal batches have equal hashes, whatever produced them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

/// Adds numbers eight bytes at a time. Every step is a bijection of the state, so a single difference is
/// never lost.
class digest {
 public:
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9fb21c651e98df25;
    state_ ^= state_ >> 32;
  }

  template <class T>
  void add(std::span<const T> numbers) {
    const auto bytes = std::as_bytes(numbers);
    add(bytes.size());
    std::size_t i = 0;
    std::uint64_t word = 0;
    for (; i + sizeof word <= bytes.size(); i += sizeof word) {
      std::memcpy(&word, bytes.data() + i, sizeof word);
      add(word);
    }
    if (i == bytes.size()) return;
    word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    add(word);
  }

  /// Sixteen hexadecimal digits.
  std::string hex() const {
    std::array<char, 17> text;
    std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(state_));
    return text.data();
  }

 private:
  std::uint64_t state_ = 0x243f6a8885a308d3;
};

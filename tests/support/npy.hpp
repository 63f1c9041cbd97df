// SPDX-License-Identifier: MIT
#pragma once
// Reads the NumPy .npy files of the test data: integers of 8 or 16 bits, row-major.
#include <feedline/core/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace feedline::test {

template <class T = std::uint8_t>
tensor<T> read_npy(std::span<const std::byte> file) {
  static_assert(std::is_same_v<T, std::uint8_t> || std::is_same_v<T, std::int16_t>);
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY\x01", 7) != 0)
    throw std::runtime_error("not an .npy file of version 1");
  const std::size_t length = std::to_integer<std::size_t>(file[8]) | std::to_integer<std::size_t>(file[9])
                                                                         << 8;
  const std::string header(reinterpret_cast<const char*>(file.data()) + 10, length);
  if (header.find(sizeof(T) == 1 ? "|u1" : "<i2") == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error("an .npy file of an unsupported kind: " + header);
  shape extents;
  for (std::size_t at = header.find("'shape': (") + 10; header[at] != ')';) {
    std::size_t used = 0;
    extents.append(std::stoul(header.substr(at), &used));
    at += used;
    while (header[at] == ',' || header[at] == ' ') ++at;
  }
  tensor<T> values(extents);
  if (values.size() * sizeof(T) > file.size() - 10 - length)
    throw std::runtime_error("a truncated .npy file");
  std::memcpy(values.data(), file.data() + 10 + length, values.size() * sizeof(T));
  return values;
}

} // namespace feedline::test

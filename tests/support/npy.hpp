// SPDX-License-Identifier: MIT
#pragma once
// NumPy's .npy files, as far as the test data needs them: 8-bit, row-major.
#include <feedline/core/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>

namespace feedline::test {

inline tensor<std::uint8_t> read_npy(std::span<const std::byte> file) {
  if (file.size() < 10 || std::memcmp(file.data(), "\x93NUMPY\x01", 7) != 0)
    throw std::runtime_error("not an .npy file of version 1");
  const std::size_t length = std::to_integer<std::size_t>(file[8]) | std::to_integer<std::size_t>(file[9])
                                                                         << 8;
  const std::string header(reinterpret_cast<const char*>(file.data()) + 10, length);
  if (header.find("|u1") == std::string::npos || header.find("'fortran_order': False") == std::string::npos)
    throw std::runtime_error("an .npy file of another kind: " + header);
  shape extents;
  for (std::size_t at = header.find("'shape': (") + 10; header[at] != ')';) {
    std::size_t used = 0;
    extents.append(std::stoul(header.substr(at), &used));
    at += used;
    while (header[at] == ',' || header[at] == ' ') ++at;
  }
  tensor<std::uint8_t> values(extents);
  std::memcpy(values.data(), file.data() + 10 + length, values.size());
  return values;
}

} // namespace feedline::test

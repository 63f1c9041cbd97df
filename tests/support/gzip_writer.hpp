// SPDX-License-Identifier: MIT
#pragma once
// Makes gzip files.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <libdeflate.h>

namespace feedline::test {

/// One gzip member; level 0 stores without compression.
inline std::string gzip(std::string_view contents, int level = 6) {
  const std::unique_ptr<libdeflate_compressor, decltype(&::libdeflate_free_compressor)> compressor(
      ::libdeflate_alloc_compressor(level), ::libdeflate_free_compressor);
  std::string file(::libdeflate_gzip_compress_bound(compressor.get(), contents.size()), '\0');
  file.resize(::libdeflate_gzip_compress(compressor.get(), contents.data(), contents.size(), file.data(),
                                         file.size()));
  if (file.empty()) throw std::runtime_error("libdeflate didn't compress");
  return file;
}

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Text that compresses by less than half.
inline std::string lively_text(std::size_t size, unsigned seed = 1) {
  std::string text;
  text.reserve(size);
  for (; text.size() < size; seed = seed * 1664525 + 1013904223)
    text += static_cast<char>('a' + (seed >> 24) % 20);
  return text;
}

} // namespace feedline::test

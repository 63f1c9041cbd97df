// SPDX-License-Identifier: MIT
#pragma once
// For fuzz targets of formats that compress files.
#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/detail/file_kind.hpp>
#include <feedline/source/lines.hpp>
#include <feedline/source/lines_options.hpp>
#include <feedline/source/tar.hpp>

#include "support/expect.hpp"
#include "support/fuzz_input.hpp"

namespace feedline::test {

inline constexpr std::size_t most_decompressed = 1 << 20;

/// What a stream of compressed bytes gives, up to most_decompressed bytes, and whether it has a problem. `piece`: the size of
/// each read of them, and of what they give.
inline std::pair<std::string, bool> decompressed(const text_opener& opener, std::string_view bytes,
                                                 std::size_t piece) {
  constexpr std::size_t most = most_decompressed;
  const auto next_piece = [&] {
    const std::vector<char> exact(bytes.begin(),
                                  bytes.begin() + static_cast<std::ptrdiff_t>(std::min(piece, bytes.size())));
    bytes.remove_prefix(exact.size());
    return exact;
  };
  std::vector<char> now = next_piece(); // AddressSanitizer knows its end
  const auto stream = opener.open(std::as_bytes(std::span(now)), [&] {
    now = next_piece();
    return std::as_bytes(std::span(std::as_const(now)));
  });
  std::string text;
  for (bool goes_on = true; goes_on && text.size() < most;) {
    const std::size_t before = text.size();
    text.resize(before + piece);
    const std::size_t got = stream->read(reinterpret_cast<std::byte*>(text.data() + before), piece);
    expect(got <= piece);
    goes_on = got == piece;
    text.resize(before + got);
  }
  text.resize(std::min(text.size(), most));
  return {text, text.size() < most && !stream->problem().empty()};
}

/// Whether lines() reads it as plain text.
inline bool is_plain_text(std::string_view text) {
  return !detail::kind_of_file(text.substr(0, 512)).is_compressed && !text.starts_with("\xff\xfe") &&
         !text.starts_with("\xfe\xff");
}

/// The samples of a shard, compressed or not.
inline std::vector<std::string> shard_of(std::string_view bytes, std::vector<text_opener> openers) {
  const std::string path = path_of(bytes);
  return results_in_order<tar_error>(
      path, tar_samples(path, {.max_sample_bytes = most_decompressed, .decompress = std::move(openers)}));
}

/// Likewise its lines.
inline std::vector<std::string> lines_of(std::string_view bytes, std::vector<text_opener> openers) {
  const std::string path = path_of(bytes);
  return results_in_order<std::runtime_error, std::length_error>(
      path, lines(path, {.max_line_bytes = 1000, .decompress = std::move(openers)}).source());
}

/// Reads bytes as if they were compressed. `file`, the same bytes compressed, must give what they give.
inline void try_opener(const text_opener& opener, std::string_view bytes, std::string_view file) {
  expect(decompressed(opener, bytes, 1 + bytes.size() % 100) == decompressed(opener, bytes, 1 << 16));
  shard_of(bytes, {opener});
  lines_of(bytes, {opener});
  expect(shard_of(file, {opener}) == shard_of(bytes, {}));
  if (is_plain_text(bytes)) expect(lines_of(file, {opener}) == lines_of(bytes, {}));
}

} // namespace feedline::test

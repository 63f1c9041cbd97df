// SPDX-License-Identifier: MIT
// Reads libFuzzer's bytes as a file that another process left in the directory of a cache, and finds its values. The corpus
// needs no files.
#include <feedline/cache/detail/cache_directory.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/random.hpp>

#include "support/expect.hpp"
#include "support/temporary_folder.hpp"

namespace fl = feedline;
using namespace feedline::test;

namespace {

constexpr std::uint64_t fingerprint = 1, most_bytes = 1 << 20;
constexpr std::uint64_t file_sign = 0x3165686361636c66, record_sign = 0x64726f6365726c66;

std::uint64_t word_at(std::string_view file, std::size_t at) {
  std::uint64_t word;
  std::memcpy(&word, file.data() + at, sizeof word);
  return word;
}

std::string as_bytes(std::initializer_list<std::uint64_t> words) {
  return {reinterpret_cast<const char*>(words.begin()), 8 * words.size()};
}

/// A cache's file with records of these bytes: two of the key, two of the size, and the value, whose size may be wrong. Their
/// hashes are right in most cases, as few of libFuzzer's would be.
std::string cache_file(std::string_view bytes) {
  std::string file = as_bytes({file_sign, fingerprint, fl::detail::key(file_sign, fingerprint)});
  while (bytes.size() >= 4) {
    const auto byte = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(bytes[i])}; };
    const std::uint64_t sample = byte(0), rest = byte(1), stated = byte(2) << (byte(3) % 64);
    const std::string_view value =
        bytes.substr(4, static_cast<std::size_t>(std::min<std::uint64_t>(stated, bytes.size() - 4)));
    const std::uint64_t hash = fl::detail::hash_of_block(std::as_bytes(std::span(value))) + (byte(3) == 255);
    file += as_bytes(
        {record_sign, sample, rest, stated, hash, fl::detail::key(record_sign, sample, rest, stated, hash)});
    file += value;
    bytes.remove_prefix(4 + value.size());
  }
  return file.append(bytes);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const temporary_folder folder;
  const std::string file = cache_file({reinterpret_cast<const char*>(data), size});
  folder.write("feedline-1-1.cache", file);
  fl::detail::cache_counters counters;
  fl::detail::directory_table table(folder.path(), most_bytes, fingerprint, counters, {});
  fl::detail::scratch_memory scratch;
  for (std::size_t at = 24; at + 48 <= file.size(); ++at) {
    if (word_at(file, at) != record_sign) continue;
    const auto value = table.find({word_at(file, at + 8), word_at(file, at + 16)}, scratch);
    const std::string_view found(reinterpret_cast<const char*>(value.data()), value.size());
    expect(found.empty() || file.find(found) != file.npos);
  }
  return 0;
}

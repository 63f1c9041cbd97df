// SPDX-License-Identifier: MIT
#pragma once
// For fuzz targets that read files: a path for libFuzzer's bytes, and what reading them gives.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <feedline/source/tar_sample.hpp>

#include "support/expect.hpp"
#include "support/tar_writer.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed);

// Without right checksums few of the changes to a TAR archive would be seen.
extern "C" inline std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                                      unsigned seed) {
  const std::size_t changed = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 != 0) feedline::test::mend_tar({reinterpret_cast<char*>(data), changed});
  return changed;
}

namespace feedline::test {

/// The path of a file in memory, which has these bytes until the next call.
inline std::string path_of(std::string_view bytes) {
  static const int file = ::memfd_create("fuzz", 0);
  expect(::ftruncate(file, 0) == 0 &&
         ::pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<::ssize_t>(bytes.size()));
  return "/proc/self/fd/" + std::to_string(file);
}

/// "key:field=contents,field=contents,"
inline std::string as_text(const tar_sample& sample) {
  std::string text = std::string(sample.key()) + ":";
  for (const tar_field& field : sample)
    text.append(field.name).append("=").append(sample.text(field.name)).append(",");
  return text;
}

inline const std::string& as_text(const std::string& line) { return line; }

/// What up to 200 calls return, as text, or "! message" if they throw one of the Errors, which must name the file. `next`
/// returns an optional.
template <class... Errors>
std::vector<std::string> results(const std::string& path, const auto& next) {
  std::vector<std::string> all;
  while (all.size() < 200) try {
      const auto one = next();
      if (!one) break;
      all.emplace_back(as_text(*one));
    } catch (const std::exception& error) {
      if (!(dynamic_cast<const Errors*>(&error) || ...)) throw;
      const std::string_view message = error.what();
      expect(message.find(path) != message.npos);
      all.push_back("! " + std::string(message).replace(message.find(path), path.size(), "FILE"));
    }
  return all;
}

/// The same for an epoch of a source.
template <class... Errors>
std::vector<std::string> results_in_order(const std::string& path, auto source) {
  source.start_epoch({});
  return results<Errors...>(path, [&] { return source.next(); });
}

/// The same for a source that can be read by position.
template <class... Errors>
std::vector<std::string> results_by_position(const std::string& path, const auto& places) {
  std::uint64_t place = 0;
  return results<Errors...>(
      path, [&] { return place < places.size() ? std::optional(places.at(place++)) : std::nullopt; });
}

} // namespace feedline::test

// SPDX-License-Identifier: MIT
#pragma once
// What was done, in numbers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

/// Formats a number with `decimals` decimals.
inline std::string decimal(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

inline std::string megabytes(std::uint64_t bytes) {
  return decimal(static_cast<double>(bytes) / 1e6, 1) + " MB";
}

/// "1 file", "2 files"
inline std::string count_of(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

struct summary {
  std::uint64_t samples = 0, files = 0, jpegs = 0, rewritten = 0;
  std::uint64_t bytes_before = 0, bytes_after = 0;              // of all files
  std::uint64_t jpeg_bytes_before = 0, jpeg_bytes_after = 0;    // of the JPEGs
  std::uint64_t read = 0;                                       // bytes of the input, for the progress bar
  std::vector<std::pair<std::string, std::uint64_t>> unchanged; // reason and number of files, sorted
  std::uint64_t failed = 0;
  std::vector<std::string> failures; // the first ones

  /// What a saved run keeps.
  void state(auto& archive) {
    archive(samples, files, jpegs, rewritten, bytes_before, bytes_after, jpeg_bytes_before, jpeg_bytes_after,
            read, unchanged, failed, failures);
  }

  void add_unchanged(const std::string& reason, std::uint64_t count = 1) {
    const auto before = [](const auto& entry, const std::string& text) { return entry.first < text; };
    const auto at = std::lower_bound(unchanged.begin(), unchanged.end(), reason, before);
    if (at != unchanged.end() && at->first == reason) at->second += count;
    else unchanged.emplace(at, reason, count);
  }

  void add_failure(const std::string& message) {
    constexpr std::size_t shown = 10;
    ++failed;
    if (failures.size() < shown) failures.push_back(message);
  }

  summary& operator+=(const summary& other) {
    samples += other.samples;
    files += other.files;
    jpegs += other.jpegs;
    rewritten += other.rewritten;
    bytes_before += other.bytes_before;
    bytes_after += other.bytes_after;
    jpeg_bytes_before += other.jpeg_bytes_before;
    jpeg_bytes_after += other.jpeg_bytes_after;
    read += other.read;
    for (const auto& [reason, count] : other.unchanged) add_unchanged(reason, count);
    const std::uint64_t all = failed + other.failed;
    for (const std::string& message : other.failures) add_failure(message);
    failed = all;
    return *this;
  }
};

inline std::string to_string(const summary& s) {
  const double growth =
      s.jpeg_bytes_before > 0
          ? 100 * (static_cast<double>(s.jpeg_bytes_after) / static_cast<double>(s.jpeg_bytes_before) - 1)
          : 0;
  std::string text = count_of(s.samples, "sample") + ", " + count_of(s.files, "file") + ": " +
                     megabytes(s.bytes_before) + " before, " + megabytes(s.bytes_after) + " after\n" +
                     count_of(s.jpegs, "JPEG") + ": " + megabytes(s.jpeg_bytes_before) + " before, " +
                     megabytes(s.jpeg_bytes_after) + " after (" + (growth < 0 ? "" : "+") +
                     decimal(growth, 2) + " %)\nrewritten: " + std::to_string(s.rewritten) + "\n";
  for (const auto& [reason, count] : s.unchanged)
    text += "unchanged: " + std::to_string(count) + ": " + reason + "\n";
  text += "failed: " + std::to_string(s.failed) + "\n";
  for (const std::string& message : s.failures) text += "  " + message + "\n";
  if (s.failed > s.failures.size())
    text += "  … and " + std::to_string(s.failed - s.failures.size()) + " more\n";
  return text;
}

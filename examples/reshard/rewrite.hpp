// SPDX-License-Identifier: MIT
#pragma once
// Rewrites the JPEGs of a sample.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include "command_line.hpp"
#include "input.hpp"
#include "summary.hpp"
#include "tar_writer.hpp"

/// A sample as it is written.
struct rewritten_sample {
  std::string key;
  std::vector<member> members;
  summary counts;
  std::string wrong; ///< why --verify refuses it; empty if it doesn't
};

inline bool is_jpeg(std::span<const std::byte> bytes) {
  constexpr std::array begin{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
  return bytes.size() >= begin.size() && std::equal(begin.begin(), begin.end(), bytes.begin());
}

inline bool is_named_jpeg(std::string_view name) {
  for (const std::string_view extension : {".jpg", ".jpeg", ".JPG", ".JPEG"})
    if (name.ends_with(extension)) return true;
  return false;
}

/// The reason without what differs from file to file, so that equal reasons can be counted.
inline std::string kind_of(const std::string& reason, const command_line& options) {
  if (reason.starts_with("it would grow by"))
    return "it would grow by more than " + decimal(100 * options.markers.max_growth, 1) + " %";
  return reason.substr(0, reason.find(':'));
}

/// Replaces a JPEG, or counts why it stays as it is. False if --verify finds a difference. Throws jpeg_error if it can't be
/// read.
inline bool rewrite_jpeg(member& file, summary& counts, const command_line& options) {
  feedline::marked_jpeg marked = feedline::add_restart_markers(file.bytes, options.markers);
  if (marked.segments_per_row == 0) {
    counts.add_unchanged(kind_of(marked.unchanged, options));
    return true;
  }
  if (options.verify && !feedline::same_jpeg_coefficients(file.bytes, marked.bytes)) return false;
  ++counts.rewritten;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(marked.bytes));
  file.bytes = feedline::tar_bytes(bytes, *bytes);
  return true;
}

/// Any number of workers call it at once.
template <class Sample>
rewritten_sample rewrite(const Sample& sample, const command_line& options) {
  rewritten_sample result{key_of(sample), members_of(sample), {}, {}};
  summary& counts = result.counts;
  counts.samples = 1;
  for (member& file : result.members) {
    const std::size_t size = file.bytes.size();
    if (is_jpeg(file.bytes)) {
      try {
        if (!rewrite_jpeg(file, counts, options))
          result.wrong =
              place_of(sample, file) + ": the rewritten JPEG has other coefficients than the original";
      } catch (const feedline::jpeg_error& error) {
        if (options.on_error == on_unreadable::fail)
          throw std::runtime_error(file.name + ": " + error.what() + "; --on-error skip or keep goes on");
        if (options.on_error == on_unreadable::skip)
          throw std::runtime_error(file.name + ": " + error.what());
        counts.add_failure(place_of(sample, file) + ": " + error.what());
      }
      ++counts.jpegs;
      counts.jpeg_bytes_before += size;
      counts.jpeg_bytes_after += file.bytes.size();
    } else if (is_named_jpeg(file.name)) {
      counts.add_unchanged("it isn't a JPEG, although its name says so");
    }
    ++counts.files;
    counts.bytes_before += size;
    counts.bytes_after += file.bytes.size();
    counts.read += tar_writer::size_of(file.name, size);
  }
  return result;
}

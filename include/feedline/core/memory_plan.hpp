// SPDX-License-Identifier: MIT
#pragma once
// The most memory that a run can hold, computed before it starts.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The most memory that a run's queues, buffers and batches take, including the batch that the caller holds.
///
/// The plan knows the size of items with a fixed size: numbers, arrays, tensors with their shape in their
/// type and structs of those, views into mapped files, and batches of them; also the names that files()
/// lists, and the elements of from() and records. For other items that a function or a source returns, pass
/// `max_item_bytes{bytes}`; for lines, use lines_options. The plan doesn't include the memory that a user's
/// functions keep (a decoder's memory), pages of mapped files, which the system takes back when it needs
/// them, or the range that a flat_map iterates over. A user's stage declares its memory, see stage_for. If
/// tensors differ in size, up to 64 MB may be idle, ready for the next tensors, or exceed what these need: in
/// the process, and in each stage whose tensors use a user's memory resource; each thread keeps up to 64 KB of small
/// ones. A checkpoint that the caller
/// keeps isn't in the plan: with a shuffle buffer it may keep the notes that the plan counts, until it is
/// destroyed.
struct memory_plan {
  /// Items of one kind in one part of the run.
  struct part {
    std::string name;                 ///< "map `decode` -> batch"
    std::size_t items = 0;            ///< at most
    std::optional<std::size_t> bytes; ///< of each; nothing: unknown
    std::string unknown{};            ///< if unknown: what isn't known, and what to add
  };

  std::vector<part> parts; ///< in the order of the pipeline

  /// The sum of all parts; nothing: not all of them are known.
  std::optional<std::size_t> bytes() const;
};

/// An argument after the function of a map, flat_map or generate: each item takes at most this many bytes
/// with everything it owns. A larger item is a failure of its sample. For a memory_budget, where the items'
/// type doesn't determine their size.
struct max_item_bytes {
  std::size_t bytes = 0; ///< of one item
};

namespace detail {

/// "38.5 MB"
std::string bytes_text(std::size_t bytes);

/// The bytes of all items of a part.
std::optional<std::size_t> bytes_of(const memory_plan::part& p);

} // namespace detail

/// A table, for people.
std::string to_string(const memory_plan& plan);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <algorithm>
#include <iterator>
#include <utility>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::optional<std::size_t> memory_plan::bytes() const {
  std::size_t sum = 0;
  for (const part& p : parts) {
    std::size_t all = 0;
    if (!p.bytes || __builtin_mul_overflow(p.items, *p.bytes, &all) || __builtin_add_overflow(sum, all, &sum))
      return std::nullopt;
  }
  return sum;
}

} // namespace feedline::inline FEEDLINE_ABI

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string bytes_text(std::size_t bytes) {
  const char* const units[] = {" bytes", " KB", " MB", " GB", " TB", " PB"};
  if (bytes > ~std::size_t{0} / 2) return "-" + bytes_text(-bytes);
  std::size_t unit = 0, tenths = bytes;
  if (bytes > ~std::size_t{0} / 10) { // too large for tenths of a byte
    tenths = bytes / 1000;
    unit = 1;
  }
  for (tenths *= 10; tenths >= 10'000 && unit + 1 < std::size(units); ++unit) tenths = (tenths + 500) / 1000;
  if (unit == 0) return std::to_string(bytes) + units[0];
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + units[unit];
}

FEEDLINE_INLINE std::optional<std::size_t> bytes_of(const memory_plan::part& p) {
  std::size_t all = 0;
  if (!p.bytes || __builtin_mul_overflow(p.items, *p.bytes, &all)) return std::nullopt;
  return all;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::string to_string(const memory_plan& plan) {
  std::size_t width = 8;
  for (const memory_plan::part& p : plan.parts) width = std::max(width, p.name.size());
  const auto line = [&](std::string name, std::string items, std::string each, std::string all) {
    const auto pad = [](std::string text, std::size_t to) {
      return std::string(to - std::min(to, text.size()), ' ') + text;
    };
    name.resize(width, ' ');
    return name + pad(std::move(items), 10) + pad(std::move(each), 14) + pad(std::move(all), 14) + "\n";
  };
  const auto size = [](const std::optional<std::size_t>& bytes) {
    return bytes ? detail::bytes_text(*bytes) : "?";
  };
  std::string text = line("at most", "items", "each", "total");
  for (const memory_plan::part& p : plan.parts)
    text += line(p.name, detail::size_text(p.items), size(p.bytes), size(detail::bytes_of(p)));
  return text + line("total", "", "", size(plan.bytes()));
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

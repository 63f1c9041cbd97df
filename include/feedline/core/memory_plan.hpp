// SPDX-License-Identifier: MIT
#pragma once
// What a run holds at most, worked out before it starts.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <feedline/detail/given_size.hpp>

namespace feedline::inline v0 {

/// The most memory that a run's queues, buffers and batches take, with the batch that the caller has in hand.
///
/// It knows what items of a fixed size hold: numbers, arrays, tensors with their shape in their type and
/// structs of those, views into mapped files, and batches of them; the names that files() lists, the elements
/// of from() and records. Of what else a function or a source gives it must be told by `largest_item{bytes}`,
/// of lines by lines_options. What functions of the user's keep for themselves (a decoder's memory) isn't in
/// it, nor are pages of mapped files, which the system takes back when it needs them, nor the range that a
/// flat_map goes through. Stages of the user's own say what they hold, see stage_for. Where tensors differ in
/// size, up to 64 MB may lie idle for the next ones or be more than those need: of the process, and of each
/// stage whose tensors lie in a resource of yours. A checkpoint that you keep is beside the plan: with a
/// shuffle buffer it may hold the notes that the plan counts, until it is gone.
struct memory_plan {
  /// Items of one kind in one place.
  struct part {
    std::string name;                 ///< "map `decode` -> batch"
    std::size_t items = 0;            ///< at most
    std::optional<std::size_t> bytes; ///< of each; nothing: nobody knows
    std::string unknown{};            ///< then what isn't known, and what to add
  };

  std::vector<part> parts;

  /// All of them together; nothing: not everything is known.
  std::optional<std::size_t> bytes() const {
    std::size_t sum = 0;
    for (const part& p : parts) {
      std::size_t all = 0;
      if (!p.bytes || __builtin_mul_overflow(p.items, *p.bytes, &all) ||
          __builtin_add_overflow(sum, all, &sum))
        return std::nullopt;
    }
    return sum;
  }
};

/// Behind the function of a map, flat_map or generate: none of its items takes more bytes than this, with all
/// that belongs to it.
/// One that does is a failure of its sample. For a memory_budget, where the items' type doesn't tell.
struct largest_item {
  std::size_t bytes = 0;
};

namespace detail {

/// "38.5 MB"
inline std::string bytes_text(std::size_t bytes) {
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

/// Of all items of a part together.
inline std::optional<std::size_t> bytes_of(const memory_plan::part& p) {
  std::size_t all = 0;
  if (!p.bytes || __builtin_mul_overflow(p.items, *p.bytes, &all)) return std::nullopt;
  return all;
}

} // namespace detail

/// A table, for people.
inline std::string to_string(const memory_plan& plan) {
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
  std::string text = line("at most", "items", "each", "together");
  for (const memory_plan::part& p : plan.parts)
    text += line(p.name, detail::size_text(p.items), size(p.bytes), size(detail::bytes_of(p)));
  return text + line("in all", "", "", size(plan.bytes()));
}

} // namespace feedline::inline v0

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/memory_plan.hpp>

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

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/source.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <exception>
#include <iterator>
#include <stdexcept>

#include <feedline/core/failure.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void skip_calls(std::uint64_t calls, std::uint64_t failures, const std::stop_token& stop,
                                function_ref<bool()> next) {
  constexpr const char* lost = "the run can't return to the checkpoint's position: ";
  std::uint64_t failed = 0;
  std::string last;
  for (; calls > 0 && !stop.stop_requested(); --calls) {
    bool has_next = true;
    try {
      has_next = next();
    } catch (const std::exception& error) {
      if (is_outage(std::current_exception())) throw;
      ++failed;
      last = error.what();
    } catch (...) {
      ++failed;
    }
    if (!has_next)
      throw std::runtime_error(lost + ("the epoch ended " + std::to_string(calls)) + " samples before it");
  }
  if (failed != failures && !stop.stop_requested())
    throw std::runtime_error(lost + std::to_string(failed) + " samples before it failed now, " +
                             std::to_string(failures) + " when the checkpoint was taken" +
                             (last.empty() ? last : "; the last error is: " + last));
}

FEEDLINE_INLINE void add_parameters(std::string& to, const std::string& more) {
  if (!to.empty() && !more.empty()) to += "; ";
  to += more;
}

FEEDLINE_INLINE std::string text_of_weights(const char* option, std::span<const double> weights) {
  constexpr std::size_t most = 8;
  std::string text = std::string(option) + ": ";
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    hash = mix(hash ^ std::bit_cast<std::uint64_t>(weights[i]));
    if (i >= most) continue;
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), weights[i]).ptr;
    text.append(i == 0 ? "" : ", ").append(digits, end);
  }
  if (weights.size() > most)
    text += ", … (" + std::to_string(weights.size()) + " weights, checksum " +
            std::to_string(static_cast<std::uint32_t>(hash)) + ")";
  return text;
}

FEEDLINE_INLINE std::string difference_of_parameters(std::string_view before, std::string_view now) {
  const auto take = [](std::string_view& list) {
    const std::string_view item = list.substr(0, list.find("; "));
    list.remove_prefix(std::min(list.size(), item.size() + 2));
    return item;
  };
  const auto name_of = [](std::string_view item) { return item.substr(0, item.find(": ")); };
  const auto or_none = [](std::string_view item) {
    return std::string(item.empty() ? "no further option" : item);
  };
  std::string_view a, b;
  do {
    a = take(before);
    b = take(now);
  } while (a == b && !(before.empty() && now.empty()));
  if (name_of(a) != name_of(b)) return "its source had " + or_none(a) + ", here it has " + or_none(b);
  const auto value_of = [&](std::string_view item) {
    return std::string(item.substr(std::min(item.size(), name_of(item).size() + 2)));
  };
  return std::string(name_of(a)) + " was " + value_of(a) + ", here it is " + value_of(b);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

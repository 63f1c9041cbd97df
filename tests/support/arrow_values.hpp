// SPDX-License-Identifier: MIT
#pragma once
// Reads everything in a value of an Arrow file.
#include <feedline/arrow/value.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace feedline::test {

/// Reads a value and the values inside it, up to about `most` values, and adds their number to `values`.
/// Throws arrow_error.
inline std::uint64_t look_at_all(const arrow_value& value, std::size_t& values, std::size_t most = 4000) {
  if (++values % most == 0 || value.is_null()) return 0;
  switch (value.type()) {
  case arrow_type::boolean:
    return value.as<bool>();
  case arrow_type::integer:
  case arrow_type::date:
  case arrow_type::time:
  case arrow_type::timestamp:
  case arrow_type::duration:
    return value.field()->is_signed ? static_cast<std::uint64_t>(value.as<std::int64_t>())
                                    : value.as<std::uint64_t>();
  case arrow_type::floating_point:
    return value.as<double>() > 0;
  case arrow_type::decimal:
    return value.as<std::string>().size() + (value.as<double>() > 0);
  case arrow_type::structure:
  case arrow_type::list:
  case arrow_type::large_list:
  case arrow_type::fixed_size_list:
  case arrow_type::map: {
    std::uint64_t sum = 0;
    const std::size_t end = values + most;
    for (std::size_t i = 0; i < value.size() && values < end; ++i) sum += look_at_all(value[i], values, most);
    return sum;
  }
  default: {
    std::uint64_t sum = 0;
    for (const std::byte b : value.as<std::span<const std::byte>>()) sum += std::to_integer<unsigned>(b);
    return sum;
  }
  }
}

} // namespace feedline::test

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/tar_reader.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string tar_member::full_name() const {
  return directory.empty() ? std::string(name) : std::string(directory).append("/").append(name);
}

FEEDLINE_INLINE std::string tar_memory::problem() { return {}; }

FEEDLINE_INLINE std::string tar_memory::problem_to_the_end() { return {}; }

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/stage/batch.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::runtime_error lost_batch(std::size_t rows, const std::exception& error) {
  return std::runtime_error("all " + std::to_string(rows) +
                            " samples of the batch are lost: " + error.what());
}

} // namespace feedline::inline FEEDLINE_ABI::detail

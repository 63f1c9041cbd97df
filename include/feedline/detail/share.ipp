// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/share.hpp>

#include <memory>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const void> share(const void* object, void (*destroy)(const void*)) {
  return std::shared_ptr<const void>(object, destroy);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

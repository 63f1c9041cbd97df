// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include <feedline/detail/share.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const void> share(const void* object, void (*destroy)(const void*)) {
  return std::shared_ptr<const void>(object, destroy);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

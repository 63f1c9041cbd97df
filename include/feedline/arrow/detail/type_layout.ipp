// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/type_layout.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::string_view arrow_type_name(arrow_type type) { return layout_of(type).name; }

} // namespace feedline::inline FEEDLINE_ABI::detail

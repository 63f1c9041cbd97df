// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/callback.hpp>

#include <cstdio>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void notify(const callback<std::string>& on_notice, const std::string& sentence) {
  if (on_notice) on_notice(sentence);
  else std::fprintf(stderr, "%s\n", sentence.c_str());
}

} // namespace feedline::inline FEEDLINE_ABI::detail

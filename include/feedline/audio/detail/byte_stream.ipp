// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/byte_stream.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE SF_VIRTUAL_IO& byte_stream::functions() noexcept {
  static SF_VIRTUAL_IO all{
      [](void* user) { return static_cast<sf_count_t>(of(user).bytes.size()); },
      [](sf_count_t offset, int from, void* user) { return of(user).seek(offset, from); },
      [](void* to, sf_count_t count, void* user) { return of(user).read(to, count); },
      [](const void*, sf_count_t, void*) { return sf_count_t{0}; }, // no writing
      [](void* user) { return static_cast<sf_count_t>(of(user).position); }};
  return all;
}

FEEDLINE_INLINE sf_count_t byte_stream::seek(sf_count_t offset, int from) noexcept {
  const auto size = static_cast<sf_count_t>(bytes.size());
  const auto here = static_cast<sf_count_t>(position);
  const sf_count_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? here : size;
  if (offset < -base || offset > size - base) return -1;
  position = static_cast<std::size_t>(base + offset);
  return base + offset;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

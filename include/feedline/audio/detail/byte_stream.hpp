// SPDX-License-Identifier: MIT
#pragma once
// Bytes in memory as a file for libsndfile.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>

#include <sndfile.h>

namespace feedline::inline v0::detail {

struct byte_stream {
  std::span<const std::byte> bytes;
  std::size_t position = 0;

  /// libsndfile's callbacks for a stream, whose `user` is a byte_stream. They don't throw.
  static SF_VIRTUAL_IO& functions() noexcept {
    static SF_VIRTUAL_IO all{
        [](void* user) { return static_cast<sf_count_t>(of(user).bytes.size()); },
        [](sf_count_t offset, int from, void* user) { return of(user).seek(offset, from); },
        [](void* to, sf_count_t count, void* user) { return of(user).read(to, count); },
        [](const void*, sf_count_t, void*) { return sf_count_t{0}; }, // no writing
        [](void* user) { return static_cast<sf_count_t>(of(user).position); }};
    return all;
  }

 private:
  static byte_stream& of(void* user) noexcept { return *static_cast<byte_stream*>(user); }

  // Refuses positions outside the bytes, which broken files request.
  sf_count_t seek(sf_count_t offset, int from) noexcept {
    const auto size = static_cast<sf_count_t>(bytes.size());
    const auto here = static_cast<sf_count_t>(position);
    const sf_count_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? here : size;
    if (offset < -base || offset > size - base) return -1;
    position = static_cast<std::size_t>(base + offset);
    return base + offset;
  }

  sf_count_t read(void* to, sf_count_t count) noexcept {
    if (count <= 0) return 0;
    const std::size_t got = std::min(static_cast<std::size_t>(count), bytes.size() - position);
    if (got > 0) std::memcpy(to, bytes.data() + position, got);
    position += got;
    return static_cast<sf_count_t>(got);
  }
};

} // namespace feedline::inline v0::detail

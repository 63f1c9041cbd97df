// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/audio/detail/sound_file.hpp>

#include <mutex>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE sound_file::sound_file(std::span<const std::byte> file) : stream_{file} {
  {
    const std::shared_lock lock(opening());
    file_ = open();
  }
  if (file_) return;
  // libsndfile stores the reason in a global variable, which every opening of a file overwrites.
  const std::unique_lock lock(opening());
  file_ = open();
  if (!file_) error_ = sf_error_number(sf_error(nullptr));
}

FEEDLINE_INLINE std::string sound_file::error() const {
  if (!file_) return error_;
  return sf_error(file_) == SF_ERR_NO_ERROR ? std::string() : std::string(sf_strerror(file_));
}

FEEDLINE_INLINE std::optional<std::size_t> sound_file::frames() const noexcept {
  if (info_.frames < 0 || info_.frames == SF_COUNT_MAX) return {};
  return static_cast<std::size_t>(info_.frames);
}

FEEDLINE_INLINE std::shared_mutex& sound_file::opening() {
  static std::shared_mutex mutex;
  return mutex;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// Reads WebP images with libwebp.
#include <memory>

#include <feedline/image/detail/image_reader.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Throws image_error if the program was built without libwebp.
std::shared_ptr<image_reader> make_webp_reader();

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/webp_reader.ipp>
#endif

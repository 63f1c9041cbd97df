// SPDX-License-Identifier: MIT
#pragma once
// Reads PNG images with libpng.
#include <memory>

#include <feedline/image/detail/image_reader.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Throws image_error if the program was built without libpng.
std::shared_ptr<image_reader> make_png_reader();

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/image/detail/png_reader.ipp>
#endif

// SPDX-License-Identifier: MIT
#pragma once
// All definitions of image/: see feedline/implementation.hpp.
#ifndef FEEDLINE_COMPILED
#error "Compile this file and all others that include feedline with -DFEEDLINE_COMPILED"
#endif
#include <feedline/image/color.ipp>
#include <feedline/image/crop.ipp>
#include <feedline/image/detail/axis_filter.ipp>
#include <feedline/image/detail/image_memory.ipp>
#include <feedline/image/detail/image_reader.ipp>
#include <feedline/image/detail/jpeg_memory.ipp>
#include <feedline/image/detail/jpeg_source.ipp>
#include <feedline/image/detail/pixel_rows.ipp>
#include <feedline/image/detail/pixel_scale.ipp>
#include <feedline/image/detail/resampler.ipp>
#include <feedline/image/detail/restart_segments.ipp>
#include <feedline/image/exif_orientation.ipp>
#include <feedline/image/image_decoder.ipp>
#include <feedline/image/image_view.ipp>
#include <feedline/image/jpeg_decoder.ipp>
#include <feedline/image/jpeg_encoder.ipp>
#include <feedline/image/jpeg_error.ipp>
#include <feedline/image/restart_markers.ipp>

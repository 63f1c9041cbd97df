// SPDX-License-Identifier: MIT
#pragma once
// All definitions of image/: see feedline/implementation.hpp.
#define FEEDLINE_DEFINES_IMAGE
#include <feedline/detail/definitions.hpp>

#include <feedline/image/color.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/detail/axis_filter.hpp>
#include <feedline/image/detail/image_memory.hpp>
#include <feedline/image/detail/image_reader.hpp>
#include <feedline/image/detail/jpeg_memory.hpp>
#include <feedline/image/detail/jpeg_source.hpp>
#include <feedline/image/detail/pixel_rows.hpp>
#include <feedline/image/detail/pixel_scale.hpp>
#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/detail/restart_segments.hpp>
#include <feedline/image/exif_orientation.hpp>
#include <feedline/image/image_decoder.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/jpeg_decoder.hpp>
#include <feedline/image/jpeg_encoder.hpp>
#include <feedline/image/jpeg_error.hpp>
#include <feedline/image/restart_markers.hpp>

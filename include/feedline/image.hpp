// SPDX-License-Identifier: MIT
#pragma once
// The component feedline::image: decodes JPEG, PNG and WebP images and masks, encodes JPEGs, and crops, resizes and
// augments images.
#include <feedline/image/affine.hpp>
#include <feedline/image/color.hpp>
#include <feedline/image/crop.hpp>
#include <feedline/image/exif_orientation.hpp>
#include <feedline/image/image_decoder.hpp>
#include <feedline/image/image_error.hpp>
#include <feedline/image/image_options.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/jpeg_decoder.hpp>
#include <feedline/image/jpeg_encoder.hpp>
#include <feedline/image/jpeg_error.hpp>
#include <feedline/image/rand_augment.hpp>
#include <feedline/image/random_erasing.hpp>
#include <feedline/image/resize.hpp>
#include <feedline/image/resize_options.hpp>
#include <feedline/image/restart_markers.hpp>

// SPDX-License-Identifier: MIT
#pragma once
// A toy data set: pictures of six shapes, as JPEG files with their labels in TAR shards.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numbers>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/image.hpp>

#include "tar_writer.hpp"

enum class drawn_shape : std::uint8_t { circle, square, triangle, star, ring, cross };

inline constexpr std::size_t drawn_shapes = 6;

/// Whether a shape covers the point (x, y). Shapes are centred on the origin and have a radius of about 1.
inline bool covers(drawn_shape shape, double x, double y) {
  const double radius = std::hypot(x, y);
  const auto in_polygon = [&](double corners, double inner_radius) {
    const double turn = 2 * std::numbers::pi / corners;
    const double angle = std::abs(std::remainder(std::atan2(y, x), turn)); // from the nearest outer corner
    // The edge leads from the outer corner, at angle 0, to the inner one, half a turn from it.
    const double inner_x = inner_radius * std::cos(turn / 2), inner_y = inner_radius * std::sin(turn / 2);
    return (1 - radius * std::cos(angle)) * inner_y > radius * std::sin(angle) * (1 - inner_x);
  };
  switch (shape) {
  case drawn_shape::circle:
    return radius < 0.9;
  case drawn_shape::square:
    return std::max(std::abs(x), std::abs(y)) < 0.75;
  case drawn_shape::triangle:
    return in_polygon(3, 0.5);
  case drawn_shape::star:
    return in_polygon(5, 0.4);
  case drawn_shape::ring:
    return radius > 0.5 && radius < 0.95;
  case drawn_shape::cross:
    return std::min(std::abs(x), std::abs(y)) < 0.25 && std::max(std::abs(x), std::abs(y)) < 0.95;
  }
  return false;
}

/// Draws a light shape on a dark ground at a random position, in a random size, rotation and colour, with
/// noise: [48, 48, 3].
inline feedline::tensor<std::uint8_t> draw(drawn_shape shape, feedline::random_generator& random) {
  constexpr std::size_t side = 48;
  const double size = random.uniform(0.25, 0.45) * side, angle = random.uniform(0, 2 * std::numbers::pi);
  const double center_x = random.uniform(size, side - size), center_y = random.uniform(size, side - size);
  std::array<double, 3> dark, light;
  for (double& value : dark) value = random.uniform(0.0, 0.5);
  for (double& value : light) value = random.uniform(0.6, 1.0);
  const double noise = random.uniform(0.0, 0.15);

  feedline::tensor<std::uint8_t> pixels(feedline::shape{side, side, 3});
  for (std::size_t pixel = 0; pixel < side * side; ++pixel) {
    double covered = 0;
    for (const double dy : {0.25, 0.75})
      for (const double dx : {0.25, 0.75}) {
        const double x = (static_cast<double>(pixel % side) + dx - center_x) / size;
        const double y = (static_cast<double>(pixel / side) + dy - center_y) / size;
        const double turned_x = x * std::cos(angle) + y * std::sin(angle);
        const double turned_y = y * std::cos(angle) - x * std::sin(angle);
        if (covers(shape, turned_x, turned_y)) covered += 0.25;
      }
    for (std::size_t c = 0; c < 3; ++c) {
      const double value = dark[c] + (light[c] - dark[c]) * covered + random.uniform(-noise, noise);
      pixels[3 * pixel + c] = static_cast<std::uint8_t>(255 * std::clamp(value, 0.0, 1.0));
    }
  }
  return pixels;
}

/// Writes `count` pictures to shards of `shard_size`, "PREFIX-0000.tar" and so on, and returns the names of
/// the shards. The same seed draws the same pictures. After a stop is requested, ends with the pictures so
/// far.
inline std::vector<std::string> write_shapes(const std::filesystem::path& prefix, std::size_t count,
                                             std::size_t shard_size, std::uint64_t seed,
                                             const std::stop_token& stop) {
  const auto digits = [](std::size_t number, std::size_t width) {
    const std::string text = std::to_string(number);
    return std::string(width - std::min(width, text.size()), '0') + text;
  };
  feedline::random_generator seeds(seed);
  std::vector<std::string> shards;
  for (std::size_t i = 0; i < count && !stop.stop_requested();) {
    shards.push_back(prefix.string() + "-" + digits(shards.size(), 4) + ".tar");
    tar_writer shard(shards.back());
    for (const std::size_t end = std::min(i + shard_size, count); i < end && !stop.stop_requested(); ++i) {
      feedline::random_generator random(seeds());
      const std::uint64_t label = random.below(drawn_shapes);
      shard.add(digits(i, 6) + ".jpg", feedline::encode_jpeg(draw(static_cast<drawn_shape>(label), random)));
      shard.add(digits(i, 6) + ".cls", std::to_string(label));
    }
    shard.finish();
  }
  return shards;
}

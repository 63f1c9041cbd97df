// SPDX-License-Identifier: MIT
#pragma once
// Colour adjustments of images in place, as in torchvision and Pillow, random colour jitter, and normalization after them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include <feedline/core/random.hpp>
#include <feedline/image/detail/math.hpp>
#include <feedline/image/image_view.hpp>
#include <feedline/image/resize_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The value of white: 255 for bytes, 1 for floating-point pixels.
template <class T>
inline constexpr float white = std::is_same_v<T, std::uint8_t> ? 255.0f : 1.0f;

/// Clamps to the range from black to white and converts to T.
template <class T>
T as_pixel(float value) noexcept {
  const float v = std::clamp(value, 0.0f, white<T>);
  if constexpr (std::is_same_v<T, std::uint8_t>) return static_cast<T>(v + 0.5f);
  else return v;
}

/// A pixel value on the scale of bytes, from 0 to 255.
template <class T>
int as_byte(T value) noexcept {
  const float byte = static_cast<float>(value) * (255 / white<T>);
  return byte > 0 ? static_cast<int>(std::min(byte, 255.0f) + 0.5f) : 0; // 0 for NaN
}

/// Whether a float is far outside the range from black to white, where bicubic interpolation doesn't take it. An image that
/// was normalized has such values. Not NaN.
template <class T>
bool is_normalized(T value) noexcept {
  if constexpr (std::is_same_v<T, std::uint8_t>) return false;
  else return static_cast<float>(value) < -0.5f || static_cast<float>(value) > 1.5f;
}

[[noreturn]] void fail_normalized();

/// Throws std::invalid_argument for a mean outside [-1, 1], or a std that is 0 or not finite.
void check_normalization(const normalization& n);

/// Calls f(red, green, blue) with references to the channels of each pixel.
template <class T, class F>
void for_each_pixel(const image_view<T>& image, F f) {
  if (image.channels != 3)
    throw std::invalid_argument("feedline: colour adjustments need an image of 3 channels");
  bool was_normalized = false;
  for (std::size_t y = 0; y < image.height; ++y)
    for (std::size_t x = 0; x < image.width; ++x) {
      T &red = image(y, x, 0), &green = image(y, x, 1), &blue = image(y, x, 2);
      was_normalized = was_normalized || is_normalized(red) || is_normalized(green) || is_normalized(blue);
      f(red, green, blue);
    }
  if (was_normalized) fail_normalized();
}

/// 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601).
template <class T>
float luma_of(T red, T green, T blue) noexcept {
  return 0.299f * static_cast<float>(red) + 0.587f * static_cast<float>(green) +
         0.114f * static_cast<float>(blue);
}

} // namespace detail

// All adjustments work on images of 3 channels, of bytes or of float from 0 to 1, and clamp the result to that range.
// Decode without resize_options::normalization, adjust, then call normalize(). They throw std::invalid_argument for any
// other number of channels, and for floats below -0.5 or above 1.5, which an image has that was normalized before; the
// image's content is then unspecified.

/// Multiplies all pixels by `factor`: 0 makes the image black, 1 leaves it unchanged.
template <class T>
void adjust_brightness(const image_view<T>& image, float factor) {
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    for (T* v : {&r, &g, &b}) *v = detail::as_pixel<T>(factor * static_cast<float>(*v));
  });
}

/// Scales the distance of all pixels from the image's mean luma: 0 makes the image plain gray, 1 leaves it
/// unchanged.
template <class T>
void adjust_contrast(const image_view<T>& image, float factor) {
  double sum = 0;
  detail::for_each_pixel(image, [&](T r, T g, T b) { sum += static_cast<double>(detail::luma_of(r, g, b)); });
  const auto mean =
      static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(1, image.height * image.width)));
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    for (T* v : {&r, &g, &b}) *v = detail::as_pixel<T>(mean + factor * (static_cast<float>(*v) - mean));
  });
}

/// Scales the distance of each pixel from its luma: 0 makes the image grayscale, 1 leaves it unchanged.
template <class T>
void adjust_saturation(const image_view<T>& image, float factor) {
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    const float gray = detail::luma_of(r, g, b);
    for (T* v : {&r, &g, &b}) *v = detail::as_pixel<T>(gray + factor * (static_cast<float>(*v) - gray));
  });
}

/// Rotates hues by `turn` of the whole circle, from -1/2 to 1/2: at 1/3 red becomes green. Value and
/// saturation (of HSV) stay the same.
template <class T>
void adjust_hue(const image_view<T>& image, float turn) {
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    const auto red = static_cast<float>(r), green = static_cast<float>(g), blue = static_cast<float>(b);
    const float high = std::max({red, green, blue}), low = std::min({red, green, blue}), span = high - low;
    if (span <= 0) return;
    // In sixths of the circle.
    float hue = high == red     ? (green - blue) / span
                : high == green ? 2 + (blue - red) / span
                                : 4 + (red - green) / span;
    hue += 6 * turn;
    // Each channel is high within one sixth of its own hue, and falls to low over the next sixth on either
    // side.
    const auto channel = [&](float center) {
      float distance = detail::distance_from_0(hue - center);
      distance -= 6 * detail::floor_of(distance / 6);
      distance = std::min(distance, 6 - distance);
      return detail::as_pixel<T>(low + span * std::clamp(2 - distance, 0.0f, 1.0f));
    };
    r = channel(0);
    g = channel(2);
    b = channel(4);
  });
}

/// Sets all three channels to the luma.
template <class T>
void to_grayscale(const image_view<T>& image) {
  adjust_saturation(image, 0);
}

/// Inverts all pixels: white becomes black.
template <class T>
void invert(const image_view<T>& image) {
  detail::for_each_pixel(image, [](T& r, T& g, T& b) {
    for (T* v : {&r, &g, &b}) *v = detail::as_pixel<T>(detail::white<T> - static_cast<float>(*v));
  });
}

/// Inverts the channel values that are at least `threshold`, which is from 0 to 1.
template <class T>
void solarize(const image_view<T>& image, float threshold) {
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    for (T* v : {&r, &g, &b})
      if (static_cast<float>(*v) >= threshold * detail::white<T>)
        *v = detail::as_pixel<T>(detail::white<T> - static_cast<float>(*v));
  });
}

/// Keeps the upper `bits`, from 0 to 8, of each channel value. Floats are first scaled to bytes.
template <class T>
void posterize(const image_view<T>& image, int bits) {
  const int kept = 0xff & ~(0xff >> std::clamp(bits, 0, 8));
  const float scale = 255 / detail::white<T>;
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    for (T* v : {&r, &g, &b}) {
      *v = detail::as_pixel<T>(static_cast<float>(detail::as_byte(*v) & kept) / scale);
    }
  });
}

/// Stretches each channel so that its lowest value becomes black and its highest white.
template <class T>
void autocontrast(const image_view<T>& image) {
  std::array<T, 3> low, high;
  bool first = true;
  detail::for_each_pixel(image, [&](T r, T g, T b) {
    const std::array<T, 3> pixel{r, g, b};
    for (std::size_t c = 0; c < 3; ++c) {
      low[c] = first ? pixel[c] : std::min(low[c], pixel[c]);
      high[c] = first ? pixel[c] : std::max(high[c], pixel[c]);
    }
    first = false;
  });
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    const std::array<T*, 3> pixel{&r, &g, &b};
    for (std::size_t c = 0; c < 3; ++c)
      if (low[c] < high[c])
        *pixel[c] = detail::as_pixel<T>(detail::white<T> *
                                        (static_cast<float>(*pixel[c]) - static_cast<float>(low[c])) /
                                        (static_cast<float>(high[c]) - static_cast<float>(low[c])));
  });
}

/// Equalizes the histogram of each channel, as Pillow's ImageOps.equalize does. Floats are first scaled to
/// bytes.
template <class T>
void equalize(const image_view<T>& image) {
  const float scale = 255 / detail::white<T>;
  const auto byte_of = [](T v) { return static_cast<std::size_t>(detail::as_byte(v)); };
  std::array<std::array<std::size_t, 256>, 3> table{};
  detail::for_each_pixel(image, [&](T r, T g, T b) {
    ++table[0][byte_of(r)];
    ++table[1][byte_of(g)];
    ++table[2][byte_of(b)];
  });
  for (auto& counts : table) {
    std::size_t last = 255; // the highest byte in the image, which Pillow leaves out
    while (last > 0 && counts[last] == 0) --last;
    const std::size_t step = (image.height * image.width - counts[last]) / 255;
    std::size_t sum = step / 2;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::size_t count = counts[byte];
      counts[byte] = step == 0 ? byte : std::min<std::size_t>(sum / step, 255);
      sum += count;
    }
  }
  detail::for_each_pixel(image, [&](T& r, T& g, T& b) {
    const std::array<T*, 3> pixel{&r, &g, &b};
    for (std::size_t c = 0; c < 3; ++c)
      *pixel[c] = detail::as_pixel<T>(static_cast<float>(table[c][byte_of(*pixel[c])]) / scale);
  });
}

/// Changes brightness, contrast, saturation and hue by random amounts in a random order, as torchvision's
/// ColorJitter.
///
///     color_jitter{.brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f}(view, context.random);
struct color_jitter {
  float brightness = 0; ///< the factor is drawn from [max(0, 1 - brightness), 1 + brightness]
  float contrast = 0;   ///< likewise
  float saturation = 0; ///< likewise
  float hue = 0;        ///< the turn is drawn from [-hue, hue]; at most 1/2

  /// Changes the image in place.
  template <class T>
  void operator()(const image_view<T>& image, random_generator& random) const {
    std::array<int, 4> order{0, 1, 2, 3};
    detail::shuffle_range(order.begin(), order.size(), random_generator(random()));
    const auto factor = [&](float spread) {
      return static_cast<float>(
          random.uniform(std::max(0.0, 1 - static_cast<double>(spread)), 1 + static_cast<double>(spread)));
    };
    // Always draws all factors, so that an option of 0 doesn't change the other factors.
    const float brighter = factor(brightness), stronger = factor(contrast), fuller = factor(saturation);
    const auto turn = static_cast<float>(random.uniform(-static_cast<double>(hue), static_cast<double>(hue)));
    for (const int step : order) {
      if (step == 0 && brightness > 0) adjust_brightness(image, brighter);
      if (step == 1 && contrast > 0) adjust_contrast(image, stronger);
      if (step == 2 && saturation > 0) adjust_saturation(image, fuller);
      if (step == 3 && hue > 0) adjust_hue(image, turn);
    }
  }
};

/// Normalizes an image of floats from 0 to 1 in place, as decoding with resize_options::normalization does: each value v
/// of a channel becomes (v - mean) / std. For images whose colours are adjusted first, since adjustments need values from
/// 0 to 1. Alpha, the fourth channel, stays as it is.
///
///     color_jitter{.brightness = 0.4f}(view, context.random);
///     normalize(view, imagenet_normalization);
///
/// Throws std::invalid_argument for a mean outside [-1, 1], a std that is 0 or not finite, and an image that doesn't have
/// 1, 3 or 4 channels, or was normalized before: it has values below -0.5 or above 1.5.
template <class T>
void normalize(const image_view<T>& image, const normalization& n) {
  static_assert(!std::is_integral_v<T>,
                "feedline: only floats can be normalized: decode or resize the image to floats");
  detail::check_normalization(n);
  if (image.channels != 1 && image.channels != 3 && image.channels != 4)
    throw std::invalid_argument("feedline::normalize: an image has 1, 3 or 4 channels");
  bool was_normalized = false;
  for (std::size_t c = 0; c < std::min<std::size_t>(image.channels, 3); ++c) {
    const auto mean = static_cast<float>(n.mean[c]), factor = static_cast<float>(1 / n.std[c]);
    for (std::size_t y = 0; y < image.height; ++y)
      for (std::size_t x = 0; x < image.width; ++x) {
        T& value = image(y, x, c);
        was_normalized = was_normalized || detail::is_normalized(value);
        value = T((static_cast<float>(value) - mean) * factor);
      }
  }
  if (was_normalized) detail::fail_normalized();
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <feedline/image/detail/pixel_scale.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void fail_normalized() {
  throw std::invalid_argument(
      "feedline: the image has values below -0.5 or above 1.5, so it was normalized before: colour "
      "adjustments, and normalize(), need values from 0 to 1. Decode it without "
      "resize_options::normalization, adjust its "
      "colours, then call normalize()");
}

FEEDLINE_INLINE void check_normalization(const normalization& n) { static_cast<void>(pixel_scale(n)); }

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

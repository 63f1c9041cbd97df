// SPDX-License-Identifier: MIT
#pragma once
// Reads WebP images with libwebp.
#include <memory>

#include <feedline/image/detail/image_reader.hpp>

#ifdef FEEDLINE_IMAGE_WEBP
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <webp/decode.h>

#include <feedline/image/detail/image_memory.hpp>
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

#ifdef FEEDLINE_IMAGE_WEBP
/// libwebp decodes the rows and columns of a region at once.
class webp_reader final : public image_reader {
 public:
  image_header open(std::span<const std::byte> file, const image_options& options, bool) override {
    file_ = file;
    keeps_ = options.on_corrupt == on_corrupt::keep;
    if (WebPInitDecoderConfig(&config_) == 0) fail_image("libwebp has another version than its header");
    check(WebPGetFeatures(bytes_of(file), file.size(), &config_.input));
    if (config_.input.has_animation != 0)
      fail_image(
          "the file is an animated WebP, which isn't supported; save its images as files of their own");
    const std::uint64_t whole = std::uint64_t{8} + number(4);
    if (!keeps_ && whole > file.size())
      fail_image("the file is cut off: it has " + std::to_string(file.size()) + " of " +
                 std::to_string(whole) + " bytes");
    image_header header{.height = static_cast<std::size_t>(config_.input.height),
                        .width = static_cast<std::size_t>(config_.input.width),
                        .components = config_.input.has_alpha != 0 ? 4 : 3,
                        .orientation =
                            options.apply_orientation ? stored_orientation() : exif_orientation::upright,
                        .format = image_format::webp,
                        .has_alpha = config_.input.has_alpha != 0};
    check_image_pixels(header, options);
    return header;
  }

  void start(const resampler::region& region, std::size_t bytes) override {
    // Colours at the edges of what is decoded are interpolated without their neighbours, so decode these too. Lossy
    // images have one colour for 2 x 2 pixels.
    const auto before = [](std::size_t begin) {
      return (begin - std::min<std::size_t>(begin, 2)) & ~std::size_t{1};
    };
    const auto after = [](std::size_t end, int all) {
      return std::min(end + 2, static_cast<std::size_t>(all));
    };
    const std::size_t left = before(region.left), top = before(region.top);
    const std::size_t width = after(region.left + region.width, config_.input.width) - left;
    const std::size_t height = after(region.top + region.height, config_.input.height) - top;
    bytes_ = bytes;
    pitch_ = width * bytes;
    auto* const pixels = static_cast<std::uint8_t*>(memory_.take(pitch_ * height));
    if (!pixels) fail_image("There is no memory left");
    if (keeps_) std::memset(pixels, 0, pitch_ * height);
    config_.options.use_cropping = 1;
    config_.options.crop_left = static_cast<int>(left);
    config_.options.crop_top = static_cast<int>(top);
    config_.options.crop_width = static_cast<int>(width);
    config_.options.crop_height = static_cast<int>(height);
    config_.output.colorspace = bytes == 4 ? MODE_RGBA : MODE_RGB;
    config_.output.is_external_memory = 1;
    config_.output.u.RGBA = {pixels, static_cast<int>(pitch_), pitch_ * height};
    if (keeps_) {
      // WebPDecode() would refuse a file that is cut off before it decodes any of it.
      const std::unique_ptr<WebPIDecoder, void (*)(WebPIDecoder*)> decoder(WebPIDecode(nullptr, 0, &config_),
                                                                           WebPIDelete);
      if (!decoder || WebPIUpdate(decoder.get(), bytes_of(file_), file_.size()) == VP8_STATUS_OUT_OF_MEMORY)
        fail_image("There is no memory left");
    } else {
      check(WebPDecode(bytes_of(file_), file_.size(), &config_));
    }
    next_ = pixels + (region.top - top) * pitch_;
    left_ = left;
  }

  void read(std::uint8_t* const* rows, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i, next_ += pitch_)
      std::memcpy(rows[i] + left_ * bytes_, next_, pitch_);
  }

  void finish() override {} // open() has compared the sizes

  void close() noexcept override { memory_.free_all(); }

 private:
  static const std::uint8_t* bytes_of(std::span<const std::byte> bytes) noexcept {
    return reinterpret_cast<const std::uint8_t*>(bytes.data());
  }

  static void check(VP8StatusCode status) {
    switch (status) {
    case VP8_STATUS_OK:
      return;
    case VP8_STATUS_OUT_OF_MEMORY:
      fail_image("There is no memory left");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      fail_image("the WebP image is cut off");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      fail_image("libwebp doesn't support this kind of WebP image");
    default:
      fail_image("the WebP image is damaged");
    }
  }

  // The little-endian number at an offset that the file has, or 0.
  std::uint32_t number(std::size_t offset) const noexcept {
    return tiff_reader{file_}.number(offset, 4).value_or(0);
  }

  exif_orientation stored_orientation() const noexcept {
    // Chunks of a name, a size and as many bytes, padded to an even number.
    for (std::size_t at = 12; at + 8 <= file_.size();) {
      const auto chunk = file_.subspan(at + 8);
      const std::size_t size = number(at + 4);
      if (size > chunk.size()) break;
      if (std::memcmp(file_.data() + at, "EXIF", 4) == 0) {
        const auto payload = chunk.first(size);
        const auto found = read_exif_orientation(payload); // some writers add the mark that JPEGs have
        return found ? *found : read_tiff_orientation(payload).value_or(exif_orientation::upright);
      }
      at += 8 + size + size % 2;
    }
    return exif_orientation::upright;
  }

  image_memory memory_;
  WebPDecoderConfig config_{};
  std::span<const std::byte> file_;
  bool keeps_ = false;
  std::size_t bytes_ = 0;              // of a pixel
  std::size_t pitch_ = 0, left_ = 0;   // bytes from row to row, and the first column that is decoded
  const std::uint8_t* next_ = nullptr; // row to read
};
#endif

/// Throws image_error if the program was built without libwebp.
inline std::shared_ptr<image_reader> make_webp_reader() {
#ifdef FEEDLINE_IMAGE_WEBP
  return std::make_shared<webp_reader>();
#else
  fail_image("the file is a WebP image, but this program was built without libwebp; install it and configure "
             "feedline "
             "again");
#endif
}

} // namespace feedline::inline FEEDLINE_ABI::detail

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
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <webp/decode.h>

#include <feedline/image/detail/image_memory.hpp>
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

#ifdef FEEDLINE_IMAGE_WEBP
/// A chunk of a WebP file: its name, its size, and its payload, padded to an even number of bytes.
struct webp_chunk {
  std::string_view name;
  std::span<const std::byte> payload; ///< as far as the file goes
  std::size_t next = 0;               ///< where the next chunk begins
  bool is_whole = true;

  /// The chunk that begins there, or nullopt at the end of the file.
  static std::optional<webp_chunk> at(std::span<const std::byte> file, std::size_t begin) noexcept {
    const auto size = tiff_reader{file}.number(begin + 4, 4);
    if (!size) return {};
    const auto rest = file.subspan(begin + 8);
    return webp_chunk{{reinterpret_cast<const char*>(file.data()) + begin, 4},
                      rest.first(std::min<std::size_t>(*size, rest.size())),
                      begin + 8 + *size + *size % 2,
                      *size <= rest.size()};
  }
};

/// libwebp decodes the rows and columns of a region at once. Of an animation it is given the first image alone, which may
/// cover only a part of the canvas; the rest is transparent black.
class webp_reader final : public image_reader {
 public:
  image_header open(std::span<const std::byte> file, const image_options& options, bool) override {
    file_ = image_ = file;
    keeps_ = options.on_corrupt == on_corrupt::keep;
    if (WebPInitDecoderConfig(&config_) == 0) fail_image("libwebp has another version than its header");
    check(WebPGetFeatures(bytes_of(file), file.size(), &config_.input));
    const std::uint64_t whole = 8 + std::uint64_t{tiff_reader{file}.number(4, 4).value_or(0)};
    if (!keeps_ && whole > file.size())
      fail_image("the file is cut off: it has " + std::to_string(file.size()) + " of " +
                 std::to_string(whole) + " bytes");
    image_header header{.height = static_cast<std::size_t>(config_.input.height),
                        .width = static_cast<std::size_t>(config_.input.width),
                        .orientation =
                            options.apply_orientation ? stored_orientation() : exif_orientation::upright,
                        .format = image_format::webp};
    check_image_pixels(header, options);
    placed_ = {0, 0, header.height, header.width};
    if (config_.input.has_animation != 0) open_first_image(header);
    header.has_alpha =
        config_.input.has_alpha != 0 || placed_.height < header.height || placed_.width < header.width;
    header.components = header.has_alpha ? 4 : 3;
    height_ = header.height;
    width_ = header.width;
    return header;
  }

  // libwebp keeps the numbers of all pixels of a lossless image, also where only the alpha is lossless.
  std::uint64_t needed_bytes(const resampler::region& region, std::size_t bytes) const override {
    const resampler::region wanted = with_margin(region);
    constexpr int lossless = 2;
    const std::uint64_t of_pixel = config_.input.format == lossless ? 4
                                   : config_.input.has_alpha != 0   ? 6
                                                                    : 0;
    return std::uint64_t{bytes} * wanted.height * wanted.width + of_pixel * placed_.height * placed_.width;
  }

  void start(const resampler::region& region, std::size_t bytes) override {
    const resampler::region wanted = with_margin(region);
    const std::size_t top = std::max(wanted.top, placed_.top), left = std::max(wanted.left, placed_.left);
    const std::size_t bottom = std::min(wanted.top + wanted.height, placed_.top + placed_.height);
    const std::size_t right = std::min(wanted.left + wanted.width, placed_.left + placed_.width);
    const bool is_decoded = top < bottom && left < right;
    const bool is_all = is_decoded && bottom - top == wanted.height && right - left == wanted.width;
    bytes_ = bytes;
    pitch_ = wanted.width * bytes;
    auto* const pixels = static_cast<std::uint8_t*>(memory_.take(pitch_ * wanted.height));
    if (!pixels) fail_image("There is no memory left");
    if (keeps_ || !is_all) std::memset(pixels, 0, pitch_ * wanted.height);
    next_ = pixels + (region.top - wanted.top) * pitch_;
    left_ = wanted.left;
    if (!is_decoded) return;
    config_.options.use_cropping = 1;
    config_.options.crop_left = static_cast<int>(left - placed_.left);
    config_.options.crop_top = static_cast<int>(top - placed_.top);
    config_.options.crop_width = static_cast<int>(right - left);
    config_.options.crop_height = static_cast<int>(bottom - top);
    config_.output.colorspace = bytes == 4 ? MODE_RGBA : MODE_RGB;
    config_.output.is_external_memory = 1;
    const std::size_t shift = (left - wanted.left) * bytes;
    config_.output.u.RGBA = {pixels + (top - wanted.top) * pitch_ + shift, static_cast<int>(pitch_),
                             pitch_ * (bottom - top) - shift};
    if (keeps_) {
      // WebPDecode() would refuse a file that is cut off before it decodes any of it.
      const std::unique_ptr<WebPIDecoder, void (*)(WebPIDecoder*)> decoder(WebPIDecode(nullptr, 0, &config_),
                                                                           WebPIDelete);
      if (!decoder || WebPIUpdate(decoder.get(), bytes_of(image_), image_.size()) == VP8_STATUS_OUT_OF_MEMORY)
        fail_image("There is no memory left");
    } else {
      check(WebPDecode(bytes_of(image_), image_.size(), &config_));
    }
  }

  void read(std::uint8_t* const* rows, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i, next_ += pitch_)
      std::memcpy(rows[i] + left_ * bytes_, next_, pitch_);
  }

  void finish() override {} // open() has compared the sizes

  void check() override {} // the format has no checksums

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

  static constexpr std::size_t first_chunk = 12;

  // An animation has each image in a chunk of its own, with its place on the canvas before it.
  void open_first_image(const image_header& canvas) {
    std::size_t at = first_chunk;
    while (const auto chunk = webp_chunk::at(file_, at)) {
      at = chunk->next;
      if (chunk->name != "ANMF") continue;
      const tiff_reader place{chunk->payload};
      const auto left = place.number(0, 3), top = place.number(3, 3), width = place.number(6, 3),
                 height = place.number(9, 3);
      constexpr std::size_t place_bytes = 16;
      if (!height || chunk->payload.size() < place_bytes || (!chunk->is_whole && !keeps_)) break;
      placed_ = {std::size_t{2} * *top, std::size_t{2} * *left, std::size_t{*height} + 1,
                 std::size_t{*width} + 1};
      image_ = chunk->payload.subspan(place_bytes);
      check(WebPGetFeatures(bytes_of(image_), image_.size(), &config_.input));
      if (static_cast<std::size_t>(config_.input.height) != placed_.height ||
          static_cast<std::size_t>(config_.input.width) != placed_.width ||
          placed_.top + placed_.height > canvas.height || placed_.left + placed_.width > canvas.width)
        fail_image(
            "the first image of the WebP animation doesn't have the size and place that its chunk says");
      return;
    }
    fail_image("the WebP animation has no image, or is damaged before its end");
  }

  // Colours at the edges of what is decoded are interpolated without their neighbours, so decode these too. Lossy images
  // have one colour for 2 x 2 pixels.
  resampler::region with_margin(const resampler::region& region) const noexcept {
    const auto before = [](std::size_t begin) {
      return (begin - std::min<std::size_t>(begin, 2)) & ~std::size_t{1};
    };
    const std::size_t top = before(region.top), left = before(region.left);
    return {top, left, std::min(region.top + region.height + 2, height_) - top,
            std::min(region.left + region.width + 2, width_) - left};
  }

  exif_orientation stored_orientation() const noexcept {
    std::optional<exif_orientation> by_exif, by_xmp;
    std::size_t at = first_chunk;
    while (const auto chunk = webp_chunk::at(file_, at)) {
      at = chunk->next;
      if (!chunk->is_whole) break;
      if (chunk->name == "XMP ") by_xmp = read_xmp_orientation(chunk->payload);
      if (chunk->name != "EXIF") continue;
      by_exif = read_exif_orientation(chunk->payload); // some writers add the mark that JPEGs have
      if (!by_exif) by_exif = read_tiff_orientation(chunk->payload);
    }
    return by_exif ? *by_exif : by_xmp.value_or(exif_orientation::upright);
  }

  image_memory memory_;
  WebPDecoderConfig config_{};
  std::span<const std::byte> file_, image_; // which is a part of an animation
  bool keeps_ = false;
  std::size_t height_ = 0, width_ = 0; // of the canvas
  resampler::region placed_{};         // the image's place on it
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

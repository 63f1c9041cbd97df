// SPDX-License-Identifier: MIT
#pragma once
// What image_decoder needs to know about a format other than JPEG.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <feedline/image/detail/resampler.hpp>
#include <feedline/image/image_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline constexpr const char* image_decoder_name = "feedline::image_decoder";

/// Reads the rows of one image after another: open(), start(), read() until all rows of the region are read, finish() for a
/// whole image or check() for a part, and close(), also after an error. Throws image_error.
class image_reader {
 public:
  virtual ~image_reader() = default;

  /// Reads the header: the size as stored, and what else the file says. With `as_numbers` the image must be one that holds
  /// a number for each pixel.
  virtual image_header open(std::span<const std::byte> file, const image_options& options,
                            bool as_numbers) = 0;

  /// The most memory that start() and read() will take for the same arguments.
  virtual std::uint64_t needed_bytes(const resampler::region& region, std::size_t bytes) const = 0;

  /// Starts to decode at least these rows and columns. A pixel has 4 bytes, red, green, blue and alpha; 3 bytes, without
  /// alpha; 1 byte, gray; twice as many for an image of 16 bits, the high byte first; or, as a number, 1 or 2 bytes in the
  /// machine's order.
  virtual void start(const resampler::region& region, std::size_t bytes) = 0;

  /// Reads the region's next rows. Each holds all of the image's columns, of which only those of the region are set.
  virtual void read(std::uint8_t* const* rows, std::size_t count) = 0;

  /// Reads on to the end of the file, to find one that is cut off after its last row.
  virtual void finish() = 0;

  /// Finds damage of the data that the rows depend on, as far as the format has checksums for these.
  virtual void check() = 0;

  virtual void close() noexcept = 0;
};

/// Refuses an image that has more pixels than image_options::max_pixels.
void check_image_pixels(const image_header& header, const image_options& options);

/// Why an image is refused whose decoding takes that many bytes, with image_options::max_bytes. Empty if it isn't.
std::string too_many_bytes(const char* options_name, const image_header& header, std::uint64_t bytes,
                           std::size_t file_bytes, const image_options& options);

[[noreturn]] void fail_image(const std::string& what);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_IMAGE)
#include <feedline/image/image_error.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void fail_image(const std::string& what) {
  throw image_error(std::string(image_decoder_name) + ": " + what);
}

FEEDLINE_INLINE void check_image_pixels(const image_header& header, const image_options& options) {
  if (std::uint64_t{header.width} * header.height > options.max_pixels)
    fail_image(std::to_string(header.width) + " x " + std::to_string(header.height) +
               " pixels are more than image_options::max_pixels, " + std::to_string(options.max_pixels));
}

FEEDLINE_INLINE std::string too_many_bytes(const char* options_name, const image_header& header,
                                           std::uint64_t bytes, std::size_t file_bytes,
                                           const image_options& options) {
  constexpr std::uint64_t always_allowed = 64; // for each byte of the file
  if (bytes <= options.max_bytes || bytes / always_allowed <= file_bytes) return {};
  return "decoding " + std::to_string(header.width) + " x " + std::to_string(header.height) +
         " pixels from a file of " + std::to_string(file_bytes) + " bytes takes up to " +
         std::to_string(bytes) + " bytes of memory, more than " + options_name + "::max_bytes, " +
         std::to_string(options.max_bytes) + "; raise it to decode the image";
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

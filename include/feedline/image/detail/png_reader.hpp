// SPDX-License-Identifier: MIT
#pragma once
// Reads PNG images with libpng.
#include <memory>

#include <feedline/image/detail/image_reader.hpp>

#ifdef FEEDLINE_IMAGE_PNG
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <png.h>
#include <zlib.h>

#include <feedline/image/detail/image_memory.hpp>
#include <feedline/image/image_error.hpp>
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

#ifdef FEEDLINE_IMAGE_PNG
/// A chunk of a PNG: the size of its payload, its name, the payload and a checksum of name and payload.
struct png_chunk {
  /// The chunk that begins there, or nullopt if the file ends within it.
  static std::optional<png_chunk> at(std::span<const std::byte> file, std::size_t begin) noexcept {
    const auto size = tiff_reader{file, true}.number(begin, 4);
    if (!size || file.size() - begin < 12 || *size > file.size() - begin - 12) return {};
    return png_chunk{file.subspan(begin, 12 + std::size_t{*size})};
  }

  std::string_view name() const noexcept { return {reinterpret_cast<const char*>(bytes.data()) + 4, 4}; }

  std::span<const std::byte> payload() const noexcept { return bytes.subspan(8, bytes.size() - 12); }

  bool has_right_checksum() const noexcept {
    const auto* const from = reinterpret_cast<const Bytef*>(bytes.data()) + 4;
    return ::crc32_z(0, from, bytes.size() - 8) == tiff_reader{bytes, true}.number(bytes.size() - 4, 4);
  }

  std::span<const std::byte> bytes;
};

/// libpng has a new codec for each image, whose memory is reused.
class png_reader final : public image_reader {
 public:
  png_reader() noexcept = default;
  png_reader(const png_reader&) = delete;
  png_reader& operator=(const png_reader&) = delete;

  ~png_reader() override { close(); }

  image_header open(std::span<const std::byte> file, const image_options& options, bool as_numbers) override {
    file_ = rest_ = file;
    as_numbers_ = as_numbers;
    keeps_ = options.on_corrupt == on_corrupt::keep && !as_numbers;
    is_broken_ = false;
    all_rows_ = nullptr;
    errors_.run(image_decoder_name, [this] {
      png_ =
          png_create_read_struct_2(PNG_LIBPNG_VER_STRING, this, on_error, on_warning, this, take, give_back);
      if (png_) info_ = png_create_info_struct(png_);
      if (!info_) errors_.fail("There is no memory left");
      png_set_read_fn(png_, this, next_bytes);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX); // max_pixels is checked below
      if (keeps_)
        png_set_compression_buffer_size(png_, 64); // of a file that is cut off, fewer bytes are lost
      // Otherwise transparency with a wrong checksum would be left out.
      if (!keeps_) png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1); // all that don't change pixels
      png_read_info(png_, info_);
    });
    const int type = png_get_color_type(png_, info_);
    image_header header{.height = png_get_image_height(png_, info_),
                        .width = png_get_image_width(png_, info_),
                        .components = png_get_channels(png_, info_),
                        .progressive = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE,
                        .orientation =
                            options.apply_orientation ? stored_orientation() : exif_orientation::upright,
                        .format = image_format::png,
                        .bits = png_get_bit_depth(png_, info_)};
    header.has_palette = type == PNG_COLOR_TYPE_PALETTE;
    header.has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    if (as_numbers && header.components != 1)
      fail_image("a mask must be gray or have a palette, but this PNG has " +
                 std::to_string(header.components) + " channels");
    check_image_pixels(header, options);
    // Refused before memory is allocated: zlib's format shrinks bytes to a 1032nd at most.
    const std::uint64_t stored = std::uint64_t{png_get_rowbytes(png_, info_)} * header.height;
    if (!keeps_ && stored / 1032 > file.size())
      fail_image("the file is cut off: its " + std::to_string(file.size()) + " bytes can't hold " +
                 std::to_string(header.width) + " x " + std::to_string(header.height) + " pixels");
    return header;
  }

  std::uint64_t needed_bytes(const resampler::region&, std::size_t bytes) const override {
    const std::uint64_t width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    const bool is_interlaced = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE;
    return 2 * 8 * width + (is_interlaced ? bytes * width * height : 0); // libpng keeps two rows
  }

  void start(const resampler::region& region, std::size_t bytes) override {
    errors_.run(image_decoder_name, [&, this] {
      choose_pixels(bytes);
      const int passes = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      const std::size_t height = png_get_image_height(png_, info_);
      pitch_ = png_get_rowbytes(png_, info_);
      if (pitch_ != bytes * png_get_image_width(png_, info_))
        errors_.fail("libpng has another kind of pixels");
      next_ = region.top;
      if (passes == 1) return;
      all_rows_ = static_cast<std::uint8_t*>(memory_.take(pitch_ * height));
      if (!all_rows_) errors_.fail("There is no memory left");
      std::memset(all_rows_, 0, pitch_ * height);
    });
    decode([this, &region] {
      if (!all_rows_) // skips the rows before the region
        for (std::size_t y = 0; y < region.top; ++y) png_read_row(png_, nullptr, nullptr);
      else
        for (int pass = 0; pass < PNG_INTERLACE_ADAM7_PASSES; ++pass)
          for (std::size_t y = 0; y < png_get_image_height(png_, info_); ++y)
            png_read_row(png_, all_rows_ + y * pitch_, nullptr);
    });
  }

  void read(std::uint8_t* const* rows, std::size_t count) override {
    const std::size_t end = next_ + count;
    if (all_rows_) {
      for (; next_ < end; ++next_, ++rows) std::memcpy(*rows, all_rows_ + next_ * pitch_, pitch_);
      return;
    }
    if (keeps_)
      for (std::size_t i = 0; i < count; ++i) std::memset(rows[i], 0, pitch_);
    decode([this, rows, count] {
      for (std::size_t i = 0; i < count; ++i) png_read_row(png_, rows[i], nullptr);
    });
  }

  void finish() override {
    decode([this] { png_read_end(png_, nullptr); });
  }

  // libpng has checked all chunks but the one that it is in, which may hold data that the rows depend on.
  void check() override {
    if (keeps_) return;
    const std::size_t read = file_.size() - rest_.size();
    for (std::size_t at = first_chunk; at < read;) {
      const auto chunk = png_chunk::at(file_, at);
      if (!chunk) fail_image("the file is cut off");
      if (at + chunk->bytes.size() > read) check(*chunk);
      at += chunk->bytes.size();
    }
  }

  void close() noexcept override {
    png_destroy_read_struct(&png_, &info_, nullptr);
    memory_.free_all();
  }

 private:
  static png_reader& of(png_voidp reader) noexcept { return *static_cast<png_reader*>(reader); }

  [[noreturn]] static void on_error(png_structp png, png_const_charp message) noexcept {
    of(png_get_error_ptr(png)).errors_.fail("%s", message);
  }

  static void on_warning(png_structp, png_const_charp) noexcept {} // no pixels are lost

  static png_voidp take(png_structp png, png_alloc_size_t bytes) noexcept {
    return of(png_get_mem_ptr(png)).memory_.take(bytes);
  }

  static void give_back(png_structp, png_voidp) noexcept {} // in close()

  static void next_bytes(png_structp png, png_bytep to, std::size_t count) noexcept {
    auto& rest = of(png_get_io_ptr(png)).rest_;
    if (count > rest.size()) png_error(png, "the file is cut off");
    std::memcpy(to, rest.data(), count);
    rest = rest.subspan(count);
  }

  static constexpr std::size_t first_chunk = 8;

  void check(const png_chunk& chunk) const {
    if (!chunk.has_right_checksum())
      fail_image(std::string(chunk.name()) + ": the checksum of the chunk at byte " +
                 std::to_string(chunk.bytes.data() - file_.data()) + " is wrong");
  }

  // Chunks with metadata stand before the pixels or after them.
  exif_orientation stored_orientation() const {
    std::optional<exif_orientation> by_exif, by_xmp;
    std::size_t at = first_chunk;
    while (const auto chunk = png_chunk::at(file_, at)) {
      at += chunk->bytes.size();
      const bool is_exif = chunk->name() == "eXIf";
      if (!is_exif && chunk->name() != "iTXt") continue;
      if (!keeps_) check(*chunk);
      else if (!chunk->has_right_checksum()) continue;
      if (is_exif) by_exif = read_tiff_orientation(chunk->payload());
      else if (const auto packet = xmp_packet(chunk->payload())) by_xmp = read_xmp_orientation(*packet);
    }
    return by_exif ? *by_exif : by_xmp.value_or(exif_orientation::upright);
  }

  // A text with the key of XMP: flags of its compression, its language and the key in this language stand before it.
  static std::optional<std::vector<std::byte>> xmp_packet(std::span<const std::byte> text) {
    constexpr std::string_view key("XML:com.adobe.xmp\0", 18);
    if (text.size() < key.size() + 2 || std::memcmp(text.data(), key.data(), key.size()) != 0) return {};
    const bool is_compressed = text[key.size()] != std::byte{0};
    auto at = text.begin() + static_cast<std::ptrdiff_t>(key.size()) + 2;
    for (int i = 0; i < 2; ++i) {
      at = std::find(at, text.end(), std::byte{0});
      if (at == text.end()) return {};
      ++at;
    }
    std::vector<std::byte> packet(at, text.end());
    if (!is_compressed) return packet;
    constexpr std::size_t enough = std::size_t{1} << 20; // a file could hold a thousand times its size
    std::vector<std::byte> longer(enough);
    uLongf size = enough;
    const int status =
        ::uncompress(reinterpret_cast<Bytef*>(longer.data()), &size,
                     reinterpret_cast<const Bytef*>(packet.data()), static_cast<uLong>(packet.size()));
    if (status != Z_OK && status != Z_BUF_ERROR) return {};
    longer.resize(size);
    return longer;
  }

  // Called inside a step of errors_.
  void choose_pixels(std::size_t bytes) {
    if (as_numbers_) {
      png_set_packing(png_); // a number of less than 8 bits to a byte
      if constexpr (std::endian::native == std::endian::little) png_set_swap(png_);
      return;
    }
    const bool is_wide = bytes % 2 == 0 && bytes != 4;
    const std::size_t channels = is_wide ? bytes / 2 : bytes;
    png_set_expand(png_);
    if (!is_wide) png_set_scale_16(png_);
    if (channels > 1) png_set_gray_to_rgb(png_);
    if (channels == 4) png_set_add_alpha(png_, is_wide ? 65535 : 255, PNG_FILLER_AFTER);
    else png_set_strip_alpha(png_);
  }

  // Where damage is kept, what can't be read stays black.
  template <class Step>
  void decode(Step step) {
    if (!keeps_) errors_.run(image_decoder_name, step);
    else if (!is_broken_) is_broken_ = !errors_.attempt(step);
  }

  image_memory memory_;
  jumping_errors<image_error> errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> file_, rest_; // which libpng hasn't read
  bool as_numbers_ = false, keeps_ = false, is_broken_ = false;
  std::size_t pitch_ = 0;            // bytes from row to row
  std::size_t next_ = 0;             // row to read
  std::uint8_t* all_rows_ = nullptr; // of an interlaced image, which is stored in passes
};
#endif

/// Throws image_error if the program was built without libpng.
inline std::shared_ptr<image_reader> make_png_reader() {
#ifdef FEEDLINE_IMAGE_PNG
  return std::make_shared<png_reader>();
#else
  fail_image(
      "the file is a PNG, but this program was built without libpng; install it and configure feedline "
      "again");
#endif
}

} // namespace feedline::inline FEEDLINE_ABI::detail

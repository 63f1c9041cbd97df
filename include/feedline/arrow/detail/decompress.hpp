// SPDX-License-Identifier: MIT
#pragma once
// Decompresses the buffers of a record batch.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#ifdef FEEDLINE_ARROW_LZ4
#include <lz4frame.h>
#endif
#ifdef FEEDLINE_ARROW_ZSTD
#include <zstd.h>
#endif

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/byte_limit.hpp>
#include <feedline/arrow/detail/flat_table.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The compression of a record batch's buffers.
enum class arrow_codec : std::uint8_t { none, lz4, zstd };

/// Memory for data that isn't in the mapped file.
class owned_bytes {
 public:
  /// Throws arrow_error if the limit doesn't allow it.
  std::span<std::byte> add(std::size_t size, byte_limit& limit) {
    limit.take(size);
    // Not set to 0, so that the system provides memory only for the part that is written.
    blocks_.emplace_back(new std::byte[size]);
    size_ += size;
    return {blocks_.back().get(), size};
  }

  std::uint64_t size() const noexcept { return size_; }

 private:
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::uint64_t size_ = 0;
};

#ifdef FEEDLINE_ARROW_LZ4
/// Returns the number of bytes written; less than the size of `to` if the frame isn't complete.
inline std::size_t decompress_lz4(std::span<const std::byte> from, std::span<std::byte> to) {
  LZ4F_dctx* made = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION))) return 0;
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> context(
      made, LZ4F_freeDecompressionContext);
  std::size_t read = 0, written = 0;
  for (;;) {
    std::size_t in = from.size() - read, out = to.size() - written;
    const std::size_t hint =
        LZ4F_decompress(context.get(), to.data() + written, &out, from.data() + read, &in, nullptr);
    if (LZ4F_isError(hint)) return 0;
    read += in;
    written += out;
    if (hint == 0) return written;
    if (in == 0 && out == 0) return 0;
  }
}
#endif

/// Decompresses a buffer: 8 bytes with its decompressed size, or -1 for a buffer that isn't compressed, and
/// then the frame. Throws arrow_error.
inline std::span<const std::byte> decompress(arrow_codec codec, std::span<const std::byte> buffer,
                                             owned_bytes& memory, byte_limit& limit) {
  if (buffer.empty()) return buffer;
  if (buffer.size() < 8) throw arrow_error("a compressed buffer is cut off");
  const auto size = load<std::int64_t>(buffer.data());
  buffer = buffer.subspan(8);
  if (size == -1) return buffer;
  if (size == 0) return {};
  // Refuses sizes that no frame this short can hold: an LZ4 byte adds at most 255, a ZSTD block of 4 bytes
  // 128 KB.
  const std::uint64_t ratio = codec == arrow_codec::lz4 ? 256 : std::uint64_t{1} << 16;
  if (size < 0 || static_cast<std::uint64_t>(size) / ratio > buffer.size() + 16)
    throw arrow_error("a compressed buffer can't have a size of " + std::to_string(size) + " bytes");
  const auto whole = static_cast<std::size_t>(size);
  std::size_t written = 0;
  const auto to = memory.add(whole, limit);
#ifdef FEEDLINE_ARROW_ZSTD
  if (codec == arrow_codec::zstd) {
    const unsigned long long in_frame = ZSTD_getFrameContentSize(buffer.data(), buffer.size());
    if (in_frame != ZSTD_CONTENTSIZE_UNKNOWN && in_frame != whole)
      throw arrow_error("a compressed buffer is damaged");
  }
#endif
  switch (codec) {
#ifdef FEEDLINE_ARROW_LZ4
  case arrow_codec::lz4:
    written = decompress_lz4(buffer, to);
    break;
#endif
#ifdef FEEDLINE_ARROW_ZSTD
  case arrow_codec::zstd:
    written = ZSTD_decompress(to.data(), to.size(), buffer.data(), buffer.size());
    break;
#endif
  default:
    throw arrow_error(std::string("it is compressed with ") + (codec == arrow_codec::lz4 ? "LZ4" : "ZSTD") +
                      ", but this program was built without " +
                      (codec == arrow_codec::lz4 ? "liblz4" : "libzstd") +
                      "; install it and configure feedline again");
  }
  if (written != whole) throw arrow_error("a compressed buffer is damaged");
  return to;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

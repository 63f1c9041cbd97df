// SPDX-License-Identifier: MIT
#pragma once
// gunzip: decompresses a gzip file in memory.
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <libdeflate.h>

#include <feedline/gzip/gzip_error.hpp>
#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of gunzip and gunzip_decoder.
struct gunzip_options {
  /// The most bytes of the decompressed contents. Larger contents are an error, thrown at this size.
  std::size_t max_output_bytes = std::size_t{1} << 30;
};

/// Decompresses gzip files with libdeflate, one after another into the same memory: once that is large enough
/// for the largest of them, nothing is allocated. For one thread at a time.
///
///     map(per_worker([] {
///       return [unzip = gunzip_decoder()](const std::vector<std::byte>& file) mutable {
///         return parse(unzip.decode(file));
///       };
///     }), workers{8})
class gunzip_decoder {
 public:
  gunzip_decoder() = default;
  gunzip_decoder(gunzip_decoder&&) noexcept = default;
  gunzip_decoder& operator=(gunzip_decoder&&) noexcept = default;

  /// A copy has separate memory.
  gunzip_decoder(const gunzip_decoder&) noexcept {}

  gunzip_decoder& operator=(const gunzip_decoder&) noexcept { return *this; }

  ~gunzip_decoder() = default;

  /// Returns the contents of a gzip file, valid until the next call: those of all its members, one after
  /// another. Zeros may follow the last member, as in gzip(1); anything else is an error.
  ///
  /// The size that the file states is only a hint: the first allocation is at most 16 times the compressed
  /// size (or 64 KB), later ones at most four times what was decompressed so far.
  ///
  /// Throws gzip_error for data that are cut off, damaged, larger than `max_output_bytes`, or don't match
  /// their checksum or size; std::invalid_argument for a file in this decoder's memory; std::bad_alloc.
  std::span<const std::byte> decode(std::span<const std::byte> file, const gunzip_options& options = {});

 private:
  struct end_of_libdeflate {
    void operator()(libdeflate_decompressor* d) const noexcept { ::libdeflate_free_decompressor(d); }
  };

  bool is_own(std::span<const std::byte> file) const noexcept;

  // The last member's size modulo 2^32, as the file states it.
  static std::size_t announced_size(std::span<const std::byte> file) noexcept {
    if (file.size() < 4) return 0;
    std::size_t size = 0;
    for (std::size_t i = 1; i <= 4; ++i)
      size = size << 8 | std::to_integer<std::size_t>(file[file.size() - i]);
    return size;
  }

  // Makes room for `bytes`; keeps the first `used`.
  void reserve(std::size_t bytes, std::size_t used);

  // libdeflate doesn't report what is wrong; zlib does.
  static std::string problem_of(std::span<const std::byte> file, std::size_t max_size);

  std::unique_ptr<libdeflate_decompressor, end_of_libdeflate> libdeflate_;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
};

/// Decompresses with a decoder that this thread keeps, as gunzip_decoder::decode() does. Returns a view of
/// its memory, valid until the next call of gunzip_view() or gunzip() in this thread. For functions that read
/// the contents at once; to return the contents, copy them, or use gunzip().
inline std::span<const std::byte> gunzip_view(std::span<const std::byte> file,
                                              const gunzip_options& options = {}) {
  thread_local gunzip_decoder decoder;
  return decoder.decode(file, options);
}

namespace detail {

std::unique_ptr<text_stream> open_gzip(std::span<const std::byte> begin, compressed_rest rest);

} // namespace detail

/// Opens gzip files, to decompress them piece by piece, with zlib: libdeflate, which gunzip uses, has no streams. The
/// checksum stands at the end of a member, so it is compared after the lines or samples before it were delivered, and not
/// in a run that ends earlier.
///
/// Example: `lines("corpus/*.jsonl.gz", {.decompress = {gunzip_stream}})`
inline constexpr text_opener gunzip_stream{"gzip data", std::size_t{64} << 10, &detail::open_gzip};

/// Decompresses a gzip file in memory, as a stage or inside a function.
///
/// Takes:   the bytes of the file, as from read_file or tar_sample
/// Gives:   its contents. See gunzip_decoder::decode()
/// Throws:  gzip_error
/// Example: `files("games", "*.gz") | map(read_file, workers{8}) | map(gunzip, workers{8})`
///          `tar_samples("games.tar") | map([](const tar_sample& s) { return gunzip(s["json.gz"]); }, workers{8})`
inline constexpr auto gunzip = [](std::span<const std::byte> file,
                                  const gunzip_options& options = {}) -> std::vector<std::byte> {
  const std::span<const std::byte> contents = gunzip_view(file, options);
  return {contents.begin(), contents.end()};
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_GZIP)
#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <stdexcept>
#include <utility>

#include <feedline/detail/given_size.hpp>
#include <feedline/gzip/detail/gzip_stream.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::span<const std::byte> gunzip_decoder::decode(std::span<const std::byte> file,
                                                                  const gunzip_options& options) {
  detail::refuse_negative(options.max_output_bytes, "feedline::gunzip: the max_output_bytes");
  if (is_own(file))
    throw std::invalid_argument(
        "feedline::gunzip: the file is a view of this decoder's memory: use a second decoder for data that "
        "are compressed twice");
  if (!libdeflate_) libdeflate_.reset(::libdeflate_alloc_decompressor());
  if (!libdeflate_) throw std::bad_alloc();
  if (!bytes_) capacity_ = 0; // the decoder was moved from
  const std::size_t announced = announced_size(file);
  reserve(std::min({options.max_output_bytes, announced, 16 * file.size()}), 0);

  std::size_t size = 0;
  for (std::span<const std::byte> rest = file;;) {
    const std::size_t room = std::min(capacity_, options.max_output_bytes);
    std::size_t read = 0, written = 0;
    switch (::libdeflate_gzip_decompress_ex(libdeflate_.get(), rest.data(), rest.size(), bytes_.get() + size,
                                            room - size, &read, &written)) {
    case LIBDEFLATE_SUCCESS:
      size += written;
      rest = rest.subspan(read);
      if (rest.empty() || (rest.front() == std::byte{0} && detail::is_padding(rest)))
        return {bytes_.get(), size};
      break;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      if (room == options.max_output_bytes)
        throw gzip_error("feedline::gunzip: the contents are larger than " + std::to_string(room) +
                         " bytes: raise max_output_bytes if that is expected");
      reserve(std::min(options.max_output_bytes,
                       announced > capacity_ && announced / 4 <= capacity_ ? announced : 2 * capacity_),
              size);
      break;
    default:
      throw gzip_error("feedline::gunzip: " + problem_of(file, options.max_output_bytes));
    }
  }
}

FEEDLINE_INLINE std::unique_ptr<text_stream> detail::open_gzip(std::span<const std::byte> begin,
                                                               compressed_rest rest) {
  return std::make_unique<gzip_stream>(begin, std::move(rest));
}

FEEDLINE_INLINE bool gunzip_decoder::is_own(std::span<const std::byte> file) const noexcept {
  const std::less<const std::byte*> before;
  return bytes_ && !before(file.data(), bytes_.get()) && before(file.data(), bytes_.get() + capacity_);
}

FEEDLINE_INLINE void gunzip_decoder::reserve(std::size_t bytes, std::size_t used) {
  constexpr std::size_t min_bytes = 64 << 10;
  bytes = std::max(bytes, min_bytes);
  if (bytes <= capacity_) return;
  // Not zero-initialized, so that only bytes that are written use memory.
  std::unique_ptr<std::byte[]> larger(new std::byte[bytes]);
  if (used > 0) std::memcpy(larger.get(), bytes_.get(), used);
  bytes_ = std::move(larger);
  capacity_ = bytes;
}

FEEDLINE_INLINE std::string gunzip_decoder::problem_of(std::span<const std::byte> file,
                                                       std::size_t max_size) {
  detail::gzip_stream stream(file);
  std::array<std::byte, 4096> some;
  for (std::size_t left = max_size; stream.read(some.data(), some.size()) == some.size();) {
    if (left < some.size()) break; // zlib found no damage up to there
    left -= some.size();
  }
  return stream.problem().empty() ? std::string("the gzip data are damaged") : stream.problem();
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

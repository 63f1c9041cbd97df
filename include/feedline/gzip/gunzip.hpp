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

#ifndef FEEDLINE_COMPILED
#include <feedline/gzip/gunzip.ipp>
#endif

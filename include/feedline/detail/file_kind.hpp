// SPDX-License-Identifier: MIT
#pragma once
// What a file is, from its first bytes, so that a message can say it.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <feedline/version.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A kind of file.
struct file_kind {
  std::string_view name{}; ///< "a PNG image", "gzip data"; empty if it is unknown
  bool is_compressed = false;
  bool is_pointer = false; ///< it stands for another file, which isn't there
};

/// The kind of a file that begins with these bytes. The first 512 are enough.
inline file_kind kind_of_file(std::string_view begin) noexcept {
  struct known_kind {
    std::size_t offset;
    std::string_view bytes;
    file_kind kind;
  };

  using namespace std::string_view_literals;
  static constexpr known_kind kinds[] = {
      {0, "\x1f\x8b", {"gzip data", true}},
      {4, "1AY&SY", {"bzip2 data", true}},
      {0,
       "\xfd"
       "7zXZ",
       {"xz data", true}},
      {0, "\x28\xb5\x2f\xfd", {"zstd data", true}},
      {0, "\x04\x22\x4d\x18", {"lz4 data", true}},
      {0, "\x02\x21\x4c\x18", {"lz4 (legacy) data", true}},
      {0, "\x1f\x9d", {"compress data", true}},
      {0, "LZIP\x01", {"lzip data", true}},
      {0, "\x89LZO", {"lzop data", true}},
      {0, "\xff\x06\0\0sNaPpY"sv, {"snappy data", true}},
      {0, "LRZI\0"sv, {"lrzip data", true}},
      {0, "PK\x03\x04", {"zip data", true}},
      {0, "7z\xbc\xaf", {"7-zip data", true}},
      {0, "Rar!\x1a", {"rar data", true}},
      {0, "\x5d\0\0"sv, {"lzma data", true}},
      {0, "\xff\xd8\xff", {"a JPEG image"}},
      {0, "\x89PNG\r\n\x1a\n", {"a PNG image"}},
      {0, "GIF8", {"a GIF image"}},
      {0, "II*\0"sv, {"a TIFF image"}},
      {0, "MM\0*"sv, {"a TIFF image"}},
      {8, "WEBP", {"a WebP image"}},
      {8, "WAVE", {"a WAV file (RIFF)"}},
      {8, "AVI ", {"an AVI video"}},
      {4, "ftypavif", {"an AVIF image"}},
      {4, "ftyphei", {"a HEIC image"}},
      {4, "ftyphev", {"a HEIC image"}},
      {4, "ftypmif1", {"a HEIC image"}},
      {4, "ftypmsf1", {"a HEIC image"}},
      {4, "ftyp", {"an MP4 file"}},
      {0, "\0\0\0\x0cjP  "sv, {"a JPEG 2000 image"}},
      {0, "fLaC", {"a FLAC file"}},
      {0, "OggS", {"an Ogg file"}},
      {0, "ID3", {"an MP3 file"}},
      {0, "RIFF", {"a RIFF file"}},
      {0, "ARROW1", {"an Arrow file"}},
      {0, "FEA1", {"a Feather file of version 1: write it with version 2"}},
      {0, "PAR1", {"a Parquet file"}},
      {0, "\x89HDF\r\n", {"an HDF5 file"}},
      {0, "\x93NUMPY", {"a NumPy file"}},
      {0, "%PDF", {"a PDF document"}},
      {257, "ustar", {"a TAR archive"}},
      {0,
       "version https://git-lfs",
       {"a Git LFS pointer: fetch the file itself with `git lfs pull`", false, true}},
  };
  for (const known_kind& k : kinds) {
    if (begin.size() >= k.offset && begin.substr(k.offset).starts_with(k.bytes)) return k.kind;
  }
  if (begin.size() >= 4 && (begin[0] & '\xf0') == '\x50' && begin.substr(1, 3) == "\x2a\x4d\x18")
    return {"zstd data", true}; // a skippable frame, with which parallel compressors begin
  if (begin.starts_with("BM") && begin.size() > 9 && begin.substr(6, 4) == "\0\0\0\0"sv)
    return {"a BMP image"};
  if (begin.starts_with("\xef\xbb\xbf")) begin.remove_prefix(3); // a byte order mark
  begin.remove_prefix(std::min(begin.find_first_not_of(" \t\r\n"), begin.size()));
  const auto begins = [begin](std::string_view tag) {
    const auto same = [](char wanted, char c) {
      return wanted == (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    };
    return begin.size() >= tag.size() && std::equal(tag.begin(), tag.end(), begin.begin(), same);
  };
  if (begins("<!doctype html") || begins("<html")) return {"an HTML page"};
  if (begins("<?xml")) return {"an XML document"};
  return {};
}

/// ": read it READ::decompress = {feedline::unzstd_stream}, which is in …", or ": decompress it first" for a kind
/// that nothing here reads. READ is `read`: "with lines and lines_options".
inline std::string how_to_decompress(std::string_view kind, std::string_view read) {
  const auto with = [&](const std::string& opener, const std::string& component) {
    return ": read it " + std::string(read) + "::decompress = {feedline::" + opener +
           "}, which is in feedline/" + component + ".hpp of the component feedline::" + component;
  };
  if (kind == "gzip data") return with("gunzip_stream", "gzip");
  if (kind == "zstd data") return with("unzstd_stream", "zstd");
  return ": decompress it first";
}

/// ": it is a PNG image", or ": it is empty"; empty if the kind is unknown.
inline std::string what_it_is(std::span<const std::byte> begin) {
  if (begin.empty()) return ": it is empty (0 bytes)";
  const auto kind =
      kind_of_file({reinterpret_cast<const char*>(begin.data()), std::min<std::size_t>(begin.size(), 512)});
  return kind.name.empty() ? std::string() : std::string(": it is ").append(kind.name);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

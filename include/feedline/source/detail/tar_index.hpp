// SPDX-License-Identifier: MIT
#pragma once
// The index of a TAR shard: where samples begin. Made by one pass over the headers; can be saved to a file.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class open_tar_shard;

/// The index of one shard.
struct tar_index {
  std::uint64_t bytes = 0;            ///< of the shard
  std::int64_t modified_ns = 0;       ///< when the shard was modified
  std::uint64_t fingerprint = 0;      ///< a hash of the shard's beginning and end, if the index is saved
  std::uint64_t usual_size = 0;       ///< tar_shard::usual_size() before the last sample
  std::vector<std::uint64_t> globals; ///< offsets of headers that apply to all members after them
  std::vector<std::uint64_t> begins;  ///< offsets of samples, and of errors, which reading repeats
  std::string problem;                ///< why the shard can't be opened; empty if it can

  bool is_of(const mapped_file& shard) const noexcept {
    return bytes == shard.bytes().size() && modified_ns == shard.modified_ns();
  }
};

/// Steps over a sample of a shard, or an error instead of one, and adds it to the index. Returns false at the end.
template <class Shard>
bool add_sample(Shard& shard, tar_index& index) {
  const std::uint64_t begin = shard.begin();
  // The usual size only serves to judge the sample before damage.
  if (!shard.is_at_damage()) index.usual_size = shard.usual_size();
  try {
    if (!shard.next()) return false;
  } catch (const tar_error&) { // reading this position throws it again
  }
  index.begins.push_back(begin);
  return true;
}

/// Reads the headers of a shard and records where its samples begin.
class tar_scan {
 public:
  tar_scan(std::shared_ptr<const mapped_file> file, const tar_settings& how);

  /// Steps over a sample, or an error instead of one. Returns false at the end.
  bool step() { return add_sample(shard_, index_); }

  /// The index of the samples so far.
  const tar_index& index();

 private:
  std::shared_ptr<const mapped_file> file_;
  tar_shard shard_;
  tar_index index_;
};

/// Makes the index of a shard. A shard that can't be opened has one sample, which is an error. Throws
/// std::runtime_error after a stop.
tar_index scan_tar(const std::string& path, const tar_settings& how, const std::stop_token& stop = {});

[[noreturn]] void throw_no_sample(const std::string& shard, std::uint64_t begin);

/// Reads the sample at a position of a shard that hasn't changed since it was indexed. Throws the same
/// tar_error as reading the whole shard would for this sample.
tar_sample sample_at(const std::shared_ptr<const mapped_file>& file, const tar_settings& how,
                     const tar_index& index, std::size_t position);

/// The words of an index file: 64 bits each, in the byte order of the machine. After these follow the
/// globals, the begins, and a checksum of all words before it.
enum tar_index_word : std::size_t {
  word_magic,
  word_bytes,
  word_modified,
  word_fingerprint,
  word_usual,
  word_globals,
  word_begins,
  head_words
};

inline constexpr std::string_view tar_index_name = "ftaridx";         // the first bytes; then the version
inline constexpr std::uint64_t tar_index_magic = 0x33786469'72617466; // "ftaridx3"

/// The fingerprint in an index file, from that of the shard's contents.
inline std::uint64_t index_fingerprint(std::uint64_t contents, bool hidden) noexcept {
  return hidden ? key(contents) : contents;
}

/// Without the checksum.
std::vector<std::uint64_t> to_words(const tar_index& index);

/// Returns nothing if the words are those of another index.
std::optional<tar_index> from_words(std::span<const std::uint64_t> words);

/// The same for the bytes of an index file. Returns nothing also if they are incomplete or damaged.
std::optional<tar_index> from_bytes(std::span<const std::byte> bytes);

/// Whether bytes begin an index file of that size, for a shard of that size.
bool is_begin_of_index(std::span<const std::byte> begin, std::uint64_t index_bytes,
                       std::uint64_t shard_bytes);

/// Returns nothing if the file is missing, incomplete or damaged.
std::optional<tar_index> read_tar_index(const std::string& path);

/// Writes the complete index or, on an error, nothing.
void write_tar_index(const std::string& path, const tar_index& index);

/// Returns the index of a shard. With `keep`, reads it from the file next to the shard if that matches,
/// otherwise makes it and writes that file.
tar_index index_of_tar(const std::string& shard, const tar_settings& how, bool keep,
                       const std::stop_token& stop);

/// Finds the origins of samples. It continues to read a shard where it stopped, so that all origins of a
/// shard take one pass over it. Any thread may use it.
class tar_names {
 public:
  explicit tar_names(const tar_settings& how);

  /// "photos-0003.tar: dir/17.jpg, .cls"; empty if the sample doesn't exist or can't be read.
  std::string at(const std::string& path, std::uint64_t position);

 private:
  // Of a compressed shard. Continues where it stopped if that is before the position.
  std::string at_compressed(const std::shared_ptr<const mapped_file>& file, const text_opener& opener,
                            std::uint64_t position);

  struct scanned {
    std::string path;
    tar_scan scan;
  };

  scanned& find(const std::shared_ptr<const mapped_file>& file);

  const tar_settings how_;
  std::mutex mutex_;
  std::deque<scanned> shards_;
  std::shared_ptr<const mapped_file> compressed_file_; // one, as a stream may take much memory
  std::shared_ptr<open_tar_shard> compressed_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/tar_index.ipp>
#endif

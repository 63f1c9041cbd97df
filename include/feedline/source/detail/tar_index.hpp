// SPDX-License-Identifier: MIT
#pragma once
// The index of a TAR shard: where samples begin. Made by one pass over the headers; can be saved to a file.
#include <cstring>
#include <memory>
#include <mutex>

#include <feedline/core/contract.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The index of one shard.
struct tar_index {
  std::uint64_t bytes = 0;           ///< of the shard
  std::int64_t modified_ns = 0;      ///< when the shard was modified
  std::uint64_t fingerprint = 0;     ///< a hash of the shard's beginning and end, if the index is saved
  std::uint64_t usual_size = 0;      ///< shard_samples::usual_size() before the last sample
  std::vector<std::uint64_t> begins; ///< offsets of samples, and of errors, which reading repeats
  std::string problem{};             ///< why the shard can't be opened; empty if it can
  std::shared_ptr<tar_targets> targets = std::make_shared<tar_targets>();

  bool is_of(const mapped_file& shard) const noexcept {
    return bytes == shard.bytes().size() && modified_ns == shard.modified_ns();
  }
};

/// Steps over a sample of a shard, or an error instead of one, and adds it to the index. Returns false at the end.
inline bool add_sample(shard_samples& shard, tar_index& index) {
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
  tar_scan(std::shared_ptr<const mapped_file> file, const tar_settings& how)
      : file_(std::move(file)), shard_(file_, how) {
    index_.bytes = file_->bytes().size();
    index_.modified_ns = file_->modified_ns();
  }

  const std::string& path() const noexcept { return file_->path(); }

  /// Steps over a sample, or an error instead of one. Returns false at the end.
  bool step() { return add_sample(shard_, index_); }

  /// The index of the samples so far.
  const tar_index& index() const noexcept { return index_; }

 private:
  std::shared_ptr<const mapped_file> file_;
  tar_shard shard_;
  tar_index index_;
};

/// Makes the index of a shard. A shard that can't be opened has one sample, which is an error. Throws
/// std::runtime_error after a stop.
inline tar_index scan_tar(const std::string& path, const tar_settings& how,
                          const std::stop_token& stop = {}) {
  try {
    const auto file = tar_shard::map(path, sharing::alone); // expect_jumps() mustn't affect other readers
    file->expect_jumps();
    tar_scan scan(file, how);
    do throw_if_stopped(stop);
    while (scan.step());
    return scan.index();
  } catch (const tar_error& error) {
    tar_index index;
    index.problem = error.what();
    index.begins = {0};
    return index;
  }
}

[[noreturn]] inline void throw_no_sample(const std::string& shard, std::uint64_t begin) {
  throw tar_error(readable(shard) + ": no sample at offset " + std::to_string(begin) +
                  ", although its index lists one: delete its .index, if there is one");
}

/// Reads the sample at a position of a shard that hasn't changed since it was indexed. Throws the same
/// tar_error as reading the whole shard would for this sample.
inline tar_sample sample_at(const std::shared_ptr<const mapped_file>& file, const tar_settings& how,
                            const tar_index& index, std::size_t position) {
  const std::uint64_t begin = index.begins[position];
  const std::shared_ptr<tar_targets> targets(std::shared_ptr<void>(),
                                             index.targets.get()); // the index owns them
  auto sample = tar_shard(file, how.quiet(), {0, begin, index.usual_size}, targets).next();
  if (!sample) throw_no_sample(file->path(), begin);
  return *std::move(sample);
}

/// The words of an index file: 64 bits each, in the byte order of the machine. After these follow the
/// begins and a checksum of all words before it.
enum tar_index_word : std::size_t {
  word_magic,
  word_bytes,
  word_modified,
  word_fingerprint,
  word_usual,
  word_begins,
  head_words
};

inline constexpr std::string_view tar_index_name = "ftaridx";         // the first bytes; then the version
inline constexpr std::uint64_t tar_index_magic = 0x34786469'72617466; // "ftaridx4"

/// Without the checksum.
inline std::vector<std::uint64_t> to_words(const tar_index& index) {
  std::vector<std::uint64_t> words{
      tar_index_magic,   index.bytes,      static_cast<std::uint64_t>(index.modified_ns),
      index.fingerprint, index.usual_size, index.begins.size()};
  words.insert(words.end(), index.begins.begin(), index.begins.end());
  return words;
}

/// Returns nothing if the words are those of another index.
inline std::optional<tar_index> from_words(std::span<const std::uint64_t> words) {
  if (words.size() < head_words || words[word_magic] != tar_index_magic) return {};
  const auto begins = words.subspan(head_words);
  if (words[word_begins] != begins.size()) return {};
  return tar_index{.bytes = words[word_bytes],
                   .modified_ns = static_cast<std::int64_t>(words[word_modified]),
                   .fingerprint = words[word_fingerprint],
                   .usual_size = words[word_usual],
                   .begins = {begins.begin(), begins.end()}};
}

/// The same for the bytes of an index file. Returns nothing also if they are incomplete or damaged.
inline std::optional<tar_index> from_bytes(std::span<const std::byte> bytes) {
  return from_words(words_of_index(bytes));
}

/// Whether bytes begin an index file of that size, for a shard of that size.
inline bool is_begin_of_index(std::span<const std::byte> begin, std::uint64_t index_bytes,
                              std::uint64_t shard_bytes) {
  std::array<std::uint64_t, head_words> head{};
  if (begin.size() < sizeof head) return false;
  std::memcpy(head.data(), begin.data(), sizeof head);
  const std::uint64_t most = index_bytes / 8; // so that the product doesn't overflow
  return head[word_magic] == tar_index_magic && head[word_bytes] == shard_bytes && head[word_begins] < most &&
         8 * (head_words + head[word_begins] + 1) == index_bytes;
}

/// Returns nothing if the file is missing, incomplete or damaged.
inline std::optional<tar_index> read_tar_index(const std::string& path) {
  return from_words(read_index_file(path));
}

/// Writes the complete index or, on an error, nothing.
inline void write_tar_index(const std::string& path, const tar_index& index) {
  write_index_file(path, tar_index_name, to_words(index));
}

/// Returns the index of a shard. With `keep`, reads it from the file next to the shard if that matches,
/// otherwise makes it and writes that file.
inline tar_index index_of_tar(const std::string& shard, const tar_settings& how, bool keep,
                              const std::stop_token& stop) {
  if (!keep) return scan_tar(shard, how, stop);
  const std::string path = shard + ".index";
  const std::uint64_t fingerprint = how.fingerprint(fingerprint_of_file(shard));
  try {
    auto kept = read_tar_index(path);
    if (kept && kept->fingerprint == fingerprint && kept->is_of(mapped_file(shard))) return *std::move(kept);
  } catch (const std::runtime_error&) { // the scan below records that the shard can't be opened
  }
  tar_index index = scan_tar(shard, how, stop);
  index.fingerprint = fingerprint;
  if (index.problem.empty()) write_tar_index(path, index);
  return index;
}

/// Finds the origins of samples. It continues to read a shard where it stopped, so that all origins of a
/// shard take one pass over it. Any thread may use it.
class tar_names {
 public:
  explicit tar_names(const tar_settings& how) : how_(how) {}

  /// "photos-0003.tar: dir/17.jpg, .cls"; empty if the sample doesn't exist or can't be read.
  std::string at(const std::string& path, std::uint64_t position) {
    const std::lock_guard lock(mutex_);
    try {
      const auto file = tar_shard::map(path);
      if (const text_opener* const opener = opener_for(how_, file->bytes()))
        return at_compressed(file, *opener, position);
      tar_scan& scan = find(file);
      while (scan.index().begins.size() <= position)
        if (!scan.step()) return {};
      return sample_at(file, how_, scan.index(), static_cast<std::size_t>(position)).origin();
    } catch (const tar_error&) {
      return {};
    }
  }

 private:
  // Of a compressed shard. Continues where it stopped if that is before the position.
  std::string at_compressed(const std::shared_ptr<const mapped_file>& file, const text_opener& opener,
                            std::uint64_t position) {
    if (!compressed_ || compressed_->position() > position ||
        compressed_file_->version() != file->version()) {
      compressed_ = nullptr; // before the next one takes memory
      compressed_ = open_compressed(file, opener, how_.quiet(), {});
      compressed_file_ = file;
    }
    for (;;) {
      const bool is_wanted = compressed_->position() == position;
      try {
        const auto sample = compressed_->next();
        if (!sample || is_wanted) return sample ? sample->origin() : std::string();
      } catch (const tar_error&) { // belongs to this sample only
        if (is_wanted) return {};
      }
    }
  }

  tar_scan& find(const std::shared_ptr<const mapped_file>& file) {
    constexpr std::size_t max_mapped = 16; // shards
    for (const auto& scan : scans_)
      if (scan->path() == file->path() && scan->index().is_of(*file)) return *scan;
    if (scans_.size() == max_mapped) scans_.erase(scans_.begin());
    scans_.push_back(std::make_unique<tar_scan>(file, how_.quiet()));
    return *scans_.back();
  }

  const tar_settings how_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<tar_scan>> scans_;
  std::shared_ptr<const mapped_file> compressed_file_; // one, as a stream may take much memory
  std::shared_ptr<open_tar_shard> compressed_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

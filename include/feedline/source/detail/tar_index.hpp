// SPDX-License-Identifier: MIT
#pragma once
// The index of a TAR shard: where samples begin. Made by one pass over the headers; can be saved to a file.
#include <algorithm>
#include <array>
#include <atomic>
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
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/open_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_header.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0::detail {

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
  explicit tar_scan(std::shared_ptr<const mapped_file> file) : file_(std::move(file)), shard_(file_) {
    index_.bytes = file_->bytes().size();
    index_.modified_ns = file_->modified_ns();
  }

  /// Steps over a sample, or an error instead of one. Returns false at the end.
  bool step() { return add_sample(shard_, index_); }

  /// The index of the samples so far.
  const tar_index& index() {
    index_.globals = shard_.globals();
    return index_;
  }

 private:
  std::shared_ptr<const mapped_file> file_;
  tar_shard shard_;
  tar_index index_;
};

/// Makes the index of a shard. A shard that can't be opened has one sample, which is an error.
inline tar_index scan_tar(const std::string& path) {
  try {
    const auto file = tar_shard::map(path, sharing::alone); // expect_jumps() mustn't affect other readers
    file->expect_jumps();
    tar_scan scan(file);
    while (scan.step()) continue;
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
inline tar_sample sample_at(const std::shared_ptr<const mapped_file>& file, const tar_index& index,
                            std::size_t position) {
  const std::uint64_t begin = index.begins[position];
  auto sample = tar_shard(file, {0, begin, index.usual_size, index.globals}).next();
  if (!sample) throw_no_sample(file->path(), begin);
  return *std::move(sample);
}

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
inline constexpr std::uint64_t tar_index_magic = 0x32786469'72617466; // "ftaridx2"

inline std::uint64_t checksum_of(std::span<const std::uint64_t> words) noexcept {
  std::uint64_t sum = words.size();
  for (const std::uint64_t word : words) sum = mix((sum ^ word) + 0x9e3779b97f4a7c15);
  return sum;
}

inline std::vector<std::uint64_t> to_words(const tar_index& index) {
  std::vector<std::uint64_t> words{
      tar_index_magic,    index.bytes,      static_cast<std::uint64_t>(index.modified_ns),
      index.fingerprint,  index.usual_size, index.globals.size(),
      index.begins.size()};
  words.insert(words.end(), index.globals.begin(), index.globals.end());
  words.insert(words.end(), index.begins.begin(), index.begins.end());
  words.push_back(checksum_of(words));
  return words;
}

/// Returns nothing if the words are incomplete or damaged.
inline std::optional<tar_index> from_words(std::span<const std::uint64_t> words) {
  if (words.size() <= head_words || words[word_magic] != tar_index_magic) return {};
  const std::uint64_t rest = words.size() - head_words - 1;
  const std::uint64_t globals = words[word_globals];
  if (globals > rest || words[word_begins] != rest - globals) return {};
  if (checksum_of(words.first(words.size() - 1)) != words.back()) return {};
  const auto lists = words.subspan(head_words, static_cast<std::size_t>(rest));
  const auto middle = lists.begin() + static_cast<std::ptrdiff_t>(globals);
  return tar_index{words[word_bytes],
                   static_cast<std::int64_t>(words[word_modified]),
                   words[word_fingerprint],
                   words[word_usual],
                   {lists.begin(), middle},
                   {middle, lists.end()},
                   {}};
}

/// The same for the bytes of an index file.
inline std::optional<tar_index> from_bytes(std::span<const std::byte> bytes) {
  if (bytes.size() % 8 != 0) return {};
  std::vector<std::uint64_t> words(bytes.size() / 8);
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return from_words(words);
}

/// Whether bytes begin an index file of that size, for a shard of that size.
inline bool is_begin_of_index(std::span<const std::byte> begin, std::uint64_t index_bytes,
                              std::uint64_t shard_bytes) {
  std::array<std::uint64_t, head_words> head{};
  if (begin.size() < sizeof head) return false;
  std::memcpy(head.data(), begin.data(), sizeof head);
  const std::uint64_t most = index_bytes / 8; // also of each number, so that the sum doesn't overflow
  return head[word_magic] == tar_index_magic && head[word_bytes] == shard_bytes &&
         head[word_globals] < most && head[word_begins] < most &&
         8 * (head_words + head[word_globals] + head[word_begins] + 1) == index_bytes;
}

/// Returns nothing if the file is missing, incomplete or damaged.
inline std::optional<tar_index> read_tar_index(const std::string& path) {
  try {
    return from_bytes(mapped_file(path).bytes());
  } catch (const std::runtime_error&) {
    return {};
  }
}

/// Whether an index can be written to a path: there is no file, or an index of any version, or the beginning
/// of one. Other files aren't overwritten.
inline bool may_write_tar_index(const std::string& path) {
  struct stat status {};

  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  if (!S_ISREG(status.st_mode)) return false;
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char begin[tar_index_name.size()];
  return file && tar_index_name.starts_with({begin, file.read(begin, sizeof begin, 0)});
}

/// Writes the complete index or, on an error, nothing.
inline void write_tar_index(const std::string& path, const tar_index& index) {
  if (!may_write_tar_index(path)) return;
  static std::atomic<unsigned> written{0};
  const std::string draft = path + "." + std::to_string(::getpid()) + "-" + std::to_string(written++);
  const open_file file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) return;
  const auto words = to_words(index);
  if (file.write(words.data(), 8 * words.size(), 0) != 0 || ::rename(draft.c_str(), path.c_str()) != 0)
    ::unlink(draft.c_str());
}

/// Returns the index of a shard. With `keep`, reads it from the file next to the shard if that matches,
/// otherwise makes it and writes that file.
inline tar_index index_of_tar(const std::string& shard, bool keep) {
  if (!keep) return scan_tar(shard);
  const std::string path = shard + ".index";
  const std::uint64_t fingerprint = fingerprint_of_file(shard);
  try {
    auto kept = read_tar_index(path);
    if (kept && kept->fingerprint == fingerprint && kept->is_of(mapped_file(shard))) return *std::move(kept);
  } catch (const std::runtime_error&) { // the scan below records that the shard can't be opened
  }
  tar_index index = scan_tar(shard);
  index.fingerprint = fingerprint;
  if (index.problem.empty()) write_tar_index(path, index);
  return index;
}

/// Finds the origins of samples. It continues to read a shard where it stopped, so that all origins of a
/// shard take one pass over it. Any thread may use it.
class tar_names {
 public:
  /// "photos-0003.tar: dir/17.jpg, .cls"; empty if the sample doesn't exist or can't be read.
  std::string at(const std::string& path, std::uint64_t position) {
    const std::lock_guard lock(mutex_);
    try {
      const auto file = tar_shard::map(path);
      scanned& shard = find(file);
      while (shard.scan.index().begins.size() <= position)
        if (!shard.scan.step()) return {};
      return sample_at(file, shard.scan.index(), static_cast<std::size_t>(position)).origin();
    } catch (const tar_error&) {
      return {};
    }
  }

 private:
  struct scanned {
    std::string path;
    tar_scan scan;
  };

  scanned& find(const std::shared_ptr<const mapped_file>& file) {
    constexpr std::size_t max_mapped = 16; // shards
    const auto is_of = [&](scanned& s) { return s.path == file->path() && s.scan.index().is_of(*file); };
    const auto found = std::find_if(shards_.begin(), shards_.end(), is_of);
    if (found != shards_.end()) return *found;
    if (shards_.size() == max_mapped) shards_.pop_front();
    return shards_.emplace_back(scanned{file->path(), tar_scan(file)});
  }

  std::mutex mutex_;
  std::deque<scanned> shards_;
};

} // namespace feedline::inline v0::detail

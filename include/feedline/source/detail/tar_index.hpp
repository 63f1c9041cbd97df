// SPDX-License-Identifier: MIT
#pragma once
// Where the samples of TAR shards lie: found by one pass over the headers, and kept in a file on request.
#include <algorithm>
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

/// What is known of one shard.
struct tar_index {
  std::uint64_t bytes = 0;            ///< of the shard
  std::int64_t modified_ns = 0;       ///< its time
  std::uint64_t fingerprint = 0;      ///< a hash of its beginning and end, where the index is kept
  std::uint64_t usual_size = 0;       ///< what tar_shard::usual_size() was before the last sample
  std::vector<std::uint64_t> globals; ///< offsets of headers that hold for all members behind them
  std::vector<std::uint64_t> begins;  ///< of samples, and of what can't be read: it is an error there again
  std::string problem;                ///< why the shard has no samples, if it can't be opened

  bool is_of(const mapped_file& shard) const noexcept {
    return bytes == shard.bytes().size() && modified_ns == shard.modified_ns();
  }
};

/// Goes through a shard and notes where its samples begin.
class tar_scan {
 public:
  explicit tar_scan(std::shared_ptr<const mapped_file> file) : file_(std::move(file)), shard_(file_) {
    index_.bytes = file_->bytes().size();
    index_.modified_ns = file_->modified_ns();
  }

  /// Steps over a sample, or an error in its place. False: there is none.
  bool step() {
    const std::uint64_t begin = shard_.begin();
    // Only damage asks for the usual size, to judge the sample before it.
    if (!shard_.is_at_damage()) index_.usual_size = shard_.usual_size();
    try {
      if (!shard_.next()) return false;
    } catch (const tar_error&) { // its own place says so
    }
    index_.begins.push_back(begin);
    return true;
  }

  /// What was found so far.
  const tar_index& index() {
    index_.globals = shard_.globals();
    return index_;
  }

 private:
  std::shared_ptr<const mapped_file> file_;
  tar_shard shard_;
  tar_index index_;
};

/// Reads the headers of a shard. One that can't be opened has one sample, which is an error.
inline tar_index scan_tar(const std::string& path) {
  try {
    const auto file = tar_shard::map(path, sharing::alone); // for others reads may not jump
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

/// The sample at a position of a shard that hasn't changed since it was indexed. Throws tar_error as reading the
/// whole shard would in its place.
inline tar_sample sample_at(const std::shared_ptr<const mapped_file>& file, const tar_index& index,
                            std::size_t position) {
  const std::uint64_t begin = index.begins[position];
  auto sample = tar_shard(file, begin, index.globals, static_cast<std::size_t>(index.usual_size)).next();
  if (!sample)
    throw tar_error(readable(file->path()) + ": no sample at offset " + std::to_string(begin) +
                    ", where its index says");
  return *std::move(sample);
}

/// An index as a file of 64-bit words in the byte order of the machine: these, the globals, the begins, a
/// checksum of all before.
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

/// Nothing if they aren't whole.
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

/// Nothing if there is no such file, or it isn't whole.
inline std::optional<tar_index> read_tar_index(const std::string& path) {
  try {
    const mapped_file file(path);
    if (file.bytes().size() % 8 != 0) return {};
    std::vector<std::uint64_t> words(file.bytes().size() / 8);
    if (!words.empty()) std::memcpy(words.data(), file.bytes().data(), file.bytes().size());
    return from_words(words);
  } catch (const std::runtime_error&) {
    return {};
  }
}

/// Whether there is nothing of that name, or an index of any version, or the beginning of one. What somebody else
/// has put there is left alone.
inline bool may_write_tar_index(const std::string& path) {
  struct stat status {};

  if (::lstat(path.c_str(), &status) != 0) return errno == ENOENT;
  if (!S_ISREG(status.st_mode)) return false;
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  char begin[tar_index_name.size()];
  return file && tar_index_name.starts_with({begin, file.read(begin, sizeof begin, 0)});
}

/// Writes it whole or, where nothing can be written, not at all.
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

/// The index of a shard: from a file beside it if that fits, else by reading the headers. With `keep` that
/// file is looked for and written.
inline tar_index index_of_tar(const std::string& shard, bool keep) {
  if (!keep) return scan_tar(shard);
  const std::string path = shard + ".index";
  const std::uint64_t fingerprint = fingerprint_of_file(shard);
  try {
    auto kept = read_tar_index(path);
    if (kept && kept->fingerprint == fingerprint && kept->is_of(mapped_file(shard))) return *std::move(kept);
  } catch (const std::runtime_error&) { // no shard: its place is to say so
  }
  tar_index index = scan_tar(shard);
  index.fingerprint = fingerprint;
  if (index.problem.empty()) write_tar_index(path, index);
  return index;
}

/// The samples of shards by their place, counted over all shards. Shards are mapped when they are first needed.
class indexed_tar {
 public:
  indexed_tar(const file_order& files, bool keep_index) : files_(files) {
    std::vector<tar_index> shards;
    for (const std::string& name : files.names()) {
      shards.push_back(index_of_tar(name, keep_index));
      places_.add_file(shards.back().begins.size());
    }
    shards_ = std::make_shared<const std::vector<tar_index>>(std::move(shards));
    maps_ = std::make_shared<lazy_maps>(files.names());
  }

  std::uint64_t size() const noexcept { return places_.size(); }

  /// Throws tar_error as the shard in its order would, and for one that was changed since it was indexed.
  tar_sample at(std::uint64_t place) const {
    const std::size_t number = places_.file_of(place);
    const tar_index& index = (*shards_)[number];
    const std::size_t position = static_cast<std::size_t>(place - places_.first_of(number));
    if (!index.problem.empty()) throw tar_error(index.problem);
    const auto file = map(number);
    if (!index.is_of(*file)) throw tar_error(readable(file->path()) + " has changed since it was indexed");
    return sample_at(file, index, position);
  }

  /// Has the system begin to read a sample's bytes, where that is worth it.
  void will_need(std::uint64_t place) const noexcept {
    const std::size_t number = places_.file_of(place);
    const std::vector<std::uint64_t>& begins = (*shards_)[number].begins;
    const std::size_t position = static_cast<std::size_t>(place - places_.first_of(number));
    const std::uint64_t begin = begins[position];
    const std::uint64_t end = position + 1 < begins.size() ? begins[position + 1] : (*shards_)[number].bytes;
    constexpr std::uint64_t few = 16 << 10; // bytes, that cost less than the request
    if (end < begin + few) return;
    try {
      maps_->at(number)->will_need(begin, end - begin);
    } catch (...) { // its own place will say so
    }
  }

  std::uint64_t index_at(std::uint64_t place) const { return places_.index_at(place); }

  std::optional<std::uint64_t> find(std::uint64_t index) const { return places_.find(index); }

  std::uint64_t size_of_first(std::uint64_t shards) const { return places_.size_of_first(shards); }

 private:
  std::shared_ptr<const mapped_file> map(std::size_t number) const {
    try {
      return maps_->at(number);
    } catch (const std::runtime_error& error) {
      throw tar_error(error.what());
    }
  }

  file_order files_;
  places_in_files places_;
  std::shared_ptr<const std::vector<tar_index>> shards_;
  std::shared_ptr<lazy_maps> maps_;
};

/// What the samples of shards are called. Each shard is read on from where it was left, so that naming all of a
/// shard's samples takes one pass over it. From any thread.
class tar_names {
 public:
  /// "photos-0003.tar: dir/17.jpg, .cls"; empty if there is no such sample, or it can't be read.
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
    constexpr std::size_t most = 16; // shards that stay mapped
    const auto is_of = [&](scanned& s) { return s.path == file->path() && s.scan.index().is_of(*file); };
    const auto found = std::find_if(shards_.begin(), shards_.end(), is_of);
    if (found != shards_.end()) return *found;
    if (shards_.size() == most) shards_.pop_front();
    return shards_.emplace_back(scanned{file->path(), tar_scan(file)});
  }

  std::mutex mutex_;
  std::deque<scanned> shards_;
};

} // namespace feedline::inline v0::detail

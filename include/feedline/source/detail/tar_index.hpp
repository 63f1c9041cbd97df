// SPDX-License-Identifier: MIT
#pragma once
// Where the samples of TAR shards lie: found by one pass over the headers, and kept in a file on request.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/tar_header.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::detail {

/// What is known of one shard.
struct tar_index {
  static constexpr std::uint64_t unreadable = ~std::uint64_t{0};

  std::uint64_t bytes = 0;            ///< of the shard
  std::int64_t modified_ns = 0;       ///< its time
  std::uint64_t usual_size = 0;       ///< fields of the last but one sample that could be read
  std::vector<std::uint64_t> globals; ///< offsets of headers that hold for all members behind them
  std::vector<std::uint64_t> begins;  ///< of samples; unreadable: reading the shard up to there says why

  bool is_of(const mapped_file& shard) const noexcept {
    return bytes == shard.bytes().size() && modified_ns == shard.modified_ns();
  }
};

/// Reads the headers of a shard. One that can't be read has one sample, which is unreadable.
inline tar_index scan_tar(const std::string& path) {
  tar_index index;
  try {
    const auto file = tar_shard::map(path);
    file->expect_jumps();
    index.bytes = file->bytes().size();
    index.modified_ns = file->modified_ns();
    for (tar_shard shard(file);;) {
      const std::uint64_t begin = shard.begin();
      const std::size_t usual_size = shard.usual_size();
      try {
        if (!shard.next()) {
          index.globals = shard.globals();
          return index;
        }
        index.begins.push_back(begin);
        index.usual_size = usual_size;
      } catch (const tar_error&) {
        index.begins.push_back(tar_index::unreadable);
      }
    }
  } catch (const tar_error&) {
    index.begins = {tar_index::unreadable};
    return index;
  }
}

/// An index as a file of 64-bit words in the byte order of the machine: these, the globals, the begins, a
/// checksum of all before.
enum tar_index_word : std::size_t {
  word_magic,
  word_bytes,
  word_modified,
  word_usual,
  word_globals,
  word_begins,
  head_words
};

inline constexpr std::uint64_t tar_index_magic = 0x31786469'72617466; // "ftaridx1"

inline std::uint64_t checksum_of(std::span<const std::uint64_t> words) noexcept {
  std::uint64_t sum = words.size();
  for (const std::uint64_t word : words) sum = mix((sum ^ word) + 0x9e3779b97f4a7c15);
  return sum;
}

inline std::vector<std::uint64_t> to_words(const tar_index& index) {
  std::vector<std::uint64_t> words{
      tar_index_magic,  index.bytes,          static_cast<std::uint64_t>(index.modified_ns),
      index.usual_size, index.globals.size(), index.begins.size()};
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
                   words[word_usual],
                   {lists.begin(), middle},
                   {middle, lists.end()}};
}

/// Nothing if there is no such file, or it isn't whole.
inline std::optional<tar_index> read_tar_index(const std::string& path) {
  try {
    const mapped_file file(path);
    if (file.bytes().size() % 8 != 0) return {};
    std::vector<std::uint64_t> words(file.bytes().size() / 8);
    if (!words.empty()) std::memcpy(words.data(), file.bytes().data(), file.bytes().size());
    return from_words(words);
  } catch (const std::system_error&) {
    return {};
  }
}

/// Writes it whole or, where nothing can be written, not at all.
inline void write_tar_index(const std::string& path, const tar_index& index) {
  static std::atomic<unsigned> written{0};
  const std::string draft = path + "." + std::to_string(::getpid()) + "-" + std::to_string(written++);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(draft.c_str(), "wb"), std::fclose);
  if (!file) return;
  const auto words = to_words(index);
  const bool whole =
      std::fwrite(words.data(), 8, words.size(), file.get()) == words.size() && std::fflush(file.get()) == 0;
  if (!whole || std::rename(draft.c_str(), path.c_str()) != 0) std::remove(draft.c_str());
}

/// The index of a shard: from a file beside it if that fits, else by reading the headers. With `keep` that
/// file is looked for and written.
inline tar_index index_of_tar(const std::string& shard, bool keep) {
  const std::string path = shard + ".index";
  if (keep) {
    try {
      auto kept = read_tar_index(path);
      if (kept && kept->is_of(mapped_file(shard))) return *std::move(kept);
    } catch (const std::system_error&) { // no shard: its place is to say so
    }
  }
  tar_index index = scan_tar(shard);
  if (keep && index.bytes > 0) write_tar_index(path, index);
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
    const std::uint64_t begin = index.begins[position];
    if (begin == tar_index::unreadable) return read_up_to(files_.names()[number], position);
    const auto file = map(number);
    if (!index.is_of(*file)) throw tar_error(file->path() + " has changed since it was indexed");
    auto sample = tar_shard(file, begin, index.globals, static_cast<std::size_t>(index.usual_size)).next();
    if (!sample)
      throw tar_error(file->path() + ": no sample at offset " + std::to_string(begin) +
                      ", where its index says");
    return *std::move(sample);
  }

  /// Has the system begin to read a sample's bytes, where that is worth it.
  void will_need(std::uint64_t place) const noexcept {
    const std::size_t number = places_.file_of(place);
    const std::vector<std::uint64_t>& begins = (*shards_)[number].begins;
    const std::size_t position = static_cast<std::size_t>(place - places_.first_of(number));
    const std::uint64_t begin = begins[position];
    const std::uint64_t end = position + 1 < begins.size() ? begins[position + 1] : (*shards_)[number].bytes;
    constexpr std::uint64_t few = 16 << 10; // bytes, that cost less than the request
    if (begin == tar_index::unreadable || end == tar_index::unreadable || end < begin + few) return;
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
    } catch (const std::system_error& error) {
      throw tar_error(error.what());
    }
  }

  static tar_sample read_up_to(const std::string& path, std::size_t position) {
    for (tar_shard shard(path);;) {
      const bool wanted = shard.position() == position;
      try {
        auto sample = shard.next();
        if (!sample) throw tar_error(path + " has changed since it was indexed");
        if (wanted) return *std::move(sample);
      } catch (const tar_error&) {
        if (wanted) throw;
      }
    }
  }

  file_order files_;
  places_in_files places_;
  std::shared_ptr<const std::vector<tar_index>> shards_;
  std::shared_ptr<lazy_maps> maps_;
};

} // namespace feedline::detail

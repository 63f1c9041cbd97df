// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_index.hpp>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/tar_shards.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_scan::tar_scan(std::shared_ptr<const mapped_file> file, const tar_settings& how)
    : file_(std::move(file)), shard_(file_, how) {
  index_.bytes = file_->bytes().size();
  index_.modified_ns = file_->modified_ns();
}

FEEDLINE_INLINE const tar_index& tar_scan::index() {
  index_.globals = shard_.globals();
  return index_;
}

FEEDLINE_INLINE tar_index scan_tar(const std::string& path, const tar_settings& how,
                                   const std::stop_token& stop) {
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

FEEDLINE_INLINE void throw_no_sample(const std::string& shard, std::uint64_t begin) {
  throw tar_error(readable(shard) + ": no sample at offset " + std::to_string(begin) +
                  ", although its index lists one: delete its .index, if there is one");
}

FEEDLINE_INLINE tar_sample sample_at(const std::shared_ptr<const mapped_file>& file, const tar_settings& how,
                                     const tar_index& index, std::size_t position) {
  const std::uint64_t begin = index.begins[position];
  auto sample = tar_shard(file, how.quiet(), {0, begin, index.usual_size, index.globals}).next();
  if (!sample) throw_no_sample(file->path(), begin);
  return *std::move(sample);
}

FEEDLINE_INLINE std::vector<std::uint64_t> to_words(const tar_index& index) {
  std::vector<std::uint64_t> words{
      tar_index_magic,    index.bytes,      static_cast<std::uint64_t>(index.modified_ns),
      index.fingerprint,  index.usual_size, index.globals.size(),
      index.begins.size()};
  words.insert(words.end(), index.globals.begin(), index.globals.end());
  words.insert(words.end(), index.begins.begin(), index.begins.end());
  return words;
}

FEEDLINE_INLINE std::optional<tar_index> from_words(std::span<const std::uint64_t> words) {
  if (words.size() < head_words || words[word_magic] != tar_index_magic) return {};
  const std::uint64_t rest = words.size() - head_words;
  const std::uint64_t globals = words[word_globals];
  if (globals > rest || words[word_begins] != rest - globals) return {};
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

FEEDLINE_INLINE std::optional<tar_index> from_bytes(std::span<const std::byte> bytes) {
  return from_words(words_of_index(bytes));
}

FEEDLINE_INLINE bool is_begin_of_index(std::span<const std::byte> begin, std::uint64_t index_bytes,
                                       std::uint64_t shard_bytes) {
  std::array<std::uint64_t, head_words> head{};
  if (begin.size() < sizeof head) return false;
  std::memcpy(head.data(), begin.data(), sizeof head);
  const std::uint64_t most = index_bytes / 8; // also of each number, so that the sum doesn't overflow
  return head[word_magic] == tar_index_magic && head[word_bytes] == shard_bytes &&
         head[word_globals] < most && head[word_begins] < most &&
         8 * (head_words + head[word_globals] + head[word_begins] + 1) == index_bytes;
}

FEEDLINE_INLINE std::optional<tar_index> read_tar_index(const std::string& path) {
  return from_words(read_index_file(path));
}

FEEDLINE_INLINE void write_tar_index(const std::string& path, const tar_index& index) {
  write_index_file(path, tar_index_name, to_words(index));
}

FEEDLINE_INLINE tar_index index_of_tar(const std::string& shard, const tar_settings& how, bool keep,
                                       const std::stop_token& stop) {
  if (!keep) return scan_tar(shard, how, stop);
  const std::string path = shard + ".index";
  const std::uint64_t fingerprint = index_fingerprint(fingerprint_of_file(shard), how.hidden);
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

FEEDLINE_INLINE tar_names::tar_names(const tar_settings& how) : how_(how) {}

FEEDLINE_INLINE std::string tar_names::at(const std::string& path, std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  try {
    const auto file = tar_shard::map(path);
    if (const text_opener* const opener = opener_for(how_, file->bytes()))
      return at_compressed(file, *opener, position);
    scanned& shard = find(file);
    while (shard.scan.index().begins.size() <= position)
      if (!shard.scan.step()) return {};
    return sample_at(file, how_, shard.scan.index(), static_cast<std::size_t>(position)).origin();
  } catch (const tar_error&) {
    return {};
  }
}

FEEDLINE_INLINE std::string tar_names::at_compressed(const std::shared_ptr<const mapped_file>& file,
                                                     const text_opener& opener, std::uint64_t position) {
  if (!compressed_ || compressed_->position() > position || compressed_file_->version() != file->version()) {
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

FEEDLINE_INLINE tar_names::scanned& tar_names::find(const std::shared_ptr<const mapped_file>& file) {
  constexpr std::size_t max_mapped = 16; // shards
  const auto is_of = [&](scanned& s) { return s.path == file->path() && s.scan.index().is_of(*file); };
  const auto found = std::find_if(shards_.begin(), shards_.end(), is_of);
  if (found != shards_.end()) return *found;
  if (shards_.size() == max_mapped) shards_.pop_front();
  return shards_.emplace_back(scanned{file->path(), tar_scan(file, how_.quiet())});
}

} // namespace feedline::inline FEEDLINE_ABI::detail

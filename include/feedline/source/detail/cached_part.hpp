// SPDX-License-Identifier: MIT
#pragma once
// A part of an object as a file in the folder of a cache.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Names a part in a cache, by hashes: neither names nor secrets get into the folder.
struct part_key {
  part_key(const std::string& name, std::uint64_t offset, std::size_t count);

  std::string file_name() const;

  std::uint64_t first, second;
};

/// The end of each file: the bytes of the part precede it.
struct part_record {
  part_record() = default;

  part_record(const part_key& k, const object_part& part);

  /// Whether the file with that many bytes before the record is the whole of this part.
  bool is_of(const part_key& k, std::size_t count) const noexcept {
    return words[0] == magic && words[1] == k.first && words[2] == k.second && words[5] == count;
  }

  bool is_of(const object_info& object) const noexcept;

  static constexpr std::uint64_t magic = 0x3274726170746c66; // "fltpart2"

  std::array<std::uint64_t, 7> words{}; // the last one is the hash of the bytes
};

/// A part that was found in the cache.
class kept_part {
 public:
  /// Nothing if there is no whole file of this part.
  static std::optional<kept_part> find(const std::string& path, const part_key& k);

  bool is_of(const object_info& object) const noexcept { return record_.is_of(object); }

  /// Whether its bytes are those that were written; reads all of them.
  bool is_intact() const noexcept;

  std::size_t file_bytes() const noexcept { return file_->bytes().size(); }

  object_part part(const object_info& object) const;

 private:
  kept_part() = default;

  std::span<const std::byte> bytes() const noexcept;

  std::shared_ptr<const mapped_file> file_;
  part_record record_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/cached_part.ipp>
#endif

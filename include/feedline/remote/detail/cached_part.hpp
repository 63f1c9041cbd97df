// SPDX-License-Identifier: MIT
#pragma once
// A part of an object as a file in the folder of a cache.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Names a part in a cache, by hashes: neither names nor secrets get into the folder.
struct part_key {
  part_key(const std::string& name, std::uint64_t offset, std::size_t count)
      : first(key(stable_hash(name), offset, count)), second(key(stable_hash("2" + name), offset, count)) {}

  std::string file_name() const {
    char text[40];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(first),
                  static_cast<unsigned long long>(second));
    return text;
  }

  /// Whether a name begins as file_name() does, and how it ends then; empty if not.
  static std::string_view ending_of(std::string_view name) noexcept {
    constexpr std::size_t digits = 32;
    const bool is_key = name.size() > digits && name.find_first_not_of("0123456789abcdef") == digits;
    return is_key ? name.substr(digits) : std::string_view();
  }

  std::uint64_t first, second;
};

/// The end of each file: the bytes of the part precede it.
struct part_record {
  part_record() = default;

  part_record(const part_key& k, const object_part& part)
      : words{magic,
              k.first,
              k.second,
              part.object.bytes,
              stable_hash(part.object.version),
              part.bytes.size(),
              hash_of_block(part.bytes)} {}

  /// Whether the file with that many bytes before the record is the whole of this part.
  bool is_of(const part_key& k, std::size_t count) const noexcept {
    return words[0] == magic && words[1] == k.first && words[2] == k.second && words[5] == count;
  }

  bool is_of(const object_info& object) const noexcept {
    return words[3] == object.bytes && words[4] == stable_hash(object.version);
  }

  static constexpr std::uint64_t magic = 0x3274726170746c66; // "fltpart2"

  std::array<std::uint64_t, 7> words{}; // the last one is the hash of the bytes
};

/// A part that was found in the cache.
class kept_part {
 public:
  /// Nothing if there is no whole file of this part.
  static std::optional<kept_part> find(const std::string& path, const part_key& k) {
    if (::access(path.c_str(), F_OK) != 0) return {};
    try {
      kept_part found;
      found.file_ = std::make_shared<const mapped_file>(path, sharing::alone);
      const std::span<const std::byte> bytes = found.file_->bytes();
      if (bytes.size() < sizeof(part_record)) return {};
      std::memcpy(&found.record_, bytes.data() + bytes.size() - sizeof(part_record), sizeof(part_record));
      if (!found.record_.is_of(k, bytes.size() - sizeof(part_record))) return {};
      return found;
    } catch (const std::runtime_error&) { // it is gone, or can't be read
      return {};
    }
  }

  bool is_of(const object_info& object) const noexcept { return record_.is_of(object); }

  /// Whether its bytes are those that were written; reads all of them.
  bool is_intact() const noexcept { return hash_of_block(bytes()) == record_.words.back(); }

  std::size_t file_bytes() const noexcept { return file_->bytes().size(); }

  object_part part(const object_info& object) const {
    constexpr std::size_t few = std::size_t{64} << 10; // copies of the samples in it would take as much
    return {object, bytes(), file_, file_->is_mapped() || bytes().size() <= few};
  }

 private:
  kept_part() = default;

  std::span<const std::byte> bytes() const noexcept {
    return file_->bytes().first(file_->bytes().size() - sizeof(part_record));
  }

  std::shared_ptr<const mapped_file> file_;
  part_record record_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/cached_part.hpp>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <unistd.h>

#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE part_key::part_key(const std::string& name, std::uint64_t offset, std::size_t count)
    : first(key(stable_hash(name), offset, count)), second(key(stable_hash("2" + name), offset, count)) {}

FEEDLINE_INLINE std::string part_key::file_name() const {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(second));
  return text;
}

FEEDLINE_INLINE part_record::part_record(const part_key& k, const object_part& part)
    : words{magic,
            k.first,
            k.second,
            part.object.bytes,
            stable_hash(part.object.version),
            part.bytes.size(),
            hash_of_block(part.bytes)} {}

FEEDLINE_INLINE bool part_record::is_of(const object_info& object) const noexcept {
  return words[3] == object.bytes && words[4] == stable_hash(object.version);
}

FEEDLINE_INLINE std::optional<kept_part> kept_part::find(const std::string& path, const part_key& k) {
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

FEEDLINE_INLINE std::span<const std::byte> kept_part::bytes() const noexcept {
  return file_->bytes().first(file_->bytes().size() - sizeof(part_record));
}

FEEDLINE_INLINE bool kept_part::is_intact() const noexcept {
  return hash_of_block(bytes()) == record_.words.back();
}

FEEDLINE_INLINE object_part kept_part::part(const object_info& object) const {
  constexpr std::size_t few = std::size_t{64} << 10; // copies of the samples in it would take as much
  return {object, bytes(), file_, file_->is_mapped() || bytes().size() <= few};
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// The messages of an Arrow stream: metadata, followed by a body.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/flat_table.hpp>
#include <feedline/arrow/detail/format_tables.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The bytes before a message's metadata: 0xffffffff and the size or, before version 0.15, only the size.
struct message_prefix {
  static constexpr std::uint32_t marker = 0xffffffff;

  std::size_t bytes = 0; ///< of the prefix
  std::int32_t size = 0; ///< of the metadata; 0 at the end of the stream

  /// Reads the prefix at `begin`: at least 4 bytes, 8 if the first 4 are the marker.
  static message_prefix read(const std::byte* begin) noexcept {
    if (load<std::uint32_t>(begin) == marker) return {8, load<std::int32_t>(begin + 4)};
    return {4, load<std::int32_t>(begin)};
  }
};

/// The verified metadata of a message.
class message {
 public:
  /// Throws arrow_error if the metadata is damaged or of an unsupported version.
  explicit message(std::span<const std::byte> metadata);

  message(const message&) = delete;
  message& operator=(const message&) = delete;

  const message_table* operator->() const noexcept { return table_; }

  std::uint64_t body_size() const { return static_cast<std::uint64_t>(table_->body_size()); }

  /// Throws arrow_error if the metadata has no header.
  template <class T>
  const T& header() const {
    const T* const found = table_->header<T>();
    if (!found) throw arrow_error("the metadata has no header");
    return *found;
  }

  /// The batch of a record batch or a dictionary batch.
  const batch_table& batch() const;

  /// The number of rows of a batch.
  std::uint64_t rows() const;

  static void check_version(int version);

 private:
  std::vector<std::uint64_t> copy_; // used if the metadata isn't aligned
  const message_table* table_ = nullptr;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
#include <string>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE message::message(std::span<const std::byte> metadata) {
  if (reinterpret_cast<std::uintptr_t>(metadata.data()) % 8 != 0) {
    copy_.resize(metadata.size() / 8 + 1);
    if (!metadata.empty()) std::memcpy(copy_.data(), metadata.data(), metadata.size());
    metadata = {reinterpret_cast<const std::byte*>(copy_.data()), metadata.size()};
  }
  table_ = verified<message_table>(metadata);
  if (!table_) throw arrow_error("the metadata is damaged");
  check_version(table_->version());
  if (table_->body_size() < 0) throw arrow_error("the body has a negative size");
}

FEEDLINE_INLINE const batch_table& message::batch() const {
  if (table_->kind() == message_kind::record_batch) return header<batch_table>();
  const batch_table* const data = header<dictionary_batch_table>().data();
  if (!data) throw arrow_error("the dictionary batch has no data");
  return *data;
}

FEEDLINE_INLINE std::uint64_t message::rows() const {
  const std::int64_t rows = batch().rows();
  if (rows < 0) throw arrow_error("the batch has a negative number of rows");
  return static_cast<std::uint64_t>(rows);
}

FEEDLINE_INLINE void message::check_version(int version) {
  if (version < 3 || version > 4)
    throw arrow_error("format version V" + std::to_string(version + 1) +
                      " isn't supported; only V4 and V5 are");
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/message.hpp>

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

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/records.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::runtime_error no_whole_record(const mapped_file& file, std::size_t size) {
  const std::size_t left = file.bytes().size() % size;
  return std::runtime_error(readable(file.path()) + ": the last " + std::to_string(left) +
                            " bytes, at offset " + std::to_string(file.bytes().size() - left) +
                            ", are less than a record of " + std::to_string(size) + " bytes");
}

FEEDLINE_INLINE std::vector<std::byte> read_bytes::operator()(const std::byte* record,
                                                              std::size_t size) const {
  return {record, record + size};
}

} // namespace feedline::inline FEEDLINE_ABI::detail

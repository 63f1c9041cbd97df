// SPDX-License-Identifier: MIT
#pragma once
// Writes small TAR archives in each dialect and with each fault.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <feedline/detail/tar_header.hpp>

namespace feedline::test {

enum class tar_dialect { v7, ustar, gnu };

/// One header. A test can set unusual fields; the checksum is computed last.
class tar_header_block {
 public:
  explicit tar_header_block(tar_dialect dialect = tar_dialect::ustar) {
    put(100, "0000644\0");
    if (dialect == tar_dialect::ustar)
      put(257, std::string_view("ustar\0"
                                "00",
                                8));
    if (dialect == tar_dialect::gnu) put(257, std::string_view("ustar  \0", 8));
    size(0);
    type('0');
  }

  tar_header_block& put(std::size_t at, std::string_view bytes) {
    std::copy(bytes.begin(), bytes.end(), text_.begin() + static_cast<std::ptrdiff_t>(at));
    return *this;
  }

  tar_header_block& name(std::string_view value) { return put(0, value); }

  tar_header_block& prefix(std::string_view value) { return put(345, value); }

  tar_header_block& type(char value) { return put(156, {&value, 1}); }

  /// Eleven octal digits and an end character; a value of twelve digits has no end character.
  tar_header_block& size(std::uint64_t value, char end = '\0') {
    return put(124, octal(value, 11)).put(135, {&end, 1});
  }

  tar_header_block& size_in_base_256(std::uint64_t value) {
    std::string bytes(12, '\0');
    bytes[0] = '\x80';
    for (std::size_t i = 11; i >= 4; --i, value >>= 8) bytes[i] = static_cast<char>(value & 0xff);
    return put(124, bytes);
  }

  /// The 512 bytes. Some old programs sum the bytes as signed numbers.
  std::string bytes(bool signed_sum = false) const {
    std::string block = text_;
    std::fill_n(block.begin() + 148, 8, ' ');
    std::int64_t sum = 0;
    for (const char c : block)
      sum += signed_sum ? static_cast<signed char>(c) : static_cast<unsigned char>(c);
    const std::string digits = octal(static_cast<std::uint64_t>(sum), 6);
    std::copy(digits.begin(), digits.end(), block.begin() + 148);
    block[154] = '\0';
    return block; // the eighth byte of the checksum stays a space
  }

  static std::string octal(std::uint64_t value, std::size_t digits) {
    std::string text(digits, '0');
    for (std::size_t i = digits; i > 0; --i, value >>= 3) text[i - 1] = static_cast<char>('0' + (value & 7));
    return text;
  }

 private:
  std::string text_ = std::string(512, '\0');
};

/// Writes an archive step by step.
class tar_writer {
 public:
  explicit tar_writer(tar_dialect dialect = tar_dialect::ustar) : dialect_(dialect) {}

  tar_header_block header(std::string_view name, std::string_view contents = {}, char type = '0') const {
    return tar_header_block(dialect_).name(name).size(contents.size()).type(type);
  }

  /// Adds a member; `name` must fit into the header.
  tar_writer& add(std::string_view name, std::string_view contents, char type = '0') {
    return add(header(name, contents, type), contents);
  }

  tar_writer& add(const tar_header_block& header, std::string_view contents = {}) {
    return raw(header.bytes()).raw(contents).pad();
  }

  /// GNU: the next member's name, in a separate member.
  tar_writer& long_name(const std::string& name, char type = 'L') {
    return add("././@LongLink", name + '\0', type);
  }

  /// pax: records for the next member ('x') or for all further members ('g').
  tar_writer& pax(std::initializer_list<std::pair<std::string_view, std::string_view>> records,
                  char type = 'x') {
    std::string text;
    for (const auto& [key, value] : records) text += record(key, value);
    return add("PaxHeaders/x", text, type);
  }

  tar_writer& raw(std::string_view bytes) {
    text_ += bytes;
    return *this;
  }

  tar_writer& pad() {
    text_.resize((text_.size() + 511) / 512 * 512, '\0');
    return *this;
  }

  std::size_t size() const { return text_.size(); }

  /// The archive so far, without its end.
  const std::string& open() const { return text_; }

  /// The archive with the two blocks that end it.
  std::string closed() const { return text_ + std::string(1024, '\0'); }

  /// Formats a record such as "21 path=000123.jpg\n"; the number includes its own digits.
  static std::string record(std::string_view key, std::string_view value) {
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t length = rest + 1;
    while (rest + std::to_string(length).size() != length) ++length;
    return std::to_string(length).append(" ").append(key).append("=").append(value).append("\n");
  }

 private:
  tar_dialect dialect_;
  std::string text_;
};

/// Corrects the checksums of an archive's headers, up to one without a valid size.
inline void mend_tar(std::span<char> archive) {
  while (archive.size() >= 512) {
    const auto block = archive.first(512);
    const std::string_view text(block.data(), block.size());
    const auto size = feedline::detail::tar_header(text).size();
    if (!size || text.find_first_not_of('\0') == text.npos) return;
    std::fill_n(block.begin() + 148, 8, ' ');
    std::uint64_t sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    const std::string digits = tar_header_block::octal(sum, 6);
    std::copy(digits.begin(), digits.end(), block.begin() + 148);
    block[154] = '\0';
    archive = archive.subspan(512);
    const std::size_t whole = (archive.size() + 511) / 512 * 512;
    archive = archive.subspan(
        std::min<std::size_t>(archive.size(), *size > whole ? whole : (*size + 511) / 512 * 512));
  }
}

} // namespace feedline::test

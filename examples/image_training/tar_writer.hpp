// SPDX-License-Identifier: MIT
#pragma once
// Writes TAR files of plain members, in the ustar format.
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

class tar_writer {
 public:
  /// Throws std::runtime_error if the file can't be written; so do the other functions.
  explicit tar_writer(const std::string& path) : path_(path), file_(path, std::ios::binary) { check(); }

  /// Adds a file. Its name has 1 to 99 bytes.
  void add(std::string_view name, std::span<const std::byte> contents) {
    if (name.empty() || name.size() > 99)
      throw std::runtime_error("the name of a TAR member must have 1 to 99 bytes");
    header h{};
    name.copy(h.name, sizeof h.name);
    std::snprintf(h.mode, sizeof h.mode, "%07o", 0644u);
    std::snprintf(h.user, sizeof h.user, "%07o", 0u);
    std::snprintf(h.group, sizeof h.group, "%07o", 0u);
    std::snprintf(h.size, sizeof h.size, "%011zo", contents.size());
    std::snprintf(h.time, sizeof h.time, "%011o", 0u);
    h.type = '0';
    std::memcpy(h.format, "ustar\00000", 8);

    // The checksum counts its own bytes as blanks.
    std::memset(h.checksum, ' ', sizeof h.checksum);
    std::array<unsigned char, block> bytes;
    std::memcpy(bytes.data(), &h, block);
    std::snprintf(h.checksum, sizeof h.checksum, "%06o", std::accumulate(bytes.begin(), bytes.end(), 0u));

    write(&h, block);
    write(contents.data(), contents.size());
    write(zeros.data(), (block - contents.size() % block) % block);
  }

  void add(std::string_view name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }

  /// Ends the archive.
  void finish() {
    write(zeros.data(), block);
    write(zeros.data(), block);
    file_.close();
    check();
  }

 private:
  static constexpr std::size_t block = 512;
  static constexpr std::array<char, block> zeros{};

  struct header {
    char name[100], mode[8], user[8], group[8], size[12], time[12], checksum[8], type, link[100], format[8];
    char user_name[32], group_name[32], device[16], prefix[155], padding[12];
  };

  static_assert(sizeof(header) == block);

  void write(const void* bytes, std::size_t size) {
    file_.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
    check();
  }

  void check() const {
    if (!file_) throw std::runtime_error("can't write " + path_);
  }

  std::string path_;
  std::ofstream file_;
};

// SPDX-License-Identifier: MIT
#pragma once
// Writes a TAR file that gets its name once it is complete and on the disk. The same members give the same bytes.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

[[noreturn]] inline void throw_cannot_write(const std::string& path) {
  throw std::system_error(errno, std::generic_category(), "can't write " + path);
}

/// A file that is written under the name PATH.draft and renamed to PATH by finish(). Without that the destructor removes it.
class draft_file {
 public:
  /// Throws std::system_error if the file can't be written; so do the other functions.
  explicit draft_file(std::string path) : path_(std::move(path)), file_(std::fopen(draft().c_str(), "wb")) {
    if (!file_) throw_cannot_write(path_);
    std::setvbuf(file_.get(), nullptr, _IOFBF, 1 << 20);
  }

  draft_file(const draft_file&) = delete;
  draft_file& operator=(const draft_file&) = delete;

  ~draft_file() {
    if (!is_finished_) ::unlink(draft().c_str());
  }

  void write(std::span<const std::byte> bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) throw_cannot_write(path_);
  }

  /// The contents reach the disk before the name, so that a file with this name is complete even after a power failure.
  void finish() {
    if (std::fflush(file_.get()) != 0 || ::fsync(::fileno(file_.get())) != 0 ||
        std::fclose(file_.release()) != 0 || std::rename(draft().c_str(), path_.c_str()) != 0)
      throw_cannot_write(path_);
    is_finished_ = true;
    const int folder = ::open(std::filesystem::path(path_).parent_path().c_str(), O_RDONLY | O_CLOEXEC);
    if (folder < 0) return;
    ::fsync(folder);
    ::close(folder);
  }

  const std::string& path() const { return path_; }

 private:
  struct closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::string draft() const { return path_ + ".draft"; }

  std::string path_;
  std::unique_ptr<std::FILE, closer> file_;
  bool is_finished_ = false;
};

/// Writes regular files in the ustar format. Names of more than 100 bytes and files of 8 GiB or more have a pax header.
class tar_writer {
 public:
  explicit tar_writer(std::string path) : file_(std::move(path)) {}

  void add(std::string_view name, std::span<const std::byte> contents) {
    const std::string headers = headers_of(name, contents.size());
    write(std::as_bytes(std::span(headers)));
    write(contents);
    write(std::as_bytes(std::span(zeros)).first(padding(contents.size())));
  }

  /// Ends the archive and gives it its name.
  void finish() {
    write(std::as_bytes(std::span(zeros)));
    file_.finish();
  }

  const std::string& path() const { return file_.path(); }

  /// The bytes of the archive so far; once it has ended, all of them.
  std::uint64_t size() const { return size_; }

  /// The bytes that a member takes in an archive.
  static std::uint64_t size_of(std::string_view name, std::uint64_t size) {
    const bool is_plain = name.size() <= max_name && size <= max_size;
    return size + padding(size) + (is_plain ? block : headers_of(name, size).size());
  }

  /// The bytes at the end of an archive.
  static constexpr std::uint64_t end_size = 1024;

  /// The headers of a member: whole blocks.
  static std::string headers_of(std::string_view name, std::uint64_t size) {
    std::string records;
    if (name.size() > max_name) records += record("path", name);
    if (size > max_size) records += record("size", std::to_string(size));
    if (records.empty()) return header(name, size, '0');
    return header("PaxHeaders/next", records.size(), 'x') + records +
           std::string(padding(records.size()), '\0') + header(name, size, '0');
  }

 private:
  static constexpr std::size_t block = 512, max_name = 100;
  static constexpr std::uint64_t max_size = 077777777777; // in 11 octal digits
  static constexpr char zeros[end_size] = {};

  static constexpr std::size_t padding(std::uint64_t size) {
    return static_cast<std::size_t>((block - size % block) % block);
  }

  /// A pax record, "21 path=000123.jpg\n"; the number counts its own digits too.
  static std::string record(std::string_view key, std::string_view value) {
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t length = rest + 1;
    while (rest + std::to_string(length).size() != length) ++length;
    return std::to_string(length).append(" ").append(key).append("=").append(value).append("\n");
  }

  /// A header; a name that is too long is cut off, a size that is too large is 0.
  static std::string header(std::string_view name, std::uint64_t size, char type) {
    std::string bytes(block, '\0');
    const auto put = [&](std::size_t at, std::string_view text) {
      std::copy(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    };
    const auto octal = [](std::uint64_t number, std::size_t digits) {
      std::string text(digits, '0');
      for (; number > 0; number /= 8) text[--digits] = static_cast<char>('0' + number % 8);
      return text;
    };
    put(0, name.substr(0, max_name));
    put(100, octal(0644, 7)); // mode
    put(108, octal(0, 7));    // user
    put(116, octal(0, 7));    // group
    put(124, octal(size <= max_size ? size : 0, 11));
    put(136, octal(0, 11)); // time
    put(148, "        ");   // the checksum counts its own bytes as blanks
    bytes[156] = type;
    put(257, std::string_view("ustar\00000", 8));
    const auto add = [](std::uint64_t sum, char c) { return sum + static_cast<unsigned char>(c); };
    const std::uint64_t sum = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}, add);
    put(148, octal(sum, 6) + '\0');
    return bytes;
  }

  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    size_ += bytes.size();
  }

  draft_file file_;
  std::uint64_t size_ = 0;
};

// SPDX-License-Identifier: MIT
#pragma once
// A custom source: the rows of a matrix in a mapped file.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/// The mapped bytes of a file.
class mapped_bytes {
 public:
  explicit mapped_bytes(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category(), path);

    struct stat about {};

    const bool is_known = ::fstat(file, &about) == 0;
    size_ = static_cast<std::size_t>(about.st_size);
    if (is_known && size_ > 0) begin_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    const int reason = errno;
    ::close(file);
    if (!is_known || begin_ == MAP_FAILED) throw std::system_error(reason, std::generic_category(), path);
  }

  mapped_bytes(const mapped_bytes&) = delete;

  ~mapped_bytes() {
    if (begin_) ::munmap(begin_, size_);
  }

  const std::byte* data() const { return static_cast<const std::byte*>(begin_); }

  std::size_t size() const { return size_; }

 private:
  void* begin_ = nullptr; // null: an empty file
  std::size_t size_ = 0;
};

/// Yields the rows of a matrix of floats, which the file stores one after another. size() and at() are enough
/// for a source. Because at() reads a row at any position, a global shuffle works too.
template <std::size_t Columns>
class matrix_rows {
 public:
  using row = std::array<float, Columns>;

  /// The source's name in messages and checkpoints.
  static constexpr feedline::source_traits traits{.kind = "matrix_rows"};

  explicit matrix_rows(std::string path)
      : path_(std::move(path)), bytes_(std::make_shared<const mapped_bytes>(path_)) {
    if (bytes_->size() % sizeof(row) != 0)
      throw std::invalid_argument(path_ + " has " + std::to_string(bytes_->size()) +
                                  " bytes, which can't be divided into rows of " + std::to_string(Columns) +
                                  " floats");
  }

  std::uint64_t size() const { return bytes_->size() / sizeof(row); }

  /// Several threads call it at once, so it only reads.
  row at(std::uint64_t position) const {
    row r;
    std::memcpy(r.data(), bytes_->data() + position * sizeof(row), sizeof r);
    return r;
  }

  /// Identifies a row in messages.
  std::string origin(std::uint64_t index) const { return path_ + ": row " + std::to_string(index); }

  /// The number of rows, for checkpoints. Rows may be added at the end later.
  std::uint64_t extent() const { return size(); }

  /// A hash (FNV-1a) of the first and the last of the first `rows` rows: a checkpoint of another matrix is
  /// rejected.
  std::uint64_t fingerprint(std::uint64_t rows) const {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto add = [&](std::uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
    add(rows);
    for (const std::uint64_t position : {std::uint64_t{0}, rows - 1})
      for (std::size_t i = 0; rows > 0 && i < sizeof(row); ++i)
        add(std::to_integer<std::uint64_t>(bytes_->data()[position * sizeof(row) + i]));
    return hash;
  }

 private:
  std::string path_;
  std::shared_ptr<const mapped_bytes> bytes_; // shared by copies, as it never changes
};

// SPDX-License-Identifier: MIT
#pragma once
// records: a source of the fixed-size records of binary files.
#include <cstring>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/read_files.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

std::runtime_error no_whole_record(std::span<const std::byte> file, std::size_t size);

/// Records of one size. Read converts the bytes of one to a value. An incomplete record at a file's end counts too; reading it
/// throws.
template <class Read>
class record_format {
 public:
  static constexpr const char* kind = "records";
  static constexpr const char* sample_name = "record";
  using value = std::invoke_result_t<const Read&, const std::byte*, std::size_t>;

  explicit record_format(std::size_t size) : size_(size) {
    if (size == 0) throw std::invalid_argument("feedline::records: the record size must be at least 1 byte");
    refuse_negative(size, "feedline::records: the record size");
  }

  std::uint64_t count(std::uint64_t bytes) const noexcept { return bytes / size_ + (bytes % size_ != 0); }

  value at(std::span<const std::byte> file, std::uint64_t number) const {
    if (number >= file.size() / size_) throw no_whole_record(file, size_);
    return Read()(file.data() + number * size_, size_);
  }

  std::uint64_t offset(std::uint64_t number) const noexcept { return number * size_; }

  /// Copies whole records, up to the end of the target; returns how many.
  std::size_t copy(std::span<const std::byte> file, std::uint64_t number, std::span<value> target) const
    requires requires { typename Read::copies_bytes; }
  {
    const std::uint64_t whole = file.size() / size_;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(whole - std::min(whole, number), target.size()));
    if (count > 0) std::memcpy(target.data(), file.data() + number * size_, count * size_);
    return count;
  }

  std::uint64_t fingerprint() const noexcept { return size_; }

  std::string parameters() const
    requires(!requires { typename Read::copies_bytes; })
  {
    return "the size of records: " + size_text(size_);
  }

  std::size_t max_item_bytes() const noexcept { return sizeof(value) + size_; }

 private:
  std::size_t size_;
};

template <class T>
struct read_as {
  using copies_bytes = void;

  T operator()(const std::byte* record, std::size_t) const {
    T value;
    std::memcpy(&value, record, sizeof(T));
    return value;
  }
};

struct read_bytes {
  std::vector<std::byte> operator()(const std::byte* record, std::size_t size) const;
};

} // namespace detail

/// Reads the records of binary files as values of a trivially copyable type: numbers in the machine's byte
/// order, or plain structs of them without references.
///
/// Takes:   file names; each may be a pattern: `games/*.bin`
/// Gives:   T for each sizeof(T) bytes. A record's index is `number of its file << 40 | record in the file`
/// Order:   file by file as listed; in infinite mode, or with several epochs, each epoch has a new file order
/// Throws:  when called, std::invalid_argument for an empty list and a file that is listed twice (two patterns may
///          match it; a link with another name is another file), and std::runtime_error for wildcards that
///          match nothing; when a run starts, std::system_error for a file that doesn't exist, and
///          std::runtime_error for a directory; in the run, std::runtime_error for an incomplete record at a
///          file's end, after its last complete one; std::system_error when it reaches a file that can't be
///          read (the next file follows)
/// Limits:  files are mapped: shortening one in place during a run ends the process with SIGBUS. To replace a file, write
///          another one and rename it
/// Example: `records<position>("games/*.bin") | shuffle({.capacity = 1'000'000}) | batch(4096)`
template <class T>
auto records(const file_patterns& files) {
  static_assert(
      std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
      "feedline: records<T> copies the bytes of a file into a T, so T must be trivially copyable and "
      "default constructible: numbers, arrays and structs of them.");
  return read_files(files, detail::record_format<detail::read_as<T>>(sizeof(T)));
}

/// The same for records whose size in bytes is known at run time; yields std::vector<std::byte>.
inline auto records(const file_patterns& files, std::size_t size) {
  return read_files(files, detail::record_format<detail::read_bytes>(size));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::runtime_error no_whole_record(std::span<const std::byte> file, std::size_t size) {
  const std::size_t left = file.size() % size;
  return std::runtime_error("the last " + std::to_string(left) + " bytes, at offset " +
                            std::to_string(file.size() - left) + ", are less than a record of " +
                            std::to_string(size) + " bytes");
}

FEEDLINE_INLINE std::vector<std::byte> read_bytes::operator()(const std::byte* record,
                                                              std::size_t size) const {
  return {record, record + size};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

// SPDX-License-Identifier: MIT
#pragma once
// records: a source of the fixed-size records of binary files.
#include <cstring>

#include <feedline/core/contract.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

std::runtime_error no_whole_record(const mapped_file& file, std::size_t size);

template <class Read>
class indexed_records;

/// Reads the records of files in order. Read converts the bytes of a record to a value.
template <class Read>
class records_source {
 public:
  using feedline_rows = void;
  static constexpr source_traits traits{.kind = "records", .splits_files_by_rank = true};
  using value = std::invoke_result_t<const Read&, const std::byte*, std::size_t>;

  records_source(const file_patterns& files, std::size_t size) : files_(files, traits.kind), size_(size) {
    if (size == 0) throw std::invalid_argument("feedline::records: the record size must be at least 1 byte");
    refuse_negative(size, "feedline::records: the record size");
  }

  void start_epoch(const epoch& e) {
    files_.start(e);
    ahead_ = {};
  }

  std::optional<value> next() {
    for (;;) {
      if (!file_) {
        const auto number = files_.next();
        if (!number) return std::nullopt;
        number_ = *number;
        file_ = ahead_.open(files_, number_);
        at_ = offset_of(std::exchange(first_, 0));
      }
      const std::size_t left = file_->bytes().size() - at_;
      if (left >= size_) {
        ahead_.announce(files_, file_, at_);
        const std::byte* const record = file_->bytes().data() + at_;
        index_ = file_order::index_of(number_, at_ / size_);
        at_ += size_;
        return Read()(record, size_);
      }
      const auto file = std::exchange(file_, nullptr);
      at_ = closed;
      if (left > 0) throw no_whole_record(*file, size_);
    }
  }

  /// Copies the next records of a file, whose indices count up, up to the end of the target; returns how many. 0: next() finds
  /// the next record, or an error.
  std::size_t next_row(std::span<value> target)
    requires requires { typename Read::copies_bytes; }
  {
    const std::size_t left = file_ ? (file_->bytes().size() - at_) / size_ : 0;
    const std::size_t count = std::min(left, target.size());
    if (count == 0) return 0;
    ahead_.announce(files_, file_, at_);
    std::memcpy(target.data(), file_->bytes().data() + at_, count * size_);
    at_ += count * size_;
    index_ = file_order::index_of(number_, at_ / size_ - 1);
    return count;
  }

  std::uint64_t index() const noexcept { return index_; }

  void state(auto& archive) {
    files_.state(archive);
    archive(at_);
  }

  void resumed() {
    if (at_ == closed) return;
    number_ = files_.last();
    file_ = files_.map_last(at_);
  }

  void seek(std::uint64_t index) {
    const std::size_t number = file_order::file_of(index);
    const std::uint64_t record = file_order::place_of(index);
    if (file_ && number_ == number) {
      at_ = offset_of(record);
    } else {
      files_.go_to(number);
      file_.reset();
      at_ = closed;
      first_ = record;
    }
  }

  /// The files and their order in this epoch.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return key(files_.fingerprint(extent), size_); }

  std::string parameters() const
    requires(!requires { typename Read::copies_bytes; })
  {
    return "the size of records: " + size_text(size_);
  }

  std::optional<std::size_t> max_item_bytes() const noexcept { return sizeof(value) + size_; }

  indexed_records<Read> indexed() const {
    files_.expect_files();
    return {files_, size_};
  }

  std::string origin(std::uint64_t index) const {
    return readable(files_.name_of(index)) + ": record " + std::to_string(file_order::place_of(index));
  }

 private:
  static constexpr std::size_t closed = ~std::size_t{0};

  std::size_t offset_of(std::uint64_t record) const noexcept {
    return static_cast<std::size_t>(std::min<std::uint64_t>(record, file_->bytes().size() / size_)) * size_;
  }

  file_order files_;
  std::size_t size_;
  std::shared_ptr<const mapped_file> file_;
  read_ahead ahead_;
  std::size_t number_ = 0;
  std::size_t at_ = closed; // offset in the file
  std::uint64_t first_ = 0; // the record at which reading of the next file starts
  std::uint64_t index_ = 0;
};

/// Access to the records of files by position, counted over all files. An incomplete record at a file's end
/// has a position as well; reading it throws. A file is mapped when it is first needed.
template <class Read>
class indexed_records : public places_in_files {
 public:
  using value = std::invoke_result_t<const Read&, const std::byte*, std::size_t>;

  /// Throws std::system_error for a file whose size can't be read.
  indexed_records(const file_order& files, std::size_t size)
      : size_(size), maps_(std::make_shared<lazy_maps>(files.names())) {
    for (const std::string& name : files.names()) add_file(places_of(name, size));
  }

  /// A file that isn't a regular file has one position; reading it throws.
  static std::uint64_t places_of(const std::string& name, std::size_t size) {
    const auto known = size_of_regular_file(name);
    if (!known) return 1;
    const std::uint64_t bytes = *known > 0 ? *known : mapped_file(name).bytes().size(); // 0 in /proc
    return bytes / size + (bytes % size != 0);
  }

  value at(std::uint64_t position) const {
    const std::size_t number = file_of(position);
    const auto file = maps_->at(number);
    const auto bytes = file->bytes();
    const std::uint64_t record = position - first_of(number);
    if (record < bytes.size() / size_) return Read()(bytes.data() + record * size_, size_);
    if (record == bytes.size() / size_ && bytes.size() % size_ != 0) throw no_whole_record(*file, size_);
    throw std::runtime_error(readable(file->path()) + " has become shorter since it was listed");
  }

  /// Has the system start to read a record that isn't in memory.
  bool will_need(std::uint64_t position) const noexcept {
    const std::size_t number = file_of(position);
    return maps_->will_need_few(number, (position - first_of(number)) * size_, size_);
  }

 private:
  std::size_t size_;
  std::shared_ptr<lazy_maps> maps_;
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
  using source = detail::records_source<detail::read_as<T>>;
  return detail::as_pipeline(source(files, sizeof(T)));
}

/// The same for records whose size in bytes is known at run time; yields std::vector<std::byte>.
inline auto records(const file_patterns& files, std::size_t size) {
  using source = detail::records_source<detail::read_bytes>;
  return detail::as_pipeline(source(files, size));
}

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
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
#endif

// SPDX-License-Identifier: MIT
#pragma once
// records: binary files of records that are all of one size.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/pipeline.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>

namespace feedline::inline v0 {

namespace detail {

inline std::runtime_error no_whole_record(const mapped_file& file, std::size_t size) {
  const std::size_t left = file.bytes().size() % size;
  return std::runtime_error(readable(file.path()) + ": " + std::to_string(left) + " bytes at offset " +
                            std::to_string(file.bytes().size() - left) + " are no whole record of " +
                            std::to_string(size));
}

template <class Read>
class indexed_records;

/// Goes through the records of files. Read makes a value of a record's bytes.
template <class Read>
class records_source {
 public:
  static constexpr source_traits traits{.kind = "records", .shares_files = true};
  using value = std::invoke_result_t<const Read&, const std::byte*, std::size_t>;

  records_source(const std::vector<std::string>& patterns, std::size_t size)
      : files_(patterns, traits.kind), size_(size) {
    if (size == 0) throw std::invalid_argument("feedline::records: a record needs at least one byte");
    refuse_negative(size, "feedline::records: the size of a record");
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

  void go_near(std::uint64_t index) {
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

  /// In which order its files come.
  const file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return key(files_.fingerprint(extent), size_); }

  std::optional<std::size_t> largest_item() const noexcept { return sizeof(value) + size_; }

  indexed_records<Read> indexed() const { return {files_, size_}; }

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
  std::size_t at_ = closed; // in the file
  std::uint64_t first_ = 0; // record at which the next file begins
  std::uint64_t index_ = 0;
};

/// The records of files by their place, counted over all files; bytes at a file's end that are no whole
/// record have a place as well, at which they are refused. Files are mapped when they are first needed.
template <class Read>
class indexed_records {
 public:
  using value = std::invoke_result_t<const Read&, const std::byte*, std::size_t>;

  /// Throws std::system_error for a file that can't be asked for its size.
  indexed_records(const file_order& files, std::size_t size) : files_(files), size_(size) {
    for (const std::string& name : files_.names()) places_.add_file(places_of(name, size));
    maps_ = std::make_shared<lazy_maps>(files_.names());
  }

  /// What is no regular file has one place, at which it is refused.
  static std::uint64_t places_of(const std::string& name, std::size_t size) {
    const auto known = size_of_regular_file(name);
    if (!known) return 1;
    const std::uint64_t bytes = *known > 0 ? *known : mapped_file(name).bytes().size(); // as in /proc
    return bytes / size + (bytes % size != 0);
  }

  std::uint64_t size() const noexcept { return places_.size(); }

  value at(std::uint64_t place) const {
    const std::size_t number = places_.file_of(place);
    const auto file = maps_->at(number);
    const auto bytes = file->bytes();
    const std::uint64_t record = place - places_.first_of(number);
    if (record < bytes.size() / size_) return Read()(bytes.data() + record * size_, size_);
    if (record == bytes.size() / size_ && bytes.size() % size_ != 0) throw no_whole_record(*file, size_);
    throw std::runtime_error(readable(file->path()) + " has become shorter");
  }

  std::uint64_t index_at(std::uint64_t place) const { return places_.index_at(place); }

  std::optional<std::uint64_t> find(std::uint64_t index) const { return places_.find(index); }

  std::uint64_t size_of_first(std::uint64_t files) const { return places_.size_of_first(files); }

 private:
  file_order files_;
  std::size_t size_;
  places_in_files places_;
  std::shared_ptr<lazy_maps> maps_;
};

template <class T>
struct read_as {
  T operator()(const std::byte* record, std::size_t) const {
    T value;
    std::memcpy(&value, record, sizeof(T));
    return value;
  }
};

struct read_bytes {
  std::vector<std::byte> operator()(const std::byte* record, std::size_t size) const {
    return {record, record + size};
  }
};

} // namespace detail

/// A source of the records of binary files, as values of a type that is copied byte by byte: numbers in the
/// machine's own byte order, or plain structs of them without references.
///
/// Takes:   names of files, each of which may be a pattern: `games/*.bin`
/// Gives:   T for each sizeof(T) bytes. The index of a record is `number of its file << 40 | record in the
///          file`
/// Order:   file by file as listed; in infinite mode, and with several epochs, files in a new order in each
///          epoch
/// Throws:  at once std::invalid_argument for an empty list and std::runtime_error for wildcards that match
///          nothing; std::runtime_error for a file whose end is no whole record, behind its last whole one;
///          std::system_error for a file that can't be read, in its place (then comes the next file)
/// Example: `records<position>({"games/*.bin"}) | shuffle({.capacity = 1'000'000}) | batch(4096)`
template <class T>
  requires std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>
auto records(const std::vector<std::string>& patterns) {
  using source = detail::records_source<detail::read_as<T>>;
  return detail::as_pipeline(source(patterns, sizeof(T)));
}

/// The same for records of a size known at run time, in bytes; gives std::vector<std::byte>.
inline auto records(const std::vector<std::string>& patterns, std::size_t size) {
  using source = detail::records_source<detail::read_bytes>;
  return detail::as_pipeline(source(patterns, size));
}

} // namespace feedline::inline v0

// SPDX-License-Identifier: MIT
#pragma once
// chunk_file: a file as one chunk, or a TAR file as one chunk per member.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <feedline/detail/file_state.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

class file_cache;
struct opened_file;

/// Keeps up to `max_files` files open between reads of their chunks.
std::shared_ptr<file_cache> make_file_cache(std::size_t max_files);

} // namespace detail

/// The chunks of bytes in a file: one per member if its name ends with `.tar`, else the whole file. Directories, links,
/// hidden members (see tar_options::hidden) and members named LICENSE in a TAR file are left out.
///
/// index() finds the chunks; read() opens the file. A file that was changed or removed between the two is an error. Any
/// thread may call any member function but index().
class chunk_file {
 public:
  /// The chunks of a file that is opened for each read. A chunk may have any size.
  explicit chunk_file(std::string path);

  /// TAR files stay open between reads in `files`, which several objects share. `max_size`: the most bytes of a chunk.
  chunk_file(std::string path, std::shared_ptr<detail::file_cache> files, std::uint64_t max_size);

  /// Moves the file and its chunks; not while another thread reads.
  chunk_file(chunk_file&& other) noexcept;

  chunk_file& operator=(chunk_file&&) = delete;

  ~chunk_file();

  /// Finds the chunks; of a TAR file it reads only the headers. Throws std::system_error, whose what() is
  /// "PATH: REASON", or std::runtime_error if it isn't a regular file.
  void index(std::stop_token stop = {});

  /// The parts of a TAR file that index() could not read; empty if it is intact.
  const std::string& problem() const noexcept { return problem_; }

  /// The path of the file.
  const std::string& path() const noexcept { return path_; }

  /// The number of chunks; 0 before index().
  std::uint64_t size() const noexcept;

  /// The key of a chunk: "games/0001.tar/17.gz", or the path.
  std::string key(std::uint64_t i) const;

  /// The size of a chunk in bytes.
  std::uint64_t bytes(std::uint64_t i) const;

  /// Returns the bytes of a chunk. Throws std::system_error if the file can't be opened; std::runtime_error if it has
  /// changed since it was indexed or is cut off, or if the chunk is too large; std::out_of_range if there is no chunk i.
  std::vector<std::byte> read(std::uint64_t i) const;

  /// Whether a read() did not find the file: it was removed, or it or its directory was renamed.
  bool is_gone() const noexcept { return is_gone_.load(std::memory_order_relaxed); }

  /// Finds out whether a file that was gone is back, unchanged.
  void look_again() const noexcept;

 private:
  struct place {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t name_end; // in `names`; it begins where the previous one ends
  };

  struct members;

  bool is_tar() const noexcept;

  const place& place_of(std::uint64_t i) const;

  std::string_view name_of(std::uint64_t i) const;

  void index_tar(std::stop_token stop);

  std::vector<std::byte> read(const detail::opened_file& opened, std::uint64_t i) const;

  std::string path_;
  std::shared_ptr<detail::file_cache> files_;
  std::uint64_t max_size_ = ~std::uint64_t{0};
  std::optional<detail::file_state> state_; // when it was indexed
  std::shared_ptr<members> members_;        // of a TAR file
  std::string problem_;
  mutable std::atomic<bool> is_gone_ = false;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_WINDOW)
#include <algorithm>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/window/detail/file_cache.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// The headers of a TAR archive on disk, for basic_stream_archive. A file that becomes shorter in the meantime counts
/// as cut off; after a stop, reads find the end of the archive.
struct headers_on_disk {
  static constexpr bool headers_only = true;

  std::size_t read(std::byte* to, std::size_t count) {
    if (stop.stop_requested()) return 0;
    const std::size_t got = file.read(to, std::min<std::uint64_t>(count, size - at), at);
    at += got;
    return got;
  }

  std::uint64_t skip(std::uint64_t count) noexcept {
    const std::uint64_t skipped = std::min(count, size - at);
    at += skipped;
    return skipped;
  }

  const std::string& problem() const noexcept { return none; }

  const open_file& file;
  std::uint64_t size;
  std::stop_token stop;
  std::uint64_t at = 0; // <= size
  std::string none{};
};

} // namespace detail

FEEDLINE_INLINE std::shared_ptr<detail::file_cache> detail::make_file_cache(std::size_t max_files) {
  return std::make_shared<file_cache>(max_files);
}

struct chunk_file::members {
  std::vector<place> places;
  std::string names;
};

FEEDLINE_INLINE chunk_file::chunk_file(std::string path) : path_(std::move(path)) {}

FEEDLINE_INLINE chunk_file::chunk_file(std::string path, std::shared_ptr<detail::file_cache> files,
                                       std::uint64_t max_size)
    : path_(std::move(path)), files_(std::move(files)), max_size_(max_size) {}

FEEDLINE_INLINE chunk_file::chunk_file(chunk_file&& other) noexcept
    : path_(std::move(other.path_)),
      files_(std::move(other.files_)),
      max_size_(other.max_size_),
      state_(other.state_),
      members_(std::move(other.members_)),
      problem_(std::move(other.problem_)),
      is_gone_(other.is_gone()) {
  if (files_) files_->forget(&other); // the cache identifies it by its address
}

FEEDLINE_INLINE chunk_file::~chunk_file() {
  if (files_ && members_) files_->forget(this);
}

FEEDLINE_INLINE void chunk_file::index(std::stop_token stop) {
  if (is_tar()) index_tar(std::move(stop));
  else state_ = detail::opened_file::state_of(path_);
}

FEEDLINE_INLINE std::uint64_t chunk_file::size() const noexcept {
  if (!state_) return 0;
  return members_ ? members_->places.size() : 1;
}

FEEDLINE_INLINE std::string chunk_file::key(std::uint64_t i) const {
  return members_ ? path_ + "/" + std::string(name_of(i)) : path_;
}

FEEDLINE_INLINE std::uint64_t chunk_file::bytes(std::uint64_t i) const {
  return members_ ? place_of(i).size : state_.value().size;
}

FEEDLINE_INLINE std::vector<std::byte> chunk_file::read(std::uint64_t i) const {
  if (i >= size())
    throw std::out_of_range(detail::readable(path_) + " has no chunk " + std::to_string(i) + ": there are " +
                            std::to_string(size()));
  const std::uint64_t count = bytes(i);
  if (count > max_size_)
    throw std::runtime_error(detail::readable(key(i)) + " has " + std::to_string(count) +
                             " bytes, more than the " + std::to_string(max_size_) +
                             " that a chunk may have (max_chunk_bytes)");
  try {
    if (!members_ || !files_) return read(detail::opened_file::at(path_), i);
    return read(*files_->get(this, path_), i);
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::no_such_file_or_directory) is_gone_.store(true, std::memory_order_relaxed);
    throw;
  }
}

FEEDLINE_INLINE void chunk_file::look_again() const noexcept {
  try {
    if (is_gone() && detail::opened_file::state_of(path_) == state_)
      is_gone_.store(false, std::memory_order_relaxed);
  } catch (const std::exception&) { // it is still gone
  }
}

FEEDLINE_INLINE bool chunk_file::is_tar() const noexcept { return path_.ends_with(".tar"); }

FEEDLINE_INLINE const chunk_file::place& chunk_file::place_of(std::uint64_t i) const {
  return members_->places.at(static_cast<std::size_t>(i));
}

FEEDLINE_INLINE std::string_view chunk_file::name_of(std::uint64_t i) const {
  const std::uint64_t begin = i > 0 ? place_of(i - 1).name_end : 0;
  return std::string_view(members_->names)
      .substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(place_of(i).name_end - begin));
}

FEEDLINE_INLINE void chunk_file::index_tar(std::stop_token stop) {
  const detail::opened_file opened = detail::opened_file::at(path_);
  auto found = std::make_shared<members>();
  constexpr std::size_t max_header_bytes = 1 << 20; // of a member
  detail::basic_stream_archive<detail::headers_on_disk> headers(
      {opened.file, opened.state.size, std::move(stop)}, max_header_bytes);
  detail::tar_reader reader(headers);
  reader.look_for_more();
  std::uint64_t problems = 0;
  detail::tar_member member;
  for (;;) {
    const detail::tar_status status = reader.next(member);
    if (status == detail::tar_status::end) break;
    if (status == detail::tar_status::link) continue;
    if (status != detail::tar_status::member) {
      if (++problems == 1) problem_ = detail::readable(path_) + ": " + reader.problem();
      continue;
    }
    const std::string name = member.full_name();
    if (detail::last_name(name) == "LICENSE") continue;
    found->names += name;
    found->places.push_back({member.contents, member.size, found->names.size()});
  }
  if (!reader.further().empty() && ++problems == 1)
    problem_ = detail::readable(path_) + ": " + reader.further() + ", which isn't read";
  if (problems > 1) problem_ += " (and " + std::to_string(problems - 1) + " more)";
  members_ = std::move(found);
  state_ = opened.state;
}

FEEDLINE_INLINE std::vector<std::byte> chunk_file::read(const detail::opened_file& opened,
                                                        std::uint64_t i) const {
  if (opened.state != state_)
    throw std::runtime_error(detail::readable(path_) + " has changed since it was indexed");
  const std::uint64_t offset = members_ ? place_of(i).offset : 0;
  std::vector<std::byte> contents(static_cast<std::size_t>(bytes(i)));
  const std::size_t got = opened.file.read(contents.data(), contents.size(), offset);
  if (got < contents.size())
    throw std::runtime_error(detail::readable(key(i)) + " is cut off: it had " +
                             std::to_string(contents.size()) + " bytes, but only " + std::to_string(got) +
                             " can be read");
  return contents;
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

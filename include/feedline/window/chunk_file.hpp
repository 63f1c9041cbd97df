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

#ifndef FEEDLINE_COMPILED
#include <feedline/window/chunk_file.ipp>
#endif

// SPDX-License-Identifier: MIT
#pragma once
// chunk_file: a file as one chunk, or a TAR file as one chunk for each member.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/file_cache.hpp>
#include <feedline/source/detail/tar_on_disk.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0 {

/// Chunks of bytes in a file: those of its members if its name ends with `.tar`, else all of it. Of a TAR file
/// directories, links, `._*` and members that are called LICENSE are left out.
///
/// index() looks what is in the file; read() opens it when it is needed. A file that was changed in between, or is gone,
/// is an error. Of the others all but index() may be called from any thread.
class chunk_file {
 public:
  explicit chunk_file(std::string path) : path_(std::move(path)) {}

  /// TAR files stay open between reads in a cache that several share. `max_size`: the most bytes of a chunk.
  chunk_file(std::string path, std::shared_ptr<detail::file_cache> files, std::uint64_t max_size)
      : path_(std::move(path)), files_(std::move(files)), max_size_(max_size) {}

  chunk_file(chunk_file&& other) noexcept
      : path_(std::move(other.path_)),
        files_(std::move(other.files_)),
        max_size_(other.max_size_),
        state_(other.state_),
        members_(std::move(other.members_)),
        problem_(std::move(other.problem_)) {
    if (files_) files_->forget(&other); // which knows it by its address
  }

  chunk_file& operator=(chunk_file&&) = delete;

  ~chunk_file() {
    if (files_ && members_) files_->forget(this);
  }

  /// Finds the chunks; of a TAR file only the headers are read. Throws std::system_error, whose what() is
  /// "PATH: REASON", or std::runtime_error for what is no regular file.
  void index(std::stop_token stop = {}) {
    if (is_tar()) index_tar(std::move(stop));
    else state_ = detail::opened_file::state_of(path_);
  }

  /// What of a TAR file could not be read; empty if it is whole.
  const std::string& problem() const noexcept { return problem_; }

  const std::string& path() const noexcept { return path_; }

  std::uint64_t size() const noexcept {
    if (!state_) return 0;
    return members_ ? members_->places.size() : 1;
  }

  /// "games/0001.tar/17.gz", or the path.
  std::string key(std::uint64_t i) const { return members_ ? path_ + "/" + std::string(name_of(i)) : path_; }

  /// How many bytes a chunk has.
  std::uint64_t bytes(std::uint64_t i) const { return members_ ? place_of(i).size : state_.value().size; }

  /// Throws std::system_error for a file that can't be opened, std::runtime_error for one that has changed since it
  /// was indexed, and for a chunk that is too large.
  std::vector<std::byte> read(std::uint64_t i) const {
    if (i >= size())
      throw std::out_of_range(detail::readable(path_) + " has no chunk " + std::to_string(i) +
                              ": there are " + std::to_string(size()));
    const std::uint64_t count = bytes(i);
    if (count > max_size_)
      throw std::runtime_error(detail::readable(key(i)) + " has " + std::to_string(count) +
                               " bytes, more than the " + std::to_string(max_size_) +
                               " that a chunk may have (max_chunk_size)");
    if (!members_ || !files_) return read(detail::opened_file::at(path_), i);
    return read(*files_->get(this, path_), i);
  }

 private:
  struct place {
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t name_end; // in `names`, where it begins behind the one before
  };

  struct members {
    std::vector<place> places;
    std::string names;
  };

  bool is_tar() const noexcept { return path_.ends_with(".tar"); }

  const place& place_of(std::uint64_t i) const { return members_->places.at(static_cast<std::size_t>(i)); }

  std::string_view name_of(std::uint64_t i) const {
    const std::uint64_t begin = i > 0 ? place_of(i - 1).name_end : 0;
    return std::string_view(members_->names)
        .substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(place_of(i).name_end - begin));
  }

  void index_tar(std::stop_token stop) {
    const detail::opened_file opened = detail::opened_file::at(path_);
    auto found = std::make_unique<members>();
    detail::basic_tar_reader reader(detail::tar_on_disk(opened.file, opened.state.size, std::move(stop)));
    std::uint64_t problems = 0;
    detail::tar_member member;
    for (;;) {
      const detail::tar_status status = reader.next(member);
      if (status == detail::tar_status::end) break;
      if (status != detail::tar_status::member) {
        if (++problems == 1) problem_ = detail::readable(path_) + ": " + reader.problem();
        continue;
      }
      const std::string name = member.full_name();
      if (detail::last_name(name) == "LICENSE") continue;
      found->names += name;
      found->places.push_back({member.contents, member.size, found->names.size()});
    }
    if (problems > 1) problem_ += " (and " + std::to_string(problems - 1) + " more)";
    members_ = std::move(found);
    state_ = opened.state;
  }

  std::vector<std::byte> read(const detail::opened_file& opened, std::uint64_t i) const {
    if (opened.state != state_)
      throw std::runtime_error(detail::readable(path_) + " has changed since it was indexed");
    const std::uint64_t offset = members_ ? place_of(i).offset : 0;
    std::vector<std::byte> contents(static_cast<std::size_t>(bytes(i)));
    const std::size_t got = opened.file.read(contents.data(), contents.size(), offset);
    if (got < contents.size())
      throw std::runtime_error(detail::readable(key(i)) + " is cut off: it had " +
                               std::to_string(contents.size()) + " bytes, of which " + std::to_string(got) +
                               " can be read");
    return contents;
  }

  std::string path_;
  std::shared_ptr<detail::file_cache> files_;
  std::uint64_t max_size_ = ~std::uint64_t{0};
  std::optional<detail::file_state> state_; // when it was indexed
  std::unique_ptr<members> members_;        // of a TAR file
  std::string problem_;
};

} // namespace feedline::inline v0

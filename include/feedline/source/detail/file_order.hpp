// SPDX-License-Identifier: MIT
#pragma once
// The files of a source: their order in an epoch, and the indices of their samples.
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class mapped_file;

/// Lists files once, and goes through them in listed order or, in a shuffled epoch, in a keyed random order.
/// A sample's index is `number of its file << 40 | position in the file`, files counted in listed order.
class file_order {
 public:
  /// Throws std::invalid_argument for an empty list, an empty name and a file that is listed twice,
  /// std::runtime_error for wildcards that match nothing, std::system_error for a directory that can't be
  /// listed, std::length_error for more than 2^24 files. what() of the first two contains `source`.
  file_order(const file_patterns& files, const char* source);

  /// The names of files and other things: `append(names, pattern)` adds those that a pattern names, and
  /// `shown(name)` is a name or a pattern for messages. Throws as the constructor does.
  static std::vector<std::string>
  list(const file_patterns& files, const char* source,
       function_ref<void(std::vector<std::string>& names, const std::string& pattern)> append,
       function_ref<std::string(const std::string& name)> shown);

  /// Files that were listed before. `objects`: which of them aren't files on this machine; empty: none.
  file_order(std::vector<std::string> names, const char* source, const std::vector<bool>& objects = {});

  /// Throws std::system_error if one of this rank's files has never existed, and std::runtime_error if one is a directory.
  /// Files that were removed after they were listed are errors when the source reaches them.
  void start(const epoch& e);

  /// Throws the same for all files.
  void expect_files() const;

  /// Advances to the next file and returns its number; nothing after the last one.
  std::optional<std::size_t> next();

  /// The file after `skipping` further ones; doesn't advance.
  std::optional<std::size_t> peek(std::size_t skipping = 0) const;

  /// Makes this file the next and last one.
  void go_to(std::size_t file);

  void state(auto& archive) { archive(reached_); }

  /// The file that next() returned last, in a resumed run.
  std::size_t last() const;

  /// Maps that file, in which the run continues at an offset.
  std::shared_ptr<const mapped_file> map_last(std::size_t offset) const;

  std::uint64_t extent() const noexcept;

  /// A hash of the first `extent` files as listed: of the last part of each name, and of the file's size,
  /// beginning and end.
  std::uint64_t fingerprint(std::uint64_t extent) const;

  const std::vector<std::string>& names() const noexcept;

  static std::uint64_t index_of(std::size_t file, std::uint64_t place) noexcept {
    return std::uint64_t{file} << place_bits | place;
  }

  static std::size_t file_of(std::uint64_t index) noexcept {
    return static_cast<std::size_t>(index >> place_bits);
  }

  static std::uint64_t place_of(std::uint64_t index) noexcept {
    return index & ((std::uint64_t{1} << place_bits) - 1);
  }

  /// A sample's origin: `name`, or, if that is empty, "photos-0003.tar: sample #17".
  std::string origin_of(std::uint64_t index, std::string name) const;

  /// The name of the file that contains a sample; empty if no file has this index.
  std::string name_of(std::uint64_t index) const;

 private:
  static constexpr unsigned place_bits = 40;

  struct listing {
    std::vector<std::string> names;
    std::vector<std::uint32_t> unfit; // those that didn't exist or were directories
    const char* source;
  };

  enum class file_type { missing, directory, other };

  // Throws std::invalid_argument if a name is listed twice, also with extra slashes or `./` if it isn't a URL.
  static void refuse_doubles(const std::vector<std::string>& names,
                             function_ref<std::string(const std::string& name)> shown);

  static file_type type_of(const std::string& name) noexcept;

  // Throws if one of these files, which were unfit, still is.
  void refuse_unfit(const std::vector<std::uint32_t>& files) const;

  std::shared_ptr<const listing> list_;
  std::vector<std::uint32_t> order_; // empty: as listed
  std::size_t reached_ = 0;
  std::size_t end_ = 0; // number of files in this epoch
};

/// Limits the size of a TAR shard, so that a position fits into the 40 bits that an index has for it.
constexpr bool has_too_many_blocks(std::uint64_t bytes) noexcept { return bytes >> 49 != 0; }

inline constexpr const char* too_many_blocks = "has more than 2^40 blocks: split the shard";

/// A source that reads files one after another. After `seek(index)` it yields only samples of that file.
template <class S>
concept file_source = source<S> && requires(S& s, const S& described, std::uint64_t index) {
  { described.files() } -> std::same_as<const file_order&>;
  s.seek(index);
};

/// A base of what gives access to samples by position, counted over all files in listed order: it converts between
/// positions, and files and indices.
class places_in_files {
 public:
  std::uint64_t size() const noexcept { return firsts_.back(); }

  std::uint64_t index_at(std::uint64_t place) const {
    const std::size_t file = file_of(place);
    return file_order::index_of(file, place - firsts_[file]);
  }

  /// The position of the sample with this index, if there is one.
  std::optional<std::uint64_t> find(std::uint64_t index) const {
    const std::size_t file = file_order::file_of(index);
    if (file + 1 >= firsts_.size()) return {};
    const std::uint64_t position = file_order::place_of(index);
    if (position >= firsts_[file + 1] - firsts_[file]) return {};
    return firsts_[file] + position;
  }

  /// How many samples the first `files` files have.
  std::uint64_t size_of_first(std::uint64_t files) const {
    return firsts_[static_cast<std::size_t>(std::min<std::uint64_t>(files, firsts_.size() - 1))];
  }

 protected:
  /// Adds a file with this many samples.
  void add_file(std::uint64_t samples);

  std::size_t file_of(std::uint64_t place) const {
    return static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), place) -
                                    firsts_.begin()) -
           1;
  }

  /// The position of a file's first sample.
  std::uint64_t first_of(std::size_t file) const { return firsts_[file]; }

 private:
  std::vector<std::uint64_t> firsts_{0}; // first position of each file; then the total
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/file_order.ipp>
#endif

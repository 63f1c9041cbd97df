// SPDX-License-Identifier: MIT
#pragma once
// Samples from TAR shards in the WebDataset convention, as views of the mapped files.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0 {

struct tar_options {
  /// Where samples must be found by their place (see shuffled()): keeps what was found of each shard beside it,
  /// as SHARD.index, as long as the shard's size and time stay the same. Nothing is said if it can't be written.
  bool keep_index = false;
};

namespace detail {

/// Maps shards, and has the system read them ahead.
class mapped_shards {
 public:
  using shard = tar_shard;

  void start(const epoch&) { ahead_ = {}; }

  std::unique_ptr<shard> open(const file_order& files, std::size_t number) {
    file_ = ahead_.take(number);
    if (!file_) file_ = tar_shard::map(files.names()[number]);
    return std::make_unique<shard>(file_);
  }

  void gave_sample(const file_order& files, const shard& from) {
    ahead_.announce(files, file_, from.begin());
  }

  static bool is_stopped() noexcept { return false; } // what is mapped is there

 private:
  std::shared_ptr<const mapped_file> file_; // of the shard that was opened last
  read_ahead ahead_;
};

} // namespace detail

/// A source of the samples of TAR shards, one shard after another; in a shuffled epoch the shards come in an
/// order of its own, the samples of each in the shard's.
///
/// Takes:   names of shards, each of which may be a pattern: `data/train-*.tar` (see glob(3); sorted),
///          `train-{0000..0146}.tar`, `{a,b}.tar`; a file of exactly that name is preferred.
/// Gives:   tar_sample. index() is `shard << 40 | place in the shard`, shards counted in listed order.
/// Skips:   directories, links, devices, `._*` and members of unknown types.
/// Throws:  the constructor std::invalid_argument for an empty list, std::runtime_error for wildcards that
///          match nothing and std::length_error for more than 2^24 shards. next() throws tar_error, each in its place, and then goes on:
///         - for a shard that can't be opened or isn't plain TAR: with the next shard;
///         - for a sample with a sparse member or with two of the same name: with the next sample;
///         - for a damaged or cut off shard, once all that was complete before has come: with the next shard.
///
///          What is lost this way has an index as well. A shard that ends at a member's end, but without the
///          zeros that close an archive, passes as complete; one that ends inside a block, be it of padding, is
///          cut off.
/// Example: `tar_samples("photos-*.tar") | map([](const tar_sample& s) { return decode(s["jpg"]); })`
///
/// Shards are opened when they are reached, and mapped: don't shorten one in place meanwhile (SIGBUS).
class tar_samples : public detail::tar_in_order<detail::mapped_shards> {
 public:
  static constexpr source_traits traits{.kind = "tar_samples", .shares_files = true};

  explicit tar_samples(const std::string& pattern, tar_options options = {})
      : tar_samples(std::vector{pattern}, options) {}

  explicit tar_samples(const char* pattern, tar_options options = {})
      : tar_samples(std::string(pattern), options) {}

  tar_samples(std::initializer_list<const char*> patterns, tar_options options = {})
      : tar_samples(std::vector<std::string>(patterns.begin(), patterns.end()), options) {}

  explicit tar_samples(const std::vector<std::string>& patterns, tar_options options = {})
      : tar_in_order(detail::file_order(patterns, traits.kind), {}), options_(options) {}

  /// The samples by their place, after a pass over the headers of all shards.
  detail::indexed_tar indexed() const { return {files(), options_.keep_index}; }

  /// "photos-0003.tar: dir/17.jpg, .cls", found by reading the shard's headers again; "photos-0003.tar:
  /// sample #17" if that fails.
  std::string origin(std::uint64_t index) const {
    return files().origin_of(index, names_->at(files().name_of(index), detail::file_order::place_of(index)));
  }

 private:
  tar_options options_;
  std::shared_ptr<detail::tar_names> names_ = std::make_shared<detail::tar_names>();
};

} // namespace feedline::inline v0

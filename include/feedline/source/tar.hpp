// SPDX-License-Identifier: MIT
#pragma once
// tar_samples: a source of samples from TAR shards in the WebDataset convention, as views of mapped files.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0 {

/// Options of tar_samples.
struct tar_options {
  /// For access by position (see global_shuffle()): saves the index of each shard next to it, as SHARD.index,
  /// and reuses it as long as the shard's size and time stay the same. A failure to write it is ignored.
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

  void yielded_sample(const file_order& files, const shard& from) {
    ahead_.announce(files, file_, from.begin());
  }

  static bool is_stopped() noexcept { return false; } // a stop doesn't cut off a mapped shard

 private:
  std::shared_ptr<const mapped_file> file_; // the shard that was opened last
  read_ahead ahead_;
};

} // namespace detail

/// Reads the samples of TAR shards, one shard after another. Each shuffled epoch has a new order of shards;
/// the samples of a shard keep their order.
///
/// Takes:   names of shards; each may be a pattern: `data/train-*.tar` (see glob(3); sorted),
///          `train-{0000..0146}.tar`, `{a,b}.tar`; a file of exactly that name takes precedence.
/// Gives:   tar_sample. index() is `shard << 40 | position in the shard`, shards counted in listed order.
/// Skips:   directories, links, devices, `._*` and members of unknown types.
/// Throws:  the constructor std::invalid_argument for an empty list and a shard that is listed twice (two patterns may
///          match it; a link with another name is another shard), std::runtime_error for wildcards that
///          match nothing and std::length_error for more than 2^24 shards. next() throws tar_error when it
///          reaches one of these, and then continues:
///         - a shard that can't be opened or isn't plain TAR: with the next shard;
///         - a sample with a sparse member or with two members of the same name: with the next sample;
///         - damage, or an end that is cut off, after all samples that were complete before: with the next
///           shard.
///
///          A failed sample or shard has an index as well. A shard that ends after a member, but without the
///          zeros that close an archive, counts as complete; one that ends inside a block, even of padding,
///          is cut off.
/// Example: `tar_samples("photos-*.tar") | map([](const tar_sample& s) { return decode(s["jpg"]); })`
///
/// A shard is opened and mapped when it is reached: don't shorten it in place during a run (SIGBUS).
class tar_samples : public detail::tar_in_order<detail::mapped_shards> {
 public:
  static constexpr source_traits traits{.kind = "tar_samples", .splits_files_by_rank = true};

  /// Without this, one name in braces could also be a source that is copied.
  tar_samples(std::initializer_list<std::string> shards, tar_options options = {})
      : tar_samples(file_patterns(shards), options) {}

  /// The samples of all shards whose names match.
  explicit tar_samples(const file_patterns& shards, tar_options options = {})
      : tar_in_order(detail::file_order(shards, traits.kind), {}), options_(options) {}

  /// Access to the samples by position; reads the headers of all shards.
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

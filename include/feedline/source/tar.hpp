// SPDX-License-Identifier: MIT
#pragma once
// Samples from TAR shards in the WebDataset convention, as views of the mapped files.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0 {

struct tar_options {
  /// Where samples must be found by their place (see shuffled()): keeps what was found of each shard beside it,
  /// as SHARD.index, as long as the shard's size and time stay the same. Nothing is said if it can't be written.
  bool keep_index = false;
};

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
class tar_samples {
 public:
  static constexpr source_traits traits{.kind = "tar_samples", .shares_files = true};

  explicit tar_samples(const std::string& pattern, tar_options options = {})
      : tar_samples(std::vector{pattern}, options) {}

  explicit tar_samples(const char* pattern, tar_options options = {})
      : tar_samples(std::string(pattern), options) {}

  tar_samples(std::initializer_list<const char*> patterns, tar_options options = {})
      : tar_samples(std::vector<std::string>(patterns.begin(), patterns.end()), options) {}

  explicit tar_samples(const std::vector<std::string>& patterns, tar_options options = {})
      : files_(patterns, traits.kind), options_(options) {}

  /// The shards in listed order.
  const std::vector<std::string>& shards() const noexcept { return files_.names(); }

  void start_epoch(const epoch& e) {
    files_.start(e);
    shard_.reset();
    ahead_ = {};
  }

  std::optional<tar_sample> next() {
    for (;;) {
      if (!shard_) {
        const auto file = files_.next();
        if (!file) return {};
        number_ = *file;
        index_ = files_.index_of(number_, 0);
        open_shard();
      }
      const std::uint64_t last = std::exchange(index_, files_.index_of(number_, shard_->position()));
      if (auto sample = shard_->next()) {
        ahead_.announce(files_, file_, shard_->begin());
        return sample;
      }
      index_ = last;
      shard_.reset();
    }
  }

  void state(auto& archive) {
    std::uint64_t position = shard_ ? shard_->position() : closed;
    files_.state(archive);
    archive(position);
    to_position_ = position;
  }

  /// Reads the headers of the shard that was being read up to where that was.
  void resumed() {
    if (to_position_ == closed) return;
    number_ = files_.last();
    open_shard();
    while (shard_->position() < to_position_) {
      try {
        if (!shard_->next()) break;
      } catch (const tar_error&) { // was told before
      }
    }
  }

  void go_near(std::uint64_t index) {
    const std::size_t number = detail::file_order::file_of(index);
    if (shard_ && number_ == number && shard_->position() <= detail::file_order::place_of(index)) return;
    files_.go_to(number);
    shard_.reset();
  }

  /// In which order its shards come.
  const detail::file_order& files() const noexcept { return files_; }

  std::uint64_t extent() const noexcept { return files_.extent(); }

  std::uint64_t fingerprint(std::uint64_t extent) const { return files_.fingerprint(extent); }

  /// The samples by their place, after a pass over the headers of all shards.
  detail::indexed_tar indexed() const { return {files_, options_.keep_index}; }

  /// The index of the sample that next() gave last, or in whose place it threw.
  std::uint64_t index() const noexcept { return index_; }

  /// "photos-0003.tar: dir/17.jpg, .cls", found by reading the shard's headers again; "photos-0003.tar:
  /// sample #17" if that fails.
  std::string origin(std::uint64_t index) const {
    const std::string file = files_.name_of(index);
    std::string name = names_->at(file, files_.place_of(index));
    return name.empty() ? detail::readable(file) + ": sample #" + std::to_string(files_.place_of(index))
                        : name;
  }

 private:
  static constexpr std::uint64_t closed = ~std::uint64_t{0};

  void open_shard() {
    file_ = ahead_.take(number_);
    if (!file_) file_ = detail::tar_shard::map(shards()[number_]);
    shard_.emplace(file_);
  }

  detail::file_order files_;
  tar_options options_;
  std::optional<detail::tar_shard> shard_; // the one being read
  std::size_t number_ = 0;                 // of that one, as listed
  std::uint64_t index_ = 0;
  std::uint64_t to_position_ = closed;              // in the shard that was open, for resumed()
  std::shared_ptr<const detail::mapped_file> file_; // the shard's
  detail::read_ahead ahead_;
  std::shared_ptr<detail::tar_names> names_ = std::make_shared<detail::tar_names>();
};

} // namespace feedline::inline v0

// SPDX-License-Identifier: MIT
#pragma once
// tar_gz_samples: a source of samples from TAR shards that are compressed as a whole (.tar.gz).
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <feedline/core/callback.hpp>
#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/gzip/detail/gzip_archive.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of tar_gz_samples.
struct tar_gz_options {
  /// The most bytes of a sample, including its headers; reading a larger one fails. Also the limit for a
  /// memory_budget.
  std::size_t max_sample_bytes = std::size_t{1} << 30;

  bool hidden = false; ///< as in tar_options

  callback<std::string> on_notice{}; ///< as in tar_options
};

namespace detail {

using gzip_shard = basic_tar_shard<gzip_archive>;

std::unique_ptr<gzip_shard> open_gzip_shard(const std::shared_ptr<const mapped_file>& file,
                                            const tar_settings& how, const std::stop_token& stop);

/// Decompresses shards, whose bytes the system reads ahead.
class gzip_shards {
 public:
  using shard = gzip_shard;

  explicit gzip_shards(tar_settings how) : how_(std::move(how)) {}

  void start(const epoch& e);

  // Decompresses the shard from its beginning, also to continue in the middle.
  std::unique_ptr<shard> open(const file_order& files, std::size_t number, const tar_place&);

  void yielded_sample(const file_order& files, const shard& from) {
    ahead_.announce(files, file_, from.archive().stream().offset());
  }

  bool is_stopped() const noexcept;

  const tar_settings& settings() const noexcept { return how_; }

 private:
  tar_settings how_;
  std::stop_token stop_;
  std::shared_ptr<const mapped_file> file_; // the shard that was opened last
  read_ahead ahead_;
};

/// Finds the origins of samples of compressed shards. It reads a shard again from its beginning, and
/// continues where it stopped for later samples. Any thread may use it.
class gzip_names {
 public:
  explicit gzip_names(const tar_settings& how) : how_(how.quiet()) {}

  /// "photos-0003.tar.gz: dir/17.jpg, .cls"; empty if the sample doesn't exist or can't be read.
  std::string at(const std::string& path, std::uint64_t position);

 private:
  struct opened {
    std::shared_ptr<const mapped_file> file;
    std::unique_ptr<gzip_shard> shard;
  };

  gzip_shard& find(std::shared_ptr<const mapped_file> file, std::uint64_t position);

  const tar_settings how_;
  std::mutex mutex_;
  std::list<opened> shards_;
};

} // namespace detail

/// Reads the samples of TAR shards that are compressed with gzip, as tar_samples reads plain ones. It has no
/// access to samples by position, so global_shuffle() can't follow it, and a resumed run decompresses the
/// current shard from its beginning. Where that matters, decompress the shards, or compress their members.
///
/// Takes:   names of shards; each may be a pattern, as for tar_samples. The members of a concatenated gzip
///          file are one archive
/// Gives:   tar_sample, whose bytes are in memory that it shares with its copies. index() is
///          `shard << 40 | position in the shard`
/// Order:   that of the shard; each shuffled epoch has a new order of shards
/// Throws:  the constructor as that of tar_samples, and std::invalid_argument for a negative max_sample_bytes.
///          next() throws tar_error as tar_samples does, and also when it reaches one of these:
///          - compressed data that end early or are damaged, after the last sample that was complete before.
///            The message has the offset in the compressed file. A wrong checksum is found at a gzip member's
///            end, after the samples before it;
///          - a sample of more than `max_sample_bytes` bytes. It continues with the next sample.
///
///          Other offsets in messages are offsets in the decompressed archive
/// Stops:   after at most one more megabyte
/// Example: `tar_gz_samples("photos-*.tar.gz") | map([](const tar_sample& s) { return decode(s["jpg"]); }, workers{8})`
///
/// The one thread of the source decompresses, with zlib: libdeflate, which gunzip uses, has no streams.
class tar_gz_samples : public detail::tar_in_order<detail::gzip_shards> {
 public:
  static constexpr source_traits traits{.kind = "tar_gz_samples", .splits_files_by_rank = true};

  /// Without this, one name in braces could also be a source that is copied.
  tar_gz_samples(std::initializer_list<std::string> shards, tar_gz_options options = {})
      : tar_gz_samples(file_patterns(shards), options) {}

  /// The samples of all shards whose names match.
  explicit tar_gz_samples(const file_patterns& shards, tar_gz_options options = {});

  /// Of the options and the archives' names and sizes.
  std::uint64_t fingerprint(std::uint64_t extent) const;

  /// The sample object and its data.
  std::optional<std::size_t> max_item_bytes() const noexcept;

  /// What looking for members that aren't neighbours takes.
  std::size_t bytes_held() const;

  /// "photos-0003.tar.gz: dir/17.jpg, .cls", found by reading the shard again; "photos-0003.tar.gz: sample
  /// #17" if that fails.
  std::string origin(std::uint64_t index) const;

 private:
  static detail::tar_settings checked(const tar_gz_options& options);

  std::shared_ptr<detail::gzip_names> names_;
};

} // namespace feedline::inline FEEDLINE_ABI

#ifndef FEEDLINE_COMPILED
#include <feedline/gzip/tar_gz.ipp>
#endif

// SPDX-License-Identifier: MIT
#pragma once
// tar_gz_samples: a source of samples from TAR shards that are compressed as a whole (.tar.gz).
#include <initializer_list>

#include <feedline/core/contract.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Options of tar_gz_samples.
struct tar_gz_options {
  /// The most bytes of a sample, including its headers; reading a larger one fails. Also the limit for a
  /// memory_budget.
  std::size_t max_sample_bytes = std::size_t{1} << 30;

  bool hidden = false;       ///< as in tar_options
  bool concatenated = false; ///< as in tar_options

  callback<std::string> on_notice{}; ///< as in tar_options
};

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
/// tar_samples reads them too, beside others, with tar_options::decompress; here each shard must be gzip.
class tar_gz_samples : public detail::tar_in_order {
 public:
  static constexpr source_traits traits{.kind = "tar_gz_samples", .splits_files_by_rank = true};

  /// Without this, one name in braces could also be a source that is copied.
  tar_gz_samples(std::initializer_list<std::string> shards, tar_gz_options options = {})
      : tar_gz_samples(file_patterns(shards), options) {}

  /// The samples of all shards whose names match.
  explicit tar_gz_samples(const file_patterns& shards, tar_gz_options options = {});

 private:
  static detail::tar_settings checked(const tar_gz_options& options);
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_GZIP)
#include <feedline/detail/given_size.hpp>
#include <feedline/gzip/gunzip.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_gz_samples::tar_gz_samples(const file_patterns& shards, tar_gz_options options)
    : tar_in_order(detail::file_order(shards, traits.kind), detail::tar_shards(nullptr, checked(options))) {}

FEEDLINE_INLINE detail::tar_settings tar_gz_samples::checked(const tar_gz_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_gz_samples: max_sample_bytes");
  return {options.max_sample_bytes, options.hidden,
          options.concatenated,     std::make_shared<detail::tar_notice>(options.on_notice),
          {gunzip_stream},          true};
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

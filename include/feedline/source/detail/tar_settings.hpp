// SPDX-License-Identifier: MIT
#pragma once
// How TAR shards are read, and from where on.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <feedline/source/lines_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class tar_notice;

/// Where a later pass over a shard continues.
struct tar_place {
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  std::uint64_t position = none; ///< in the shard; none: no shard is open
  std::uint64_t begin = 0;       ///< the offset of the next member; none: there is none
  std::uint64_t usual_size = 0;  ///< see shard_samples::usual_size()

  bool is_open() const noexcept { return position != none; }

  void state(auto& archive) { archive(position, begin, usual_size); }
};

/// How shards are read.
struct tar_settings {
  std::size_t max_sample_bytes;         ///< of shards that aren't mapped
  bool hidden = false;                  ///< whether hidden files are members
  bool concatenated = false;            ///< whether the archives that follow are read too
  std::shared_ptr<tar_notice> notice{}; ///< null: of a pass of which nobody wants one

  std::vector<text_opener> decompress{}; ///< for compressed shards that are read in order
  bool are_compressed = false;           ///< all of them, for the first opener

  /// What reading takes, also of origins.
  std::size_t bytes_held() const;

  /// A hash of a shard's contents, and of the options that say which of its members are read.
  std::uint64_t fingerprint(std::uint64_t contents) const;

  /// The same for a pass of which nobody wants a notice.
  tar_settings quiet() const {
    return {max_sample_bytes, hidden, concatenated};
  } // reads no compressed shards
};

} // namespace feedline::inline FEEDLINE_ABI::detail

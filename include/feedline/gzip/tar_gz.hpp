// SPDX-License-Identifier: MIT
#pragma once
// Samples from TAR shards that are compressed as a whole (.tar.gz).
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
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/core/source.hpp>
#include <feedline/detail/given_size.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/gzip/detail/gzip_archive.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/tar_in_order.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0 {

struct tar_gz_options {
  /// The most bytes that a sample may take, its headers included; a larger one is an error in its place. For a
  /// memory_budget, too.
  std::size_t largest_sample = std::size_t{1} << 30;
};

namespace detail {

using gzip_shard = basic_tar_shard<gzip_archive>;

inline std::unique_ptr<gzip_shard> open_gzip_shard(const std::shared_ptr<const mapped_file>& file,
                                                   std::size_t most, const std::stop_token& stop) {
  return std::make_unique<gzip_shard>(file, basic_tar_reader<gzip_archive>(gzip_archive(file, most, stop)));
}

/// Decompresses shards, whose bytes the system reads ahead.
class gzip_shards {
 public:
  using shard = gzip_shard;

  explicit gzip_shards(std::size_t most) : most_(most) {}

  void start(const epoch& e) {
    ahead_ = {};
    stop_ = e.stop;
  }

  std::unique_ptr<shard> open(const file_order& files, std::size_t number) {
    file_ = ahead_.take(number);
    if (!file_) file_ = tar_shard::map(files.names()[number]);
    return open_gzip_shard(file_, most_, stop_);
  }

  void gave_sample(const file_order& files, const shard& from) {
    ahead_.announce(files, file_, from.archive().compressed_position());
  }

  bool is_stopped() const noexcept { return stop_.stop_requested(); }

 private:
  std::size_t most_;
  std::stop_token stop_;
  std::shared_ptr<const mapped_file> file_; // of the shard that was opened last
  read_ahead ahead_;
};

/// What the samples of compressed shards are called. They are read again, each shard from its beginning, and then on from
/// where it was left. From any thread.
class gzip_names {
 public:
  explicit gzip_names(std::size_t most) : most_(most) {}

  /// "photos-0003.tar.gz: dir/17.jpg, .cls"; empty if there is no such sample, or it can't be read.
  std::string at(const std::string& path, std::uint64_t position) {
    const std::lock_guard lock(mutex_);
    try {
      gzip_shard& shard = find(tar_shard::map(path), position);
      while (shard.position() <= position) {
        std::optional<tar_sample> sample;
        const std::uint64_t here = shard.position();
        try {
          sample = shard.next();
          if (!sample) return {};
        } catch (const tar_error&) { // its own place says so
        }
        if (here == position) return sample ? sample->origin() : std::string();
      }
    } catch (const tar_error&) {
    }
    return {};
  }

 private:
  struct opened {
    std::shared_ptr<const mapped_file> file;
    std::unique_ptr<gzip_shard> shard;
  };

  gzip_shard& find(std::shared_ptr<const mapped_file> file, std::uint64_t position) {
    constexpr std::size_t most = 4; // each has some 50 KB of zlib's
    shards_.remove_if([&](const opened& o) {
      return o.file->path() == file->path() &&
             (o.shard->position() > position || o.file->modified_ns() != file->modified_ns() ||
              o.file->bytes().size() != file->bytes().size());
    });
    for (const opened& o : shards_)
      if (o.file->path() == file->path()) return *o.shard;
    if (shards_.size() == most) shards_.pop_front();
    auto shard = open_gzip_shard(file, most_, {});
    return *shards_.emplace_back(opened{std::move(file), std::move(shard)}).shard;
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::list<opened> shards_;
};

} // namespace detail

/// A source of the samples of TAR shards that are compressed with gzip, read as tar_samples reads plain ones. It knows
/// nothing of a shard but what it has decompressed, and so can't be shuffled as a whole: a resumed run decompresses the shard in
/// hand from its beginning. Where that matters, decompress the shards, or compress their members.
///
/// Takes:   names of shards, each of which may be a pattern, as tar_samples has them. The members of concatenated gzip files
///          are one archive
/// Gives:   tar_sample, whose bytes lie in memory that it shares with its copies. index() is
///          `shard << 40 | place in the shard`
/// Order:   of the shard; in a shuffled epoch the shards come in an order of its own
/// Throws:  the constructor as that of tar_samples, and std::invalid_argument for a largest_sample that is negative. next()
///          throws tar_error, each in its place, as tar_samples does, and then goes on:
///          - for compressed data that end early or are damaged: behind the last sample that was complete before, with the
///            offset in the compressed file. Of a shard whose checksum is wrong samples have come by then;
///          - for a sample of more than `largest_sample` bytes: with the next one.
///
///          Other offsets in messages are those in the archive that was compressed
/// Stops:   within a megabyte
/// Example: `tar_gz_samples("photos-*.tar.gz") | map([](const tar_sample& s) { return decode(s["jpg"]); }, workers{8})`
///
/// The one thread of the source decompresses, with zlib: libdeflate, which gunzip uses, has no streams.
class tar_gz_samples : public detail::tar_in_order<detail::gzip_shards> {
 public:
  static constexpr source_traits traits{.kind = "tar_gz_samples", .shares_files = true};

  explicit tar_gz_samples(const std::string& pattern, tar_gz_options options = {})
      : tar_gz_samples(std::vector{pattern}, options) {}

  explicit tar_gz_samples(const char* pattern, tar_gz_options options = {})
      : tar_gz_samples(std::string(pattern), options) {}

  tar_gz_samples(std::initializer_list<const char*> patterns, tar_gz_options options = {})
      : tar_gz_samples(std::vector<std::string>(patterns.begin(), patterns.end()), options) {}

  explicit tar_gz_samples(const std::vector<std::string>& patterns, tar_gz_options options = {})
      : tar_in_order(detail::file_order(patterns, traits.kind), detail::gzip_shards(checked(options))),
        largest_sample_(options.largest_sample),
        names_(std::make_shared<detail::gzip_names>(options.largest_sample)) {}

  /// The sample, and what it keeps of the member behind it.
  std::optional<std::size_t> largest_item() const noexcept { return sizeof(tar_sample) + largest_sample_; }

  /// "photos-0003.tar.gz: dir/17.jpg, .cls", found by reading the shard again; "photos-0003.tar.gz: sample #17" if
  /// that fails.
  std::string origin(std::uint64_t index) const {
    return files().origin_of(index, names_->at(files().name_of(index), detail::file_order::place_of(index)));
  }

 private:
  static std::size_t checked(const tar_gz_options& options) {
    detail::refuse_negative(options.largest_sample, "feedline::tar_gz_samples: the largest_sample");
    return options.largest_sample;
  }

  std::size_t largest_sample_;
  std::shared_ptr<detail::gzip_names> names_;
};

} // namespace feedline::inline v0

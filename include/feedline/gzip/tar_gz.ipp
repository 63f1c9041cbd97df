// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/gzip/tar_gz.hpp>

#include <utility>

#include <feedline/detail/tar_reader.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::unique_ptr<gzip_shard> open_gzip_shard(const std::shared_ptr<const mapped_file>& file,
                                                            const tar_settings& how,
                                                            const std::stop_token& stop) {
  return std::make_unique<gzip_shard>(
      std::shared_ptr<const named_version>(file, &file->version()),
      basic_tar_reader<gzip_archive>(gzip_archive(gzip_contents(file, stop), how.max_sample_bytes)), how);
}

FEEDLINE_INLINE void gzip_shards::start(const epoch& e) {
  ahead_ = {};
  stop_ = e.stop;
}

FEEDLINE_INLINE std::unique_ptr<gzip_shards::shard> gzip_shards::open(const file_order& files,
                                                                      std::size_t number, const tar_place&) {
  file_ = ahead_.take(number);
  if (!file_) file_ = tar_shard::map(files.names()[number]);
  return open_gzip_shard(file_, how_, stop_);
}

FEEDLINE_INLINE bool gzip_shards::is_stopped() const noexcept { return stop_.stop_requested(); }

FEEDLINE_INLINE std::string gzip_names::at(const std::string& path, std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  try {
    gzip_shard& shard = find(tar_shard::map(path), position);
    while (shard.position() <= position) {
      std::optional<tar_sample> sample;
      const std::uint64_t here = shard.position();
      try {
        sample = shard.next();
        if (!sample) return {};
      } catch (const tar_error&) { // belongs to this sample only
      }
      if (here == position) return sample ? sample->origin() : std::string();
    }
  } catch (const tar_error&) {
  }
  return {};
}

FEEDLINE_INLINE gzip_shard& gzip_names::find(std::shared_ptr<const mapped_file> file,
                                             std::uint64_t position) {
  constexpr std::size_t max_opened = 4; // zlib takes about 50 KB for each
  shards_.remove_if([&](const opened& o) {
    return o.file->path() == file->path() &&
           (o.shard->position() > position || o.file->modified_ns() != file->modified_ns() ||
            o.file->bytes().size() != file->bytes().size());
  });
  for (const opened& o : shards_)
    if (o.file->path() == file->path()) return *o.shard;
  if (shards_.size() == max_opened) shards_.pop_front();
  auto shard = open_gzip_shard(file, how_, {});
  return *shards_.emplace_back(opened{std::move(file), std::move(shard)}).shard;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE tar_gz_samples::tar_gz_samples(const file_patterns& shards, tar_gz_options options)
    : tar_in_order(detail::file_order(shards, traits.kind), detail::gzip_shards(checked(options))),
      names_(std::make_shared<detail::gzip_names>(opener().settings())) {}

FEEDLINE_INLINE std::uint64_t tar_gz_samples::fingerprint(std::uint64_t extent) const {
  const std::uint64_t hash = files().fingerprint(extent);
  return opener().settings().hidden ? detail::key(hash) : hash;
}

FEEDLINE_INLINE std::size_t tar_gz_samples::bytes_held() const {
  return opener().settings().notice ? detail::seen_keys::most_bytes : 0;
}

FEEDLINE_INLINE detail::tar_settings tar_gz_samples::checked(const tar_gz_options& options) {
  detail::refuse_negative(options.max_sample_bytes, "feedline::tar_gz_samples: max_sample_bytes");
  return {options.max_sample_bytes, options.hidden,
          options.on_notice ? std::make_shared<detail::tar_notice>(options.on_notice) : nullptr};
}

FEEDLINE_INLINE std::optional<std::size_t> tar_gz_samples::max_item_bytes() const noexcept {
  return sizeof(tar_sample) + opener().settings().max_sample_bytes;
}

FEEDLINE_INLINE std::string tar_gz_samples::origin(std::uint64_t index) const {
  return files().origin_of(index, names_->at(files().name_of(index), detail::file_order::place_of(index)));
}

} // namespace feedline::inline FEEDLINE_ABI

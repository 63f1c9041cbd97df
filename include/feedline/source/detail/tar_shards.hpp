// SPDX-License-Identifier: MIT
#pragma once
// Opens TAR shards that are files or objects, for tar_in_order.
#include <feedline/core/contract.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_settings.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The opener for a shard that begins with these bytes; null for one that isn't compressed.
const text_opener* opener_for(const tar_settings& how, std::span<const std::byte> begin);

/// Decompresses a shard from its beginning.
std::unique_ptr<open_tar_shard> open_compressed(const std::shared_ptr<const mapped_file>& file,
                                                const text_opener& opener, const tar_settings& how,
                                                const std::stop_token& stop);

/// Maps shards that are files, and reads them ahead; opens objects. Compressed ones are read from their beginning,
/// also to continue in the middle.
class tar_shards {
 public:
  using shard = open_tar_shard;

  /// `objects`: null if all shards are files.
  tar_shards(std::shared_ptr<shard_objects> objects, tar_settings how);

  // A copy requests its own parts.
  tar_shards(const tar_shards& other);

  tar_shards(tar_shards&&) noexcept = default;

  tar_shards& operator=(tar_shards&&) noexcept = default;

  ~tar_shards() = default;

  /// To be called at the start of an epoch.
  void start(const epoch& e);

  /// Opens a shard at that place if that is possible and `from` is open, otherwise at its beginning.
  std::unique_ptr<shard> open(const file_order& files, std::size_t number, const tar_place& from);

  /// To be called after each sample.
  void yielded_sample(const file_order& files, const shard& from);

  /// Whether a stop may have cut the shard off: not one that is mapped.
  bool is_stopped() const noexcept;

  const std::shared_ptr<shard_objects>& objects() const noexcept { return objects_; }

  const tar_settings& settings() const noexcept { return how_; }

  /// Whether `open` (null: none), and then the shards after it, would yield a sample without waiting for an object.
  bool ready(const file_order& files, const shard* open) const;

 private:
  std::shared_ptr<shard_objects> objects_;
  tar_settings how_;
  std::stop_token stop_;
  std::shared_ptr<const mapped_file> file_; // the file that was opened last
  read_ahead files_ahead_;
  std::shared_ptr<objects_in_order> objects_in_order_;
  bool is_object_ = false;        // the shard that was opened last
  bool is_compressed_ = false;    // that shard
  std::uint64_t last_offset_ = 0; // where its last sample ends
  std::uint64_t last_bytes_ = 0;  // of that sample
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <feedline/detail/file_kind.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/opened_tar_shard.hpp>
#include <feedline/source/detail/tar_shard.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::size_t tar_settings::bytes_held() const {
  std::size_t most = 0;
  for (const text_opener& o : decompress)
    most = std::max(most, 2 * o.bytes_held); // a second one finds origins
  return most + (notice && notice->may_look_for_neighbours() ? seen_keys::most_bytes : 0);
}

FEEDLINE_INLINE std::uint64_t tar_settings::fingerprint(std::uint64_t contents) const {
  const std::uint64_t hash = hidden ? key(contents) : contents;
  return concatenated ? key(hash, stable_hash("concatenated")) : hash;
}

FEEDLINE_INLINE const text_opener* opener_for(const tar_settings& how, std::span<const std::byte> begin) {
  if (how.are_compressed) return how.decompress.data();
  if (how.decompress.empty()) return nullptr;
  const auto kind = kind_of_file(
      {reinterpret_cast<const char*>(begin.data()), std::min<std::size_t>(begin.size(), tar_block)});
  for (const text_opener& o : how.decompress)
    if (o.kind == kind.name) return &o;
  return nullptr;
}

FEEDLINE_INLINE std::unique_ptr<open_tar_shard>
open_compressed(const std::shared_ptr<const mapped_file>& file, const text_opener& opener,
                const tar_settings& how, const std::stop_token& stop) {
  return std::make_unique<compressed_tar_shard>(std::shared_ptr<const named_version>(file, &file->version()),
                                                opener.open(file->bytes(), {}), nullptr, how, stop);
}

FEEDLINE_INLINE tar_shards::tar_shards(std::shared_ptr<shard_objects> objects, tar_settings how)
    : objects_(std::move(objects)), how_(std::move(how)) {}

FEEDLINE_INLINE tar_shards::tar_shards(const tar_shards& other)
    : objects_(other.objects_),
      how_(other.how_),
      stop_(other.stop_),
      file_(other.file_),
      files_ahead_(other.files_ahead_) {}

FEEDLINE_INLINE void tar_shards::start(const epoch& e) {
  files_ahead_ = {};
  stop_ = e.stop;
  objects_in_order_ = nullptr;
}

FEEDLINE_INLINE std::unique_ptr<tar_shards::shard>
tar_shards::open(const file_order& files, std::size_t number, const tar_place& from) {
  is_object_ = objects_ && objects_->has(number);
  is_compressed_ = false;
  if (is_object_) {
    if (!objects_in_order_) objects_in_order_ = objects_->in_order(how_, stop_);
    auto opened = objects_in_order_->open(files, number, from);
    last_offset_ = opened->offset();
    last_bytes_ = 1;
    return opened;
  }
  file_ = files_ahead_.take(number);
  if (!file_) file_ = tar_shard::map(files.names()[number]);
  const text_opener* const opener = from.begin == tar_place::none
                                        ? nullptr
                                        : opener_for(how_, file_->bytes()); // none: nothing is left to read
  is_compressed_ = opener != nullptr;
  if (opener) return open_compressed(file_, *opener, how_, stop_);
  using opened = opened_tar_shard<tar_shard>;
  if (!from.is_open()) return std::make_unique<opened>(file_, how_);
  return std::make_unique<opened>(file_, how_, from, nullptr);
}

FEEDLINE_INLINE void tar_shards::yielded_sample(const file_order& files, const shard& from) {
  if (!is_object_) return files_ahead_.announce(files, file_, from.offset());
  last_bytes_ = from.offset() - std::exchange(last_offset_, from.offset());
}

FEEDLINE_INLINE bool tar_shards::is_stopped() const noexcept {
  return (is_object_ || is_compressed_) && stop_.stop_requested();
}

FEEDLINE_INLINE bool tar_shards::ready(const file_order& files, const shard* open) const {
  if (!objects_) [[likely]]
    return true;
  if (open) {
    if (open->is_ready(last_bytes_)) return true; // the next sample is probably as large as the last one
  } else if (const auto number = files.peek(); !number || !objects_->has(*number)) {
    return true;
  }
  return objects_in_order_ && objects_in_order_->ready();
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

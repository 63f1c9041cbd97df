// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_shards.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_kind.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/object_ahead.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/object_shard.hpp>
#include <feedline/source/detail/object_stream.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Reads the samples of a shard of one type.
template <class Shard>
class opened_tar_shard : public open_tar_shard {
 public:
  template <class... Arguments>
  explicit opened_tar_shard(Arguments&&... arguments) : shard_(std::forward<Arguments>(arguments)...) {}

  std::optional<tar_sample> next() override { return shard_.next(); }

  std::uint64_t position() const noexcept override { return shard_.position(); }

  std::uint64_t offset() const noexcept override { return shard_.begin(); }

  tar_place place() const override { return shard_.place(); }

  bool is_ready([[maybe_unused]] std::uint64_t bytes) const noexcept override {
    if constexpr (std::is_same_v<Shard, tar_shard>) {
      return true;
    } else {
      const object_stream& stream = shard_.archive().stream();
      return !stream.problem().empty() || stream.left_in_part() >= bytes;
    }
  }

 private:
  Shard shard_;
};

/// A shard that is decompressed. `object`: what the stream reads; null for a file, which `version` keeps.
class compressed_tar_shard final : public opened_tar_shard<object_shard> {
 public:
  compressed_tar_shard(std::shared_ptr<const named_version> version,
                       const std::shared_ptr<text_stream>& stream,
                       const std::shared_ptr<object_stream>& object, const tar_settings& how,
                       std::stop_token stop)
      : opened_tar_shard(std::move(version),
                         basic_tar_reader<object_archive>(
                             object_archive(contents(stream, object, std::move(stop)), how.max_sample_bytes)),
                         how),
        stream_(stream),
        object_(object) {}

  std::uint64_t offset() const noexcept override { return stream_->offset(); }

  bool is_ready(std::uint64_t bytes) const noexcept override {
    // Decompressing may take a whole step of the object, however few bytes the last sample took.
    return !object_ || !object_->problem().empty() || object_->has_ended() ||
           object_->left_in_part() >= std::max<std::uint64_t>(bytes, step);
  }

 private:
  static constexpr std::size_t step = std::size_t{64} << 10;

  static object_stream contents(const std::shared_ptr<text_stream>& stream,
                                const std::shared_ptr<object_stream>& object, std::stop_token stop) {
    const auto memory = std::make_shared_for_overwrite<std::byte[]>(step);
    const auto next = [=, stop = std::move(stop)](std::uint64_t) -> object_part {
      if (stop.stop_requested()) return {};
      const std::size_t got = stream->read(memory.get(), step);
      const std::string& problem =
          object && !object->problem().empty() ? object->problem() : stream->problem();
      if (got == 0 && !problem.empty()) throw object_error(problem);
      return {{~std::uint64_t{0}, {}}, {memory.get(), got}};
    };
    object_stream all({}, next, 0);
    all.read_everything();
    return all;
  }

  std::shared_ptr<text_stream> stream_;
  std::shared_ptr<object_stream> object_;
};

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

FEEDLINE_INLINE tar_shards::tar_shards(std::shared_ptr<object_list> objects, tar_settings how)
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
  objects_ahead_ = nullptr;
}

FEEDLINE_INLINE std::unique_ptr<tar_shards::shard>
tar_shards::open(const file_order& files, std::size_t number, const tar_place& from) {
  is_object_ = objects_ && objects_->has(number);
  is_compressed_ = false;
  if (is_object_) return open_object(files, number, from);
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
  return objects_ahead_ && objects_ahead_->ready();
}

FEEDLINE_INLINE std::unique_ptr<tar_shards::shard>
tar_shards::open_object(const file_order& files, std::size_t number, const tar_place& from) {
  constexpr std::size_t most_ahead = 64;
  std::vector<std::size_t> next;
  for (std::size_t i = 0; i < most_ahead; ++i) {
    const auto following = files.peek(i);
    if (!following) break;
    if (objects_->has(*following)) next.push_back(*following);
  }

  // The parts of an object are given up with its shard.
  struct reading {
    explicit reading(std::shared_ptr<object_ahead> all) : ahead(std::move(all)) {}

    reading(const reading&) = delete;

    ~reading() { ahead->close(); }

    std::shared_ptr<object_ahead> ahead;
  };

  if (!objects_ahead_) objects_ahead_ = std::make_shared<object_ahead>(objects_, stop_);
  const bool resumes = from.is_open();
  const tar_place at = resumes ? from : tar_place{.position = 0};
  const bool may_be_compressed = !how_.decompress.empty() && at.begin != tar_place::none;
  const auto parts = std::make_shared<reading>(objects_ahead_);
  if (at.begin != tar_place::none)
    objects_ahead_->open(number, may_be_compressed ? 0 : at.begin, std::move(next));
  const auto version = std::make_shared<named_version>(objects_->version(number));
  const auto take = [=, objects = objects_](std::uint64_t offset) {
    object_part part = parts->ahead->take(offset);
    if (version->version == 0) *version = objects->version(number); // before there is a sample that shares it
    return part;
  };
  last_bytes_ = 1;
  object_stream stream(objects_->shown(number), take, may_be_compressed ? 0 : at.begin);
  if (may_be_compressed) {
    const text_opener* const opener = opener_for(how_, stream.peek());
    is_compressed_ = opener != nullptr;
    if (opener) {
      last_offset_ = 0;
      const auto object = std::make_shared<object_stream>(std::move(stream));
      return std::make_unique<compressed_tar_shard>(
          version, opener->open(object->take_some(), [object] { return object->take_some(); }), object, how_,
          stop_);
    }
    stream.skip(at.begin);
  }
  last_offset_ = at.begin;
  return std::make_unique<opened_tar_shard<object_shard>>(
      version,
      basic_tar_reader<object_archive>(object_archive(std::move(stream), how_.max_sample_bytes, at.begin)),
      how_, at);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_shards.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

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
class opened_tar_shard final : public open_tar_shard {
 public:
  template <class... Arguments>
  explicit opened_tar_shard(Arguments&&... arguments) : shard_(std::forward<Arguments>(arguments)...) {}

  std::optional<tar_sample> next() override { return shard_.next(); }

  std::uint64_t position() const noexcept override { return shard_.position(); }

  std::uint64_t begin() const noexcept override { return shard_.begin(); }

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
  if (is_object_) return open_object(files, number, from);
  file_ = files_ahead_.take(number);
  if (!file_) file_ = tar_shard::map(files.names()[number]);
  using opened = opened_tar_shard<tar_shard>;
  return from.is_open() ? std::make_unique<opened>(file_, how_, from) : std::make_unique<opened>(file_, how_);
}

FEEDLINE_INLINE void tar_shards::yielded_sample(const file_order& files, const shard& from) {
  if (!is_object_) return files_ahead_.announce(files, file_, from.begin());
  last_bytes_ = from.begin() - std::exchange(last_begin_, from.begin());
}

FEEDLINE_INLINE bool tar_shards::is_stopped() const noexcept { return is_object_ && stop_.stop_requested(); }

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
  const tar_globals globals = read_tar_globals(objects_, number, at.globals, how_.max_sample_bytes, stop_);
  const auto parts = std::make_shared<reading>(objects_ahead_);
  if (at.begin != tar_place::none) objects_ahead_->open(number, at.begin, std::move(next));
  const auto version = std::make_shared<named_version>(objects_->version(number));
  const auto take = [=, objects = objects_](std::uint64_t offset) {
    object_part part = parts->ahead->take(offset);
    if (version->version == 0) *version = objects->version(number); // before there is a sample that shares it
    return part;
  };
  object_stream stream(objects_->shown(number), take, at.begin);
  last_begin_ = at.begin;
  last_bytes_ = 1;
  return std::make_unique<opened_tar_shard<object_shard>>(
      version,
      basic_tar_reader<object_archive>(object_archive(std::move(stream), how_.max_sample_bytes, at.begin),
                                       at.begin, globals),
      how_, at);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

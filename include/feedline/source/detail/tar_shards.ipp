// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_shards.hpp>

#include <string>

#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_header.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_globals read_tar_globals(const std::shared_ptr<object_list>& objects, std::size_t number,
                                             const std::vector<std::uint64_t>& offsets,
                                             std::size_t most_bytes, const std::stop_token& stop) {
  if (offsets.empty()) return nullptr;
  constexpr std::size_t step = 16 << 10;
  std::vector<tar_global> globals;
  for (const std::uint64_t offset : offsets) {
    basic_stream_archive<object_stream> header(
        object_stream(objects->shown(number), read_when_needed(objects, number, step, tar_place::none, stop),
                      offset),
        most_bytes, offset);
    const auto block = header.read(tar_block);
    if (block.size() == tar_block && tar_header(block).type() == 'g')
      if (const auto size = tar_header(block).size(); size && header.has_room_for(*size))
        globals.push_back({offset, std::string(header.read(*size))});
    if (!header.problem().empty())
      throw tar_error(readable(objects->shown(number)) + ": " + header.problem());
  }
  return std::make_shared<const std::vector<tar_global>>(std::move(globals));
}

FEEDLINE_INLINE std::optional<tar_sample> any_tar_shard::next() {
  if (tar_shard* const file = std::get_if<tar_shard>(&shard_)) [[likely]]
    return file->next();
  return std::get<object_shard>(shard_).next();
}

FEEDLINE_INLINE std::uint64_t any_tar_shard::position() const noexcept {
  return std::visit([](const auto& shard) { return shard.position(); }, shard_);
}

FEEDLINE_INLINE std::uint64_t any_tar_shard::begin() const noexcept {
  return std::visit([](const auto& shard) { return shard.begin(); }, shard_);
}

FEEDLINE_INLINE tar_place any_tar_shard::place() const {
  return std::visit([](const auto& shard) { return shard.place(); }, shard_);
}

FEEDLINE_INLINE const object_shard* any_tar_shard::object() const noexcept {
  return std::get_if<object_shard>(&shard_);
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
  if (is_object_) return open_object(files, number, from);
  file_ = files_ahead_.take(number);
  if (!file_) file_ = tar_shard::map(files.names()[number]);
  if (!from.is_open()) return std::make_unique<shard>(std::in_place_type<tar_shard>, file_, how_);
  return std::make_unique<shard>(std::in_place_type<tar_shard>, file_, how_, from);
}

FEEDLINE_INLINE bool tar_shards::is_stopped() const noexcept { return is_object_ && stop_.stop_requested(); }

FEEDLINE_INLINE bool tar_shards::ready(const file_order& files, const shard* open) const {
  if (!objects_) [[likely]]
    return true;
  if (open && !open->object()) return true;
  if (open) {
    const object_stream& stream = open->object()->archive().stream();
    // The next sample is probably as large as the last one.
    if (!stream.problem().empty() || stream.left_in_part() >= last_bytes_) return true;
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
  return std::make_unique<shard>(
      std::in_place_type<object_shard>, version,
      basic_tar_reader<object_archive>(object_archive(std::move(stream), how_.max_sample_bytes, at.begin),
                                       at.begin, globals),
      how_, at);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

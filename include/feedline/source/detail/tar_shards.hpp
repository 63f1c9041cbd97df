// SPDX-License-Identifier: MIT
#pragma once
// Opens TAR shards that are files or objects, for tar_in_order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <feedline/core/epoch.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_header.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/object_ahead.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/object_stream.hpp>
#include <feedline/source/detail/read_ahead.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0::detail {

using object_archive = basic_stream_archive<object_stream>;
using object_shard = basic_tar_shard<object_archive>;
using tar_globals = std::shared_ptr<const std::vector<tar_global>>;

/// Reads the headers at these offsets of an object, as far as they are what they were. Throws tar_error.
inline tar_globals read_tar_globals(const std::shared_ptr<object_list>& objects, std::size_t number,
                                    const std::vector<std::uint64_t>& offsets, std::size_t most_bytes,
                                    const std::stop_token& stop) {
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

/// The samples of a shard that is a file or an object.
class any_tar_shard {
 public:
  template <class Shard, class... Arguments>
  explicit any_tar_shard(std::in_place_type_t<Shard> type, Arguments&&... arguments)
      : shard_(type, std::forward<Arguments>(arguments)...) {}

  std::optional<tar_sample> next() {
    if (tar_shard* const file = std::get_if<tar_shard>(&shard_)) [[likely]]
      return file->next();
    return std::get<object_shard>(shard_).next();
  }

  std::uint64_t position() const noexcept {
    return std::visit([](const auto& shard) { return shard.position(); }, shard_);
  }

  std::uint64_t begin() const noexcept {
    return std::visit([](const auto& shard) { return shard.begin(); }, shard_);
  }

  tar_place place() const {
    return std::visit([](const auto& shard) { return shard.place(); }, shard_);
  }

  /// Null if it is a file.
  const object_shard* object() const noexcept { return std::get_if<object_shard>(&shard_); }

 private:
  std::variant<tar_shard, object_shard> shard_;
};

/// Maps shards that are files, and requests objects in parts; reads both ahead.
class tar_shards {
 public:
  using shard = any_tar_shard;

  /// `objects`: null if all shards are files.
  tar_shards(std::shared_ptr<object_list> objects, std::size_t max_sample_bytes)
      : objects_(std::move(objects)), max_sample_bytes_(max_sample_bytes) {}

  // A copy requests its own parts.
  tar_shards(const tar_shards& other)
      : objects_(other.objects_),
        max_sample_bytes_(other.max_sample_bytes_),
        stop_(other.stop_),
        file_(other.file_),
        files_ahead_(other.files_ahead_) {}

  tar_shards(tar_shards&&) noexcept = default;

  tar_shards& operator=(tar_shards&&) noexcept = default;

  ~tar_shards() = default;

  void start(const epoch& e) {
    files_ahead_ = {};
    stop_ = e.stop;
    objects_ahead_ = nullptr;
  }

  std::unique_ptr<shard> open(const file_order& files, std::size_t number, const tar_place& from) {
    is_object_ = objects_ && objects_->has(number);
    if (is_object_) return open_object(files, number, from);
    file_ = files_ahead_.take(number);
    if (!file_) file_ = tar_shard::map(files.names()[number]);
    if (!from.is_open()) return std::make_unique<shard>(std::in_place_type<tar_shard>, file_);
    return std::make_unique<shard>(std::in_place_type<tar_shard>, file_, from);
  }

  void yielded_sample(const file_order& files, const shard& from) {
    if (!is_object_) [[likely]]
      return files_ahead_.announce(files, file_, from.begin());
    last_bytes_ = from.begin() - std::exchange(last_begin_, from.begin());
  }

  /// Whether a stop may have cut the shard off: not one that is mapped.
  bool is_stopped() const noexcept { return is_object_ && stop_.stop_requested(); }

  const std::shared_ptr<object_list>& objects() const noexcept { return objects_; }

  /// Whether `open` (null: none), and then the shards after it, would yield a sample without waiting for an object.
  bool ready(const file_order& files, const shard* open) const {
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

 private:
  std::unique_ptr<shard> open_object(const file_order& files, std::size_t number, const tar_place& from) {
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
    const tar_globals globals = read_tar_globals(objects_, number, at.globals, max_sample_bytes_, stop_);
    const auto parts = std::make_shared<reading>(objects_ahead_);
    if (at.begin != tar_place::none) objects_ahead_->open(number, at.begin, std::move(next));
    const auto version = std::make_shared<named_version>(objects_->version(number));
    const auto take = [=, objects = objects_](std::uint64_t offset) {
      object_part part = parts->ahead->take(offset);
      if (version->version == 0)
        *version = objects->version(number); // before there is a sample that shares it
      return part;
    };
    object_stream stream(objects_->shown(number), take, at.begin);
    last_begin_ = at.begin;
    last_bytes_ = 1;
    return std::make_unique<shard>(
        std::in_place_type<object_shard>, version,
        basic_tar_reader<object_archive>(object_archive(std::move(stream), max_sample_bytes_, at.begin),
                                         at.begin, globals),
        at);
  }

  std::shared_ptr<object_list> objects_;
  std::size_t max_sample_bytes_;
  std::stop_token stop_;
  std::shared_ptr<const mapped_file> file_; // the file that was opened last
  read_ahead files_ahead_;
  std::shared_ptr<object_ahead> objects_ahead_;
  bool is_object_ = false;       // the shard that was opened last
  std::uint64_t last_begin_ = 0; // where its last sample ends
  std::uint64_t last_bytes_ = 0; // of that sample
};

} // namespace feedline::inline v0::detail

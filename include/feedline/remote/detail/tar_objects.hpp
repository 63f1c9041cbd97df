// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the samples of TAR shards in an object store: each is read as a range of its shard.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/detail/tar_header.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/remote/detail/object_list.hpp>
#include <feedline/remote/object_store.hpp>
#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/detail/opened_tar_shard.hpp>
#include <feedline/source/detail/part_stream.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A part of an object as one of a stream.
inline stream_part stream_part_of(object_part part) {
  return {part.object.bytes, part.bytes, std::move(part.memory), part.is_mapped};
}

/// A stream of which the contents of members aren't read.
class object_headers : public part_stream {
 public:
  static constexpr bool headers_only = true;

  using part_stream::part_stream;
};

/// Reads parts of `step` bytes, each when it is needed, but none beyond `end`. The first one may have been requested
/// before.
inline part_stream::next_part read_when_needed(std::shared_ptr<object_list> objects, std::size_t number,
                                               std::size_t step, std::uint64_t end, std::stop_token stop,
                                               std::shared_ptr<object_read> first = {}) {
  return [=, objects = std::move(objects), stop = std::move(stop),
          first = std::move(first)](std::uint64_t offset) mutable {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(step, end - std::min(end, offset)));
    const std::shared_ptr<object_read> read =
        first ? std::exchange(first, nullptr) : objects->read(number, offset, count);
    return stream_part_of(objects->get(number, offset, count, *read, stop));
  };
}

/// The index of an object, and what its samples need besides.
struct object_index {
  tar_index samples;
  std::shared_ptr<const named_version> version{};
};

/// Finds the samples of objects.
class object_indexer {
 public:
  object_indexer(std::shared_ptr<object_list> objects, tar_settings how, const std::stop_token& stop)
      : objects_(std::move(objects)), how_(std::move(how)), stop_(stop) {}

  /// The indices of all objects, by their numbers; many objects are read at once. Throws object_error after a stop, and
  /// outage_error.
  std::vector<object_index> all() {
    std::vector<object_index> indices(objects_->size());
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (objects_->has(i)) numbers.push_back(i);
    const std::size_t at_once = std::min(std::size_t{32}, objects_->store().bytes_ahead() / step);
    run_each_on_threads(numbers.size(), at_once,
                        [&](std::size_t i) { // an error is an outage, or there is no memory
                          if (!stop_.stop_requested()) indices[numbers[i]] = of(numbers[i]);
                        });
    throw_if_stopped(stop_);
    return indices;
  }

 private:
  static constexpr std::size_t step = 64 << 10; // bytes of a read

  // An object that can't be read has one sample, which is an error.
  object_index of(std::size_t number) const {
    try {
      auto known = kept(number);
      object_index index{known ? *std::move(known) : scan(number)};
      index.version = std::make_shared<const named_version>(objects_->version(number));
      return index;
    } catch (const tar_error& error) {
      tar_index failed;
      failed.problem = error.what();
      failed.begins = {0};
      return {std::move(failed)};
    }
  }

  // From an object SHARD.index, if there is one and it belongs to this version of the shard.
  std::optional<tar_index> kept(std::size_t number) const {
    constexpr std::size_t block = content_fingerprint::block;
    content_fingerprint contents;
    const auto add = [&](std::uint64_t offset) {
      const object_part part =
          objects_->get(number, offset, block, *objects_->read(number, offset, block), stop_);
      contents.add(part.bytes);
      return part.object.bytes;
    };
    try {
      const std::uint64_t size = add(0);
      const std::uint64_t most = size / tar_block * 8 + 1024; // a sample has a block
      const auto accepts = [&](const object_part& first) {
        return first.object.bytes <= most && is_begin_of_index(first.bytes, first.object.bytes, size);
      };
      const auto bytes = objects_->beside(number, ".index", accepts, stop_);
      if (!bytes) return {};
      auto index = from_bytes(std::as_bytes(std::span(*bytes)));
      if (!index || index->bytes != size || !is_ascending(index->begins, size)) return {};
      if (size > block) add(size - block);
      if (how_.fingerprint(contents.of_size(size)) != index->fingerprint) return {};
      return index;
    } catch (const object_error&) { // the scan says why
      return {};
    }
  }

  // Offsets of an archive of that size.
  static bool is_ascending(const std::vector<std::uint64_t>& offsets, std::uint64_t bytes) {
    for (std::size_t i = 0; i < offsets.size(); ++i)
      if (offsets[i] > bytes || (i > 0 && offsets[i] <= offsets[i - 1])) return false;
    return true;
  }

  // By a pass over the headers. Throws tar_error if they can't be read.
  tar_index scan(std::size_t number) const {
    using archive = basic_stream_archive<object_headers>;
    const auto version = std::make_shared<const named_version>(objects_->version(number));
    tar_shard_of<archive> shard(
        version,
        archive(object_headers(objects_->shown(number),
                               read_when_needed(objects_, number, step, tar_place::none, stop_), 0),
                how_.max_sample_bytes),
        how_);
    tar_index index;
    while (add_sample(shard, index)) continue;
    if (!shard.archive().problem().empty())
      throw tar_error(readable(objects_->shown(number)) + ": " + shard.archive().problem());
    index.bytes = objects_->version(number).bytes;
    return index;
  }

  std::shared_ptr<object_list> objects_;
  const tar_settings how_;
  const std::stop_token& stop_;
};

/// Reads samples of objects by their position. Any thread may use it.
class tar_objects final : public objects_by_position {
 public:
  tar_objects(std::shared_ptr<object_list> objects, const tar_settings& how,
              std::vector<object_index> indices)
      : objects_(std::move(objects)),
        how_(how.quiet()),
        indices_(std::make_shared<const std::vector<object_index>>(std::move(indices))) {}

  // A copy has announced nothing.
  tar_objects(const tar_objects& other)
      : objects_by_position(), objects_(other.objects_), how_(other.how_), indices_(other.indices_) {}

  tar_objects& operator=(const tar_objects&) = delete;

  std::shared_ptr<const objects_by_position> copy() const override {
    return std::make_shared<const tar_objects>(*this);
  }

  bool has(std::size_t number) const noexcept override { return objects_->has(number); }

  std::size_t samples(std::size_t number) const noexcept override { return index(number).begins.size(); }

  tar_sample at(std::size_t number, std::size_t position, const std::stop_token& stop) const override {
    const tar_index& samples = index(number);
    if (!samples.problem.empty()) throw tar_error(samples.problem);
    const range r = range_of(samples, position);
    part_stream stream(
        objects_->shown(number),
        read_when_needed(objects_, number, r.step, r.end, stop, take_announced(number, position)), r.begin,
        r.end);
    if (r.is_one_read()) stream.lend_memory();
    streamed_shard shard((*indices_)[number].version,
                         streamed_archive(std::move(stream), how_.max_sample_bytes, r.begin), how_,
                         {0, r.begin, samples.usual_size});
    auto sample = shard.next();
    if (!sample) throw_no_sample(objects_->shown(number), r.begin);
    return *std::move(sample);
  }

  bool ready(std::size_t number, std::size_t position) const override {
    const tar_index& samples = index(number);
    if (!samples.problem.empty()) return true;
    if (!range_of(samples, position).is_one_read()) return false;
    const std::lock_guard lock(mutex_);
    const auto found = announced_.find({number, position});
    return found != announced_.end() && found->second.read->ready();
  }

  void will_need(std::size_t number, std::size_t position) const override {
    const tar_index& samples = index(number);
    if (!samples.problem.empty()) return;
    const range r = range_of(samples, position);
    const std::size_t count = r.first_bytes();
    const std::lock_guard lock(mutex_);
    if (count > objects_->store().bytes_ahead() - std::min(announced_bytes_, objects_->store().bytes_ahead()))
      return;
    if (announced_.contains({number, position})) return;
    announced_.emplace(std::pair(number, position),
                       announced_read{objects_->read(number, r.begin, count), count});
    announced_bytes_ += count;
  }

 private:
  const tar_index& index(std::size_t number) const noexcept { return (*indices_)[number].samples; }

  struct range {
    std::uint64_t begin;
    std::uint64_t end;
    std::size_t step; // bytes of each read

    bool is_one_read() const noexcept { return step >= end - begin; }

    std::size_t first_bytes() const noexcept {
      return static_cast<std::size_t>(std::min<std::uint64_t>(step, end - begin));
    }
  };

  struct announced_read {
    std::shared_ptr<object_read> read;
    std::size_t bytes = 0;
  };

  // What belongs to a sample: the next one's begin ends it. After the last one anything may follow, and a larger
  // range than a sample may have is not read into memory as a whole.
  range range_of(const tar_index& samples, std::size_t position) const {
    const bool is_last = position + 1 == samples.begins.size();
    const std::uint64_t begin = samples.begins[position];
    const std::uint64_t end = is_last ? samples.bytes : samples.begins[position + 1];
    const std::size_t part = std::max<std::size_t>(1, objects_->store().part_bytes());
    const std::size_t most = is_last ? part : how_.max_sample_bytes;
    return {begin, end, end - begin <= most ? static_cast<std::size_t>(end - begin) : part};
  }

  std::shared_ptr<object_read> take_announced(std::size_t number, std::size_t position) const {
    const std::lock_guard lock(mutex_);
    const auto found = announced_.find({number, position});
    if (found == announced_.end()) return nullptr;
    announced_bytes_ -= found->second.bytes;
    auto read = std::move(found->second.read);
    announced_.erase(found);
    return read;
  }

  const std::shared_ptr<object_list> objects_;
  const tar_settings how_;
  const std::shared_ptr<const std::vector<object_index>> indices_;
  mutable std::mutex mutex_; // guards the members below
  mutable std::map<std::pair<std::size_t, std::size_t>, announced_read> announced_;
  mutable std::size_t announced_bytes_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

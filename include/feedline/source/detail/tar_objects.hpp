// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the samples of TAR shards in an object store: each is read as a range of its shard.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/tar_reader.hpp>
#include <feedline/source/detail/object_list.hpp>
#include <feedline/source/detail/object_stream.hpp>
#include <feedline/source/detail/stream_archive.hpp>
#include <feedline/source/detail/tar_index.hpp>
#include <feedline/source/detail/tar_shard.hpp>
#include <feedline/source/detail/tar_shards.hpp>
#include <feedline/source/object_store.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline v0::detail {

/// The index of an object, and what its samples need besides.
struct object_index {
  tar_index samples;
  tar_globals globals{};
  std::shared_ptr<const named_version> version{};
};

/// Finds the samples of objects.
class object_indexer {
 public:
  object_indexer(std::shared_ptr<object_list> objects, std::size_t max_sample_bytes,
                 const std::stop_token& stop)
      : objects_(std::move(objects)), max_sample_bytes_(max_sample_bytes), stop_(stop) {}

  /// The indices of all objects, by their numbers; many objects are read at once. Throws object_error after a stop.
  std::vector<object_index> all() {
    std::vector<object_index> indices(objects_->size());
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (objects_->has(i)) numbers.push_back(i);
    std::atomic<std::size_t> taken{0};
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&] {
      try {
        for (std::size_t i = taken++; i < numbers.size() && !stop_.stop_requested(); i = taken++)
          indices[numbers[i]] = of(numbers[i]);
      } catch (...) { // there is no memory
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    };
    std::vector<std::thread> helpers;
    const std::size_t at_once =
        std::min({numbers.size(), std::size_t{32}, objects_->store().bytes_ahead() / step});
    helpers.reserve(at_once);
    try {
      while (helpers.size() + 1 < at_once) helpers.emplace_back(work);
    } catch (const std::system_error&) { // fewer threads do
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
    if (stop_.stop_requested())
      throw object_error("the index of the shards isn't complete: the run was stopped");
    return indices;
  }

 private:
  static constexpr std::size_t step = 64 << 10; // bytes of a read

  // An object that can't be read has one sample, which is an error.
  object_index of(std::size_t number) const {
    try {
      auto known = kept(number);
      object_index index{known ? *std::move(known) : scan(number)};
      index.globals = read_tar_globals(objects_, number, index.samples.globals, max_sample_bytes_, stop_);
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
      if (!index || index->bytes != size || !is_ascending(index->begins, size) ||
          !is_ascending(index->globals, size))
        return {};
      if (size > block) add(size - block);
      if (contents.of_size(size) != index->fingerprint) return {};
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
    basic_tar_shard<archive> shard(
        version, basic_tar_reader<archive>(archive(
                     object_headers(objects_->shown(number),
                                    read_when_needed(objects_, number, step, tar_place::none, stop_), 0),
                     max_sample_bytes_)));
    tar_index index;
    while (add_sample(shard, index)) continue;
    if (!shard.archive().problem().empty())
      throw tar_error(readable(objects_->shown(number)) + ": " + shard.archive().problem());
    index.globals = shard.globals();
    index.bytes = objects_->version(number).bytes;
    return index;
  }

  std::shared_ptr<object_list> objects_;
  std::size_t max_sample_bytes_;
  const std::stop_token& stop_;
};

/// Reads samples of objects by their position. Any thread may use it.
class tar_objects {
 public:
  tar_objects(std::shared_ptr<object_list> objects, std::size_t max_sample_bytes,
              std::vector<object_index> indices)
      : objects_(std::move(objects)),
        max_sample_bytes_(max_sample_bytes),
        indices_(std::make_shared<const std::vector<object_index>>(std::move(indices))) {}

  // A copy has announced nothing.
  tar_objects(const tar_objects& other)
      : objects_(other.objects_), max_sample_bytes_(other.max_sample_bytes_), indices_(other.indices_) {}

  tar_objects& operator=(const tar_objects&) = delete;

  ~tar_objects() = default;

  bool has(std::size_t number) const noexcept { return objects_->has(number); }

  const tar_index& index(std::size_t number) const noexcept { return (*indices_)[number].samples; }

  /// Throws the same tar_error as reading the shard in order would for this sample.
  tar_sample at(std::size_t number, std::size_t position, const std::stop_token& stop) const {
    const tar_index& samples = index(number);
    if (!samples.problem.empty()) throw tar_error(samples.problem);
    const range r = range_of(samples, position);
    object_stream stream(
        objects_->shown(number),
        read_when_needed(objects_, number, r.step, r.end, stop, take_announced(number, position)), r.begin,
        r.end);
    if (r.is_one_read()) stream.lend_memory();
    object_shard shard(
        (*indices_)[number].version,
        basic_tar_reader<object_archive>(object_archive(std::move(stream), max_sample_bytes_, r.begin),
                                         r.begin, (*indices_)[number].globals),
        {0, r.begin, samples.usual_size, {}});
    auto sample = shard.next();
    if (!sample) throw_no_sample(objects_->shown(number), r.begin);
    return *std::move(sample);
  }

  /// Whether at() would return without waiting.
  bool ready(std::size_t number, std::size_t position) const {
    const tar_index& samples = index(number);
    if (!samples.problem.empty()) return true;
    if (!range_of(samples, position).is_one_read()) return false;
    const std::lock_guard lock(mutex_);
    const auto found = announced_.find({number, position});
    return found != announced_.end() && found->second.read->ready();
  }

  /// Begins to read a sample, unless too many bytes were announced and not yet read.
  void will_need(std::size_t number, std::size_t position) const {
    const tar_index& samples = index(number);
    if (!samples.problem.empty()) return;
    const range r = range_of(samples, position);
    const std::size_t count = r.first_bytes();
    const std::lock_guard lock(mutex_);
    if (count > objects_->store().bytes_ahead() - std::min(announced_bytes_, objects_->store().bytes_ahead()))
      return;
    auto& announced = announced_[{number, position}];
    if (announced.read) return;
    announced.read = objects_->read(number, r.begin, count);
    announced_bytes_ += announced.bytes = count;
  }

 private:
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
    const std::size_t most = is_last ? part : max_sample_bytes_;
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
  const std::size_t max_sample_bytes_;
  const std::shared_ptr<const std::vector<object_index>> indices_;
  mutable std::mutex mutex_; // guards the members below
  mutable std::map<std::pair<std::size_t, std::size_t>, announced_read> announced_;
  mutable std::size_t announced_bytes_ = 0;
};

/// Access to the samples of shards by position, counted over all shards. Shards that are files are mapped when first
/// needed.
class indexed_tar {
 public:
  indexed_tar(const listed_files& all, bool keep_index, std::size_t max_sample_bytes,
              const std::stop_token& stop)
      : files_(all.files) {
    std::vector<object_index> of_objects;
    if (all.objects) of_objects = object_indexer(all.objects, max_sample_bytes, stop).all();
    std::vector<tar_index> shards;
    for (std::size_t i = 0; i < files_.names().size(); ++i) {
      const bool is_object = all.objects && all.objects->has(i);
      shards.push_back(is_object ? tar_index() : index_of_tar(files_.names()[i], keep_index));
      places_.add_file((is_object ? of_objects[i].samples : shards.back()).begins.size());
    }
    shards_ = std::make_shared<const std::vector<tar_index>>(std::move(shards));
    maps_ = std::make_shared<lazy_maps>(files_.names());
    if (all.objects) objects_.emplace(all.objects, max_sample_bytes, std::move(of_objects));
  }

  std::uint64_t size() const noexcept { return places_.size(); }

  /// Throws tar_error as reading the shard in order would, and for a shard that has changed since it was
  /// indexed.
  tar_sample at(std::uint64_t place, const std::stop_token& stop = {}) const {
    const std::size_t number = places_.file_of(place);
    const std::size_t position = static_cast<std::size_t>(place - places_.first_of(number));
    if (is_object(number)) return objects_->at(number, position, stop);
    const tar_index& index = (*shards_)[number];
    if (!index.problem.empty()) throw tar_error(index.problem);
    const auto file = map(number);
    if (!index.is_of(*file)) throw tar_error(readable(file->path()) + " has changed since it was indexed");
    return sample_at(file, index, position);
  }

  /// Has the system or the store start to read a sample's bytes, if they are worth the request.
  void will_need(std::uint64_t place) const noexcept {
    const std::size_t number = places_.file_of(place);
    const std::size_t position = static_cast<std::size_t>(place - places_.first_of(number));
    try {
      if (is_object(number)) return objects_->will_need(number, position);
      const std::vector<std::uint64_t>& begins = (*shards_)[number].begins;
      const std::uint64_t begin = begins[position];
      const std::uint64_t end =
          position + 1 < begins.size() ? begins[position + 1] : (*shards_)[number].bytes;
      constexpr std::uint64_t few = 16 << 10; // bytes; reading them costs less than the request
      if (end < begin + few) return;
      maps_->at(number)->will_need(begin, end - begin);
    } catch (...) { // at() throws it
    }
  }

  /// Whether at() would return without waiting for an object.
  bool ready(std::uint64_t place) const {
    if (!objects_) return true;
    const std::size_t number = places_.file_of(place);
    return !is_object(number) ||
           objects_->ready(number, static_cast<std::size_t>(place - places_.first_of(number)));
  }

  std::uint64_t index_at(std::uint64_t place) const { return places_.index_at(place); }

  std::optional<std::uint64_t> find(std::uint64_t index) const { return places_.find(index); }

  std::uint64_t size_of_first(std::uint64_t shards) const { return places_.size_of_first(shards); }

 private:
  bool is_object(std::size_t number) const noexcept { return objects_ && objects_->has(number); }

  std::shared_ptr<const mapped_file> map(std::size_t number) const {
    try {
      return maps_->at(number);
    } catch (const std::runtime_error& error) {
      throw tar_error(error.what());
    }
  }

  file_order files_;
  places_in_files places_;
  std::shared_ptr<const std::vector<tar_index>> shards_; // of files
  std::shared_ptr<lazy_maps> maps_;
  std::optional<tar_objects> objects_;
};

} // namespace feedline::inline v0::detail

// SPDX-License-Identifier: MIT
#pragma once
// Access by position to the samples of TAR shards, which are files or objects.
#include <feedline/core/contract.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class objects_by_position;
struct listed_shards;
struct tar_index;

/// Access to the samples of shards by position, counted over all shards. Shards that are files are mapped when first
/// needed.
class indexed_tar : public places_in_files {
 public:
  indexed_tar(const listed_shards& all, bool keep_index, const tar_settings& how,
              const std::stop_token& stop);

  // A copy has announced nothing.
  indexed_tar(const indexed_tar& other);

  indexed_tar& operator=(const indexed_tar&) = delete;

  ~indexed_tar() = default;

  /// Throws tar_error as reading the shard in order would, and for a shard that has changed since it was
  /// indexed.
  tar_sample at(std::uint64_t place, const std::stop_token& stop = {}) const;

  /// Has the system or the store start to read a sample's bytes, if they are worth the request.
  void will_need(std::uint64_t place) const noexcept;

  /// Whether at() would return without waiting for an object.
  bool ready(std::uint64_t place) const;

 private:
  bool is_object(std::size_t number) const noexcept;

  std::shared_ptr<const mapped_file> map(std::size_t number) const;

  std::shared_ptr<const std::vector<tar_index>> shards_; // of files
  std::shared_ptr<lazy_maps> maps_;
  tar_settings how_;
  std::shared_ptr<const objects_by_position> objects_; // null: all shards are files
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <feedline/detail/readable_text.hpp>
#include <feedline/detail/run_on_threads.hpp>
#include <feedline/source/detail/index_file.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_index.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE indexed_tar::indexed_tar(const listed_shards& all, bool keep_index, const tar_settings& how,
                                         const std::stop_token& stop)
    : maps_(std::make_shared<lazy_maps>(all.files.names())), how_(how.quiet()) {
  if (all.objects) objects_ = all.objects->by_position(how, stop);
  std::vector<tar_index> shards(all.files.names().size());
  // They mostly wait for the disk. To look for a sample's members takes memory, so one shard at a time does that.
  run_each_on_threads(shards.size(), how.notice && how.notice->may_look_for_neighbours() ? 1 : 16,
                      [&](std::size_t i) {
                        throw_if_stopped(stop); // indices that were kept take no scan
                        if (!is_object(i))
                          shards[i] = index_of_tar(all.files.names()[i], how, keep_index, stop);
                      });
  for (std::size_t i = 0; i < shards.size(); ++i)
    add_file(is_object(i) ? objects_->samples(i) : shards[i].begins.size());
  shards_ = std::make_shared<const std::vector<tar_index>>(std::move(shards));
}

FEEDLINE_INLINE indexed_tar::indexed_tar(const indexed_tar& other)
    : places_in_files(other),
      shards_(other.shards_),
      maps_(other.maps_),
      how_(other.how_),
      objects_(other.objects_ ? other.objects_->copy() : nullptr) {}

FEEDLINE_INLINE tar_sample indexed_tar::at(std::uint64_t place, const std::stop_token& stop) const {
  const std::size_t number = file_of(place);
  const std::size_t position = static_cast<std::size_t>(place - first_of(number));
  if (is_object(number)) return objects_->at(number, position, stop);
  const tar_index& index = (*shards_)[number];
  if (!index.problem.empty()) throw tar_error(index.problem);
  const auto file = map(number);
  if (!index.is_of(*file)) throw tar_error(readable(file->path()) + " has changed since it was indexed");
  return sample_at(file, how_, index, position);
}

FEEDLINE_INLINE void indexed_tar::will_need(std::uint64_t place) const noexcept {
  const std::size_t number = file_of(place);
  const std::size_t position = static_cast<std::size_t>(place - first_of(number));
  try {
    if (is_object(number)) return objects_->will_need(number, position);
    const std::vector<std::uint64_t>& begins = (*shards_)[number].begins;
    const std::uint64_t begin = begins[position];
    const std::uint64_t end = position + 1 < begins.size() ? begins[position + 1] : (*shards_)[number].bytes;
    constexpr std::uint64_t few = 16 << 10; // bytes; reading them costs less than the request
    if (end < begin + few) return;
    maps_->at(number)->will_need(begin, end - begin);
  } catch (...) { // at() throws it
  }
}

FEEDLINE_INLINE bool indexed_tar::ready(std::uint64_t place) const {
  if (!objects_) return true;
  const std::size_t number = file_of(place);
  return !is_object(number) || objects_->ready(number, static_cast<std::size_t>(place - first_of(number)));
}

FEEDLINE_INLINE bool indexed_tar::is_object(std::size_t number) const noexcept {
  return objects_ && objects_->has(number);
}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> indexed_tar::map(std::size_t number) const {
  try {
    return maps_->at(number);
  } catch (const std::runtime_error& error) {
    throw tar_error(error.what());
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

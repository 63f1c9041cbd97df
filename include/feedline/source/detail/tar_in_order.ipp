// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/tar_in_order.hpp>

#include <exception>

#include <feedline/core/failure.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/detail/tar_index.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE tar_in_order::tar_in_order(file_order files, tar_shards opener)
    : files_(std::move(files)),
      opener_(std::move(opener)),
      names_(std::make_shared<tar_names>(opener_.settings())) {}

FEEDLINE_INLINE tar_in_order::tar_in_order(tar_in_order&&) noexcept = default;
FEEDLINE_INLINE tar_in_order& tar_in_order::operator=(tar_in_order&&) noexcept = default;
FEEDLINE_INLINE tar_in_order::~tar_in_order() = default;

FEEDLINE_INLINE tar_in_order& tar_in_order::operator=(const tar_in_order& other) {
  return *this = tar_in_order(other);
}

FEEDLINE_INLINE tar_in_order::tar_in_order(const tar_in_order& other)
    : files_(other.files_),
      opener_(other.opener_),
      number_(other.number_),
      index_(other.index_),
      place_(other.place()),
      names_(other.names_) {}

FEEDLINE_INLINE void tar_in_order::start_epoch(const epoch& e) {
  files_.start(e);
  opener_.start(e);
  shard_.reset();
  place_ = {};
}

FEEDLINE_INLINE std::optional<tar_sample> tar_in_order::next() {
  if (place_.is_open()) resumed();
  for (;;) {
    if (!shard_) {
      const auto file = files_.next();
      if (!file) return {};
      number_ = *file;
      index_ = files_.index_of(number_, 0);
      shard_ = opener_.open(files_, number_, {});
    }
    const std::uint64_t last = std::exchange(index_, files_.index_of(number_, shard_->position()));
    std::optional<tar_sample> sample;
    try {
      sample = shard_->next();
    } catch (const tar_error&) {
      if (opener_.is_stopped()) return {}; // the stop may have cut the shard off
      throw;
    } catch (...) {
      // Only this sample is lost; but after an outage, nothing is known about the rest of the shard.
      if (is_outage(std::current_exception())) shard_.reset();
      throw;
    }
    if (sample) {
      opener_.yielded_sample(files_, *shard_);
      return sample;
    }
    index_ = last;
    shard_.reset();
  }
}

FEEDLINE_INLINE void tar_in_order::resumed() {
  const tar_place from = std::exchange(place_, {});
  if (!from.is_open()) return;
  number_ = files_.last();
  shard_ = opener_.open(files_, number_, from);
  while (shard_->position() < from.position) {
    try {
      if (!shard_->next()) break;
    } catch (const tar_error&) { // was thrown before the checkpoint
    }
  }
}

FEEDLINE_INLINE void tar_in_order::seek(std::uint64_t index) {
  const std::size_t number = file_order::file_of(index);
  if (shard_ && number_ == number && shard_->position() <= file_order::place_of(index)) return;
  files_.go_to(number);
  shard_.reset();
  place_ = {};
}

FEEDLINE_INLINE std::uint64_t tar_in_order::fingerprint(std::uint64_t extent,
                                                        const std::stop_token& stop) const {
  return settings().fingerprint(objects() ? objects()->fingerprint(extent, stop)
                                          : files_.fingerprint(extent));
}

FEEDLINE_INLINE std::optional<std::size_t> tar_in_order::max_item_bytes() const noexcept {
  return sizeof(tar_sample) + (objects() || !settings().decompress.empty() ? settings().max_sample_bytes : 0);
}

FEEDLINE_INLINE std::size_t tar_in_order::bytes_held() const {
  return (objects() ? objects()->bytes_ahead() : 0) + settings().bytes_held();
}

FEEDLINE_INLINE std::string tar_in_order::origin(std::uint64_t index) const {
  const std::string name = files_.name_of(index);
  const bool is_file = !name.empty() && !(objects() && objects()->has(file_order::file_of(index)));
  return files_.origin_of(index, is_file ? names_->at(name, file_order::place_of(index)) : std::string());
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE file_order::file_order(const file_patterns& files, const char* source)
    : file_order(list(files, source, append_files, [](const std::string& name) { return name; })) {}

FEEDLINE_INLINE file_order::file_order(std::vector<std::string> names)
    : names_(std::make_shared<const std::vector<std::string>>(std::move(names))), end_(names_->size()) {}

FEEDLINE_INLINE void file_order::start(const epoch& e) {
  order_.clear();
  reached_ = 0;
  end_ = static_cast<std::size_t>(std::min<std::uint64_t>(names_->size(), e.extent));
  if (end_ < e.rank.world_size && !e.rank.is_alone())
    throw std::runtime_error(std::to_string(end_) + " files can't be divided among " +
                             std::to_string(e.rank.world_size) + " ranks: each rank needs at least one");
  if (!e.shuffled && e.rank.is_alone()) return;
  for (std::uint32_t i = 0; i < end_; ++i) order_.push_back(i);
  if (e.shuffled) shuffle_range(order_.begin(), order_.size(), random_generator(key(e.seed, e.number)));
  // The files of this rank.
  end_ = 0;
  for (std::size_t i = e.rank.number; i < order_.size(); i += e.rank.world_size) order_[end_++] = order_[i];
  order_.resize(end_);
}

FEEDLINE_INLINE std::optional<std::size_t> file_order::next() {
  const auto number = peek();
  reached_ += number.has_value();
  return number;
}

FEEDLINE_INLINE std::optional<std::size_t> file_order::peek(std::size_t skipping) const {
  if (reached_ >= end_ || skipping >= end_ - reached_) return std::nullopt;
  return order_.empty() ? reached_ + skipping : order_[reached_ + skipping];
}

FEEDLINE_INLINE void file_order::go_to(std::size_t file) {
  order_.clear();
  reached_ = file;
  end_ = std::min(file + 1, names_->size());
}

FEEDLINE_INLINE std::size_t file_order::last() const {
  if (reached_ == 0 || reached_ > end_) throw std::invalid_argument("feedline: the checkpoint is not whole");
  return order_.empty() ? reached_ - 1 : order_[reached_ - 1];
}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> file_order::map_last(std::size_t offset) const {
  auto file = std::make_shared<const mapped_file>((*names_)[last()]);
  if (offset > file->bytes().size())
    throw std::runtime_error(readable(file->path()) + " has become shorter since the checkpoint was taken");
  return file;
}

FEEDLINE_INLINE std::uint64_t file_order::extent() const noexcept { return names_->size(); }

FEEDLINE_INLINE std::uint64_t file_order::fingerprint(std::uint64_t extent) const {
  return fingerprint(extent, [this](std::size_t i) { return fingerprint_of_file((*names_)[i]); });
}

FEEDLINE_INLINE const std::vector<std::string>& file_order::names() const noexcept { return *names_; }

FEEDLINE_INLINE std::string file_order::origin_of(std::uint64_t index, std::string name) const {
  if (!name.empty()) return name;
  return readable(name_of(index)) + ": sample #" + std::to_string(place_of(index));
}

FEEDLINE_INLINE std::string file_order::name_of(std::uint64_t index) const {
  return file_of(index) < names_->size() ? (*names_)[file_of(index)] : std::string();
}

FEEDLINE_INLINE void places_in_files::add_file(std::uint64_t samples) { firsts_.push_back(size() + samples); }

} // namespace feedline::inline FEEDLINE_ABI::detail

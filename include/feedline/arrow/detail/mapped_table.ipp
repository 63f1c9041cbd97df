// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/arrow/detail/mapped_table.hpp>

#include <stdexcept>
#include <utility>

#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const mapped_file> map_arrow(const std::string& path, sharing with) {
  try {
    return std::make_shared<const mapped_file>(path, with);
  } catch (const std::runtime_error& error) {
    throw arrow_error(error.what());
  }
}

FEEDLINE_INLINE known_layout read_layout(const mapped_file& file) {
  return {std::make_shared<const arrow_layout>(layout_reader::read(file.bytes())), file.bytes().size(),
          file.modified_ns()};
}

FEEDLINE_INLINE void recent_batches::keep(std::shared_ptr<const loaded_batch> batch) {
  std::vector<std::shared_ptr<const loaded_batch>> oldest; // destroyed without the lock
  const std::lock_guard lock(mutex_);
  bytes_ += batch->own.size();
  while (!batches_.empty() && (batches_.size() == capacity || bytes_ > most_)) {
    bytes_ -= batches_.front()->own.size();
    oldest.push_back(std::move(batches_.front()));
    batches_.pop_front();
  }
  batches_.push_back(std::move(batch));
}

FEEDLINE_INLINE mapped_table::mapped_table(std::shared_ptr<const mapped_file> file, std::size_t number,
                                           known_layout known, const wanted_rows& wanted,
                                           std::shared_ptr<recent_batches> recent)
    : mapped_(std::move(file)), recent_(std::move(recent)), dictionaries_(wanted.options.max_batch_bytes) {
  if (!known.is_of(*mapped_))
    throw arrow_error(readable(mapped_->path()) + " has changed since it was opened");
  auto described = std::make_shared<arrow_file>();
  described->origin = {mapped_->path(), number, known.bytes, known.modified_ns};
  described->layout = std::move(known.layout);
  if (described->layout->batches.empty() && !described->layout->problem.empty()) throw problem_of(*described);
  try {
    described->find(wanted);
  } catch (const arrow_error& error) {
    throw arrow_error(readable(mapped_->path()) + ": " + error.what());
  }
  file_ = std::move(described);
  batches_.resize(layout().batches.size());
}

FEEDLINE_INLINE const arrow_layout& mapped_table::layout() const noexcept { return *file_->layout; }

FEEDLINE_INLINE arrow_error mapped_table::problem() const { return problem_of(*file_); }

FEEDLINE_INLINE std::shared_ptr<const loaded_batch> mapped_table::batch(std::size_t number) {
  const std::lock_guard lock(mutex_);
  slot& s = batches_[number];
  if (s.kept) return s.kept;
  if (auto known = s.known.lock()) return known;
  const batch_place& place = layout().batches[number];
  const auto bytes_of = [&](const batch_place& p) { return bytes_at(p, mapped_->bytes(), mapped_); };
  const auto bytes_of_part = [&](std::size_t part) { return bytes_of(layout().dictionaries[part].values); };
  const auto find_dictionary = [&](const arrow_field& field) {
    return dictionaries_.find(field, layout(), place, bytes_of_part);
  };
  auto loaded = load_batch(file_, bytes_of(place), layout().first_of(number), place.rows, find_dictionary);
  // A batch of views of the file needs hardly any memory.
  if (!loaded->is_compressed) {
    s.kept = loaded;
  } else {
    s.known = loaded;
    if (recent_) recent_->keep(loaded);
  }
  return loaded;
}

FEEDLINE_INLINE arrow_error mapped_table::problem_of(const arrow_file& file) {
  return arrow_error(readable(file.origin.path) + ": " + file.layout->problem);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// A mapped Arrow file, whose record batches are read on first use.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/detail/mapped_file.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// Maps a file. Throws arrow_error for any error.
std::shared_ptr<const mapped_file> map_arrow(const std::string& path, sharing with = sharing::all);

/// The layout of a file, and the size and modification time that it was read at.
struct known_layout {
  std::shared_ptr<const arrow_layout> layout;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;

  bool is_of(const mapped_file& file) const noexcept {
    return bytes == file.bytes().size() && modified_ns == file.modified_ns();
  }
};

/// Reads the positions of a file's batches. A file that can't be read has a layout with a problem.
known_layout read_layout(const mapped_file& file, const wanted_rows& wanted);

/// Keeps the most recently decompressed record batches, so that rows in random order don't each need a
/// decompression. Thread-safe.
class recent_batches {
 public:
  static constexpr std::size_t capacity = 16;

  /// `most`: the most bytes of all batches, but for one that is larger.
  explicit recent_batches(std::size_t most) : most_(most) {}

  void keep(std::shared_ptr<const loaded_batch> batch);

 private:
  const std::uint64_t most_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<const loaded_batch>> batches_; // oldest first
  std::uint64_t bytes_ = 0;
};

/// A mapped Arrow file. Thread-safe.
class mapped_table {
 public:
  /// Throws arrow_error if the columns don't match, or if the file has no readable batch because of a
  /// problem.
  mapped_table(std::shared_ptr<const mapped_file> file, std::size_t number, known_layout known,
               const wanted_rows& wanted, std::shared_ptr<recent_batches> recent = nullptr);

  const arrow_layout& layout() const noexcept;

  const std::shared_ptr<const mapped_file>& mapped() const noexcept { return mapped_; }

  /// The error that follows the last batch.
  arrow_error problem() const;

  std::shared_ptr<const loaded_batch> batch(std::size_t number);

  /// Makes the system start to read what row `row` of the file needs. Doesn't wait for it.
  void will_need(std::uint64_t row);

 private:
  struct slot {
    std::shared_ptr<const loaded_batch> kept;
    std::weak_ptr<const loaded_batch> known;
  };

  static arrow_error problem_of(const arrow_file& file);

  std::shared_ptr<const mapped_file> mapped_;
  std::shared_ptr<const arrow_file> file_;
  std::shared_ptr<recent_batches> recent_;
  std::mutex mutex_; // for the members below
  std::vector<slot> batches_;
  arrow_dictionaries dictionaries_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_ARROW)
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

FEEDLINE_INLINE known_layout read_layout(const mapped_file& file, const wanted_rows& wanted) {
  const bool concatenated = wanted.options.concatenated;
  return {std::make_shared<const arrow_layout>(layout_reader::read(file.bytes(), concatenated)),
          file.bytes().size(), file.modified_ns()};
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
  wanted.notice(mapped_->path(), layout().left_out);
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

/// Announces what reading some values takes, as far as it is known without waiting.
class value_announcer {
 public:
  explicit value_announcer(const mapped_file& file) : file_(file) {}

  void announce(const arrow_array& a, std::uint64_t begin, std::uint64_t end) const {
    if (begin >= end || end > a.length) return;
    const arrow_field& field = *a.field;
    switch (layout_of(field.type).holds) {
    case arrow_buffers::values: {
      const std::uint64_t size = field.type == arrow_type::fixed_size_binary ? field.bytes : field.bits / 8;
      return announce(a.values, begin * size, end * size);
    }
    case arrow_buffers::bytes:
      if (has_offsets(a, begin, end))
        announce(a.values, a.range(begin, a.values.size()).first, a.range(end - 1, a.values.size()).second);
      return;
    case arrow_buffers::views:
      if (end - begin == 1 && is_here(a.values, begin * arrow_array::view_size, arrow_array::view_size))
        announce(a.bytes(begin));
      return;
    case arrow_buffers::lists:
      if (layout_of(field.type).offset_size == 0 || has_offsets(a, begin, end))
        announce(a.children.front(), a.elements(begin).first, a.elements(end - 1).second);
      return;
    case arrow_buffers::parts:
      for (const arrow_array& child : a.children) announce(child, begin, end);
      return;
    default:
      return;
    }
  }

 private:
  bool has_offsets(const arrow_array& a, std::uint64_t begin, std::uint64_t end) const {
    const std::size_t size = layout_of(a.field->type).offset_size;
    return is_here(a.offsets, begin * size, 2 * size) && is_here(a.offsets, (end - 1) * size, 2 * size);
  }

  // Numbers that the next step needs: if they aren't in memory, only they are announced.
  bool is_here(std::span<const std::byte> bytes, std::uint64_t at, std::uint64_t size) const {
    const std::uint64_t offset = offset_of(bytes) + at;
    if (file_.is_in_memory(offset) && file_.is_in_memory(offset + size - 1)) return true;
    file_.will_need(offset, size);
    return false;
  }

  // Beyond the file's end for bytes that aren't in the file.
  std::uint64_t offset_of(std::span<const std::byte> bytes) const {
    return reinterpret_cast<std::uintptr_t>(bytes.data()) -
           reinterpret_cast<std::uintptr_t>(file_.bytes().data());
  }

  void announce(std::span<const std::byte> all, std::uint64_t begin, std::uint64_t end) const {
    if (begin > end) return; // offsets of a damaged file: each is in range, and reading the row fails
    announce(all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }

  void announce(std::span<const std::byte> bytes) const {
    if (bytes.size() >= arrow_layout::few_bytes) file_.will_need(offset_of(bytes), bytes.size());
  }

  const mapped_file& file_;
};

FEEDLINE_INLINE void mapped_table::will_need(std::uint64_t row) {
  const std::size_t number = layout().batch_of(row);
  const batch_place& place = layout().batches[number];
  if (place.is_compressed) { // it is decompressed as a whole
    {
      const std::lock_guard lock(mutex_);
      if (!batches_[number].known.expired()) return;
    }
    announced_file{mapped_, place.body}.reach(place.body + place.body_size);
    return;
  }
  const auto loaded = batch(number);
  const value_announcer announcer(*mapped_);
  const std::uint64_t in_batch = row - layout().first_of(number);
  for (const loaded_column& column : loaded->columns)
    announcer.announce(column.array, in_batch, in_batch + 1);
}

FEEDLINE_INLINE arrow_error mapped_table::problem_of(const arrow_file& file) {
  return arrow_error(readable(file.origin.path) + ": " + file.layout->problem);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

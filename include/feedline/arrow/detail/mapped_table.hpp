// SPDX-License-Identifier: MIT
#pragma once
// A mapped Arrow file, whose record batches are read on first use.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <feedline/arrow/arrow_error.hpp>
#include <feedline/arrow/detail/layout.hpp>
#include <feedline/arrow/detail/loaded_batch.hpp>
#include <feedline/arrow/detail/wanted_columns.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline v0::detail {

/// Maps a file. Throws arrow_error for any error.
inline std::shared_ptr<const mapped_file> map_arrow(const std::string& path, sharing with = sharing::all) {
  try {
    return std::make_shared<const mapped_file>(path, with);
  } catch (const std::runtime_error& error) {
    throw arrow_error(error.what());
  }
}

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
inline known_layout read_layout(const mapped_file& file) {
  return {std::make_shared<const arrow_layout>(layout_reader::read(file.bytes())), file.bytes().size(),
          file.modified_ns()};
}

/// Keeps the most recently decompressed record batches, so that rows in random order don't each need a
/// decompression. Thread-safe.
class recent_batches {
 public:
  static constexpr std::size_t capacity = 16;

  void keep(std::shared_ptr<const loaded_batch> batch) {
    std::shared_ptr<const loaded_batch> oldest; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    if (batches_.size() == capacity) {
      oldest = std::move(batches_.front());
      batches_.pop_front();
    }
    batches_.push_back(std::move(batch));
  }

 private:
  std::mutex mutex_;
  std::deque<std::shared_ptr<const loaded_batch>> batches_;
};

/// A mapped Arrow file. Thread-safe.
class mapped_table {
 public:
  /// Throws arrow_error if the columns don't match, or if the file has no readable batch because of a
  /// problem.
  mapped_table(std::shared_ptr<const mapped_file> file, std::size_t number, known_layout known,
               const std::vector<wanted_column>& columns, std::shared_ptr<recent_batches> recent = nullptr)
      : mapped_(std::move(file)), recent_(std::move(recent)) {
    if (!known.is_of(*mapped_))
      throw arrow_error(readable(mapped_->path()) + " has changed since it was opened");
    auto described = std::make_shared<arrow_file>();
    described->origin = {mapped_->path(), number, known.bytes, known.modified_ns};
    described->layout = std::move(known.layout);
    if (described->layout->batches.empty() && !described->layout->problem.empty())
      throw problem_of(*described);
    try {
      described->paths = find_columns(described->layout->schema, columns);
    } catch (const arrow_error& error) {
      throw arrow_error(readable(mapped_->path()) + ": " + error.what());
    }
    file_ = std::move(described);
    batches_.resize(layout().batches.size());
  }

  const arrow_layout& layout() const noexcept { return *file_->layout; }

  const std::shared_ptr<const mapped_file>& mapped() const noexcept { return mapped_; }

  /// The error that follows the last batch.
  arrow_error problem() const { return problem_of(*file_); }

  std::shared_ptr<const loaded_batch> batch(std::size_t number) {
    const std::lock_guard lock(mutex_);
    slot& s = batches_[number];
    if (s.kept) return s.kept;
    if (auto known = s.known.lock()) return known;
    const batch_place& place = layout().batches[number];
    const auto bytes_of_part = [&](std::size_t part) { return bytes_at(layout().dictionaries[part].values); };
    arrow_dictionaries::finder dictionaries(dictionaries_, layout(), place.dictionaries, bytes_of_part);
    auto loaded = load_batch(file_, bytes_at(place), layout().first_of(number), place.rows, dictionaries);
    // A batch of views of the file needs hardly any memory.
    if (!loaded->is_compressed) {
      s.kept = loaded;
    } else {
      s.known = loaded;
      if (recent_) recent_->keep(loaded);
    }
    return loaded;
  }

 private:
  struct slot {
    std::shared_ptr<const loaded_batch> kept;
    std::weak_ptr<const loaded_batch> known;
  };

  static arrow_error problem_of(const arrow_file& file) {
    return arrow_error(readable(file.origin.path) + ": " + file.layout->problem);
  }

  message_bytes bytes_at(const batch_place& place) const {
    const auto all = mapped_->bytes();
    return {
        all.subspan(static_cast<std::size_t>(place.metadata), static_cast<std::size_t>(place.metadata_size)),
        all.subspan(static_cast<std::size_t>(place.body), static_cast<std::size_t>(place.body_size)),
        mapped_};
  }

  std::shared_ptr<const mapped_file> mapped_;
  std::shared_ptr<const arrow_file> file_;
  std::shared_ptr<recent_batches> recent_;
  std::mutex mutex_; // for the members below
  std::vector<slot> batches_;
  arrow_dictionaries dictionaries_;
};

} // namespace feedline::inline v0::detail

// SPDX-License-Identifier: MIT
#pragma once
// Has the system read files before a source reaches them.
#include <feedline/core/contract.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// For a source that reads its files one after another: has the system read the next bytes into memory, also
/// those at the beginning of the next file, while the source yields the samples before them.
class read_ahead {
 public:
  /// Returns a file, mapped ahead or now. Throws as mapped_file does.
  std::shared_ptr<const mapped_file> open(const file_order& files, std::size_t number);

  /// The same, but returns null if it wasn't mapped ahead.
  std::shared_ptr<const mapped_file> take(std::size_t number) noexcept;

  /// Call this before the source reads the file that it opened last, from `offset` on.
  void announce(const file_order& files, const std::shared_ptr<const mapped_file>& file,
                std::uint64_t offset) {
    if (offset >= due_) [[unlikely]]
      announce_more(files, file, offset);
  }

 private:
  static constexpr std::uint64_t reach = std::uint64_t{8} << 20; // bytes

  void announce_more(const file_order& files, const std::shared_ptr<const mapped_file>& file,
                     std::uint64_t offset);

  void map_next(const file_order& files);

  announced_file here_;
  announced_file next_; // the file after it
  std::optional<std::size_t> next_number_;
  std::uint64_t due_ = 0; // the offset from which to announce more
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const mapped_file> read_ahead::open(const file_order& files,
                                                                    std::size_t number) {
  if (auto file = take(number)) return file;
  return std::make_shared<const mapped_file>(files.names()[number]);
}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> read_ahead::take(std::size_t number) noexcept {
  due_ = 0;
  return next_number_ == number ? next_.file : nullptr;
}

FEEDLINE_INLINE void read_ahead::announce_more(const file_order& files,
                                               const std::shared_ptr<const mapped_file>& file,
                                               std::uint64_t offset) {
  if (file != here_.file) {
    here_ = next_.file == file ? std::exchange(next_, {}) : announced_file{file};
    next_ = {};
    next_number_.reset();
  }
  due_ = offset + announced_file::step;
  if (offset > here_.bytes) here_.bytes = offset; // skipped bytes aren't needed
  const std::uint64_t end = offset + reach, size = file->bytes().size();
  here_.reach(end);
  if (end <= size) return;
  if (!next_number_) map_next(files);
  if (next_.file) next_.reach(end - size);
}

FEEDLINE_INLINE void read_ahead::map_next(const file_order& files) {
  next_number_ = files.peek();
  try {
    if (next_number_) next_.file = std::make_shared<const mapped_file>(files.names()[*next_number_]);
  } catch (const std::runtime_error&) { // thrown when the source opens this file
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

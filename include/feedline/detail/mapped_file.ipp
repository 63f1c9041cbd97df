// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/detail/mapped_file.hpp>

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <feedline/detail/kernel.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE std::shared_ptr<const file_memory> file_memory::of(const std::string& path, sharing with) {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0) fail(errno, path);
  // Checked before opening, as opening a device may have side effects.
  if (S_ISDIR(status.st_mode)) fail(EISDIR, path);
  if (!S_ISREG(status.st_mode)) throw std::runtime_error(readable(path) + ": is not a regular file");
  if (with == sharing::all)
    if (auto memory = in_use::of_process().find(file_state(status))) return memory;
  // Without O_NONBLOCK opening a named pipe would wait for its writer.
  const open_file file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file || ::fstat(file.number(), &status) != 0) fail(errno, path);
  auto memory = std::make_shared<const file_memory>(file, file_state(status), path);
  return with == sharing::all ? in_use::of_process().add(memory) : memory;
}

FEEDLINE_INLINE file_memory::file_memory(const open_file& file, const file_state& state,
                                         const std::string& path)
    : state_(state) {
  constexpr std::uint64_t few = 16 << 10; // bytes
  if (state.size > std::numeric_limits<std::size_t>::max()) fail(EFBIG, path);
  if (state.size > few && map(file)) return;
  try {
    read(file, path);
  } catch (const std::bad_alloc&) {
    fail(ENOMEM, path);
  }
}

FEEDLINE_INLINE bool file_memory::is_mapped() const noexcept { return bytes_.data() != read_.data(); }

FEEDLINE_INLINE bool file_memory::map(const open_file& file) noexcept {
  std::atomic<std::size_t>& maps = in_use::of_process().maps;
  const auto size = static_cast<std::size_t>(state_.size);
  void* const memory = maps.fetch_add(1) < most_maps
                           ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0)
                           : MAP_FAILED;
  if (memory == MAP_FAILED) {
    --maps;
    return false;
  }
  bytes_ = {static_cast<const std::byte*>(memory), size};
  return true;
}

FEEDLINE_INLINE void file_memory::unmap() noexcept {
  if (!is_mapped()) return;
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  --in_use::of_process().maps;
}

FEEDLINE_INLINE std::shared_ptr<const file_memory> file_memory::in_use::find(const file_state& state) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(state);
  return found == files_.end() ? nullptr : found->second.lock();
}

FEEDLINE_INLINE std::shared_ptr<const file_memory>
file_memory::in_use::add(const std::shared_ptr<const file_memory>& memory) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const file_memory>& known = files_[memory->state()];
  if (auto earlier = known.lock()) return earlier;
  known = memory;
  return memory;
}

FEEDLINE_INLINE void file_memory::in_use::forget(const file_state& state) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(state);
  if (found != files_.end() && found->second.expired()) files_.erase(found);
}

FEEDLINE_INLINE file_memory::in_use* file_memory::in_use::make() {
  // Otherwise a child forked by another thread could find the mutex locked forever.
  around_fork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); });
  return new in_use(); // never destroyed: static samples may outlive anything
}

FEEDLINE_INLINE void file_memory::read(const open_file& file, const std::string& path) {
  constexpr std::size_t step = 4096;
  const std::size_t size = state_.size > 0 ? static_cast<std::size_t>(state_.size) + 1 : step;
  for (std::size_t got = 0;;) {
    if (got == read_.size()) read_.resize(std::max(size, 2 * got));
    const ::ssize_t count = ::read(file.number(), read_.data() + got, read_.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno, path);
    got += static_cast<std::size_t>(count);
    if (count > 0) continue;
    read_.resize(got);
    read_.shrink_to_fit();
    bytes_ = read_;
    return;
  }
}

FEEDLINE_INLINE void file_memory::fail(int reason, const std::string& path) {
  throw std::system_error(reason, std::generic_category(), readable(path));
}

FEEDLINE_INLINE mapped_file::mapped_file(std::string path, sharing with)
    : memory_(file_memory::of(path, with)),
      version_{std::move(path), memory_->bytes().size(), static_cast<std::uint64_t>(modified_ns())} {}

FEEDLINE_INLINE std::int64_t mapped_file::modified_ns() const noexcept {
  return memory_->state().modified_ns;
}

FEEDLINE_INLINE void mapped_file::will_need(std::uint64_t offset, std::uint64_t count) const noexcept {
  constexpr std::uint64_t page = 4096; // if pages are larger, the call has no effect
  const std::uint64_t begin = std::min<std::uint64_t>(offset, bytes().size()) / page * page;
  const std::uint64_t end = std::min<std::uint64_t>(offset + count, bytes().size());
  if (begin < end && memory_->is_mapped())
    ::madvise(const_cast<std::byte*>(bytes().data() + begin), static_cast<std::size_t>(end - begin),
              MADV_WILLNEED);
}

FEEDLINE_INLINE void mapped_file::expect_jumps() const noexcept {
  if (memory_->is_mapped()) ::madvise(const_cast<std::byte*>(bytes().data()), bytes().size(), MADV_RANDOM);
}

FEEDLINE_INLINE lazy_maps::lazy_maps(std::vector<std::string> names)
    : names_(std::move(names)), files_(names_.size()) {}

FEEDLINE_INLINE std::shared_ptr<const mapped_file> lazy_maps::at(std::size_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (files_[number]) return files_[number];
  }
  auto file = std::make_shared<const mapped_file>(names_[number]);
  std::shared_ptr<const mapped_file> oldest; // released without the lock
  const std::lock_guard lock(mutex_);
  if (files_[number]) return files_[number];
  if (mapped_.size() == most) {
    oldest = std::move(files_[mapped_.front()]);
    mapped_.pop_front();
  }
  mapped_.push_back(number);
  return files_[number] = std::move(file);
}

FEEDLINE_INLINE void announced_file::reach(std::uint64_t end) {
  for (; bytes < std::min<std::uint64_t>(end, file->bytes().size()); bytes += step)
    file->will_need(bytes, step);
}

FEEDLINE_INLINE std::string_view last_name(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);
}

FEEDLINE_INLINE void content_fingerprint::add(std::span<const std::byte> bytes) noexcept {
  for (const std::byte b : bytes) hash_ = (hash_ ^ static_cast<std::uint8_t>(b)) * 0x100000001b3;
}

FEEDLINE_INLINE std::uint64_t fingerprint_of_file(const std::string& path) noexcept {
  struct stat status {};

  // Opening a named pipe would look like a reader to a waiting writer.
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) return 0;
  content_fingerprint contents;
  std::uint64_t hash = contents.without_size();
  if (::fstat(number, &status) == 0 && S_ISREG(status.st_mode)) {
    std::byte block[content_fingerprint::block];
    const auto add = [&](::off_t begin) {
      const ::ssize_t got = ::pread(number, block, sizeof block, begin);
      contents.add({block, static_cast<std::size_t>(std::max<::ssize_t>(0, got))});
    };
    add(0);
    if (status.st_size > ::off_t{sizeof block}) add(status.st_size - ::off_t{sizeof block});
    hash = contents.of_size(static_cast<std::uint64_t>(status.st_size));
  }
  ::close(number);
  return hash;
}

FEEDLINE_INLINE std::optional<std::uint64_t> size_of_regular_file(const std::string& path) {
  struct stat status {};

  if (::stat(path.c_str(), &status) != 0)
    throw std::system_error(errno, std::generic_category(), readable(path));
  if (!S_ISREG(status.st_mode)) return {};
  return static_cast<std::uint64_t>(status.st_size);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

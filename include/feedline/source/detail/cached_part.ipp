// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/cached_part.hpp>

#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <feedline/core/random.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE part_key::part_key(const std::string& name, std::uint64_t offset, std::size_t count)
    : first(key(stable_hash(name), offset, count)), second(key(stable_hash("2" + name), offset, count)) {}

FEEDLINE_INLINE std::string part_key::file_name() const {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(first),
                static_cast<unsigned long long>(second));
  return text;
}

FEEDLINE_INLINE part_record::part_record(const part_key& k, const object_part& part)
    : words{magic,
            k.first,
            k.second,
            part.object.bytes,
            stable_hash(part.object.version),
            part.bytes.size(),
            hash_of_block(part.bytes)} {}

FEEDLINE_INLINE bool part_record::is_of(const object_info& object) const noexcept {
  return words[3] == object.bytes && words[4] == stable_hash(object.version);
}

FEEDLINE_INLINE std::optional<kept_part> kept_part::find(const std::string& path, const part_key& k) {
  if (::access(path.c_str(), F_OK) != 0) return {};
  try {
    kept_part found;
    found.file_ = std::make_shared<const mapped_file>(path, sharing::alone);
    const std::span<const std::byte> bytes = found.file_->bytes();
    if (bytes.size() < sizeof(part_record)) return {};
    std::memcpy(&found.record_, bytes.data() + bytes.size() - sizeof(part_record), sizeof(part_record));
    if (!found.record_.is_of(k, bytes.size() - sizeof(part_record))) return {};
    return found;
  } catch (const std::runtime_error&) { // it is gone, or can't be read
    return {};
  }
}

FEEDLINE_INLINE std::span<const std::byte> kept_part::bytes() const noexcept {
  return file_->bytes().first(file_->bytes().size() - sizeof(part_record));
}

FEEDLINE_INLINE bool kept_part::is_intact() const noexcept {
  return hash_of_block(bytes()) == record_.words.back();
}

FEEDLINE_INLINE object_part kept_part::part(const object_info& object) const {
  constexpr std::size_t few = std::size_t{64} << 10; // copies of the samples in it would take as much
  return {object, bytes(), file_, file_->is_mapped() || bytes().size() <= few};
}

FEEDLINE_INLINE std::optional<part_draft> part_draft::begin(const std::string& path) {
  for (;;) {
    open_file file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (!file) throw std::system_error(errno, std::generic_category(), readable(path));
    if (!file.lock(false)) return {};
    if (!is_at(file, path)) continue; // the one before has just finished
    return part_draft(path, std::move(file));
  }
}

FEEDLINE_INLINE void part_draft::remove_if_abandoned(const open_file& found,
                                                     const std::string& path) noexcept {
  // Its writer may have kept it since, and another one begun the same part.
  if (found.lock(false) && is_at(found, path)) ::unlink(path.c_str());
}

FEEDLINE_INLINE part_draft::part_draft(part_draft&& other) noexcept
    : path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}

FEEDLINE_INLINE part_draft::~part_draft() {
  if (!path_.empty()) ::unlink(path_.c_str());
  if (file_) file_.unlock(); // before it is closed, which wakes those that wait
}

FEEDLINE_INLINE bool part_draft::wait(const std::string& path, const std::stop_token& stop) {
  const open_file file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return true;
  const open_file closings(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)), stops(::eventfd(0, EFD_CLOEXEC));
  if (!closings || !stops || ::inotify_add_watch(closings.number(), path.c_str(), IN_CLOSE) < 0) {
    if (errno == ENOENT) return true;
    throw std::system_error(errno, std::generic_category(), readable(path));
  }
  const auto wake = [&] { ::eventfd_write(stops.number(), 1); };
  const std::stop_callback<decltype(wake)> at_stop(stop, wake);
  while (!file.lock(false)) {
    ::pollfd both[] = {{closings.number(), POLLIN, 0}, {stops.number(), POLLIN, 0}};
    ::poll(both, 2, -1);
    if (stop.stop_requested()) return false;
    char events[4096];
    while (::read(closings.number(), events, sizeof events) > 0) continue;
    // The system reports that a process which ends closes its file, and only then releases the lock.
    // No event tells of the release, and a wait for the lock itself couldn't be stopped.
    for (int attempt = 0; attempt < 100 && !file.lock(false); ++attempt)
      if (::poll(&both[1], 1, 1) > 0) return false;
  }
  file.unlock();
  return true;
}

FEEDLINE_INLINE int part_draft::keep(const object_part& part, const part_key& k, const std::string& as) {
  const part_record record(k, part);
  int failed = file_.resize(0); // a process that was killed may have left something
  if (failed == 0) failed = file_.write(part.bytes.data(), part.bytes.size(), 0);
  if (failed == 0) failed = file_.write(&record, sizeof record, part.bytes.size());
  if (failed == 0 && std::rename(path_.c_str(), as.c_str()) != 0) failed = errno;
  if (failed == 0) path_.clear();
  return failed;
}

FEEDLINE_INLINE part_draft::part_draft(std::string path, open_file file)
    : path_(std::move(path)), file_(std::move(file)) {}

FEEDLINE_INLINE bool part_draft::is_at(const open_file& file, const std::string& path) noexcept {
  struct stat here {
  }, there{};

  return ::fstat(file.number(), &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// Uses up the memory maps that the system allows a process.
#include <cstddef>

#include <sys/mman.h>

namespace feedline::test {

/// As long as it lives, no file can be mapped, unless the limit is very high (vm.max_map_count): then is_complete() is false.
/// Not for use with sanitizers, whose memory needs maps.
class no_maps_left {
 public:
  no_maps_left() {
    if (memory_ == MAP_FAILED) return;
    // Neighbouring pages with different access are maps of their own.
    for (std::size_t i = 1; i < pages && !is_complete_; i += 2)
      is_complete_ = ::mprotect(static_cast<char*>(memory_) + i * page, page, PROT_READ) != 0;
    while (is_complete_ && count_ < most_single) {
      singles_[count_] =
          ::mmap(nullptr, page, count_ % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (singles_[count_] == MAP_FAILED) return;
      ++count_;
    }
    is_complete_ = false;
  }

  no_maps_left(const no_maps_left&) = delete;

  ~no_maps_left() {
    while (count_ > 0) ::munmap(singles_[--count_], page);
    if (memory_ != MAP_FAILED) ::munmap(memory_, pages * page);
  }

  bool is_complete() const noexcept { return is_complete_; }

 private:
  static constexpr std::size_t page = 4096, pages = 200'000, most_single = 64;

  void* const memory_ =
      ::mmap(nullptr, pages* page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* singles_[most_single];
  std::size_t count_ = 0;
  bool is_complete_ = false;
};

} // namespace feedline::test

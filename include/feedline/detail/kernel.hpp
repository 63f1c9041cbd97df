// SPDX-License-Identifier: MIT
#pragma once
// What the core needs from the processor and the operating system beyond POSIX. All of its platform-dependent code is
// here: elsewhere the core compiles on any POSIX system.
#include <feedline/version.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__) && __has_include(<linux/futex.h>) && __has_include(<linux/membarrier.h>)
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#define FEEDLINE_DETAIL_LINUX 1
#else
#include <array>
#include <condition_variable>
#include <mutex>
#define FEEDLINE_DETAIL_LINUX 0
#endif

#if defined(__SANITIZE_ADDRESS__)
#define FEEDLINE_DETAIL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FEEDLINE_DETAIL_ASAN 1
#endif
#endif
#ifndef FEEDLINE_DETAIL_ASAN
#define FEEDLINE_DETAIL_ASAN 0
#endif

namespace feedline::inline FEEDLINE_ABI::detail {

/// True under AddressSanitizer, which must see each free.
inline constexpr bool is_address_sanitized = FEEDLINE_DETAIL_ASAN;

/// The distance in bytes between data of different threads. This is our own constant, as GCC warns about
/// std::hardware_destructive_interference_size in headers.
inline constexpr std::size_t cache_line = 64;

/// Informs the processor that this is a spinning loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// The latest end of a wait. On Linux this is CLOCK_MONOTONIC, the clock of futexes.
using deadline = std::chrono::steady_clock::time_point;

/// For a wait that only a wake-up ends.
inline constexpr deadline no_deadline = deadline::max();

/// The time `longest` from now; no_deadline if the clock can't represent it.
inline deadline after(std::chrono::nanoseconds longest) noexcept {
  const deadline now = std::chrono::steady_clock::now();
  return longest < no_deadline - now ? now + longest : no_deadline;
}

#if FEEDLINE_DETAIL_LINUX

/// Sleeps while `word` is `old`; may also wake up spuriously. False if `until` has passed, or if a signal handler ran in
/// this thread meanwhile and there is such a time: a caller who gave one decides whether to go on.
inline bool park(const std::atomic<std::uint32_t>& word, std::uint32_t old,
                 deadline until = no_deadline) noexcept {
  static_assert(sizeof(word) == 4, "a futex is 4 bytes");
  const std::chrono::nanoseconds time = until.time_since_epoch();
  std::timespec limit{};
  limit.tv_sec = static_cast<std::time_t>(time.count() / 1'000'000'000);
  limit.tv_nsec = static_cast<long>(time.count() % 1'000'000'000);
  // FUTEX_WAIT_BITSET, unlike FUTEX_WAIT, takes an absolute time.
  return ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, old, until == no_deadline ? nullptr : &limit,
                   nullptr, FUTEX_BITSET_MATCH_ANY) == 0 ||
         (errno != ETIMEDOUT && (errno != EINTR || until == no_deadline));
}

/// Wakes up to `count` threads that are parked on `word`.
inline void unpark(std::atomic<std::uint32_t>& word, std::uint32_t count) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count > 0x7fffffffU ? 0x7fffffffU : count, nullptr, nullptr,
            0);
}

#else

// std::atomic has no wait with a deadline. So threads park in a slot that the word's address selects, and that
// other words may share.
struct parking_slot {
  std::mutex mutex;
  std::condition_variable woken;
};

[[gnu::visibility("default")]] inline parking_slot&
parking_slot_of(const std::atomic<std::uint32_t>& word) noexcept {
  static std::array<parking_slot, 64> slots;
  return slots[reinterpret_cast<std::uintptr_t>(&word) / cache_line % slots.size()];
}

/// Sleeps while `word` is `old`; may also wake up spuriously. False if `until` has passed.
inline bool park(const std::atomic<std::uint32_t>& word, std::uint32_t old,
                 deadline until = no_deadline) noexcept {
  parking_slot& slot = parking_slot_of(word);
  std::unique_lock lock(slot.mutex);
  if (word.load(std::memory_order_seq_cst) != old) return true;
  if (until != no_deadline) return slot.woken.wait_until(lock, until) == std::cv_status::no_timeout;
  slot.woken.wait(lock);
  return true;
}

/// Wakes up to `count` threads that are parked on `word`; this version wakes all.
inline void unpark(std::atomic<std::uint32_t>& word, std::uint32_t) noexcept {
  parking_slot& slot = parking_slot_of(word);
  { const std::lock_guard lock(slot.mutex); } // threads that read the word before its change are parked now
  slot.woken.notify_all();
}

#endif

/// True if heavy_barrier() works here: then the frequent side of a pair needs no barrier instruction.
inline bool has_heavy_barrier() noexcept {
#if FEEDLINE_DETAIL_LINUX
  static const bool registered =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered;
#else
  return false;
#endif
}

/// Makes each running thread of the process pass a full memory barrier (about 1 µs; other cores are
/// interrupted).
inline void heavy_barrier() noexcept {
#if FEEDLINE_DETAIL_LINUX
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); // can't fail once registered
#endif
}

/// The size of a large page of memory.
inline constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Requests large pages: one page fault instead of 512 on first use. `memory` must be aligned to huge_page.
inline void use_huge_pages(void* memory, std::size_t bytes) noexcept {
#if FEEDLINE_DETAIL_LINUX && defined(MADV_HUGEPAGE)
  ::madvise(memory, bytes, MADV_HUGEPAGE); // only a hint
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

/// The size of a page of memory: 4 KB, or up to 64 KB on 64-bit Arm.
inline std::size_t page_size() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// The beginning of the page of mapped memory that this byte is in.
inline std::byte* page_of(const std::byte* byte) noexcept {
  return const_cast<std::byte*>(byte) - reinterpret_cast<std::uintptr_t>(byte) % page_size();
}

/// Whether the system has the page of a mapped file in memory that this byte is in. False if it doesn't say.
inline bool is_page_in_memory(const std::byte* byte) noexcept {
#if FEEDLINE_DETAIL_LINUX
  unsigned char state = 0;
  return ::mincore(page_of(byte), 1, &state) == 0 && (state & 1) != 0;
#else
  static_cast<void>(byte);
  return false;
#endif
}

/// Makes the system start to read these bytes of a mapped file if they aren't in memory yet.
inline void read_soon(const std::byte* begin, const std::byte* end) noexcept {
  std::byte* const page = page_of(begin);
  ::posix_madvise(page, static_cast<std::size_t>(end - page), POSIX_MADV_WILLNEED); // only a hint
}

/// Makes the system start to read the first `bytes` bytes of an open file that aren't in memory yet.
inline void read_soon(int file, std::uint64_t bytes) noexcept {
#if FEEDLINE_DETAIL_LINUX
  constexpr std::uint64_t step = std::uint64_t{256} << 10; // systems truncate longer requests
  for (std::uint64_t at = 0; at < bytes; at += step)
    ::posix_fadvise(file, static_cast<::off_t>(at), static_cast<::off_t>(step), POSIX_FADV_WILLNEED);
#else
  static_cast<void>(file);
  static_cast<void>(bytes);
#endif
}

/// The number of processors in the process's affinity mask; 0 if it is unknown.
inline std::size_t allowed_processors() noexcept {
#if FEEDLINE_DETAIL_LINUX
  unsigned long mask[1024 / 8] = {}; // 65,536 processors
  const long bytes = ::syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
  std::size_t count = 0;
  for (long i = 0; i < bytes / static_cast<long>(sizeof(long)); ++i)
    count += static_cast<std::size_t>(__builtin_popcountl(mask[i]));
  return count;
#else
  return 0;
#endif
}

/// Lets the calling thread run only on the processors whose bits are set in `mask`. Returns 0 or an errno value.
inline int pin_thread(const std::uint64_t* mask, std::size_t bytes) noexcept {
#if FEEDLINE_DETAIL_LINUX
  return ::syscall(SYS_sched_setaffinity, 0, bytes, mask) < 0 ? errno : 0;
#else
  static_cast<void>(mask);
  static_cast<void>(bytes);
  return ENOTSUP;
#endif
}

/// The calling thread's number in the system; 0 if it is unknown.
inline int thread_number() noexcept {
#if FEEDLINE_DETAIL_LINUX
  return static_cast<int>(::syscall(SYS_gettid));
#else
  return 0;
#endif
}

/// Lowers the calling thread's priority as nice(1) does a process's. Returns 0 or an errno value.
inline int lower_priority(int by) noexcept {
#if FEEDLINE_DETAIL_LINUX
  const auto thread = static_cast<::id_t>(thread_number());
  const int lower = ::getpriority(PRIO_PROCESS, thread) + by;
  return ::setpriority(PRIO_PROCESS, thread, lower < 19 ? lower : 19) != 0 ? errno : 0;
#else
  static_cast<void>(by);
  return ENOTSUP;
#endif
}

/// When a file was last written, in nanoseconds since 1970.
inline std::int64_t modified_ns_of(const struct stat& status) noexcept {
#ifdef __APPLE__
  const std::timespec& time = status.st_mtimespec;
#else
  const std::timespec& time = status.st_mtim;
#endif
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

/// Registers functions for each fork() of the process: `before` runs before it, `after` in the parent and the
/// child.
inline void around_fork(void (*before)(), void (*after)()) {
  ::pthread_atfork(before, after, after); // fails only without memory; then forks are unprotected
}

} // namespace feedline::inline FEEDLINE_ABI::detail

#undef FEEDLINE_DETAIL_LINUX
#undef FEEDLINE_DETAIL_ASAN

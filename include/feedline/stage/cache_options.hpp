// SPDX-License-Identifier: MIT
#pragma once
// What a cache is told, and what it tells.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace feedline::inline v0 {

/// What hears of a cache's trouble: any function of a sentence.
class trouble_listener {
 public:
  trouble_listener() = default;

  template <class F>
    requires(std::is_invocable_v<F&, const std::string&> && !std::is_same_v<F, trouble_listener>)
  trouble_listener(F f)
      : f_(std::make_shared<F>(std::move(f))),
        call_([](void* called, const std::string& sentence) { (*static_cast<F*>(called))(sentence); }) {}

  void operator()(const std::string& sentence) const {
    if (call_) call_(f_.get(), sentence);
    else std::fprintf(stderr, "%s\n", sentence.c_str());
  }

 private:
  std::shared_ptr<void> f_;
  void (*call_)(void*, const std::string&) = nullptr;
};

/// Where a cache keeps what it keeps: in memory, or in a directory.
struct cache_options {
  std::uint64_t memory = 0; ///< so many bytes of memory at most, or
  std::string directory{};  ///< in this directory, which is made if it isn't there,
  std::uint64_t bytes = 0;  ///< so many bytes of files at most, whosever
  /// Say something else when the functions in front of the cache change: their names and types are all that a
  /// directory knows of them. What they capture, or which function a pointer points to, isn't seen there.
  std::string version{};
  /// No sample becomes more items than these; one that does is a failure. For a memory_budget, where the cache
  /// keeps what a flat_map makes: it gathers all of a sample before it gives the first.
  std::size_t items_per_sample = 0;
  /// Called once, from a worker, when nothing more can be written (a full disk, say). By default a line on stderr.
  trouble_listener on_trouble{};
};

/// What a cache has done so far, in all runs of this process.
struct cache_stats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t bytes = 0; ///< that it holds, what it needs to find them included
  bool full = false;       ///< something wasn't kept because there was no room
};

} // namespace feedline::inline v0

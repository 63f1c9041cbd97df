// SPDX-License-Identifier: MIT
#pragma once
// The objects among the files of a source.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <feedline/detail/mapped_file.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The objects among the files of a source, by the numbers of these files, and the version of each: the first one that
/// any copy of the source has seen. Any thread may use it.
class object_list {
 public:
  /// `names`: empty where the file isn't an object.
  object_list(std::shared_ptr<object_store> store, std::vector<std::string> names, const file_order& files);

  bool has(std::size_t number) const noexcept;

  std::size_t size() const noexcept { return names_.size(); }

  object_store& store() const noexcept;

  /// The name for messages.
  const std::string& shown(std::size_t number) const noexcept;

  /// Begins to read a part of an object. What the store throws, get() throws. Throws nothing but std::bad_alloc.
  std::unique_ptr<object_read> read(std::size_t number, std::uint64_t offset, std::size_t count) const;

  /// Waits for that part. Throws object_error, also if the object has changed since it was first read, or if
  /// the part isn't complete.
  object_part get(std::size_t number, std::uint64_t offset, std::size_t count, object_read& read,
                  const std::stop_token& stop);

  /// Reads the whole of an object beside a listed one, whose name has this ending; nothing if there is none, if it can't
  /// be read, or if `accepts(part)` refuses its first part.
  template <class Accepts>
  std::optional<std::string> beside(std::size_t number, const char* ending, const Accepts& accepts,
                                    const std::stop_token& stop) const {
    std::string name = names_[number];
    name.insert(std::min(name.find('?'), name.size()), ending); // a query follows the name
    std::string bytes;
    try {
      std::optional<object_info> version;
      do {
        constexpr std::size_t step = std::size_t{1} << 20;
        const object_part part = store_->read(name, bytes.size(), step, version)->get(stop);
        if (part.bytes.empty() || (bytes.empty() && !accepts(part))) return {};
        bytes.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
        version = part.object;
      } while (bytes.size() < version->bytes);
    } catch (const object_error&) {
      return {};
    }
    return bytes;
  }

  /// How long threads have waited for parts.
  double seconds_waited() const noexcept {
    return static_cast<double>(waited_ns_.load(std::memory_order_relaxed)) * 1e-9;
  }

  /// The name and the version of an object that was read before.
  named_version version(std::size_t number) const;

  /// A hash of the first `extent` files as listed, of objects with their versions: asks the store for those that
  /// weren't read yet. Throws object_error if it can't say, also after a stop, and outage_error if it doesn't answer.
  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop);

 private:
  class wait_time {
    using clock = std::chrono::steady_clock;

   public:
    explicit wait_time(std::atomic<std::uint64_t>& sum) noexcept : sum_(sum) {}

    wait_time(const wait_time&) = delete;

    ~wait_time();

   private:
    std::atomic<std::uint64_t>& sum_;
    const clock::time_point began_ = clock::now();
  };

  std::optional<object_info> known(std::size_t number) const;

  // False if it isn't the version that was seen first.
  bool saw(std::size_t number, const object_info& version);

  const std::shared_ptr<object_store> store_;
  const std::vector<std::string> names_;
  const file_order files_; // their names for messages
  mutable std::mutex mutex_;
  std::vector<std::optional<object_info>> versions_;
  std::atomic<std::uint64_t> waited_ns_{0}; // of all threads
};

/// The files of a source, and the objects among them, if any.
struct listed_files {
  file_order files;
  std::shared_ptr<object_list> objects{};
};

/// Lists files and objects. A name that the store serves is that of an object, in which only braces are expanded.
/// Throws as file_order does, and std::invalid_argument for a URL that no store serves.
listed_files list_files_and_objects(const file_patterns& patterns, const char* source,
                                    const std::shared_ptr<object_store>& store);

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/source/detail/object_list.ipp>
#endif

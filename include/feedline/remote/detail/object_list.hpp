// SPDX-License-Identifier: MIT
#pragma once
// The objects among the files of a source.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <feedline/core/random.hpp>
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/mapped_file.hpp>
#include <feedline/detail/readable_text.hpp>
#include <feedline/remote/object_store.hpp>
#include <feedline/source/detail/file_order.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// The objects among the files of a source, by the numbers of these files, and the version of each: the first one that
/// any copy of the source has seen. Any thread may use it.
class object_list {
 public:
  /// `names`: empty where the file isn't an object.
  object_list(std::shared_ptr<object_store> store, std::vector<std::string> names, const file_order& files)
      : store_(std::move(store)), names_(std::move(names)), files_(files), versions_(names_.size()) {}

  bool has(std::size_t number) const noexcept { return !names_[number].empty(); }

  std::size_t size() const noexcept { return names_.size(); }

  object_store& store() const noexcept { return *store_; }

  /// The name for messages.
  const std::string& shown(std::size_t number) const noexcept { return files_.names()[number]; }

  /// Begins to read a part of an object. What the store throws, get() throws. Throws nothing but std::bad_alloc.
  std::unique_ptr<object_read> read(std::size_t number, std::uint64_t offset, std::size_t count) const {
    struct failed_read final : object_read {
      bool ready() const override { return true; }

      object_part get(const std::stop_token&) override { std::rethrow_exception(failure); }

      std::exception_ptr failure;
    };

    auto failed = std::make_unique<failed_read>();
    try {
      if (auto begun = store_->read(names_[number], offset, count, known(number))) return begun;
      throw object_error(shown(number) + ": its store began no read at offset " + std::to_string(offset));
    } catch (...) {
      failed->failure = std::current_exception();
    }
    return failed;
  }

  /// Waits for that part. Throws object_error, also if the object has changed since it was first read, or if
  /// the part isn't complete.
  object_part get(std::size_t number, std::uint64_t offset, std::size_t count, object_read& read,
                  const std::stop_token& stop) {
    object_part part = [&] {
      if (read.ready()) return read.get(stop);
      const wait_time timer(waited_ns_);
      return read.get(stop);
    }();
    const std::uint64_t size = part.object.bytes;
    const std::uint64_t there = offset < size ? std::min<std::uint64_t>(count, size - offset) : 0;
    const auto fail = [&](const std::string& what) { throw object_error(shown(number) + ": " + what); };
    if (has_too_many_blocks(size)) fail(too_many_blocks);
    if (!saw(number, part.object)) fail("has changed since it was first read");
    if (part.bytes.size() != there)
      fail("its store returned " + std::to_string(part.bytes.size()) + " bytes instead of " +
           std::to_string(there) + " at offset " + std::to_string(offset));
    return part;
  }

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
        const auto read = store_->read(name, bytes.size(), step, version);
        if (!read) return {}; // as reading the object itself reports
        const object_part part = read->get(stop);
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

  /// The name for messages, and what identifies the object, which was read before, and its version.
  named_version version(std::size_t number) const {
    const std::optional<object_info> version = known(number);
    if (!version) return {shown(number), 0, 0};
    return {shown(number), version->bytes, key(stable_hash(names_[number]), stable_hash(version->version))};
  }

  /// A hash of the first `extent` files as listed, of objects with their versions: asks the store for those that
  /// weren't read yet. Throws object_error if it can't say, also after a stop, and outage_error if it doesn't answer.
  std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) {
    std::vector<std::pair<std::size_t, std::unique_ptr<object_read>>> asked;
    for (std::size_t i = 0; i < std::min<std::uint64_t>(extent, size()); ++i)
      if (has(i) && !known(i)) asked.emplace_back(i, read(i, 0, 0));
    if (!asked.empty())
      if (std::string outage = store_->outage(); !outage.empty()) throw outage_error(std::move(outage));
    for (auto& [number, answer] : asked) {
      try {
        get(number, 0, 0, *answer, stop);
      } catch (const object_missing&) { // as for a missing file, the hash below says so
      }
    }
    std::uint64_t hash = key(extent);
    for (std::size_t i = 0; i < std::min<std::uint64_t>(extent, size()); ++i) {
      const std::string& name =
          has(i) ? names_[i] : files_.names()[i]; // the whole of it, with what isn't shown
      const auto version = known(i);
      const std::uint64_t of_file =
          !has(i)   ? fingerprint_of_file(name)
          : version ? key(stable_hash(name), version->bytes, stable_hash(version->version))
                    : 0;
      hash = key(hash, stable_hash(last_name(name)), of_file);
    }
    return hash;
  }

 private:
  class wait_time {
    using clock = std::chrono::steady_clock;

   public:
    explicit wait_time(std::atomic<std::uint64_t>& sum) noexcept : sum_(sum) {}

    wait_time(const wait_time&) = delete;

    ~wait_time() {
      const std::chrono::nanoseconds time = clock::now() - began_;
      sum_.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
    }

   private:
    std::atomic<std::uint64_t>& sum_;
    const clock::time_point began_ = clock::now();
  };

  std::optional<object_info> known(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return versions_[number];
  }

  // False if it isn't the version that was seen first.
  bool saw(std::size_t number, const object_info& version) {
    const std::lock_guard lock(mutex_);
    if (!versions_[number]) versions_[number] = version;
    return versions_[number] == version;
  }

  const std::shared_ptr<object_store> store_;
  const std::vector<std::string> names_;
  const file_order files_; // their names for messages
  mutable std::mutex mutex_;
  std::vector<std::optional<object_info>> versions_;
  std::atomic<std::uint64_t> waited_ns_{0}; // of all threads
};

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// object_store: where sources read files that aren't on this machine. remote() is one for web servers and S3.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>

#include <feedline/core/failure.hpp>
#include <feedline/source/detail/shard_store.hpp>
#include <feedline/source/file_patterns.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// Identifies a version of an object.
struct object_info {
  std::uint64_t bytes = 0; ///< its size
  std::string version;     ///< differs from one version to the next, as an ETag does

  friend bool operator==(const object_info&, const object_info&) = default;
};

/// A part of an object.
struct object_part {
  object_info object;                   ///< the version that was read
  std::span<const std::byte> bytes;     ///< fewer than requested only at the end of the object
  std::shared_ptr<const void> memory{}; ///< keeps the bytes valid
  bool is_mapped =
      false; ///< the bytes are those of a file on disk: keeping them takes no memory of the process
};

/// Why an object, or a part of one, can't be read, although its store answers. what() begins with its name, without
/// secrets, and has the offset: "https://host/a.tar: status 404 Not Found at offset 0".
struct object_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// There is no object with this name.
struct object_missing : object_error {
  using object_error::object_error;
};

/// A read that has begun. Destroying it cancels it.
class object_read {
 public:
  object_read() = default;
  object_read(const object_read&) = delete;
  object_read& operator=(const object_read&) = delete;
  virtual ~object_read() = default;

  /// Whether get() would return without waiting.
  virtual bool ready() const = 0;

  /// Waits for the part; called once. Throws object_missing if there is no such object, object_error if it can't be
  /// read for another reason, and after a stop; outage_error if the store or the network fails, after it has tried for
  /// long enough: no part is left out because of that.
  virtual object_part get(const std::stop_token& stop) = 0;
};

/// Where objects lie: files that are read in parts, by name. Any thread may call it.
class object_store : public detail::shard_store {
 public:
  object_store() = default;
  object_store(const object_store&) = delete;
  object_store& operator=(const object_store&) = delete;
  ~object_store() override = default;

  /// Whether it has objects with names of this kind, such as those that begin with `https://`.
  virtual bool serves(std::string_view name) const = 0;

  /// The name for messages: without passwords, keys and tokens. It identifies nothing: several names may be shown alike.
  virtual std::string shown(std::string_view name) const { return std::string(name); }

  /// Begins to read `count` bytes at an offset, fewer at the end of the object; 0 bytes: only asks for its size and
  /// version. `expected`: the version of earlier parts; if the object now has another, the read fails. Doesn't wait.
  virtual std::unique_ptr<object_read> read(const std::string& name, std::uint64_t offset, std::size_t count,
                                            const std::optional<object_info>& expected) = 0;

  /// The size of the parts in which an object is read from its beginning to its end.
  virtual std::size_t part_bytes() const { return std::size_t{8} << 20; }

  /// The most bytes that one source has requested and not yet used.
  virtual std::size_t bytes_ahead() const { return std::size_t{64} << 20; }

  /// Why the store doesn't answer now; empty if it does. Metrics name it as the bottleneck.
  virtual std::string outage() const { return {}; }

  /// Calls `out` with current values and `total` with sums since the store exists, such as requests and bytes.
  virtual void metrics(const std::function<void(const char* name, double value)>& out,
                       const std::function<void(const char* name, double value)>& total) const {
    static_cast<void>(out);
    static_cast<void>(total);
  }

  /// Called by tar_samples.
  FEEDLINE_INLINE detail::listed_shards list_shards(const std::shared_ptr<detail::shard_store>& self,
                                                    const file_patterns& shards, const char* source) final;
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_REMOTE)
#include <feedline/remote/detail/object_shards.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE detail::listed_shards
object_store::list_shards(const std::shared_ptr<detail::shard_store>& self, const file_patterns& shards,
                          const char* source) {
  return detail::list_files_and_objects(shards, source, std::static_pointer_cast<object_store>(self));
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

// SPDX-License-Identifier: MIT
#pragma once
// Shards that are open, and what tar_samples knows of those that aren't files. The component remote has the rest, so that programs without an object
// store compile none of it.
#include <feedline/core/contract.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/source/detail/file_order.hpp>
#include <feedline/source/detail/tar_settings.hpp>
#include <feedline/source/file_patterns.hpp>
#include <feedline/source/tar_sample.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A shard that is open, which is a file or an object.
class open_tar_shard {
 public:
  open_tar_shard() = default;
  open_tar_shard(open_tar_shard&&) = delete;
  virtual ~open_tar_shard() = default;

  /// As those of shard_samples.
  virtual std::optional<tar_sample> next() = 0;
  virtual std::uint64_t position() const noexcept = 0;
  virtual tar_place place() const = 0;

  /// Up to where its file was used.
  virtual std::uint64_t offset() const noexcept = 0;

  /// Whether reading that many bytes of its file wouldn't wait for an object; true also if it would fail.
  virtual bool is_ready(std::uint64_t bytes) const noexcept = 0;
};

/// Opens objects one after another, for one copy of a source in one epoch.
class objects_in_order {
 public:
  objects_in_order() = default;
  objects_in_order(const objects_in_order&) = delete;
  virtual ~objects_in_order() = default;

  /// As tar_shards::open().
  virtual std::unique_ptr<open_tar_shard> open(const file_order& files, std::size_t number,
                                               const tar_place& from) = 0;

  /// Whether the next part, of this object or of the next one, has arrived.
  virtual bool ready() const = 0;
};

/// Reads samples of objects by their position. Any thread may use it.
class objects_by_position {
 public:
  virtual ~objects_by_position() = default;

  /// A copy, which has announced nothing.
  virtual std::shared_ptr<const objects_by_position> copy() const = 0;

  virtual bool has(std::size_t number) const noexcept = 0;

  /// How many samples an object has.
  virtual std::size_t samples(std::size_t number) const noexcept = 0;

  /// Throws the same tar_error as reading the shard in order would for this sample.
  virtual tar_sample at(std::size_t number, std::size_t position, const std::stop_token& stop) const = 0;

  /// Whether at() would return without waiting.
  virtual bool ready(std::size_t number, std::size_t position) const = 0;

  /// Begins to read a sample, unless too many bytes were announced and not yet read.
  virtual void will_need(std::size_t number, std::size_t position) const = 0;
};

/// The objects among the shards of a source, by the numbers of these shards. Any thread may use it.
class shard_objects {
 public:
  using show = function_ref<void(const char* name, double value)>;

  virtual ~shard_objects() = default;

  virtual bool has(std::size_t number) const noexcept = 0;

  /// A hash of the first `extent` shards as listed, of objects with their versions. Throws if the store can't say them,
  /// also after a stop, and outage_error if it doesn't answer.
  virtual std::uint64_t fingerprint(std::uint64_t extent, const std::stop_token& stop) = 0;

  /// The most bytes that are requested ahead.
  virtual std::size_t bytes_ahead() const = 0;

  /// Why the store doesn't answer now; empty if it does.
  virtual std::string outage() const = 0;

  virtual void metrics(show out, show total) const = 0;

  virtual std::shared_ptr<objects_in_order> in_order(const tar_settings& how,
                                                     const std::stop_token& stop) = 0;

  /// Finds the samples of all objects. Throws after a stop, and outage_error.
  virtual std::shared_ptr<const objects_by_position> by_position(const tar_settings& how,
                                                                 const std::stop_token& stop) = 0;
};

/// The shards of a source, and the objects among them, if any.
struct listed_shards {
  file_order files;
  std::shared_ptr<shard_objects> objects{};
};

/// Where objects lie. Its only implementation is object_store.
class shard_store {
 public:
  virtual ~shard_store() = default;

  /// Lists files and objects. `self`: this store, which the list keeps.
  virtual listed_shards list_shards(const std::shared_ptr<shard_store>& self, const file_patterns& shards,
                                    const char* source) = 0;
};

/// Lists the shards of a source. Without a store all are files. Throws as file_order does, and std::invalid_argument for a
/// URL that no store serves.
listed_shards list_shards(const file_patterns& shards, const char* source,
                          const std::shared_ptr<shard_store>& store);

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_SOURCE)
#include <feedline/detail/file_search.hpp>
#include <feedline/detail/readable_text.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE listed_shards list_shards(const file_patterns& shards, const char* source,
                                          const std::shared_ptr<shard_store>& store) {
  if (store) return store->list_shards(store, shards, source);
  for (const std::string& name : shards.names())
    if (const std::string_view scheme = scheme_of(name); !scheme.empty())
      throw std::invalid_argument("feedline::" + std::string(source) + ": names that begin with " +
                                  in_backticks(scheme) +
                                  " need an object store: set .remote = feedline::remote(), which is in "
                                  "feedline/remote.hpp of the component feedline::remote");
  return {file_order(shards, source)};
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

// SPDX-License-Identifier: MIT
#pragma once
// shard_cache: keeps what is read from an object store on disk.
#include <cstdint>
#include <memory>
#include <string>

#include <feedline/core/callback.hpp>
#include <feedline/remote/object_store.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// A folder on disk that keeps parts of objects.
struct shard_cache {
  std::string directory;                 ///< of its own, made if it doesn't exist; processes may share it
  std::uint64_t bytes = 100'000'000'000; ///< the most; the least recently used parts leave
  /// Called once if the folder can't be written, such as when the disk is full, with a sentence that says why.
  callback<std::string> on_notice{};
};

/// An object store that keeps the parts of another one on disk, and reads them from there as long as the size and the
/// version of their object stay the same. An object is identified by its whole name: a URL with another signature is another
/// object. Objects without a version (a web server that sends neither ETag nor date)
/// aren't kept.
///
/// A part that two threads or processes need is fetched by one of them; the others wait. A part gets its name when it
/// is whole, so that a process can be killed at any time. Each use compares a part with its hash, and a part that was
/// damaged on disk is fetched again. The names of the files are hashes; they contain no names, keys or tokens. `bytes`
/// can be exceeded by a sixteenth for each process that adds parts. If the folder can't be written, parts are read
/// without it.
///
/// Throws std::invalid_argument for no directory, one with files that aren't a cache's, too few bytes (at least 1 MiB) or
/// no store, and std::system_error if the directory can't be made.
///
/// Example: `tar_samples(urls, {.remote = cached(remote(), {.directory = "/tmp/shards"})})`
std::shared_ptr<object_store> cached(std::shared_ptr<object_store> store, shard_cache options);

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_REMOTE)
#include <stdexcept>
#include <utility>

#include <feedline/remote/detail/cached_store.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE std::shared_ptr<object_store> cached(std::shared_ptr<object_store> store,
                                                     shard_cache options) {
  if (!store) throw std::invalid_argument("feedline::cached: the store is null");
  if (options.directory.empty())
    throw std::invalid_argument("feedline::cached: shard_cache needs a directory");
  if (options.bytes < (std::uint64_t{1} << 20))
    throw std::invalid_argument("feedline::cached: shard_cache needs at least 1 MiB, not " +
                                std::to_string(options.bytes) + " bytes");
  return std::make_shared<detail::cached_store>(std::make_shared<detail::cache>(
      std::move(store), std::move(options.directory), options.bytes, std::move(options.on_notice)));
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

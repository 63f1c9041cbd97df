// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/shard_cache.hpp>

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

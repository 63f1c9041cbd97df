// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/source/detail/shard_store.hpp>

#include <stdexcept>
#include <string_view>

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

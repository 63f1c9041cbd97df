// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/remote/object_store.hpp>

#include <feedline/remote/detail/object_shards.hpp>

namespace feedline::inline FEEDLINE_ABI {

FEEDLINE_INLINE detail::listed_shards
object_store::list_shards(const std::shared_ptr<detail::shard_store>& self, const file_patterns& shards,
                          const char* source) {
  return detail::list_files_and_objects(shards, source, std::static_pointer_cast<object_store>(self));
}

} // namespace feedline::inline FEEDLINE_ABI

// SPDX-License-Identifier: MIT
#pragma once
// The entries of a cache's table by key, for any number of threads.
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>

#include <feedline/cache/detail/cache_table.hpp>
#include <feedline/core/random.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A map whose parts have separate locks, so that workers seldom wait for each other.
template <class Entry>
class shared_map {
 public:
  std::optional<Entry> find(const cache_key& k) const {
    const part& p = part_of(k);
    const std::lock_guard lock(p.mutex);
    const auto found = p.entries.find(k);
    return found == p.entries.end() ? std::nullopt : std::optional(found->second);
  }

  bool contains(const cache_key& k) const { return find(k).has_value(); }

  /// Returns false if there is an entry already.
  bool insert(const cache_key& k, const Entry& entry) {
    part& p = part_of(k);
    const std::lock_guard lock(p.mutex);
    return p.entries.try_emplace(k, entry).second;
  }

  /// Erases this entry. Returns false if there is a different one, or none, by now.
  bool erase(const cache_key& k, const Entry& entry) {
    part& p = part_of(k);
    const std::lock_guard lock(p.mutex);
    const auto found = p.entries.find(k);
    if (found == p.entries.end() || !(found->second == entry)) return false;
    p.entries.erase(found);
    return true;
  }

  template <class F>
  void for_each(F f) {
    for (part& p : parts_)
      for (auto& [k, entry] : p.entries) f(entry);
  }

 private:
  struct alignas(64) part {
    mutable std::mutex mutex;
    std::map<cache_key, Entry> entries;
  };

  part& part_of(const cache_key& k) { return parts_[mix(k.sample ^ k.rest) % parts_.size()]; }

  const part& part_of(const cache_key& k) const { return parts_[mix(k.sample ^ k.rest) % parts_.size()]; }

  std::array<part, 64> parts_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

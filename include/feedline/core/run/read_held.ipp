// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/read_held.hpp>

#include <exception>
#include <new>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE held_search::held_search(std::string source_name, std::vector<sample_id> ids)
    : source_name_(std::move(source_name)), ids_([&] {
        std::sort(ids.begin(), ids.end());
        return std::move(ids);
      }()) {}

FEEDLINE_INLINE bool held_search::wants(const sample_id& id) const noexcept {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

FEEDLINE_INLINE void held_search::for_each_epoch(
    function_ref<void(std::uint32_t epoch, const std::vector<wanted_sample>& wanted)> read) {
  for (const auto& [epoch, wanted] : wanted_by_epoch(ids_)) {
    try {
      read(epoch, wanted);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const pipeline_error&) { // the outage of a stage
      throw;
    } catch (...) {
      lost(current_failure(source_name_, {.epoch = epoch}));
    }
  }
}

FEEDLINE_INLINE void held_search::lost(const failure& f) {
  if (is_outage(f.error)) throw_pipeline_error(f);
  if (!is_known_) lost(to_string(f));
}

FEEDLINE_INLINE void held_search::lost(const sample_id& id) {
  if (is_outage(std::current_exception())) throw;
  if (!is_known_) lost(to_string(current_failure(source_name_, id)));
}

FEEDLINE_INLINE void held_search::lost(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!is_known_.exchange(true)) why_lost_ = why;
}

FEEDLINE_INLINE std::string held_search::why_lost() const {
  const std::lock_guard lock(mutex_);
  return why_lost_;
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/plan/facts.hpp>

#include <feedline/core/item_bytes.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE stage_list::stage_list(known_bytes bytes_of_source, bool is_live, std::size_t stages)
    : bytes_(bytes_of_source), after_opaque_(is_live) {
  all_.reserve(stages);
}

FEEDLINE_INLINE void stage_list::add(stage_facts&& facts, bool is_stored) {
  facts.after_opaque = after_opaque_;
  // What it holds is also, by value, in two snapshots and in the checkpoint from which the run was resumed.
  if (is_stored && after_opaque_)
    facts.size.kept = sum_of(facts.size.kept, product_of(3 * facts.size.held, bytes_));
  after_opaque_ |= !facts.makes_of_one_sample;
  bytes_ = facts.size.emitted;
  all_.push_back(std::move(facts));
}

} // namespace feedline::inline FEEDLINE_ABI::detail

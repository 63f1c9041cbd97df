// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/node_base.hpp>

#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/core/snapshot/held.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void throw_not_started(const stage_place& place) {
  throw pipeline_error(current_failure(place.name, {}));
}

FEEDLINE_INLINE void chain_end::add_first(node_base& n) noexcept {
  n.next_node_ = first_node_;
  first_node_ = &n;
}

FEEDLINE_INLINE void chain_end::begin_packet(std::uint64_t first_place) {
  for (node_base* n = first_node_; n; n = n->next_node()) n->begin_packet(first_place);
}

FEEDLINE_INLINE node_base::node_base(const stage_place& place, stage_counters& counters,
                                     const stage_calls& calls, flow (*finish)(node_base&, std::uint32_t),
                                     node_traits traits) noexcept
    : place_(place),
      key_(place.random_key()),
      counters_(counters),
      at_(counters.thread->at),
      calls_(calls),
      finish_(finish),
      traits_(traits),
      has_buffers_(calls.save != nullptr) {
  if (traits.can_fail_again && place.run.known && place.run.known->has_some_of(place.number))
    known_ = place.run.known;
}

FEEDLINE_INLINE void node_base::join(chain_end& end, void* stage) noexcept {
  end_ = &end;
  stage_object_ = stage;
  end.add_first(*this);
}

FEEDLINE_INLINE flow node_base::caught(failure_ptr f) {
  add_relaxed(counters_.failures, 1);
  if (place_.run.skips(*f)) return end_->skipped(std::move(f));
  return end_->fail(std::move(f)) == flow::stop ? flow::stop : flow::enough;
}

FEEDLINE_INLINE flow node_base::fail_again(const sample_id& id) {
  return end_->skipped(note_again(place_.name, id, {place_.number, id}));
}

FEEDLINE_INLINE flow node_base::end_epoch(epoch_end& e, bool drain) {
  const sample_id id{.epoch = e.epoch};
  segment_progress& progress = end_->progress();
  // A run that was resumed at the end of an epoch may have passed this stage already.
  if (place_.number < progress.ending) return flow::more;
  progress.ending = place_.number;
  if (drain && finish_ && finish_(*this, e.epoch) == flow::stop) return flow::stop;
  if (traits_.keeps_over_epochs && !drain && shows_empty_run(e) &&
      end_->fail(note_empty_run(place_.name, place_.filters, id, {place_.number, id})) == flow::stop)
    return flow::stop;
  if (calls_.end_epoch) {
    failure_ptr failed;
    try {
      calls_.end_epoch(stage_object_);
    } catch (...) {
      failed = place_.note(id);
    }
    if (failed && caught(std::move(failed)) == flow::stop) return flow::stop;
  }
  has_enough_ = false;
  if (traits_.keeps_over_epochs) e.samples = std::exchange(calls_that_emitted_, 0);
  return flow::more;
}

FEEDLINE_INLINE bool node_base::shows_empty_run(const epoch_end& e) noexcept {
  const bool some_came = std::exchange(received_some_, false) || end_->progress().is_resumed;
  return empty_run_.sees_end(e, some_came, place_.after_state, place_.run.empty_epochs);
}

FEEDLINE_INLINE void node_base::attach() {
  if (calls_.save || calls_.at_rest)
    end_->progress().add({stage_object_, place_.number, !place_.after_opaque, calls_.at_rest, calls_.save});
  else if (!traits_.is_stateless) end_->progress().cannot_save();
}

FEEDLINE_INLINE void node_base::load(state_reader& reader, const resumption& from) {
  if (calls_.load) {
    read_again* const found = from.samples_of(place_.number);
    reader.begin_stage(from.held(), place_.number, found);
    try {
      calls_.load(stage_object_, reader);
    } catch (const std::exception& error) {
      if (!found || found->why_lost.empty()) throw;
      throw std::runtime_error(std::string(error.what()) +
                               "; the first failure while reading such samples again: " + found->why_lost);
    }
    if (found) found->clear();
    if (reader.loaded_buffers() != from.buffers_of(place_.number))
      throw std::invalid_argument("feedline: the checkpoint holds samples of a buffer that " + place_.name +
                                  " doesn't have: its state must name the same buffers each time");
  }
  if (calls_.has_enough && calls_.has_enough(stage_object_) && may_cut_epoch_short(place_))
    end_->progress().enough = has_enough_ = true;
}

FEEDLINE_INLINE void node_base::publish() noexcept {
  counters_.received.store(received_, std::memory_order_relaxed);
  if (has_buffers_) publish_held();
  if (!calls_.report) return;
  try {
    reported_numbers out{counters_.numbers};
    calls_.report(stage_object_, out);
  } catch (...) { // metrics aren't worth a failure
  }
}

FEEDLINE_INLINE void node_base::publish_held() noexcept {
  try {
    words_.clear();
    state_writer writer(words_);
    calls_.save(stage_object_, writer);
    has_buffers_ = writer.capacity() > 0;
    counters_.held.set(static_cast<double>(writer.held()));
    counters_.capacity.store(writer.capacity(), std::memory_order_relaxed);
  } catch (...) { // metrics aren't worth a failure
  }
}

} // namespace feedline::inline FEEDLINE_ABI::detail

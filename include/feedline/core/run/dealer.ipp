// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/dealer.hpp>

#include <stdexcept>
#include <string>

#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/state.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void dealer::attach(const source_type& type, const void* source, const run_options& options,
                                    const run_context& context, const stage_place& place,
                                    stage_counters& counters, const source_place& begin) {
  at_ = begin;
  reader_ = type.reader(source, options, context, at_);
  context_ = &context;
  place_ = &place;
  stage_counters_ = &counters;
  known_ = context.known;
}

FEEDLINE_INLINE packet_ptr dealer::pop(thread_counters& thread, function_ref<void()>) {
  thread.at.take(~std::uint64_t{0}, now_ns()); // no packet yet, but beginning an epoch may take long
  thread.at.enter(0);
  thread.at.begin_sample(sample_id::no_index);
  std::optional<share> next = take_share();
  if (!next) return nullptr;
  packet_ptr p = spare_packet(next->count);
  p->sequence = next->sequence;
  p->first_place = next->first_item;
  p->generation = next->generation;
  p->last = true;
  p->put_at = now_ns(); // reading counts as work on the packet
  thread.at.take(p->sequence, p->put_at);
  packet_writer writer;
  writer.open(std::move(p), next->count);
  if (next->failed) writer.add(event_kind::failed, next->epoch, std::move(next->failed));
  const std::uint64_t given = next->count > 0 ? fill(writer, *next, thread) : 0;
  if (next->ends_epoch) {
    writer.add(event_kind::epoch_end, next->epoch, nullptr);
    writer.current().events().back().samples = next->first + next->count;
  }
  put_snapshot(writer, *next);
  stage_counters_->given.fetch_add(given, std::memory_order_relaxed);
  counters().put.fetch_add(given, std::memory_order_relaxed);
  counters().taken.fetch_add(given, std::memory_order_relaxed);
  if (next->source) reader_->publish_numbers(next->source.get(), *stage_counters_);
  return writer.close();
}

FEEDLINE_INLINE std::optional<dealer::share> dealer::take_share() {
  const std::lock_guard lock(mutex_);
  if (is_stopped() || ended_.load(std::memory_order_relaxed)) return {};
  share s;
  s.source = reader_->epoch();
  if (!s.source) {
    if (!reader_->has_epoch()) return {};
    begin_epoch(s.failed);
    s.source = reader_->epoch();
  }
  s.epoch = static_cast<std::uint32_t>(at_.epoch);
  s.sequence = sequence_++;
  s.generation = generation_;
  if (is_abandoned(generation_)) at_.given = size_;
  s.first = at_.given;
  s.count = std::min<std::uint64_t>(target(), size_ - at_.given);
  at_.given += s.count;
  s.first_item = std::exchange(dealt_, dealt_ + s.count);
  s.ends_epoch = at_.given == size_;
  s.first_place = at_.first;
  if (s.ends_epoch) {
    reader_->end_epoch(false);
    s.next_first = at_.next_first;
    reader_->go_to_next_epoch();
    ++generation_;
  }
  return s;
}

FEEDLINE_INLINE void dealer::begin_epoch(failure_ptr& failed) {
  size_ = 0;
  at_.given = std::exchange(at_.failed, 0) + at_.given; // it counts the positions that were taken
  try {
    reader_->begin_epoch();
    size_ = reader_->share()->size;
    if (at_.given > size_)
      throw std::runtime_error("the epoch has " + std::to_string(size_) +
                               " samples, but the checkpoint is at " + std::to_string(at_.given));
    if (reader_->is_endless() && reader_->is_empty()) throw empty_epoch();
  } catch (...) {
    at_.given = size_;
    failed = current_failure({.epoch = static_cast<std::uint32_t>(at_.epoch)}, sample_id::no_index);
  }
}

// Writes the position in the epoch after these samples.
FEEDLINE_INLINE void dealer::put_snapshot(packet_writer& writer, const share& s) {
  packet& p = writer.current();
  p.snapshot.words.assign(1, 0);
  write_section(p.snapshot, [&](state_writer& state) {
    if (s.ends_epoch) state(s.epoch + std::uint64_t{1}, 0, 0, s.next_first);
    else state(s.epoch, s.first + s.count, 0, s.first_place);
  });
  p.has_snapshot = true;
  p.snapshot_items = writer.size();
  p.snapshot_events = p.events().size();
}

FEEDLINE_INLINE bool dealer::failed_before(packet_writer& writer, const sample_id& id, std::uint64_t number) {
  const failed_call call{0, {number, 0, id.epoch}};
  if (!known_->take(call)) return false;
  writer.add(event_kind::skipped, id.epoch, note_again(place_->name, id, call));
  return true;
}

FEEDLINE_INLINE bool dealer::add_failure(packet_writer& writer, const sample_id& id, std::uint64_t number) {
  failure_ptr failed = current_failure(id, number);
  const bool skips = context_->skips(*failed);
  writer.add(skips ? event_kind::skipped : event_kind::failed, id.epoch, std::move(failed));
  return skips;
}

FEEDLINE_INLINE failure_ptr dealer::current_failure(const sample_id& id, std::uint64_t number) {
  stage_counters_->failures.fetch_add(1, std::memory_order_relaxed);
  return note_failure(place_->name, id, {0, {number, 0, id.epoch}});
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
#include <feedline/core/run/stream_position.hpp>

#include <stdexcept>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE void write_place(state_writer& writer, const stream_place& p) {
  writer(p.epochs, p.items, p.events << 2 | (p.is_drained ? 2u : 0u) | (p.failures.empty() ? 0u : 1u));
  if (p.items > 0) writer(p.last);
  if (!p.failures.empty()) writer(p.failures.size());
  const auto write_call = [&](const failed_call& f) {
    writer(f.place, f.id.index, f.id.sub_index, f.id.epoch);
  };
  if (p.is_drained) write_call(p.drained_by);
  for (const failed_call& f : p.failures) write_call(f);
}

FEEDLINE_INLINE stream_place read_place(state_reader& reader) {
  stream_place p;
  std::size_t failures = 0;
  reader(p.epochs, p.items, p.events);
  if (p.items > 0) reader(p.last);
  if ((p.events & 1) != 0) reader(failures);
  p.is_drained = p.is_draining = (p.events & 2) != 0; // the next items are drained as well
  p.events >>= 2;
  if (failures > reader.left()) throw std::invalid_argument("feedline: the checkpoint is not whole");
  const auto read_call = [&](failed_call& f) { reader(f.place, f.id.index, f.id.sub_index, f.id.epoch); };
  if (p.is_drained) read_call(p.drained_by);
  for (; failures > 0; --failures) read_call(p.failures.emplace_back());
  return p;
}

FEEDLINE_INLINE std::pair<const snapshot*, stream_place> stream_position::place(bool ends_epoch,
                                                                                std::size_t back) const {
  if (!packet_) return {&before_, since_};
  const std::vector<event>& all = packet_->events();
  const std::size_t taken = items - back;
  const bool covered = ends_epoch ? packet_->snapshot_events == all.size()
                                  : taken >= packet_->snapshot_items && events >= packet_->snapshot_events;
  std::pair<const snapshot*, stream_place> result{&before_, {}};
  stream_place& since = result.second;
  std::size_t item = first_item_, event = first_event_;
  if (packet_->has_snapshot && covered) {
    result.first = &packet_->snapshot;
    item = packet_->snapshot_items;
    event = packet_->snapshot_events;
    since.is_draining = since_.is_draining;
    since.drained_by = since_.drained_by;
    for (std::size_t i = 0; i < event; ++i) {
      if (all[i].kind == event_kind::draining) {
        since.is_draining = true;
        since.drained_by = all[i].call;
      }
      if (all[i].kind == event_kind::epoch_end) since.is_draining = false;
    }
  } else {
    since = since_;
  }
  const std::size_t end = ends_epoch ? all.size() : events;
  if (taken > item && !ends_epoch) {
    since.items += taken - item;
    since.events = 0;
    since.last = hash_of(packet_->ids()[taken - 1]);
    since.is_drained |= since.is_draining;
  }
  const bool passes_end = ends_epoch && event < end;
  for (; event < end; ++event) {
    const bool is_behind = all[event].position == taken && !ends_epoch;
    if (all[event].kind == event_kind::draining) {
      since.is_draining = true;
      since.is_drained |= !is_behind;
      since.drained_by = all[event].call;
      continue;
    }
    if (all[event].kind == event_kind::skipped) since.failures.push_back(all[event].call);
    since.events += is_behind;
  }
  if (passes_end) since = {.epochs = since.epochs + 1, .failures = std::move(since.failures)};
  return result;
}

FEEDLINE_INLINE void stream_position::pass_over(packet& p) {
  pass_over_samples(p);
  if (!to_pass_over_.is_beginning()) return;
  if (to_pass_over_.is_drained) lost(p, "it was taken while samples were delivered because of a failure");
  else if (!to_pass_over_.failures.empty()) lost(p, "a sample that had failed was read this time");
}

FEEDLINE_INLINE void stream_position::pass_over_samples(packet& p) {
  const std::vector<event>& all = p.events();
  while (!to_pass_over_.is_beginning()) {
    const std::size_t next_event = events < all.size() ? all[events].position : p.size();
    if (events < all.size() && next_event == items) {
      const event& e = all[events];
      if (e.kind == event_kind::epoch_end) {
        if (to_pass_over_.epochs == 0) return lost(p, "the epoch ended before it");
        --to_pass_over_.epochs;
      } else if (!was_met(e) && !(ignores_failures_ && to_pass_over_.epochs > 0)) {
        return unexpected(p);
      } else if (e.kind != event_kind::draining && to_pass_over_.epochs == 0 && to_pass_over_.items == 0) {
        --to_pass_over_.events;
      }
      ++events;
    } else if (items == p.size()) {
      return;
    } else if (to_pass_over_.epochs > 0) {
      items = next_event;
    } else if (to_pass_over_.items > 0) {
      const auto step = std::min<std::uint64_t>(to_pass_over_.items, next_event - items);
      items += static_cast<std::size_t>(step);
      to_pass_over_.items -= step;
      if (to_pass_over_.items == 0 && hash_of(p.ids()[items - 1]) != to_pass_over_.last)
        return lost(p, "there is another sample");
    } else {
      return lost(p, "a sample that had failed was read this time");
    }
  }
}

FEEDLINE_INLINE bool stream_position::was_met(const event& e) {
  if (e.kind == event_kind::draining && to_pass_over_.epochs == 0)
    return e.call == to_pass_over_.drained_by && std::exchange(to_pass_over_.is_drained, false);
  std::vector<failed_call>& all = to_pass_over_.failures;
  const auto found = std::find(all.begin(), all.end(), e.call);
  if (e.kind != event_kind::skipped || found == all.end()) return false;
  all.erase(found);
  return true;
}

FEEDLINE_INLINE void stream_position::unexpected(packet& p) {
  event& e = p.events()[events];
  e.kind = event_kind::failed;
  if (!e.cause->ends_at_once)
    e.cause->message += to_pass_over_.is_drained ? " (the checkpoint was taken while samples were "
                                                   "delivered because of a failure: resume from an "
                                                   "earlier checkpoint)"
                                                 : " (the earlier run had read this sample)";
  e.cause->ends_at_once = true;
  to_pass_over_ = {};
}

FEEDLINE_INLINE void stream_position::lost(packet& p, const std::string& why) {
  sample_id id;
  if (!to_pass_over_.failures.empty()) id = to_pass_over_.failures.front().id;
  else if (items > 0) id = p.ids()[items - 1];
  failure_ptr f = note_failure(
      "resuming", id, {}, std::runtime_error("the run can't return to the checkpoint's position: " + why));
  f->ends_at_once = true;
  p.events().insert(p.events().begin() + static_cast<std::ptrdiff_t>(events),
                    event{items, event_kind::failed, id.epoch, std::move(f), {}});
  to_pass_over_ = {};
}

} // namespace feedline::inline FEEDLINE_ABI::detail

// SPDX-License-Identifier: MIT
#pragma once
// Replaces a source's thread and its queue to workers: the workers take the source's next positions themselves.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/plan/rank_share.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/run_type.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A channel for the workers downstream, which nobody pushes into.
class dealer : public channel_base {
 public:
  using channel_base::channel_base;

  /// Sets the source and where it begins; the references must stay valid.
  void attach(const source_type& type, const void* source, const run_options& options,
              const run_context& context, const stage_place& place, stage_counters& counters,
              const source_place& begin);

  bool push(packet_ptr&&, thread_counters&) override { return false; }

  /// The worker's next samples. Null: there are no more.
  FEEDLINE_INLINE packet_ptr pop(thread_counters& thread, function_ref<void()>) override;

  queue_status pop_for(packet_ptr&, std::chrono::nanoseconds, thread_counters&) override {
    return queue_status::closed; // only workers pop from it
  }

  void stop() override { ended_.store(true, std::memory_order_relaxed); }

  void close() override {}

 protected:
  /// Consecutive positions of an epoch.
  struct share {
    std::shared_ptr<const void> source;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
    std::uint64_t first_item = 0; // of the run
    std::uint32_t epoch = 0;
    std::uint64_t sequence = 0;
    std::uint64_t generation = 0;
    bool ends_epoch = false;
    failure_ptr failed;            // why the epoch couldn't begin
    std::uint64_t first_place = 0; // of this rank in the epoch's order
    std::uint64_t next_first = 0;  // of this rank in the next epoch's order
  };

  bool is_stopped() const noexcept { return context_->stopped.load(std::memory_order_relaxed); }

  /// Whether the sample with that number in its epoch failed in the earlier run; then it fails again.
  bool failed_before(packet_writer& writer, const sample_id& id, std::uint64_t number);

  /// The exception being handled becomes the failure of that sample. False if the others of the epoch aren't wanted any more.
  [[gnu::cold]] bool add_failure(packet_writer& writer, const sample_id& id, std::uint64_t number);

  known_failures* known_ = nullptr;
  source_place at_; // guarded by mutex_

 private:
  virtual packet_ptr spare_packet(std::size_t room) = 0;

  // Reads the samples; failures become events. Returns how many samples it read.
  virtual std::uint64_t fill(packet_writer& writer, const share& s, thread_counters& thread) = 0;

  std::optional<share> take_share();
  void begin_epoch(failure_ptr& failed);
  static void put_snapshot(packet_writer& writer, const share& s);
  failure_ptr current_failure(const sample_id& id, std::uint64_t number);

  const run_context* context_ = nullptr;
  const stage_place* place_ = nullptr;
  stage_counters* stage_counters_ = nullptr;
  std::atomic<bool> ended_{false};

  std::mutex mutex_; // guards the members below
  std::shared_ptr<source_reader> reader_;
  std::uint64_t size_ = 0; // of the epoch in at_
  std::uint64_t dealt_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t generation_ = 0;
};

/// The dealer of a source of one type.
template <class Source>
class dealer_of final : public dealer {
  using item = source_item_t<Source>;

 public:
  using dealer::dealer;

 private:
  packet_ptr spare_packet(std::size_t room) override { return spare(&packet::make<carried<item>>, room); }

  std::uint64_t fill(packet_writer& writer, const share& s, thread_counters& thread) override {
    const Source& source = *static_cast<const Source*>(s.source.get());
    std::uint64_t given = 0;
    announcement_pace pace;
    for (std::uint64_t i = s.first; i < s.first + s.count && !is_stopped(); ++i) {
      sample_id id{.epoch = s.epoch};
      try {
        announce(source, i, pace);
        const std::uint64_t place = source.place_of(i);
        id.index = source.index_at(place);
        thread.at.enter(0);
        thread.at.begin_sample(id.index);
        if constexpr (requires { source.repetition_at(i); }) id.repetition = source.repetition_at(i);
        if (known_ && failed_before(writer, id, i)) [[unlikely]]
          continue;
        writer.add(carry<item>([&] { return sample_at(source, place, thread); }, id));
        ++given;
      } catch (...) {
        if (!add_failure(writer, id, i)) break;
      }
    }
    return given;
  }

  // Time in which the worker waits for the sample doesn't count as busy.
  static item sample_at(const Source& source, std::uint64_t place, thread_counters& thread) {
    if constexpr (requires { source.is_ready(place); })
      if (!source.is_ready(place)) {
        const wait_timer timer(thread, wait_kind::inside);
        return source.sample_at(place);
      }
    return source.sample_at(place);
  }

  // The system reads files ahead while workers process earlier samples.
  static void announce(const Source& source, std::uint64_t reached,
                       [[maybe_unused]] announcement_pace& pace) {
    if constexpr (requires(std::uint64_t place) { source.will_need(place); }) {
      constexpr std::uint64_t ahead = 64; // samples
      const std::uint64_t end = std::min(source.share().size, reached + ahead + 1);
      for (std::uint64_t i = reached == 0 ? 1 : reached + ahead; i < end; ++i)
        if (pace.is_due()) pace.note(source.will_need(source.place_of(i)));
    }
  }
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
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
#endif

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
#include <stdexcept>
#include <string>
#include <utility>

#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/source_reader.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/known_failures.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/channel.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/detail/function_ref.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// A channel for the workers downstream, which nobody pushes into.
template <class Source>
class dealer final : public channel_base {
  using item = source_item_t<Source>;

 public:
  using channel_base::channel_base;

  /// Sets the source and its context; the references must stay valid.
  void attach(const Source& source, const run_options& options, const run_context& context,
              const stage_place& place, stage_counters& counters, const resumption& resumed) {
    context_ = &context;
    place_ = &place;
    stage_counters_ = &counters;
    segment_progress progress(0, options.rank, options.first_epoch.value_or(0));
    state_reader reader(resumed.words(0));
    progress.load(reader, {}, false);
    known_ = context.known;
    at_ = progress.source;
    reader_.emplace(source, options, context.stop, at_);
  }

  bool push(packet_ptr&&, thread_counters&) override { return false; }

  /// The worker's next samples. Null: there are no more.
  packet_ptr pop(thread_counters& thread, function_ref<void()>) override {
    std::optional<share> next = take_share();
    if (!next) return nullptr;
    packet_ptr p = spare(&packet::make<item>, next->count);
    p->sequence = next->sequence;
    p->first_place = next->first_item;
    p->generation = next->generation;
    p->last = true;
    p->put_at = now_ns(); // reading counts as work on the packet
    packet_writer writer;
    writer.open(std::move(p), next->count);
    const std::uint64_t given = fill(writer, *next, thread);
    if (next->ends_epoch) {
      writer.add(event_kind::epoch_end, next->epoch, nullptr);
      writer.current().events().back().samples = next->first + next->count;
    }
    put_snapshot(writer, *next);
    stage_counters_->given.fetch_add(given, std::memory_order_relaxed);
    counters().put.fetch_add(given, std::memory_order_relaxed);
    counters().taken.fetch_add(given, std::memory_order_relaxed);
    publish_numbers(*next);
    return writer.close();
  }

  queue_status pop_for(packet_ptr&, std::chrono::nanoseconds, thread_counters&) override {
    return queue_status::closed; // only workers pop from it
  }

  void stop() override { ended_.store(true, std::memory_order_relaxed); }

  void close() override {}

 private:
  /// Consecutive positions of an epoch.
  struct share {
    std::shared_ptr<const Source> source;
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

  std::optional<share> take_share() {
    const std::lock_guard lock(mutex_);
    if (context_->stopped.load(std::memory_order_relaxed) || ended_.load(std::memory_order_relaxed))
      return {};
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

  void begin_epoch(failure_ptr& failed) {
    size_ = 0;
    at_.given = std::exchange(at_.failed, 0) + at_.given; // it counts the positions that were taken
    try {
      reader_->begin_epoch();
      size_ = reader_->get().epoch_size();
      if (at_.given > size_)
        throw std::runtime_error("the epoch has " + std::to_string(size_) +
                                 " samples, but the checkpoint is at " + std::to_string(at_.given));
      if (reader_->is_endless() && reader_->is_empty()) throw empty_epoch();
    } catch (...) {
      at_.given = size_;
      failed = current_source_failure({.epoch = static_cast<std::uint32_t>(at_.epoch)}, sample_id::no_index);
    }
  }

  // Writes the position in the epoch after these samples.
  void put_snapshot(packet_writer& writer, const share& s) {
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

  // Reads the samples; failures become events. Returns how many samples it read.
  std::uint64_t fill(packet_writer& writer, share& s, thread_counters& thread) {
    if (s.failed) writer.add(event_kind::failed, s.epoch, std::move(s.failed));
    std::uint64_t given = 0;
    for (std::uint64_t i = s.first; i < s.first + s.count; ++i) {
      if (context_->stopped.load(std::memory_order_relaxed)) break;
      sample_id id{.epoch = s.epoch};
      const failed_call call{0, {i, 0, s.epoch}};
      try {
        announce(*s.source, i);
        const std::uint64_t place = s.source->place_of(i);
        id.index = s.source->index_at(place);
        if constexpr (requires { s.source->repetition_at(i); }) id.repetition = s.source->repetition_at(i);
        if (known_ && known_->take(call)) [[unlikely]] {
          writer.add(event_kind::skipped, s.epoch, note_again(place_->name, id, call));
          continue;
        }
        writer.add(sample<item>{sample_at(*s.source, place, thread), id});
        ++given;
      } catch (...) {
        failure_ptr failed = current_source_failure(id, i);
        const bool skips = context_->skips(*failed);
        writer.add(skips ? event_kind::skipped : event_kind::failed, s.epoch, std::move(failed));
        if (!skips) break;
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

  // Publishes the metrics of the source.
  void publish_numbers(const share& s) noexcept {
    if constexpr (requires(const Source& source, reported_numbers out) { source.metrics(out); }) {
      try {
        reported_numbers out{stage_counters_->numbers};
        if (s.source) s.source->metrics(out);
      } catch (...) { // metrics aren't worth a failure
      }
    }
  }

  // The system reads files ahead while workers process earlier samples.
  static void announce(const Source& source, std::uint64_t reached) {
    if constexpr (requires(std::uint64_t place) { source.will_need(place); }) {
      constexpr std::uint64_t ahead = 64; // samples
      const std::uint64_t end = std::min(source.epoch_size(), reached + ahead + 1);
      for (std::uint64_t i = reached == 0 ? 1 : reached + ahead; i < end; ++i)
        source.will_need(source.place_of(i));
    }
  }

  // `number` is that of the sample in the epoch.
  failure_ptr current_source_failure(const sample_id& id, std::uint64_t number) {
    stage_counters_->failures.fetch_add(1, std::memory_order_relaxed);
    return note_failure(place_->name, id, {0, {number, 0, id.epoch}});
  }

  const run_context* context_ = nullptr;
  const stage_place* place_ = nullptr;
  stage_counters* stage_counters_ = nullptr;
  known_failures* known_ = nullptr;
  std::atomic<bool> ended_{false};

  std::mutex mutex_; // guards the members below
  source_place at_;
  std::optional<source_reader<Source>> reader_;
  std::uint64_t size_ = 0; // of the epoch in at_
  std::uint64_t dealt_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t generation_ = 0;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

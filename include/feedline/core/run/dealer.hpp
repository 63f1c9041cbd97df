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
#include <feedline/core/options.hpp>
#include <feedline/core/plan/place_share.hpp>
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

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/dealer.ipp>
#endif

// SPDX-License-Identifier: MIT
#pragma once
// The consumer's side of a run: what doesn't depend on the type of the items.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/emitter.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/run/stream_position.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/snapshot/digest.hpp>
#include <feedline/core/snapshot/snapshot.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

class failure_list;
class metrics_collector;

/// Detects two threads that are inside at once.
class one_caller {
 public:
  explicit one_caller(std::atomic<bool>& is_inside);
  one_caller(const one_caller&) = delete;

  ~one_caller() { is_inside_.store(false, std::memory_order_relaxed); }

 private:
  std::atomic<bool>& is_inside_;
};

/// What the consumer of a run has received, and the packet in hand.
///
/// This decides what a checkpoint contains. Its position is that of the consumer, and only what the consumer took moves it: an
/// item that next() returned, a failure that was recorded, or the end of an epoch that it passed on its way to the next item.
/// What the threads of the run have read, made, held or pushed beyond that doesn't count: a resumed run makes it again. So after
/// - a break, or a next_for() that returned nothing yet, it is after the last item and the failures and ends of epochs since;
/// - a stop, by any thread, token or signal: the same. From the moment at which `stopped` is set, any thread may cut its
///   work short and pass on what it has, even with the snapshot of the whole. Therefore a packet counts only if the run isn't
///   stopped after it was popped. That is enough: a thread that cuts its work short has seen `stopped`, which is set before every
///   other sign of the stop, and whoever pops what it pushes then sees it too;
/// - an error that ends the run (a failure, one over the limit, an outage, an error of the run itself): it is before that error,
///   whose event isn't counted as taken;
/// - an on_failure that throws: it is after the failure, which was recorded before the call;
/// - a skipped failure that came before the batch of samples that were read before it: it is in the middle of that batch, given by
///   a snapshot and what was taken since. The last item alone determines the position only if no sample after it was skipped.
struct delivery {
  explicit delivery(pipeline_run& of);
  delivery(delivery&&) = delete;
  ~delivery();

  static constexpr auto for_ever = std::chrono::nanoseconds::min();

  /// Goes to the next item, which is in the packet if the result is success. Waits at most that long.
  queue_status advance(std::chrono::nanoseconds longest) {
    const bool is_here = !failed && !run.stopped() && packet && !has_events() && input.items < packet->size();
    return is_here ? queue_status::success : fetch(longest);
  }

  feedline::checkpoint checkpoint() const;

  /// Counts a batch of these samples, which was taken. Returns how long it was ready.
  std::chrono::nanoseconds count_batch(const sample_ids& ids) noexcept;

  // Small items of a packet count as taken from the queue together; batches one by one.
  std::chrono::nanoseconds count_queued(std::uint64_t items, std::uint64_t now) noexcept {
    const std::uint64_t queued = now - packet->put_at;
    add_relaxed(consumer.queued_ns, queued * items);
    consumer.queued.add(queued, items);
    return std::chrono::nanoseconds(queued);
  }

  pipeline_run& run;
  consumer_counters consumer;
  const std::shared_ptr<metrics_collector> collector;
  packet_ptr packet;
  stream_position input; // position in packet
  sample_id last;        // delivered last; of a batch its last one
  running_digest digest; // of all delivered samples
  const std::shared_ptr<failure_list> failures;
  std::uint64_t samples_passed = 0;     // since the run began or was resumed, including failed ones
  std::optional<sample_id> last_failed; // and was skipped
  bool came = false;                    // the current epoch has yielded something
  std::shared_ptr<const failure> failed;
  std::string remark;
  bool spent = false;                 // next() has reached the end, or a stop
  bool has_ended = false;             // next() has reached the end of the stream
  std::atomic<bool> is_inside{false}; // a thread is inside next()

 private:
  // Whether events stand before the next item.
  bool has_events() const noexcept {
    const std::vector<event>& all = packet->events();
    return input.events < all.size() && all[input.events].position <= input.items;
  }

  // As advance(), if that takes more than a look into the packet.
  queue_status fetch(std::chrono::nanoseconds longest);

  // Handles the events before the next item. Throws the failure that ends the run, and what on_failure throws.
  void take_events();

  // A packet arrived.
  void note_taken(std::uint64_t now);

  // Reports once what limits the run, if the consumer waits too long.
  void tell_if_starved(std::uint64_t now);

  // Records a skipped sample. Throws if there are too many.
  void skip(const failure& f);

  // The stream has ended, or the run was stopped. Throws the error of the run itself, if there was one.
  queue_status ended();

  void note_end(const epoch_end& e);

  // In a run that yielded nothing: names the last failure, if there was one.
  std::string remark_on(const failure& f) const;

  std::string origin_of(const failure& f) const;

  [[noreturn]] void fail(failure f, std::string why);

  bool may_be_starved_;         // and nobody knows yet
  std::uint64_t waited_ns_ = 0; // before the packet in hand
  empty_run_watch empty_run_;
};

} // namespace feedline::inline FEEDLINE_ABI::detail

#ifndef FEEDLINE_COMPILED
#include <feedline/core/run/delivery.ipp>
#endif

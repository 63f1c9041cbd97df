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
  std::shared_ptr<metrics_collector> collector; // null before the first report
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

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE_RUN)
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <utility>

#include <feedline/core/metrics.hpp>
#include <feedline/core/plan/run_options.hpp>
#include <feedline/core/run/elastic.hpp>
#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/core/source.hpp>
#include <feedline/core/state.hpp>
#include <feedline/core/transport/channel.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

FEEDLINE_INLINE one_caller::one_caller(std::atomic<bool>& is_inside) : is_inside_(is_inside) {
  if (is_inside_.exchange(true, std::memory_order_relaxed))
    throw std::logic_error("feedline: two threads called next() of one loader at once: call it from one "
                           "thread that distributes the items, "
                           "or hold a lock");
}

FEEDLINE_INLINE delivery::delivery(pipeline_run& of)
    : run(of),
      failures(std::make_shared<failure_list>(of.options())),
      may_be_starved_(static_cast<bool>(of.options().on_starved.value())) {
  const std::size_t end = run.segments().size();
  state_reader reader(run.resumed().words(end));
  input.resume(run.resumed().before(end, run.places().size()), read_place(reader));
  if (const auto& from = run.options().resume) {
    failures->resume(from->state().failed);
    // If the last item didn't determine the position, samples after it may have been skipped. Their failures must not come again.
    const snapshot& at = from->state().at;
    if (!at.words.empty() && !has_source(at) && from->state().failed.count() > 0)
      last_failed = {sample_id::no_index, 0,
                     static_cast<std::uint32_t>(run.resumed().last_epoch(run.context().first_epoch))};
    came = true;
    digest = running_digest(from->state().digest);
  }
  run.consumer().began.store(now_ns(), std::memory_order_relaxed);
}

FEEDLINE_INLINE delivery::~delivery() = default;

FEEDLINE_INLINE queue_status delivery::fetch(std::chrono::nanoseconds longest) {
  channel_base& from = *run.queues().back();
  const std::uint64_t began = longest.count() > 0 ? now_ns() : 0;
  if (failed) throw_pipeline_error(*failed, remark);
  for (;;) {
    if (run.stopped()) return ended();
    if (packet) {
      if (has_events()) take_events();
      if (input.items < packet->size()) return queue_status::success;
      input.end();
      from.recycle(std::move(packet));
    }
    if (longest == for_ever) {
      packet = from.pop(run.consumer(), [] {});
    } else {
      const auto passed = std::chrono::nanoseconds(began == 0 ? 0 : now_ns() - began);
      if (from.pop_for(packet, longest - passed, run.consumer()) == queue_status::empty)
        return queue_status::empty;
    }
    if (!packet || run.stopped()) { // what arrives after a stop may have been cut short
      has_ended = !packet && !run.stopped();
      packet.reset();
      spent = true;
      return ended();
    }
    input.begin(*packet);
    const std::uint64_t now = now_ns();
    if (!run.emits_batches()) count_queued(packet->size(), now);
    note_taken(now);
  }
}

FEEDLINE_INLINE std::chrono::nanoseconds delivery::count_batch(const sample_ids& ids) noexcept {
  digest.add(ids);
  samples_passed += ids.size();
  return count_queued(1, now_ns());
}

FEEDLINE_INLINE void delivery::note_taken(std::uint64_t now) {
  thread_counters& thread = run.consumer();
  thread.at.take(packet->sequence, now);
  const std::uint64_t waited = thread.waited(wait_kind::starved).load(std::memory_order_relaxed);
  if (packet->size() > 0)
    consumer.waits.add(waited - std::exchange(waited_ns_, waited), 1); // else it has events only
  if (thread.is_traced()) [[unlikely]]
    thread.note(
        {now, now, packet->put_at, packet->size(), run.queues().back()->fill(), trace_event::kind::took});
  if (may_be_starved_) tell_if_starved(now);
}

FEEDLINE_INLINE void delivery::tell_if_starved(std::uint64_t now) {
  const thread_counters& thread = run.consumer();
  const std::uint64_t passed = now - thread.began.load(std::memory_order_relaxed);
  if (std::chrono::nanoseconds(passed) < run.options().starved_after) return;
  may_be_starved_ = false;
  if (read_times(thread).starved < passed / 2) return;
  const auto& on_starved = run.options().on_starved;
  on_starved.value()(on_starved.function()(*this));
}

FEEDLINE_INLINE std::string why_starved(delivery& at) {
  const interval_metrics all = metrics_collector().report(at.run, at.consumer, *at.failures).total;
  return "feedline: the consumer waited " + percent(all.consumer.waited / all.seconds) + " of the first " +
         digits(all.seconds) + " s: " + all.bottleneck;
}

FEEDLINE_INLINE void delivery::take_events() {
  std::vector<event>& events = packet->events();
  while (input.events < events.size() && events[input.events].position <= input.items) {
    event& e = events[input.events];
    if (e.cause) e.cause->origin = origin_of(*e.cause);
    if (e.kind == event_kind::epoch_end) note_end({e.epoch, e.samples});
    else if (e.kind == event_kind::skipped) skip(*e.cause);
    else fail(*e.cause, remark_on(*e.cause));
    ++input.events; // now a checkpoint is after it
    if (e.kind == event_kind::skipped && run.options().on_failure)
      run.options().on_failure(failures->last().back());
  }
}

FEEDLINE_INLINE void delivery::skip(const failure& f) {
  const std::string too_many = failures->add(f, samples_passed++);
  if (!too_many.empty()) fail(f, too_many);
  last_failed = {f.index, 0, f.epoch};
}

FEEDLINE_INLINE queue_status delivery::ended() {
  if (run.consumer().ended.load(std::memory_order_relaxed) == 0)
    run.consumer().ended.store(now_ns(), std::memory_order_relaxed);
  if (const std::exception_ptr error = run.panic()) std::rethrow_exception(error);
  return queue_status::closed;
}

FEEDLINE_INLINE checkpoint delivery::checkpoint() const {
  const auto place = input.now();
  const auto& [before, since] = place;
  const std::uint64_t epoch = epoch_of(*before, run.context().first_epoch) + since.epochs;
  elastic_place exact = run.place_behind(last, last_failed, epoch, has_ended);
  checkpoint_state s{run.identity(*before), failures->samples(), digest.value(), *before, exact.is_common};
  const bool is_exact = exact.at.has_value();
  if (is_exact) s.at = *std::move(exact.at);
  s.at.held.leave_run();
  if (s.at.words.empty()) s.at.words.push_back(run.segments().size());
  write_section(s.at, [&](state_writer& writer) {
    if (!is_exact) write_place(writer, since);
  });
  return feedline::checkpoint(std::move(s));
}

FEEDLINE_INLINE void delivery::note_end(const epoch_end& e) {
  if (!run.is_endless()) return;
  if (!empty_run_.sees_end(e, std::exchange(came, false), run.keeps_over_epochs(), run.empty_epochs()))
    return;
  const auto f = note_empty_run(run.places().back().name, run.filters(), {.epoch = e.epoch}, {});
  fail(*f, remark_on(*f));
}

FEEDLINE_INLINE std::string delivery::remark_on(const failure& f) const {
  if (failures->last().empty()) return {};
  try {
    std::rethrow_exception(f.error);
  } catch (const empty_run&) {
    return "; the last sample that failed: " + to_string(failures->last().back());
  } catch (...) {
    return {};
  }
}

FEEDLINE_INLINE std::string delivery::origin_of(const failure& f) const {
  if (f.index == sample_id::no_index) return {};
  try {
    return run.origin(f.index);
  } catch (...) {
    return {}; // report the failure without an origin
  }
}

FEEDLINE_INLINE void delivery::fail(failure f, std::string why) {
  failed = std::make_shared<const failure>(std::move(f));
  remark = std::move(why);
  run.stop();
  throw_pipeline_error(*failed, remark);
}

} // namespace feedline::inline FEEDLINE_ABI::detail
#endif

// SPDX-License-Identifier: MIT
#pragma once
// The caller's handle on a running pipeline.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/core/run/progress.hpp>
#include <feedline/core/run/run.hpp>
#include <feedline/core/snapshot/digest.hpp>

namespace feedline::inline v0 {

/// The result of `try_next()` and `next_for()`: an item, nothing yet, or the end of the stream.
template <class T>
class next_result {
 public:
  /// No item yet, or the end of the stream.
  explicit next_result(bool has_ended) : has_ended_(has_ended) {}

  /// An item.
  explicit next_result(T&& item) : item_(std::move(item)) {}

  /// Whether there is an item.
  explicit operator bool() const noexcept { return item_.has_value(); }

  /// Whether no more items will arrive.
  bool has_ended() const noexcept { return has_ended_; }

  /// The item; there must be one.
  T& operator*() noexcept { return *item_; }

  T* operator->() noexcept { return &*item_; }

 private:
  std::optional<T> item_;
  bool has_ended_ = false;
};

/// The state of a run, as its consumer sees it.
enum class run_state {
  running,  ///< next() may return an item
  finished, ///< next() has reached the end of the stream
  stopped,  ///< by `stop()` or through its stop token
  failed,   ///< next() has thrown and will throw again
};

namespace detail {

/// Iterates over the items of `From::next()`; `From::current` keeps the current one.
template <class From>
class item_iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = typename From::value_type;
  using difference_type = std::ptrdiff_t;

  item_iterator() = default;

  explicit item_iterator(From* from) : from_(from) { ++*this; }

  value_type& operator*() const { return *from_->current; }

  value_type* operator->() const { return &*from_->current; }

  item_iterator& operator++() {
    if (from_) {
      from_->current.reset(); // so that the next item can use its memory
      if (!(from_->current = from_->next())) from_ = nullptr;
    }
    return *this;
  }

  void operator++(int) { ++*this; }

  friend bool operator==(const item_iterator& it, std::default_sentinel_t) { return it.from_ == nullptr; }

 private:
  From* from_ = nullptr;
};

[[noreturn]] inline void refuse_spent() {
  throw std::logic_error(
      "feedline: the run of this loader has ended: start another run with finite() or infinite() for "
      "another pass over the data");
}

} // namespace detail

/// Owns the threads and queues of one run of a pipeline, and returns its items. Move-only; may be moved while
/// the run is active. Its destructor stops and joins all threads, whatever the run is doing; in a child of
/// fork(), where its threads don't exist, it does nothing.
///
/// |                            | constructed       | running           | finished         | stopped        | failed             |
/// |----------------------------|-------------------|-------------------|------------------|----------------|--------------------|
/// | `state()`                  | running           | running           | finished         | stopped        | failed             |
/// | `next()`                   | waits for an item | waits for an item | nothing          | nothing        | the same error     |
/// | `try_next()`, `next_for()` | an item or empty  | an item or empty  | the end          | the end        | the same error     |
/// | `stop()`                   | stops             | stops             | only `state()`   | no effect      | no effect          |
/// | destruction                | stops, joins      | stops, joins      | joins            | joins          | joins              |
/// | `metrics()`, `failures()`  | so far            | so far            | of the whole run | until the stop | until the failure  |
/// | `checkpoint()`             | the beginning     | after the item    | the end          | after the item | before the failure |
///
/// A run is constructed until an item is taken, finished when next() has reached the end of the stream, and failed when
/// next() has thrown. How far its threads are changes only whether next() waits. A checkpoint is taken after the item that
/// was returned last.
///
/// Any thread may call `stop()`, `stopped()` and `metrics()` at any time, also while another one waits in next(); a stage's
/// function or coroutine may call `stop()`. All else is for one thread at a time, which may be another one each time: in a
/// debug build next() throws std::logic_error if another thread is inside it. The loader must not be destroyed by its own
/// threads, nor while another thread uses it. A loader that was moved from behaves as a stopped one without metrics.
template <class Run>
class loader {
  struct inside;

 public:
  using value_type = typename Run::item; ///< the type of an item
  /// Whether checkpoint() compiles.
  static constexpr bool has_checkpoints = Run::is_ordered && !Run::is_live && !Run::drops;

  /// Starts the run. Throws std::system_error if a thread can't be started.
  explicit loader(std::unique_ptr<Run> run) : state_(new inside(std::move(run))) {}

  /// Waits for the next item. Returns nothing if the stream has ended or was stopped. Throws pipeline_error
  /// at the position of a failed sample, or when more samples were skipped than `failure_limit` allows.
  std::optional<value_type> next() { return state_ ? state_->next() : std::nullopt; }

  /// The next item if one is ready. Throws as next() does.
  next_result<value_type> try_next() { return next_for(std::chrono::nanoseconds(0)); }

  /// The next item if it arrives within that time. Throws as next() does.
  next_result<value_type> next_for(std::chrono::nanoseconds longest) {
    return state_ ? state_->next_for(longest) : next_result<value_type>(true);
  }

  /// Asks every thread of the run to stop, and returns at once. No more items are delivered.
  void stop() {
    if (state_) state_->run->stop();
  }

  /// Whether the run was stopped, by `stop()` or through its stop token.
  bool stopped() const { return !state_ || state_->run->stopped(); }

  /// Whether more items may arrive, or why not. For the thread that calls next(), whose calls determine the
  /// state.
  run_state state() const {
    if (state_ && (state_->failed || state_->run->panic())) return run_state::failed;
    if (stopped()) return run_state::stopped;
    return state_->spent ? run_state::finished : run_state::running;
  }

  /// The samples skipped so far, in the order of the stream: those before the item returned last. If an
  /// infinite run has skipped more than 1,000, these are the most recent ones, at least 1,000.
  const std::vector<failure>& failures() const {
    static const std::vector<failure> none;
    return state_ ? state_->failures.last() : none;
  }

  /// The number of failures of each stage and message, since the run began or was resumed.
  const std::vector<failure_count>& failure_counts() const {
    static const std::vector<failure_count> none;
    return state_ ? state_->failures.counts() : none;
  }

  /// The work of every stage, worker and queue since the start and since the last call.
  feedline::metrics metrics() {
    return state_ ? state_->collector.report(*state_->run, state_->consumer) : feedline::metrics{};
  }

  /// The most memory that the run can hold, fixed before it starts. Empty for a loader that was moved from.
  memory_plan memory() const { return state_ ? state_->run->memory() : memory_plan{}; }

  /// The position of the run: after the item returned last, or at its beginning. A run with this checkpoint
  /// as `resume` yields the items that this one would deliver next. The run continues; later calls of next()
  /// don't change the checkpoint.
  ///
  /// The cost doesn't depend on the contents of buffers: they are computed when the checkpoint is converted
  /// to bytes. Throws std::logic_error for a loader that was moved from.
  feedline::checkpoint checkpoint() const {
    static_assert(
        Run::is_ordered,
        "feedline: a run with unordered workers or stages can't be resumed: which samples came before "
        "a checkpoint depends on timing");
    static_assert(!Run::drops,
                  "feedline: a run with a queue that drops samples can't be resumed: which samples it drops "
                  "depends on timing");
    static_assert(
        !Run::is_live,
        "feedline: a run of a live source can't be resumed: if the source can yield its data again, give "
        "it a state(auto& archive)");
    if (!state_) throw std::logic_error("feedline: a loader that was moved from has no checkpoint");
    return state_->checkpoint();
  }

  /// Identifies the delivered samples and their order. Two runs have equal digests if these are equal, and
  /// otherwise with a probability of 2^-64. A resumed run includes the samples before the checkpoint.
  std::uint64_t digest() const { return state_ ? state_->digest.value() : 0; }

  using iterator = detail::item_iterator<inside>;

  /// Takes the next item. A loader can be iterated over once: `begin()` continues where `next()` stopped, and
  /// throws std::logic_error if the run had already ended.
  iterator begin() {
    if (state() == run_state::finished) detail::refuse_spent();
    return iterator(state_.get());
  }

  std::default_sentinel_t end() const { return {}; }

 private:
  // Detects two threads that are inside at once.
  class one_caller {
   public:
    explicit one_caller(std::atomic<bool>& is_inside) : is_inside_(is_inside) {
      if (is_inside_.exchange(true))
        throw std::logic_error(
            "feedline: two threads called next() of one loader at once: call it from one thread that "
            "distributes the items, or hold a lock");
    }

    one_caller(const one_caller&) = delete;

    ~one_caller() { is_inside_.store(false); }

   private:
    std::atomic<bool>& is_inside_;
  };

  // Allocated separately, so that threads and iterators keep their pointers when the loader moves.
  struct inside {
    using value_type = loader::value_type;

    explicit inside(std::unique_ptr<Run> r)
        : run(std::move(r)), failures(run->options().stage_failure_limits, run->options().endless) {
      const std::size_t end = run->segments().size();
      state_reader reader(run->resumed().words(end));
      input.resume(run->resumed().before(end, run->places().size()), detail::read_place(reader));
      if (const auto& from = run->options().resume) {
        failures_passed = from->state().failures;
        came = true;
        digest = detail::running_digest(from->state().digest);
      }
      run->consumer().began.store(detail::now_ns(), std::memory_order_relaxed);
      run->start();
    }

    std::optional<value_type> next() {
      std::optional<value_type> item;
      advance(item, [this] {
        packet = run->output().pop(run->consumer(), [] {});
        return packet ? queue_status::success : queue_status::closed;
      });
      return item;
    }

    next_result<value_type> next_for(std::chrono::nanoseconds longest) {
      const std::uint64_t began = longest.count() > 0 ? detail::now_ns() : 0;
      std::optional<value_type> item;
      const queue_status status = advance(item, [&] {
        const auto passed = std::chrono::nanoseconds(began == 0 ? 0 : detail::now_ns() - began);
        return run->output().pop_for(packet, longest - passed, run->consumer());
      });
      if (item) return next_result<value_type>(std::move(*item));
      return next_result<value_type>(status == queue_status::closed);
    }

    /// Takes the next item from the current packet, or from those that `pop` returns. Returns success, empty
    /// if `pop` found none, or closed at the end.
    template <class Pop>
    queue_status advance(std::optional<value_type>& into, const Pop& pop) {
#ifndef NDEBUG
      const one_caller check(is_inside);
#endif
      if (failed) detail::throw_pipeline_error(*failed, remark);
      for (;;) {
        if (run->stopped()) return ended();
        if (packet) {
          take_events();
          if (input.items < packet->size()) {
            if constexpr (Run::is_measured) count_item();
            value_type& item = packet->template values<value_type>()[input.items];
            last = packet->ids()[input.items++];
            came = true;
            if constexpr (detail::comes_in_batches<value_type>) {
              digest.add(item.ids());
              samples_passed += item.size();
            } else {
              digest.add(last);
              ++samples_passed;
            }
            into.emplace(std::move(item));
            return queue_status::success;
          }
          input.end();
          run->output().recycle(std::move(packet));
        }
        const queue_status status = pop();
        if (status == queue_status::empty) return status;
        if (status != queue_status::success) {
          spent = true;
          return ended();
        }
        input.begin(*packet);
        if constexpr (Run::is_measured && !detail::comes_in_batches<value_type>) count_queued(packet->size());
      }
    }

    feedline::checkpoint checkpoint() const {
      const auto place = input.now();
      const auto& [before, since] = place;
      detail::checkpoint_state s{run->identity(*before), failures_passed, digest.value(), *before};
      bool exact = false;
      if constexpr (Run::is_elastic) {
        if (detail::comes_once(run->options()))
          if (auto at = run->snapshot_behind(last, last_failed, failures_passed)) {
            s.at = *std::move(at);
            exact = true;
          }
      }
      if (s.at.words.empty()) s.at.words.push_back(run->segments().size());
      detail::write_section(s.at, [&](state_writer& writer) {
        if (!exact) detail::write_place(writer, since);
      });
      return feedline::checkpoint(std::move(s));
    }

    queue_status ended() {
      if (run->consumer().ended.load(std::memory_order_relaxed) == 0)
        run->consumer().ended.store(detail::now_ns(), std::memory_order_relaxed);
      if (const std::exception_ptr error = run->panic()) std::rethrow_exception(error);
      return queue_status::closed;
    }

    // Small items of a packet count as taken from the queue together; batches one by one.
    void count_item() noexcept {
      detail::add_relaxed(consumer.items, 1);
      if constexpr (detail::comes_in_batches<value_type>) count_queued(1);
    }

    void count_queued(std::uint64_t items) noexcept {
      const std::uint64_t queued = detail::now_ns() - packet->put_at;
      detail::add_relaxed(consumer.queued_ns, queued * items);
      consumer.queued.add(queued, items);
    }

    // Handles the events before the next item.
    void take_events() {
      std::vector<detail::event>& events = packet->events();
      for (; input.events < events.size() && events[input.events].position <= input.items; ++input.events) {
        detail::event& e = events[input.events];
        if (e.kind == detail::event_kind::epoch_end) {
          note_end({e.epoch, e.samples});
          continue;
        }
        if (e.kind == detail::event_kind::draining) continue;
        e.cause->origin = origin_of(*e.cause);
        const bool skipped = e.kind == detail::event_kind::skipped;
        if (!skipped && !e.cause->over_limit) {
          std::string why = remark_on(*e.cause);
          fail(std::move(*e.cause), std::move(why));
        }
        const std::string too_many = failures.add(*e.cause, samples_passed++);
        if (!skipped || failures_passed >= run->options().failure_limit)
          fail(failures.last().back(),
               " (one failure more than the limit of " + std::to_string(run->options().failure_limit) + ")");
        if (!too_many.empty()) fail(failures.last().back(), too_many);
        ++failures_passed;
        // Without a limit the empty epochs end a run that only fails.
        came |= run->options().failure_limit != ~std::size_t{0};
        last_failed = {e.cause->index, 0, e.cause->epoch};
      }
    }

    void note_end(const detail::epoch_end& e) {
      if (!run->is_endless()) return;
      if (!empty_run.sees_end(e, std::exchange(came, false), Run::keeps_over_epochs, run->empty_epochs()))
        return;
      const auto f =
          detail::note_failure(run->places().back().name, {.epoch = e.epoch}, {}, detail::nothing_came());
      fail(*f, remark_on(*f));
    }

    /// In a run that yielded nothing: names the last failure, if there was one.
    std::string remark_on(const failure& f) const {
      if (failures.last().empty()) return {};
      try {
        std::rethrow_exception(f.error);
      } catch (const detail::empty_run&) {
        return "; the last sample that failed: " + to_string(failures.last().back());
      } catch (...) {
        return {};
      }
    }

    std::string origin_of(const failure& f) const {
      if (f.index == sample_id::no_index) return {};
      try {
        return run->origin(f.index);
      } catch (...) {
        return {}; // report the failure without an origin
      }
    }

    [[noreturn]] void fail(failure f, std::string why) {
      failed = std::make_unique<failure>(std::move(f));
      remark = std::move(why);
      run->stop();
      detail::throw_pipeline_error(*failed, remark);
    }

    std::unique_ptr<Run> run;
    detail::consumer_counters consumer;
    detail::metrics_collector collector;
    detail::packet_ptr packet;
    detail::stream_position input;     // position in packet
    sample_id last;                    // delivered last; of a batch its last one
    detail::running_digest digest;     // of all delivered samples
    std::optional<value_type> current; // of the iterator
    detail::failure_list failures;
    std::uint64_t samples_passed = 0;     // since the run began or was resumed, including failed ones
    std::uint64_t failures_passed = 0;    // including those before the checkpoint
    std::optional<sample_id> last_failed; // and was skipped
    bool came = false;                    // the current epoch has yielded something
    detail::empty_run_watch empty_run;
    std::unique_ptr<failure> failed;
    std::string remark;
    bool spent = false;                 // next() has reached the end
    std::atomic<bool> is_inside{false}; // a thread is inside next(); used in debug builds
  };

  // A child of fork() inherits the loader without its threads, whose locks may never be released: it leaves
  // the memory as it is.
  struct delete_in_own_process {
    void operator()(inside* s) const {
      if (!s->run->is_inherited()) delete s;
    }
  };

  std::unique_ptr<inside, delete_in_own_process> state_;
};

} // namespace feedline::inline v0

// SPDX-License-Identifier: MIT
#pragma once
// The caller's handle on a running pipeline.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/metrics/thread_counters.hpp>
#include <feedline/core/run/delivery.hpp>
#include <feedline/core/run/pipeline_run.hpp>
#include <feedline/core/sample.hpp>
#include <feedline/core/transport/packet.hpp>
#include <feedline/queue/queue_status.hpp>

namespace feedline::inline FEEDLINE_ABI {

/// The result of `next()`, `try_next()` and `next_for()`: an item, nothing yet, or the end of the stream. It has the members
/// of a std::optional that a result needs, and converts to one.
template <class T>
class next_result {
 public:
  /// No item yet, or the end of the stream.
  next_result(std::nullopt_t, bool has_ended) : has_ended_(has_ended) {}

  /// An item.
  next_result(std::in_place_t, T&& item) : item_(std::move(item)) {}

  /// For `std::optional<T> item = loader.next();`
  operator std::optional<T>() && { return std::move(item_); }

  ///@{
  /// Whether there is an item.
  explicit operator bool() const noexcept { return item_.has_value(); }

  bool has_value() const noexcept { return item_.has_value(); }

  ///@}

  /// Whether no more items will arrive.
  bool has_ended() const noexcept { return has_ended_; }

  /// Drops the item, and so gives a batch's memory back to its run.
  void reset() noexcept { item_.reset(); }

  ///@{
  /// The item; there must be one. value() throws std::bad_optional_access otherwise.
  T& operator*() & noexcept { return *item_; }

  const T& operator*() const& noexcept { return *item_; }

  T operator*() && noexcept { return *std::move(item_); }

  T* operator->() & noexcept { return &*item_; }

  const T* operator->() const& noexcept { return &*item_; }

  T& value() & { return item_.value(); }

  const T& value() const& { return item_.value(); }

  T value() && { return std::move(item_).value(); }

  ///@}

  /// Not for a temporary: in `for (auto x : loader.next()->get<0>())` the item would be gone before the loop begins.
  template <class Item = T>
  Item* operator->() && {
    static_assert(!std::is_same_v<Item, T>, "feedline: the item that next() returns would be gone before it "
                                            "is used: give it a name, auto batch = "
                                            "loader.next(); and then use batch->…");
    return nullptr;
  }

  ///@{
  /// The item, or this value where there is none.
  template <class U>
  T value_or(U&& otherwise) const& {
    return item_.value_or(std::forward<U>(otherwise));
  }

  template <class U>
  T value_or(U&& otherwise) && {
    return std::move(item_).value_or(std::forward<U>(otherwise));
  }

  ///@}

  ///@{
  /// Compares the items, as std::optional does.
  friend bool operator==(const next_result& a, const next_result& b) { return a.item_ == b.item_; }

  friend bool operator==(const next_result& a, const std::optional<T>& b) { return a.item_ == b; }

  friend bool operator==(const next_result& a, std::nullopt_t) noexcept { return !a.item_; }

  template <class U>
  friend bool operator==(const next_result& a, const U& b) {
    return a.item_ == b;
  }

  ///@}

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

class run_link;

/// A run and its consumer's side.
struct owned_run {
  /// Starts the run.
  explicit owned_run(std::shared_ptr<pipeline_run> planned);
  owned_run(owned_run&&) = delete;
  FEEDLINE_INLINE virtual ~owned_run();

  std::shared_ptr<pipeline_run> run;
  delivery at;
  const std::shared_ptr<run_link> link;
};

/// The same with the type of the items. Allocated separately, so that threads and iterators keep their pointers when the
/// loader moves.
template <class Item>
struct owned_run_of final : owned_run {
  using owned_run::owned_run;

  next_result<Item> take(std::chrono::nanoseconds longest) {
    const one_caller check(at.is_inside);
    const queue_status status = at.advance(longest);
    if (status != queue_status::success) return {std::nullopt, status == queue_status::closed};
    carried<Item>& held = at.packet->template values<carried<Item>>()[at.input.items];
    at.last = at.packet->ids()[at.input.items++];
    at.came = true;
    add_relaxed(at.consumer.items, 1);
    if constexpr (comes_in_batches<Item>) {
      held.set_queued(at.count_batch(held.ids()));
    } else {
      at.digest.add(at.last);
      ++at.samples_passed;
    }
    if constexpr (is_large_item<Item>) {
      const slot<Item> taken(std::move(held)); // from now on another sample can use its memory
      return {std::in_place, std::move(*taken)};
    } else {
      return {std::in_place, std::move(held)};
    }
  }

  std::optional<Item> current; // of the iterator
};

/// Starts a planned run of such items.
template <class Item>
owned_run* own(std::shared_ptr<pipeline_run> planned) {
  return new owned_run_of<Item>(std::move(planned));
}

/// Iterates over the items of a run.
template <class Item>
class item_iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Item;
  using difference_type = std::ptrdiff_t;

  item_iterator() = default;

  explicit item_iterator(owned_run_of<Item>* from) : from_(from) { ++*this; }

  Item& operator*() const { return *from_->current; }

  Item* operator->() const { return &*from_->current; }

  item_iterator& operator++() {
    if (from_) {
      from_->current.reset(); // so that the next item can use its memory
      if (auto next = from_->take(delivery::for_ever)) from_->current.emplace(*std::move(next));
      else from_ = nullptr;
    }
    return *this;
  }

  void operator++(int) { ++*this; }

  friend bool operator==(const item_iterator& it, std::default_sentinel_t) { return it.from_ == nullptr; }

 private:
  owned_run_of<Item>* from_ = nullptr;
};

} // namespace detail

/// What can be asked of a loader whatever its items are.
class run_handle {
 public:
  /// Asks every thread of the run to stop, and returns at once. No more items are delivered.
  void stop();

  /// Ends the run of a live source, and returns at once: the source yields no more, what it has yielded is delivered, then
  /// next() returns nothing. Throws std::logic_error if the source isn't live.
  void close();

  /// Whether the run was stopped, by `stop()` or through its stop token.
  bool stopped() const;

  /// Whether more items may arrive, or why not. For the thread that calls next(), whose calls determine the
  /// state.
  run_state state() const;

  /// The samples skipped so far, in the order of the stream: those before the item returned last. If an
  /// infinite run has skipped more than 1,000, these are the most recent ones, at least 1,000.
  const std::vector<failure>& failures() const;

  /// The number of failures of each stage and message, since the run began or was resumed.
  const std::vector<failure_count>& failure_counts() const;

  /// The work of every stage, worker and queue since the start and since the last call.
  feedline::metrics metrics();

  /// What the consumer waits for at this moment, for people: "packet 1,234 is with worker 3 in map `decode`, on sample 5,678
  /// (shard-0003.tar: 000812.jpg), for 29.8 s". Any thread may call it. Of values for which a map or a filter takes less than
  /// 32 ns it names the first of a few: "on sample 5,678 or one of the 15 after it".
  std::string waiting_for() const;

  /// The most memory that the run can hold, fixed before it starts. Empty for a loader that was moved from.
  memory_plan memory() const;

  /// Whether the run has checkpoints: it isn't of unordered workers or stages, queues that drop samples, or a live source.
  bool can_be_resumed() const;

  /// As that of the loader, for any run: throws std::logic_error if the run can't be resumed.
  feedline::checkpoint checkpoint() const;

  /// Identifies the delivered samples and their order. Two runs have equal digests if these are equal, and
  /// otherwise with a probability of 2^-64. A resumed run includes the samples before the checkpoint.
  std::uint64_t digest() const;

 protected:
  run_handle() = default;

  /// For the library.
  explicit run_handle(std::shared_ptr<detail::owned_run> owned) noexcept : owned_(std::move(owned)) {}

  run_handle(run_handle&&) noexcept;
  run_handle& operator=(run_handle&&) noexcept;
  ~run_handle();

  /// For the library: null after a move.
  detail::owned_run* get() const noexcept { return owned_.get(); }

  /// For the library: throws std::logic_error if the run has ended.
  void refuse_spent() const;

 private:
  friend class run_watch;

  std::shared_ptr<detail::owned_run> owned_;
};

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
/// | `close()`, live source     | ends the stream   | ends the stream   | no effect        | no effect      | no effect          |
/// | destruction                | stops, joins      | stops, joins      | joins            | joins          | joins              |
/// | `metrics()`, `failures()`  | so far            | so far            | of the whole run | until the stop | until the failure  |
/// | `checkpoint()`             | the beginning     | after the item    | the end          | after the item | before the failure |
///
/// A run is constructed until an item is taken, finished when next() has reached the end of the stream, and failed when
/// next() has thrown. How far its threads are changes only whether next() waits. A checkpoint is taken after the item that
/// was returned last.
///
/// Any thread may call `stop()`, `close()`, `stopped()`, `metrics()` and `waiting_for()` at any time, also while another one
/// waits in next(); a stage's function or coroutine may call `stop()` and `close()`. All else is for one thread at a time, which
/// may be another one each time: next() throws std::logic_error if another thread is inside it. The loader must not be destroyed
/// by its own threads, nor while another thread uses it. A loader that was moved from behaves as a stopped one without metrics.
///
/// The second parameter is the library's: whether a checkpoint can be taken is known at compile time for what finite() and
/// infinite() return. A `loader<Item>` takes over any loader of such items, for a class member or a file that is compiled
/// separately; its checkpoint() throws where that of the other wouldn't compile. A default-constructed one behaves as a
/// stopped one.
template <class Item, detail::checkpoints Checkpoints = detail::checkpoints::unknown>
class loader : public run_handle {
  using running = detail::owned_run_of<Item>;

 public:
  using value_type = Item; ///< the type of an item
  /// Whether checkpoint() compiles.
  static constexpr bool has_checkpoints =
      Checkpoints == detail::checkpoints::always || Checkpoints == detail::checkpoints::unknown;

  loader() = default;

  /// For the library: takes over a run of such items.
  explicit loader(std::shared_ptr<detail::owned_run> owned) noexcept : run_handle(std::move(owned)) {}

  /// Takes over a loader of the same items.
  template <detail::checkpoints Known>
    requires(Checkpoints == detail::checkpoints::unknown && Known != Checkpoints)
  loader(loader<Item, Known> other) : run_handle(std::move(other)) {}

  /// Waits for the next item. Returns nothing if the stream has ended or was stopped. Throws pipeline_error
  /// at the position of a failed sample, or when more samples were skipped than `failure_limit` allows; and what
  /// `on_failure` throws.
  next_result<Item> next() { return take(detail::delivery::for_ever); }

  /// The next item if one is ready. Throws as next() does.
  next_result<Item> try_next() { return next_for(std::chrono::nanoseconds(0)); }

  /// The next item if it arrives within that time. A signal whose handler runs in this thread ends the wait earlier.
  /// Throws as next() does.
  next_result<Item> next_for(std::chrono::nanoseconds longest) {
    return take(std::max(longest, std::chrono::nanoseconds(0)));
  }

  /// The position of the run: after the item returned last and the failures recorded since, or at its beginning, whatever has ended
  /// the run (see feedline::checkpoint). A run with this checkpoint as `resume` yields the items that this one would deliver
  /// next. The run continues; later calls of next() don't change the checkpoint.
  ///
  /// The cost doesn't depend on the contents of buffers: they are computed when the checkpoint is converted
  /// to bytes. During an outage of the source's server it may not identify the data: a resumed run then can't tell whether
  /// the data has changed. Throws std::logic_error for a loader that was moved from.
  feedline::checkpoint checkpoint() const {
    static_assert(
        Checkpoints != detail::checkpoints::unordered,
        "feedline: a run with unordered workers or stages can't be resumed: which samples came before "
        "a checkpoint depends on timing");
    static_assert(Checkpoints != detail::checkpoints::dropping,
                  "feedline: a run with a queue that drops samples can't be resumed: which samples it drops "
                  "depends on timing");
    static_assert(
        Checkpoints != detail::checkpoints::live,
        "feedline: a run of a live source can't be resumed: if the source can yield its data again, give "
        "it a state(auto& archive)");
    return run_handle::checkpoint();
  }

  using iterator = detail::item_iterator<Item>;

  /// Takes the next item. A loader can be iterated over once: `begin()` continues where `next()` stopped, and
  /// throws std::logic_error if the run had already ended.
  iterator begin() {
    refuse_spent();
    return iterator(static_cast<running*>(get()));
  }

  std::default_sentinel_t end() const { return {}; }

 private:
  next_result<Item> take(std::chrono::nanoseconds longest) {
    if (!get()) return {std::nullopt, true};
    return static_cast<running*>(get())->take(longest);
  }
};

} // namespace feedline::inline FEEDLINE_ABI

#if !defined(FEEDLINE_COMPILED) || defined(FEEDLINE_DEFINES_CORE)
#include <stdexcept>

#include <feedline/core/run/failure_list.hpp>
#include <feedline/core/run/metrics_collector.hpp>
#include <feedline/core/run/run_link.hpp>
#include <feedline/core/run/waiting_for.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

FEEDLINE_INLINE owned_run::owned_run(std::shared_ptr<pipeline_run> planned)
    : run(std::move(planned)), at(*run), link(std::make_shared<run_link>(at)) {
  run->start();
}

FEEDLINE_INLINE owned_run::~owned_run() { link->end(); }

} // namespace detail

FEEDLINE_INLINE run_handle::run_handle(run_handle&&) noexcept = default;

FEEDLINE_INLINE run_handle& run_handle::operator=(run_handle&&) noexcept = default;

FEEDLINE_INLINE run_handle::~run_handle() = default;

FEEDLINE_INLINE void run_handle::stop() {
  if (owned_) owned_->run->stop();
}

FEEDLINE_INLINE void run_handle::close() {
  if (owned_) owned_->run->close();
}

FEEDLINE_INLINE bool run_handle::stopped() const { return !owned_ || owned_->run->stopped(); }

FEEDLINE_INLINE run_state run_handle::state() const {
  if (owned_ && (owned_->at.failed || owned_->run->panic())) return run_state::failed;
  if (stopped()) return run_state::stopped;
  return owned_->at.spent ? run_state::finished : run_state::running;
}

FEEDLINE_INLINE const std::vector<failure>& run_handle::failures() const {
  static const std::vector<failure> none;
  return owned_ ? owned_->at.failures->last() : none;
}

FEEDLINE_INLINE const std::vector<failure_count>& run_handle::failure_counts() const {
  static const std::vector<failure_count> none;
  return owned_ ? owned_->at.failures->counts() : none;
}

FEEDLINE_INLINE metrics run_handle::metrics() {
  if (!owned_) return {};
  detail::delivery& at = owned_->at;
  {
    const std::lock_guard lock(owned_->run->report_mutex());
    if (!at.collector) at.collector = std::make_shared<detail::metrics_collector>();
  }
  return at.collector->report(*owned_->run, at.consumer, *at.failures);
}

FEEDLINE_INLINE std::string run_handle::waiting_for() const {
  return owned_ ? detail::find_wait(*owned_->run).to_string() : "nothing: the loader has no run";
}

FEEDLINE_INLINE memory_plan run_handle::memory() const {
  return owned_ ? owned_->run->memory() : memory_plan{};
}

FEEDLINE_INLINE std::uint64_t run_handle::digest() const { return owned_ ? owned_->at.digest.value() : 0; }

FEEDLINE_INLINE bool run_handle::can_be_resumed() const { return owned_ && owned_->run->has_checkpoints(); }

FEEDLINE_INLINE checkpoint run_handle::checkpoint() const {
  if (!owned_) throw std::logic_error("feedline: a loader that was moved from has no checkpoint");
  const detail::pipeline_run& run = *owned_->run;
  if (!run.has_checkpoints())
    throw std::logic_error(
        "feedline: a run with unordered workers or stages, a queue that drops samples or a live "
        "source can't be resumed");
  return owned_->at.checkpoint();
}

FEEDLINE_INLINE void run_handle::refuse_spent() const {
  if (state() == run_state::finished)
    throw std::logic_error(
        "feedline: the run of this loader has ended: start another run with finite() or infinite() for "
        "another pass over the data");
}

} // namespace feedline::inline FEEDLINE_ABI
#endif

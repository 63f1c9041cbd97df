// SPDX-License-Identifier: MIT
#pragma once
// A loader as a Python object.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/checkpoint.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/python/detail/to_python.hpp>
#include <feedline/queue/queue_status.hpp>
#include <feedline/queue/spsc_queue.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

/// What a user of Python chooses for a run.
struct python_options {
  finite_options run;                                 // for both modes
  std::uint32_t passes = 0;                           // that were begun before the one to resume
  bool resumes_at_end = false;                        // that one has ended: the next one begins
  std::optional<std::uint32_t> reached_epoch;         // of the last item before it
  py::object resumed_values = py::none();             // of the parameters that a state was taken with
  bool allow_other_options = false;                   // those may differ here
  std::vector<std::shared_ptr<py::object>> functions; // which options call
  bool infinite = false;
  bool epoch = false;
  field_container fields = field_container::dict;
};

/// Any bytes as a text: those that aren't UTF-8 as in os.fsdecode().
inline py::str text_of(std::string_view bytes) {
  PyObject* const text =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

inline py::object as_python(const failure& f) {
  py::dict d;
  d["stage"] = text_of(f.stage);
  d["sample"] = f.index == sample_id::no_index ? py::none() : py::object(py::int_(f.index));
  d["epoch"] = f.epoch;
  d["origin"] = text_of(f.origin);
  d["message"] = text_of(f.message);
  return d;
}

/// A list or an array as a tuple: they are equal if they have the same elements. NumPy's numbers as Python's.
inline py::object comparable(py::object value) {
  if (py::hasattr(value, "tolist")) value = value.attr("tolist")();
  return py::isinstance<py::list>(value) ? py::tuple(value) : value;
}

/// Is told of each run of a loader. With Python's lock.
class [[gnu::visibility("hidden")]] run_observer {
 public:
  virtual ~run_observer() = default;
  virtual void started(const run_handle& run) = 0;
};

/// The part of a bound loader that doesn't depend on its items.
class [[gnu::visibility("hidden")]] python_loader : public std::enable_shared_from_this<python_loader> {
 public:
  explicit python_loader(python_options options) : options_(std::move(options)) { all().insert(this); }

  python_loader(python_loader&&) = delete;

  virtual ~python_loader() {
    all().erase(this);
    ++gone();
    gone().notify_all();
  }

  /// Stops the run and joins its threads. The next pass starts another one.
  void close() {
    stop();
    const inside here(*this);
    drop_ready();
    finish(here);
  }

  /// As close(), but next() still returns the items that are ready. Any thread may call it at any time, and so may
  /// Python's signal handlers: if a thread is inside, that one closes the run, when it next looks for an item.
  void drain() {
    check_process();
    is_draining_ = true;
    if (is_inside_) {
      if (is_waiting_) stop(); // it has found nothing ready
      return;
    }
    const inside here(*this);
    keep_ready(here);
  }

  /// Asks the run to stop. Any thread may call it at any time.
  void stop() {
    check_process();
    std::stop_source run = stopping_;
    const py::gil_scoped_release unlocked; // what a stop calls may wait for a thread that needs Python's lock
    run.request_stop();
  }

  /// Begins the next pass, and returns its number for next(). An infinite run goes on, and so does a pass of which nothing was
  /// taken yet or of which drain() has kept items.
  std::uint64_t begin() {
    const inside here(*this);
    if (is_draining_) keep_ready(here);
    const bool runs = has_begun_ && is_running();
    if (ready_.empty() && !(runs && (options_.infinite || !is_taken_from_))) {
      if (runs) abandon();
      start(here);
    }
    return ++begins_;
  }

  /// The next item. Throws StopIteration at the end, TimeoutError, and an error if another pass than `of` was begun since.
  py::object next(std::optional<double> timeout, std::optional<std::uint64_t> of = {}) {
    const inside here(*this);
    if (timeout && std::isnan(*timeout)) throw py::value_error("timeout isn't a number");
    if (of && *of != begins_ && !options_.infinite)
      throw std::runtime_error(
          "this iterator's pass was broken off, as another `for`, iter() or load_state_dict() of its loader "
          "has begun another one: a finite loader yields one pass at a time");
    if (!has_begun_) start(here);
    py::object item;
    bool is_over = false;
    const bool is_in_time = wait(timeout, [&](std::chrono::nanoseconds longest) {
      for (;;) {
        if (is_draining_) keep_ready(here);
        if (!ready_.empty()) {
          item = next_ready();
          return true;
        }
        item = next_for(std::chrono::nanoseconds(0), is_over);
        if (!item && !is_over) {
          // It is marked before it looks at is_draining_; drain() does it the other way round.
          const marked waiting(is_waiting_);
          if (!is_draining_) item = next_for(longest, is_over);
        }
        if (item || !is_draining_) return item || is_over;
      }
    });
    if (item) {
      is_taken_from_ = true;
      return item;
    }
    if (is_in_time) {
      has_ended_ = has_ended_ || (!ended_ && run()->state() == run_state::finished) || ends_after_ready_;
      throw py::stop_iteration();
    }
    PyErr_SetString(PyExc_TimeoutError, "no batch was ready in time");
    throw py::error_already_set();
  }

  py::dict state_dict() {
    const inside here(*this);
    if (!has_begun_) start(here);
    if (ended_ && !ended_->position)
      throw std::runtime_error(
          "this loader was closed where it can't be resumed: its run has no states, or its data had gone");
    const std::vector<std::byte> bytes = [&] {
      const py::gil_scoped_release unlocked; // it may read files
      return (ended_ ? *ended_->position : run()->checkpoint()).to_bytes();
    }();
    py::dict state;
    state["feedline"] = py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    state["passes"] = options_.passes - 1;
    state["ended"] = has_ended_;
    state["epoch"] = epoch_now();
    if (!values_.empty()) state["options"] = values_.attr("copy")();
    return state;
  }

  void load_state_dict(const py::object& state) {
    const inside here(*this);
    python_options changed = options_;
    resume_from(changed, state);
    check_values(changed);
    options_ = std::move(changed);
    drop_ready();
    ended_.reset();
    end();
    has_begun_ = is_draining_ = false;
    ++begins_;
  }

  /// Sets where to continue: a dict that state_dict() returned, or the bytes of a checkpoint of a program in C++.
  static void resume_from(python_options& options, const py::object& state) {
    if (py::isinstance<py::bytes>(state)) {
      options.run.resume = checkpoint_of(state);
      options.passes = 0;
      options.resumes_at_end = false;
      options.resumed_values = py::none(); // such a program knows nothing of them
      options.reached_epoch.reset();
      return;
    }
    if (!py::isinstance<py::dict>(state))
      throw py::type_error("a state is the dict that state_dict() returned, or the bytes of a checkpoint");
    const py::dict d(state);
    const auto part = [&](const char* key) { return d.contains(key) ? py::object(d[key]) : py::none(); };
    const py::object bytes = part("feedline");
    py::detail::make_caster<std::uint32_t> passes;
    if (!py::isinstance<py::bytes>(bytes) || !passes.load(part("passes"), false))
      throw py::value_error("this dict isn't one that state_dict() of a feedline loader returned");
    options.run.resume = checkpoint_of(bytes);
    options.passes = passes;
    options.resumes_at_end = part("ended").is(py::bool_(true));
    py::detail::make_caster<std::uint32_t> epoch;
    options.reached_epoch =
        epoch.load(part("epoch"), false) ? std::optional<std::uint32_t>(epoch) : std::nullopt;
    options.resumed_values = part("options");
  }

  /// Sets the values of the parameters that decide what an item is. Refuses a state that was taken with others.
  void set_values(py::dict values) {
    values_ = std::move(values);
    check_values(options_);
  }

  /// The epoch of the last item; before the first, that of the item behind which the pass goes on, or of its beginning.
  std::uint32_t epoch() {
    const inside here(*this);
    return epoch_now();
  }

  std::size_t size() {
    check_process();
    std::optional<std::uint64_t> count;
    if (!options_.infinite) {
      std::stop_source stopping;
      finite_options o = options_.run;
      o.stop = stopping.get_token();
      work(stopping, [&] { count = items_in_epoch(o); });
    }
    if (!count)
      throw py::type_error(
          "this loader has no length: its data or a stage decides how many batches there are");
    return static_cast<std::size_t>(*count * options_.run.epochs);
  }

  py::list failures_so_far() {
    const inside here(*this);
    py::list all;
    const std::shared_ptr<const run_handle> run = this->run();
    for (const failure& f : ended_ ? ended_->failures : run->failures()) all.append(as_python(f));
    return all;
  }

  std::string summary() const {
    return std::string(options_.infinite ? "infinite" : "finite") + ", " + to_string(options_.run.rank) +
           (has_begun_ ? ", in pass " + std::to_string(options_.passes) : ", not begun");
  }

  /// Of the current run, or of the last one. Any thread may call it at any time.
  feedline::metrics metrics() {
    check_process();
    return ended_ ? ended_->metrics : metrics_so_far();
  }

  /// The same of what the loader waits for.
  std::string waiting_for() const {
    check_process();
    if (ended_) return "nothing: the run has ended";
    return of_run<std::string>([](run_handle& run) { return run.waiting_for(); });
  }

  /// Before a start that of the run to come.
  memory_plan memory() const {
    check_process();
    if (has_begun_ && !ended_) return run()->memory();
    finite_options o = options_.run;
    o.resume.reset();
    const py::gil_scoped_release unlocked; // callbacks in `o` take it when they go
    return memory_of(std::move(o));
  }

  /// Makes an observer of the current run and of those to come, as long as it exists.
  template <class Observer, class Options>
  std::shared_ptr<Observer> observed(const Options& options) {
    const inside here(*this);
    auto made = std::make_shared<Observer>(options);
    if (has_begun_ && !ended_ && is_running()) made->started(*run());
    std::erase_if(observers_, [](const auto& observer) { return observer.expired(); });
    observers_.push_back(made);
    return made;
  }

  /// For Python's garbage collector: visits the functions of Python's that the loader refers to.
  int traverse(visitproc visit, void* arg) const {
    for (const auto& function : options_.functions) Py_VISIT(function->ptr());
    return 0;
  }

  /// Ends the run when nothing can reach the loader, before the objects that its functions refer to are cleared.
  void finalize() {
    if (pid_ != ::getpid() || !has_begun_ || ended_) return;
    try {
      stop();
      abandon();
    } catch (...) { // nobody is left to hear of it
    }
  }

  /// Drops those functions.
  void clear() {
    is_cleared_ = true;
    for (const auto& function : options_.functions) *function = py::none();
  }

  /// Ends the runs of all loaders, also those in which another thread waits: no thread may outlive the interpreter. None can
  /// start after it.
  static void close_all() {
    is_over_ = true;
    std::vector<std::shared_ptr<python_loader>> loaders; // which other threads may drop
    for (python_loader* const loader : all())
      if (loader->pid_ == ::getpid()) loaders.push_back(loader->weak_from_this().lock());
    for (const auto& loader : loaders) {
      if (!loader) continue;
      loader->stop();
      {
        const py::gil_scoped_release unlocked;
        while (loader->is_inside_.exchange(true)) loader->is_inside_.wait(true);
      }
      if (loader->has_begun_ && !loader->ended_) loader->abandon();
      else loader->end();
      loader->is_inside_ = false;
      loader->is_inside_.notify_all();
    }
    // Another thread may be destroying one.
    const auto is_dying = [](const python_loader* loader) {
      return loader->pid_ == ::getpid() && loader->weak_from_this().expired();
    };
    for (;;) {
      const std::uint32_t before = gone();
      if (std::none_of(all().begin(), all().end(), is_dying)) return;
      const py::gil_scoped_release unlocked;
      gone().wait(before);
    }
  }

 protected:
  const python_options& options() const noexcept { return options_; }

  /// The epoch of the item that next_for() returns, if it knows it.
  void set_epoch(std::optional<std::uint32_t> epoch) noexcept { last_epoch_ = epoch; }

  void check_process() const {
    if (pid_ != ::getpid())
      throw std::runtime_error(
          "this loader belongs to the process that made it: its threads don't exist in a child of fork(). "
          "Make it in the child, and with PyTorch's DataLoader set num_workers=0: feedline has threads of "
          "its own");
  }

  // Does `f` in another thread, without Python's lock, so that this one can act on signals, such as Ctrl-C. If a handler
  // raises, requests the stop, and waits for the end of `f`.
  template <class F>
  static void work(std::stop_source& stopping, F f) {
    std::exception_ptr error;
    spsc_queue<bool> ended(1);
    std::thread worker([&] {
      try {
        f();
      } catch (...) {
        error = std::current_exception();
      }
      ended.close();
    });
    try {
      wait({}, [&](std::chrono::nanoseconds longest) {
        const py::gil_scoped_release unlocked;
        bool none = false;
        return ended.pop_for(none, longest) == queue_status::closed;
      });
    } catch (...) {
      const py::gil_scoped_release unlocked;
      stopping.request_stop();
      worker.join();
      throw;
    }
    {
      const py::gil_scoped_release unlocked; // a thread that has called Python needs its lock to end
      worker.join();
    }
    if (error) std::rethrow_exception(error);
  }

  virtual void make_run(const finite_options& o, std::stop_source& stopping) = 0;
  virtual void end() = 0;
  virtual std::shared_ptr<run_handle> run() const = 0; // never null
  virtual py::object next_for(std::chrono::nanoseconds longest, bool& is_over) = 0;
  virtual std::optional<std::uint64_t> items_in_epoch(const finite_options& o) const = 0;
  virtual memory_plan memory_of(const finite_options& o) const = 0;

 private:
  // One thread at a time.
  class inside {
   public:
    explicit inside(python_loader& of) : of_(of) {
      of_.check_process();
      if (of_.is_inside_.exchange(true))
        throw std::runtime_error(
            "another thread is inside this loader: call it from one thread, or hold a lock");
    }

    inside(inside&&) = delete;

    ~inside() {
      of_.is_inside_ = false;
      of_.is_inside_.notify_all();
    }

   private:
    python_loader& of_;
  };

  // True during its life.
  class marked {
   public:
    explicit marked(std::atomic<bool>& mark) : mark_(mark) { mark_ = true; }

    marked(marked&&) = delete;

    ~marked() { mark_ = false; }

   private:
    std::atomic<bool>& mark_;
  };

  // What is known of a run that close() has ended.
  struct ended_run {
    feedline::metrics metrics;
    std::vector<failure> failures;
    std::optional<checkpoint> position; // none: it can't be resumed
  };

  // An item that was ready when the run was closed, or the error in its place.
  struct ready_item {
    py::object item;
    std::exception_ptr error;
    std::optional<checkpoint> position; // behind it
    std::optional<std::uint32_t> epoch; // of its last sample
  };

  static checkpoint checkpoint_of(const py::object& bytes) {
    return checkpoint::from_bytes(std::as_bytes(std::span(bytes.cast<std::string_view>())));
  }

  static std::set<python_loader*>& all() { // guarded by the GIL
    static auto& loaders = *new std::set<python_loader*>();
    return loaders;
  }

  static std::atomic<std::uint32_t>& gone() { // loaders
    static std::atomic<std::uint32_t> count{0};
    return count;
  }

  // Calls f(longest) until it returns true, or until `timeout`, in seconds: then false. A signal also ends a wait in f, unless
  // it arrives just before the system call: therefore none is longer than `step`.
  template <class F>
  static bool wait(std::optional<double> timeout, F f) {
    using seconds = std::chrono::duration<double>;
    constexpr std::chrono::nanoseconds step = std::chrono::milliseconds(50);
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      std::chrono::nanoseconds longest = step;
      const seconds left = seconds(timeout.value_or(0)) - (std::chrono::steady_clock::now() - begin);
      if (timeout && left < step)
        longest = std::chrono::duration_cast<std::chrono::nanoseconds>(std::max(left, seconds(0)));
      if (f(longest)) return true;
      if (timeout && left <= seconds(0)) return false;
    }
  }

  // The passes after a resumed one go on with its seed and epochs.
  void note_resumed() {
    const std::optional<checkpoint>& state = options_.run.resume;
    if (!state) return;
    const std::uint64_t before = std::uint64_t{options_.passes} * options_.run.epochs;
    const auto first = state->state().run.first_epoch;
    resumed_seed_ = state->seed();
    resumed_epoch_ =
        first && *first >= before ? std::optional(static_cast<std::uint32_t>(*first - before)) : std::nullopt;
  }

  // The epoch with which a pass begins.
  std::uint64_t first_epoch_of(std::uint64_t pass) const {
    return options_.infinite
               ? 0
               : options_.run.first_epoch.value_or(resumed_epoch_.value_or(0)) + pass * options_.run.epochs;
  }

  // That of epoch() before the pass to come has begun.
  std::uint32_t epoch_before_start() {
    note_resumed();
    const std::uint64_t first = first_epoch_of(options_.passes + (options_.resumes_at_end ? 1 : 0));
    const bool resumes = options_.run.resume && !options_.resumes_at_end;
    if (resumes && options_.reached_epoch) return *options_.reached_epoch;
    return static_cast<std::uint32_t>(resumes ? epoch_of(options_.run.resume->state().at, first) : first);
  }

  std::uint32_t epoch_now() {
    if (!has_begun_) return epoch_before_start();
    if (!is_taken_from_) return begun_epoch_;
    if (last_epoch_) return *last_epoch_;
    const std::uint64_t first = first_epoch_of(options_.passes - 1), last = first + options_.run.epochs - 1;
    if (!options_.infinite && first == last) return static_cast<std::uint32_t>(first);
    const std::optional<checkpoint> at = ended_ ? ended_->position : position();
    if (!at) return begun_epoch_; // its items and its run know no more
    const std::uint64_t reached = epoch_of(at->state().at, first);
    return static_cast<std::uint32_t>(options_.infinite ? reached : std::min(reached, last));
  }

  void check_values(const python_options& options) const {
    if (options.allow_other_options || !py::isinstance<py::dict>(options.resumed_values)) return;
    const py::dict earlier(options.resumed_values);
    for (const auto& [name, value] : values_)
      if (earlier.contains(name) && !value.equal(comparable(earlier[name])))
        throw py::value_error("the state is that of a loader with " + py::str(name).cast<std::string>() +
                              "=" + py::repr(earlier[name]).cast<std::string>() + ", here it is " +
                              py::repr(value).cast<std::string>() +
                              ": allow_other_options=True resumes it nevertheless");
  }

  void start(const inside&) {
    if (is_over_ || is_cleared_) throw std::runtime_error("the interpreter is ending: no loader can start");
    const std::uint32_t begins_with = epoch_before_start();
    std::uint32_t pass = options_.passes;
    start_pass(pass, options_.run.resume);
    if (options_.resumes_at_end) start_pass(++pass, {}); // the run before it has checked the state
    ended_.reset();
    options_.run.resume.reset(); // not before: after a start that failed, the next one resumes
    options_.passes = pass + 1;
    options_.resumes_at_end = false;
    has_begun_ = true;
    is_taken_from_ = has_ended_ = ends_after_ready_ = false;
    last_epoch_.reset();
    begun_epoch_ = begins_with;
    for (const auto& each : std::vector(observers_)) {
      try {
        if (const auto observer = each.lock()) observer->started(*run());
      } catch (const std::exception& error) { // such as no thread: the pass goes on without it
        notify(options_.run.on_notice, std::string("a live view or recorder can't begin: ") + error.what());
      }
    }
  }

  void start_pass(std::uint32_t pass, const std::optional<checkpoint>& resume) {
    finite_options o = options_.run;
    o.resume = resume;
    if (!o.seed) o.seed = resumed_seed_;
    if (!o.first_epoch) o.first_epoch = resumed_epoch_;
    // A further pass goes on with the epochs.
    if (pass > 0 && !options_.infinite) {
      const std::uint64_t first = o.first_epoch.value_or(0) + std::uint64_t{pass} * std::uint64_t{o.epochs};
      o.first_epoch = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(first, std::numeric_limits<std::uint32_t>::max())); // which a run refuses
    }
    stopping_ = std::stop_source();
    o.stop = stopping_.get_token();
    make_run(o, stopping_);
  }

  bool is_running() const { return run()->state() == run_state::running; }

  std::optional<checkpoint> position() const {
    const std::shared_ptr<const run_handle> run = this->run();
    try {
      const py::gil_scoped_release unlocked; // it may read files
      if (run->can_be_resumed()) return run->checkpoint();
    } catch (const std::exception&) { // without its data the run has no identity
    }
    return std::nullopt;
  }

  template <class Result, class F>
  Result of_run(F f) const {
    std::shared_ptr<run_handle> run = this->run(); // another thread may end the pass meanwhile
    const py::gil_scoped_release unlocked;
    Result result = f(*run);
    run.reset(); // without Python's lock, if it is the last
    return result;
  }

  feedline::metrics metrics_so_far() const {
    return of_run<feedline::metrics>([](run_handle& run) { return run.metrics(); });
  }

  // Ends the run and keeps what is known of it.
  void finish(const inside&) {
    if (has_begun_ && !ended_) ended_ = ended_run{metrics_so_far(), run()->failures(), position()};
    end();
  }

  // The same for a pass that is broken off: nobody asks for its position.
  void abandon() {
    ended_ = ended_run{metrics_so_far(), run()->failures(), std::nullopt};
    end();
  }

  // Takes what is ready, not more than fits into the last queue, which may be filled meanwhile; then ends the run.
  void keep_ready(const inside& here) {
    is_draining_ = false;
    const std::optional<checkpoint> delivered = ended_ ? ended_->position : position();
    const std::optional<std::uint32_t> epoch = last_epoch_;
    if (is_running()) {
      const interval_metrics now = metrics_so_far().total;
      const std::size_t most = now.queues.empty() ? 1 : static_cast<std::size_t>(now.queues.back().capacity);
      try {
        for (bool is_over = false; ready_.size() < most;) {
          py::object item = next_for(std::chrono::nanoseconds(0), is_over);
          if (!item) break;
          ready_.push_back({std::move(item), nullptr, position(), last_epoch_});
        }
        ends_after_ready_ = run()->state() == run_state::finished;
      } catch (...) {
        ready_.push_back({py::object(), std::current_exception(), position(), last_epoch_});
      }
    }
    finish(here);
    if (ended_) ended_->position = delivered;
    last_epoch_ = epoch;
  }

  void drop_ready() {
    ready_.clear();
    ends_after_ready_ = false;
  }

  py::object next_ready() {
    if (stopping_.stop_requested()) {
      drop_ready();
      throw py::stop_iteration();
    }
    const ready_item next = std::move(ready_.front());
    ready_.pop_front();
    ended_->position = next.position;
    last_epoch_ = next.epoch;
    if (next.error) std::rethrow_exception(next.error);
    return next.item;
  }

  inline static bool is_over_ = false; // the interpreter is ending

  python_options options_;
  py::dict values_;                            // of the parameters that decide what an item is
  std::uint32_t begun_epoch_ = 0;              // with which the current pass began
  std::optional<std::uint32_t> last_epoch_;    // of the last item, if it knows it
  std::optional<std::uint64_t> resumed_seed_;  // of the last state
  std::optional<std::uint32_t> resumed_epoch_; // its first one
  std::stop_source stopping_;                  // of the current run
  std::vector<std::weak_ptr<run_observer>> observers_;
  std::uint64_t begins_ = 0; // counts begin() and loaded states
  bool has_begun_ = false;
  bool is_cleared_ = false;        // by the garbage collector
  bool is_taken_from_ = false;     // the current pass has yielded an item,
  bool has_ended_ = false;         // or its end,
  bool ends_after_ready_ = false;  // or will when `ready_` is empty
  std::optional<ended_run> ended_; // none: its run goes on, or ended by itself
  std::deque<ready_item> ready_;   // of a run that drain() has ended
  std::atomic<bool> is_inside_{false};
  std::atomic<bool> is_waiting_{false};  // the thread inside has found nothing ready
  std::atomic<bool> is_draining_{false}; // drain() was called
  const ::pid_t pid_ = ::getpid();
};

/// The items of one pass, for one `for`.
class [[gnu::visibility("hidden")]] pass_iterator {
 public:
  pass_iterator(py::object owner, python_loader& loader)
      : owner_(std::move(owner)), loader_(&loader), pass_(loader.begin()) {}

  py::object next() {
    if (loader_ == nullptr) throw py::stop_iteration();
    try {
      return loader_->next({}, pass_);
    } catch (const py::stop_iteration&) {
      loader_ = nullptr; // also when another pass has begun
      throw;
    }
  }

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(owner_.ptr());
    return 0;
  }

  void clear() {
    loader_ = nullptr;
    owner_ = py::none();
  }

 private:
  py::object owner_;      // keeps the loader alive
  python_loader* loader_; // null after the end
  std::uint64_t pass_;
};

template <class Item>
class [[gnu::visibility("hidden")]] bound_loader : public python_loader {
 public:
  static constexpr bool shows_epoch = may_show_epoch<Item>;

  bound_loader(any_pipeline<Item> pipeline, python_options options)
      : python_loader(std::move(options)), pipeline_(std::move(pipeline)) {}

  ~bound_loader() override {
    end();
    const py::gil_scoped_release unlocked; // threads of its source may need Python's lock before they end
    const auto gone = std::move(pipeline_);
  }

 private:
  void make_run(const finite_options& o, std::stop_source& stopping) override {
    std::shared_ptr<any_loader<Item>> run;
    try {
      work(stopping, [&] {
        run = std::make_shared<any_loader<Item>>(options().infinite ? pipeline_.infinite(as_infinite(o))
                                                                    : pipeline_.finite(o));
      });
    } catch (...) {
      drop(run);
      throw;
    }
    replace(std::move(run));
  }

  void end() override { replace(std::make_shared<any_loader<Item>>()); }

  void replace(std::shared_ptr<any_loader<Item>> run) {
    run.swap(run_);
    drop(run);
  }

  static void drop(std::shared_ptr<any_loader<Item>>& run) {
    const py::gil_scoped_release unlocked; // its threads may need Python's lock before they end
    run.reset();
  }

  static infinite_options as_infinite(const finite_options& o) {
    return {.seed = o.seed,
            .stop = o.stop,
            .on_error = o.on_error,
            .failure_limit = o.failure_limit,
            .stage_failure_limits = o.stage_failure_limits,
            .on_failure = o.on_failure,
            .queue_capacity = o.queue_capacity,
            .memory_budget = o.memory_budget,
            .rank = o.rank,
            .resume = o.resume,
            .allow_grown_data = o.allow_grown_data,
            .on_notice = o.on_notice};
  }

  std::shared_ptr<run_handle> run() const override { return run_; }

  py::object next_for(std::chrono::nanoseconds longest, bool& is_over) override {
    auto next = [&] {
      const py::gil_scoped_release unlocked;
      return run_->next_for(longest);
    }();
    is_over = next.has_ended();
    if (!next) return {};
    set_epoch(last_epoch_of(*next));
    return as_python(*std::move(next), options().fields, options().epoch);
  }

  std::optional<std::uint64_t> items_in_epoch(const finite_options& o) const override {
    return pipeline_.size(o);
  }

  memory_plan memory_of(const finite_options& o) const override { return pipeline_.memory(as_infinite(o)); }

  any_pipeline<Item> pipeline_;
  std::shared_ptr<any_loader<Item>> run_ = std::make_shared<any_loader<Item>>(); // never null
};

} // namespace feedline::inline FEEDLINE_ABI::detail

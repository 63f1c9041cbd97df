// SPDX-License-Identifier: MIT
// Pipelines of Python functions. feedline/pipeline.py shows them to users; here is what it calls: a Composed pipeline, to which each of
// its functions appends a stage, and the Loader that runs one.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/object.hpp>
#include <feedline/python/telemetry.hpp>
#include <feedline/source/any_source.hpp>

#include "composed.hpp"
#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

using fl::python::lock;
using fl::python::object;

namespace {

/// NumPy's generator, as Python's type checkers see it.
struct generator : py::object {
  using object::object;
};

/// What a function receives as its second argument. All of it needs Python's lock.
class call_context {
 public:
  explicit call_context(fl::context& c)
      : index(c.index),
        epoch(c.epoch),
        repetition(c.repetition),
        stop(c.stop),
        random_(c.random),
        call_(&c) {}

  call_context(call_context&&) = delete;

  ~call_context() { end(); }

  /// Keyed by the seed, the stage and the sample.
  generator rng() {
    if (!rng_) {
      const py::module_ numpy = py::module_::import("numpy.random");
      const std::uint64_t low = random_(), high = random_();
      rng_ = numpy.attr("Generator")(numpy.attr("Philox")(py::arg("key") = py::make_tuple(low, high)));
    }
    return py::reinterpret_borrow<generator>(rng_);
  }

  /// Adds to a number that metrics() reports.
  void count(const std::string& name, std::uint64_t times) {
    if (call_) call_->count(name, times);
  }

  /// Calls a function when the run is stopped, at once if it is already; until the end of the call.
  void on_stop(py::function f) {
    if (call_)
      at_stop_.push_back(std::make_unique<std::stop_callback<call>>(stop, call{object(std::move(f))}));
  }

  /// After the call: the function may have kept it.
  void end() {
    call_ = nullptr;
    auto ended = std::exchange(at_stop_, {});
    if (ended.empty()) return;
    const py::gil_scoped_release
        unlocked; // another thread may be in such a function, or wait for the lock to call it
    ended.clear();
  }

  const std::uint64_t index;
  const std::uint32_t epoch, repetition;
  const std::stop_token stop;

 private:
  struct call {
    void operator()() const {
      const lock held;
      try {
        f.get()();
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a call at a stop");
      }
    }

    object f; // any thread may drop it
  };

  fl::random_generator random_;
  fl::context* call_; // null after the call
  py::object rng_;
  std::vector<std::unique_ptr<std::stop_callback<call>>> at_stop_;
};

/// A traceback keeps the lines, but not the local variables: those of up to a thousand failed calls may be large.
void drop_variables(const py::error_already_set& error) {
  if (!error.trace()) return;
  try {
    py::module_::import("traceback").attr("clear_frames")(error.trace());
  } catch (const py::error_already_set&) {
  }
}

/// Throws the Python exception that was raised.
[[noreturn]] void throw_raised() {
  py::error_already_set error;
  drop_variables(error);
  throw error;
}

/// What a Python function returns for these arguments.
template <class... Arguments>
py::object called(PyObject* f, const Arguments&... arguments) {
  PyObject* const made = PyObject_CallFunctionObjArgs(f, arguments.ptr()..., nullptr);
  if (!made) throw_raised();
  return py::reinterpret_steal<py::object>(made);
}

/// As an item of a pipeline.
object item_of(py::object made) {
  if (made.is_none())
    throw py::type_error("the function returned None: to leave out items, use filter or flat_map");
  return object(std::move(made));
}

/// The next item of a Python iterator; nothing at its end.
std::optional<object> next_of(const py::object& iterator) {
  auto made = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()));
  if (made) return object(std::move(made));
  if (PyErr_Occurred()) throw_raised();
  return std::nullopt;
}

using maybe_bytes = std::optional<std::int64_t>;

/// The most bytes that an item takes, for a memory_budget; 0: unknown.
class item_limit {
 public:
  item_limit() = default;

  explicit item_limit(const maybe_bytes& bytes, const char* option = "max_item_bytes")
      : bytes_(bytes ? checked(option, *bytes, std::int64_t{1} << 50) : 0), option_(option) {}

  explicit operator bool() const noexcept { return bytes_ != 0; }

  /// The most bytes of a T whose contents keep to the limit; nothing if there is no limit.
  template <class T>
  std::optional<std::size_t> bytes_with() const {
    return bytes_ == 0 ? std::nullopt : std::optional(bytes_ + sizeof(T));
  }

  /// Throws std::length_error if something takes more.
  void check_bytes(std::size_t taken) const {
    if (bytes_ != 0 && taken > bytes_)
      throw std::length_error("the item takes at least " + std::to_string(taken) + " bytes, more than " +
                              option_ + ", " + std::to_string(bytes_));
  }

  /// The same for an item with all that it holds. Needs the lock.
  void check_item(const object& item) const {
    if (bytes_ == 0) return;
    const py::object bytes_of = py::module_::import("feedline._collate").attr("bytes_of");
    check_bytes(bytes_of(item.get(), bytes_).cast<std::size_t>());
  }

 private:
  std::size_t bytes_ = 0;
  const char* option_ = "";
};

/// A Python function. The pipeline, and each loader of it, keep it alive.
class function {
 public:
  /// `with_context`: it takes a second argument.
  function(const py::object& f, bool with_context) : f_(f.ptr()), with_context_(with_context) {}

  /// Several small items pass in one turn of the lock.
  lock hold_row() const { return lock(); }

  /// Needs the lock.
  py::object operator()(py::object item, fl::context& c) const {
    const auto context = context_of(c);

    struct ending {
      call_context* of;

      ~ending() {
        if (of) of->end();
      }
    } const end{context.get()};

    return call(std::move(item), context);
  }

 protected:
  std::shared_ptr<call_context> context_of(fl::context& c) const {
    return with_context_ ? std::make_shared<call_context>(c) : nullptr;
  }

  py::object call(py::object item, const std::shared_ptr<call_context>& context) const {
    return context ? called(f_, item, py::cast(context)) : called(f_, item);
  }

 private:
  PyObject* f_;
  bool with_context_;
};

/// The call of a function that ends elsewhere, in an event loop or an executor of Python's, while a worker waits without Python's lock.
class pending_call {
 public:
  /// Its future, or task, is done. Needs the lock, as on_stop().
  void settle(const py::object& future) {
    object result;
    std::exception_ptr error;
    try {
      result = item_of(future.attr("result")());
    } catch (const py::error_already_set& raised) {
      drop_variables(raised);
      error = std::current_exception();
    } catch (...) {
      error = std::current_exception();
    }
    std::optional<object> dropped; // with the lock
    {
      const std::lock_guard own(mutex_);
      dropped.swap(at_stop_);
      result_ = std::move(result);
      error_ = std::move(error);
      is_settled_ = true;
    }
    changed_.notify_one();
  }

  /// Calls a function if the run is stopped before the call is settled, at once if it is already.
  void on_stop(py::object f) {
    std::optional<object> call(object(std::move(f)));
    {
      const std::lock_guard own(mutex_);
      if (is_settled_) return;
      if (!is_stopped_) at_stop_.swap(call);
    }
    if (call) call->get()();
  }

  /// Without the lock.
  object wait(const std::stop_token& stop) {
    std::optional<object> call;
    {
      std::unique_lock own(mutex_);
      if (changed_.wait(own, stop, [this] { return is_settled_; })) {
        if (error_) std::rethrow_exception(error_);
        return std::move(result_);
      }
      is_stopped_ = true;
      at_stop_.swap(call);
    }
    if (call) {
      const lock held;
      call->get()();
    }
    throw std::runtime_error("the run was stopped");
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_settled_ = false, is_stopped_ = false;
  object result_;
  std::exception_ptr error_;
  std::optional<object> at_stop_;
};

/// A Python function that begins a call: `begin(item, context, pending_call)`, without a context None.
class deferred final : public native_function {
 public:
  deferred(py::object begin, bool with_context) : begin_(std::move(begin)), with_context_(with_context) {}

  const char* name() const noexcept override { return "deferred"; }

  bool sees_python() const noexcept override { return true; }

  object call(object&& item, fl::context& c) const override {
    struct started {
      ~started() {
        if (!context) return;
        const lock held;
        context->end();
        context.reset();
      }

      std::shared_ptr<call_context> context;
    } own;

    const auto pending = std::make_shared<pending_call>();
    std::vector<std::uint32_t> epochs = std::move(item.epochs);
    {
      const lock held;
      const object begun = std::move(item); // dropped with the lock
      if (with_context_) own.context = std::make_shared<call_context>(c);
      called(begin_.get().ptr(), begun.get(), py::cast(own.context), py::cast(pending));
    }
    object made = pending->wait(c.stop);
    made.epochs = std::move(epochs);
    return made;
  }

  // For Python's garbage collector.

  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(begin_.get().ptr());
    return 0;
  }

  void clear() { begin_ = object(); }

 private:
  object begin_; // any thread may drop it
  bool with_context_;
};

/// A function that makes one item of one: of Python's, or of C++.
class item_function : public function {
 public:
  item_function(const py::object& f, bool with_context, item_limit limit)
      : function(f, with_context), limit_(limit) {
    if (py::isinstance<native_function>(f)) native_ = f.cast<std::shared_ptr<native_function>>();
  }

  /// Whether items become Python's for it.
  bool sees_python() const noexcept { return !native_ || native_->sees_python(); }

  bool is_native() const noexcept { return native_ != nullptr; }

  const item_limit& limit() const noexcept { return limit_; }

  object operator()(object&& item, fl::context& c) const {
    if (native_) {
      object made = native_->call(std::move(item), c);
      if (limit_) {
        const lock held;
        limit_.check_item(made);
      }
      return made;
    }
    const lock held;
    object made = item_of(function::operator()(item.get(), c));
    limit_.check_item(made);
    made.epochs = std::move(item.epochs);
    return made;
  }

 private:
  std::shared_ptr<const native_function> native_;
  item_limit limit_;
};

/// What map() calls: one function, or the functions of each part of concat(), mix() or zip() for its samples.
class item_functions {
 public:
  enum class kind { one, of_parts, of_tuples };

  /// `grow`: the bytes that the items of each part have once Python has them.
  item_functions(std::vector<std::vector<item_function>> of, kind k, std::vector<composed::growth> grow)
      : of_(std::move(of)),
        kind_(k),
        grow_(std::move(grow)),
        are_python_(std::ranges::none_of(of_, [](const auto& functions) {
          return std::ranges::any_of(functions, &item_function::is_native);
        })) {}

  /// Several small items pass in one turn of the lock, if all functions need it.
  std::optional<lock> hold_row() const {
    if (are_python_) return std::optional<lock>(std::in_place);
    return std::optional<lock>();
  }

  object operator()(object&& item, fl::context& c) const {
    if (kind_ == kind::one) return of_[0][0](std::move(item), c);
    if (kind_ == kind::of_parts) return made(std::move(item), of_.at(c.index >> 56), c);
    auto* const items = item.value_if<std::vector<object>>();
    if (!items) throw std::logic_error("an item of zip() isn't one");
    for (std::size_t i = 0; i < items->size(); ++i) (*items)[i] = made(std::move((*items)[i]), of_.at(i), c);
    return std::move(item);
  }

  std::optional<std::size_t> bytes_given(std::optional<std::size_t> in) const {
    std::size_t all = 0;
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const std::vector<item_function>& functions = of_[i];
      const composed::growth grow = i < grow_.size() ? grow_[i] : &composed::same;
      const auto as_python = in ? grow(*in) : std::nullopt;
      if (!as_python && (functions.empty() || functions.front().sees_python())) return std::nullopt;
      std::size_t of_part = functions.empty() ? *as_python : 0;
      for (const item_function& f : functions) {
        const auto made = f.limit().bytes_with<object>();
        if (!made) return std::nullopt;
        of_part = std::max(of_part, *made);
      }
      all = kind_ == kind::of_tuples ? all + of_part : std::max(all, of_part);
    }
    return all;
  }

 private:
  // Each function gets random numbers of its own.
  static object made(object item, const std::vector<item_function>& functions, fl::context& c) {
    for (const item_function& f : functions) {
      fl::random_generator own(c.random());
      std::swap(own, c.random);
      item = f(std::move(item), c);
      std::swap(own, c.random);
    }
    return item;
  }

  std::vector<std::vector<item_function>> of_;
  kind kind_;
  std::vector<composed::growth> grow_;
  bool are_python_;
};

class kept : public function {
 public:
  /// `grow`: the bytes of an item once Python has it, of those that it had before; nothing if they are unknown.
  kept(const py::object& f, bool with_context, composed::growth grow)
      : function(f, with_context), grow_(grow) {}

  bool operator()(const object& item, fl::context& c) const {
    const lock held;
    const int answer = PyObject_IsTrue(function::operator()(item.get(), c).ptr());
    if (answer < 0) throw_raised();
    return answer != 0;
  }

  std::optional<std::size_t> bytes_given(std::optional<std::size_t> in) const {
    return in ? grow_(*in) : std::nullopt;
  }

 private:
  composed::growth grow_;
};

/// The items of a Python iterator, one by one, which may use the context of the call that made it.
class items_of {
 public:
  items_of(py::object from, std::shared_ptr<call_context> context, item_limit limit)
      : iterator_(std::move(from)), context_(std::move(context)), limit_(limit) {}

  items_of(items_of&&) = default;

  ~items_of() {
    const lock held;
    if (context_) context_->end();
    context_.reset();
  }

  class iterator {
   public:
    explicit iterator(items_of* of) : of_(of) { of_->advance(); }

    object operator*() const { return std::move(of_->next_); }

    iterator& operator++() {
      of_->advance();
      return *this;
    }

    bool operator!=(std::nullptr_t) const { return of_->has_next_; }

   private:
    items_of* of_;
  };

  iterator begin() { return iterator(this); }

  std::nullptr_t end() const { return nullptr; }

 private:
  void advance() {
    const lock held;
    auto next = next_of(iterator_.get());
    has_next_ = next.has_value();
    if (!next) return;
    limit_.check_item(*next);
    next_ = std::move(*next);
  }

  object iterator_, next_;
  std::shared_ptr<call_context> context_; // null: the function takes none
  item_limit limit_;
  bool has_next_ = false;
};

class expanded : public function {
 public:
  expanded(const py::object& f, bool with_context, composed::growth grow, item_limit limit)
      : function(f, with_context), grow_(grow), limit_(limit) {}

  items_of operator()(object& item, fl::context& c) const {
    const lock held;
    auto context = context_of(c);
    py::object made = call(item.get(), context);
    return {py::iter(made), std::move(context), limit_};
  }

  std::optional<std::size_t> bytes_given(std::optional<std::size_t> in) const {
    return in && grow_(*in) ? limit_.bytes_with<object>() : std::nullopt;
  }

 private:
  composed::growth grow_;
  item_limit limit_;
};

struct length : function {
  using function::function;

  std::size_t operator()(const object& item, fl::context& c) const {
    const lock held;
    return function::operator()(item.get(), c).cast<std::size_t>();
  }
};

/// Makes one object of the samples of a batch: `collate(list)`.
class collated : public function {
 public:
  /// `grow`: the bytes of the items once Python has them. `adds_up`: a batch takes no more than they do.
  collated(const py::object& collate, composed::growth grow, bool adds_up, item_limit limit)
      : function(collate, false), grow_(grow), adds_up_(adds_up), limit_(limit) {}

  object operator()(fl::batch_of<object, fl::as_list_t>&& batch, fl::context& c) const {
    const lock held;
    py::list samples(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) samples[i] = batch.values()[i].get();
    batch.values().clear();
    object made(function::operator()(std::move(samples), c));
    limit_.check_item(made);
    for (const fl::sample_id& id : batch.ids()) made.epochs.push_back(id.epoch);
    return made;
  }

  std::optional<std::size_t> bytes_given(std::optional<std::size_t> of_items) const {
    const auto as_python = of_items ? grow_(*of_items) : std::nullopt;
    return limit_ && as_python ? limit_.bytes_with<object>() : adds_up_ ? as_python : std::nullopt;
  }

 private:
  composed::growth grow_;
  bool adds_up_;
  item_limit limit_;
};

/// A source that knows how many samples it has.
template <class Source>
class counted : public Source {
 public:
  counted(Source source, std::function<std::uint64_t()> size)
      : Source(std::move(source)), size_(std::move(size)) {}

  std::uint64_t size() const { return size_(); }

 private:
  std::function<std::uint64_t()> size_;
};

using part = fl::any_source<object>;

/// A source that is only read in order.
composed only_in_order(const part& source, const std::function<std::uint64_t()>& size) {
  composed all(composed::pipeline(fl::from(counted(source, size))));
  all.part = source;
  all.size = size;
  return all;
}

template <class F>
composed with_workers(const composed& p, const std::vector<py::object>& called, std::int64_t workers,
                      bool ordered, const std::string& name, F stage) {
  const fl::workers count{checked("workers", workers, fl::workers::limit)};
  return p
      .then(ordered ? p.stages.append(stage(fl::name{name}, count))
                    : p.stages.append(stage(fl::name{name}, count, fl::unordered)),
            called)
      .with_growth(&composed::same);
}

// SOURCES

py::object path_or_line(std::string& text) { return fl::python::text_of(text); }

py::object bytes_of(std::vector<std::byte>& bytes) {
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

py::object number_of(std::uint64_t& n) { return py::int_(n); }

py::object members_of(fl::tar_sample& sample) { return dict_of(sample); }

template <class T, class Source>
composed by_position(const Source& source, py::object (*convert)(T&)) {
  return composed(fl::python::objects_of(source, convert));
}

composed files(const std::string& directory, const fl::file_patterns& patterns) {
  return by_position(fl::files(directory, patterns), &path_or_line).with_growth(&composed::of_text);
}

composed records(const fl::file_patterns& files, std::int64_t size) {
  return by_position(fl::records(files, checked("size", size, std::int64_t{1} << 40)), &bytes_of);
}

composed range(std::uint64_t size) {
  return by_position(fl::from(std::views::iota(std::uint64_t{0}, size)), &number_of);
}

composed lines(const fl::file_patterns& files, bool shuffle, const maybe_bytes& max_line_bytes) {
  const std::size_t limit =
      max_line_bytes ? checked("max_line_bytes", *max_line_bytes, std::int64_t{1} << 50) : 0;
  return in_order(fl::indexed_lines(files, {.max_line_bytes = limit}).source(), shuffle, &path_or_line)
      .with_growth(&composed::of_text);
}

composed tar(const fl::file_patterns& shards, bool shuffle, bool keep_index) {
  return tar_samples(shards, {.keep_index = keep_index}, shuffle);
}

/// Any iterable of Python's; `make(epoch)` begins an epoch.
class iterable {
 public:
  static constexpr fl::source_traits traits{.kind = "iterable"};

  iterable(const py::object& make, item_limit limit, bool checks_limit)
      : make_(make.ptr()), limit_(limit), checks_limit_(checks_limit) {}

  void start_epoch(const fl::epoch& e) {
    const lock held;
    iterator_ = std::make_shared<const object>(py::iter(make_(e.number)));
  }

  std::optional<object> next() {
    const lock held;
    auto item = next_of(iterator_->get());
    if (item && checks_limit_) limit_.check_item(*item);
    return item;
  }

  std::optional<std::size_t> max_item_bytes() const { return limit_.bytes_with<object>(); }

 protected:
  py::handle make_; // which the pipeline keeps alive
  item_limit limit_;
  bool checks_limit_;
  std::shared_ptr<const object> iterator_;
};

/// One whose iterators have a state_dict().
class resumable_iterable : public iterable {
 public:
  using iterable::iterable;

  /// A pickle of it.
  void state(auto& archive) {
    std::string bytes = pickled();
    archive(bytes);
    loaded_ = std::move(bytes);
  }

  void resumed() {
    const lock held;
    const py::object state = py::module_::import("pickle").attr("loads")(py::bytes(loaded_));
    iterator_->get().attr("load_state_dict")(state);
  }

 private:
  std::string pickled() const {
    const lock held;
    return py::module_::import("pickle")
        .attr("dumps")(iterator_->get().attr("state_dict")())
        .cast<std::string>();
  }

  std::string loaded_;
};

composed iterate(const py::object& make, bool has_state, std::optional<std::uint64_t> size,
                 const maybe_bytes& max_item_bytes, bool checks_limit) {
  const item_limit limit(max_item_bytes);
  composed all = only_in_order(has_state ? part(resumable_iterable(make, limit, checks_limit))
                                         : part(iterable(make, limit, checks_limit)),
                               [size] {
                                 if (!size)
                                   throw py::type_error("this loader has no length: its iterable has none");
                                 return *size;
                               });
  all.functions.push_back(make);
  return all;
}

// SEVERAL SOURCES

std::vector<part> parts_of(const char* kind, const std::vector<composed>& pipelines) {
  std::vector<part> all;
  for (const composed& p : pipelines) {
    require(p.part.has_value(),
            std::string(kind) +
                "() takes sources, each followed by map() at most, and not a concat(), zip() or mix()");
    all.push_back(*p.part);
  }
  return all;
}

/// Those of all parts by position, if they have positions.
std::optional<std::vector<fl::python::object_source>> positions_of(const std::vector<composed>& pipelines) {
  std::vector<fl::python::object_source> all;
  for (const composed& p : pipelines) {
    if (!p.by_position) return std::nullopt;
    all.push_back(*p.by_position);
  }
  return all;
}

/// Only of the parts' sizes, as the run's threads may copy it without Python's lock.
template <class Count>
std::function<std::uint64_t()> size_of(const std::vector<composed>& pipelines, Count count) {
  std::vector<std::function<std::uint64_t()>> parts;
  for (const composed& p : pipelines) parts.push_back(p.size);
  return [parts, count] {
    std::vector<std::uint64_t> sizes;
    for (const auto& size : parts) sizes.push_back(size());
    return count(sizes);
  };
}

constexpr auto sum = [](const std::vector<std::uint64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
};
constexpr auto least = [](const std::vector<std::uint64_t>& sizes) { return std::ranges::min(sizes); };

/// What is known of all parts together: the functions, which the pipeline keeps alive, and how their items grow.
composed combined(composed all, const std::vector<composed>& pipelines) {
  for (const composed& p : pipelines) {
    all.functions.insert(all.functions.end(), p.functions.begin(), p.functions.end());
    if (all.as_python == &composed::same || p.as_python == &composed::unknown) all.as_python = p.as_python;
    all.parts_as_python.push_back(p.as_python);
  }
  return all;
}

py::object same(object& o) { return o.get(); }

composed concat(const std::vector<composed>& pipelines) {
  composed all = only_in_order(part(fl::concat(parts_of("concat", pipelines))), size_of(pipelines, sum));
  all.part.reset();
  if (const auto positions = positions_of(pipelines))
    all.by_position = fl::python::objects_of(fl::concat(*positions), &same);
  return combined(std::move(all), pipelines);
}

py::object tuple_of(std::vector<object>& items) {
  py::tuple all(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) all[i] = items[i].get();
  return all;
}

composed zip(const std::vector<composed>& pipelines) {
  const fl::python::to_object<std::vector<object>> to_tuple(&tuple_of);
  composed all =
      only_in_order(part(fl::zip(parts_of("zip", pipelines)), to_tuple), size_of(pipelines, least));
  all.part.reset();
  if (const auto positions = positions_of(pipelines))
    all.by_position = fl::python::objects_of(fl::zip(*positions), &tuple_of);
  return combined(std::move(all), pipelines);
}

composed mix(const std::vector<composed>& pipelines, const std::vector<double>& weights,
             const std::optional<std::string>& when_one_ends) {
  std::vector<decltype(fl::weighted(std::declval<part>(), 1))> all;
  for (std::size_t i = 0; const part& each : parts_of("mix", pipelines))
    all.push_back(fl::weighted(each, weights.at(i++)));
  fl::mix_options options;
  if (when_one_ends) {
    constexpr std::array names{"stop", "continue", "repeat"};
    const auto named = std::ranges::find(names, *when_one_ends);
    require(named != names.end(),
            "when_one_ends must be \"stop\", \"continue\" or \"repeat\", not \"" + *when_one_ends + "\"");
    options.when_one_ends = static_cast<fl::when_one_ends>(named - names.begin());
  }
  auto size = size_of(pipelines, sum);
  if (options.when_one_ends && *options.when_one_ends != fl::when_one_ends::continue_with_others)
    size = []() -> std::uint64_t {
      throw py::type_error("this loader has no length: its sources are mixed at random");
    };
  const auto mixed = fl::mix(all, options).source();
  return combined(composed(composed::pipeline(fl::from(counted(mixed, std::move(size))))), pipelines);
}

// STAGES

composed map(const composed& p, const py::object& f, bool with_context, std::int64_t workers, bool ordered,
             const std::string& name, const maybe_bytes& max_item_bytes) {
  const item_functions called({{item_function(f, with_context, item_limit(max_item_bytes))}},
                              item_functions::kind::one, {p.as_python});
  return with_workers(p, {f}, workers, ordered, name,
                      [&](auto... options) { return fl::map(called, options...); });
}

composed map_parts(const composed& p,
                   const std::vector<std::vector<std::tuple<py::object, bool, maybe_bytes>>>& functions,
                   bool zipped, std::int64_t workers, bool ordered, const std::string& name) {
  std::vector<std::vector<item_function>> all;
  std::vector<py::object> kept_alive;
  for (const auto& of_part : functions) {
    all.emplace_back();
    for (const auto& [f, with_context, max_item_bytes] : of_part) {
      all.back().emplace_back(f, with_context, item_limit(max_item_bytes));
      kept_alive.push_back(f);
    }
  }
  const item_functions called(std::move(all),
                              zipped ? item_functions::kind::of_tuples : item_functions::kind::of_parts,
                              p.parts_as_python);
  return with_workers(p, kept_alive, workers, ordered, name,
                      [&](auto... options) { return fl::map(called, options...); });
}

composed filter(const composed& p, const py::object& f, bool with_context, std::int64_t workers, bool ordered,
                const std::string& name) {
  const kept called(f, with_context, p.as_python);
  return with_workers(p, {f}, workers, ordered, name,
                      [&](auto... options) { return fl::filter(called, options...); });
}

composed flat_map(const composed& p, const py::object& f, bool with_context, std::int64_t workers,
                  bool ordered, const std::string& name, const maybe_bytes& max_item_bytes) {
  const expanded called(f, with_context, p.as_python, item_limit(max_item_bytes));
  return with_workers(p, {f}, workers, ordered, name,
                      [&](auto... options) { return fl::flat_map(called, options...); });
}

/// The position that a Python number stands for; a negative one counts from the end. Needs the lock, which it doesn't hold while the
/// source is listed.
std::uint64_t position_of(const fl::python::object_source& source, const py::object& number,
                          const std::stop_token& stop = {}) {
  const py::object index = py::module_::import("operator").attr("index")(number);
  std::int64_t size = 0;
  {
    const py::gil_scoped_release unlocked;
    size = static_cast<std::int64_t>(source.indexed(stop).size());
  }
  int overflow = 0;
  const std::int64_t position = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0 || position < -size || position >= size)
    throw py::index_error("there is no sample " + py::str(index).cast<std::string>() + ": the source has " +
                          std::to_string(size));
  return static_cast<std::uint64_t>(position < 0 ? position + size : position);
}

/// The sample at a position, and the number of the part that it comes from, of a concat.
py::tuple item_at(const composed& p, const py::object& number) {
  const auto& source = p.by_position.value();
  const std::uint64_t position = position_of(source, number);
  std::optional<object> sample;
  std::uint64_t index = 0;
  {
    const py::gil_scoped_release unlocked;
    const auto samples = source.indexed();
    sample = samples.at(position);
    index = samples.index_at(position);
  }
  return py::make_tuple(sample->get(), index >> 56);
}

std::uint64_t size_of_source(const composed& p) {
  const auto& source = p.by_position.value();
  const py::gil_scoped_release unlocked;
  return source.size();
}

/// Replaces positions by the samples there.
class read_at_positions final : public native_function {
 public:
  explicit read_at_positions(fl::python::object_source source) : source_(std::move(source)) {}

  const char* name() const noexcept override { return "at"; }

  object call(object&& item, fl::context& context) const override {
    std::uint64_t position = 0;
    {
      const lock held;
      position = position_of(source_, item.get(), context.stop);
    }
    return source_.indexed(context.stop).at(position, context.stop);
  }

 private:
  fl::python::object_source source_;
};

/// Leaves items as they are: with a limit it measures them.
class measure final : public native_function {
 public:
  const char* name() const noexcept override { return "measure"; }

  object call(object&& item, fl::context&) const override { return std::move(item); }
};

std::shared_ptr<native_function> reader(const composed& p) {
  return std::make_shared<read_at_positions>(p.by_position.value());
}

composed shuffle(const composed& p, std::int64_t buffer_size, std::int64_t min_size) {
  return p.then(p.stages.append(fl::shuffle(shuffle_of(buffer_size, min_size, 1, std::nullopt))));
}

/// Makes vectors of tokens, and refuses those above a limit of bytes.
class token_maker {
 public:
  explicit token_maker(item_limit limit) : limit_(limit) {}

  std::optional<std::size_t> bytes_given(std::optional<std::size_t>) const {
    return limit_.bytes_with<std::vector<std::int64_t>>();
  }

 protected:
  /// Numbers of a sequence, or a single one. Needs the lock.
  std::vector<std::int64_t> tokens_in(const py::object& tokens) const {
    const auto refuse = [&](const std::string& why) {
      throw py::type_error("windows are of whole numbers of 64 bits and sequences of them, not of " + why);
    };
    const py::array given = py::module_::import("numpy").attr("asarray")(tokens);
    const char kind = given.dtype().kind();
    if ((given.size() > 0 && kind != 'i' && kind != 'u') || given.ndim() > 1)
      refuse(py::repr(py::type::of(tokens)).cast<std::string>());
    if (kind == 'u' && given.itemsize() == 8 && given.size() > 0 &&
        given.attr("max")().cast<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
      refuse(py::repr(given.attr("max")()).cast<std::string>());
    limit_.check_bytes(sizeof(std::int64_t) * static_cast<std::size_t>(given.size()));
    const auto array = given.attr("astype")("int64").cast<py::array_t<std::int64_t, py::array::c_style>>();
    return {array.data(), array.data() + array.size()};
  }

 private:
  item_limit limit_;
};

struct tokens_of : token_maker {
  using token_maker::token_maker;

  std::vector<std::int64_t> operator()(const object& item) const {
    const lock held;
    return tokens_in(item.get());
  }
};

/// The tokens of a line of JSON: `tokenize(document[field])`, or with None the numbers of that field.
class document_tokens : public function, public token_maker {
 public:
  document_tokens(const py::object& tokenize, std::string field, item_limit limit)
      : function(tokenize, false),
        token_maker(limit),
        has_function_(!tokenize.is_none()),
        field_(std::move(field)) {}

  std::vector<std::int64_t> operator()(const object& line, fl::context& c) const {
    const lock held;
    if (py::len(line.get().attr("strip")()) == 0) return {}; // a blank line
    const py::object document = py::module_::import("json").attr("loads")(line.get());
    if (!py::isinstance<py::dict>(document) || !py::dict(document).contains(field_.c_str()))
      throw py::key_error("the line isn't an object of JSON with a field `" + field_ + "`");
    py::object value = document[field_.c_str()];
    if (!has_function_ && py::isinstance<py::str>(value))
      throw py::type_error("the field `" + field_ + "` is a text: give a function as tokenize");
    return tokens_in(has_function_ ? function::operator()(std::move(value), c) : value);
  }

 private:
  bool has_function_;
  std::string field_;
};

auto cut_windows(std::int64_t length, std::optional<std::int64_t> stride,
                 std::optional<std::int64_t> separator, bool drop_last) {
  constexpr std::int64_t most = 100'000'000;
  const fl::python::to_object<fl::tensor<std::int64_t>> to_array(
      +[](fl::tensor<std::int64_t>& window) { return fl::python::array_of(std::move(window)); });
  return fl::windows(checked("length", length, most),
                     {.stride = checked("stride", stride.value_or(length), most),
                      .separator = separator,
                      .drop_last = drop_last}) |
         fl::map(to_array, fl::name{"window"});
}

composed windows(const composed& p, std::int64_t length, std::optional<std::int64_t> stride,
                 std::optional<std::int64_t> separator, bool drop_last, const maybe_bytes& max_item_bytes) {
  return p
      .then(p.stages.append(fl::map(tokens_of(item_limit(max_item_bytes)), fl::name{"tokens"}) |
                            cut_windows(length, stride, separator, drop_last)))
      .with_growth(&composed::same);
}

composed take(const composed& p, std::uint64_t count) { return p.then(p.stages.append(fl::take(count))); }

composed prefetch(const composed& p, std::int64_t items) {
  return p.then(p.stages.append(fl::prefetch(checked("items", items, 1'000'000))));
}

/// `adds_up`: a batch takes no more than its items together.
auto collating(const composed& p, const py::object& collate, bool adds_up,
               const maybe_bytes& max_item_bytes) {
  return fl::map(collated(collate, p.as_python, adds_up, item_limit(max_item_bytes)), fl::name{"collate"});
}

composed batch(const composed& p, std::int64_t size, bool drop_last, const py::object& collate, bool adds_up,
               const maybe_bytes& max_item_bytes) {
  const auto batches =
      fl::batch(checked("batch_size", size, 1'000'000), fl::as_list, {.drop_last = drop_last});
  return p.then(p.stages.append(batches | collating(p, collate, adds_up, max_item_bytes)), {collate})
      .with_growth(&composed::same);
}

composed bucket_batch(const composed& p, const py::object& length_of, std::vector<std::size_t> boundaries,
                      std::size_t batch_size, std::size_t max_tokens, bool drop_last,
                      const py::object& collate, bool adds_up, const maybe_bytes& max_item_bytes) {
  const auto batches = fl::bucket_batch({.boundaries = std::move(boundaries),
                                         .batch_size = batch_size,
                                         .max_tokens = max_tokens,
                                         .drop_last = drop_last},
                                        fl::as_list, length(length_of, false));
  return p
      .then(p.stages.append(batches | collating(p, collate, adds_up, max_item_bytes)), {length_of, collate})
      .with_growth(&composed::same);
}

/// Calls a function of C++ outside of a run.
py::object call_once(const native_function& f, py::object item, std::uint64_t seed) {
  const std::stop_token never;
  fl::context context{
      .index = 0, .sub_index = 0, .epoch = 0, .random = fl::random_generator(seed), .stop = never};
  object given(std::move(item)), made;
  {
    const py::gil_scoped_release unlocked;
    made = f.call(std::move(given), context);
  }
  return made.get();
}

} // namespace

composed::composed(const fl::python::object_source& source)
    : stages(fl::from(source)), by_position(source), part(source), size([source] { return source.size(); }) {}

composed::composed(const file_source& source, std::function<std::uint64_t()> count,
                   const fl::python::object_source& samples)
    : stages(fl::from(counted(source, count))), by_position(samples), part(source), size(std::move(count)) {}

composed globally_shuffled(const composed& p) {
  const auto shuffled = fl::from(p.by_position.value()) | fl::global_shuffle();
  composed all = p.then(composed::pipeline(shuffled));
  if (p.part) all.part = part(shuffled);
  all.size = p.size;
  return all;
}

composed document_windows(const fl::file_patterns& files, const document_options& o) {
  const composed documents = lines(files, o.shuffle, o.max_line_bytes);
  const composed in_order = o.shuffle ? globally_shuffled(documents) : documents;
  const auto tokens =
      fl::map(document_tokens(o.tokenize, o.field, item_limit(o.max_line_bytes, "max_line_bytes")),
              fl::name{"tokenize"}, fl::workers{o.workers});
  return in_order.then(in_order.stages.append(tokens | cut_windows(o.length, o.stride, o.separator, true)),
                       {o.tokenize});
}

composed tar_samples(const fl::file_patterns& shards, const fl::tar_options& options, bool shuffle,
                     std::string uncounted) {
  return in_order(fl::tar_samples(shards, options), shuffle, &members_of, std::move(uncounted))
      .with_growth(&composed::unknown); // a view becomes a copy
}

template <>
struct pybind11::detail::handle_type_name<generator> {
  static constexpr auto name = const_name("numpy.random.Generator");
};

std::vector<std::byte> read_named_file(const std::string& name) {
  std::error_code error;
  if (name.find('\0') != name.npos || !std::filesystem::is_regular_file(name, error))
    throw std::runtime_error("`" + name + "` isn't a file");
  return fl::read_file(name);
}

py::dict dict_of(const fl::tar_sample& sample, std::string_view without) {
  py::dict all;
  all["__key__"] = fl::python::text_of(sample.key());
  for (const fl::tar_field& f : sample)
    all[fl::python::text_of(f.name)] =
        f.name == without ? py::object(py::none())
                          : py::bytes(reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size());
  return all;
}

void add_pipeline(py::module_& m) {
  py::class_<call_context, std::shared_ptr<call_context>>(
      m, "Context", "What a function of a pipeline receives as its second argument.")
      .def_readonly("index", &call_context::index, "The index of the sample: the same in each epoch.")
      .def_readonly("epoch", &call_context::epoch, "The number of the epoch.")
      .def_readonly("repetition", &call_context::repetition,
                    "Which time the epoch has this sample, from 0; 0 where it has each once.")
      .def_property_readonly(
          "rng", &call_context::rng,
          "A numpy.random.Generator keyed by the seed, the stage, the epoch and the sample.")
      .def_property_readonly(
          "stopped", [](const call_context& c) { return c.stop.stop_requested(); },
          "Whether the run was stopped: a long call should then return.")
      .def("count", &call_context::count, py::arg("name"), py::arg("times") = 1,
           "Adds to a number with that name, which metrics() reports.")
      .def("on_stop", &call_context::on_stop, py::arg("function"),
           "Calls a function when the run is stopped, if that happens during this call.");
  py::class_<native_function, std::shared_ptr<native_function>>(
      m, "NativeFunction", "A function of C++ for map(), which runs without Python's lock.")
      .def_property_readonly("name", &native_function::name)
      .def("of_member", &native_function::of_member)
      .def("__call__", &call_once, py::arg("item"), py::arg("seed") = 0, "Calls it outside of a pipeline.");
  py::class_<pending_call, std::shared_ptr<pending_call>>(
      m, "PendingCall", "A call that ends in an event loop or an executor, which settles it with its future.")
      .def("settle", &pending_call::settle)
      .def("on_stop", &pending_call::on_stop);
  py::class_<deferred, native_function, std::shared_ptr<deferred>>(m, "Deferred",
                                                                   fl::python::collected<deferred>())
      .def(py::init<py::object, bool>());
  py::class_<composed>(m, "Composed", fl::python::collected<composed>())
      .def("map", &map)
      .def("map_parts", &map_parts)
      .def("filter", &filter)
      .def("flat_map", &flat_map)
      .def("shuffle", &shuffle)
      .def("global_shuffle", &globally_shuffled)
      .def("take", &take)
      .def("windows", &windows)
      .def("prefetch", &prefetch)
      .def("batch", &batch)
      .def("bucket_batch", &bucket_batch)
      .def("has_positions", [](const composed& p) { return p.by_position.has_value(); })
      .def("item_at", &item_at)
      .def("size", &size_of_source)
      .def("reader", &reader);
  m.def("files", &files);
  m.def("records", &records);
  m.def("range", &range);
  m.def("lines", &lines);
  m.def("tar", &tar);
  m.def("iterate", &iterate);
  m.def("measure", []() -> std::shared_ptr<native_function> { return std::make_shared<measure>(); });
  m.def("concat", &concat);
  m.def("mix", &mix);
  m.def("zip", &zip);
  fl::python::bind_telemetry(m, fl::python::bind_loader(
                                    m, "Loader",
                                    [](const py::object& p) {
                                      const composed& all = p.cast<const composed&>();
                                      return fl::python::with_references<object>{all.stages, all.functions};
                                    },
                                    py::arg("pipeline"), "Runs a pipeline: an iterator over its items."));
}

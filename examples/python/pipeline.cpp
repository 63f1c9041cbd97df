// SPDX-License-Identifier: MIT
// Pipelines of Python functions. feedline/pipeline.py shows them to users; here is what it calls: a Composed pipeline, to which each of
// its functions appends a stage, and the Loader that runs one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <feedline/core/dynamic_pipeline.hpp>
#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/object.hpp>

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

/// Throws the Python exception that was raised. Its traceback keeps the lines, but not the local variables: those of up to a
/// thousand failed calls may be large.
[[noreturn]] void throw_raised() {
  py::error_already_set error;
  if (error.trace()) {
    try {
      py::module_::import("traceback").attr("clear_frames")(error.trace());
    } catch (const py::error_already_set&) {
    }
  }
  throw error;
}

/// The next item of a Python iterator; nothing at its end.
std::optional<object> next_of(const py::object& iterator) {
  auto made = py::reinterpret_steal<py::object>(PyIter_Next(iterator.ptr()));
  if (made) return object(std::move(made));
  if (PyErr_Occurred()) throw_raised();
  return std::nullopt;
}

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
    PyObject* const made =
        context ? PyObject_CallFunctionObjArgs(f_, item.ptr(), py::cast(context).ptr(), nullptr)
                : PyObject_CallFunctionObjArgs(f_, item.ptr(), nullptr);
    if (!made) throw_raised();
    return py::reinterpret_steal<py::object>(made);
  }

 private:
  PyObject* f_;
  bool with_context_;
};

struct mapped : function {
  using function::function;

  object operator()(object&& item, fl::context& c) const {
    const lock held;
    object made(function::operator()(item.get(), c));
    if (made.get().is_none())
      throw py::type_error("the function returned None: to leave out items, use filter or flat_map");
    made.epochs = std::move(item.epochs);
    return made;
  }
};

/// Calls a function of C++.
struct native_call {
  object operator()(object&& item, fl::context& c) const { return f->call(std::move(item), c); }

  std::shared_ptr<const native_function> f;
};

struct kept : function {
  using function::function;

  bool operator()(const object& item, fl::context& c) const {
    const lock held;
    const int answer = PyObject_IsTrue(function::operator()(item.get(), c).ptr());
    if (answer < 0) throw_raised();
    return answer != 0;
  }
};

/// The items of a Python iterator, one by one, which may use the context of the call that made it.
class items_of {
 public:
  items_of(py::object from, std::shared_ptr<call_context> context)
      : iterator_(std::move(from)), context_(std::move(context)) {}

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
    if (next) next_ = std::move(*next);
  }

  object iterator_, next_;
  std::shared_ptr<call_context> context_; // null: the function takes none
  bool has_next_ = false;
};

struct expanded : function {
  using function::function;

  items_of operator()(object& item, fl::context& c) const {
    const lock held;
    auto context = context_of(c);
    py::object made = call(item.get(), context);
    return {py::iter(made), std::move(context)};
  }
};

struct length : function {
  using function::function;

  std::size_t operator()(const object& item, fl::context& c) const {
    const lock held;
    return function::operator()(item.get(), c).cast<std::size_t>();
  }
};

/// Makes one object of the samples of a batch: `collate(list)`.
struct collated : function {
  using function::function;

  object operator()(fl::batch_of<object, fl::as_list_t>&& batch, fl::context& c) const {
    const lock held;
    py::list samples(batch.size());
    for (std::size_t i = 0; i < batch.size(); ++i) samples[i] = batch.values()[i].get();
    batch.values().clear();
    object made(function::operator()(std::move(samples), c));
    for (const fl::sample_id& id : batch.ids()) made.epochs.push_back(id.epoch);
    return made;
  }
};

using pipeline = fl::dynamic_pipeline<object>;

/// A pipeline, and the same in a random order of all its samples, as long as it is a source without stages that can be read by position.
struct composed {
  /// The pipeline that results from a stage, which calls these functions.
  composed then(pipeline result, const std::vector<py::object>& called = {}) const {
    composed longer{std::move(result), std::nullopt, functions};
    longer.functions.insert(longer.functions.end(), called.begin(), called.end());
    return longer;
  }

  template <class F>
  composed with_workers(const std::vector<py::object>& called, std::int64_t workers, bool ordered,
                        const std::string& name, F stage) const {
    const fl::workers count{checked("workers", workers, fl::workers::limit)};
    if (ordered) return then(stages.append(stage(fl::name{name}, count)), called);
    return then(stages.append(stage(fl::name{name}, count, fl::unordered)), called);
  }

  // For Python's garbage collector: a function often refers to an object that has the pipeline.

  int traverse(visitproc visit, void* arg) const {
    for (const py::object& f : functions) Py_VISIT(f.ptr());
    return 0;
  }

  void clear() { functions.clear(); }

  pipeline stages;
  std::optional<pipeline> shuffled{};
  std::vector<py::object> functions{}; // that it calls
};

// SOURCES

py::object path_or_line(std::string& text) { return fl::python::text_of(text); }

py::object bytes_of(std::vector<std::byte>& bytes) {
  return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

py::object number_of(std::uint64_t& n) { return py::int_(n); }

py::object members_of(fl::tar_sample& sample) { return members_of_sample(sample); }

template <class T, class Source>
composed by_position(const Source& source, py::object (*convert)(T&)) {
  const auto samples = fl::from(fl::python::objects_of(source, convert));
  return {pipeline(samples), pipeline(samples | fl::global_shuffle())};
}

composed files(const std::string& directory, const fl::file_patterns& patterns) {
  return by_position(fl::files(directory, patterns), &path_or_line);
}

composed records(const fl::file_patterns& files, std::int64_t size) {
  return by_position(fl::records(files, checked("size", size, std::int64_t{1} << 40)), &bytes_of);
}

composed range(std::uint64_t size) {
  return by_position(fl::from(std::views::iota(std::uint64_t{0}, size)), &number_of);
}

/// Samples in the order of their files, which have another order in each epoch if `shuffle`.
template <class T, class Source>
composed in_order(const Source& source, bool shuffle, py::object (*convert)(T&)) {
  const auto as_object = [convert](T&& sample) { return object(std::move(sample), convert); };
  return {pipeline(file_samples(source, !shuffle) | fl::map(as_object)),
          by_position(fl::from(source), convert).shuffled};
}

composed lines(const fl::file_patterns& files, bool shuffle) {
  return in_order(fl::indexed_lines(files).source(), shuffle, &path_or_line);
}

composed tar(const fl::file_patterns& shards, bool shuffle, bool keep_index) {
  return in_order(fl::tar_samples(shards, {.keep_index = keep_index}), shuffle, &members_of);
}

/// Any iterable of Python's; `make(epoch)` begins an epoch.
class iterable {
 public:
  static constexpr fl::source_traits traits{.kind = "iterable"};

  iterable(const py::object& make, std::optional<std::uint64_t> size) : make_(make.ptr()), size_(size) {}

  void start_epoch(const fl::epoch& e) {
    const lock held;
    iterator_ = std::make_shared<const object>(py::iter(make_(e.number)));
  }

  /// For len(loader), which raises TypeError if it isn't known.
  std::uint64_t size() const {
    if (!size_) throw py::type_error("this loader has no length: its iterable has none");
    return *size_;
  }

  std::optional<object> next() {
    const lock held;
    return next_of(iterator_->get());
  }

 protected:
  py::handle make_; // which the pipeline keeps alive
  std::optional<std::uint64_t> size_;
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

composed iterate(const py::object& make, bool has_state, std::optional<std::uint64_t> size) {
  const auto source = has_state ? pipeline(fl::from(resumable_iterable(make, size)))
                                : pipeline(fl::from(iterable(make, size)));
  return {source, std::nullopt, {make}};
}

// STAGES

composed map(const composed& p, const py::object& f, bool with_context, std::int64_t workers, bool ordered,
             const std::string& name) {
  if (py::isinstance<native_function>(f))
    return p.with_workers({}, workers, ordered, name,
                          [native = native_call{f.cast<std::shared_ptr<native_function>>()}](
                              auto... options) { return fl::map(native, options...); });
  return p.with_workers({f}, workers, ordered, name,
                        [&](auto... options) { return fl::map(mapped(f, with_context), options...); });
}

composed filter(const composed& p, const py::object& f, bool with_context, std::int64_t workers, bool ordered,
                const std::string& name) {
  return p.with_workers({f}, workers, ordered, name,
                        [&](auto... options) { return fl::filter(kept(f, with_context), options...); });
}

composed flat_map(const composed& p, const py::object& f, bool with_context, std::int64_t workers,
                  bool ordered, const std::string& name) {
  return p.with_workers({f}, workers, ordered, name,
                        [&](auto... options) { return fl::flat_map(expanded(f, with_context), options...); });
}

composed global_shuffle(const composed& p) {
  require(p.shuffled.has_value(), "global_shuffle() must follow a source that can be read by position: "
                                  "files, tar, lines, records or dataset");
  return p.then(*p.shuffled);
}

composed shuffle(const composed& p, std::int64_t buffer_size, std::int64_t min_size) {
  return p.then(p.stages.append(fl::shuffle(shuffle_of(buffer_size, min_size, 1, std::nullopt))));
}

composed take(const composed& p, std::uint64_t count) { return p.then(p.stages.append(fl::take(count))); }

composed prefetch(const composed& p, std::int64_t items) {
  return p.then(p.stages.append(fl::prefetch(checked("items", items, 1'000'000))));
}

auto collating(const py::object& collate) { return fl::map(collated(collate, false), fl::name{"collate"}); }

composed batch(const composed& p, std::int64_t size, bool drop_last, const py::object& collate) {
  const auto batches =
      fl::batch(checked("batch_size", size, 1'000'000), fl::as_list, {.drop_last = drop_last});
  return p.then(p.stages.append(batches | collating(collate)), {collate});
}

composed bucket_batch(const composed& p, const py::object& length_of, std::vector<std::size_t> boundaries,
                      std::size_t batch_size, std::size_t max_tokens, bool drop_last,
                      const py::object& collate) {
  const auto batches = fl::bucket_batch({.boundaries = std::move(boundaries),
                                         .batch_size = batch_size,
                                         .max_tokens = max_tokens,
                                         .drop_last = drop_last},
                                        fl::as_list, length(length_of, false));
  return p.then(p.stages.append(batches | collating(collate)), {length_of, collate});
}

/// Calls a function of C++ outside of a run.
py::object call_once(const native_function& f, py::object item, std::uint64_t seed) {
  const std::stop_token never;
  fl::context context{
      .index = 0, .sub_index = 0, .epoch = 0, .random = fl::random_generator(seed), .stop = never};
  return f.call(object(std::move(item)), context).get();
}

} // namespace

template <>
struct pybind11::detail::handle_type_name<generator> {
  static constexpr auto name = const_name("numpy.random.Generator");
};

py::dict members_of_sample(const fl::tar_sample& sample) {
  py::dict all;
  all["__key__"] = fl::python::text_of(sample.key());
  for (const fl::tar_field& f : sample)
    all[fl::python::text_of(f.name)] =
        py::bytes(reinterpret_cast<const char*>(f.bytes.data()), f.bytes.size());
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
      .def("__call__", &call_once, py::arg("item"), py::arg("seed") = 0, "Calls it outside of a pipeline.");
  py::class_<composed>(m, "Composed", fl::python::collected<composed>())
      .def("map", &map)
      .def("filter", &filter)
      .def("flat_map", &flat_map)
      .def("shuffle", &shuffle)
      .def("global_shuffle", &global_shuffle)
      .def("take", &take)
      .def("prefetch", &prefetch)
      .def("batch", &batch)
      .def("bucket_batch", &bucket_batch);
  m.def("files", &files);
  m.def("records", &records);
  m.def("range", &range);
  m.def("lines", &lines);
  m.def("tar", &tar);
  m.def("iterate", &iterate);
  fl::python::bind_loader(
      m, "Loader",
      [](const py::object& p) {
        const composed& all = p.cast<const composed&>();
        return fl::python::with_references<object>{all.stages, all.functions};
      },
      py::arg("pipeline"), "Runs a pipeline: an iterator over its items.");
}

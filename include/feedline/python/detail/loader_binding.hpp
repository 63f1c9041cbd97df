// SPDX-License-Identifier: MIT
#pragma once
// What bind_loader() does for every class: its constructor, exceptions and dicts of facts.
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/contract.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/python/detail/arguments.hpp>
#include <feedline/python/detail/bound_loader.hpp>
#include <feedline/python/detail/dlpack.hpp>
#include <feedline/python/detail/to_python.hpp>
#include <feedline/python/run_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline py::dict as_python(const gauge& g) {
  return py::dict(py::arg("latest") = g.latest, py::arg("least") = g.least, py::arg("most") = g.most,
                  py::arg("mean") = g.mean);
}

inline py::dict as_python(const interval_metrics& m) {
  py::dict all;
  py::list stages, segments, queues;
  for (const stage_metrics& s : m.stages) {
    py::dict d, user, gauges;
    for (const user_metric& u : s.user_metrics) {
      if (u.values) gauges[text_of(u.name)] = as_python(*u.values);
      else user[text_of(u.name)] = u.value;
    }
    d["name"] = text_of(s.name);
    d["received"] = s.received;
    d["emitted"] = s.emitted;
    d["failures"] = s.failures;
    d["mean_seconds"] = s.time.mean;
    d["held"] = as_python(s.held);
    d["capacity"] = s.capacity;
    d["busy"] = s.busy;
    d["segment"] = s.segment;
    d["user_metrics"] = user;
    d["gauges"] = gauges;
    stages.append(d);
  }
  for (const segment_metrics& s : m.segments) {
    py::dict d;
    d["name"] = text_of(s.name);
    d["workers"] = s.workers.size();
    d["active"] = s.active;
    d["busy_fraction"] = s.busy_fraction();
    d["starved_fraction"] = s.starved_fraction();
    d["waiting_fraction"] = s.waiting_fraction();
    d["throttled_fraction"] = s.throttled_fraction();
    segments.append(d);
  }
  for (const queue_metrics& q : m.queues) {
    py::dict d;
    d["name"] = text_of(q.name);
    d["capacity"] = q.capacity;
    d["put"] = q.put;
    d["taken"] = q.taken;
    d["dropped"] = q.dropped;
    d["fill"] = as_python(q.fill);
    queues.append(d);
  }
  py::dict consumer;
  consumer["items"] = m.consumer.items;
  consumer["waited"] = m.consumer.waited;
  const auto histogram = [](const std::vector<time_bucket>& buckets) {
    py::list list;
    for (const time_bucket& b : buckets) list.append(py::make_tuple(b.up_to, b.items));
    return list;
  };
  consumer["queued"] = histogram(m.consumer.queued);
  consumer["waits"] = histogram(m.consumer.waits);
  all["seconds"] = m.seconds;
  all["stages"] = stages;
  all["segments"] = segments;
  all["queues"] = queues;
  all["consumer"] = consumer;
  py::list failures;
  for (const failure_count& f : m.failures)
    failures.append(py::dict(py::arg("stage") = text_of(f.stage), py::arg("message") = text_of(f.message),
                             py::arg("count") = f.count));
  all["failures"] = failures;
  all["bottleneck"] = text_of(m.bottleneck);
  return all;
}

inline py::dict as_python(const metrics& m) {
  py::dict all = as_python(m.total);
  all["recent"] = as_python(m.recent);
  return all;
}

/// A message that names options of C++, with their names in Python.
inline std::string in_python(std::string text) {
  static constexpr std::array<std::array<std::string_view, 2>, 10> names{
      {{", global_shuffle() after the source", ""},
       {"rank::by_sample", "by_sample=True"},
       {"remainder::keep", "remainder=\"keep\""},
       {"remainder::wrap", "remainder=\"wrap\""},
       {"remainder::drop", "remainder=\"drop\""},
       {"with finite() or infinite()", "with another `for`"},
       {"infinite()", "infinite=True"},
       {"finite()", "infinite=False"},
       {"set allow_grown_data", "set allow_grown_data=True"},
       {"lines_options::", ""}}};
  if (const std::size_t end = text.find(": "); text.starts_with("feedline::") && end != std::string::npos)
    text.erase(0, end + 2); // the function that says it
  for (const auto& [name, in_python] : names)
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += in_python.size())
      text.replace(at, name.size(), in_python);
  return text;
}

/// Raises PipelineError with the attributes of a failure; its cause is the Python exception that a stage raised, or an
/// exception with the original message.
inline void raise(const py::handle& type, const pipeline_error& error) {
  const failure& f = error.failure();
  const py::object raised = type(text_of(in_python(error.what())));
  const py::dict attributes = as_python(f);
  for (const auto& [name, value] : attributes) py::setattr(raised, name, value);
  py::object cause = py::module_::import("builtins").attr("RuntimeError")(text_of(f.message));
  try {
    if (f.error) std::rethrow_exception(f.error);
  } catch (const py::error_already_set& python) {
    cause = python.value();
    if (python.trace()) PyException_SetTraceback(cause.ptr(), python.trace().ptr());
  } catch (...) {
  }
  PyException_SetCause(raised.ptr(), cause.release().ptr());
  PyErr_SetObject(type.ptr(), raised.ptr());
}

/// pybind11 shows exceptions whose texts are UTF-8.
inline bool is_utf8(std::string_view text) {
  const auto decoded = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
  PyErr_Clear();
  return static_cast<bool>(decoded);
}

/// The exception that pybind11 makes of one in C++.
inline PyObject* type_of(const std::exception& error) {
  const auto is = [&]<class Type>(std::type_identity<Type>) {
    return dynamic_cast<const Type*>(&error) != nullptr;
  };
  if (is(std::type_identity<std::invalid_argument>()) || is(std::type_identity<std::domain_error>()) ||
      is(std::type_identity<std::length_error>()) || is(std::type_identity<std::range_error>()))
    return PyExc_ValueError;
  if (is(std::type_identity<std::out_of_range>())) return PyExc_IndexError;
  if (is(std::type_identity<std::overflow_error>())) return PyExc_OverflowError;
  return PyExc_RuntimeError;
}

/// The members of a PipelineError and of an element of failures(), with their types.
inline py::dict members_of_failure() {
  return py::dict(py::arg("stage") = "str", py::arg("sample") = "Optional[int]", py::arg("epoch") = "int",
                  py::arg("origin") = "str", py::arg("message") = "str");
}

inline void check_interpreter() {
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw py::import_error("feedline's loaders work in the main interpreter only, not in subinterpreters");
}

/// Lets Python's garbage collector see the objects that one of a class refers to, which often refer to it: the class's
/// traverse(visit, arg) visits them, clear() drops them, and finalize(), if it has one, is called before anything is dropped.
template <class Class>
py::custom_type_setup collected() {
  return py::custom_type_setup([](PyHeapTypeObject* heap) {
    static constexpr auto loader_of = [](PyObject* self) -> Class* {
      auto& instance = *reinterpret_cast<py::detail::instance*>(self);
      if (!instance.simple_layout && !instance.nonsimple.values_and_holders) return nullptr; // being made
      const auto part = instance.get_value_and_holder();
      return part.holder_constructed() ? part.template value_ptr<Class>() : nullptr;
    };
    PyTypeObject& type = heap->ht_type;
    type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    type.tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
      Py_VISIT(Py_TYPE(self));
      const Class* const loader = loader_of(self);
      return loader ? loader->traverse(visit, arg) : 0;
    };
    type.tp_clear = [](PyObject* self) {
      if (Class* const loader = loader_of(self)) loader->clear();
      return 0;
    };
    if constexpr (requires(Class& c) { c.finalize(); })
      type.tp_finalize = [](PyObject* self) {
        if (Class* const loader = loader_of(self)) loader->finalize();
      };
    type.tp_dealloc = [](PyObject* self) {
      PyObject_GC_UnTrack(self); // its destructor lets other threads run
      py::detail::pybind11_object_dealloc(self);
    };
  });
}

/// The class of the failures of all loaders in this library of the system's; null before prepare(). Never destroyed.
[[gnu::visibility("hidden")]] inline PyObject*& error_class() {
  static PyObject* type = nullptr;
  return type;
}

/// What every module with loaders has, once. Those of one library share what the first has. `package`: where users find it; null:
/// in the module.
[[gnu::visibility("hidden")]] inline void prepare(py::module_& m, const char* package = nullptr) {
  if (py::hasattr(m, "PipelineError")) return;
  check_interpreter();
  if (error_class()) {
    m.attr("PipelineError") = py::handle(error_class());
    return;
  }
  const py::dict members;
  members["__annotations__"] = members_of_failure();
  const std::string where = package ? std::string(package) : m.attr("__name__").cast<std::string>();
  error_class() = PyErr_NewExceptionWithDoc(
      (where + ".PipelineError").c_str(),
      "A sample failed, or a stage for one. `sample` is its index; `origin` names its file, member or line.",
      PyExc_RuntimeError, members.ptr());
  m.attr("PipelineError") = py::handle(error_class());
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const pipeline_error& error) {
      raise(error_class(), error);
    } catch (const std::system_error& error) {
      if (error.code().category() != std::generic_category() &&
          error.code().category() != std::system_category())
        throw;
      PyErr_SetObject(PyExc_OSError, py::make_tuple(error.code().value(), text_of(error.what())).ptr());
    } catch (const py::error_already_set&) {
      throw;
    } catch (const std::exception& error) {
      const std::string text = in_python(error.what());
      if (text == error.what() && is_utf8(text)) throw; // pybind11 can show it
      PyErr_SetObject(type_of(error), text_of(text).ptr());
    }
  });
  bind_bfloat16_tensor(m);
  py::class_<pass_iterator>(m, "_Pass", py::module_local(), collected<pass_iterator>())
      .def("__iter__", [](const py::object& self) { return self; })
      .def("__next__", &pass_iterator::next);
  // Threads must not outlive the interpreter.
  py::module_::import("atexit").attr("register")(py::cpp_function(&python_loader::close_all));
}

inline field_container field_container_of(const std::string& name) {
  if (name == "dict") return field_container::dict;
  if (name == "namedtuple") return field_container::named_tuple;
  if (name == "tuple") return field_container::tuple;
  throw py::value_error("fields: \"" + name + "\" is none of \"dict\", \"namedtuple\" and \"tuple\"");
}

/// Python's function as a callback. It runs in next(), which raises what it raises.
template <class Argument, class Convert>
callback<Argument> callback_of(python_options& options, const py::object& function, Convert convert) {
  if (function.is_none()) return {};
  // The thread that drops the last copy may not have the lock.
  const std::shared_ptr<py::object> shared(new py::object(function), [](py::object* last) {
    const py::gil_scoped_acquire lock;
    delete last;
  });
  options.functions.push_back(shared);
  return [shared, convert](const Argument& argument) {
    const py::gil_scoped_acquire lock;
    const py::object called = *shared;
    called(convert(argument));
  };
}

/// Python's logger for sentences that nobody else receives.
inline py::object logger() {
  return py::module_::import("logging").attr("getLogger")("feedline").attr("warning");
}

/// What a user's function returns, a source or a pipeline, with a type that has only the items.
template <class T>
auto as_any_pipeline(T made) {
  auto pipeline = as_pipeline(std::move(made));
  return any_pipeline<typename decltype(pipeline)::item>(std::move(pipeline));
}

template <class Item>
any_pipeline<Item> as_any_pipeline(any_pipeline<Item> made) {
  return made;
}

template <class Item>
any_pipeline<Item> as_any_pipeline(python::with_references<Item> made) {
  return std::move(made.pipeline);
}

template <class T>
void keep_references(python_options&, const T&) {}

template <class Item>
void keep_references(python_options& options, const python::with_references<Item>& made) {
  for (const py::object& o : made.references) options.functions.push_back(std::make_shared<py::object>(o));
}

/// A type of its own for each class of Python, as `Unique` is.
template <class Item, class Unique>
class [[gnu::visibility("hidden")]] class_of : public bound_loader<Item> {
 public:
  using item = Item;
  using bound_loader<Item>::bound_loader;
};

/// What the constructor's arguments say about the run.
struct chosen_run {
  python_options options;
  std::optional<std::uint32_t> epochs, rank, world_size;
  feedline::remainder remainder = feedline::remainder::drop;
  bool by_sample = false;
};

inline void choose(chosen_run& to, const python::option::infinite& o) { to.options.infinite = o.value; }

inline void choose(chosen_run& to, const python::option::epochs& o) { to.epochs = o.value; }

inline void choose(chosen_run& to, const python::option::first_epoch& o) {
  to.options.run.first_epoch = o.value;
}

inline void choose(chosen_run& to, const python::option::seed& o) { to.options.run.seed = o.value; }

inline void choose(chosen_run& to, const python::option::rank& o) { to.rank = o.value; }

inline void choose(chosen_run& to, const python::option::world_size& o) { to.world_size = o.value; }

inline void choose(chosen_run& to, const python::option::remainder& o) {
  using enum feedline::remainder;
  if (o.value != "drop" && o.value != "wrap" && o.value != "keep")
    throw py::value_error("remainder: \"" + o.value + "\" is none of \"drop\", \"wrap\" and \"keep\"");
  to.remainder = o.value == "drop" ? drop : o.value == "wrap" ? wrap : keep;
}

inline void choose(chosen_run& to, const python::option::by_sample& o) { to.by_sample = o.value; }

inline void choose(chosen_run& to, const python::option::on_error& o) {
  if (o.value != "fail" && o.value != "skip")
    throw py::value_error("on_error: \"" + o.value + "\" is neither \"fail\" nor \"skip\"");
  to.options.run.on_error = o.value == "skip" ? feedline::on_error::skip : feedline::on_error::fail;
}

inline void choose(chosen_run& to, const python::option::failure_limit& o) {
  to.options.run.failure_limit = o.value;
}

inline void choose(chosen_run& to, const python::option::on_failure& o) {
  to.options.run.on_failure =
      callback_of<failure>(to.options, o.value, [](const failure& f) { return as_python(f); });
}

inline void choose(chosen_run& to, python::option::on_notice& o) {
  const py::object receiver = o.value.is_none() ? logger() : py::object(o.value);
  const auto function = callback_of<std::string>(to.options, receiver,
                                                 [](const std::string& s) { return text_of(in_python(s)); });
  to.options.run.on_notice = function;
  o.notify = [function](const std::string& sentence) {
    try {
      notify(function, sentence);
    } catch (py::error_already_set& error) { // a thread of a source has nobody to whom it could throw
      const py::gil_scoped_acquire lock;
      error.discard_as_unraisable("on_notice");
    } catch (...) {
    }
  };
  o.value.release().dec_ref(); // `make` runs without Python's lock
}

void choose(chosen_run& to, const python::option::on_notice& o) = delete; // take it by value

inline void choose(chosen_run& to, const python::option::memory_budget& o) {
  to.options.run.memory_budget = o.value;
}

inline void choose(chosen_run& to, const python::option::resume& o) {
  if (!o.value.is_none()) python_loader::resume_from(to.options, o.value);
}

inline void choose(chosen_run& to, const python::option::allow_grown_data& o) {
  to.options.run.allow_grown_data = o.value;
}

inline void choose(chosen_run& to, const python::option::allow_other_options& o) {
  to.options.allow_other_options = o.value;
}

inline void choose(chosen_run& to, const python::option::epoch& o) { to.options.epoch = o.value; }

inline void choose(chosen_run& to, const python::option::fields& o) {
  to.options.fields = field_container_of(o.value);
}

template <class T>
void choose(chosen_run&, const T&) {} // an argument of `make` alone

/// What follows from several options together.
inline void complete(chosen_run& chosen) {
  finite_options& run = chosen.options.run;
  if (chosen.options.infinite && (chosen.epochs || run.first_epoch))
    throw py::value_error(std::string(chosen.epochs ? "epochs" : "first_epoch") +
                          " is for a finite run, but infinite is True: say infinite=False, or leave it out");
  run.epochs = chosen.epochs.value_or(1);
  if (chosen.rank.has_value() != chosen.world_size.has_value())
    throw py::value_error("rank and world_size belong together");
  run.rank = chosen.rank ? feedline::rank{*chosen.rank, *chosen.world_size}
                         : feedline::rank::from_environment(run.on_notice);
  run.rank.remainder = chosen.remainder;
  run.rank.by_sample = chosen.by_sample;
  run.rank.check();
}

template <class Item>
struct python_check;

template <class Item>
struct python_check<item<Item>> {
  static_assert(
      becomes_python<Item>,
      "feedline: `item`, which the pipeline of bind_loader yields, can't become Python objects: let "
      "the pipeline yield numbers, strings, tensors, vectors, arrays, optional or variant values or "
      "plain structs of those (at most 64 fields; or a class with a function fields() that returns "
      "std::tie(a, b)), or batches of them");
  using shown = std::conditional_t<becomes_python<Item>, Item, int>; // after an error: so that there is one
};

/// The user's text and the fields of an item.
template <class Item, class... Extra>
std::string class_doc(const Extra&... extra) {
  std::string text;
  const auto look = [&]<class E>(const E& e) {
    if constexpr (std::is_convertible_v<const E&, const char*>) text = e;
  };
  (look(extra), ...);
  const std::string fields = fields_of_item(std::type_identity<Item>());
  if (!fields.empty()) text += (text.empty() ? "" : "\n\n") + ("The fields of an item: " + fields + ".");
  return text;
}

inline constexpr const char* constructor_doc =
    "By keyword:\n"
    "- infinite: whether the loader goes on for ever; otherwise a pass has `epochs` epochs (1), from "
    "`first_epoch` on; if one of those is given, the loader is finite\n"
    "- seed: keys every random decision\n"
    "- rank, world_size: this process's share of the data; by default from the launcher's environment\n"
    "- remainder: what happens to samples that can't be divided evenly among ranks: \"drop\" leaves them "
    "out, "
    "\"wrap\" gives ranks without a sample one from the beginning, \"keep\" lets some ranks yield more\n"
    "- by_sample: every rank reads all files and keeps each world_size-th sample; otherwise ranks divide the "
    "files\n"
    "- on_error: \"fail\", or \"skip\" to leave out up to `failure_limit` samples that fail; on_failure "
    "receives "
    "each as a dict\n"
    "- on_notice: receives a sentence about something unusual, which otherwise goes to the logger "
    "`feedline`\n"
    "- memory_budget: the most bytes that the run may hold; 0: no limit\n"
    "- resume: what state_dict() returned, or the bytes of a checkpoint of a program in C++; "
    "allow_grown_data: also if data was appended since; allow_other_options: also with other values of "
    "parameters that decide what "
    "an item is\n"
    "- epoch: whether a batch has a last field `epoch`: that of each sample\n"
    "- fields: \"dict\", \"namedtuple\" or \"tuple\": how a struct arrives";

/// Whether an argument has objects of Python, so that its lock is needed to copy it.
template <class T>
inline constexpr bool has_python_objects = std::is_base_of_v<py::handle, T>;
template <class T>
inline constexpr bool has_python_objects<std::vector<T>> = has_python_objects<T>;
template <class T>
inline constexpr bool has_python_objects<std::optional<T>> = has_python_objects<T>;
template <python_option T>
inline constexpr bool has_python_objects<T> =
    !std::is_same_v<T, python::option::on_notice> && has_python_objects<decltype(T::value)>;

template <class... Argument>
using other_options =
    typename options_without<std::tuple<std::remove_cvref_t<Argument>...>, run_options_of_python>::type;

/// A parameter of a constructor.
struct constructor_parameter {
  std::string name;
  py::object value; // its default; null: none
};

struct constructor_parameters {
  std::vector<constructor_parameter> all;
  std::vector<std::string> checked; // those with whose values a state must be resumed
};

/// What bind_loader's `extra` say of the parameters. Throws for a checked one that isn't there.
template <class... Extra>
constructor_parameters parameters_among(const Extra&... extra) {
  constructor_parameters p;
  const auto add = [&]<class E>(const E& e) {
    if constexpr (std::is_base_of_v<py::arg_v, E>) p.all.push_back({e.name ? e.name : "", e.value});
    else if constexpr (std::is_base_of_v<py::arg, E>) p.all.push_back({e.name ? e.name : "", {}});
    else if constexpr (std::is_same_v<E, python::checked_on_resume>) p.checked = e.parameters;
  };
  (add(extra), ...);
  for (const std::string& name : p.checked)
    if (std::ranges::find(p.all, name, &constructor_parameter::name) == p.all.end())
      throw std::invalid_argument("feedline: checked_on_resume names `" + name +
                                  "`, which isn't a parameter of bind_loader's function");
  return p;
}

/// Refuses names of options of the run for other parameters, and of parameters that aren't there.
template <class Made, class... Argument, class... Extra>
void check_names(const std::function<Made(Argument...)>&, const Extra&... extra) {
  (check_name(extra, static_cast<const other_options<Argument...>*>(nullptr)), ...);
  parameters_among(extra...);
}

/// Puts a function around a constructor, which
/// - names an option that it doesn't have, and the nearest one that it has: pybind11 lists all of them;
/// - takes a run whose epochs are given for a finite one, if nothing else is said;
/// - notes the values of the parameters in `checked`.
inline void wrap_constructor(py::object& c, constructor_parameters known,
                             python_loader& (*loader_of)(const py::object&)) {
  py::list names;
  for (const constructor_parameter& p : known.all) names.append(p.name);
  const py::object construct = c.attr("__init__");
  const auto around = [=, known = std::move(known)](const py::object& self, const py::args& arguments,
                                                    const py::kwargs& options) {
    check_interpreter(); // a subinterpreter may have got the main one's module, and can't drop its exceptions
    const std::vector<constructor_parameter>& parameters = known.all;
    for (const auto& [option, value] : options) {
      if (names.contains(option)) continue;
      const py::list near = py::module_::import("difflib").attr("get_close_matches")(option, names, 1);
      std::string text = py::type::of(self).attr("__name__").cast<std::string>() + "() has no option " +
                         py::repr(option).cast<std::string>();
      if (!near.empty()) text += ": did you mean " + near[0].cast<std::string>() + "?";
      throw py::type_error(text);
    }
    const auto given = [&](std::size_t i) -> py::object { // null: it wasn't
      if (i < arguments.size()) return arguments[i];
      return options.contains(parameters[i].name) ? py::object(options[parameters[i].name.c_str()])
                                                  : py::object();
    };
    const auto is_set = [&](const char* name) { return options.contains(name) && !options[name].is_none(); };
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (parameters[i].name == python::option::infinite::name && !given(i) &&
          (is_set(python::option::epochs::name) || is_set(python::option::first_epoch::name)))
        options[python::option::infinite::name] = false;
    construct(self, *arguments, **options);
    py::dict values;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (std::ranges::find(known.checked, parameters[i].name) == known.checked.end()) continue;
      const py::object value = given(i) ? given(i) : parameters[i].value;
      if (value) values[parameters[i].name.c_str()] = comparable(value);
    }
    loader_of(self).set_values(std::move(values));
  };
  py::options texts;
  texts.disable_function_signatures(); // the first one's text has it
  const py::object doc = construct.attr("__doc__");
  const std::string text = doc.is_none() ? std::string() : doc.cast<std::string>();
  c.attr(
      "__init__") = // its own name is another one: pybind11 warns of what it takes for an old way to construct
      py::cpp_function(around, py::name("init"), py::is_method(c), text.c_str());
}

template <class Class, class Holder, class Pipeline, class... Argument, class... Extra, class... Option>
void define_constructor_with(const std::tuple<Option...>*, py::class_<Class, Holder>& c,
                             std::function<Pipeline(Argument...)> make, const Extra&... extra) {
  constexpr bool has_names =
      (std::size_t{0} + ... + std::is_base_of_v<py::arg, Extra>) == sizeof...(Argument);
  static_assert(has_names,
                "feedline: bind_loader needs a pybind11::arg for each parameter of its function, in order");
  if constexpr (has_names) { // else pybind11 has a second message
    c.def(
        py::init([make = std::move(make)](Argument... arguments, Option... options) {
          chosen_run chosen;
          (choose(chosen, arguments), ...);
          (choose(chosen, options), ...);
          complete(chosen);
          if (chosen.options.epoch && !Class::shows_epoch)
            throw py::value_error(
                "epoch: only a batch with several fields, none of which is called `epoch`, gets another one");
          std::optional<py::gil_scoped_release> unlocked;
          if constexpr (!(has_python_objects<std::remove_cvref_t<Argument>> || ...)) unlocked.emplace();
          auto made = make(std::forward<Argument>(arguments)...);
          keep_references(chosen.options, made);
          auto pipeline = as_any_pipeline(std::move(made));
          unlocked.reset();
          return std::make_shared<Class>(std::move(pipeline), std::move(chosen.options));
        }),
        extra..., py::kw_only(), py::arg(Option::name) = Option().value..., constructor_doc);
    constructor_parameters known = parameters_among(extra...);
    (known.all.push_back({Option::name, {}}), ...);
    wrap_constructor(c, std::move(known),
                     [](const py::object& self) -> python_loader& { return self.cast<Class&>(); });
  }
}

/// Adds the constructor, which takes the arguments of `make`, then those options of a run that aren't among them.
template <class Class, class Holder, class Pipeline, class... Argument, class... Extra>
void define_constructor(py::class_<Class, Holder>& c, std::function<Pipeline(Argument...)> make,
                        const Extra&... extra) {
  define_constructor_with(static_cast<const other_options<Argument...>*>(nullptr), c, std::move(make),
                          extra...);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

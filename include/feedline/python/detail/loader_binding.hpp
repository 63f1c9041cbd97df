// SPDX-License-Identifier: MIT
#pragma once
// What bind_loader() does for every class: its constructor, exceptions and dicts of facts.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <feedline/core/any_loader.hpp>
#include <feedline/core/callback.hpp>
#include <feedline/core/failure.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/core/options.hpp>
#include <feedline/core/pipeline.hpp>
#include <feedline/core/rank.hpp>
#include <feedline/python/detail/arguments.hpp>
#include <feedline/python/detail/bound_loader.hpp>
#include <feedline/python/detail/dlpack.hpp>
#include <feedline/python/run_options.hpp>

namespace feedline::inline FEEDLINE_ABI::detail {

inline py::dict as_python(const interval_metrics& m) {
  py::dict all;
  py::list stages, segments, queues;
  for (const stage_metrics& s : m.stages) {
    py::dict d, user;
    for (const user_metric& u : s.user_metrics) user[py::str(u.name)] = u.value;
    d["name"] = s.name;
    d["received"] = s.received;
    d["emitted"] = s.emitted;
    d["failures"] = s.failures;
    d["mean_seconds"] = s.time.mean;
    d["held"] = s.held;
    d["capacity"] = s.capacity;
    d["busy"] = s.busy;
    d["segment"] = s.segment;
    d["user_metrics"] = user;
    stages.append(d);
  }
  for (const segment_metrics& s : m.segments) {
    py::dict d;
    d["name"] = s.name;
    d["workers"] = s.workers.size();
    d["active"] = s.active;
    d["busy_fraction"] = s.busy_fraction();
    d["starved_fraction"] = s.starved_fraction();
    d["waiting_fraction"] = s.waiting_fraction();
    segments.append(d);
  }
  for (const queue_metrics& q : m.queues) {
    py::dict d;
    d["name"] = q.name;
    d["capacity"] = q.capacity;
    d["put"] = q.put;
    d["taken"] = q.taken;
    d["dropped"] = q.dropped;
    d["mean_fill"] = q.mean_fill;
    d["peak_fill"] = q.peak_fill;
    queues.append(d);
  }
  py::dict consumer;
  consumer["items"] = m.consumer.items;
  consumer["waited"] = m.consumer.waited;
  all["seconds"] = m.seconds;
  all["stages"] = stages;
  all["segments"] = segments;
  all["queues"] = queues;
  all["consumer"] = consumer;
  all["bottleneck"] = m.bottleneck;
  return all;
}

inline py::dict as_python(const metrics& m) {
  py::dict all = as_python(m.total);
  all["recent"] = as_python(m.recent);
  return all;
}

/// Raises PipelineError with the attributes of a failure; its cause is the Python exception that a stage raised, or an
/// exception with the original message.
inline void raise(const py::handle& type, const pipeline_error& error) {
  const failure& f = error.failure();
  const py::object raised = type(error.what());
  const py::dict attributes = as_python(f);
  for (const auto& [name, value] : attributes) py::setattr(raised, name, value);
  py::object cause = py::module_::import("builtins").attr("RuntimeError")(f.message);
  try {
    if (f.error) std::rethrow_exception(f.error);
  } catch (const py::error_already_set& python) {
    cause = python.value();
  } catch (...) {
  }
  PyException_SetCause(raised.ptr(), cause.release().ptr());
  PyErr_SetObject(type.ptr(), raised.ptr());
}

/// What every module with loaders has, once.
inline void prepare(py::module_& m) {
  if (py::hasattr(m, "PipelineError")) return;
  if (PyInterpreterState_Get() != PyInterpreterState_Main())
    throw py::import_error("feedline's loaders work in the main interpreter only, not in subinterpreters");
  static PyObject* error_type = nullptr; // never destroyed
  error_type = PyErr_NewExceptionWithDoc(
      "feedline.PipelineError",
      "A sample failed. Attributes: stage, sample (its index, or None), epoch, origin, message.",
      PyExc_RuntimeError, nullptr);
  m.attr("PipelineError") = py::handle(error_type);
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const pipeline_error& error) {
      raise(error_type, error);
    } catch (const std::system_error& error) {
      if (error.code().category() != std::generic_category() &&
          error.code().category() != std::system_category())
        throw;
      PyErr_SetObject(PyExc_OSError, py::make_tuple(error.code().value(), error.what()).ptr());
    }
  });
  bind_bfloat16_tensor(m);
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
callback<Argument> callback_of(const py::object& function, Convert convert) {
  if (function.is_none()) return {};
  // The thread that drops the last copy may not have the lock.
  const std::shared_ptr<py::object> shared(new py::object(function), [](py::object* last) {
    const py::gil_scoped_acquire lock;
    delete last;
  });
  return [shared, convert](const Argument& argument) {
    const py::gil_scoped_acquire lock;
    (*shared)(convert(argument));
  };
}

/// A type of its own for each class of Python.
template <class Item, class Make>
class [[gnu::visibility("hidden")]] class_of : public bound_loader<Item> {
 public:
  using item = Item;
  using bound_loader<Item>::bound_loader;
};

/// What `make` of bind_loader returns, without the types of its stages.
template <class Made>
auto erased(Made made) {
  if constexpr (
      requires { typename Made::item; } && requires { any_pipeline<typename Made::item>(made); })
    return any_pipeline<typename Made::item>(std::move(made));
  else return erased(as_pipeline(std::move(made)));
}

/// What the constructor's arguments say about the run.
struct chosen_run {
  python_options options;
  std::optional<std::uint32_t> rank, world_size;
};

inline void choose(chosen_run& to, const python::option::infinite& o) { to.options.infinite = o.value; }

inline void choose(chosen_run& to, const python::option::epochs& o) { to.options.run.epochs = o.value; }

inline void choose(chosen_run& to, const python::option::first_epoch& o) {
  to.options.run.first_epoch = o.value;
}

inline void choose(chosen_run& to, const python::option::seed& o) { to.options.run.seed = o.value; }

inline void choose(chosen_run& to, const python::option::rank& o) { to.rank = o.value; }

inline void choose(chosen_run& to, const python::option::world_size& o) { to.world_size = o.value; }

inline void choose(chosen_run& to, const python::option::on_error& o) {
  if (o.value != "fail" && o.value != "skip")
    throw py::value_error("on_error: \"" + o.value + "\" is neither \"fail\" nor \"skip\"");
  to.options.run.on_error = o.value == "skip" ? feedline::on_error::skip : feedline::on_error::fail;
}

inline void choose(chosen_run& to, const python::option::failure_limit& o) {
  to.options.run.failure_limit = o.value;
}

inline void choose(chosen_run& to, const python::option::on_failure& o) {
  to.options.run.on_failure = callback_of<failure>(o.value, [](const failure& f) { return as_python(f); });
}

inline void choose(chosen_run& to, const python::option::on_notice& o) {
  to.options.run.on_notice =
      callback_of<std::string>(o.value, [](const std::string& s) { return py::str(s); });
}

inline void choose(chosen_run& to, const python::option::memory_budget& o) {
  to.options.run.memory_budget = o.value;
}

inline void choose(chosen_run& to, const python::option::resume& o) {
  if (!o.value.is_none()) python_loader::resume_from(to.options, o.value);
}

inline void choose(chosen_run& to, const python::option::fields& o) {
  to.options.fields = field_container_of(o.value);
}

template <class T>
void choose(chosen_run&, const T&) {} // an argument of `make` alone

template <class Class, class Pipeline, class... Argument, class... Extra, class... Option>
void define_constructor_with(const std::tuple<Option...>* others, py::class_<Class>& c,
                             std::function<Pipeline(Argument...)> make, const Extra&... extra) {
  (check_name(extra, others), ...);
  c.def(py::init([make = std::move(make)](Argument... arguments, Option... options) {
          chosen_run chosen;
          (choose(chosen, arguments), ...);
          (choose(chosen, options), ...);
          if (chosen.rank.has_value() != chosen.world_size.has_value())
            throw py::value_error("rank and world_size belong together");
          chosen.options.run.rank = chosen.rank ? feedline::rank{*chosen.rank, *chosen.world_size}
                                                : feedline::rank::from_environment();
          auto pipeline = [&] {
            const py::gil_scoped_release unlocked;
            return erased(make(std::forward<Argument>(arguments)...));
          }();
          return std::make_unique<Class>(std::move(pipeline), std::move(chosen.options));
        }),
        extra..., py::kw_only(), py::arg(Option::name) = Option().value...);
}

/// Adds the constructor, which takes the arguments of `make`, then those options of a run that aren't among them.
template <class Class, class Pipeline, class... Argument, class... Extra>
void define_constructor(py::class_<Class>& c, std::function<Pipeline(Argument...)> make,
                        const Extra&... extra) {
  using given = std::tuple<std::remove_cvref_t<Argument>...>;
  using others = typename options_without<given, run_options_of_python>::type;
  define_constructor_with(static_cast<const others*>(nullptr), c, std::move(make), extra...);
}

} // namespace feedline::inline FEEDLINE_ABI::detail

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
#include <feedline/python/detail/bound_loader.hpp>
#include <feedline/python/detail/dlpack.hpp>

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
    d["user_metrics"] = user;
    stages.append(d);
  }
  for (const segment_metrics& s : m.segments) {
    py::dict d;
    d["name"] = s.name;
    d["workers"] = s.workers.size();
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

/// Adds the constructor, which takes the arguments of `make`, then those of a run.
template <class Class, class Pipeline, class... Argument, class... Extra>
void define_constructor(py::class_<Class>& c, std::function<Pipeline(Argument...)> make,
                        const Extra&... extra) {
  c.def(
      py::init([make = std::move(make)](Argument... arguments, bool infinite, std::uint32_t epochs,
                                        std::optional<std::uint32_t> first_epoch,
                                        std::optional<std::uint64_t> seed, std::optional<std::uint32_t> rank,
                                        std::optional<std::uint32_t> world_size, const std::string& on_error,
                                        std::size_t failure_limit, const py::object& on_failure,
                                        const py::object& on_notice, std::size_t memory_budget,
                                        const py::object& resume, const std::string& fields) {
        python_options o;
        o.infinite = infinite;
        o.fields = field_container_of(fields);
        if (on_error != "fail" && on_error != "skip")
          throw py::value_error("on_error: \"" + on_error + "\" is neither \"fail\" nor \"skip\"");
        if (rank.has_value() != world_size.has_value())
          throw py::value_error("rank and world_size belong together");
        o.run.epochs = epochs;
        o.run.first_epoch = first_epoch;
        o.run.seed = seed;
        o.run.rank = rank ? feedline::rank{*rank, *world_size} : feedline::rank::from_environment();
        o.run.on_error = on_error == "skip" ? feedline::on_error::skip : feedline::on_error::fail;
        o.run.failure_limit = failure_limit;
        o.run.on_failure = callback_of<failure>(on_failure, [](const failure& f) { return as_python(f); });
        o.run.on_notice =
            callback_of<std::string>(on_notice, [](const std::string& s) { return py::str(s); });
        o.run.memory_budget = memory_budget;
        if (!resume.is_none()) python_loader::resume_from(o, resume);
        auto pipeline = [&] {
          const py::gil_scoped_release unlocked;
          return any_pipeline<typename Class::item>(as_pipeline(make(std::forward<Argument>(arguments)...)));
        }();
        return std::make_unique<Class>(std::move(pipeline), std::move(o));
      }),
      extra..., py::kw_only(), py::arg("infinite") = false, py::arg("epochs") = 1,
      py::arg("first_epoch") = py::none(), py::arg("seed") = py::none(), py::arg("rank") = py::none(),
      py::arg("world_size") = py::none(), py::arg("on_error") = "fail",
      py::arg("failure_limit") = default_failure_limit, py::arg("on_failure") = py::none(),
      py::arg("on_notice") = py::none(), py::arg("memory_budget") = 0, py::arg("resume") = py::none(),
      py::arg("fields") = "dict");
}

} // namespace feedline::inline FEEDLINE_ABI::detail

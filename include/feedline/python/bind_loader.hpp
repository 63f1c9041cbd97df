// SPDX-License-Identifier: MIT
#pragma once
// bind_loader: a pipeline as a Python class.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <feedline/core/memory_plan.hpp>
#include <feedline/core/metrics.hpp>
#include <feedline/python/detail/bound_loader.hpp>
#include <feedline/python/detail/loader_binding.hpp>
#include <feedline/python/detail/to_python.hpp>
#include <feedline/python/run_options.hpp>

namespace feedline::inline FEEDLINE_ABI::python {

/// Adds a class to a Python module: an iterator over the items of the pipeline that `make` returns.
///
///     PYBIND11_MODULE(my_loader, m) {
///       fl::python::bind_loader(m, "Loader", [](const std::vector<std::string>& shards, std::size_t batch_size) {
///         return fl::tar_samples(shards) | fl::map(decode, fl::workers{8}) | fl::batch(batch_size);
///       }, py::arg("shards"), py::arg("batch_size") = 64);
///     }
///
/// `extra` are pybind11's: a name for each parameter of `make`, some with defaults, and a documentation string. A parameter of
/// type file_patterns takes a text or a path, or a sequence of them. `make` may also return an any_pipeline; it runs without
/// Python's lock, unless it takes Python objects.
///
/// The class's constructor also takes the options of a run by name; its documentation lists them. CMake's function
/// feedline_python_stubs writes that of all functions, with their types, to a .pyi file. A parameter of `make` with a type in
/// python::option is that option, at its place among the parameters and with a default of yours:
///
///     [](const fl::file_patterns& shards, fl::python::option::infinite) { … }, py::arg("shards"), py::arg("infinite") = true
///
/// With python::option::on_notice, its `notify` goes to the options of sources that have notices of their own.
/// checked_on_resume, also among `extra`, names the parameters with whose values a state must be resumed.
///
/// - A tensor arrives as a NumPy array that uses the batch's memory, which lives as long as one of its arrays; one of bfloat16
///   as an object for torch.from_dlpack. Texts arrive as bytes, columns of lists with `values` and `offsets`, padded ones with
///   `values`, `lengths` and, if asked for, `mask`, optional ones with `values` and `mask`, a variant as what it holds, and a
///   class as the tuple of references that its function fields() returns.
/// - `for batch in loader` is one pass; each `for` begins the next one, with the next epochs, also if the last one was broken off.
///   An infinite run goes on. next(timeout) goes on in the current pass; it raises TimeoutError, and StopIteration at the end.
/// - state_dict() and load_state_dict() save and restore the position behind the last batch; `resume=` takes such a state too.
///   The next `for` then continues that pass, or begins the next one if `for` had come to its end.
/// - `loader.epoch` is the epoch of the last batch; with the option epoch=True a batch has that of each sample.
/// - metrics(), waiting_for(), failures(), memory(), stop(), close() and `with`; len(loader) where the number of batches is
///   known. close(drain=True) ends a run, but still yields the items that are ready.
/// - A sample that fails raises PipelineError, with the attributes stage, sample, epoch, origin and message.
/// - bind_telemetry adds live_view() and recorder().
///
/// Python's lock is free while the class waits, so other threads go on. Ctrl-C ends a wait for an item at once; it also stops a
/// start, which takes effect when the source and the stages notice it: the next pass then starts there. One thread at a time may
/// use a loader, except for stop(), metrics(), waiting_for(), memory() and close(drain=True). In a child of fork() all functions
/// raise RuntimeError, except repr().
///
/// Give the structs of a module different names, also those in unnamed namespaces of several files: clang's names of such types
/// don't differ, so pybind11 would take them for one.
template <class Make, class... Extra, class Unique = decltype([] {})>
auto bind_loader(pybind11::module_& m, const char* name, Make make, const Extra&... extra) {
  namespace py = pybind11;
  std::function function(std::move(make)); // knows the types of its parameters
  using made = typename decltype(function)::result_type;
  using item = typename decltype(detail::as_any_pipeline(std::declval<made>()))::item;
  using bound = detail::class_of<item, Unique>;
  using shown = typename detail::python_check<detail::item<item>>::shown;
  using object = detail::python_object<shown>;
  detail::check_names(function, extra...);
  detail::prepare(m);
  py::class_<bound, std::shared_ptr<bound>> c(m, name, py::module_local(), detail::collected<bound>());
  if (const std::string doc = detail::class_doc<shown>(extra...); !doc.empty()) c.attr("__doc__") = doc;
  detail::define_constructor(c, std::move(function), extra...);
  c.def(
      "__reduce__",
      [](bound&) -> py::tuple {
        throw py::type_error(
            "a loader can't be pickled or copied, as it has threads of its own: pickle its state_dict(), and "
            "with PyTorch's DataLoader set num_workers=0");
      },
      "Refuses pickle and copy.");
  c.def(
      "__iter__",
      [](const py::object& self) {
        return detail::python_iterator<shown>(py::cast(detail::pass_iterator(self, self.cast<bound&>())));
      },
      "Begins the next pass, also if the last one was broken off; an infinite run goes on.");
  c.def(
      "__next__", [](bound& self) { return object(self.next({})); }, "The next item.");
  c.def("__len__", &bound::size, "The number of items in a pass. Raises TypeError where it isn't known.");
  c.def(
      "__enter__", [](bound& self) -> bound& { return self; },
      "The loader, which close() ends with the block.");
  c.def(
      "__exit__", [](bound& self, const py::args&) { self.close(); }, "As close().");
  c.def(
      "__repr__",
      [name = std::string(name)](bound& self) { return "<" + name + ": " + self.summary() + ">"; },
      "The mode, the rank and the number of the pass.");
  c.def(
      "next", [](bound& self, std::optional<double> timeout) { return object(self.next(timeout)); },
      py::arg("timeout") = py::none(),
      "The next item. Raises TimeoutError after `timeout` seconds, in which the start of the first pass "
      "doesn't "
      "count, and StopIteration at the end.");
  c.def_property_readonly("epoch", &bound::epoch,
                          "The number of the epoch of the last item's last sample; before the first item, "
                          "that of the pass to come.");
  c.def("state_dict", &bound::state_dict,
        "The position behind the last item, as a dict that can be pickled.");
  c.def(
      "load_state_dict",
      [](bound& self, const detail::optional_state& state) { self.load_state_dict(state); }, py::arg("state"),
      "Continues behind the item after which state_dict() was called.");
  c.def(
      "metrics", [](bound& self) { return detail::as_python(self.metrics()); },
      "What the stages, threads and queues did since the start of the pass, as nested dicts; \"recent\" has "
      "the same since "
      "the last call.");
  c.def(
      "metrics_text", [](bound& self) { return detail::text_of(to_string(self.metrics())); },
      "The same as a table for people.");
  c.def(
      "waiting_for", [](bound& self) { return detail::text_of(self.waiting_for()); },
      "What the loader waits for now, in a sentence; from any thread.");
  c.def("failures", &bound::failures_so_far,
        "The samples that were skipped, as dicts with stage, sample, epoch, origin and message.");
  c.def(
      "memory", [](bound& self) { return detail::text_of(to_string(self.memory())); },
      "What the run may hold in memory at most, as a table.");
  c.def("stop", &bound::stop, "Asks the run to stop, from any thread. No more items are delivered.");
  c.def(
      "close", [](bound& self, bool drain) { drain ? self.drain() : self.close(); }, py::arg("drain") = false,
      "Stops the run and waits for its threads. With `drain` the iteration still yields the items that are "
      "ready, then "
      "ends; any thread and signal handler may ask for that, also while another thread waits for an item.");
  return c;
}

/// Bytes as a Python text: those that aren't UTF-8 as in os.fsdecode(). Needs Python's lock.
inline pybind11::str text_of(std::string_view bytes) { return detail::text_of(bytes); }

/// Among the `extra` of a pybind11::class_ whose objects refer to Python objects: shows these to Python's garbage collector, by the
/// class's `int traverse(visitproc visit, void* arg) const`, which calls Py_VISIT for each, and `void clear()`, which drops them.
template <class Class>
pybind11::custom_type_setup collected() {
  return detail::collected<Class>();
}

/// Adds PipelineError to the module of a package, whose name its text has. All loaders of the module and of its submodules raise
/// it. Without this call the first bind_loader() adds one.
inline void add_error(pybind11::module_& m, const char* package) { detail::prepare(m, package); }

} // namespace feedline::inline FEEDLINE_ABI::python

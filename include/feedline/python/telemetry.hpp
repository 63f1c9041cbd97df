// SPDX-License-Identifier: MIT
#pragma once
// bind_telemetry: a live view and reports of a loader in Python. It needs feedline::telemetry beside feedline::python.
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <pybind11/pybind11.h>
#include <pybind11/stl/filesystem.h>

#include <feedline/python/detail/bound_loader.hpp>
#include <feedline/telemetry/html_report.hpp>
#include <feedline/telemetry/live_view.hpp>
#include <feedline/telemetry/recorder.hpp>

namespace feedline::inline FEEDLINE_ABI {

namespace detail {

/// Watches each run of a loader, one after another, until it is closed. With Python's lock.
template <class Watcher, class Options>
class [[gnu::visibility("hidden")]] run_watcher final : public run_observer {
 public:
  explicit run_watcher(const Options& options) : options_(options) {}

  ~run_watcher() override { replace_by(nullptr); }

  void started(const run_handle& run) override {
    if constexpr (std::same_as<Watcher, live_view>) replace_by(nullptr); // only one draws on a terminal
    if (is_closed_) return;                                              // also meanwhile, by another thread
    replace_by(std::make_shared<Watcher>(run, options_));
  }

  void close() {
    is_closed_ = true;
    replace_by(nullptr);
  }

  /// Throws std::runtime_error if it is closed.
  void check_open() const {
    if (is_closed_) throw std::runtime_error("it was closed: ask the loader for another one");
  }

  /// That of the last run; null before the first.
  std::shared_ptr<const Watcher> watcher() const {
    check_open();
    return watcher_;
  }

 private:
  void replace_by(std::shared_ptr<Watcher> next) {
    next.swap(watcher_);
    const py::gil_scoped_release unlocked; // the last owner joins a thread
    next.reset();
  }

  Options options_;
  std::shared_ptr<Watcher> watcher_;
  bool is_closed_ = false;
};

using python_live_view = run_watcher<live_view, live_view_options>;
using python_recorder = run_watcher<recorder, recorder_options>;

/// Of a number of seconds, which must be from `least` to a day.
inline std::chrono::milliseconds milliseconds_of(const char* name, double seconds, double least) {
  if (!(seconds >= least && seconds <= 86'400))
    throw py::value_error(std::string(name) + " must be from " +
                          py::str(py::float_(least)).cast<std::string>() + " to 86400 seconds, not " +
                          py::str(py::float_(seconds)).cast<std::string>());
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// The Python class of a watcher, which the library that defines it shares among its modules.
template <class Watcher>
py::class_<Watcher, std::shared_ptr<Watcher>> watcher_class(py::module_& m, const char* name,
                                                            const char* doc) {
  return py::class_<Watcher, std::shared_ptr<Watcher>>(m, name, py::module_local(), doc)
      .def("__enter__",
           [](std::shared_ptr<Watcher> self) {
             self->check_open();
             return self;
           })
      .def("__exit__", [](Watcher& self, const py::args&) { self.close(); })
      .def("close", &Watcher::close, "Ends it. Also the end of a `with` block does.");
}

/// Defines both classes in the first module of a library that needs them.
inline void prepare_watchers(py::module_& m) {
  if (py::detail::get_type_handle(typeid(python_live_view), false)) return;
  watcher_class<python_live_view>(m, "LiveView", "Shows on the terminal what a loader's run does.");
  watcher_class<python_recorder>(m, "Recorder", "Records what a loader's run does.")
      .def(
          "report",
          [](const python_recorder& self, const std::filesystem::path& path) {
            std::shared_ptr<const recorder> run = self.watcher(); // which another thread may replace
            if (!run)
              throw std::runtime_error(
                  "there is nothing to report: no pass has run since the recorder was made");
            const py::gil_scoped_release unlocked;
            html_report(*run, path.string());
            run.reset();
          },
          py::arg("path"),
          "Writes a page of HTML about the current pass, or the last one: what limits it, the work of its "
          "stages and threads over time, how full its queues are, failures and memory.");
}

} // namespace detail

namespace python {

/// Adds two functions to a class that bind_loader has made in that module:
///
/// - `live_view(every=1.0)`: shows on the terminal what each run does, as feedline::live_view;
/// - `recorder(every=0.1, last=600.0)`: records each run, as feedline::recorder; its `report(path)` writes an html_report.
///
/// Both return an object for a `with` block, at whose end they end:
///
///     with loader.live_view(), loader.recorder() as record:
///         for batch in loader: step(batch)
///         record.report("report.html")
template <class Class, class... Options>
void bind_telemetry(pybind11::module_& m, pybind11::class_<Class, Options...> c) {
  namespace py = pybind11;
  detail::prepare_watchers(m);
  c.def(
      "live_view",
      [](Class& self, double every) {
        live_view_options options;
        options.every = detail::milliseconds_of("every", every, 0.01);
        options.every_line = std::max(options.every_line, options.every);
        return self.template observed<detail::python_live_view>(options);
      },
      py::arg("every") = 1.0,
      R"(Shows what each run does, in the last rows of the terminal, drawn anew after `every` seconds; above them the program's own output
scrolls. Where there is no terminal it prints a line now and then. It ends with what this returns: use it as a `with` block.)");
  c.def(
      "recorder",
      [](Class& self, double every, double last) {
        const recorder_options options{.every = detail::milliseconds_of("every", every, 0.001),
                                       .last = std::chrono::duration_cast<std::chrono::seconds>(
                                           detail::milliseconds_of("last", last, 1))};
        if (options.every > options.last) throw py::value_error("every must be at most last");
        return self.template observed<detail::python_recorder>(options);
      },
      py::arg("every") = 0.1, py::arg("last") = 600.0,
      R"(Records the numbers of each run in intervals of `every` seconds, from 0.001 on, and keeps those of the `last` seconds of the
current run, at most a day: about 10 kB an interval. report(path) of what this returns writes a page about them. It ends with that object:
use it as a `with` block.)");
}

} // namespace python

} // namespace feedline::inline FEEDLINE_ABI

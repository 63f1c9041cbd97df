// SPDX-License-Identifier: MIT
// What feedline.chess needs of the pipeline in ../chess_training: its options, the two kinds of chunk pools, and a loader for
// each. The folder feedline/chess has the checks and the documentation.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/python.hpp>
#include <feedline/python/telemetry.hpp>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "chess_training/blunders.hpp"
#include "chess_training/loader.hpp"
#include "parts.hpp"

namespace fl = feedline;
namespace py = pybind11;

namespace {

using chess::loader_options;
using live_pool = decltype(chess::live_pool("", 1));

std::string format_name(const loader_options& o) {
  using enum chess::record_format;
  return o.format == v6 ? "v6" : o.format == v7 ? "v7" : "any";
}

void set_format(loader_options& o, const std::string& name) {
  using enum chess::record_format;
  o.format = name == "v6" ? v6 : name == "v7" ? v7 : any;
}

} // namespace

void add_chess(py::module_& m) {
  using unlocked = py::call_guard<py::gil_scoped_release>;

  py::class_<loader_options>(m, "Options", py::module_local())
      .def(py::init<>())
      .def_readwrite("reservoir", &loader_options::reservoir)
      .def_readwrite("min_fill", &loader_options::min_fill)
      .def_readwrite("batch", &loader_options::batch)
      .def_readwrite("workers", &loader_options::workers)
      .def_readwrite("sampling", &loader_options::sampling)
      .def_readwrite("sampling_seed", &loader_options::sampling_seed)
      .def_readwrite("values", &loader_options::values)
      .def_property("format", &format_name, &set_format)
      .def("correct_blunders",
           [](loader_options& o, float threshold) { o.rescore = chess::blunder_rescorer(threshold); });

  py::class_<chess::chunk_sources>(m, "ChunkSources", py::module_local())
      .def(py::init([](const std::vector<std::string>& games) {
             return chess::chunk_sources(chess::find_files(games));
           }),
           unlocked())
      .def("__len__", &chess::chunk_sources::size)
      .def_property_readonly("problems", &chess::chunk_sources::problems);

  // The pool's thread takes Python's lock for on_notice, so nothing here may wait for that thread with the lock.
  py::class_<live_pool>(m, "LivePool", py::module_local())
      .def(py::init([](const std::string& folder, std::uint64_t window,
                       std::function<void(const std::string&)> on_notice) {
             const py::gil_scoped_release lock_is_free;
             return chess::live_pool(folder, window, std::move(on_notice));
           }),
           py::arg("folder"), py::arg("window"), py::arg("on_notice") = py::none())
      .def(
          "__len__", [](const live_pool& p) { return p.status().chunks; }, unlocked())
      .def("anchor", &live_pool::anchor, unlocked())
      .def("set_anchor", &live_pool::set_anchor, unlocked())
      .def("reset_anchor", &live_pool::reset_anchor, unlocked())
      .def("chunks_since_anchor", &live_pool::chunks_since_anchor, unlocked());

  fl::python::bind_telemetry(m, fl::python::bind_loader(
                                    m, "Loader",
                                    [](const chess::chunk_sources& sources, const loader_options& o) {
                                      return chess::batches_from(fl::from(sources) | fl::global_shuffle(), o);
                                    },
                                    py::arg("sources"), py::arg("options")));
  fl::python::bind_telemetry(
      m, fl::python::bind_loader(
             m, "LiveLoader",
             [](const live_pool& pool, const loader_options& o) { return chess::live_batches(pool, o); },
             py::arg("pool"), py::arg("options")));
  m.attr("no_failure_limit") = fl::no_failure_limit;
  m.attr("most_workers") = std::size_t{fl::workers::limit};
}

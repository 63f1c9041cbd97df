// SPDX-License-Identifier: MIT
// The module feedline._native, which the package feedline shows.
#include <string>

#include <feedline/python.hpp>
#include <feedline/version.hpp>
#include <pybind11/pybind11.h>

#include "parts.hpp"

namespace fl = feedline;

PYBIND11_MODULE(_native, m) {
  fl::python::add_error(m, "feedline");
  m.attr("__version__") = std::to_string(fl::version_major) + "." + std::to_string(fl::version_minor) + "." +
                          std::to_string(fl::version_patch);
  const auto add = [&](const char* name, void (*part)(pybind11::module_&)) {
    pybind11::module_ submodule = m.def_submodule(name);
    submodule.attr("__name__") = std::string("feedline.") + name; // where users find its classes
    part(submodule);
  };
  add("pipeline", add_pipeline);
  add("text", add_text);
#ifdef WITH_IMAGES
  add("images", add_images);
#endif
#ifdef WITH_ARROW
  add("arrow", add_arrow);
#endif
#ifdef WITH_AUDIO
  add("audio", add_audio);
#endif
#ifdef WITH_CHESS
  add("chess", add_chess);
#endif
}

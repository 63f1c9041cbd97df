// SPDX-License-Identifier: MIT
#include <vector>

#include <feedline/python/bind_loader.hpp>
#include <feedline/source/range.hpp>

namespace fl = feedline;

void add_loader(pybind11::module_& m) {
  const auto make = [](int count, int first) {
    return fl::from(std::vector<int>(static_cast<std::size_t>(count), first));
  };
#ifdef FEEDLINE_COMPILE_PASS
  fl::python::bind_loader(m, "Numbers", make, pybind11::arg("count"), pybind11::arg("first") = 0);
#else
  // expect: bind_loader needs a pybind11::arg for each parameter of its function
  fl::python::bind_loader(m, "Numbers", make, pybind11::arg("count"));
#endif
}

// SPDX-License-Identifier: MIT
#include <string>
#include <vector>

#include <feedline/feedline.hpp>
#include <feedline/python.hpp>

namespace fl = feedline;

PYBIND11_MODULE(uses_python, m) {
  fl::python::bind_loader(
      m, "Loader", [](const std::vector<int>& numbers) { return fl::from(numbers) | fl::batch(2); },
      pybind11::arg("numbers"));
}

// SPDX-License-Identifier: MIT
#include <memory>
#include <vector>

#include <feedline/python/bind_loader.hpp>
#include <feedline/source/range.hpp>
#include <feedline/stage/map.hpp>

namespace fl = feedline;

struct picture {
  int label;
#ifdef FEEDLINE_COMPILE_PASS
  std::vector<float> pixels;
#else
  std::shared_ptr<float> pixels;
#endif
};

void add_loader(pybind11::module_& m) {
  const auto make = [](int count) {
    return fl::from(std::vector<int>(static_cast<std::size_t>(count))) |
           fl::map([](int) { return picture(); });
  };
  // expect: `item`, which the pipeline of bind_loader yields, can't become Python objects
  // expect: item<
  // expect: picture
  fl::python::bind_loader(m, "Pictures", make, pybind11::arg("count"));
}
